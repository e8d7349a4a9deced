"""A real Prometheus says the same in every way that it hands out samples, and a run reads them around an event.

It scrapes two pretended hosts for half a minute. The GPU of the first gets hot, then its exporter loses it.
"""

from __future__ import annotations

import datetime as dt
import math
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aftershock
from aftershock.parsers.formats import DocumentFormat, Refused
from aftershock.parsers.prometheus.columns import STALE_BITS, SeriesBatch, Wanted
from aftershock.parsers.registry import document_formats
from aftershock.parsers.source import SourceFile
from aftershock.pipeline.metrics.live import LiveMetrics
from aftershock.pipeline.metrics.live_access import Access
from aftershock.pipeline.metrics.live_cache import Cache
from aftershock.pipeline.metrics.live_plan import Ask, Matcher, Names, Window
from aftershock.pipeline.metrics.live_questions import question_of
from aftershock.pipeline.metrics.live_rules import PrometheusConfig
from aftershock.pipeline.metrics.live_server import Server
from aftershock.pipeline.metrics.sources import opened
from aftershock.pipeline.options import RunOptions
from aftershock.pipeline.prepare import prepare
from aftershock.pipeline.run import run
from aftershock.results import Results
from tests.prometheus.loopback import HOSTS, Prometheus, missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

# Labels, time, bits of the value.
Samples = set[tuple[tuple[tuple[str, str], ...], int, int]]

METRICS = (
    *("up", "node_load1", "odd_gauge", "endless_gauge", "big_gauge"),
    *("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"),
)
CONFIG = """\
[windows]
baseline_s = 12
before_s = 8
after_s = 2

[prometheus]
url = "{url}"
api = "{api}"
metrics = ["DCGM_FI_DEV_GPU_TEMP", "node_load1", "up"]
"""


@dataclass
class Story:
    """The files that were handed out, and a span [begin, end) that all of them cover (milliseconds).

    runs: results of runs, by how the server was asked (``block``: it was not, and the block was an input).
    """

    top: Path
    begin: int = 0
    end: int = 0
    event: int = 0
    files: dict[str, Path] = field(default_factory=dict)
    live: dict[str, tuple[Samples, list[Refused]]] = field(default_factory=dict)
    runs: dict[str, Results] = field(default_factory=dict)

    def read(self, name: str, format_name: str) -> Samples:
        """What a reader makes of a file, within the span."""
        fmt = format_of(format_name)
        if fmt is None or fmt.read_metrics is None:
            pytest.skip(f"there is no reader of {format_name}")
        source = opened(SourceFile(str(self.files[name]), name))
        items = list(fmt.read_metrics(source, Wanted(((self.begin, self.end),), frozenset(METRICS))))
        assert [item for item in items if isinstance(item, Refused)] == []
        return self.within(items)

    def within(self, items: list[SeriesBatch | Refused]) -> Samples:
        return {one for item in items if isinstance(item, SeriesBatch) for one in rows(item, self.begin, self.end)}


def format_of(name: str) -> DocumentFormat | None:
    return next((fmt for fmt in document_formats() if fmt.name == name), None)


def rows(batch: SeriesBatch, begin: int, end: int) -> Iterator[tuple[Any, int, int]]:
    bits = batch.values.view(np.uint64)
    for at, labels in enumerate(batch.labels):
        if dict(labels)["__name__"] in METRICS:
            for place in range(int(batch.begins[at]), int(batch.begins[at + 1])):
                if begin <= batch.times[place] < end:
                    yield tuple(labels), int(batch.times[place]), int(bits[place])


def without_markers(samples: Samples) -> Samples:
    return {one for one in samples if one[2] != STALE_BITS}


def names_a_host(labels: dict[str, str]) -> bool:
    return "Hostname" in labels or labels["instance"].startswith(HOSTS)


def plain_nan(samples: Samples) -> Samples:
    """Texts know one NaN."""
    nan = int(np.array([math.nan]).view(np.uint64)[0])

    def is_nan(bits: int) -> bool:
        return math.isnan(float(np.array([bits], np.uint64).view(np.float64)[0]))

    return {(labels, time, nan if is_nan(bits) else bits) for labels, time, bits in samples}


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    top = tmp_path_factory.mktemp("prometheus")
    told = Story(top)
    with Prometheus(top / "server") as server:
        server.until(lambda: server.value("count(up == 1)") == 4, "all targets")
        told.begin = now_ms()
        time.sleep(20)
        server.exporter.hot = True
        server.until(lambda: (server.value('max(DCGM_FI_DEV_GPU_TEMP{Hostname="gpu001"})') or 0) > 90, "heat")
        time.sleep(5)
        told.event = now_ms()
        server.exporter.lost = True
        server.until(lambda: server.value('DCGM_FI_DEV_GPU_TEMP{Hostname="gpu001"}') is None, "the loss")
        time.sleep(4)
        told.end = now_ms() - 1500
        hand_out(server, told)
        for api in ("query", "remote_read"):
            told.live[api] = ask_live(server, told, api)
        for api in ("query", "auto"):
            told.runs[api] = read_run(server.url, told, api)
    told.runs["block"] = read_run("", told, "block")
    return told


