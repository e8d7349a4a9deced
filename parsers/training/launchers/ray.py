"""Ray: workers that die, controllers that start them again, and a memory monitor that kills them.

    (TrainController pid=7) Started training worker group of size 2:
    (TrainController pid=7) [FailurePolicy] RETRY
    (TrainController pid=7) The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR ...
    (raylet) A worker died or was killed while executing a task by an unexpected system error.
    (raylet) node_manager.cc:3007: 2 Workers (tasks / actors) killed due to memory pressure (OOM), ...

https://docs.ray.io: ray/train/v2/_internal/execution, src/ray/raylet. A worker prints its traceback, and its controller
prints it once more, if it likes some seconds later; Ray folds what several processes print (``[repeated 2x across
cluster]``). The next attempt begins where its workers are started.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.marks import ATTEMPT, CONFIRMED, ENDED, SUCCESS
from aftershock.parsers.training.rules import Match, Rule, Said, Told, error, event, whole
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 36

_RANK: Final = re.compile(rb"world_rank=(\d{1,6})")
_HOST: Final = re.compile(rb"hostname='([\w.-]{1,64})'")
_WORKER: Final = re.compile(rb"\bpid=(?P<pid>\d{1,9})\) world_rank=(?P<rank>\d{1,6})")


def _read_started(_found: Match, said: Said) -> Told:
    """The workers that were started. Their lines name their processes: which rank each has goes with the mark."""
    row = TrainingEvent(kind="rendezvous")
    ranks = dict[str, int]()
    for line in said.below():
        found = _WORKER.search(line)
        if found is None:
            break
        ranks[text_of(found["pid"])] = int(found["rank"])
    row.ranks = sorted(ranks.values()) or None
    processes = ",".join(f"{pid}={rank}" for pid, rank in ranks.items())
    return Told(row, None, f"{ATTEMPT}@{processes}" if processes else ATTEMPT)


def _read_unhealthy(found: Match, said: Said) -> TrainingEvent | None:
    """A worker that does not answer, in a block that also names its rank and host."""
    below = said.rest[:4096]
    rank, host = _RANK.search(below), _HOST.search(below)
    if rank is None:
        return None
    row = TrainingEvent(kind="exit", error_class="unknown", error_role="symptom", error=text_of(found[0]))
    row.rank = int(rank[1])
    row.host_raw = text_of(host[1]) if host else None
    return row


def _read_retry(found: Match, _said: Said) -> TrainingEvent | None:
    if found["what"] in (b"RAISE", b"NOOP"):
        return None
    return TrainingEvent(kind="restart")


def _read_dead(found: Match, _said: Said) -> TrainingEvent:
    """A worker of which nobody knows how it ended: that it was killed, or crashed, is for others to say."""
    row = TrainingEvent(kind="exit", error_class="unknown", error_role="symptom", error=text_of(found["error"])[:600])
    row.rank = whole(found.groupdict().get("rank"))
    return row


RULES: Final = (
    Rule(
        words=(b"Started training worker group of size ", b"Started distributed worker processes"),
        shape=later(rb"Started (?:training worker group of size \d{1,6}|distributed worker processes)"),
        row=_read_started,
    ),
    Rule(
        words=(b"A worker health check failed.",),
        shape=later(rb"A worker health check failed\."),
        row=_read_unhealthy,
    ),
    Rule(
        words=(b"[FailurePolicy] ",),
        shape=later(rb"\[FailurePolicy\] (?:Decision: )?(?P<what>[A-Z]{3,12})"),
        row=_read_retry,
        mark=ENDED,
    ),
    Rule(
        words=(
            b"The actor is dead because ",
            b"A worker died or was killed while executing",
            b"worker died unexpectedly",
        ),
        shape=later(
            rb"\A(?P<error>The actor is dead because (?:its worker process has died|its node has died|all "
            rb"references)[^\r\n]{0,800}"
            rb"|A worker died or was killed while executing a task by an unexpected system error[^\r\n]{0,400})"
        ),
        row=_read_dead,
    ),
    Rule(
        words=(b"killed due to memory pressure (OOM)", b"Task was killed due to the node running low on memory"),
        shape=later(
            rb"(?P<error>\d{1,6} Workers? \(tasks / actors\) killed due to memory pressure \(OOM\)[^\r\n]{0,300}"
            rb"|Task was killed due to the node running low on memory[^\r\n]{0,300})"
        ),
        row=error("host_oom"),
        mark=CONFIRMED,
        only="fault",
    ),
    Rule(
        words=(b"Result(metrics=",),
        shape=later(rb"\AResult\(metrics=[^\r\n]{1,4000}, error=None, path="),
        row=event("exit"),
        mark=SUCCESS,
    ),
)

SAMPLES: Final = (
    Sample(
        "(TrainController pid=7) Started training worker group of size 2: \n"
        "(TrainController pid=7) - (ip=10.0.0.7, pid=811) world_rank=0, local_rank=0, node_rank=0\n"
        "(TrainController pid=7) - (ip=10.0.0.8, pid=812) world_rank=1, local_rank=0, node_rank=1\n"
        "(RayTrainWorker pid=812, ip=10.0.0.8) RuntimeError: CUDA error: an illegal memory access was encountered\n"
        "(TrainController pid=7) [FailurePolicy] RETRY\n",
        (
            expect("training_events", kind="rendezvous", ranks=[0, 1]),
            expect("training_events", error_class="cuda_kernel_fault", error_role="root", rank=1),
            expect("training_events", kind="restart"),
        ),
        title="Ray Train: a restart",
    ),
    Sample(
        "(raylet) [2026-03-01 10:20:30,123 E 7 7] (raylet) node_manager.cc:3007: 1 Workers (tasks / actors) killed "
        "due to memory "
        "pressure (OOM), 0 Workers crashed due to other reasons at node (ID: 5c85, IP: 10.0.0.7) over the last time "
        "period.\n",
        (expect("training_events", error_class="host_oom", error_role="root"),),
        title="Ray: memory of a host",
    ),
)

NON_SAMPLES: Final = (
    "(PlacementGroupCleaner pid=9) Failed to query Ray Train Controller actor state. State API may be temporarily "
    "unavailable. Continuing to monitor.\n",
    "(TrainController pid=7)   Source: worker group\n",
)
