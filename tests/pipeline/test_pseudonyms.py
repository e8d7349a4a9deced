"""A result made with --pseudonymise holds no name of its inputs in any byte, and is joined as the plain one is."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from aftershock.parsers.registry import formats
from aftershock.pipeline.options import RunOptions, UsageError
from aftershock.pipeline.prepare import prepare
from aftershock.pipeline.pseudonyms.key import LEAST_BYTES, BadKey, read_key
from aftershock.pipeline.pseudonyms.text import vocabulary
from aftershock.results import Results
from aftershock.schemas.tables import TABLES
from tests.pipeline.conftest import RunJob

# Every planted name has these letters, which no word and no pseudonym has; numbers are planted by themselves.
MARK = "zq"
NUMBERS = ("1324521034567", "9183", "10.66.77.88", "0a0a0a0a-1111-2222-3333-4444444444")

KERNEL = """\
2026-03-01T11:59:00+00:00 zqhost01.zqcorp.example kernel: NVRM: GPU at PCI:0000:3b:00: GPU-0a0a0a0a-1111-2222-3333-444444444401
2026-03-01T11:59:00+00:00 zqhost01.zqcorp.example kernel: NVRM: GPU Board Serial Number: 1324521034567
2026-03-01T12:00:00+00:00 zqhost01.zqcorp.example kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=77, name=zqprog, GPU has fallen off the bus.
2026-03-01T12:00:01+00:00 zqhost02 kernel: nfs: server zqnfs.zqcorp.example not responding, still trying
2026-03-01T12:00:02+00:00 zqhost02 kernel: nfs: server 10.66.77.88 not responding, still trying
2026-03-01T12:00:03+00:00 zqhost02 kernel: oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=zqprog,pid=33,uid=9183
2026-03-01T12:00:03+00:00 zqhost02 kernel: Out of memory: Killed process 33 (zqprog) total-vm:1kB, anon-rss:1kB, UID:9183 pgtables:1kB oom_score_adj:0
2026-03-01T12:00:04+00:00 zqhost02 kernel: NVRM: Xid (PCI:0000:zqtoken): 79, zqbroken
"""

SLURMCTLD = """\
[2026-03-01T11:50:00.000] _slurm_rpc_submit_batch_job: JobId=41 InitPrio=4294901757 usec=100
[2026-03-01T11:51:00.000] sched: Allocate JobId=41 NodeList=zqhost[01-02] #CPUs=4 Partition=zqpart
[2026-03-01T12:00:05.000] update_node: node zqhost01 reason set to: zquser says /home/zquser/zqproject is lost
[2026-03-01T12:00:05.000] update_node: node zqhost01 state set to DRAINED
[2026-03-01T12:00:06.000] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=41 uid 9183
[2026-03-01T12:00:07.000] error: Nodes zqhost[02-03] not responding, setting DOWN
"""

SACCT = """\
JobID|JobName|User|UID|WorkDir|Partition|Submit|Start|End|State|ExitCode|NodeList|Comment|SubmitLine
41|zqjob-zquser|zquser|9183|/home/zquser/zqproject|zqpart|2026-03-01T11:50:00|2026-03-01T11:51:00|2026-03-01T12:00:06|NODE_FAIL|1:0|zqhost[01-02]|zqremark|sbatch --exclude=zqhost03 /home/zquser/zqrun.sh
42|zqjob-zquser|zquser|9183|/home/zquser/zqproject|zqpart|2026-03-01T12:01:00|2026-03-01T12:02:00|2026-03-01T13:00:06|COMPLETED|0:0|zqhost02|zqremark|sbatch --exclude=zqhost01 /home/zquser/zqrun.sh
43|zqother|zqother|9184|/scratch/zqother|zqpart|2026-03-01T12:01:00|2026-03-01T12:02:00|2026-03-01T13:00:06|CANCELLED by 9183|0:0|zqhost04|zqremark|sbatch zqother.sh
"""

LABELS = """\
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0a0a0a0a-1111-2222-3333-444444444402",pci_bus_id="00000000:3B:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="zqhost02",zqlabel="zqvalue"} 41
"""

CONFIG = """\
[cluster]
name = "zqcluster"
timezone = "UTC"
hosts = "zqhost[01-04]"

