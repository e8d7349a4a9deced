"""The live server within a run: what it is asked from, where its answers lie, and what would be asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from aftershock.parsers.formats import Refused
from aftershock.parsers.prometheus.columns import SeriesBatch
from aftershock.pipeline.config import Config
from aftershock.pipeline.metrics.asked import Asked
from aftershock.pipeline.metrics.live import LiveMetrics
from aftershock.pipeline.metrics.live_access import BadAccess, access_of
from aftershock.pipeline.metrics.live_cache import Cache, cache_folder
from aftershock.pipeline.metrics.live_plan import Names, Window, windows_of
from aftershock.pipeline.metrics.live_questions import QUERY, question_of
from aftershock.pipeline.metrics.live_server import Server, Trouble
from aftershock.schemas.topology import Gpu

# Where nothing else is known: the default of Prometheus' own configurations and of the exporters' charts.
_INTERVAL_S: Final = 15.0
_GPUS: Final = 8
_OF_GPUS: Final = ("DCGM_", "all_smi_gpu_", "gpu_", "nvidia_smi_")


def names_of(config: Config, gpus: Iterable[Gpu]) -> Names:
    """How the hosts of a run may be named in labels."""
    spellings: dict[str, list[str]] = defaultdict(list)
    for printed, host in config.aliases.items():
        spellings[host].append(printed)
    uuids: dict[str, list[str]] = defaultdict(list)
    for gpu in gpus:
        if gpu.host and gpu.gpu_uuid and gpu.gpu_uuid not in uuids[gpu.host]:
            uuids[gpu.host].append(gpu.gpu_uuid)
    asked = config.prometheus
    return Names(asked.metrics, asked.host_labels, spellings, {host: sorted(some) for host, some in uuids.items()})


class LiveReading:
    """One reading of a server: the items it gives, and in the end what became of the questions.

    source, name: what stands for it in ``sources`` and ``rejects``, instead of a path and a format.
    """

    name: Final = "prometheus_server"

    def __init__(self, config: Config, names: Names, out: str) -> None:
        self.source = config.prometheus.url or ""
        self._config = config
        self._names = names
        self._folder = config.folder or config.started_in
        self._cache = cache_folder(config.prometheus.cache, self._folder, out)
        self._metrics: LiveMetrics | None = None

    def items(self, asked: Sequence[Asked]) -> Iterator[SeriesBatch | Refused]:
        """Samples around events, and what could not be had."""
        rules = self._config.prometheus
        try:
            server = Server(rules, access_of(rules, self._folder))
        except (BadAccess, Trouble) as error:
            # It was looked at before the run began: a secret that is gone since costs no more than the samples.
            yield Refused(0, 0, f"nothing was asked: {error}")
            return
        self._metrics = LiveMetrics(rules, self._names, server, Cache(self._cache))
        yield from self._metrics.read(windows_of(asked, self._config.windows, rules.peers))

    def note(self) -> str:
        return self._metrics.counts.text() if self._metrics else "nothing was asked"


def dry_run_text(config: Config, names: Names, asked: Sequence[Asked], out: str) -> str:
    """What would be asked for these events, for people. The server is not asked anything for it."""
    rules, folder = config.prometheus, config.folder or config.started_in
    windows = windows_of(asked, config.windows, rules.peers)
    labels = names.known_labels()
    hours = sum((window.end - window.begin) * len(window.hosts) for window in windows) / 3_600_000
    interval = config.cluster.scrape_interval_s or _INTERVAL_S
    series = _series_of_host(rules.metrics, config.cluster.gpus_per_host or _GPUS)
    hosts, samples = len({one.host for one in asked}), hours * 3600 / interval * series
    lines = [
        f"{rules.url}: nothing was asked",
        f"events: {len(asked)} on hosts: {hosts}; windows: {len(windows)} with {hours:,.1f} host-hours",
        f"at most {len(windows)} questions for each label of these that the server has: {', '.join(labels)}",
        f"about {samples:,.0f} samples, if each host has {series} series, scraped every {interval:g} s",
        f"budget: max_queries = {rules.max_queries}, max_samples = {rules.max_samples}; {rules.concurrency} at a time",
        f"answers are kept in {cache_folder(rules.cache, folder, out)}",
    ]
    if not windows:
        return "\n".join(lines)
    first = next(names.asks(windows[0], labels))
    form = question_of(first, QUERY, rules.timeout_s).form or {}
    lines += ["", "the first question, as a query:", f"  {form['query']}", f"  at {form['time']}", "", "windows:"]
    lines += [f"  {_times(window)}  {','.join(window.hosts)}" for window in windows]
    return "\n".join(lines)


def _series_of_host(metrics: Sequence[str], gpus: int) -> int:
    return sum(gpus if name.startswith(_OF_GPUS) else 1 for name in metrics)


def _times(window: Window) -> str:
    return window.text().partition(" of ")[0]
