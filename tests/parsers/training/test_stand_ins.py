"""Events judged by the steps that stand in for all are what they are judged by all of them."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict

from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.formats import Found, Line
from aftershock.parsers.training import read
from aftershock.parsers.training.progress import printed
from aftershock.parsers.training.settle import beginnings_of, settle_events
from aftershock.parsers.training.stand_ins import stand_ins
from aftershock.parsers.training.step_columns import InMemory, join_pieces
from aftershock.parsers.training.steps import join_steps
from aftershock.parsers.transit import pack_found
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.tables import TABLES
from aftershock.schemas.training import TrainingStep
from tests.parsers.training.made_logs import logs
from tests.parsers.training.reading import megatron


def found_in(text: bytes) -> list[Found]:
    found = []
    at = 0
    for line in text.split(b"\n"):
        stripped = line.rstrip(b"\r")
        items = read(Line(at, stripped, unwrap(stripped), text[at + len(line) + 1 : at + len(line) + 8192]))
        found += [item for item in items if isinstance(item, Found)]
        at += len(line) + 1
    return found


def shown(items: list[Found]) -> list[str]:
    return [f"{item.offset} {asdict(item.row)} {item.reading[:2]}" for item in items]


def check(text: bytes, size: int) -> int:
    """Both ways give the same events. Returns how many steps stood in for all."""
    found = found_in(text)
    events = [item for item in found if isinstance(item.row, TrainingEvent)]
    steps = [item for item in found if isinstance(item.row, TrainingStep)]
    beginnings = beginnings_of(events)
    cut = [steps[at : at + size] for at in range(0, len(steps), size)]
    pieces = join_pieces([InMemory(pack_found(part, TABLES[TrainingStep.table])) for part in cut], beginnings)
    few = stand_ins(pieces, [item.offset for item in events])
    joined = join_steps(steps, beginnings)
    assert printed(few) == len(joined)
    assert shown(settle_events(deepcopy(events), few)) == shown(settle_events(events, joined))
    return len(few)


@settings(max_examples=100, deadline=None)
@given(logs(), st.integers(40, 400))
def test_events_are_judged_alike(text: bytes, size: int) -> None:
    check(text, size)


def test_a_few_steps_stand_in_for_many() -> None:
    good = [megatron(step, stamp=f"2026-03-01 10:{step // 60:02d}:{step % 60:02d}") for step in range(1, 1000)]
    bad = [megatron(step, lm_loss="", grad_norm="nan") for step in range(1000, 3000)]
    text = "\n".join([*good, *bad, "ValueError: no such shard", ""]).encode()
    assert check(text, 10_000) < 60
    steps = [item for item in found_in(text) if isinstance(item.row, TrainingStep)]
    few = stand_ins(join_pieces([InMemory(pack_found(steps, TABLES[TrainingStep.table]))], []), [])
    (event,) = settle_events([], few)
    assert "2000 printed steps" in str(event.row)