[hosts.aliases]
"10.66.77.88" = "zqhost04"
"""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with names in everything, its own name and those of its files too."""
    logs = tmp_path / "zqsite" / "zq logs"
    (logs / "zqhost02").mkdir(parents=True)
    (logs / "zqkern.log").write_text(KERNEL)
    (logs / "zqhost02" / "kern.log.gz").write_bytes(gzip.compress(KERNEL.replace("12:00", "12:30").encode()))
    (logs / "slurmctld.log").write_text(SLURMCTLD)
    (logs / "zqsacct.psv").write_text(SACCT)
    (logs / "dcgm-zq.prom").write_text(LABELS)
    (logs / "zqnotes.txt").write_text("zquser wrote this about zqhost01\n")
    (logs / "zqempty").write_bytes(b"")
    smi = next(fmt for fmt in formats() if fmt.name == "nvidia_smi_q").samples[0].text
    (logs / "zqhost03.smi.txt").write_text(smi.replace("1650000000101", "1324521034567"))
    (tmp_path / "zqcluster.toml").write_text(CONFIG)
    (tmp_path / "key").write_bytes(b"a key of the tests that is long enough\n")
    return logs


@pytest.fixture
def share(run_job: RunJob, planted: Path, tmp_path: Path) -> Any:
    """``share(**options)``: the pseudonymised result of the planted folder."""

    def job(**options: Any) -> Results:
        given = {"config": str(tmp_path / "zqcluster.toml"), "pseudonymise": str(tmp_path / "key"), **options}
        return run_job(planted, **given)

    return job


def everything_in(result: Results) -> Iterable[bytes]:
    """All bytes of all files with their names, and every value as it is read."""
    for path in sorted(result.folder.rglob("*")):
        yield str(path.relative_to(result.folder)).encode()
        if path.is_file():
            yield path.read_bytes()
    for name in result:
        table = result[name].table()
        yield str(table.schema).encode()
        yield from (repr(value).encode() for column in table.columns for value in column.to_pylist())


@pytest.mark.parametrize("table_format", ["parquet", "arrow"])
def test_no_byte_of_the_result_has_a_name(share: Any, tmp_path: Path, table_format: str) -> None:
    plain = share(pseudonymise=None, out=tmp_path / "plain", table_format=table_format)
    told = b"\n".join(everything_in(plain)).lower()
    assert MARK.encode() in told
    assert all(number.encode() in told for number in NUMBERS)
    result = share(table_format=table_format)
    # The two letters of the mark may meet by chance in bytes that are compressed or written with 64 letters.
    words = set(re.findall(rb"zq[a-z]+[0-9]*", "".join((KERNEL, SLURMCTLD, SACCT, LABELS, CONFIG)).encode()))
    assert len(words) > 15
    for piece in everything_in(result):
        low = piece.lower()
        assert not [name for name in (*words, *map(str.encode, NUMBERS), b"a key of the tests") if name in low]
    for name in result:
        assert MARK not in str(result[name].table().to_pylist()).lower()
    assert {name: len(result[name]) for name in result} == {name: len(plain[name]) for name in plain}


def test_samples_of_all_formats_show_no_name(run_job: RunJob, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "key").write_bytes(b"k3y" * 20)
    for fmt in formats():
        for number, sample in enumerate(fmt.samples):
            text = sample.text.encode("utf-8", "surrogateescape")
            (tmp_path / "in" / f"{fmt.name}-{number}.log").write_bytes(text)
    plain = run_job(tmp_path / "in", out=tmp_path / "plain")
    names = set()
    for name in plain:
        table = plain[name].table()
        for column in TABLES[name].columns:
            if column.holds in ("host", "user", "path", "serial", "cluster"):
                values = table.column(column.name).combine_chunks()
                flat = values.flatten() if pa.types.is_list(values.type) else values
                names |= {str(value).lower() for value in flat.to_pylist() if value}
    # What is a word of the vocabulary, so short that it stands in any file, or like a pseudonym cannot be looked for.
    like = re.compile(r"[a-z]+-[0-9a-f]{1,12}")
    names = {name.encode() for name in names if len(name) > 5 and name not in vocabulary() and not like.fullmatch(name)}
    assert len(names) > 100
    result = run_job(tmp_path / "in", out=tmp_path / "hidden", pseudonymise=str(tmp_path / "key"))
    told = b"\n".join(everything_in(result)).lower()
    assert not [name for name in names if name in told]


def distinct(result: Results, table: str, column: str) -> set[Any]:
    values = result[table].table([column]).column(0).to_pylist()
    return {one for value in values if value is not None for one in (value if isinstance(value, list) else [value])}


def test_tables_are_joined_as_before(share: Any) -> None:
    result = share()
    hosts = distinct(result, "hosts", "host") | distinct(result, "sessions", "hosts")
    assert distinct(result, "sessions", "hosts") <= hosts
    assert distinct(result, "gpu_errors", "host") & distinct(result, "sessions", "hosts")
    assert distinct(result, "exclusions", "host") & distinct(result, "sessions", "hosts")
    sources = distinct(result, "sources", "source")
    assert distinct(result, "gpu_errors", "source") <= sources
    assert {source.rpartition(":")[0] for source in distinct(result, "sessions", "sources")} <= sources
    assert {entry["source"] for entry in result.manifest["inputs"]} == sources
    sessions = distinct(result, "sessions", "session_id")
    for column in ("from_session_id", "to_session_id"):
        assert distinct(result, "retries", column) <= sessions
    assert distinct(result, "retries", "chain_id") <= distinct(result, "chains", "chain_id")
    assert distinct(result, "chains", "user")
    assert distinct(result, "chains", "user") <= distinct(result, "sessions", "user")
    # The printed long name and the short one are one host.
    for row in result.gpu_errors.table().to_pylist():
        assert row["host"] == row["host_raw"]
        assert row["host"] in distinct(result, "gpus", "host")


