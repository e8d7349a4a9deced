"""Steps joined as columns, piece by piece, are what they are joined row by row."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.clock import NO_CLOCK, SECOND, Reading
from aftershock.parsers.formats import Found
from aftershock.parsers.training.step_columns import InMemory, join_pieces, plain
from aftershock.parsers.training.steps import BAR, VALUES, WEAK, join_steps
from aftershock.parsers.transit import found_of, pack_found
from aftershock.schemas.tables import TABLES
from aftershock.schemas.training import TrainingStep

# Whether a print of a step tells its time, its loss, and more than that.
SAYS = [(True, True, True), (True, True, False), (False, True, True), (True, False, True), (False, False, True)]


def step(offset: int, number: int | None, mark: str, time: int | None, loss: float | None) -> Found:
    row = TrainingStep(step=number, loss=loss, samples=None if number is None else number * 8, copies=1)
    reading = NO_CLOCK if time is None else Reading("local", time, resolution=1)
    return Found(row, reading, offset, mark, format="training")


@st.composite
def logs(draw: Any) -> tuple[list[Found], list[int]]:
    """Runs of steps: of one writer or of several, one after the other or between each other, with and without times;
    some of them accompany others, or are values without a step."""
    found: list[Found] = []
    beginnings = []
    offset = 0
    time = 1_700_000_000 * SECOND
    for _ in range(draw(st.integers(1, 5))):
        if draw(st.integers(0, 3)) == 0:
            beginnings.append(offset)
        begin, length = draw(st.integers(0, 150)), draw(st.sampled_from([1, 3, 70, 150]))
        writers = draw(st.sampled_from([[""], ["@0: "], ["@0: ", "@1: "], ["", ""], ["@0: ", "@1: ", "@2: "]]))
        together = draw(st.booleans())
        timed, own_loss = draw(st.booleans()), draw(st.booleans())
        pause = draw(st.sampled_from([0, 1, 130])) * SECOND
        size = draw(st.sampled_from([10, 10, 300_000]))
        mark = draw(st.sampled_from(["", "", WEAK, VALUES]))
        bare = mark == VALUES or not draw(st.integers(0, 5))
        steady = draw(st.integers(1, 40))
        numbers = range(begin, begin + length)
        prints = [(n, w) for n in numbers for w in writers] if together else [(n, w) for w in writers for n in numbers]
        # A step may be printed by several libraries, each of which says something else of it.
        kinds = draw(st.sampled_from([[mark], [mark], [WEAK, ""], [WEAK, WEAK, ""], ["", WEAK], [WEAK, WEAK]]))
        apart = draw(st.sampled_from([0.0, 0.0, 0.2]))
        says = [draw(st.sampled_from(SAYS)) for _ in kinds]
        for n, w in prints:
            offset, time = offset + size, time + pause
            for kind, (has_time, has_loss, has_more) in zip(kinds, says, strict=True):
                offset += 1
                loss = (
                    1.0 + apart * (len(found) % 3) + n // steady * steady / 200 + (len(w) and int(w[1])) / 10 * own_loss
                )
                bare_now = bare and kind == mark
                item = step(
                    offset,
                    None if bare_now else n,
                    kind + w,
                    time if timed and has_time else None,
                    loss * has_loss or None,
                )
                row = item.row
                assert isinstance(row, TrainingStep)
                row.total_steps = draw(st.sampled_from([None, 500])) if bare_now and n == begin else None
                row.grad_norm, row.skipped = (n / 7, n % 3) if has_more else (None, None)
                row.rank = int(w[1]) if w and has_more else None
                found.append(item)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(found) - 1))
        mark = draw(st.sampled_from([BAR, VALUES, WEAK, f"{VALUES}#3/9", ""]))
        odd = draw(st.none() | st.integers(0, 200))
        found.insert(at, step(found[at].offset, odd, mark, None, draw(st.sampled_from([None, float("nan"), 1.0]))))
    return found, beginnings


def shown(found: list[Found]) -> list[str]:
    return [f"{item.offset} {asdict(item.row)} {item.reading[:2]} {item.mark}" for item in found]


@settings(max_examples=80, deadline=None)
@given(logs(), st.lists(st.integers(1, 200), min_size=1, max_size=4), st.booleans())
def test_any_pieces(log: tuple[list[Found], list[int]], sizes: list[int], lean: bool) -> None:
    found, beginnings = log
    wanted = shown(join_steps(deepcopy(found), beginnings))
    pieces = []
    while found:
        size = sizes[len(pieces) % len(sizes)]
        batch = pack_found(found[:size], TABLES[TrainingStep.table])
        if lean:
            kept = [name for name in batch.schema.names if batch.column(name).null_count < batch.num_rows]
            columns = [batch.column(name) for name in kept]
            columns = [column.dictionary_encode() if column.type == pa.string() else column for column in columns]
            batch = pa.RecordBatch.from_arrays(columns, names=kept)
        pieces.append(InMemory(batch))
        found = found[size:]
    joined = [item for piece in join_pieces(pieces, beginnings) for item in found_of(plain(piece.read()))]
    assert shown(joined) == wanted


@pytest.mark.parametrize("marks", [("", ""), (WEAK, ""), ("", WEAK), (WEAK, WEAK), ("@0: ", "@0: "), ("@0: ", "@1: ")])
@pytest.mark.parametrize("apart", [0.0, 0.2])
@pytest.mark.parametrize("times", [(True, False), (False, True), (True, True)])
def test_two_prints_of_each_step(marks: tuple[str, str], apart: float, times: tuple[bool, bool]) -> None:
    found = []
    for number in range(300):
        for place, mark in enumerate(marks):
            time = (1_700_000_000 + number) * SECOND if times[place] else None
            found.append(step(20 * number + place, number, mark, time, 1 + number / 1000 + apart * place))
            found[-1].row.skipped = place  # type: ignore[attr-defined]
    wanted = shown(join_steps(deepcopy(found)))
    pieces = join_pieces([InMemory(pack_found(found, TABLES[TrainingStep.table]))], [])
    assert [line for piece in pieces for line in shown(list(found_of(plain(piece.read()))))] == wanted
