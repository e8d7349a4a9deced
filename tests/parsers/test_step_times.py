"""Times from neighbours do not hang on how the steps of a file are cut into pieces."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.neighbours import fill_rows
from aftershock.parsers.resolve import Resolved
from aftershock.parsers.step_times import NOT_KNOWN, Neighbours, StepPiece
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import TrainingStep

SECOND = 1_000_000


@st.composite
def files(draw: Any) -> tuple[list[TrainingStep | TrainingEvent], list[tuple[int, Resolved]]]:
    """Steps and events in the order of a file, some of them with a time, and clocks of other lines."""
    rows: list[TrainingStep | TrainingEvent] = []
    anchors = {}
    time = 1_700_000_000 * SECOND
    for number in range(draw(st.integers(1, 25))):
        time += draw(st.integers(0, 20)) * SECOND
        basis = draw(st.sampled_from([None, None, "zoned", "assumed_zone"]))
        clock = {"time": time, "time_basis": basis, "time_error_s": 1.0} if basis else {}
        kind = draw(st.sampled_from(["step", "step", "event", "anchor"]))
        offset = 10 * number
        if kind == "step":
            step = draw(st.none() | st.integers(0, 30))
            seconds = draw(st.sampled_from([None, 5.5, 7.25, 0.0, float("nan")]))
            rows.append(TrainingStep(step=step, step_time_s=seconds, byte_offset=offset, **clock))
        elif kind == "event":
            rows.append(TrainingEvent(kind="clock", byte_offset=offset, last_time=clock.get("time"), **clock))
        if kind == "anchor" or draw(st.booleans()):
            anchors[offset] = Resolved(time, "zoned", 0.5)
    return rows, list(anchors.items())


def piece_of(steps: Sequence[TrainingStep]) -> StepPiece:
    return StepPiece(
        np.array([row.byte_offset for row in steps], np.int64),
        np.array([NOT_KNOWN if row.time is None else row.time for row in steps], np.int64),
        np.array([row.time_error_s or 0.0 for row in steps], np.float64),
        np.array([np.nan if row.step is None else row.step for row in steps], np.float64),
        np.array([np.nan if row.step_time_s is None else row.step_time_s for row in steps], np.float64),
        any(row.time_basis == "assumed_zone" for row in steps),
    )


@settings(max_examples=300, deadline=None)
@given(files(), st.integers(1, 8))
def test_any_pieces(file: Any, size: int) -> None:
    rows, anchors = file
    wanted = deepcopy(rows)
    fill_rows(wanted, anchors)
    if all(row.time is not None for row in rows):
        return
    steps = [row for row in rows if isinstance(row, TrainingStep)]
    cut = [steps[at : at + size] for at in range(0, len(steps), size)]
    around = Neighbours([row for row in rows if isinstance(row, TrainingEvent)], anchors)
    for part in cut:
        around.scan(piece_of(part))
    for show in (around.look, around.lead):
        for part in cut:
            show(piece_of(part))
        show(None)
    filled = [around.fill(piece_of(part)) for part in cut]
    around.fill(None)
    for part, (times, errors) in zip(cut, filled, strict=True):
        for row, time, error in zip(part, times.tolist(), errors.tolist(), strict=True):
            if row.time is None and time != NOT_KNOWN:
                row.time, row.time_basis, row.time_error_s = time, around.basis, error
    assert repr(rows) == repr(wanted)
