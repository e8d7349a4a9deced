"""NVIDIA's resiliency extension (NVRx, ``ft_launcher``): cycles of restarts, ranks that do not answer.

    [2026-03-01 10:20:30,123] [INFO] [ft_launcher811@gpu017]   - Cycle: 1 Event: failure_detected Node: gpu017 Rank: 0
        Time: 2026-03-01 09:20:30.123 UTC
    [2026-03-01 10:20:30,123] [WARNING] [RankMonServer812@gpu017:3] Did not get subsequent heartbeat. Waited 900.00 ...
    Some rank(s) exited with non-zero exit code: {3: ...}. Agent's exit code = 1

https://github.com/NVIDIA/nvidia-resiliency-ext: fault_tolerance/launcher.py, rank_monitor_server.py, shared_utils/
profiling.py. The number of a cycle is raised when a failure is detected: it names the next one. Each event tells its
time in UTC beside the local stamp of its line. A rank without a heartbeat hangs, or waits for one that does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.clock import Reading, fraction_micros, wall_micros
from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.marks import ATTEMPT, ENDED, SUCCESS
from aftershock.parsers.training.rules import Match, Rule, Said, Told, error, event, number, whole
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 31

_EVENT: Final = re.compile(
    rb"- Cycle: (?P<cycle>\d{1,9}) Event: (?P<event>[a-z_]{1,40}) Node: (?P<node>\S{1,200}) Rank: (?P<rank>\w{1,9}) "
    rb"Time: (?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,6}))? UTC"
)
_KINDS: Final = {
    b"failure_detected": "failure_detected",
    b"worker_terminated": "workers_stopped",
    b"rendezvous_completed": "rendezvous",
    b"worker_start_completed": "workers_started",
}
_HOST: Final = re.compile(rb"\[\w{1,40}@(?P<host>[\w.-]{1,64})(?::(?P<rank>\d{1,6}|<none>))?\]")


def _host(said: Said) -> Match | None:
    return _HOST.search(said.line.text[:300])


def _read_event(found: Match, said: Said) -> Told | None:
    kind = _KINDS.get(found["event"])
    if kind is None:
        return None
    row = TrainingEvent(kind=kind, error=f"cycle {text_of(found['cycle'])}")
    host = _host(said)
    row.host_raw = text_of(host["host"]) if host else None
    day, _, clock = found["time"].partition(b" ")
    wall = wall_micros(*(int(part) for part in day.split(b"-")), *(int(part) for part in clock.split(b":")))
    micros, resolution = fraction_micros(found["fraction"])
    printed = text_of(found["time"] + (b"." + found["fraction"] if found["fraction"] else b""))
    reading = None if wall is None else Reading("zoned", wall + micros, None, None, resolution, printed)
    mark = {"failure_detected": ENDED, "rendezvous": ATTEMPT}.get(kind, "")
    return Told(row, reading, mark)


def _read_silence(found: Match, said: Said) -> TrainingEvent:
    row = TrainingEvent(kind="error", error_class="hang_no_error", error_role="symptom")
    row.error = text_of(found["error"])
    row.duration_s = number(found["waited"] or found["open"] or found["out"])
    host = _host(said)
    if host is not None:
        row.host_raw = text_of(host["host"])
        row.rank = whole(host["rank"])
    return row


def _read_failed(found: Match, _said: Said) -> Iterator[Told]:
    ranks = [int(rank) for rank in re.findall(rb"[{ ](\d{1,6}): ", found["which"])]
    row = TrainingEvent(kind="exit", error_class="unknown", error_role="symptom", error=text_of(found["error"])[:1000])
    row.ranks = sorted(ranks) or None
    yield Told(row)


RULES: Final = (
    Rule(
        words=(b"- Cycle: ",),
        shape=_EVENT,
        row=_read_event,
    ),
    Rule(
        words=(b"has joined round ",),
        shape=later(
            rb"The node '[^'\r\n]{1,120}' has joined round (?P<round>\d{1,9}) of the rendezvous '[^'\r\n]{0,120}' as "
            rb"rank \d{1,6}"
        ),
        row=event("rendezvous"),
        mark=ATTEMPT,
    ),
    Rule(
        words=(
            b"Did not get initial heartbeat",
            b"Did not get subsequent heartbeat",
            b" has been open for ",
            b"Was out of section for ",
        ),
        shape=later(
            rb"(?P<error>(?:\[Cycle \d{1,9}\] )?(?:Did not get (?:initial|subsequent) heartbeat\. Waited "
            rb"(?P<waited>[\d.]{1,16}) secon"
            rb"ds|Section '[^'\r\n]{1,120}' has been open for (?P<open>[\d.]{1,16}) seconds|Was out of section for "
            rb"(?P<out>[\d.]{1,16})"
            rb" seconds))"
        ),
        row=_read_silence,
    ),
    Rule(
        words=(b"Some rank(s) exited with non-zero exit code: ",),
        shape=later(rb"(?P<error>Some rank\(s\) exited with non-zero exit code: (?P<which>[^\r\n]{0,2000}))"),
        row=_read_failed,
    ),
    Rule(
        words=(b"Timeout waiting for GPU memory to be reclaimed after ",),
        shape=later(rb"(?P<error>Timeout waiting for GPU memory to be reclaimed after [\d.]{1,16}s[^\r\n]{0,300})"),
        row=error("gpu_unhealthy_suspect", "symptom"),
    ),
    Rule(
        words=(b"Agent exits with exit code = 0",),
        shape=later(rb"Agent exits with exit code = 0\b"),
        row=event("exit"),
        mark=SUCCESS,
    ),
)

SAMPLES: Final = (
    Sample(
        "[2026-03-01 10:20:30,123] [INFO] [ft_launcher811@gpu017]   - Cycle: 1 Event: failure_detected Node: "
        "gpu017_811_0 Rank: 0 Time: 2026-03-01 09:20:30.123 UTC\n",
        (
            expect(
                "training_events",
                kind="failure_detected",
                host_raw="gpu017",
                error="cycle 1",
                time=1_772_356_830_123_000,
            ),
        ),
        title="NVRx: a cycle",
        url="https://github.com/NVIDIA/nvidia-resiliency-ext",
    ),
    Sample(
        "[2026-03-01 10:20:30,123] [WARNING] [RankMonServer812@gpu017:3] Did not get subsequent heartbeat. Waited "
        "900.00 "
        "seconds.\n",
        (expect("training_events", error_class="hang_no_error", error_role="symptom", rank=3, duration_s=900.0),),
        title="NVRx: a rank without a heartbeat",
    ),
)

NON_SAMPLES: Final = (
    "[2026-03-01 10:20:30,123] [INFO] [ft_launcher811@gpu017] The node 'gpu017_811_0' attempts to join the next "
    "round of the "
    "rendezvous 'none'.\n",
)