def test_the_order_of_rows_and_lists_does_not_tell_the_order_of_names(share: Any) -> None:
    result = share()
    sources = result.sources.table().column("source").to_pylist()
    assert sources == sorted(sources)
    for hosts in result.sessions.table().column("hosts").to_pylist():
        assert hosts == sorted(hosts)


def test_one_key_gives_one_result_and_another_key_another(share: Any, tmp_path: Path) -> None:
    first, again = share(out=tmp_path / "a"), share(out=tmp_path / "b")
    (tmp_path / "key").write_bytes(b"another key of the tests, as long")
    other = share(out=tmp_path / "c")
    for name in first:
        assert first[name].table() == again[name].table()
    assert distinct(first, "sessions", "session_id").isdisjoint(distinct(other, "sessions", "session_id"))
    assert distinct(first, "sources", "digest").isdisjoint(distinct(other, "sources", "digest"))
    assert distinct(first, "hosts", "host").isdisjoint(distinct(other, "hosts", "host"))


@pytest.mark.parametrize(
    ("hide", "hidden", "seen"),
    [
        ("users", ["zquser", "9183"], ["zqhost01", "zqproject", "1324521034567"]),
        ("hosts", ["zqhost0", "zqcluster"], ["zquser", "/home/zquser/zqproject", "1324521034567"]),
        ("paths", ["zqproject", "zqsacct", "zq logs"], ["zqhost01", "zquser", "1324521034567"]),
        ("serials", ["1324521034567", "0a0a0a0a-1111"], ["zqhost01", "zquser", "/home/zquser/zqproject"]),
    ],
)
def test_what_is_hidden_can_be_chosen(share: Any, hide: str, hidden: list[str], seen: list[str]) -> None:
    told = b"\n".join(everything_in(share(hide=(hide,)))).decode("utf-8", "replace")
    assert not [name for name in hidden if name in told]
    assert [name for name in seen if name in told] == seen
    # Words that no column tells about are hidden whatever else is shown.
    assert "zqbroken" not in told
    assert "zqremark" not in told


def test_every_column_of_strings_says_what_it_holds() -> None:
    for table in TABLES.values():
        for column in table.columns:
            holds_strings = any(word in str(column.type) for word in ("string", "binary"))
            assert (column.holds is not None) == (holds_strings and not column.values), f"{table.name}.{column.name}"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b"short\n", f"too short for a key: 5 bytes, at least {LEAST_BYTES}"),
        (b"\n" * 100, "too short"),
        (b"0" * 64, "all its bytes are equal"),
        (b"ab" * 40_000, "too long"),
    ],
)
def test_a_bad_key_is_refused_in_one_line(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadKey) as caught:
        read_key(str(path))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError):
        prepare(RunOptions((str(tmp_path),), str(tmp_path / "out"), pseudonymise=str(path)))
    assert not (tmp_path / "out").exists()


def test_a_key_is_never_shown(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"secret of the tests\n")
    prepared = prepare(RunOptions((str(tmp_path),), str(tmp_path / "out"), pseudonymise=str(tmp_path / "key")))
    assert "secret of" not in repr(prepared)
    assert "secret of" not in repr(prepared.key)
    # Nor is it read as an input.
    assert [file for file in prepared.inputs.files if "key" in file.path] == []


def run_command(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "aftershock", "run", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_the_command_takes_key_and_choice(planted: Path, tmp_path: Path) -> None:
    out, key = tmp_path / "out", tmp_path / "key"
    done = run_command(planted, "--out", out, "--pseudonymise", key, "--hide", "hosts, paths")
    assert done.returncode == 0, done.stderr
    assert "zqhost" not in done.stdout
    assert json.loads((out / "manifest.json").read_text())["pseudonymised"]["hidden"] == ["hosts", "paths"]
    for wrong, said in (
        (["--pseudonymise", key, "--hide", "host"], "--hide host: unknown"),
        (["--hide", "hosts"], "--hide needs --pseudonymise"),
        (["--pseudonymise", tmp_path / "no"], "No such file"),
    ):
        done = run_command(planted, "--out", tmp_path / "never", *wrong)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert said in done.stderr
    assert not (tmp_path / "never").exists()
