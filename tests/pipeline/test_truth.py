"""The records of a real eight-host Slurm cluster, against what was done to it (``truth.txt``, line by line).

Every test names the lines of the truth that it stands for. The cluster's clock was UTC.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from aftershock.results import Results

SAMPLES = Path(__file__).parents[1] / "samples" / "slurm"
DAY = dt.date(2026, 12, 1)

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Results:
    import aftershock
    from aftershock.pipeline.options import RunOptions
    from aftershock.pipeline.prepare import prepare
    from aftershock.pipeline.run import run

    out = tmp_path_factory.mktemp("truth")
    files = sorted(str(path) for path in SAMPLES.iterdir() if path.name != "truth.txt")
    run(prepare(RunOptions(inputs=tuple(files), out=str(out / "out"), timezone="UTC")))
    return aftershock.open(out / "out")


def rows(result: Results, table: str, **equal: Any) -> Rows:
    found: Rows = result[table].table().to_pylist()
    return [row for row in found if all(row[name] == value for name, value in equal.items())]


def at(clock: str) -> dt.datetime:
    return dt.datetime.combine(DAY, dt.time.fromisoformat(clock), dt.timezone.utc)


def near(moment: dt.datetime | None, clock: str, seconds: float) -> bool:
    return moment is not None and abs((moment - at(clock)).total_seconds()) <= seconds


def one(found: Iterable[dict[str, Any]]) -> dict[str, Any]:
    items = list(found)
    assert len(items) == 1, items
    return items[0]


def attempts(result: Results, raw_job_id: str) -> Rows:
    found = rows(result, "sessions", raw_job_id=raw_job_id)
    return sorted(found, key=lambda row: (row["submit_time"], row["start_time"] or at("23:59:59")))


def test_every_line_of_the_truth_is_known_here() -> None:
    """If the truth gains a line, a test for it has to be written."""
    lines = [line for line in (SAMPLES / "truth.txt").read_text().splitlines() if line.startswith("2026")]
    assert [line.split(" ", 1)[1] for line in lines] == [
        "submit 5 pre-a requeue",
        "kill slurmd gpu004 round 1",
        "gpu004 resumed",
        "kill slurmd gpu004 round 2",
        "gpu004 resumed",
        "drain gpu004 Xid 79",
        "scancel 5",
        "submit 6 pre-b rc137",
        "submit 7 pre-b rc137",
        "submit 8 pre-b exclude ok",
        "submit 9 array",
        "submit 13 pre-c",
        "scontrol requeue 13",
        "requeuehold 13",
        "scancel kill 13",
        "submit 14 timelimit 1min",
        "submit 15 8 nodes never (drained)",
        "scancel pending 15",
        "resume gpu004",
        "submit 16 big 8 nodes",
        "done",
    ]


def test_nothing_was_refused(result: Results) -> None:
    assert rows(result, "rejects") == []
    assert {row["format"] for row in rows(result, "sources")} == {"slurmctld", "sacct", "sacct_json", "scontrol_job"}


def test_one_session_for_each_placement_and_for_each_that_never_got_hosts(result: Results) -> None:
    found = rows(result, "sessions")
    assert sorted(row["job_id"] for row in found if row["start_time"]) == sorted(
        ["1", "2", "3", "4", "5", "6", "7", "8", "9_0", "9_1", "9_2", "9_3", "13", "14", "16"]
    )
    assert sorted(row["job_id"] for row in found if not row["start_time"]) == ["13", "15", "5"]
    assert len({row["session_id"] for row in found}) == len(found)
    assert {row["cluster"] for row in found} == {"trainlab"}
    assert {row["scheduler"] for row in found} == {"slurm"}


def test_submit_5_and_kill_slurmd_gpu004_round_1(result: Results) -> None:
    first, second = attempts(result, "5")
    assert near(first["submit_time"], "20:11:45", 1)
    assert (first["name"], first["user"], first["attempt"], first["state"]) == ("pre-a", "trainer", 1, "NODE_FAIL")
    assert first["hosts"] == ["gpu001", "gpu002", "gpu003", "gpu004"]
    assert near(first["end_time"], "20:12:27", 1)
    requeue = one(rows(result, "scheduler_events", kind="requeued", raw_job_id="5"))
    assert "node" in requeue["reason"]
    assert requeue["hosts"] == ["gpu004"]
    assert requeue["session_id"] == first["session_id"]
    assert (second["start_time"], second["hosts"], second["attempt"]) == (None, [], None)


def test_gpu004_was_down_twice_and_resumed_twice(result: Results) -> None:
    down = rows(result, "exclusions", host="gpu004", how="down")
    assert len(down) == 2
    assert near(down[0]["start_time"], "20:12:27", 1)
    assert near(down[0]["end_time"], "20:12:42", 1)  # resumed by itself before the operator's line of 20:12:52
    assert near(down[1]["start_time"], "20:13:33", 1)
    assert near(down[1]["end_time"], "20:13:52", 1)


def test_drain_and_resume_of_gpu004(result: Results) -> None:
    drain = one(rows(result, "exclusions", how="drain"))
    assert (drain["host"], drain["reason"]) == ("gpu004", "Xid 79 GPU fallen off the bus")
    assert near(drain["start_time"], "20:14:17", 1)
    assert near(drain["end_time"], "20:17:14", 1)


def test_scancel_5_while_it_waited(result: Results) -> None:
    second = attempts(result, "5")[1]
    assert second["state"] == "CANCELLED"
    assert near(second["end_time"], "20:14:17", 1)
    assert second["cancelled_by"] is not None
    chain = one(rows(result, "chains", first_session_id=attempts(result, "5")[0]["session_id"]))
    assert (chain["outcome"], chain["n_attempts"]) == ("never_restarted", 1)


def test_jobs_6_7_and_8_are_one_work_retried(result: Results) -> None:
    six, seven, eight = (one(attempts(result, job)) for job in ("6", "7", "8"))
    assert [(row["name"], row["state"], row["exit_code"]) for row in (six, seven, eight)] == [
        ("pre-b", "FAILED", 137),
        ("pre-b", "FAILED", 137),
        ("pre-b", "COMPLETED", 0),
    ]
    assert near(six["submit_time"], "20:14:17", 1)
    assert near(seven["submit_time"], "20:14:29", 1)
    assert near(eight["submit_time"], "20:14:41", 1)
    edges = [
        row for row in rows(result, "retries") if row["to_session_id"] in (seven["session_id"], eight["session_id"])
    ]
    assert [(e["from_session_id"], e["to_session_id"], e["attempt"], e["trigger"]) for e in edges] == [
        (six["session_id"], seven["session_id"], 2, "resubmit"),
        (seven["session_id"], eight["session_id"], 3, "resubmit"),
    ]
    assert all(edge["rule"] and 0 < edge["confidence"] <= 1 for edge in edges)
    assert [edge["interval_s"] for edge in edges] == [7.0, 8.0]
    assert edges[1]["hosts_dropped"] == ["gpu001", "gpu002", "gpu003"]
    chain = one(row for row in rows(result, "chains") if row["first_session_id"] == six["session_id"])
    assert (chain["n_attempts"], chain["outcome"]) == (3, "succeeded")


def test_job_8_excluded_two_hosts(result: Results) -> None:
    eight = one(attempts(result, "8"))
    assert eight["excluded_hosts"] == ["gpu001", "gpu004"]
    listed = rows(result, "exclusions", how="exclude_list")
    assert sorted(row["host"] for row in listed) == ["gpu001", "gpu004"]
    assert {row["session_id"] for row in listed} == {eight["session_id"]}
    assert all(near(row["start_time"], "20:14:41", 1) and near(row["end_time"], "20:14:46", 1) for row in listed)
    swapped = rows(result, "exclusions", how="swapped_out")
    assert sorted(row["host"] for row in swapped) == ["gpu001", "gpu002", "gpu003"]


def test_job_9_is_an_array_of_four(result: Results) -> None:
    tasks = [row for row in rows(result, "sessions") if row["job_id"].startswith("9_")]
    assert sorted((row["job_id"], row["raw_job_id"], row["state"]) for row in tasks) == [
        ("9_0", "10", "COMPLETED"),
        ("9_1", "11", "COMPLETED"),
        ("9_2", "12", "COMPLETED"),
        ("9_3", "9", "COMPLETED"),
    ]
    started = [row for row in rows(result, "scheduler_events", kind="started") if row["job_id"] == "9"]
    assert sorted((row["array_task"], row["raw_job_id"]) for row in started) == [
        ("0", "10"),
        ("1", "11"),
        ("2", "12"),
        ("3", "9"),
    ]


def test_job_13_was_requeued_by_hand_held_and_cancelled(result: Results) -> None:
    first, second = attempts(result, "13")
    assert (first["state"], first["hosts"]) == ("REQUEUED", ["gpu001", "gpu002"])
    assert near(first["end_time"], "20:15:16", 1)
    assert (second["state"], second["start_time"]) == ("CANCELLED", None)
    assert near(second["end_time"], "20:15:54", 1)
    one(rows(result, "scheduler_events", kind="requeued", raw_job_id="13"))  # the refused requeue of 20:15:36 is none
    chain = one(row for row in rows(result, "chains") if row["first_session_id"] == first["session_id"])
    assert (chain["outcome"], chain["n_attempts"]) == ("never_restarted", 1)


def test_jobs_4_and_14_hit_their_time_limit(result: Results) -> None:
    for job, end in (("4", "20:12:41"), ("14", "20:17:11")):
        session = one(attempts(result, job))
        assert session["state"] == "TIMEOUT"
        assert near(session["end_time"], end, 1)
        one(rows(result, "scheduler_events", kind="time_limit", raw_job_id=job))


def test_job_15_never_started(result: Results) -> None:
    session = one(attempts(result, "15"))
    assert (session["state"], session["start_time"], session["hosts"]) == ("CANCELLED", None, [])
    assert near(session["end_time"], "20:17:14", 1)
    assert not [
        c for c in rows(result, "chains") if session["session_id"] in (c["first_session_id"], c["last_session_id"])
    ]


def test_job_16_ran_on_all_hosts(result: Results) -> None:
    session = one(attempts(result, "16"))
    assert session["hosts"] == [f"gpu00{n}" for n in range(1, 9)]
    assert (session["state"], session["n_hosts"]) == ("COMPLETED", 8)
    assert near(session["start_time"], "20:17:18", 1)


def test_nothing_else_was_retried_or_excluded(result: Results) -> None:
    assert len(rows(result, "retries")) == 2
    assert len(rows(result, "chains")) == 3
    assert sorted(row["how"] for row in rows(result, "exclusions")) == [
        "down",
        "down",
        "drain",
        "exclude_list",
        "exclude_list",
        "swapped_out",
        "swapped_out",
        "swapped_out",
    ]


def test_accounting_and_controller_agree_into_one_session(result: Results) -> None:
    session = one(attempts(result, "1"))
    formats = {place.rpartition(":")[0].rpartition("/")[2] for place in session["sources"]}
    assert formats >= {"sacct_dup.psv", "sacct_X_all.psv", "sacct.json", "slurmctld.log"}
