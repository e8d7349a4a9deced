"""Node Health Check (NHC): what its log, syslog and the daemons that run it say about the checks of a node.

    [1772435289] - Running check:  "check_hw_physmem 1024 1073741824"
    [1772435291] - ERROR:  nhc:  Health check failed:  check_fs_mount:  /scratch not mounted
    Node Health Check completed successfully (1s).
    slurmd: error: health_check failed: rc:1 output:ERROR:  nhc:  Health check failed:  check_ps_service:  ...

Documented at https://github.com/mej/nhc. A check that was begun and not followed by a failure has passed once the next
one begins or the run is complete. With a time stamp the log prints seconds since 1970 in brackets.
slurmd itself says that a prolog or epilog failed: https://slurm.schedmd.com/prolog_epilog.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.clock import SECOND, Reading
from aftershock.parsers.formats import Found, Head, Line, LineFormat, Refused, Sample, expect
from aftershock.schemas.events import HealthCheck

# Marks by which ``settle`` knows a check that was begun, one that failed, and the end of a run.
_BEGUN, _FAILED, _COMPLETE = "begun", "failed", "complete"

_STAMP: Final = re.compile(rb"\[(\d{9,10})\] - ")
_RELAY: Final = re.compile(
    rb"(?:slurmd: )?(?:error: )?(?:\[job \d{1,10}\] )?(?:health_check|prolog|epilog)\w* failed:? (?:rc:\d{1,5} "
    rb")?output: ?"
)
_FAILURE: Final = re.compile(
    rb"(?:(?P<name>ERROR:? +[\w./-]{1,40}:?|ERROR) +)?Health check failed: {1,3}"
    rb"(?:(?P<check>check_\w{1,60}|[A-Za-z]\w{0,60}): +)?(?P<text>\S.{0,4000})\Z"
)
_RUNNING: Final = re.compile(
    rb'Running check: +"(?P<check>\w{1,80})(?P<args>[^"\n]{0,1000})"(?: \(forked PID \d+\))?\s*\Z'
)
_DONE: Final = re.compile(rb"Node Health Check completed successfully \((?P<seconds>\d{1,9})s\)\.?\s*\Z")
_SCRIPT: Final = re.compile(
    rb"(?:slurmd: )?error: (?:\[job (?P<job>\d{1,10})\] )?(?P<script>prolog|epilog) failed:? "
    rb"status=(?P<status>\d{1,5}(?::\d{1,5})?)"
)
# Programs that may say so: NHC itself (under the names it is installed by), and the daemons that run it.
_TAGS: Final = frozenset({"nhc", "nhc-wrapper", "node-health-check", "slurmd", "pbs_mom", "slurm"})


def read(line: Line) -> Iterator[Found | Refused]:
    """The row of one line: a check begun or failed, or a run that is complete."""
    envelope = line.envelope
    if envelope.tag is not None and envelope.tag not in _TAGS:
        return
    message, reading = envelope.message.strip(), envelope.reading
    stamp = _STAMP.match(message)
    if stamp is not None:
        message = message[stamp.end() :]
        reading = Reading("epoch", int(stamp[1]) * SECOND, None, None, SECOND, stamp[1].decode("ascii"))
    relay = _RELAY.match(message)
    said = message[relay.end() :] if relay is not None else message
    row, mark = _row(said, trusted=envelope.tag is not None or relay is not None)
    if row is None:
        return
    row.host_raw = envelope.host
    row.message = message.decode("utf-8", "backslashreplace")
    yield Found(row, reading, line.offset, mark)


def _row(message: bytes, *, trusted: bool) -> tuple[HealthCheck | None, str]:
    failure = _FAILURE.match(message)
    if failure is not None:
        # "Health check failed" alone is what many programs say; NHC names itself or its check.
        if not (trusted or failure["name"] or (failure["check"] or b"").startswith(b"check_")):
            return None, ""
        check = _text(failure["check"]) if failure["check"] else None
        return HealthCheck(checker="nhc", check=check, result="fail", detail=_text(failure["text"])), _FAILED
    running = _RUNNING.match(message)
    if running is not None:
        args = _text(running["args"].strip()) or None
        return HealthCheck(checker="nhc", check=_text(running["check"]), result="pass", device=args), _BEGUN
    done = _DONE.match(message)
    if done is not None:
        row = HealthCheck(
            checker="nhc", check="node_health_check", result="pass", value=float(done["seconds"]), unit="s"
        )
        return row, _COMPLETE
    script = _SCRIPT.match(message)
    if script is not None:
        kind, status = _text(script["script"]), _text(script["status"])
        job = f"job {_text(script['job'])}, " if script["job"] else ""
        row = HealthCheck(checker=kind, check=kind, result="fail", detail=f"{job}status {status}")
        return row, ""
    return None, ""


def settle(found: list[Found]) -> list[Found]:
    """Give failures the check that was running, and drop what was begun and never known to have ended."""
    begun: dict[str | None, Found] = {}
    passed: set[int] = set()
    for item in found:
        row = item.row
        if not isinstance(row, HealthCheck) or not item.mark:
            continue
        before = begun.pop(row.host_raw, None)
        if item.mark == _FAILED:
            running = before.row if before is not None and isinstance(before.row, HealthCheck) else None
            if running is not None and row.check in (None, running.check):
                row.check, row.device = running.check, running.device
            row.check = row.check or "node_health_check"
            continue
        if before is not None:
            passed.add(id(before))
        if item.mark == _BEGUN:
            begun[row.host_raw] = item
    return [item for item in found if item.mark != _BEGUN or id(item) in passed]


def detects(head: Head) -> float:
    """How much the log of NHC is the whole of the file."""
    lines = head.lines()
    ours = [
        line
        for line in lines
        if b"Health check failed:  " in line or b'Running check:  "' in line or b"Node Health Check " in line
    ]
    return 0.6 if lines and 2 * len(ours) >= len(lines) else 0.0


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


_SAMPLES: Final = (
    # A run that found a file system missing: the checks before it passed.
    Sample(
        "[1772435280] - Node Health Check starting.\n"
        '[1772435280] - Running check:  "check_hw_cpuinfo 2 64 128"\n'
        '[1772435281] - Running check:  "check_fs_mount_rw -f /scratch"\n'
        "[1772435282] - ERROR:  nhc:  Health check failed:  check_fs_mount_rw:  /scratch not mounted\n"
        '[1772435980] - Running check:  "check_hw_cpuinfo 2 64 128"\n'
        "[1772435981] - Node Health Check completed successfully (1s).\n"
        '[1772436680] - Running check:  "check_hw_cpuinfo 2 64 128"\n',
        (
            expect("health_checks", checker="nhc", check="check_hw_cpuinfo", result="pass", time=1772435280000000),
            expect(
                "health_checks",
                check="check_fs_mount_rw",
                result="fail",
                device="-f /scratch",
                detail="/scratch not mounted",
                time=1772435282000000,
            ),
            expect("health_checks", check="check_hw_cpuinfo", result="pass", time=1772435980000000),
            expect("health_checks", check="node_health_check", result="pass", value=1.0, unit="s"),
        ),
    ),
    # Syslog, and slurmd's own log.
    Sample(
        "2026-03-02T07:08:09+00:00 dgx07 nhc[4242]: Health check failed:  check_ps_service:  Service munge not "
        "running\n"
        "[2026-03-02T07:09:09.123] error: health_check failed: rc:1 output:ERROR:  nhc:  Health check failed:  "
        "check_nvsmi_healthmon:  GPU 3 failed\n"
        "[2026-03-02T07:10:09.123] error: [job 812] prolog failed status=1:0\n",
        (
            expect("health_checks", host="dgx07", check="check_ps_service", result="fail", time_basis="zoned"),
            expect("health_checks", check="check_nvsmi_healthmon", result="fail", detail="GPU 3 failed"),
            expect("health_checks", checker="prolog", check="prolog", result="fail", detail="job 812, status 1:0"),
        ),
    ),
)

FORMAT: Final = LineFormat(
    name="nhc",
    doc="Results of Node Health Check (LBNL NHC) in its own log, in syslog and in what slurmd says of it, passes too "
    "where the log is verbose; and prologs and epilogs that failed.",
    url="https://github.com/mej/nhc",
    tables=("health_checks",),
    detects=detects,
    signatures=(
        rb"Health check failed: ",
        rb'Running check:  "',
        rb"Node Health Check completed",
        rb"(?:prolog|epilog) failed:? status=",
    ),
    read=read,
    settle=settle,
    samples=_SAMPLES,
    non_samples=(
        "Mar  2 07:08:09 dgx07 dockerd[99]: Health check failed: container web is unhealthy\n",
        "Health check failed: connection refused\n",
        'If it prints "Health check failed:  check_fs_mount" then the file system is gone.\n',
        'Running check:  "check_hw_cpuinfo 2 64 128"\n',
        "Node Health Check completed with errors\n",
        "level=info msg=\"Running check:  'disk'\"\n",
        "the prolog failed: status=unknown\n",
    ),
)
