"""What is left out before sessions are linked changes no link and no number."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.transit import lean_batch, rows_of
from aftershock.pipeline.linkable import linking_columns, marked_planned, may_link
from aftershock.pipeline.links import History
from aftershock.pipeline.retries import RetryRules, link
from aftershock.pipeline.sensitivity import findings_of, tallies
from aftershock.schemas.changes import Change
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session
from tests.pipeline.test_retries import _histories, at, ran

HOUR = 3600


def both(
    sessions: list[Session], requeues: list[SchedulerEvent], rules: RetryRules
) -> tuple[list[Session], tuple[object, ...], tuple[object, ...]]:
    """The sessions that are kept, and what follows from them and from all."""
    batches = [linking_columns(lean_batch(part, "sessions")) for part in (sessions[::2], sessions[1::2]) if part]
    some = may_link(batches, requeues, rules)
    kept = [row for batch in some.batches for row in rows_of(batch) if isinstance(row, Session)]
    fewer, full = History(kept, requeues, rules, some.names), History(sessions, requeues, rules)
    return (
        kept,
        (link(fewer), tallies(fewer, 1, None, None)),
        (link(full), tallies(full, 1, None, None)),
    )


_JOBS = st.lists(
    st.builds(
        lambda n, start, length, state, name, folder, user, command, more: ran(
            str(n),
            start * HOUR,
            (start + length) * HOUR,
            state,
            submit=start * HOUR - 5,
            name=name,
            work_dir=folder,
            user=user,
            command=command,
            **more,
        ),
        st.integers(0, 500),
        st.integers(0, 30),
        st.integers(0, 3),
        st.sampled_from(["FAILED", "TIMEOUT", "COMPLETED", "COMPLETED", "CANCELLED", "RUNNING"]),
        st.sampled_from(["glm", "glm-2", "bert", "eval", None, ""]),
        st.sampled_from(["/a", "/b", None]),
        st.sampled_from(["ada", "eve", None]),
        st.sampled_from([None, "sbatch -N2 a.sh", "sbatch a.sh", "sbatch -d afternotok:7 b.sh"]),
        st.sampled_from(
            [
                {},
                {},
                {"retry_of": "7"},
                {"excluded_hosts": ["n9"]},
                {"time_basis": "assumed_zone"},
                {"job_id": "9_3"},
                {"hosts": ["n3"]},
            ]
        ),
    ),
    max_size=14,
    unique_by=lambda row: row.session_id,
)


@settings(max_examples=300, deadline=None)
@given(_JOBS, st.sampled_from([{}, {"factor_cancelled": 0.9}, {"names_per_folder": 1}, {"max_gap_s": 30.0}]))
def test_jobs_that_are_left_out_had_no_link(jobs: list[Session], rules: Any) -> None:
    _, fewer, full = both(jobs, [], RetryRules(**rules))
    assert fewer == full


@settings(max_examples=150, deadline=None)
@given(_histories())
def test_histories_of_jobs_stay_whole(history: tuple[list[Session], list[SchedulerEvent]]) -> None:
    _, fewer, full = both(*history, RetryRules())
    assert fewer == full


def test_what_is_left_out() -> None:
    jobs = [
        ran("1", 1, 100),
        ran("2", 200, 300, "COMPLETED"),
        ran("3", 100 * HOUR, 101 * HOUR, "COMPLETED"),
        ran("4", 200 * HOUR, 201 * HOUR, "FAILED"),
        ran("5", 1, 100, "COMPLETED", name="other", work_dir="/x"),
        ran("6", 200, 300, "COMPLETED", user="eve"),
    ]
    kept, fewer, full = both(jobs, [], RetryRules())
    assert sorted(row.job_id or "" for row in kept) == ["1", "2"]
    assert fewer == full
    batches = [lean_batch(jobs, "sessions")]
    some = may_link(batches, [], RetryRules())
    assert (some.placed, some.first, some.last) == (6, at(1), at(201 * HOUR))
    assert may_link([], [], RetryRules()).batches == []


def test_planned_ends_are_marked_in_batches() -> None:
    jobs = [ran("1", 1, 100), ran("2", 1, 50 * HOUR), ran("3", 1, None, "RUNNING")]
    change = Change(cluster="sun", host="n1", kind="maintenance", start_time=at(90), end_time=at(200))
    marked = marked_planned([lean_batch(jobs, "sessions")], [change])
    rows = {row.job_id: row.planned for batch in marked for row in rows_of(batch) if isinstance(row, Session)}
    assert rows == {"1": True, "2": None, "3": None}
    assert marked_planned([lean_batch(jobs, "sessions")], [])[0].num_rows == 3


@settings(max_examples=150, deadline=None)
@given(_histories())
def test_tallies_count_the_chains(history: tuple[list[Session], list[SchedulerEvent]]) -> None:
    rules = RetryRules()
    ready = History(*history, rules)
    linked = link(ready)
    found = {row.finding: row for row in findings_of(tallies(ready, 1, None, None), rules) if row.subject == "all"}
    decided = [chain for chain in linked.chains if chain.outcome not in (None, "running")]
    assert found["chains"].value == len(linked.chains)
    assert found["retries"].value == len(linked.retries)
    share = next(
        row
        for row in findings_of(tallies(ready, 1, None, None), rules)
        if (row.finding, row.subject, row.unit) == ("retry_success_share", "all", "chains")
    )
    assert share.denominator == len(decided)
    assert share.numerator == sum(chain.outcome == "succeeded" for chain in decided)
