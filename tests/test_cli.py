"""The command from outside: what it prints, what it returns, what it imports."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parent / "samples" / "slurm"
XID = b"2026-03-01T12:00:00+00:00 gpu001 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"


def aftershock(*args: object, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "aftershock", *map(str, args)]
    env = {**os.environ, **environment}
    return subprocess.run(command, input=stdin, capture_output=True, timeout=120, check=False, env=env)


def one_line(done: subprocess.CompletedProcess[bytes]) -> str:
    """The one line on stderr of a wrong use."""
    text = done.stderr.decode()
    assert done.returncode == 2, text
    assert text.count("\n") == 1, text
    assert done.stdout == b""
    return text


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "logs" / "kern.log"
    path.parent.mkdir()
    path.write_bytes(XID)
    return path


@pytest.mark.parametrize(
    "args", [("--help",), ("run", "--help"), ("parse", "--help"), ("--version",), ("tables",), ("formats",)]
)
def test_help_and_lists_do_not_import_beam(args: tuple[str, ...]) -> None:
    script = "import sys\nfrom aftershock.cli import main\ntry:\n main()\nfinally:\n print('apache_beam' in sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script, *args], capture_output=True, check=True)
    assert done.stderr == b"False\n"
    assert len(done.stdout) > 10


def test_import_of_the_face_is_light() -> None:
    script = "import sys, aftershock; print([m for m in ('pyarrow', 'numpy', 'apache_beam', 'networkx') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


def test_parse_prints_one_json_object_a_row(log: Path) -> None:
    done = aftershock("parse", log)
    row = json.loads(done.stdout)
    assert (row["table"], row["code"], row["pci"], row["time"]) == (
        "gpu_errors",
        79,
        "0000:3b:00.0",
        "2026-03-01T12:00:00.000000Z",
    )
    assert (row["source"], row["byte_offset"], row["host"], row["count"]) == (str(log), 0, "gpu001", 1)


def test_parse_reads_stdin_also_compressed(tmp_path: Path) -> None:
    import gzip

    for stdin in (XID, gzip.compress(XID)):
        done = aftershock("parse", "-", stdin=stdin)
        assert json.loads(done.stdout)["source"] == "-"


def test_parse_keeps_times_null_until_zone_and_year_are_given(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    path.write_bytes(
        b"May  6 00:38:27 gpu001 kernel: NVRM: Xid (PCI:0000:3b:00): 45, pid=7, name=python3, Ch 00000008\n"
    )
    assert json.loads(aftershock("parse", path).stdout)["time"] is None
    row = json.loads(aftershock("parse", path, "--timezone", "Asia/Seoul", "--year", "2026").stdout)
    assert (row["time"], row["time_local"]) == ("2026-05-05T15:38:27.000000Z", "May  6 00:38:27")


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m aftershock parse {SAMPLES / 'slurmctld.log'} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert done.stderr == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_behind_stdout_is_one_line(log: Path) -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "aftershock", "parse", str(log)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"aftershock: cannot write: No space left on device\n")


def test_parse_says_when_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / "prose.txt").write_text("nothing of interest\n")
    done = aftershock("parse", tmp_path / "prose.txt")
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"no known format" in done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("rnu", "x"), "did you mean aftershock run?"),
        (("run", "nothing-there", "--out", "o"), "nothing-there: no such file"),
        (("run", "--out", "o"), "Missing argument"),
        (("run", "LOG"), "Missing option '--out'"),
        (("run", "LOG", "--out", "o", "--timezone", "Mars/Base"), "unknown time zone 'Mars/Base'"),
        (("run", "LOG", "--out", "o", "--tabel-format", "arrow"), "--tabel-format"),
        (("run", "LOG", "--out", "o", "--runer=FnApiRunner"), "did you mean --runner?"),
        (("run", "LOG", "--out", "o", "--fail-on", "rain"), "the conditions are rejects, no-events, assumed-zone"),
        (("run", "LOG", "--out", "o", "--config", "none.toml"), "none.toml"),
        (("run", "LOG", "--out", "o", "--since", "yesterday"), "is not a time"),
        (("run", "LOG", "--out", ""), "--out is empty"),
        (("run", "LOG", "--out", "s3://bucket/x"), "--out takes a folder of this machine"),
        (
            ("run", "LOG", "--out", "o", "--since", "2026-03-02", "--until", "2026-03-01"),
            "--since is not before --until",
        ),
        (("run", "s3://KEY:s3cr3t@bucket/x", "--out", "o"), "cannot be listed"),
        (("parse", "nothing-there"), "nothing-there: no such file"),
        (("parse", "LOG", "--format", "xml"), "the formats are"),
        (("formats", "xml"), "the formats are"),
        (("tables", "jobs"), "the tables are"),
    ],
)
def test_wrong_use_is_one_line_that_says_what_to_type(args: tuple[str, ...], said: str, log: Path) -> None:
    given = [str(log) if arg == "LOG" else str(log.parent.parent / arg) if arg == "o" else arg for arg in args]
    text = one_line(aftershock(*given))
    assert said in text
    assert "s3cr3t" not in text
    assert not (log.parent.parent / "o").exists()


def test_run_prints_the_summary_and_nothing_else_in_a_pipe(log: Path, tmp_path: Path) -> None:
    done = aftershock("run", log, "--out", tmp_path / "out")
    text = done.stdout.decode()
    assert done.returncode == 0
    assert done.stderr == b""
    assert "\x1b" not in text
    assert "79" in text
    assert (tmp_path / "out" / "manifest.json").exists()


def test_run_shows_progress_on_a_terminal(log: Path, tmp_path: Path) -> None:
    log.write_bytes(XID * 30_000)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "aftershock", "run", str(log), "--out", str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:  # how a closed terminal ends on Linux
            pass
        assert process.wait() == 0
    os.close(ours)
    assert b"MB/s" in shown
    assert shown.endswith(b"\x1b[K")


def test_a_result_is_replaced_only_when_asked(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert aftershock("run", log, "--out", out, "--quiet").returncode == 0
    assert "--overwrite" in one_line(aftershock("run", log, "--out", out))
    assert aftershock("run", log, "--out", out, "--overwrite", "--quiet").returncode == 0


def test_conditions_end_with_three(log: Path, tmp_path: Path) -> None:
    bad = log.parent / "empty"
    bad.touch()
    local = log.parent / "local.log"
    local.write_bytes(b"2026-03-01T12:00:00 gpu001 kernel: NVRM: Xid (PCI:0000:3b:00): 79, x\n")

    def status(*args: object) -> int:
        return aftershock("run", *args, "--out", tmp_path / "out", "--overwrite", "--quiet").returncode

    assert status(log.parent) == 0
    assert status(log.parent, "--fail-on", "rejects") == 3
    assert status(log, "--fail-on", "rejects,no-events,assumed-zone") == 0
    assert status(bad, "--fail-on", "no-events") == 3
    assert status(local, "--fail-on", "assumed-zone") == 3
    assert status(local, "--fail-on", "assumed-zone", "--timezone", "UTC") == 0
    assert status(log.parent, "--strict") == 3


def test_secrets_stay_out_of_everything_that_is_written(tmp_path: Path) -> None:
    secret = "s3cr3tVALUE99xyz"
    (tmp_path / "sacct.psv").write_text(
        "JobID|JobIDRaw|JobName|User|State|Submit|Start|End|NodeList|WorkDir|SubmitLine\n"
        f"7001|7001|run|kim|FAILED|2026-03-01T11:00:00|2026-03-01T11:00:05|2026-03-01T12:00:00|gpu001|/w|"
        f"sbatch --export=API_TOKEN={secret} https://u:{secret}@h.example/x\n"
        f"7002|7002|TOKEN={secret}|kim|FAILED|not a time|2026-03-01T13:00:05|2026-03-01T13:00:09|gpu[1-|/w|x\n"
    )
    (tmp_path / "kern.log").write_text(
        f"2026-03-01T12:00:00+00:00 gpu001 kernel: NVRM: Xid (PCI:0000:3b:00): 13, pid=1, name=x, WANDB_API_KEY={secret}\n"
        f"2026-03-01T12:00:00+00:00 gpu001 kernel: NVRM: Xid (PCI:0000:3b:00): q, Bearer {secret}\n"
    )
    done = aftershock(
        "run", tmp_path, "--out", tmp_path / "o", "--table-format", "arrow", "--s3_secret_access_key=" + secret
    )
    assert done.returncode == 0, done.stderr
    written = [path for path in (tmp_path / "o").rglob("*") if path.is_file()]
    assert len(written) > 20
    assert not [path for path in written if secret.encode() in path.read_bytes()]
    assert secret.encode() not in done.stdout + done.stderr
