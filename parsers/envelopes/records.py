"""Records of log stores and shippers: the line, and what the store says about it, as one JSON object.

    {"_source":{"@timestamp":"2026-03-01T12:00:00Z","message":"...","host":{"name":"n1"}}}    Elasticsearch, OpenSearch
    {"labels":{"host":"n1"},"line":"...","timestamp":"2026-03-01T12:00:00Z"}                  logcli -o jsonl
    {"timestamp":1772366400000,"message":"...","logStreamName":"n1"}                          CloudWatch
    {"preview":false,"result":{"_raw":"...","_time":"2026-03-01T12:00:00.000+00:00"}}         Splunk
    {"date":1772366400.5,"log":"..."}   [1772366400.5,{"log":"..."}]                          Fluent Bit
    {"message":"...","timestamp":"...","host":"n1","source_type":"journald"}                  Vector
    {"jsonPayload":{"message":"..."},"timestamp":"...","resource":{"labels":{}}}              Google Cloud Logging
    {"Computer":"n1","Facility":"kern","SyslogMessage":"...","TimeGenerated":"..."}           Azure Monitor
    {"msg":"...","rawmsg":"...","timereported":"...","hostname":"n1","programname":"kernel"}  rsyslog, all of a message
    {"MESSAGE":"...","HOST":"n1","PROGRAM":"kernel","ISODATE":"..."}                          syslog-ng
    {"pri":4,"time":77.000001,"msg":"..."}                                                    dmesg --json

Whose time it is: what stands inside the line wins over what the store says. The time that a store keeps is the time of
the event if nothing inside says one and the line came from the kernel, the journal, syslog or a file of a host. For the
output of a container it is only when that was collected, an upper bound: it goes to ``labels`` under ``collected``, as
docker's and CRI's own stamps do. So it does where the object is the record of an agent about something that it noticed.

https://www.elastic.co/guide/en/ecs/current/, https://grafana.com/docs/loki/latest/reference/loki-http-api/,
https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_FilterLogEvents.html,
https://docs.fluentbit.io/manual/data-pipeline/outputs/, https://vector.dev/docs/reference/configuration/sources/,
https://docs.cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from aftershock.parsers.clock import NO_CLOCK, SECOND, Reading
from aftershock.parsers.envelopes.dmesg import peel_bracket
from aftershock.parsers.envelopes.layer import FACILITIES, LEVELS, Layer
from aftershock.parsers.envelopes.origin import LONGEST_STREAM, Members, member, says_kernel
from aftershock.parsers.envelopes.record_names import (
    CONTAINER,
    CONTAINER_SOURCES,
    FACILITY,
    HOST,
    OF_AGENTS,
    OF_STORES,
    PROGRAM,
    TEXT,
    TIME,
    TRANSPORT,
)
from aftershock.parsers.envelopes.syslog import iso_reading
from aftershock.parsers.envelopes.talk import is_talk

# The names of the layers that are made here: whoever passes such a line on is not the kernel.
STORES: Final = frozenset(
    {"elastic", "loki", "cloudwatch", "splunk", "fluent", "vector", "gcp", "otlp", "azure", "rsyslog", "stored"}
)

_OUTPUTS: Final = frozenset({"stdout", "stderr"})

_DIGITS: Final = re.compile(r"-?\d{1,20}(?:\.\d{1,9})?")
# Stamps that are almost ISO: a blank instead of T, and UTC in a word.
_ALMOST_ISO: Final = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:[.,]\d{1,9})?) ?(UTC|GMT|Z|[+-]\d\d:?\d\d)?")
# Labels as one string: in old pushes to Loki, and in VictoriaLogs.
_LABELS: Final = re.compile(r'([A-Za-z_]\w{0,99})="((?:[^"\\]|\\.){0,400})"')
# Larger numbers count from 1970.
_LONGEST_UPTIME_S: Final = 1_000_000_000
_PORT: Final = re.compile(r":\d{1,5}\Z")
# Names of log streams that are hosts: of EC2, or one word with a number in it. Others name containers or dates.
_EC2_HOST: Final = re.compile(r"(?:.*[/.])?(ip-\d{1,3}(?:-\d{1,3}){3})\b|(i-[0-9a-f]{8,17})(?:[/._-].*)?")
_WORD_HOST: Final = re.compile(r"[a-z][a-z0-9]*(?:-?[a-z]+)*-?\d{1,6}(?:\.[a-z0-9.-]+)?")
_KERNEL_PART: Final = re.compile(r"kern(?:\.log)?|kernel|kmsg|dmesg|messages|syslog|journal|var|log")
# A line that says nothing about its writer.
_BARE: Final = re.compile(rb"NVRM: |nvidia-nvswitch\d")


class _Record(NamedTuple):
    """The members that hold the line, the name of the layer, and what stands around, the nearest first."""

    name: str
    members: Members
    around: tuple[Members, ...] = ()


def peel_record(value: Any, around: Sequence[Members] = ()) -> Layer | None:
    """The layer of a record of a store; None if the value is none.

    ``around``: the members of the objects that hold it, the nearest first: labels of a Loki stream, of a log stream.
    """
    if isinstance(value, dict) and {"pri", "time", "msg"} <= value.keys():
        return _of_dmesg(value)
    record = _record_of(value)
    if record is None:
        return None
    text = _text_of(record.members)
    if text is None:
        return None
    facts = _with_labels((record.members, *record.around, *around))
    host = _host_of(facts)
    if record.name != "elastic" and is_talk(record.members):
        return None
    if record.name == "stored" and not _is_stored(record.members, host, around):
        return None
    return _layer(record.name, text, facts, host)


def _of_dmesg(value: Members) -> Layer | None:
    """A record of ``dmesg --json``: its time is any of those that dmesg prints, the number is in seconds since boot."""
    text, time, priority = value["msg"], value["time"], value["pri"]
    if not isinstance(text, str):
        return None
    if isinstance(time, (int, float)) and 0 <= time < _LONGEST_UPTIME_S:
        stamp = Layer("", b"", Reading("none", None, round(time * SECOND), None, 1, f"{time:.6f}"))
    else:
        printed = str(time).strip().strip("[]").encode("utf-8", "replace")
        iso = iso_reading(printed)
        stamp = Layer("", b"", iso) if iso else peel_bracket(b"[" + printed + b"]") or Layer("", b"")
    facility, level = _number(value, "pri"), None
    if facility is not None:
        facility, level = facility >> 3, facility & 7
    else:
        facility, level = _facility((value,)), LEVELS.get(str(priority).encode("ascii", "replace"))
    return Layer("dmesg", text.encode("utf-8", "surrogatepass"), stamp.reading, facility=facility, level=level)


def _with_labels(facts: tuple[Members, ...]) -> tuple[Members, ...]:
    """The facts, and those that stand in labels printed as one string."""
    printed = (members.get(name) for members in facts for name in ("labels", "_stream"))
    return facts + tuple(dict(_LABELS.findall(text)) for text in printed if isinstance(text, str))


def host_in(members: Members) -> str | None:
    """The host that a record names, as printed."""
    return _host_of((members,))


def time_of(members: Members) -> Reading:
    """The time that a record states for itself."""
    return _reading((members,))


def is_output_of_container(facts: Iterable[Members]) -> bool:
    """Whether a line was printed by a container: its stamp says when that was collected."""
    return any(_is_container(members) for members in facts)


def reading_of(value: Any) -> Reading | None:
    """A time of a record: seconds, milli-, micro- or nanoseconds since 1970 by their size, or ISO 8601."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return _epoch(repr(value) if isinstance(value, float) else str(value))
    if isinstance(value, str):
        if _DIGITS.fullmatch(value):
            return _epoch(value)
        stamp = _ALMOST_ISO.fullmatch(value.strip())
        if stamp is not None:
            zone = {"UTC": "Z", "GMT": "Z", None: ""}.get(stamp[3], stamp[3])
            reading = iso_reading(f"{stamp[1]}T{stamp[2]}{zone}".encode())
            return None if reading is None else reading._replace(text=value)
    if isinstance(value, list) and value:
        return reading_of(value[0])
    return None


