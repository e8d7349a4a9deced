"""What a real Slurm leaves behind is read as what was done to it.

A small cluster runs jobs for a minute and a half: one fails and is submitted again without its host, one loses a host
and is put back into the queue, one is requeued and never placed again, one runs into its time limit, one is cancelled;
hosts are drained. Then its logs and the output of its tools are read.
"""

from __future__ import annotations

import datetime as dt
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import aftershock
from aftershock.pipeline.options import RunOptions
from aftershock.pipeline.prepare import prepare
from aftershock.pipeline.run import run
from aftershock.results import Results
from tests.slurm.loopback import Cluster, missing, until

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

CONFIG = """\
[cluster]
name = "solar"
timezone = "UTC"
gpus_per_host = 2

[[sources]]
glob = "logs/slurmd.*.log"
host_from = 'slurmd\\.(?P<host>[^./]+)\\.log$'
"""

# Every tool that is asked at the end, and the file that its output goes to.
TOOLS = {
    "sacct.psv": ("sacct", "--allusers", "--duplicates", "--parsable2", "--format=ALL", "--starttime=2020-01-01"),
    "sacct.json": ("sacct", "--allusers", "--duplicates", "--json", "--starttime=2020-01-01"),
    "scontrol_jobs.txt": ("scontrol", "show", "job"),
    "scontrol_nodes.txt": ("scontrol", "show", "node"),
    "sinfo_reasons.txt": ("sinfo", "-R"),
    "squeue.txt": ("squeue",),
}


@dataclass
class Story:
    """What was done, and what was read of it. ``ran``: what the controller said of a job while it ran."""

    jobs: dict[str, str] = field(default_factory=dict)
    ran: dict[str, dict[str, str]] = field(default_factory=dict)
    drained: tuple[float, float] = (0.0, 0.0)
    result: Results | None = None
    with_queue: Results | None = None

    def rows(self, table: str, **equal: object) -> list[dict[str, Any]]:
        """Rows of a table whose columns have these values."""
        assert self.result is not None
        rows = self.result[table].table().to_pylist()
        return [row for row in rows if all(row[name] == value for name, value in equal.items())]

    def attempts(self, name: str) -> list[dict[str, Any]]:
        """The sessions of a job, in the order of their submission."""
        return sorted(self.rows("sessions", job_id=self.jobs[name]), key=lambda row: str(row["submit_time"]))


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    top = tmp_path_factory.mktemp("slurm")
    told = Story()
    records = top / "records"
    with Cluster(top / "cluster", hosts=4) as cluster:
        act(cluster, told)
        collect(cluster, records)
    (records / "aftershock.toml").write_text(CONFIG)
    queue = top / "squeue.txt"
    shutil.move(records / queue.name, queue)
    told.result = read(top / "out", records)
    told.with_queue = read(top / "out-with-queue", records, queue)
    return told


def read(out: Path, records: Path, *others: Path) -> Results:
    """The result of the main job."""
    inputs = (str(records), *map(str, others))
    run(prepare(RunOptions(inputs, str(out), config=str(records / "aftershock.toml"))))
    return aftershock.open(out)


