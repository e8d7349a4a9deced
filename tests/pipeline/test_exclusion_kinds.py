"""Exclusions that other schedulers and lists of states tell of: cordons, failed hosts, drains seen twice."""

from __future__ import annotations

import pytest

from aftershock.pipeline.exclusions import find_exclusions, soft_exclusions
from tests.pipeline.test_exclusions import DAY0, US, said, spans


def test_cordon_until_uncordoned() -> None:
    lines = [
        said("node_cordon", 10, scheduler="kubernetes", user="ada"),
        said("node_down", 20, scheduler="kubernetes"),
        said("node_up", 30, scheduler="kubernetes", state="Ready"),
        said("node_uncordon", 40, scheduler="kubernetes"),
    ]
    rows = find_exclusions(lines)
    assert spans(rows) == [("n1", "cordon", 10, 40), ("n1", "down", 20, 30)]
    assert rows[0].by == "ada"


def test_drain_in_the_log_and_in_a_list_of_states_is_one_row() -> None:
    shown = said("node_drain", 10, state="IDLE+DRAIN", reason="bad link", user="root", time_error_s=1.0)
    logged = [
        said("node_drain", 10.4, state="DRAINED", time_error_s=0.001, source="ctl"),
        said("node_resume", 90, state="IDLE", source="ctl"),
    ]
    (row,) = find_exclusions([shown, *logged])
    assert spans([row]) == [("n1", "drain", 10.4, 90)]
    assert (row.reason, row.by) == ("bad link", "root")
    assert row.exclusion_id == find_exclusions(logged)[0].exclusion_id
    assert find_exclusions([*logged[::-1], shown]) == [row]


def test_list_of_states_shows_a_drain_that_is_still_open() -> None:
    shown = [said("node_drain", 10, state="drng", reason="bad link", byte_offset=n, source=f"s{n}") for n in (1, 2)]
    assert spans(find_exclusions(shown)) == [("n1", "drain", 10, None)]


def test_reason_left_on_a_host_that_works_again_ends_nothing() -> None:
    """Its time is that of the reason, not of the list."""
    lines = [said("node_drain", 10, reason="bad link"), said("node_state", 10, state="IDLE", reason="bad link")]
    assert spans(find_exclusions(lines)) == [("n1", "drain", 10, None)]


@pytest.mark.parametrize("kind", ["node_drain", "node_down", "node_cordon"])
def test_what_is_shown_without_a_time_has_no_start(kind: str) -> None:
    how = kind.removeprefix("node_")
    shown = said(kind, None, reason="why")
    (row,) = find_exclusions([shown, said(kind, None)])
    assert (row.how, row.start_time, row.end_time, row.reason) == (how, None, None, "why")
    # The log knows better.
    back = said("node_resume", 9) if how != "cordon" else said("node_uncordon", 9)
    assert spans(find_exclusions([shown, said(kind, 5), back])) == [("n1", how, 5, 9)]


def test_hosts_that_failed_a_session_are_out_for_an_hour() -> None:
    told = {"scheduler": "backendai", "session_id": "s-1", "reason": "failed to create kernels"}
    lines = [
        said("hosts_failed", 0, ("n1", "n2"), **told),
        said("hosts_failed", 1800, ("n2",), **told),
        said("hosts_failed", 9000, ("n2",), **told),
        said("hosts_failed", 0, ("n1",), **told | {"session_id": "s-2"}),
        said("hosts_failed", None, ("n3",), **told),
    ]
    rows = soft_exclusions(lines)
    assert sorted(spans(rows)) == [
        ("n1", "soft", 0, 3600),
        ("n1", "soft", 0, 3600),
        ("n2", "soft", 0, 5400),
        ("n2", "soft", 9000, 12600),
    ]
    assert {(row.session_id, row.by, row.reason) for row in rows if row.host == "n2"} == {
        ("s-1", "backendai", "failed to create kernels")
    }
    assert len({row.exclusion_id for row in rows}) == 4
    assert sorted(rows, key=repr) == sorted(soft_exclusions(lines[::-1]), key=repr)
    assert DAY0 % US == 0