def _record_of(value: Any) -> _Record | None:
    if isinstance(value, list):
        return _pair(value)
    if not isinstance(value, dict):
        return None
    source = value.get("_source", value.get("fields") if "_index" in value else None)
    if isinstance(source, dict):
        return _Record("elastic", source)
    result = value.get("result")
    if isinstance(result, dict) and ("_raw" in result or "_time" in result):
        return _Record("splunk", result)
    if "event" in value and ("sourcetype" in value or ("time" in value and "host" in value)):
        event = value["event"]
        return _Record("splunk", event if isinstance(event, dict) else {"_raw": event}, (value,))
    payload = value.get("jsonPayload")
    if isinstance(payload, dict) or isinstance(value.get("textPayload"), str):
        resource = value.get("resource")
        labels = resource.get("labels") if isinstance(resource, dict) else None
        beside = tuple(m for m in (value.get("labels"), labels, resource, value) if isinstance(m, dict))
        return _Record("gcp", payload if isinstance(payload, dict) else value, beside)
    attributes = value.get("attributes")
    if isinstance(attributes, dict) and "message" in attributes:
        return _Record("stored", attributes, ({"labels": {}}, value))
    labels = next((m for name in ("labels", "stream", "fields") if isinstance(m := value.get(name), dict)), None)
    if labels is not None and isinstance(value.get("line"), str):
        return _Record("loki", value, (labels,))
    if isinstance(member(value, "body.stringValue"), str):
        return _Record("otlp", value)
    return _Record(_name_of(value), value)


