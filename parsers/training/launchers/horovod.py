"""Horovod: that one rank is gone, as all others hear of it.

    Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to allreduce, ...

https://github.com/horovod/horovod (horovod/common). What it was stands before the first of these lines, of another
rank.
"""

from __future__ import annotations

from typing import Final

from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.faults.talk import is_shown
from aftershock.parsers.training.rules import Match, Rule, Said, error
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 38

_GONE: Final = error("peer_exit", "symptom")


def _read(found: Match, said: Said) -> TrainingEvent | None:
    return None if is_shown(said, found.start("error")) else _GONE(found, said)


RULES: Final = (
    Rule(
        words=(b"Horovod has been shut down. This ",),
        shape=later(
            rb"(?:\A|: )(?P<error>Horovod has been shut down\. This (?:was|has been) caused by an exception"
            rb"[^\r\n]{0,300})"
        ),
        row=_read,
        only="fault",
    ),
)

SAMPLES: Final = (
    Sample(
        "[1,0]<stderr>:Node: 'DistributedAdam_Allreduce/cond/HorovodAllreduce_grads_0'\n"
        "[1,0]<stderr>:Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt "
        "to allreduce, allgather or broadcast a tensor after one of the ranks finished execution.\n",
        (expect("training_events", error_class="peer_exit", error_role="symptom", rank=0),),
        title="Horovod: another rank is gone",
        url="https://github.com/horovod/horovod",
    ),
    Sample(
        "tensorflow.python.framework.errors_impl.UnknownError: Horovod has been shut down. This was caused by an "
        "exception on one of the ranks or an attempt to allreduce, allgather or broadcast a tensor after one of the "
        "ranks finished execution.\n",
        (expect("training_events", error_class="peer_exit", error_role="symptom"),),
        title="Horovod: the same in an exception",
    ),
)

NON_SAMPLES: Final = ("see why Horovod has been shut down. This can be seen in the log\n",)
