"""The main job over records of several schedulers, a kernel log and planned changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.conftest import RunJob

CONTROLLER = """\
[2026-03-02T08:00:00.010] _slurm_rpc_submit_batch_job: JobId=812 InitPrio=4294901700 usec=310
[2026-03-02T08:00:05.101] sched: Allocate JobId=812 NodeList=dgx[07-08] #CPUs=16 Partition=long
[2026-03-02T08:10:05.220] requeue job JobId=812 due to failure of node dgx08
[2026-03-02T08:10:05.221] error: Nodes dgx08 not responding, setting DOWN
[2026-03-02T08:12:31.900] sched: Allocate JobId=812 NodeList=dgx[07,09] #CPUs=16 Partition=long
[2026-03-02T08:30:00.100] update_node: node dgx08 reason set to: fell off the bus
[2026-03-02T08:30:00.100] update_node: node dgx08 state set to DRAINED
[2026-03-02T08:40:00.100] update_node: node dgx09 reason set to: new firmware
[2026-03-02T08:40:00.100] update_node: node dgx09 state set to DRAINED
[2026-03-02T09:12:31.950] _job_complete: JobId=812 WEXITSTATUS 0
[2026-03-02T09:12:31.951] _job_complete: JobId=812 done
"""
ACCOUNTING = """\
JobID|JobIDRaw|JobName|User|State|ExitCode|Submit|Start|End|ElapsedRaw|NNodes|NodeList
812|812|bert|mira|NODE_FAIL|1:0|2026-03-02T08:00:00|2026-03-02T08:00:05|2026-03-02T08:10:05|600|2|dgx[07-08]
812|812|bert|mira|COMPLETED|0:0|2026-03-02T08:10:05|2026-03-02T08:12:31|2026-03-02T09:30:00|4649|2|dgx[07,09]
900|900|eval|mira|FAILED|1:0|2026-03-02T10:00:00|2026-03-02T10:00:05|2026-03-02T10:10:05|600|2|dgx[07-08]
901|901|eval|mira|COMPLETED|0:0|2026-03-02T10:20:00|2026-03-02T10:20:05|2026-03-02T10:30:05|600|2|dgx[07-08]
"""
KERNEL = """\
Mar  2 08:09:58 dgx08 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python, GPU has fallen off the bus.
Mar  2 08:39:58 dgx09 kernel: NVRM: Xid (PCI:0000:3b:00): 31, pid=4242, name=python, Ch 00000008, intr 00000000.
"""
CHANGES = """\
host,start_time,end_time,kind,planned,by,text
dgx09,2026-03-02T08:35:00Z,2026-03-02T09:35:00Z,maintenance,true,ops,firmware
"""
_SESSION = "6b1f0a52-93c4-4e6d-8a17-0f2d9c55e10"


def export() -> dict[str, Any]:
    def session(number: int, begin: str, end: str, status: str, agents: list[str]) -> dict[str, Any]:
        return {
            "id": f"{_SESSION}{number}",
            "name": "llm",
            "user_email": "ada@example.org",
            "scaling_group_name": "train",
            "status": status,
            "created_at": begin,
            "starts_at": begin,
            "terminated_at": end,
            "agent_ids": agents,
            "designated_agent_ids": agents,
            "cluster_size": len(agents),
            "cluster_mode": "MULTI_NODE",
        }

    first = session(1, "2026-03-02T00:00:00Z", "2026-03-02T01:00:00Z", "ERROR", ["i-gpu1", "i-gpu2"])
    again = session(2, "2026-03-02T01:11:00Z", "2026-03-02T02:00:00Z", "TERMINATED", ["i-gpu1", "i-gpu3"])
    again["parent_session_id"] = first["id"]
    agents = [
        {
            "id": f"i-gpu{n}",
            "status": "ALIVE",
            "scaling_group": "train",
            "schedulable": True,
            "first_contact": "2026-01-01T00:00:00Z",
        }
        for n in range(1, 5)
    ]
    return {"sessions": [first, again], "agents": agents}


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "slurmctld.log").write_text(CONTROLLER)
    (folder / "sacct.psv").write_text(ACCOUNTING)
    (folder / "kern.log").write_text(KERNEL)
    (folder / "changes.csv").write_text(CHANGES)
    (folder / "export.json").write_text(json.dumps(export()))
    (tmp_path / "aftershock.toml").write_text('[[sources]]\nglob = "logs/changes.csv"\nformat = "changes"\n')
    return tmp_path


def rows(result: Any, table: str, **equal: Any) -> list[dict[str, Any]]:
    found = result[table].table().to_pylist()
    return [row for row in found if all(row[name] == value for name, value in equal.items())]


def test_all_sources_together(run_job: RunJob, inputs: Path) -> None:
    result = run_job(inputs / "logs", config=str(inputs / "aftershock.toml"))
    assert rows(result, "rejects") == []

    drains = {row["host"]: row for row in rows(result, "exclusions", how="drain")}
    xids = {row["host"]: row["event_id"] for row in rows(result, "gpu_errors")}
    assert (drains["dgx08"]["evidenced"], drains["dgx08"]["evidence_event_ids"]) == (True, [xids["dgx08"]])
    assert (drains["dgx09"]["evidenced"], drains["dgx09"]["evidence_event_ids"]) == (False, [])
    assert (drains["dgx08"]["planned"], drains["dgx09"]["planned"]) == (None, True)
    assert [row["evidenced"] for row in rows(result, "exclusions", how="down")] == [True]

    left_out = rows(result, "exclusions", how="designated_complement")
    assert [(row["host"], row["evidenced"]) for row in left_out] == [
        ("i-gpu3", None),
        ("i-gpu4", None),
        ("i-gpu2", None),
        ("i-gpu4", None),
    ]

    steps = {(row["trigger"], row["rule"], row["mode"]) for row in rows(result, "retries")}
    assert steps == {
        ("requeue", "requeue", "auto"),
        ("resubmit", "same_name", "unknown"),
        ("resubmit", "stated", "auto"),
    }
    (second,) = rows(result, "sessions", raw_job_id="812", attempt=2)
    assert [text.partition(":")[0] for text in second["conflicts"]] == ["end_time"]
    (chains,) = rows(result, "findings", finding="chains", subject="all")
    assert (chains["value"], chains["exposure"]) == (3.0, 6.0)


def test_partitions_change_nothing(run_job: RunJob, inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = str(inputs / "aftershock.toml")
    one = run_job(inputs / "logs", config=config, out=inputs / "a")
    monkeypatch.setattr("aftershock.pipeline.run.partitions_for", lambda *_: 7)
    many = run_job(inputs / "logs", config=config, out=inputs / "b")
    for table in ("sessions", "retries", "chains", "exclusions", "findings", "scheduler_events", "gpu_errors"):
        assert one[table].table().equals(many[table].table()), table
        assert one[table].table().num_rows, table