def _name_of(value: Members) -> str:
    if "_raw" in value:
        return "splunk"
    if "source_type" in value:
        return "vector"
    if "SyslogMessage" in value:
        return "azure"
    if "rawmsg" in value:
        return "rsyslog"
    if "date" in value:
        return "fluent"
    stamp = value.get("timestamp")
    if type(stamp) is int and len(str(stamp)) == 13 and "message" in value and OF_AGENTS.isdisjoint(value):
        return "cloudwatch"
    if "ingestionTime" in value or "logStreamName" in value or "@message" in value:
        return "cloudwatch"
    return "elastic" if "@timestamp" in value else "stored"


def _pair(value: list[Any]) -> _Record | None:
    """``[time, {...}]`` and ``[[time, {...}], {...}]`` of Fluent Bit, ``["ns", "line", {...}]`` of Loki."""
    if value and all(isinstance(part, dict) and "field" in part and "value" in part for part in value):
        return _Record("cloudwatch", {part["field"]: part["value"] for part in value})
    if len(value) < 2:
        return None
    stamp, text, *rest = value
    if isinstance(stamp, list) and stamp:
        stamp = stamp[0]
    if isinstance(text, dict) and isinstance(stamp, (int, float, str)):
        return _Record("fluent", text, ({"date": stamp},))
    if isinstance(text, str) and isinstance(stamp, str) and stamp.isdigit():
        extra = tuple(part for part in rest if isinstance(part, dict))
        return _Record("loki", {"line": text, "timestamp": stamp}, extra)
    return None


def _text_of(members: Members) -> bytes | None:
    for name in TEXT:
        value = member(members, name)
        if isinstance(value, str):
            return value.encode("utf-8", "surrogatepass")
        if name == "MESSAGE" and isinstance(value, list):
            try:
                return bytes(value)
            except (TypeError, ValueError):
                continue
    # The kmsg input of Fluent Bit; rsyslog, which keeps the blank before the message
    if isinstance(members.get("msg"), str) and not {"sequence", "usec", "rawmsg"}.isdisjoint(members):
        return str(members["msg"]).strip(" ").encode("utf-8", "surrogatepass")
    return None


def _is_stored(members: Members, host: str | None, around: Sequence[Members]) -> bool:
    """Whether an object without a word of a known store is one all the same, and not an agent's own record."""
    if not OF_STORES.isdisjoint(members) or any(around):
        return True
    return host is not None and OF_AGENTS.isdisjoint(members)


def _layer(name: str, text: bytes, facts: Sequence[Members], host: str | None) -> Layer:
    own = facts[0]
    transport = _first_word(facts, TRANSPORT)
    tag = _first_word(facts, PROGRAM)
    from_kmsg = "usec" in own and "sec" in own
    if tag is None and (transport == "kernel" or from_kmsg or any(m.get("unit") == "kernel" for m in facts)):
        tag = "kernel"
    if tag is None and _BARE.match(text) and says_kernel(facts):
        tag = "kernel"
    labels = {"transport": transport} if transport else {}
    reading = _reading(facts)
    if name == "cloudwatch" and reading.kind == "local":
        reading = reading._replace(kind="zoned")  # Insights prints UTC and does not say so
    if is_output_of_container(facts):
        labels["collected"] = reading.text or ""
        stream = _first_word(facts, ("stream",))
        if stream in _OUTPUTS:
            labels["stream"] = stream
        reading = NO_CLOCK
    elif not OF_AGENTS.isdisjoint(own) and OF_STORES.isdisjoint(own) and transport is None:
        labels["collected"] = reading.text or ""
        reading = NO_CLOCK
    return Layer(
        name,
        text.rstrip(b"\r\n"),
        _with_boot(reading, own),
        host,
        tag,
        _facility(facts),
        None,
        labels or None,
        open=tag is None,
        weak=True,
    )


