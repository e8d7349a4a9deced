"""What stores and shippers call the members of a record: the line, its time, its host, its program, its container.

Names with dots may be flat (``"host.name"``) or nested. The likeliest stand first.
"""

from __future__ import annotations

from typing import Final

# Where the line stands. ``msg`` is the word of agents; only some stores use it.
TEXT: Final = (
    *("MESSAGE", "message", "log", "_raw", "textPayload", "line", "_msg", "@message", "event.original"),
    *("log.original", "body.stringValue", "full_message", "short_message", "SyslogMessage"),
)
# The device's own time before that of whoever received the line.
TIME: Final = (
    *("__REALTIME_TIMESTAMP", "@timestamp", "timestamp", "_time", "date", "time", "ts", "timeUnixNano", "receivedAt"),
    *("_SOURCE_REALTIME_TIMESTAMP", "SOURCE_REALTIME_TIMESTAMP", "ISODATE", "timereported", "EventTime"),
    *("TimeGenerated", "generated_at", "received_at"),
)
HOST: Final = (
    *("_HOSTNAME", "HOSTNAME", "host.name", "host.hostname", "host", "hostname", "kubernetes.node.name"),
    *("kubernetes.host", "kubernetes.node_name", "k8s.node.name", "node_name", "nodeName", "nodename", "node"),
    *("kubernetes.pod_node_name", "kubernetes_node_name", "kubernetes_host", "k8s_node_name", "agent.hostname"),
    *("beat.hostname", "agent.name", "machine", "Hostname", "HostName", "HOST", "Computer", "instance"),
    *("compute.googleapis.com/resource_name", "compute_googleapis_com_resource_name"),
    *("instance_name", "cloud.instance.name"),
)
PROGRAM: Final = (
    *("SYSLOG_IDENTIFIER", "syslog_identifier", "syslog.identifier", "log.syslog.appname", "appname", "ident"),
    *("program", "programname", "PROGRAM", "_program", "ProcessName"),
)
TRANSPORT: Final = ("_TRANSPORT", "TRANSPORT", "transport", "systemd.transport", "__journal__transport")
FACILITY: Final = (
    *("SYSLOG_FACILITY", "log.syslog.facility.code", "syslog_facility", "syslogfacility", "facility", "FACILITY"),
    *("Facility", "fac"),
)
# Any of these says that the line is the output of a container.
CONTAINER: Final = (
    *("kubernetes.container_name", "kubernetes.container.name", "kubernetes.pod_name", "kubernetes.pod.name"),
    *("kubernetes_container_name", "kubernetes_pod_name", "container", "container_name", "container_id"),
    *("container.id", "pod", "pod_name", "podName", "containerName", "k8s.pod.name", "docker", "logtag"),
)
CONTAINER_SOURCES: Final = frozenset({"kubernetes_logs", "docker_logs", "k8s_container"})
# Words of a program that logs its own doings as JSON; a store that has them too also has one of its own words.
OF_AGENTS: Final = frozenset({"level", "logger", "caller", "lvl"})
OF_STORES: Final = frozenset(
    {"@timestamp", "_raw", "_msg", "source_type", "textPayload", "ingestionTime", "logStreamName", "labels", "tag"}
    | {"short_message", "SyslogMessage", "ISODATE", "rawmsg"}
)
