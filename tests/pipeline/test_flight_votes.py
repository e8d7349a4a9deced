"""Who held up the others: dumps of ranks that stand where they stand in hangs of known cause."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.documents.flight_state import GroupState
from aftershock.pipeline.training.flight_votes import suspects_of
from aftershock.schemas.events import TrainingEvent

MICROS = 1772360430_000000


def stand(
    rank: int | None,
    group: str,
    ranks: list[int] | None,
    enqueued: int,
    completed: int,
    pending: int | None = None,
    p2p: bool = False,
) -> TrainingEvent:
    waits = enqueued - completed if pending is None else pending
    state = GroupState(
        group, f"GROUP_{group}", enqueued, None, completed, waits, completed + 1 if waits else None, "x", p2p
    )
    return TrainingEvent(
        kind="flight_record",
        rank=rank,
        ranks=ranks,
        message=state.text(),
        time=MICROS + (rank or 0),
        source=f"_dump_{rank}",
    )


def grid(*, behind: int | None = None, absent: int | None = None) -> list[TrainingEvent]:
    """Sixteen ranks in groups of four, by row and by column; one of them does not come."""
    groups = {f"row{n}": list(range(4 * n, 4 * n + 4)) for n in range(4)}
    groups |= {f"column{n}": list(range(n, 16, 4)) for n in range(4)}
    events = []
    for name, ranks in groups.items():
        hit = behind in ranks or absent in ranks
        for rank in ranks:
            if rank == absent:
                continue
            late = rank == behind
            events.append(stand(rank, name, ranks, 99 if late else 100, 99 if hit else 100))
    return events


def test_a_rank_that_is_behind_is_the_suspect():
    (event,) = suspects_of(grid(behind=6))
    assert (event.kind, event.rank, event.ranks) == ("error", 6, [2, 4, 5, 7, 10, 14])
    assert (event.error_class, event.error_role) == ("collective_desync", "root")
    words = "behind in GROUP_column2 (99 of 100); behind in GROUP_row1 (99 of 100)"
    assert event.error == f"rank 6 held up 2 of 2 groups that wait: {words}"
    assert event.time == MICROS + 2


def test_a_rank_that_is_silent_is_the_suspect():
    (event,) = suspects_of(grid(absent=6))
    assert (event.rank, event.error_class, event.error_role) == (6, "collective_timeout", "symptom")
    assert event.source == "_dump_2"
    assert event.host is None


def test_a_device_that_does_not_finish_is_the_suspect():
    ranks = [0, 1, 2, 3]
    events = [stand(rank, "a", ranks, 100, 90 if rank == 3 else 98) for rank in ranks]
    (event,) = suspects_of(events)
    assert (event.rank, event.error_role, event.ranks) == (3, "symptom", [0, 1, 2])


def test_nobody_is_suspected_where_nobody_waits():
    assert suspects_of(grid()) == []
    assert suspects_of([]) == []


def test_all_wait_for_the_same_and_nobody_is_suspected():
    ranks = [0, 1, 2, 3]
    assert suspects_of([stand(rank, "a", ranks, 100, 99) for rank in ranks]) == []


def test_sends_and_receives_are_counted_by_each_rank_for_itself():
    ranks = [0, 4, 8, 12]
    events = [stand(rank, "pp", ranks, 1000 * rank + 9, 1000 * rank + 6, p2p=True) for rank in ranks]
    assert suspects_of(events) == []
    events[2] = stand(8, "pp", ranks, 8000, 8000, p2p=True)
    assert [event.rank for event in suspects_of(events)] == [8]


def test_dumps_that_were_not_given_say_nothing():
    ranks = list(range(16))
    events = [stand(rank, "a", ranks, 100, 99) for rank in range(3)]
    assert suspects_of(events) == []


def test_what_has_no_rank_or_is_no_record_counts_for_nothing():
    nobody = stand(None, "row1", [4, 5, 6, 7], 500, 99)
    other = TrainingEvent(kind="error", rank=3, message=nobody.message)
    broken = TrainingEvent(kind="flight_record", rank=3, message="group row1: enqueued many")
    assert suspects_of([*grid(behind=6), nobody, other, broken]) == suspects_of(grid(behind=6))


def test_of_two_dumps_of_a_rank_the_later_counts():
    before = [stand(rank, "row1", [4, 5, 6, 7], 40, 39) for rank in (4, 5)]
    assert [event.rank for event in suspects_of([*grid(behind=6), *before])] == [6]


@given(st.integers(0, 15), st.booleans(), st.randoms())
def test_any_rank_in_any_order_of_files(rank: int, silent: bool, order: random.Random) -> None:
    events = grid(absent=rank) if silent else grid(behind=rank)
    expected = suspects_of(events)
    order.shuffle(events)
    assert suspects_of(events) == expected
    assert [event.rank for event in expected] == [rank]
