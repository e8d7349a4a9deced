"""A controller's log whose clock differs from that of the accounting by minutes: one session, and what it was taken for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session
from tests.pipeline.test_sessions import build, built, job, said, spans

HOUR = 3600.0


def logged(offset: float, *placements: tuple[float, float], last: str = "ended") -> list[SchedulerEvent]:
    """Placements by a log that is ahead by so much: all but the last end with a requeue."""
    lines = [said("submitted", offset)]
    for number, (start, end) in enumerate(placements, start=1):
        lines.append(said("started", start + offset, hosts=["n1", "n2"]))
        lines.append(said(last if number == len(placements) else "requeued", end + offset))
    return lines


@pytest.mark.parametrize("offset", [185.0, -185.0, 640.0, -890.0])
@pytest.mark.parametrize("length", [30.0, HOUR])
def test_one_placement_is_one_session(offset: float, length: float) -> None:
    (row,) = build([job(0, 5, 5 + length)], logged(offset, (5.4, 5.6 + length)))
    assert spans([row]) == [(1, 5, 5 + length, "COMPLETED")]
    assert row.time_error_s == pytest.approx(abs(offset), abs=1)
    assert [text.split(":")[0] for text in row.conflicts or ()] == ["start_time", "end_time"]
    assert len(row.sources or ()) == 4


def test_a_requeued_job_pair_by_pair() -> None:
    records = [job(0, 10, HOUR, "NODE_FAIL"), job(HOUR, HOUR + 90, 2 * HOUR, "COMPLETED")]
    rows = build(records, logged(240, (10, HOUR), (HOUR + 90, 2 * HOUR)))
    assert spans(rows) == [(1, 10, HOUR, "NODE_FAIL"), (2, HOUR + 90, 2 * HOUR, "COMPLETED")]


def test_accounting_that_keeps_the_last_placement_only() -> None:
    """The others stand in the log alone, and are moved to the same clock: nothing begins before its turn."""
    result = built([job(HOUR, HOUR + 90, 3 * HOUR)], logged(300, (10, HOUR), (HOUR + 90, 3 * HOUR)))
    assert [(s.attempt, s.start_time) for s in result.sessions] == [
        (1, result.sessions[0].start_time),
        (2, job(0, HOUR + 90).start_time),
    ]
    first, last = result.sessions
    assert first.end_time is not None
    assert last.start_time is not None
    assert first.end_time < last.start_time
    assert first.time_error_s == pytest.approx(300, abs=1)
    assert [event.session_id for event in result.events] == [first.session_id] * 3 + [last.session_id] * 2


@pytest.mark.parametrize(
    ("record", "lines"),
    [
        # It lasted longer than the log says.
        (job(0, 5, HOUR), logged(200, (5, HOUR + 60))),
        # More than a quarter of an hour is a zone, or another job.
        (job(0, 5, 2 * HOUR), logged(1000, (5, 2 * HOUR))),
        # Put back after half a minute, time and again: it may be the next time.
        (job(0, 5, 35, "NODE_FAIL"), [said("started", 205), said("requeued", 235)]),
        # The accounting says that it was put back, the log that it was not.
        (job(0, 5, HOUR, "NODE_FAIL"), logged(200, (5, HOUR))),
        # Another user's.
        (job(0, 5, HOUR), [said("submitted", 200, user="mira"), *logged(200, (5, HOUR))[1:]]),
    ],
    ids=["longer", "far", "again", "requeued", "user"],
)
def test_what_is_not_certain_stays_two(record: Session, lines: list[SchedulerEvent]) -> None:
    rows = build([record], lines)
    assert len([row for row in rows if row.start_time is not None]) == 2


def test_two_that_match_one_are_not_joined() -> None:
    records = [job(0, 5, 65), job(100, 105, 165)]
    rows = build(records, [said("started", 55), said("ended", 115)])
    assert len([row for row in rows if row.start_time is not None]) == 3


@given(st.integers(-880, 880).filter(lambda n: abs(n) > 3), st.lists(st.integers(950, 9000), min_size=1, max_size=4))
def test_any_offset_and_any_number_of_placements(offset: int, lengths: list[int]) -> None:
    moment, placements = 10.0, []
    for length in lengths:
        placements.append((moment, moment + length))
        moment += length + 30
    records: list[Any] = [
        job(0 if start == 10 else start - 30, start, end, "COMPLETED" if end + 30 == moment else "NODE_FAIL")
        for start, end in placements
    ]
    rows = build(records, logged(offset, *placements))
    if len(set(lengths)) == len(lengths) and all(abs(offset) < length for length in lengths):
        assert [row.start_time for row in rows] == [record.start_time for record in records]
    assert sorted(rows, key=repr) == sorted(build(records[::-1], logged(offset, *placements)[::-1]), key=repr)
