"""Which source of a session is believed where several tell of it."""

from __future__ import annotations

from dataclasses import replace

from tests.pipeline.test_sessions import US, build, job, seconds


def test_pods_know_better_than_their_job_when_it_ran() -> None:
    """A job object says when its controller took it up; told in another file it must not win because it is earlier."""
    whole = job(0, 10, 910, scheduler="kubernetes", hosts=None, duration_s=900.0, time_error_s=600.0)
    pods = job(None, 250, 909, scheduler="kubernetes", hosts=["n1", "n2"], duration_s=659.0, time_error_s=1.0)
    for records in ([("kubernetes", whole), ("kubernetes", pods)], [("kubernetes", pods), ("kubernetes", whole)]):
        (row,) = build(list(records))
        assert (seconds(row.start_time), row.time_error_s, row.hosts) == (250, 1.0, ["n1", "n2"])
        assert seconds(row.submit_time) == 0
        assert row.duration_s == (row.end_time - row.start_time) / US  # type: ignore[operator]


def test_a_look_at_the_queue_as_json_gives_way_to_accounting() -> None:
    look = job(0, 10, None, "RUNNING", name="glm (look)")
    (row,) = build([("squeue_json", look), ("scontrol_job", job(0, 10, None, "RUNNING"))])
    assert row.name == "glm"
    assert build([("squeue_json", replace(look, scheduler=None))])[0].scheduler == "slurm"