def act(cluster: Cluster, told: Story) -> None:
    """Everything that happens to the cluster."""

    def begin(name: str, script: str, *options: str, until_state: str = "RUNNING") -> str:
        job = cluster.submit(name.rstrip("2"), script, *options)
        told.jobs[name] = job
        cluster.wait_for(job, until_state)
        told.ran[name] = dict(cluster.fields_of(job))
        return job

    limit = begin("limit", "sleep 600", "--time=1", "--exclusive", "--nodelist=gpu004")
    begin("bad", "exit 3", "--exclusive", until_state="FAILED")
    begin("bad2", "sleep 1", "--exclusive", f"--exclude={told.ran['bad']['NodeList']}", until_state="COMPLETED")
    told.jobs["array"] = cluster.submit("array", "sleep 1", "--array=1-2")

    drained = time.time()
    cluster.tell("scontrol", "update", "nodename=gpu003", "state=drain", "reason=ECC errors on GPU 3")
    time.sleep(2)
    cluster.tell("scontrol", "update", "nodename=gpu003", "state=resume")
    told.drained = (drained, time.time())

    stopped = begin("stopped", "sleep 300")
    cluster.tell("scancel", stopped)
    cluster.wait_for(stopped, "CANCELLED")

    again = begin("again", "sleep 300", "--requeue")
    cluster.tell("scontrol", "requeue", again)
    cluster.wait_for(again, "PENDING")
    time.sleep(1)
    cluster.tell("scancel", again)

    lost = begin("lost", "sleep 300", "--requeue", "--nodes=2", "--exclusive", "--exclude=gpu004")
    assert told.ran["lost"]["NodeList"] == "gpu[001-002]"
    cluster.kill_slurmd("gpu002")
    cluster.wait_for(lost, "PENDING", seconds=120)
    # It would wait for two minutes.
    cluster.tell("scontrol", "update", f"jobid={lost}", "starttime=now")
    cluster.wait_for(lost, "RUNNING", seconds=180)
    told.ran["lost again"] = dict(cluster.fields_of(lost))
    # The job steps are recorded a moment after the job; a job that ends at once has none.
    time.sleep(2)
    cluster.tell("scancel", lost)

    cluster.wait_for(limit, "TIMEOUT", seconds=180)
    cluster.tell("scontrol", "update", "nodename=gpu004", "state=drain", "reason=Xid 79")
    cluster.start_slurmd("gpu002")
    until(lambda: cluster.tell("sinfo", "-h", "-n", "gpu002", "-o", "%t").strip() == "idle", "gpu002 idle")
    begin("running", "sleep 300")
    time.sleep(2)


def collect(cluster: Cluster, records: Path) -> None:
    """Logs, output of jobs and of all tools."""
    records.mkdir()
    for name, command in TOOLS.items():
        (records / name).write_text(cluster.tell(*command))
    shutil.copytree(cluster.top / "logs", records / "logs")
    shutil.copy(cluster.top / "jobcomp.log", records)
    for output in (cluster.top / "work").glob("slurm-*.out"):
        shutil.copy(output, records)


def moment(text: str) -> dt.datetime:
    """A time as Slurm's tools print it; the cluster runs in UTC."""
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.timezone.utc)


def test_every_record_is_recognised(story: Story) -> None:
    unknown = {row["source"]: row["note"] for row in story.rows("sources", format=None) if row["note"] != "empty file"}
    assert unknown == {}
    assert [row["reason"] for row in story.rows("rejects") if row["reason"] != "empty file"] == []


def test_each_placement_is_one_session(story: Story) -> None:
    assert {name: len(story.attempts(name)) for name in story.jobs if name != "array"} == {
        "limit": 1, "bad": 1, "bad2": 1, "stopped": 1, "again": 2, "lost": 2, "running": 1,
    }  # fmt: skip
    tasks = [row["job_id"] for row in story.rows("sessions", name="array")]
    assert sorted(tasks) == [f"{story.jobs['array']}_{task}" for task in (1, 2)]


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("limit", ["TIMEOUT"]),
        ("bad", ["FAILED"]),
        ("bad2", ["COMPLETED"]),
        ("stopped", ["CANCELLED"]),
        ("again", ["REQUEUED", "CANCELLED"]),
        ("lost", ["NODE_FAIL", "CANCELLED"]),
        ("running", ["RUNNING"]),
    ],
)
def test_how_sessions_ended(story: Story, name: str, states: list[str]) -> None:
    assert [row["state"] for row in story.attempts(name)] == states


def test_what_is_known_of_a_session(story: Story) -> None:
    (bad,), (limit,), (stopped,) = story.attempts("bad"), story.attempts("limit"), story.attempts("stopped")
    assert (bad["exit_code"], bad["hosts"], bad["n_gpus"]) == (3, [story.ran["bad"]["NodeList"]], 2)
    assert (limit["hosts"], limit["designated_hosts"]) == (["gpu004"], ["gpu004"])
    assert 60 <= limit["duration_s"] <= 150
    assert stopped["cancelled_by"] in ("root", "0")
    assert (bad["name"], bad["user"], bad["partition"], bad["cluster"]) == ("bad", "root", "train", "solar")
    assert bad["work_dir"] == story.ran["bad"]["WorkDir"]
    lost, later = story.attempts("lost")
    assert (lost["hosts"], later["hosts"]) == (["gpu001", "gpu002"], ["gpu001", "gpu003"])
    assert [row["excluded_hosts"] for row in (lost, later)] == [["gpu004"], ["gpu004"]]
    never = story.attempts("again")[1]
    assert (never["start_time"], never["hosts"]) == (None, [])


