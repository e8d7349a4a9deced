"""Steps joined as columns, piece by piece, are what they are joined row by row."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.clock import NO_CLOCK, SECOND, Reading
from aftershock.parsers.formats import Found
from aftershock.parsers.training.step_columns import InMemory, join_pieces, plain
from aftershock.parsers.training.steps import BAR, VALUES, WEAK, join_steps
from aftershock.parsers.transit import found_of, pack_found
from aftershock.schemas.tables import TABLES
from aftershock.schemas.training import TrainingStep


def step(offset: int, number: int | None, mark: str, time: int | None, loss: float | None) -> Found:
    row = TrainingStep(step=number, loss=loss, samples=None if number is None else number * 8, copies=1)
    reading = NO_CLOCK if time is None else Reading("local", time, resolution=1)
    return Found(row, reading, offset, mark, format="training")


@st.composite
def logs(draw: Any) -> tuple[list[Found], list[int]]:
    """Runs of steps: of one writer or of several, one after the other or between each other, with and without times."""
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
        numbers = range(begin, begin + length)
        prints = [(n, w) for n in numbers for w in writers] if together else [(n, w) for w in writers for n in numbers]
        for n, w in prints:
            offset, time = offset + size, time + pause
            loss = 1.0 + n / 1000 + (len(w) and int(w[1])) / 10 * own_loss
            found.append(step(offset, n, w, time if timed else None, loss))
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