def _reading(facts: Sequence[Members]) -> Reading:
    for members in facts:
        for name in TIME:
            reading = reading_of(member(members, name))
            if reading is not None and reading.wall is not None:
                return reading
    return NO_CLOCK


def _with_boot(reading: Reading, own: Members) -> Reading:
    boot = _number(own, "_SOURCE_MONOTONIC_TIMESTAMP")
    if boot is None:
        boot = _number(own, "__MONOTONIC_TIMESTAMP")
    if boot is None and "usec" in own:
        seconds, micros = _number(own, "sec"), _number(own, "usec")
        boot = None if seconds is None or micros is None else seconds * SECOND + micros
    return reading if boot is None else reading._replace(boot=boot)


def _epoch(printed: str) -> Reading | None:
    """Seconds, or a count of a smaller unit: no log is from before 2001 or after 2286, so the size tells which."""
    if "e" in printed or printed.startswith("-"):
        return None
    whole, _, fraction = printed.partition(".")
    digits = len(whole)
    if digits == 10:
        micros = int(whole) * SECOND + int((fraction + "000000")[:6])
        return Reading("epoch", micros, None, None, 10 ** max(0, 6 - len(fraction)), printed)
    scale = {13: 3, 16: 0, 19: -3}.get(digits)
    if scale is None:
        return None
    value = int(whole)
    micros = value * 10**scale if scale >= 0 else value // 1000
    return Reading("epoch", micros, None, None, 1000 if scale == 3 else 1, printed)


def _host_of(facts: Sequence[Members]) -> str | None:
    for members in facts:
        for name in HOST:
            value = member(members, name)
            if isinstance(value, str) and value and value not in ("localhost", "-"):
                return _PORT.sub("", value) if name == "instance" else value
    for members in facts:
        attributes = members.get("attributes") or member(members, "resource.attributes")
        attributes = [attributes] if isinstance(attributes, dict) else attributes
        if isinstance(attributes, list):
            named = {a.get("key"): member(a, "value.stringValue") for a in attributes if isinstance(a, dict)}
            host = named.get("host.name") or named.get("k8s.node.name")
            if isinstance(host, str):
                return host
    for members in facts:
        for name in ("logStreamName", "logStream", "@logStream"):
            stream = members.get(name)
            if isinstance(stream, str) and len(stream) <= LONGEST_STREAM:
                ec2 = _EC2_HOST.match(stream)
                if ec2 is not None:
                    return ec2[1] or ec2[2]
                if _WORD_HOST.fullmatch(stream):
                    return stream
                parts = stream.split("/")
                hosts = [part for part in parts if not _KERNEL_PART.fullmatch(part)]
                if len(hosts) == 1 < len(parts) and _WORD_HOST.fullmatch(hosts[0]):
                    return hosts[0]
    return None


def _is_container(members: Members) -> bool:
    if any(member(members, name) not in (None, "", {}) for name in CONTAINER):
        return True
    stream = members.get("stream")
    if isinstance(stream, str) and stream in _OUTPUTS:
        return True
    return members.get("source_type") in CONTAINER_SOURCES or members.get("type") in CONTAINER_SOURCES


def _first_word(facts: Sequence[Members], names: Sequence[str]) -> str | None:
    for members in facts:
        for name in names:
            value = member(members, name)
            if isinstance(value, str) and value:
                return value
    return None


def _facility(facts: Sequence[Members]) -> int | None:
    for members in facts:
        for name in FACILITY:
            value = member(members, name)
            if isinstance(value, str) and value.encode("utf-8", "replace") in FACILITIES:
                return FACILITIES[value.encode()]
            number = _number(members, name)
            if number is not None and number < 24:
                return number
    return None


def _number(members: Members, name: str) -> int | None:
    value = member(members, name)
    if isinstance(value, str) and len(value) <= 17 and value.isascii() and value.isdigit():
        return int(value)
    return value if type(value) is int and 0 <= value < 10**17 else None
