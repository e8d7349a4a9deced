"""Sessions do not depend on the order or the repetition of what they are built from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.pipeline.attempts import Record
from aftershock.pipeline.sessions import build_sessions
from aftershock.schemas.events import SchedulerEvent
from tests.pipeline.test_sessions import RULES, build, job, said

_TIMES = st.none() | st.integers(0, 40)
_RECORDS = st.builds(
    lambda submit, length, end, state, form, name, hosts, place: (
        form,
        job(
            submit,
            None if submit is None or length is None else submit + length,
            end,
            state,
            name=name,
            hosts=hosts,
            sources=[f"acct:{place}"],
        ),
    ),
    _TIMES,
    st.none() | st.integers(0, 9),
    _TIMES,
    st.sampled_from(["COMPLETED", "FAILED", "NODE_FAIL", "CANCELLED", "RUNNING", "PENDING", None]),
    st.sampled_from(["sacct", "sacct_json", "scontrol_job"]),
    st.sampled_from(["glm", "glm", "bert", None]),
    st.sampled_from([None, [], ["n1"], ["n1", "n2"]]),
    st.integers(0, 3),
)
_EVENTS = st.builds(
    lambda kind, time, code, cluster, basis: said(
        kind, time, exit_code=code, cluster=cluster, time_basis=basis, byte_offset=time
    ),
    st.sampled_from(["submitted", "started", "ended", "requeued", "cancelled", "time_limit", "node_state"]),
    _TIMES,
    st.sampled_from([None, 0, 1]),
    st.sampled_from([None, None, None, "sun"]),
    st.sampled_from(["zoned", "zoned", "assumed_zone"]),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(_RECORDS, max_size=6), st.lists(_EVENTS, max_size=8), st.randoms(use_true_random=False))
def test_order_and_repetition_do_not_matter(records: list[Record], events: list[SchedulerEvent], chance: Any) -> None:
    expected = build_sessions(records, events, RULES)
    again = records + [record for record in records if chance.random() < 0.5]
    chance.shuffle(again)
    lines = list(events)
    chance.shuffle(lines)
    assert build_sessions(again, lines, RULES) == expected
    ids = [session.session_id for session in expected.sessions]
    assert len(set(ids)) == len(ids)
    assert {event.session_id for event in expected.events} <= {*ids, None}


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(3, 50), st.integers(3, 50), st.booleans()), min_size=1, max_size=6), st.booleans()
)
def test_sessions_read_again_are_the_same(lives: list[tuple[int, int, bool]], placed_at_last: bool) -> None:
    """Histories of one job: waits and runs; what comes out is what went in, and stands when it is read again."""
    now, rows = 0, []
    for number, (wait, run, node) in enumerate(lives):
        state = "COMPLETED" if number == len(lives) - 1 else "NODE_FAIL" if node else "REQUEUED"
        rows.append(job(now, now + wait, now + wait + run, state, sources=[f"acct:{number}"]))
        now += wait + run
    if not placed_at_last:
        rows[-1] = replace(rows[-1], start_time=None, hosts=[], state="CANCELLED")
    once = build([*rows])
    assert [s.attempt for s in once if s.start_time is not None] == list(range(1, len(lives) + placed_at_last))
    assert build([*once]) == once
