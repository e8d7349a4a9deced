"""The summary after a run: what it says, that it is the same each time, and that no log can act on the terminal."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aftershock.results import NoResult
from aftershock.schemas.batches import as_written, rows_to_batch
from aftershock.schemas.columns import Row
from aftershock.schemas.events import GpuError
from aftershock.schemas.provenance import Reject, Source
from aftershock.schemas.sessions import Chain, Exclusion, Retry, Session
from aftershock.schemas.tables import TABLES
from aftershock.summary import summarise
from aftershock.terminal import cut, printable, span

ESCAPE = "\x1b[31m\u202ered\x9b\x07"


def result(folder: Path, rows: list[Row], table_format: str = "parquet") -> Path:
    """A whole result with these rows: every table is there."""
    for name, table in TABLES.items():
        mine = [row for row in rows if row.table == name]
        written = pa.Table.from_batches([as_written(rows_to_batch(mine, table), table)])
        below = folder / f"{name}.{table_format}"
        below.mkdir(parents=True)
        path = below / f"part-all.{table_format}"
        if table_format == "parquet":
            pq.write_table(written, path)
        else:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, written.schema) as writer:
                writer.write_table(written)
    (folder / "manifest.json").write_text(json.dumps({"table_format": table_format}))
    return folder


def told(folder: Path, terminal: bool = False) -> str:
    out = io.StringIO()
    summarise(str(folder), out, terminal)
    return out.getvalue()


ROWS: list[Row] = [
    Session(session_id="s1", job_id="5", state="NODE_FAIL", start_time=1),
    Session(session_id="s2", job_id="5", state="CANCELLED"),
    Session(session_id="s3", job_id="6", state="COMPLETED", start_time=2),
    Session(session_id="s4", job_id="7", state="COMPLETED", start_time=3),
    Session(session_id="s5", job_id="8", state="COMPLETED", start_time=3),
    Session(session_id="s6", job_id="9", state=None, start_time=3),
    Chain(chain_id="c1", name="pre-a", n_attempts=1, first_session_id="s1", outcome="never_restarted", mode="auto"),
    Chain(chain_id="c2", name="pre-b", n_attempts=3, first_session_id="s3", outcome="succeeded", mode="manual", median_interval_s=7.0),
    Chain(chain_id="c3", name="alone", n_attempts=1, first_session_id="s5", outcome="succeeded"),
    Chain(chain_id="c4", name="broken", n_attempts=1, first_session_id="s6", outcome="failed"),
    Retry(chain_id="c2", from_session_id="s3", to_session_id="s4", trigger="resubmit"),
    Retry(chain_id="c2", from_session_id="s4", to_session_id="s5", trigger="resubmit"),
    Exclusion(exclusion_id="x1", host="gpu004", how="drain", evidenced=True),
    Exclusion(exclusion_id="x2", host="gpu004", how="down", evidenced=False),
    Exclusion(exclusion_id="x3", host="gpu004", how="down"),
    Exclusion(exclusion_id="x4", host="gpu001", how="exclude_list"),
    GpuError(event_id="e1", family="xid", code=79, host="gpu004", pci="0000:9d:00.0", mnemonic="GPU_LOST"),
    GpuError(event_id="e2", family="xid", code=45, host="gpu001", pci="0000:1b:00.0", count=1200),
    GpuError(event_id="e3", family="xid", code=45, host="gpu001", pci="0000:43:00.0", count=34),
    GpuError(event_id="e4", family="xid", code=45, host="gpu002", pci=None, mnemonic="PREEMPTIVE"),
    GpuError(event_id="e5", family="sxid", code=22013, host="gpu008", pci="0000:09:00.0"),
    Source(source="logs/a.log", format="kernel", bytes=1_500_000, zone_basis="zoned"),
    Source(source="logs/b.log", format="kernel", bytes=500_000, zone_basis="assumed_zone", timezone="Asia/Seoul"),
    Source(source="logs/c.log", format="kernel", note="dates without a year, and nothing says which: give --year"),
    Source(source="logs/d.bin", note="no known format"),
    Reject(source="logs/a.log", byte_offset=0, reason="no PCI address"),
    Reject(source="logs/a.log", byte_offset=70, reason="no PCI address"),
    Reject(source="logs/a.log", byte_offset=80, reason="no PCI address"),
    Reject(source="logs/b.log", byte_offset=5, reason="no PCI address"),
    Reject(source="logs/d.bin", reason="no known format"),
]  # fmt: skip


def test_whole_summary(tmp_path):
    folder = result(tmp_path / "out", ROWS)
    text = told(folder).replace(str(folder), "OUT")
    empty = [name for name in TABLES if name not in {row.table for row in ROWS}]
    assert (
        text
        == f"""\