def hand_out(server: Prometheus, told: Story) -> None:
    """Save the samples in every way that Prometheus has."""
    top = told.top
    everything = {"query": '{__name__=~".+"}[10m]', "time": f"{told.end / 1000:.3f}"}
    told.files["query"] = top / "query.json"
    told.files["query"].write_bytes(server.ask("/api/v1/query", **everything))
    (block,) = (path.parent for path in server.snapshot().glob("*/index"))
    told.files["block"] = top / "blocks" / block.name
    shutil.copytree(block, told.files["block"])
    # promtool reads a folder of blocks, and only with the logs of a head beside them.
    shutil.copytree(block, top / "dumped" / block.name)
    (top / "dumped" / "wal").mkdir()
    told.files["dump"] = top / "dump.txt"
    with told.files["dump"].open("wb") as out:
        subprocess.run(["promtool", "tsdb", "dump", str(top / "dumped")], stdout=out, check=True, timeout=60)
    ask = Ask(Window(told.begin, told.end, ()), (Matcher("__name__", ".+"),))
    question = question_of(ask, "remote_read", 30)
    told.files["remote_read"] = top / "streamed.bin"
    headers = dict(question.headers or {})
    told.files["remote_read"].write_bytes(server.ask(question.path, question.body, headers))


def ask_live(server: Prometheus, told: Story, api: str) -> tuple[Samples, list[Refused]]:
    """What the reader of live servers gets of both hosts."""
    config = PrometheusConfig(url=server.url, metrics=METRICS, api=api)
    names = Names(config.metrics, config.host_labels, {}, {})
    metrics = LiveMetrics(config, names, Server(config, Access()), Cache(told.top / f"kept-{api}"))
    items = list(metrics.read([Window(told.begin, told.end, HOSTS)]))
    return told.within(items), [item for item in items if isinstance(item, Refused)]


def read_run(url: str, told: Story, api: str) -> Results:
    """A run over a log with one fault of a GPU, with a live server or the block beside the log."""
    inputs = told.top / f"inputs-{api}"
    inputs.mkdir()
    moment = dt.datetime.fromtimestamp(told.event / 1000, dt.timezone.utc).isoformat(timespec="microseconds")
    text = f"{moment} {HOSTS[0]} kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.\n"
    (inputs / "kern.log").write_text(text)
    config = told.top / f"{api}.toml"
    config.write_text(CONFIG.format(url=url, api=api) if url else CONFIG.partition("[prometheus]")[0])
    if not url:
        shutil.copytree(told.files["block"], inputs / told.files["block"].name)
    out = told.top / f"out-{api}"
    run(prepare(RunOptions(inputs=(str(inputs),), out=str(out), config=str(config), timezone="UTC")))
    return aftershock.open(out)


def test_a_query_and_a_block_hold_the_same_samples(story: Story) -> None:
    asked = story.read("query", "prometheus_query")
    assert len(asked) > 7 * 2 * 20
    assert {dict(labels)["__name__"] for labels, _, _ in asked} == set(METRICS)
    assert plain_nan(without_markers(story.read("block", "tsdb"))) == plain_nan(asked)


def test_only_the_block_knows_which_nan_is_a_marker(story: Story) -> None:
    block = story.read("block", "tsdb")
    ended = {labels for labels, _, bits in block if bits == STALE_BITS}
    assert {dict(labels)["Hostname"] for labels in ended} == {HOSTS[0]}
    assert len(ended) == 2
    dump = story.read("dump", "promtool_dump")
    assert plain_nan(block) == plain_nan(dump)


def test_remote_read_gives_what_the_block_holds(story: Story) -> None:
    assert story.read("remote_read", "remote_read") == story.read("block", "tsdb")


@pytest.mark.parametrize("api", ["query", "remote_read"])
def test_the_live_reader_gets_the_samples_of_both_hosts(story: Story, api: str) -> None:
    if api == "remote_read" and format_of("remote_read") is None:
        pytest.skip("there is no reader of remote_read")
    samples, refused = story.live[api]
    assert refused == []
    # The address of an exporter says nothing of its host: its own ``up`` is nobody's.
    block = {one for one in story.read("block", "tsdb") if names_a_host(dict(one[0]))}
    if api == "query":
        assert plain_nan(samples) == plain_nan(without_markers(block))
    else:
        assert samples == block


@pytest.mark.parametrize("api", ["query", "auto", "block"])
def test_a_run_sees_the_heat_before_the_fault(story: Story, api: str) -> None:
    result = story.runs[api]
    heat = [row for row in result.evidence.table().to_pylist() if row["metric"] == "DCGM_FI_DEV_GPU_TEMP"]
    assert [(row["host"], row["peak_value"]) for row in heat] == [(HOSTS[0], 91.0)]
    assert 4 <= heat[0]["lead_s"] <= 8
    assert heat[0]["n_baseline"] >= 9
    assert result.rejects.table().to_pylist() == []


def test_a_run_finds_the_same_evidence_live_and_in_the_block(story: Story) -> None:
    live = {row["series_id"]: row for row in story.runs["query"].evidence.table().to_pylist()}
    block = {row["series_id"]: row for row in story.runs["block"].evidence.table().to_pylist()}
    assert sorted(row["metric"] for row in live.values()) == ["DCGM_FI_DEV_GPU_TEMP", "node_load1", "up"]
    assert live == {name: block[name] for name in live}


def test_a_run_asks_by_remote_read_where_it_is_offered(story: Story) -> None:
    stale = {api: story.runs[api].samples.table().column("stale").to_pylist() for api in ("query", "auto")}
    assert not any(stale["query"])
    assert any(stale["auto"])
