"""A run that asks a live server: events of a log, samples of the server, evidence of both."""

from __future__ import annotations

import datetime as dt
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import aftershock
from aftershock.pipeline.options import RunOptions
from aftershock.pipeline.prepare import prepare
from aftershock.pipeline.run import run
from tests.pipeline.conftest import RunJob
from tests.pipeline.metrics.pretended import Pretended, Reply, Request, serving

SECRET = "s3cr3t-t0ken-value"
# Xid 79 at this second.
EVENT = dt.datetime(2026, 3, 2, 7, 8, 9, tzinfo=dt.timezone.utc)
LINE = "2026-03-02T07:08:09.000000+00:00 gpu001 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus."
MS = int(EVENT.timestamp() * 1000)


def samples(around: int, step: int = 15_000) -> list[tuple[int, float]]:
    """Two hours of a temperature that leaps five minutes before the event."""
    return [(around + at * step, 90.0 if -20 <= at < 0 else 40.0 + at % 3) for at in range(-480, 40)]


SERIES = [
    ({"__name__": "DCGM_FI_DEV_GPU_TEMP", "instance": f"{host}:9400", "gpu": "0", "job": "dcgm"}, samples(MS))
    for host in ("gpu001", "gpu002")
]


@pytest.fixture
def asked(tmp_path: Path) -> Any:
    """Writes a log and a configuration for a server: ``asked(server, "key = value")`` gives the options of a run."""

    def prepared(server: Pretended, *lines: str) -> dict[str, Any]:
        (tmp_path / "logs").mkdir(exist_ok=True)
        (tmp_path / "logs" / "kern.log").write_text(LINE + "\n")
        (tmp_path / "token").write_text(SECRET)
        keys = [
            f'url = "{server.url}"',
            'bearer_token_file = "token"',
            "backoff_s = 0.01",
            "retries = 1",
            'cache = "kept"',
            *lines,
        ]
        (tmp_path / "aftershock.toml").write_text("[prometheus]\n" + "\n".join(keys))
        return {"config": str(tmp_path / "aftershock.toml")}

    return prepared


def test_what_a_server_showed_around_an_event(run_job: RunJob, asked: Any, tmp_path: Path) -> None:
    with serving(Pretended(SERIES)) as server:
        result = run_job(tmp_path / "logs", **asked(server))
        questions = len(server.requests)
        assert all(request.headers["authorization"] == f"Bearer {SECRET}" for request in server.requests)
        again = run_job(tmp_path / "logs", out=tmp_path / "again", **asked(server))
        assert len(server.requests) == questions
    (row,) = result.evidence.table().to_pylist()
    assert (row["metric"], row["host"], row["peak_value"]) == ("DCGM_FI_DEV_GPU_TEMP", "gpu001", 90.0)
    assert row["lead_s"] == 300
    times = result.samples.table().column("time").to_pylist()
    assert (times[0], times[-1]) == (EVENT - dt.timedelta(minutes=90), EVENT + dt.timedelta(minutes=5))
    (source,) = [row for row in result.sources.table().to_pylist() if row["format"] == "prometheus_server"]
    assert source["source"] == server.url
    assert len(times) == 381
    assert 381 <= source["records"] <= 381 + 40  # windows are asked on a grid of five minutes
    assert "questions asked: 1, answered by an earlier run: 0" in source["note"]
    assert again.samples.table().equals(result.samples.table())
    assert result.rejects.table().num_rows == 0
    written = [*(tmp_path / "out").rglob("*"), *(tmp_path / "kept").rglob("*")]
    everything = [path.read_bytes() for path in written if path.is_file()]
    assert not any(SECRET.encode() in data for data in everything)


def test_a_server_that_refuses_costs_the_samples_and_nothing_else(run_job: RunJob, asked: Any, tmp_path: Path) -> None:
    reply = Reply(422, b'{"status":"error","error":"unknown function"}')
    with serving(Pretended(SERIES, lambda request: reply if "query" in request.form else None)) as server:
        result = run_job(tmp_path / "logs", **asked(server, 'api = "query"'))
    (reject,) = result.rejects.table().to_pylist()
    assert (reject["source"], reject["format"]) == (server.url, "prometheus_server")
    assert "of gpu001: the server answered 422: unknown function" in reject["reason"]
    assert b'instance=~"(?i:gpu001)' in reject["excerpt"]
    assert result.gpu_errors.table().num_rows == 1
    assert result.samples.table().num_rows == 0


def test_a_token_that_is_gone_when_it_is_needed_costs_the_samples(run_job: RunJob, asked: Any, tmp_path: Path) -> None:
    with serving(Pretended(SERIES)) as server:
        given = asked(server)
        out = tmp_path / "out"
        prepared = prepare(RunOptions(inputs=(str(tmp_path / "logs"),), out=str(out), **given))
        (tmp_path / "token").unlink()
        run(prepared)
        assert server.requests == []
    (reject,) = aftershock.open(out).rejects.table().to_pylist()
    assert reject["reason"].startswith("nothing was asked: bearer_token_file in [prometheus]")


def test_a_dry_run_prints_what_would_be_asked_and_leaves_nothing(asked: Any, tmp_path: Path) -> None:
    with serving(Pretended(SERIES)) as server:
        given = asked(server)
        command = [sys.executable, "-m", "aftershock", "run", str(tmp_path / "logs"), "--config", given["config"]]
        done = subprocess.run(
            [*command, "--out", str(tmp_path / "out"), "--dry-run"], capture_output=True, text=True, check=False
        )
        assert server.requests == []
    assert (done.returncode, done.stderr) == (0, "")
    assert "events: 1 on hosts: 1; windows: 1 with 1.7 host-hours" in done.stdout
    assert "2026-03-02T05:35:00Z to 2026-03-02T07:15:00Z  gpu001" in done.stdout
    assert re.search(r'\{instance=~"\(\?i:gpu001\)\(\[\.:]\.\*\)\?",__name__=~"up\|.*"}\[6000000ms]', done.stdout)
    assert SECRET not in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["aftershock.toml", "logs", "token"]


def test_given_away_the_address_of_the_server_is_hidden(run_job: RunJob, asked: Any, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("0123456789abcdef0123456789abcdef")

    def behave(request: Request) -> Reply | None:
        return Reply(400, b'{"error":"no gpu001 here"}') if "query" in request.form else None

    with serving(Pretended(SERIES, behave)) as server:
        result = run_job(tmp_path / "logs", pseudonymise=str(tmp_path / "key"), **asked(server, 'api = "query"'))
    assert result.rejects.table().num_rows == 1
    everything = str(result.rejects.table().to_pylist()) + str(result.sources.table().to_pylist())
    assert "gpu001" not in everything + (tmp_path / "out" / "manifest.json").read_text()
    assert server.url not in everything