6 sessions, 1 of them never placed on hosts
  state      sessions
  COMPLETED         3
  CANCELLED         1
  NODE_FAIL         1
  unknown           1

4 chains: 2 succeeded, 1 failed, 1 never restarted; 2 with retries
  chain  job  name    attempts  outcome          retried by   mode    median interval
  c1     5    pre-a          1  never restarted               auto
  c2     6    pre-b          3  succeeded        resubmit x2  manual              7 s
  c4     9    broken         1  failed
  ... and 1 more: see chains

4 exclusions of 2 hosts
  host    exclusions  how              with a hardware fault seen
  gpu004           3  down 2, drain 1                           1
  gpu001           1  exclude list 1                            0

1,237 GPU errors on 4 hosts
  family   code  name        count  hosts  GPUs
  xid        45  PREEMPTIVE  1,235      2     2
  sxid    22013                  1      1
  xid        79  GPU_LOST        1      1     1

4 sources, 2.0 MB: kernel 3, not recognised 1
  source      format  note
  logs/c.log  kernel  dates without a year, and nothing says which: give --year
  logs/d.bin          no known format

5 rejects: looked like a record and could not be read
  reason           count  first at
  no PCI address       4  logs/a.log:0, logs/a.log:70, logs/a.log:80
  no known format      1  logs/d.bin

{len(TABLES)} tables in OUT
  rows: gpu_errors 5, sessions 6, retries 2, chains 4, exclusions 4, sources 4, rejects 5
  no rows: {", ".join(empty)}

  duckdb -c "select state, count(*) from read_parquet('OUT/sessions.parquet/*') group by all"
  python -c "import aftershock; print(aftershock.open('OUT').sessions.to_pandas(['job_id', 'state', 'start_time', 'end_time']))"

! 1 source with local times and no zone: Asia/Seoul was assumed, the zone of the machine that read them. Every time from them may be hours off
  logs/b.log
  settle it with --timezone ZONE, or with timezone in aftershock.toml

! 1 source with dates that have no year: their events have no time
  logs/c.log
  settle it with --year YEAR, or with year in aftershock.toml
