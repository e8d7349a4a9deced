"""torchrun (torch elastic): rendezvous, workers that exit, restarts, and the table of failures.

    ... [default] Rendezvous complete for workers. Result:
      restart_count=1
    ... failed (exitcode: -9) local_rank: 2 (pid: 8114) of binary: /usr/bin/python3
    ... [default] Worker group FAILED. 2/3 attempts left; will restart worker group
    Root Cause (first observed failure):
    [0]:
      time      : 2026-03-01_10:20:30
      host      : gpu017
      rank      : 7 (local_rank: 7)
      exitcode  : -6 (pid: 8114)

https://github.com/pytorch/pytorch/tree/main/torch/distributed/elastic. Its "root cause" is the first exit that one
agent saw among its own workers, at a resolution of a second: a symptom, unless the exit tells of a crash and stands
alone. An agent that gets the signal of a keyboard (2), or of a terminal that is gone (1), was stopped by somebody; any
launcher stops it by 15. Attempts left are counted before the restart. That new nodes came is no failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.clock import SECOND, Reading, wall_micros
from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.launchers.exits import role_of_exit
from aftershock.parsers.training.marks import ATTEMPT, ENDED, FIRST_EXIT, LATER_EXIT, PARTLY, SUCCESS
from aftershock.parsers.training.rules import Match, Rule, Said, Told, error, event, whole
from aftershock.parsers.training.writers import signed
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 30

_FIELD: Final = re.compile(rb"(\w[\w ]{0,20}?)\s*[:=]\s*(.*)\Z")
_RANKS: Final = re.compile(rb"(\d{1,6}) \(local_rank: (\d{1,4})\)")
_EXIT: Final = re.compile(rb"(-?\d{1,5}) \(pid: (-?\d{1,9})\)")
_TIME: Final = re.compile(rb"(\d{4})-(\d\d)-(\d\d)_(\d\d):(\d\d):(\d\d)")
# Lines of a table that are looked at: some hundred workers, and what others print in between.
_MOST_LINES: Final = 1000
_ENTRY: Final = re.compile(rb"\[\d{1,5}\]:\Z")
# The process of an agent, in the stamp of its lines: ``E0301 10:20:30.123456 811 torch/...``,
# ``[ft_launcher811@node]``.
_AGENT: Final = re.compile(
    rb"\b[IWEF]\d{4} [\d:.]{8,18} (\d{1,10}) [\w./-]{1,200}:\d{1,6}\]|\[(ft_launcher\d{1,9}@[\w.-]{1,64})\]"
)


def _read_rendezvous(_found: Match, said: Said) -> TrainingEvent:
    row = TrainingEvent(kind="rendezvous")
    for line in said.below():
        field = _FIELD.match(line.strip())
        if field is None:
            break
        if field[1] == b"restart_count":
            row.error = f"restart_count={text_of(field[2])}" if field[2].strip(b" []") not in (b"0", b"") else None
        elif field[1] == b"global_ranks":
            ranks = [int(rank) for rank in re.findall(rb"\d{1,6}", field[2])]
            row.ranks = ranks or None
    return row


def _read_exit(found: Match, said: Said) -> Told:
    error_class, role = role_of_exit(whole(found["code"]))
    row = TrainingEvent(kind="exit", error_class=error_class, error_role=role, error=text_of(found[0]))
    row.local_rank = whole(found["local"])
    return Told(row, None, _ended_by(said))


def _ended_by(said: Said) -> str:
    """The mark of an attempt that is over, with the agent that says so."""
    agent = _AGENT.search(said.line.text[:400])
    name = text_of(agent[1] or agent[2]) if agent else ""
    mark = signed(ENDED, said.prefix)
    return mark if not name else f"{mark}{'' if '@' in mark else '@'}{name}"


def _read_table(_found: Match, said: Said) -> Iterator[Told]:
    """The entry below ``Root Cause``."""
    for values in _entries(said):
        yield _entry(values, FIRST_EXIT)
        return


def _read_others(_found: Match, said: Said) -> Iterator[Told]:
    """The entries below ``Failures``, which came after the first."""
    for values in _entries(said):
        yield _entry(values, LATER_EXIT)


def _entries(said: Said) -> Iterator[dict[bytes, bytes]]:
    """The fields of each entry of a table, to its end. The lines of other writers in between are left out."""
    values: dict[bytes, bytes] = {}
    for line in said.below(_MOST_LINES):
        text = line.strip()
        if text.startswith((b"===", b"---", b"<NO_OTHER")):
            break
        if _ENTRY.match(text):
            if b"exitcode" in values:
                yield values
            values = {}
            continue
        field = _FIELD.match(text)
        if field is not None:
            values.setdefault(field[1].strip(), field[2].strip())
    if b"exitcode" in values:
        yield values


def _entry(values: dict[bytes, bytes], mark: str) -> Told:
    ranks = _RANKS.match(values.get(b"rank", b""))
    exits = _EXIT.match(values[b"exitcode"])
    code = int(exits[1]) if exits else None
    error_class, role = role_of_exit(code)
    row = TrainingEvent(kind="exit", error_class=error_class, error_role=role)
    row.rank, row.local_rank = (int(ranks[1]), int(ranks[2])) if ranks else (None, None)
    row.host_raw = text_of(values[b"host"]) if values.get(b"host") else None
    row.error = f"exitcode {code}" if code is not None else None
    traceback = values.get(b"traceback", b"")
    if traceback and not traceback.startswith((b"To enable", b"<")):
        row.error = f"{row.error}: {text_of(traceback)}"
    return Told(row, _time_of(values.get(b"time", b"")), mark)


def _time_of(printed: bytes) -> Reading | None:
    found = _TIME.match(printed)
    wall = wall_micros(*(int(part) for part in found.groups())) if found else None
    return None if wall is None else Reading("local", wall, None, None, SECOND, text_of(printed))


RULES: Final = (
    Rule(
        words=(b"Rendezvous complete for workers",),
        shape=later(rb"Rendezvous complete for workers"),
        row=_read_rendezvous,
        mark=ATTEMPT,
    ),
    Rule(
        words=(b"attempts left; will restart worker group",),
        shape=later(rb"(?P<left>\d{1,6})/(?P<most>\d{1,6}) attempts left; will restart worker group"),
        row=event("restart"),
        mark=ENDED,
    ),
    Rule(
        words=(b"new nodes from group_rank=",),
        shape=later(rb"Detected \d{1,6} new nodes from group_rank=\d{1,6}; will restart worker group"),
        row=event("regroup"),
    ),
    Rule(
        words=(b"failed (exitcode: ",),
        shape=later(
            rb"failed \(exitcode: (?P<code>-?\d{1,5})\) local_rank: (?P<local>\d{1,4})"
            # a terminal may have cut the rest off
            rb" \(pid(?:: \d{1,9}\) of binary: [^\r\n]{0,300})?"
        ),
        row=_read_exit,
    ),
    Rule(
        words=(b"Root Cause (first observed failure):",),
        shape=later(rb"Root Cause \(first observed failure\):"),
        row=_read_table,
    ),
    Rule(
        words=(b"Failures:", b"Other Failures:"),
        shape=later(rb"\A(?:Other )?Failures:\s*\Z"),
        row=_read_others,
    ),
    Rule(
        words=(b"worker group successfully finished", b"local worker group finished (WorkerState.SUCCEEDED)"),
        shape=later(rb"worker group (?:successfully finished|finished \(WorkerState\.SUCCEEDED\))"),
        row=event("exit"),
        mark=PARTLY,
    ),
    Rule(
        words=(b"Agent .run() is OK. No failures in the result",),
        shape=later(rb"Agent \.run\(\) is OK\. No failures in the result"),
        row=event("exit"),
        mark=SUCCESS,
    ),
    Rule(
        words=(b" death signal, shutting down workers",),
        shape=later(rb"(?P<error>Received (?:Signals\.)?(?:1|2|SIGHUP|SIGINT) death signal, shutting down workers)"),
        row=error("user_or_admin_cancel", kind="exit"),
        only="stop",
    ),
    Rule(
        words=(b"closing signal SIG", b"death signal, shutting down workers", b"forcefully exiting via SIG"),
        shape=later(
            rb"(?P<error>Sending process \d{1,9} closing signal SIG\w{0,8}|Received \S{1,20} death signal, shutting "
            rb"down workers"
            rb"|Closing process \d{1,9} via signal SIG\w{1,8}|Unable to shutdown process \d{1,9} via SIG[^\r\n]{1,60})"
        ),
        row=error("teardown", "teardown", kind="exit"),
        only="stop",
    ),
)

_TABLE: Final = (
    "Failures:\n[1]:\n  time      : 2026-03-01_10:20:31\n  host      : gpu017\n  rank      : 6 (local_rank: 6)\n"
    "  exitcode  : 1 (pid: 8113)\n  error_file: <N/A>\n  traceback : To enable traceback see: https://pytorch.org\n"
    "------------------------------------------------------------\n"
    "Root Cause (first observed failure):\n[0]:\n  time      : 2026-03-01_10:20:30\n  host      : gpu017\n"
    "  rank      : 7 (local_rank: 7)\n  exitcode  : -6 (pid: 8114)\n  error_file: <N/A>\n"
    "  traceback : Signal 6 (SIGABRT) received by PID 8114\n====\n"
)

SAMPLES: Final = (
    Sample(
        "INFO:torch.distributed.elastic.agent.server.api:[default] Rendezvous complete for workers. Result:\n"
        "  restart_count=0\n  master_addr=gpu017\n  group_rank=0\n  global_ranks=[0, 1]\n",
        (expect("training_events", kind="rendezvous", ranks=[0, 1]),),
        title="torchrun",
    ),
    Sample(
        _TABLE,
        (
            expect("training_events", kind="exit", rank=6, host="gpu017", error_class="unknown", error_role="symptom"),
            expect(
                "training_events",
                kind="exit",
                rank=7,
                host="gpu017",
                error_role="teardown",
                time=1_772_360_430_000_000,
            ),
        ),
        title="torchrun: the table of failures",
    ),
    Sample(
        "[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"
        "[default] Detected 1 new nodes from group_rank=0; will restart worker group\n",
        (expect("training_events", kind="restart"), expect("training_events", kind="regroup")),
        title="torchrun: a restart, and a change of nodes",
    ),
    Sample(
        "WARNING:torch.distributed.elastic.agent.server.api:Received 1 death signal, shutting down workers\n"
        "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 8114 closing signal SIGHUP\n",
        (
            expect("training_events", error_class="user_or_admin_cancel", error_role="root"),
            expect("training_events", kind="exit", error_class="teardown", error_role="teardown"),
        ),
        title="torchrun: a terminal that is gone",
    ),
)

NON_SAMPLES: Final = ("Root Cause analysis: first observed failure in March\n", "Failures: none so far\n")
