"""Megatron-LM's search for silent data corruption: a step with an unexpected result is computed again.

    Unexpected result nan on rank 3 at iteration #120 invocation #1 (message='loss')
    Rank 3, node gpu017, device 1, iteration #120: First rerun: unexpected result is not reproducible within the ...
    Rank 3, node gpu017, device 1, iteration #120: Possible transient error!!

https://github.com/NVIDIA/Megatron-LM: megatron/core/rerun_state_machine.py. A result that comes out differently on the
same GPU, or on another one, was wrong: the GPU corrupts data. One that comes out the same on another GPU was right, and
the application is to blame. Before such a verdict nothing is known. A loss that is only larger than it was (``Spiky
loss``) is a finite number: the run goes on whatever comes of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.faults.talk import is_shown
from aftershock.parsers.training.marks import REPRINT
from aftershock.parsers.training.rules import Match, Rule, Said, whole
from aftershock.schemas.events import TrainingEvent

# Who says it, where the line names it.
_WHERE: Final = (
    rb"(?:Rank (?P<rank>\d{1,7}), node (?P<node>[^\s,]{1,253}), device (?P<device>\d{1,4}), "
    rb"iteration #?(?P<step>\d{1,12}): )?"
)
_NAMED: Final = re.compile(
    _WHERE.removesuffix(b"?") + rb"(?:Possible (?:transient|persistent) error!|Correct result \(but possible)"
)


def _verdict(error_class: str, error_role: str) -> Callable[[Match, Said], TrainingEvent]:
    def read(found: Match, said: Said) -> TrainingEvent:
        groups = found.groupdict()
        if not groups.get("node") and b"Second rerun" in found[0]:
            named = _NAMED.search(said.rest[:2048])  # the line below says on which GPU
            groups = groups if named is None else named.groupdict()
        row = TrainingEvent(kind="error", error_class=error_class, error_role=error_role)
        row.error = text_of(said.message[:4096]).strip()
        row.rank = whole(groups.get("rank") or groups.get("by"))
        row.step = whole(groups.get("step") or groups.get("at"))
        row.host_raw = text_of(groups["node"]) if groups.get("node") else None
        return row

    return read


def _read_spike(found: Match, said: Said) -> TrainingEvent | None:
    if is_shown(said, found.start()):
        return None
    row = TrainingEvent(kind="loss_spike", error=text_of(found["error"][:4096]).strip())
    row.rank, row.step = whole(found["rank"] or found["by"]), whole(found["step"] or found["at"])
    row.host_raw = text_of(found["node"]) if found["node"] else None
    return row


RULES: Final = (
    Rule(
        words=(b"(message='Spiky loss')",),
        shape=later(
            _WHERE + rb"(?P<error>Unexpected result (?!nan|-?inf)[^\r\n]{1,160}?"
            rb"(?:on rank (?P<by>\d{1,7}) at iteration #(?P<at>\d{1,12}) invocation #\d{1,9} )?"
            rb"\(message='Spiky loss'\))"
        ),
        row=_read_spike,
        only="fault",
    ),
    Rule(
        words=(b"unexpected result is not reproducible",),
        shape=later(_WHERE + rb"(?:First|Second) rerun: unexpected result is not reproducible"),
        row=_verdict("silent_data_corruption", "root"),
        only="fault",
    ),
    Rule(
        words=(b"Possible transient error!", b"Possible persistent error!"),
        shape=later(_WHERE + rb"Possible (?:transient|persistent) error!"),
        row=_verdict("silent_data_corruption", "root"),
        only="fault",
        mark=REPRINT,
    ),
    Rule(
        words=(b"reproducible on a different GPU, therefore it was",),
        shape=later(rb"Second rerun: unexpected result is reproducible on a different GPU"),
        row=_verdict("numeric_divergence", "root"),
        only="fault",
    ),
    Rule(
        words=(b"Correct result (but possible Application error)",),
        shape=later(_WHERE + rb"Correct result \(but possible Application error\)"),
        row=_verdict("numeric_divergence", "root"),
        only="fault",
        mark=REPRINT,
    ),
    Rule(
        words=(
            b" invocation #",
            b"First rerun: unexpected result is reproducible",
            b"Got rescheduled on the same GPU.",
        ),
        shape=later(
            _WHERE
            + rb"(?:Unexpected result \S{1,60} on rank (?P<by>\d{1,7}) at iteration #(?P<at>\d{1,12}) invocation #|"
            rb"First rerun: unexpected result is reproducible|Got rescheduled on the same GPU\.)"
        ),
        row=_verdict("unknown", "symptom"),
        only="fault",
    ),
    Rule(
        words=(b": Unexpected result ",),
        shape=later(
            rb"Rank (?P<rank>\d{1,7}), node (?P<node>[^\s,]{1,253}), device \d{1,4}, iteration (?P<step>\d{1,12}): "
            rb"Unexpected result (?:nan|-?inf)\b"
        ),
        row=_verdict("numeric_divergence", "root"),
        only="fault",
    ),
)

SAMPLES: Final = (
    Sample(
        "Unexpected result nan on rank 3 at iteration #120 invocation #1 (message='loss')\n",
        (expect("training_events", kind="error", error_class="unknown", error_role="symptom", rank=3, step=120),),
        title="Megatron-LM: an unexpected result",
    ),
    Sample(
        "Unexpected result 12.5 on rank 3 at iteration #120 invocation #1 (message='Spiky loss')\n"
        "Rank 3, node gpu017, device 1, iteration 121: Unexpected result 12.75 (message='Spiky loss')\n",
        (
            expect("training_events", kind="loss_spike", error_class=None, error_role=None, rank=3, step=120),
            expect("training_events", kind="loss_spike", error_class=None, rank=3, step=121, host="gpu017"),
        ),
        title="Megatron-LM: a spiky loss",
    ),
    Sample(
        "Rank 3, node gpu017, device 1, iteration #120: First rerun: unexpected result is not reproducible within the "
        "tolerance (2.5 != nan)!\n"
        "Rank 3, node gpu017, device 1, iteration #120: Possible transient error!!\n",
        (
            expect(
                "training_events",
                kind="error",
                error_class="silent_data_corruption",
                error_role="root",
                rank=3,
                step=120,
                host="gpu017",
            ),
        ),
        title="Megatron-LM: a result that does not come again",
    ),
    Sample(
        "Second rerun: unexpected result is reproducible on a different GPU, therefore it was likely correct "
        "(nan = nan)\n",
        (expect("training_events", kind="error", error_class="numeric_divergence", error_role="root"),),
        title="Megatron-LM: a result that comes again elsewhere",
    ),
)

NON_SAMPLES: Final = (
    "Result validation enabled\n",
    "RerunStateMachine initialized in mode validate_results\n",
    "an unexpected result is not the end\n",
)
