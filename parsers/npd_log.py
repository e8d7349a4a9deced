"""The log of node-problem-detector itself, as ``kubectl logs`` and the journal of its host have it.

    I0303 07:15:43.884452    3240 log_monitor.go:160] New status generated: &{Source:kernel-monitor Events:[
    {Severity:warn Timestamp:2026-03-03 07:15:42.43504385 +0000 UTC m=+8477.413334661 Reason:OOMKilling
    Message:Memory cgroup out of memory: Killed process 4242 (python3) ...}] Conditions:[{Type:KernelDeadlock
    Status:False ...}]}                                                                                   (one line)

Go prints the status with ``%+v``. Each event is a check, with the time of the kernel's record and, for a custom plugin,
the condition that changed; an Xid that it passes on is a row of its own. The conditions behind the events only repeat
what is known. https://github.com/kubernetes/node-problem-detector
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.clock import NO_CLOCK, Reading
from aftershock.parsers.documents.relayed_xid import relayed_error
from aftershock.parsers.envelopes.syslog import iso_reading
from aftershock.parsers.formats import Found, Head, Line, LineFormat, Refused, Sample, expect
from aftershock.parsers.kernel.text import is_by
from aftershock.schemas.events import HealthCheck

# The logger of Kubernetes puts level, date, thread and place in the code before the words.
_STATUS: Final = re.compile(
    rb"(?:[IWEF]\d{4} [\d:.]{8,15} {1,8}\d{1,10} [\w.-]{1,64}:\d{1,6}\] )?"
    rb"New status generated: &\{Source:[\w.-]{1,128} Events:\["
)
_EVENT: Final = re.compile(
    rb"\{Severity:(?P<severity>warn|info) Timestamp:(?P<day>\d{4}-\d\d-\d\d) (?P<second>\d\d:\d\d:\d\d(?:\.\d{1,9})?) "
    rb"(?P<zone>[+-]\d{4}) \S{1,8}(?: m=[+-][\d.]{1,24})? Reason:(?P<reason>[\w.-]{1,128}) Message:"
)
# Its program, and the script that starts it on the hosts of some clouds.
_WRITERS: Final = ("node-problem-detector",)
_END: Final = b"}] Conditions:["
_CONDITION: Final = re.compile(rb"Node condition (?P<name>[\w.-]{1,128}) is now: (?P<status>True|False|Unknown)\b")
_RESULTS: Final = {b"True": "fail", b"False": "pass", b"Unknown": "skip"}


def read(line: Line) -> Iterator[Found | Refused]:
    """A check for each event of a status, and the Xid errors that they pass on."""
    message = line.envelope.message
    status = _STATUS.match(message)
    if status is None or not is_by(line.envelope, _WRITERS):
        return
    end = message.find(_END, status.end())
    if end < 0:
        if message[status.end() : status.end() + 1] == b"{":
            yield Refused(line.offset, len(line.text), "npd: the status breaks off", message[:512])
        return
    events = list(_EVENT.finditer(message, status.end(), end))
    if not events or events[0].start() > status.end():
        yield Refused(line.offset, len(line.text), "npd: an event with other fields", message[status.end() :][:512])
    for number, event in enumerate(events):
        stop = events[number + 1].start() - len(b"} ") if number + 1 < len(events) else end
        yield from _rows(line, event, message[event.end() : stop])


def _rows(line: Line, event: re.Match[bytes], said: bytes) -> Iterator[Found]:
    text = said.decode("utf-8", "backslashreplace")
    error = relayed_error(text)
    condition = _CONDITION.match(said)
    result = _RESULTS[condition["status"]] if condition else "warn" if event["severity"] == b"warn" else "pass"
    check = HealthCheck(
        host_raw=line.envelope.host,
        checker="npd",
        check=(condition["name"] if condition else event["reason"]).decode("ascii"),
        result=result,
        pci=error.pci if error else None,
        detail=text or None,
        message=text,
    )
    reading = _reading(event)
    yield Found(check, reading, line.offset)
    if error is not None:
        error.host_raw = line.envelope.host
        yield Found(error, reading, line.offset)


def _reading(event: re.Match[bytes]) -> Reading:
    zone = event["zone"]
    stamp = b"%bT%b%b:%b" % (event["day"], event["second"], zone[:3], zone[3:])
    reading = iso_reading(stamp)
    return NO_CLOCK if reading is None else reading._replace(text=f"{event['day'].decode()} {event['second'].decode()}")


def detects(head: Head) -> float:
    """Sure where it tells what it found."""
    return 0.9 if any(_STATUS.match(line) for line in head.lines()) else 0.0


FORMAT = LineFormat(
    name="npd_log",
    doc="The log of node-problem-detector: a check for each problem that it found on its host, and the Xid errors that "
    "it passes on. What it told the cluster is read from Kubernetes' objects.",
    url="https://github.com/kubernetes/node-problem-detector",
    tables=("health_checks", "gpu_errors"),
    detects=detects,
    signatures=(rb"New status generated: &\{Source:",),
    read=read,
    samples=(
        Sample(
            "I0303 07:15:43.884452    3240 log_monitor.go:160] New status generated: &{Source:kernel-monitor Events:["
            "{Severity:warn Timestamp:2026-03-03 07:15:42.250435 +0000 UTC m=+8477.413334661 Reason:XidError "
            "Message:NVRM: Xid (PCI:0000:9d:00): 79, pid=4242, name=python3, GPU has fallen off the bus.} "
            "{Severity:warn Timestamp:2026-03-03 07:15:43 +0000 UTC Reason:TaskHung Message:INFO: task python3:4242 "
            "blocked for more than 120 seconds.}] Conditions:[{Type:KernelDeadlock Status:False Transition:2026-03-01 "
            "00:00:00 +0000 UTC Reason:KernelHasNoDeadlock Message:kernel has no deadlock}]}\n",
            (
                expect(
                    "health_checks",
                    checker="npd",
                    check="XidError",
                    result="warn",
                    pci="0000:9d:00.0",
                    time=1772522142250435,
                ),
                expect("gpu_errors", code=79, pid=4242, trust="relayed", time=1772522142250435),
                expect("health_checks", check="TaskHung", result="warn", time=1772522143000000),
            ),
        ),
        Sample(
            "Mar  3 07:15:43 gpu021 node-problem-detector-startup.sh[3240]: I0303 07:15:43.266806    3240 "
            "custom_plugin_monitor.go:280] New status generated: &{Source:gpu-custom-plugin-monitor Events:["
            "{Severity:info Timestamp:2026-03-03 16:15:42 +0900 KST m=+1.1 Reason:GPUsAreUp Message:Node condition "
            "GPUProblem is now: False, reason: GPUsAreUp}] Conditions:[]}\n",
            (expect("health_checks", check="GPUProblem", result="pass", host="gpu021", time=1772522142000000),),
            "Of a plugin, in the journal of its host",
        ),
    ),
    non_samples=(
        "I0303 07:15:43.884452    3240 log_monitor.go:160] New status generated: &{Source:kernel-monitor Events:[] "
        "Conditions:[{Type:KernelDeadlock Status:False}]}\n",
        "We see New status generated: &{Source:kernel-monitor Events:[{Severity:warn Timestamp:2026-03-03 07:15:42 "
        "+0000 UTC Reason:XidError Message:x}] Conditions:[]}\n",
        "Mar  3 07:15:43 gpu021 python3[71]: New status generated: &{Source:kernel-monitor Events:[{Severity:warn "
        "Timestamp:2026-03-03 07:15:42 +0000 UTC Reason:XidError Message:x}] Conditions:[]}\n",
        'klog.Infof("New status generated: &{Source:%v Events:[%v] Conditions:[%v]}", a, b, c)\n',
        "I0303 07:15:43.884452    3240 log_monitor.go:160] New status generated: &{Source:kernel-monitor Events:[{S\n",
    ),
)
