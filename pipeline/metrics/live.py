"""Metrics of a live server: every window that events need is asked for once, and what does not come is named.

Answers go to files first, and are read from there as any other hand-over is: a run that is made again finds them.
A server that does not answer, or not to us, is left alone after a few questions.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final
from urllib.parse import urlencode

import numpy as np
import orjson

from aftershock.parsers.formats import DocumentFormat, Refused
from aftershock.parsers.prometheus.columns import MetricsSource, ReadColumns, SeriesBatch, Wanted
from aftershock.parsers.registry import format_named
from aftershock.parsers.streams import StreamError
from aftershock.pipeline import tally
from aftershock.pipeline.metrics.live_cache import Cache, passing_key
from aftershock.pipeline.metrics.live_plan import Ask, Names, Window
from aftershock.pipeline.metrics.live_questions import (
    QUERY,
    REMOTE_READ,
    apis,
    labels_in,
    labels_question,
    question_of,
)
from aftershock.pipeline.metrics.live_rules import PrometheusConfig
from aftershock.pipeline.metrics.live_server import (
    AWAY,
    JSON,
    OTHER,
    REFUSED,
    SLOW,
    STOP,
    TOO_LARGE,
    Question,
    Server,
    Trouble,
)

_READERS: Final = {QUERY: "prometheus_query", REMOTE_READ: "remote_read"}
# A window that ended less than this before now may still get samples: its answer is not kept.
_SETTLED_MS: Final = 300_000
# After so many questions in a row without an answer, or that the server does not like, no more are asked.
_MOST_IN_A_ROW: Final = {AWAY: 3, SLOW: 6, TOO_LARGE: 24, REFUSED: 10}
_BYTES_PER_SAMPLE: Final = 64
_LEAST_BYTES: Final = 4 << 20
_MOST_LABELS_BYTES: Final = 16 << 20
_SMALL: Final = 4096


@dataclass(frozen=True)
class _Came:
    """An answer in the cache: its key, how it was asked for, and whether it stays there."""

    key: str
    api: str
    stays: bool


@dataclass
class LiveCounts:
    """What became of the questions of a run: asked of the server, found from an earlier run, without an answer."""

    asked: int = 0
    kept: int = 0
    failed: int = 0
    left: int = 0
    samples: int = 0

    def text(self) -> str:
        words = [f"questions asked: {self.asked}, answered by an earlier run: {self.kept}"]
        if self.failed or self.left:
            words.append(f"without an answer: {self.failed}, not asked: {self.left} (see rejects)")
        return "; ".join(words)


class LiveMetrics:
    """Reads windows from a server, in their order, within the budget."""

    def __init__(
        self, config: PrometheusConfig, names: Names, server: Server, cache: Cache, now_ms: int | None = None
    ) -> None:
        self.counts = LiveCounts()
        self._config = config
        self._names = names
        self._server = server
        self._cache = cache
        self._now = int(time.time() * 1000) if now_ms is None else now_ms
        self._readers = {api: read for api, name in _READERS.items() if (read := _reader(name)) is not None}
        self._apis = [api for api in apis(config.api) if api in self._readers]
        self._stopped: str | None = None
        self._full = False
        self._in_a_row = 0
        self._lock = threading.Lock()

    def read(self, windows: Sequence[Window]) -> Iterator[SeriesBatch | Refused]:
        """The samples in all windows, and why there are none of some."""
        begun = [replace(window, end=min(window.end, self._now)) for window in windows if window.begin < self._now]
        if not begun:
            return
        labels = self._labels(begun)
        asks = [ask for window in begun for ask in self._names.asks(window, labels)]
        threads = ThreadPoolExecutor(self._config.concurrency, "metrics")
        try:
            yield from self._in_order(asks, threads)
        finally:
            self._server.give_up()
            threads.shutdown(wait=False, cancel_futures=True)
            tally.say("")
        if self._stopped:
            reason = f"{self.counts.left} of {len(asks)} questions were not asked: {self._stopped}"
            yield Refused(0, 0, reason, asks[0].selector().encode())

    def _in_order(self, asks: Sequence[Ask], threads: ThreadPoolExecutor) -> Iterator[SeriesBatch | Refused]:
        """Some answers are on their way while one is read."""
        waiting: deque[tuple[Ask, Future[_Came]]] = deque()
        ahead = iter(asks)
        for number in range(1, len(asks) + 1):
            for ask in islice(ahead, self._config.concurrency + 1 - len(waiting)):
                waiting.append((ask, threads.submit(self._come, ask)))
            ask, future = waiting.popleft()
            yield from self._taken(ask, future.result)
            tally.say(f"metrics  {number} of {len(asks)} questions  {self.counts.samples:,} samples")

    def _taken(self, ask: Ask, result: Callable[[], _Came]) -> Iterator[SeriesBatch | Refused]:
        """What one question gives; of one that is too large what its halves give."""
        try:
            came = result()
        except _NotAsked:
            self.counts.left += 1
        except Trouble as trouble:
            self._note(trouble)
            halves = self._names.halves(ask) if trouble.kind in (TOO_LARGE, SLOW) and not self._stopped else []
            for half in halves:
                yield from self._taken(half, partial(self._come, half))
            if not halves:
                self.counts.failed += 1
                yield Refused(0, 0, f"{ask.window.text()}: {trouble}", ask.selector().encode())
        else:
            self._in_a_row = 0
            if self._full:
                self.counts.left += 1
                if not came.stays:
                    self._cache.drop(came.key)
            else:
                yield from self._read(ask, came)

    def _note(self, trouble: Trouble) -> None:
        """Count troubles in a row; a server that has nothing else for us is left alone."""
        self._in_a_row += 1
        most = _MOST_IN_A_ROW.get(trouble.kind, 1)
        if self._in_a_row >= most:
            again = "; run again later with the same --out: the answers that came are kept" if most > 1 else ""
            self._stop(f"{trouble}{again}")

    def _stop(self, reason: str) -> None:
        """Ask no more. What was asked before, and what an earlier run asked, is still read."""
        self._stopped = self._stopped or reason
        self._server.give_up()

    def _come(self, ask: Ask) -> _Came:
        """The answer to a question, from an earlier run or from the server. Runs in any thread.

        Raises:
            Trouble: there is none. _NotAsked: nor will there be one in this run.
        """
        stays = ask.window.end <= self._now - _SETTLED_MS
        keys = {api: self._key(question_of(ask, api, self._config.timeout_s)) for api in apis(self._config.api)}
        for api, key in keys.items():
            if stays and api in self._readers and self._cache.has(key):
                with self._lock:
                    self.counts.kept += 1
                return _Came(key, api, stays)
        left = self._spend()
        for api in list(self._apis):
            key = keys[api] if stays else passing_key()
            try:
                self._fetch(question_of(ask, api, self._config.timeout_s), key, _BYTES_PER_SAMPLE * left + _LEAST_BYTES)
            except Trouble as trouble:
                if trouble.kind == OTHER and api != self._apis[-1]:
                    # Others that are on their way may find out the same.
                    self._apis = [other for other in self._apis if other != api]
                    continue
                raise
            return _Came(key, api, stays)
        raise Trouble("no way to ask is left", STOP)

    def _spend(self) -> int:
        """Take one question from the budget. Returns how many samples are left in it."""
        with self._lock:
            if self._stopped is None and self.counts.asked >= self._config.max_queries:
                self._stopped = (
                    f"max_queries = {self._config.max_queries} is reached; run again with the same --out to go on "
                    "from here, raise it in [prometheus], or ask about less with --since and --until"
                )
            if self._stopped is not None:
                raise _NotAsked
            self.counts.asked += 1
            return max(0, self._config.max_samples - self.counts.samples)

    def _fetch(self, question: Question, key: str, most_bytes: int) -> None:
        ends = _Ends()
        try:
            with self._cache.writing(key) as begin:
                self._server.ask(question, most_bytes, lambda: ends.watch(begin()))
                if question.accepted == JSON and not ends.whole:
                    raise Trouble("the answer is cut off: it does not end as it has to", AWAY)
        except OSError as error:
            raise Trouble(f"{self._cache.folder} cannot be written: {error.strerror or error}", STOP) from None

    def _key(self, question: Question) -> str:
        form = urlencode(question.form or {}).encode()
        return self._cache.key((self._config.url or "").encode(), question.path.encode(), form, question.body)

    def _labels(self, windows: Sequence[Window]) -> list[str]:
        """The labels that questions are about: those that the server has, or all where it does not say."""
        begin, end = min(window.begin for window in windows), max(window.end for window in windows)
        question = labels_question(self._names, begin, end)
        known = self._names.known_labels()
        key = self._key(question)
        if not self._cache.has(key):
            try:
                self._fetch(question, key, _MOST_LABELS_BYTES)
            except Trouble as trouble:
                if trouble.kind == STOP:
                    self._stop(str(trouble))
                return list(known)
        try:
            with self._cache.open(key) as stream:
                found = labels_in(stream.read())
        except (OSError, StreamError):
            found = frozenset()
        if not found or end > self._now - _SETTLED_MS:
            self._cache.drop(key)
        return [label for label in known if label in found] or list(known)

    def _read(self, ask: Ask, came: _Came) -> Iterator[SeriesBatch | Refused]:
        """The samples of an answer, no more than the budget allows."""
        window = ask.window
        good = came.stays
        try:
            for item in self._items(came, Wanted(((window.begin, window.end),), frozenset(self._names.metrics))):
                if isinstance(item, Refused):
                    good = False
                    reason = f"{window.text()}: {item.reason}"
                    yield item._replace(reason=reason, excerpt=item.excerpt or ask.selector().encode())
                    continue
                batch = within(item, window.begin, window.end)
                if self.counts.samples + len(batch.times) > self._config.max_samples:
                    self._full = True
                    self.counts.failed += 1
                    self._stop(
                        f"max_samples = {self._config.max_samples} is reached; raise it in [prometheus], ask for fewer "
                        "metrics or peers, or about less with --since and --until"
                    )
                    reason = f"{window.text()}: read in part, because max_samples is reached"
                    yield Refused(0, 0, reason, ask.selector().encode())
                    return
                self.counts.samples += len(batch.times)
                yield batch
        except (OSError, StreamError):
            good = False
            yield Refused(0, 0, f"{window.text()}: the answer was damaged on the disk; run again", b"")
        finally:
            if not good:
                self._cache.drop(came.key)

    def _items(self, came: _Came, wanted: Wanted) -> Iterator[SeriesBatch | Refused]:
        with self._cache.open(came.key) as stream:
            head = stream.read(_SMALL)
        if len(head) < _SMALL and _is_empty(head):
            return iter(())
        source = MetricsSource(self._config.url or "", lambda _: self._cache.open(came.key))
        return self._readers[came.api](source, wanted)


class _NotAsked(Exception):
    """The budget is spent, or the server is left alone."""


class _Ends:
    """Watches how an answer in JSON begins and ends."""

    def __init__(self) -> None:
        self._first = self._last = b""

    def watch(self, write: Callable[[bytes], object]) -> Callable[[bytes], object]:
        """The same sink, watched."""
        self._first = self._last = b""

        def watched(data: bytes) -> object:
            if text := data.strip():
                self._first, self._last = self._first or text[:1], text[-1:]
            return write(data)

        return watched

    @property
    def whole(self) -> bool:
        return self._first == b"{" and self._last == b"}"


def within(batch: SeriesBatch, begin: int, end: int) -> SeriesBatch:
    """The samples of a batch in [begin, end), as they were scraped."""
    keep = (batch.times >= begin) & (batch.times < end)
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(keep, dtype=np.int64)))
    histograms = [one for one in batch.histograms if begin <= one.time < end]
    # A range selector gives what was scraped, however even its times look.
    return SeriesBatch(batch.labels, ends[batch.begins], batch.times[keep], batch.values[keep], False, histograms)


def _is_empty(answer: bytes) -> bool:
    """Whether an answer is whole and holds nothing, and nothing is said about it."""
    if not answer:
        return True
    try:
        found = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return False
    data = found.get("data") if isinstance(found, dict) and not found.get("warnings") else None
    return isinstance(data, dict) and data.get("result") == []


def _reader(name: str) -> ReadColumns | None:
    fmt = format_named(name)
    return fmt.read_metrics if isinstance(fmt, DocumentFormat) else None