"""
    )


def test_result_without_rows(tmp_path):
    text = told(result(tmp_path / "out", []))
    assert text.startswith("No sessions: no record of a job was found\n\n0 sources, 0.0 MB\n")
    assert "rows: none" in text
    assert "!" not in text


def test_result_without_tables(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    assert "0 tables in" in told(tmp_path)


def test_no_result(tmp_path):
    with pytest.raises(NoResult):
        told(tmp_path)


HOSTILE: list[Row] = [
    Session(session_id="s1", job_id=ESCAPE, state=ESCAPE, start_time=1),
    Chain(chain_id="c1", name=ESCAPE + "x" * 500, n_attempts=2, first_session_id="s1", outcome="failed"),
    Exclusion(exclusion_id="x1", host=ESCAPE, how=ESCAPE),
    GpuError(event_id="e1", family="xid", code=79, host="h", mnemonic="[bold]not markup[/bold]" + ESCAPE),
    Source(source=f"logs/{ESCAPE}\n.log", note="--year" + ESCAPE, zone_basis="assumed_zone", timezone=ESCAPE),
    Reject(source=ESCAPE, byte_offset=1, reason=ESCAPE),
]


@pytest.mark.parametrize("terminal", [False, True])
def test_no_log_acts_on_the_terminal(tmp_path, terminal):
    text = told(result(tmp_path / "out", HOSTILE), terminal)
    ours = re.sub(r"\x1b\[[0-9;]*m", "", text) if terminal else text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", ours)
    assert "\x1b[31m\u202e" not in text
    assert r"\x1b[31m\u202ered\x9b\x07" in ours.replace("\n", "") or terminal
    assert max(map(len, ours.splitlines())) < 400


def test_terminal_shows_brackets_as_they_are(tmp_path):
    text = told(result(tmp_path / "out", HOSTILE), terminal=True)
    assert "\x1b[" in text
    assert "[bold]" in re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\n", "")


def test_long_lists_are_cut(tmp_path):
    rows: list[Row] = [Source(source=f"{n:03}", zone_basis="assumed_zone", note="odd") for n in range(100)]
    rows += [Chain(chain_id=f"c{n:03}", outcome="failed") for n in range(100)]
    rows += [Exclusion(exclusion_id=f"x{n}", host=f"gpu{n:03}", how="drain") for n in range(100)]
    rows += [GpuError(event_id=f"e{n}", family="xid", code=n, host="h") for n in range(100)]
    rows += [Reject(source="a", byte_offset=n, reason=f"r{n}") for n in range(100)]
    text = told(result(tmp_path / "out", rows))
    for more in ("88 more: see chains", "90 more: see exclusions", "80 more: see gpu_errors", "90 more: see sources"):
        assert f"... and {more}" in text
    assert "007, 008, 009 and 90 more\n" in text


def test_a_pipe_that_is_ascii_only(tmp_path):
    folder = result(tmp_path / "out", [Chain(chain_id="c1", name="훈련", outcome="failed")])
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    summarise(folder, out, terminal=False)
    out.flush()
    assert rb"\ud6c8\ub828" in out.buffer.getvalue()  # type: ignore[attr-defined]


def test_columns_stand_below_each_other_in_every_script(tmp_path):
    rows: list[Row] = [
        Chain(chain_id=f"c{n}", name=name, n_attempts=n, outcome="failed") for n, name in enumerate(("훈련", "abcd"))
    ]
    korean, latin = told(result(tmp_path / "out", rows)).splitlines()[4:6]
    assert korean.replace("훈련", "abcd").index(" 0 ") == latin.index(" 1 ")


@pytest.mark.parametrize("name", ["out", "o'u t$x"])
@pytest.mark.parametrize("table_format", ["parquet", "arrow"])
def test_the_lines_to_copy_work(tmp_path, name, table_format):
    pytest.importorskip("duckdb")
    folder = result(tmp_path / name, ROWS, table_format)
    lines = [line.strip() for line in told(folder).splitlines() if line.startswith(("  duckdb -c", "  python -c"))]
    assert len(lines) == 2
    for line in lines:
        command, _, argument = shlex.split(line)
        code = f"import duckdb; print(duckdb.sql({argument!r}))" if command == "duckdb" else argument
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        assert "COMPLETED" in ran.stdout


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text ~", "plain text ~"),
        ("naïve 훈련 \U0001f680", "naïve 훈련 \U0001f680"),
        ("\x00\x1b\x7f\x85\x9b", r"\x00\x1b\x7f\x85\x9b"),
        ("a\tb\r\n", r"a\tb\r\n"),
        ("\u202a\u202e\u2066\u2069\u200e\u200f\u061c", r"\u202a\u202e\u2066\u2069\u200e\u200f\u061c"),
        ("\u2028\u2029\ufeff\u200b", r"\u2028\u2029\ufeff\u200b"),
        ("\U000e0041", r"\U000e0041"),
        ("\udcff\ud800", r"\xff\ud800"),
        ("क्\u200dष", "क्\u200dष"),
        ("", ""),
    ],
)
def test_printable(text, shown):
    assert printable(text) == shown
    printable(text).encode()


def test_cut():
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abc..."


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, ""), (0, "0 s"), (41.4, "41 s"), (-5, "-5 s"), (600, "10 min"), (11520, "3.2 h"), (216000, "2.5 d")],
)
def test_span(seconds, shown):
    assert span(seconds) == shown
