"""torchrun (torch elastic): rendezvous, workers that exit, restarts, and the table of failures.

    ... [default] Rendezvous complete for workers. Result:
      restart_count=1
    ... failed (exitcode: -9) local_rank: 2 (pid: 8114) of binary: /usr/bin/python3
    Root Cause (first observed failure):
    [0]:
      time      : 2026-03-01_10:20:30
      host      : gpu017
      rank      : 7 (local_rank: 7)
      exitcode  : -6 (pid: 8114)

https://github.com/pytorch/pytorch/tree/main/torch/distributed/elastic. Its "root cause" is the first exit that one agent
saw among its own workers, at a resolution of a second: a symptom, unless the exit tells of a crash and stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.clock import SECOND, Reading, wall_micros
from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.training.marks import ATTEMPT, FIRST_EXIT
from aftershock.parsers.training.rules import Match, Rule, Said, Told, error, event, whole
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 30

_FIELD: Final = re.compile(rb"(\w[\w ]{0,20}?)\s*[:=]\s*(.*)\Z")
_RANKS: Final = re.compile(rb"(\d{1,6}) \(local_rank: (\d{1,4})\)")
_EXIT: Final = re.compile(rb"(-?\d{1,5}) \(pid: (-?\d{1,9})\)")
_TIME: Final = re.compile(rb"(\d{4})-(\d\d)-(\d\d)_(\d\d):(\d\d):(\d\d)")

# Exits of processes that were told to end, or that ended themselves after somebody else had failed.
_TOLD_TO_END: Final = frozenset({-6, -15, 134, 143, 0})


def role_of_exit(code: int | None) -> tuple[str, str]:
    """Class and role of an exit status (negative: a signal) when nothing else is known."""
    if code in (-11, 139, -4, 132, -8):
        return "process_crash", "root"
    if code in (-7, 135):
        return "host_shm", "root"
    if code in _TOLD_TO_END:
        return "teardown", "teardown"
    return "unknown", "symptom"


def _read_rendezvous(_found: Match, said: Said) -> TrainingEvent:
    row = TrainingEvent(kind="rendezvous")
    for line in said.below():
        field = _FIELD.match(line.strip())
        if field is None:
            break
        if field[1] == b"restart_count":
            row.step = None
            row.error = f"restart_count={text_of(field[2])}" if field[2].strip(b" []") not in (b"0", b"") else None
        elif field[1] == b"global_ranks":
            ranks = [int(rank) for rank in re.findall(rb"\d{1,6}", field[2])]
            row.ranks = ranks or None
    return row


def _read_exit(found: Match, _said: Said) -> TrainingEvent:
    error_class, role = role_of_exit(whole(found["code"]))
    return TrainingEvent(
        kind="exit",
        local_rank=whole(found["local"]),
        error_class=error_class,
        error_role=role,
        error=text_of(found[0]),
    )


def _read_table(_found: Match, said: Said) -> Iterator[Told]:
    """The entry below ``Root Cause``."""
    values: dict[bytes, bytes] = {}
    for line in said.below():
        text = line.strip()
        if text.startswith((b"===", b"---")) or (b"exitcode" in values and not text):
            break
        field = _FIELD.match(text)
        if field is not None:
            values.setdefault(field[1].strip(), field[2].strip())
    ranks = _RANKS.match(values.get(b"rank", b""))
    exits = _EXIT.match(values.get(b"exitcode", b""))
    code = int(exits[1]) if exits else None
    error_class, role = role_of_exit(code)
    row = TrainingEvent(kind="exit", error_class=error_class, error_role=role)
    row.rank, row.local_rank = (int(ranks[1]), int(ranks[2])) if ranks else (None, None)
    row.host_raw = text_of(values[b"host"]) if values.get(b"host") else None
    row.error = f"exitcode {code}" if code is not None else None
    traceback = values.get(b"traceback", b"")
    if traceback and not traceback.startswith((b"To enable", b"<")):
        row.error = f"{row.error}: {text_of(traceback)}"
    yield Told(row, _time_of(values.get(b"time", b"")), FIRST_EXIT)


def _time_of(printed: bytes) -> Reading | None:
    found = _TIME.match(printed)
    wall = wall_micros(*(int(part) for part in found.groups())) if found else None
    return None if wall is None else Reading("local", wall, None, None, SECOND, text_of(printed))


RULES: Final = (
    Rule(
        words=(b"Rendezvous complete for workers",),
        shape=re.compile(rb"Rendezvous complete for workers"),
        row=_read_rendezvous,
        mark=ATTEMPT,
    ),
    Rule(
        words=(b"attempts left; will restart worker group",),
        shape=re.compile(rb"(?P<left>\d{1,6})/(?P<most>\d{1,6}) attempts left; will restart worker group"),
        row=event("restart"),
    ),
    Rule(
        words=(b"failed (exitcode: ",),
        shape=re.compile(
            rb"failed \(exitcode: (?P<code>-?\d{1,5})\) local_rank: (?P<local>\d{1,4}) \(pid: \d{1,9}\) of binary: [^\r\n]{0,300}"
        ),
        row=_read_exit,
    ),
    Rule(
        words=(b"Root Cause (first observed failure):",),
        shape=re.compile(rb"Root Cause \(first observed failure\):"),
        row=_read_table,
    ),
    Rule(
        words=(b"closing signal SIG", b"death signal, shutting down workers"),
        shape=re.compile(
            rb"(?P<error>Sending process \d{1,9} closing signal SIG\w{1,8}|Received \S{1,20} death signal, shutting down workers"
            rb"|Closing process \d{1,9} via signal SIG\w{1,8})"
        ),
        row=error("teardown", "teardown", kind="exit"),
    ),
)

SAMPLES: Final = (
    Sample(
        "INFO:torch.distributed.elastic.agent.server.api:[default] Rendezvous complete for workers. Result:\n"
        "  restart_count=0\n  master_addr=gpu017\n  group_rank=0\n  global_ranks=[0, 1]\n",
        (expect("training_events", kind="rendezvous", ranks=[0, 1]),),
        title="torchrun",
    ),
    Sample(
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-03-01_10:20:30\n  host      : gpu017\n"
        "  rank      : 7 (local_rank: 7)\n  exitcode  : -6 (pid: 8114)\n  error_file: <N/A>\n"
        "  traceback : Signal 6 (SIGABRT) received by PID 8114\n====\n",
        (
            expect(
                "training_events",
                kind="exit",
                rank=7,
                host="gpu017",
                error_role="teardown",
                time=1_772_360_430_000_000,
            ),
        ),
    ),
)

NON_SAMPLES: Final = ("Root Cause analysis: first observed failure in March\n",)
