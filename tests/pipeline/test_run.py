"""The main job as a whole: the same bytes every time, the old result or none, and bad input as data."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from aftershock.parsers.source import SourceFile
from aftershock.pipeline import write
from aftershock.pipeline.chunks import read_chunk
from aftershock.pipeline.options import RunOptions
from aftershock.pipeline.plan import chunks_of
from aftershock.pipeline.prepare import prepare
from aftershock.pipeline.run import RunFailed, run
from aftershock.schemas.tables import TABLES
from tests.pipeline.conftest import RunJob

SLURM = Path(__file__).parents[1] / "samples" / "slurm"
XID = b"2026-03-01T12:00:%02d+00:00 gpu001 kernel: NVRM: Xid (PCI:0000:3b:00): %d, pid=7, name=python3, Ch 00000008\n"


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a result but its manifest."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


@pytest.mark.parametrize("table_format", ["parquet", "arrow"])
def test_two_runs_give_equal_bytes(run_job: RunJob, tmp_path: Path, table_format: str) -> None:
    run_job(SLURM, out=tmp_path / "a", table_format=table_format)
    run_job(SLURM, out=tmp_path / "b", table_format=table_format)
    first, second = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert first == second
    manifests = [json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("a", "b")]
    for manifest in manifests:
        del manifest["created"]
    assert manifests[0] == manifests[1]


def test_parallel_workers_give_the_same_bytes(run_job: RunJob, tmp_path: Path) -> None:
    run_job(SLURM, out=tmp_path / "a")
    workers = ("--direct_num_workers=2", "--direct_running_mode=multi_threading")
    run_job(SLURM, out=tmp_path / "b", beam_args=workers)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_every_table_is_there_with_the_types_of_its_schema(run_job: RunJob, tmp_path: Path) -> None:
    run_job(SLURM)
    for name, table in TABLES.items():
        parts = sorted((tmp_path / "out" / f"{name}.parquet").glob("part-*.parquet"))
        assert parts, name
        for part in parts:
            schema = pq.read_schema(part)
            assert schema.equals(table.written_schema), name
            assert [field.metadata for field in schema] == [field.metadata for field in table.written_schema], name


def test_the_manifest_says_what_was_read_and_written(run_job: RunJob, tmp_path: Path) -> None:
    result = run_job(SLURM)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    sizes = {Path(entry["source"]).name: entry["bytes"] for entry in manifest["inputs"]}
    assert sizes["sacct_dup.psv"] == (SLURM / "sacct_dup.psv").stat().st_size
    assert all(entry["digest"] for entry in manifest["inputs"] if not entry["source"].endswith("truth.txt"))
    assert manifest["rows"] == {name: result[name].num_rows for name in TABLES}


def test_a_run_that_fails_leaves_the_old_result(
    run_job: RunJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_job(SLURM)
    before = contents(tmp_path / "out")

    def broken(*_args: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(write, "write_part", broken)
    with pytest.raises(RunFailed, match="no space left"):
        run(prepare(RunOptions(inputs=(str(SLURM),), out=str(tmp_path / "out"), overwrite=True)))
    assert contents(tmp_path / "out") == before
    assert (tmp_path / "out" / "manifest.json").exists()


def test_a_run_that_dies_between_the_tables_leaves_no_result(
    run_job: RunJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_job(SLURM)
    real, calls = os.rename, []

    def dies(source: object, target: object) -> None:
        calls.append(target)
        if str(target).endswith("retries.parquet"):
            raise KeyboardInterrupt
        real(source, target)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", dies)
    with pytest.raises(RunFailed, match="interrupted"):
        run(prepare(RunOptions(inputs=(str(SLURM),), out=str(tmp_path / "out"), overwrite=True)))
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_file_in_the_way_of_a_table_leaves_the_old_result(run_job: RunJob, tmp_path: Path) -> None:
    run_job(SLURM)
    before = contents(tmp_path / "out")
    (tmp_path / "out" / "retries.arrow").write_text("notes of somebody")
    with pytest.raises(RunFailed, match="in the way"):
        run_job(SLURM)
    (tmp_path / "out" / "retries.arrow").unlink()
    assert contents(tmp_path / "out") == before
    assert (tmp_path / "out" / "manifest.json").exists()


def test_an_input_whose_name_is_no_utf8(run_job: RunJob, tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.log"))
    path.write_bytes(XID % (5, 79))
    result = run_job(path)
    assert result.gpu_errors.table().to_pylist()[0]["source"] == f"{tmp_path}/\\xff.log"
    assert result.manifest["parameters"]["inputs"] == [f"{tmp_path}/\\xff.log"]


def wait_for_staging(process: subprocess.Popen[bytes], folder: Path) -> None:
    while not list(folder.glob("out/.staging-*")):
        assert process.poll() is None, "the run ended before it began to write"
        time.sleep(0.02)


def test_a_killed_run_leaves_no_result_and_is_run_again(tmp_path: Path) -> None:
    big = tmp_path / "kern.log"
    big.write_bytes(b"".join(XID % (n % 60, 13 + n % 7) for n in range(60_000)))
    command = [sys.executable, "-m", "aftershock", "run", str(big), "--out", str(tmp_path / "out"), "--quiet"]
    with subprocess.Popen(command) as process:
        wait_for_staging(process, tmp_path)
        process.send_signal(signal.SIGKILL)
    time.sleep(1.5)
    assert str(big) not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert not (tmp_path / "out" / "manifest.json").exists()
    subprocess.run(command, check=True)
    assert (tmp_path / "out" / "manifest.json").exists()


def test_an_interrupted_run_says_so_in_one_line(tmp_path: Path) -> None:
    big = tmp_path / "kern.log"
    big.write_bytes(b"".join(XID % (n % 60, 13 + n % 7) for n in range(60_000)))
    command = [sys.executable, "-m", "aftershock", "run", str(big), "--out", str(tmp_path / "out"), "--quiet"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as process:
        wait_for_staging(process, tmp_path)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (1, b"aftershock: failed: interrupted\n")
    assert list((tmp_path / "out").iterdir()) == []


def test_repeats_become_counts(run_job: RunJob, tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_bytes(b"".join(XID % (n // 1000 % 60, 95 + n % 3) for n in range(60_000)))
    rows = run_job(tmp_path / "kern.log").gpu_errors.table(["code", "count"]).to_pylist()
    assert sorted((row["code"], row["count"]) for row in rows) == [(95, 20_000), (96, 20_000), (97, 20_000)]


def test_one_occurrence_through_two_logs_is_one_row(run_job: RunJob, tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_bytes(XID % (5, 79))
    (tmp_path / "copy.log.gz").write_bytes(gzip.compress(XID % (5, 79)))
    rows = run_job(tmp_path).gpu_errors.table(["count", "sources"]).to_pylist()
    assert rows == [{"count": 1, "sources": [f"{tmp_path}/copy.log.gz:0", f"{tmp_path}/kern.log:0"]}]


def test_teardown_on_healthy_hosts_follows_the_fault_of_another(run_job: RunJob, tmp_path: Path) -> None:
    line = "2026-03-01T12:00:{:02d}+00:00 {} kernel: NVRM: Xid (PCI:0000:3b:00): {}, pid=7, name=python3, {}\n"
    (tmp_path / "kern.log").write_text(
        line.format(5, "gpu001", 79, "GPU has fallen off the bus.")
        + "".join(line.format(9, host, 45, "Ch 00000008") for host in ("gpu002", "gpu003", "gpu009"))
        + "2026-03-01T11:00:00+00:00 gpu001 kernel: NVRM: GPU at PCI:0000:3b:00: GPU-5c3f0000-0000-0000-0000-000000000001\n"
    )
    (tmp_path / "slurmctld.log").write_text(
        "[2026-03-01T11:30:00.000] sched: Allocate JobId=7 NodeList=gpu[001-003] #CPUs=24 Partition=long\n"
        "[2026-03-01T12:00:12.000] _job_complete: JobId=7 WTERMSIG 9\n"
    )
    result = run_job(tmp_path)
    rows = {row["host"]: row for row in result.gpu_errors.table().to_pylist()}
    assert {host: row["role"] for host, row in rows.items()} == {
        "gpu001": "root",
        "gpu002": "follow_on",
        "gpu003": "follow_on",
        "gpu009": "unknown",
    }
    assert rows["gpu002"]["episode_id"] == rows["gpu003"]["episode_id"] == rows["gpu001"]["episode_id"]
    assert rows["gpu009"]["episode_id"] != rows["gpu001"]["episode_id"]
    assert rows["gpu001"]["gpu_uuid"] == "GPU-5c3f0000-0000-0000-0000-000000000001"
    assert [row["gpu_uuid"] for row in result.gpus.table().to_pylist()] == [rows["gpu001"]["gpu_uuid"]]


def test_one_incident_in_three_logs_of_a_host_is_one_row(run_job: RunJob, tmp_path: Path) -> None:
    said = "NVRM: Xid (PCI:0000:1b:00): 79, pid=42, name=python3, GPU has fallen off the bus."
    folder = tmp_path / "logs" / "gpu-7"
    folder.mkdir(parents=True)
    (folder / "kmsg.log").write_text(f"3,1234,5678901234,-;{said}\n4,1240,5699000001,-;{said.replace('79', '45')}\n")
    (folder / "syslog").write_text(f"Mar  1 11:04:05 gpu-7 kernel: [ 5678.901234] {said}\n")
    journal = {
        "__REALTIME_TIMESTAMP": "1772363045678950",
        "_SOURCE_MONOTONIC_TIMESTAMP": "5678901234",
        "_HOSTNAME": "gpu-7",
        "_TRANSPORT": "kernel",
        "SYSLOG_IDENTIFIER": "kernel",
        "MESSAGE": said,
    }
    (folder / "journal.json").write_text(json.dumps(journal) + "\n")
    config = tmp_path / "aftershock.toml"
    config.write_text('[[sources]]\nglob = "logs/**"\nhost_from = "parent_folder"\n')
    rows = run_job(tmp_path / "logs", config=str(config)).gpu_errors.table().to_pylist()
    (first,) = [row for row in rows if row["code"] == 79]
    assert first["time"] == dt.datetime(2026, 3, 1, 11, 4, 5, 678950, tzinfo=dt.timezone.utc)
    assert (first["count"], len(first["sources"])) == (1, 3)
    (second,) = [row for row in rows if row["code"] == 45]
    assert second["time_basis"] == "boot_offset"
    assert (second["time"] - first["time"]).total_seconds() == pytest.approx(20.098767, abs=1e-6)


def test_two_hosts_that_would_become_one_are_an_error(tmp_path: Path) -> None:
    for domain in ("a.example", "b.example"):
        (tmp_path / domain).write_bytes((XID % (5, 79)).replace(b"gpu001", b"gpu001." + domain.encode()))
    with pytest.raises(RunFailed, match=r"gpu001\.a\.example and gpu001\.b\.example"):
        run(prepare(RunOptions(inputs=(str(tmp_path),), out=str(tmp_path / "out"))))
    config = tmp_path / "aftershock.toml"
    config.write_text('[hosts.aliases]\n"gpu001.b.example" = "other001"\n')
    run(prepare(RunOptions(inputs=(str(tmp_path),), out=str(tmp_path / "out"), config=str(config))))


def test_the_machine_zone_is_assumed_only_where_local_times_are(run_job: RunJob, tmp_path: Path) -> None:
    (tmp_path / "zoned.log").write_bytes(XID % (5, 79))
    (tmp_path / "slurmctld.log").write_bytes((SLURM / "slurmctld.log").read_bytes())
    sources = run_job(tmp_path, timezone=None).sources.table().to_pylist()
    assert {Path(s["source"]).name: s["zone_basis"] for s in sources} == {
        "zoned.log": None,
        "slurmctld.log": "assumed_zone",
    }


SINCE_LOG = """\
[2026-03-01T09:00:00.000] update_node: node gpu009 reason set to: bad cable
[2026-03-01T09:00:00.000] update_node: node gpu009 state set to DRAINED
[2026-03-01T09:50:00.000] _slurm_rpc_submit_batch_job: JobId=7 InitPrio=4294901700 usec=310
[2026-03-01T10:00:00.000] sched: Allocate JobId=7 NodeList=gpu[001-002] #CPUs=16 Partition=long
[2026-03-01T10:30:00.000] requeue job JobId=7 due to failure of node gpu002
[2026-03-01T10:30:00.100] Requeuing JobId=7
[2026-03-01T10:40:00.000] sched: Allocate JobId=7 NodeList=gpu[001,003] #CPUs=16 Partition=long
[2026-03-01T12:00:00.000] _job_complete: JobId=7 WEXITSTATUS 0
[2026-03-01T13:00:00.000] update_node: node gpu009 state set to IDLE
"""


def test_a_period_keeps_what_reaches_into_it_as_it_is(run_job: RunJob, tmp_path: Path) -> None:
    (tmp_path / "slurmctld.log").write_text(SINCE_LOG)
    whole = run_job(tmp_path / "slurmctld.log", out=tmp_path / "whole")
    since = int(dt.datetime(2026, 3, 1, 11, tzinfo=dt.timezone.utc).timestamp() * 1e6)
    part = run_job(tmp_path / "slurmctld.log", out=tmp_path / "part", since=since)
    sessions = {row["session_id"]: row for row in whole.sessions.table().to_pylist()}
    (second,) = part.sessions.table().to_pylist()
    assert second == sessions[second["session_id"]]
    assert (second["attempt"], second["hosts"]) == (2, ["gpu001", "gpu003"])
    for table in ("retries", "chains"):
        assert part[table].table().to_pylist() == whole[table].table().to_pylist()
    drains = [row for row in part.exclusions.table().to_pylist() if row["how"] == "drain"]
    assert [row["host"] for row in drains] == ["gpu009"]
    assert {row["kind"] for row in part.scheduler_events.table().to_pylist()} == {"ended", "node_resume"}


def test_a_file_that_becomes_shorter_while_it_is_read_is_a_reject(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    path.write_bytes(XID % (5, 79) * 50)
    chunks = chunks_of(SourceFile(str(path), str(path), path.stat().st_size), 1000)
    path.write_bytes(XID % (5, 79) * 15)
    refused = [item for chunk in chunks for block in read_chunk(chunk, 0) for _, item in block.refused]
    assert len(refused) == 1
    assert "became shorter" in refused[0].reason
    assert refused[0].offset == path.stat().st_size


def bad_folder(folder: Path) -> dict[str, str]:
    """Everything bad at once, beside one good file: name to a word of the reason."""
    good = XID % (5, 79)
    (folder / "good.log").write_bytes(good)
    (folder / "crashed.log").write_bytes(good + bytes(100_000) + good)
    (folder / "folder").mkdir()
    (folder / "binary").write_bytes(bytes(range(256)) * 4096)
    (folder / "empty.log").write_bytes(b"")
    (folder / "latin.log").write_bytes(good.replace(b"python3", b"pyth\xf6n"))
    (folder / "torn.log").write_bytes(good + good[:70])
    (folder / "long.log").write_bytes(b"x" * (200 << 20) + b"\n" + good)
    (folder / "torn.log.gz").write_bytes(gzip.compress(good * 50_000)[:-2000])
    (folder / "bomb.gz").write_bytes(gzip.compress(bytes(400 << 20)))
    (folder / "deep.json").write_bytes(b'{"jobs": ' + b"[" * 200_000 + b"]" * 200_000 + b"}")
    (folder / "prose.txt").write_bytes(b"nothing of interest\n" * 10)
    os.mkfifo(folder / "fifo")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "hosts.psv").write_text(
        "JobID|JobIDRaw|State|Start|End|NodeList\n1|1|FAILED|2026-02-30T00:00:00|2026-13-01T00:00:00|n[1-9999999999]\n"
    )
    return {
        "binary": "binary",
        "empty.log": "empty",
        "long.log": "line longer",
        "torn.log.gz": "torn or damaged",
        "bomb.gz": "",
        "deep.json": "",
        "prose.txt": "no known format",
        "fifo": "FIFO",
        "loop": "circle",
        "hosts.psv": "",
    }


def test_bad_input_is_data(run_job: RunJob, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    wanted = bad_folder(folder)
    result = run_job(folder)
    rejects = result.rejects.table().to_pylist()
    for name, word in wanted.items():
        reasons = [row["reason"] for row in rejects if Path(row["source"]).name == name]
        assert any(word in reason for reason in reasons), (name, reasons)
    sources = {Path(row["source"]).name: row for row in result.sources.table().to_pylist()}
    assert set(sources) == {path.name for path in folder.iterdir() if not path.is_dir()}
    assert all(sources[name]["rejects"] for name in wanted)
    assert sources["long.log"]["bytes"] == (folder / "long.log").stat().st_size
    errors = result.gpu_errors.table().to_pylist()
    seen = {Path(place.rpartition(":")[0]).name for row in errors for place in row["sources"]}
    assert {"good.log", "latin.log", "torn.log", "long.log", "torn.log.gz", "crashed.log"} <= seen
    assert all(len(row["excerpt"] or b"") <= 512 for row in rejects)


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read every file")
def test_an_unreadable_file_is_a_reject(run_job: RunJob, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(XID % (5, 79))
    (tmp_path / "a.log").chmod(0)
    assert "Permission denied" in run_job(tmp_path / "a.log").rejects.table().to_pylist()[0]["reason"]


def test_an_input_of_nothing_known_is_still_a_result(run_job: RunJob, tmp_path: Path) -> None:
    (tmp_path / "prose.txt").write_bytes(b"nothing of interest\n")
    result = run_job(tmp_path / "prose.txt")
    assert [row["reason"][:15] for row in result.rejects.table().to_pylist()] == ["no known format"]
    assert set(result) == set(TABLES)