@pytest.mark.parametrize("name", ["limit", "bad", "bad2", "stopped", "again", "lost", "running"])
def test_sessions_start_when_the_controller_says(story: Story, name: str) -> None:
    assert story.attempts(name)[0]["start_time"] == moment(story.ran[name]["StartTime"])
    if name == "lost":
        assert story.attempts(name)[1]["start_time"] == moment(story.ran["lost again"]["StartTime"])


def test_retries(story: Story) -> None:
    bad, again = story.attempts("bad")[0], story.attempts("bad2")[0]
    lost, later = story.attempts("lost")
    edges = {(row["from_session_id"], row["to_session_id"]): row for row in story.rows("retries")}
    assert set(edges) == {(bad["session_id"], again["session_id"]), (lost["session_id"], later["session_id"])}
    resubmit, requeue = edges[bad["session_id"], again["session_id"]], edges[lost["session_id"], later["session_id"]]
    assert (resubmit["trigger"], resubmit["hosts_dropped"]) == ("resubmit", bad["hosts"])
    assert (requeue["trigger"], requeue["mode"]) == ("requeue", "auto")
    assert [requeue[f"hosts_{how}"] for how in ("kept", "dropped", "added")] == [["gpu001"], ["gpu002"], ["gpu003"]]
    assert requeue["interval_s"] == (later["start_time"] - lost["end_time"]).total_seconds()
    outcomes = {row["name"]: (row["outcome"], row["n_attempts"]) for row in story.rows("chains")}
    assert outcomes["bad"] == ("succeeded", 2)
    assert outcomes["lost"] == ("cancelled", 2)
    assert outcomes["again"] == ("never_restarted", 1)


def test_hosts_that_were_kept_out(story: Story) -> None:
    (drain,) = story.rows("exclusions", how="drain", host="gpu003")
    assert drain["reason"] == "ECC errors on GPU 3"
    begin, end = story.drained
    assert begin - 1 <= drain["start_time"].timestamp() <= drain["end_time"].timestamp() <= end + 1
    (still,) = story.rows("exclusions", how="drain", host="gpu004")
    assert (still["end_time"], still["reason"]) == (None, "Xid 79")
    (down,) = story.rows("exclusions", how="down")
    assert down["host"] == "gpu002"
    lost = story.attempts("lost")[0]
    assert abs((down["start_time"] - lost["end_time"]).total_seconds()) < 5
    assert down["end_time"] > down["start_time"]
    (listed,) = story.rows("exclusions", how="exclude_list", session_id=story.attempts("bad2")[0]["session_id"])
    assert [listed["host"]] == story.attempts("bad")[0]["hosts"]


def test_what_the_scheduler_said(story: Story) -> None:
    def kinds(name: str) -> set[str]:
        return {row["kind"] for row in story.rows("scheduler_events", job_id=story.jobs[name])}

    assert {"submitted", "started", "time_limit"} <= kinds("limit")
    assert {"submitted", "started", "ended"} <= kinds("bad")
    assert {"submitted", "started", "cancelled"} <= kinds("stopped")
    assert {"started", "requeued", "cancelled"} <= kinds("again")
    assert {"started", "requeued"} <= kinds("lost")
    assert story.rows("scheduler_events", kind="node_down", host="gpu002")
    assert story.rows("scheduler_events", kind="node_drain", host="gpu003")
    assert story.rows("scheduler_events", kind="node_up", host="gpu002")


def test_events_belong_to_the_session_that_ran(story: Story) -> None:
    sessions = {row["session_id"]: row for row in story.rows("sessions")}
    for event in story.rows("scheduler_events", kind="started"):
        session = sessions[event["session_id"]]
        assert session["start_time"] is not None, event["message"]
        assert abs((session["start_time"] - event["time"]).total_seconds()) < 3, event["message"]


def test_what_hosts_did_belongs_to_the_session_that_ran(story: Story) -> None:
    sessions = {row["session_id"]: row for row in story.rows("sessions")}
    launched = story.rows("scheduler_events", kind="launched")
    assert len(launched) >= 8
    for event in launched:
        assert event["host"] in sessions[event["session_id"]]["hosts"], event["message"]


def test_a_list_of_the_queue_adds_no_sessions(story: Story) -> None:
    assert story.result is not None
    assert story.with_queue is not None
    kept = ["session_id", "job_id", "state", "start_time", "hosts"]
    assert story.with_queue.sessions.table(kept).to_pylist() == story.result.sessions.table(kept).to_pylist()
