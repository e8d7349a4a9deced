"""What a list of the queue says joins the attempt that it looks at; what a host launches, the one that was placed."""

from __future__ import annotations

import pytest

from tests.pipeline.test_sessions import build, built, job, said


def look(state: str, hosts: list[str], **more: object) -> object:
    return job(state=state, hosts=hosts, time_basis="none", sources=["queue:85"], **more)


@pytest.mark.parametrize(
    ("state", "hosts", "name"),
    [
        ("RUNNING", ["n1", "n2"], "glm"),
        ("RUNNING", ["n2", "n1"], None),
        ("PENDING", [], "glm"),
        ("COMPLETED", ["n1", "n2"], "glm"),
    ],
)
def test_a_look_joins_the_attempt_on_its_hosts(state: str, hosts: list[str], name: str | None) -> None:
    (row,) = build([job(0, 1, 90), look(state, hosts, name=name)])
    assert (row.state, row.hosts, row.sources) == ("COMPLETED", ["n1", "n2"], ["acct:1", "queue:85"])


def test_a_running_job_stays_one_that_runs() -> None:
    (row,) = build([job(0, 1, state="RUNNING"), look("RUNNING", ["n1", "n2"])])
    assert (row.state, row.attempt) == ("RUNNING", 1)


def test_a_look_joins_the_last_of_several_attempts() -> None:
    first, second = build(
        [job(0, 1, 90, "NODE_FAIL"), job(90, 100, state="RUNNING"), look("RUNNING", ["n1", "n2"])],
        [said("requeued", 90)],
    )
    assert (first.sources, second.sources) == (["acct:1", "ctl:90000"], ["acct:1", "queue:85"])
    assert second.state == "RUNNING"


def test_names_that_the_list_cuts_are_the_same() -> None:
    rows = build([job(0, 1, 90, name="pretraining-7b"), look("RUNNING", ["n1", "n2"], name="pretrain")])
    assert [row.name for row in rows] == ["pretraining-7b"]


@pytest.mark.parametrize(
    ("state", "hosts", "more"),
    [
        ("RUNNING", ["n3"], {}),
        ("RUNNING", ["n1", "n2"], {"user": "bob"}),
        ("RUNNING", ["n1", "n2"], {"name": "glx"}),
        ("CANCELLED", [], {}),
    ],
)
def test_a_look_at_something_else_stays(state: str, hosts: list[str], more: dict[str, object]) -> None:
    assert len(build([job(0, 1, 90), look(state, hosts, **more)])) == 2


def test_what_a_host_launches_within_the_second_of_a_requeue_is_the_placed_attempt() -> None:
    records = [job(0, 1, 1, "REQUEUED"), job(1, None, 3, "CANCELLED")]
    lines = [said("launched", 1.17, host="n1"), said("requeued", 1.4)]
    result = built(records, lines)
    placed = next(row.session_id for row in result.sessions if row.start_time is not None)
    assert [event.session_id for event in result.events if event.kind == "launched"] == [placed]


def test_a_requeue_within_the_second_of_the_start_ends_what_was_placed() -> None:
    lines = [said("submitted", 0.2), said("started", 1.7), said("requeued", 1.95), said("cancelled", 3.05)]
    rows = build([job(0, 1, 1, "REQUEUED"), job(1, None, 3, "CANCELLED")], lines)
    assert [row.state for row in rows] == ["REQUEUED", "CANCELLED"]
    again = [job(0, 10, 90, "REQUEUED"), job(90, 91, 91, "REQUEUED"), job(91, None, 93, "CANCELLED")]
    rows = build(again, [said("requeued", 90.3), said("requeued", 91.9), said("cancelled", 93.4)])
    assert sorted(row.state or "" for row in rows) == ["CANCELLED", "REQUEUED", "REQUEUED"]
