"""Processes that parse, on the machine where the run was started.

They are forked before Beam is imported: they begin with the first chunks at once, and the time that the engine takes to
start is not lost. On other engines there are none, and chunks are parsed where the engine runs.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, Final, TypeVar

from aftershock.parsers.blocks import BlockResult
from aftershock.parsers.source import SourceFile
from aftershock.pipeline.chunks import read_chunk_at_once
from aftershock.pipeline.plan import Chunk, chunks_of

ResultT = TypeVar("ResultT")

MOST_WORKERS: Final = 8

# Input for which another worker pays: each loads the formats first, on a processor that others could use.
BYTES_PER_WORKER: Final = 256 << 20

# A source that cannot be split is parsed in a worker, and its rows kept, if it is no larger: many files are small.
SMALL_BYTES: Final = 8 << 20
# What a compressed byte may hold. Logs shrink ten to thirty times.
_UNPACKED: Final = 32

# Rows that may wait in this process for the engine to ask for them: then the early work pauses.
WAITING_ROWS: Final = 50_000

# Files that are planned one by one, and then by the dozen: handing one over costs as much as looking at it.
_ALONE: Final = 8
_TOGETHER: Final = 24

# Seconds after which a worker notices that the process it works for is gone.
WATCH_S: Final = 0.5


def worker_count() -> int:
    """One for each processor that this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(MOST_WORKERS, usable))


def is_small(chunk: Chunk) -> bool:
    """Whether all rows of a chunk may be in memory at once."""
    if not chunk.is_whole:
        return True
    return chunk.size is not None and chunk.size <= (SMALL_BYTES // _UNPACKED if chunk.compression else SMALL_BYTES)


class Workers:
    """A pool of parsers and the chunks that it was given before anybody asked for them. ``count``: of processes."""

    def __init__(self, executor: Executor, burst_gap: int, aside: str, count: int = 1) -> None:
        self.count = count
        self._executor = executor
        self._burst_gap = burst_gap
        self._aside = aside
        self._lock = threading.Lock()
        self._plans: dict[SourceFile, tuple[Future[list[list[Chunk]]], int]] = {}
        self._early: dict[Chunk, Future[BlockResult]] = {}
        self._planned: deque[Chunk] = deque()
        self._asked_for: set[Chunk] = set()
        self._waiting_rows = 0

    def begin(self, files: Iterable[SourceFile], chunk_bytes: int) -> None:
        """Start on files that will be asked for: plan them, and parse their chunks until enough rows are waiting."""
        rest = (file for file in files if not file.refused)
        # The first one by one, so that all workers have something to do at once.
        groups = [[file] for file in islice(rest, _ALONE)]
        while group := list(islice(rest, _TOGETHER)):
            groups.append(group)
        for group in groups:
            future = self._executor.submit(_chunks_of_each, group, chunk_bytes)
            self._plans.update((file, (future, number)) for number, file in enumerate(group))
            future.add_done_callback(self._planned_more)

    def plan(self, file: SourceFile, chunk_bytes: int) -> list[Chunk]:
        """The chunks of a file."""
        early = self._plans.pop(file, None)
        if early is None:
            return chunks_of(file, chunk_bytes)
        future, number = early
        return future.result()[number]

    def parse(self, chunk: Chunk) -> Future[BlockResult]:
        """The result of a chunk, whether it was begun early or not."""
        with self._lock:
            early = self._early.pop(chunk, None)
            if early is None:
                self._asked_for.add(chunk)
        return early or self._executor.submit(read_chunk_at_once, chunk, self._burst_gap, self._aside)

    def submit(self, work: Callable[..., ResultT], *args: Any) -> Future[ResultT]:
        """Some other work for the pool."""
        return self._executor.submit(work, *args)

    def close(self) -> None:
        """End the pool; what was not asked for is dropped."""
        self._planned.clear()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _planned_more(self, future: Future[list[list[Chunk]]]) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        chunks = [chunk for each in future.result() for chunk in each if not chunk.refused and is_small(chunk)]
        with self._lock:
            self._planned.extend(chunks)
        for _ in range(min(len(chunks), 2 * worker_count())):
            self._submit_next()

    def _submit_next(self) -> None:
        with self._lock:
            while self._planned and self._planned[0] in self._asked_for:
                self._asked_for.remove(self._planned.popleft())
            if not self._planned or self._waiting_rows > WAITING_ROWS:
                return
            chunk = self._planned.popleft()
            try:
                future = self._executor.submit(read_chunk_at_once, chunk, self._burst_gap, self._aside)
            except (RuntimeError, BrokenProcessPool):  # closed meanwhile
                return
            self._early[chunk] = future
        future.add_done_callback(self._went_on)

    def _went_on(self, future: Future[BlockResult]) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        self._waiting_rows += len(future.result().found)
        self._submit_next()


def _chunks_of_each(files: Sequence[SourceFile], chunk_bytes: int) -> list[list[Chunk]]:
    return [chunks_of(file, chunk_bytes) for file in files]


def _live_with(parent: int) -> None:
    """In a worker: leave interrupts to the parent, and end when it has ended, however that came about."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()  # what came with the fork stays; looking through it would copy its pages
    gc.enable()
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(WATCH_S)
    os._exit(1)


_current: Workers | None = None


def start_workers(burst_gap: int, total_bytes: int, aside: str) -> Workers | None:
    """Fork the parsing processes; None where forking is not safe. Call before anything starts a thread.

    aside: folder for steps of blocks that have many.
    """
    global _current  # noqa: PLW0603 - the transforms of this process find them here
    if sys.platform != "linux":
        return None
    context = multiprocessing.get_context("fork")
    count = min(worker_count(), 1 + total_bytes // BYTES_PER_WORKER)
    executor = ProcessPoolExecutor(count, context, initializer=_live_with, initargs=(os.getpid(),))
    _current = Workers(executor, burst_gap, aside, count)
    return _current


def stop_workers() -> None:
    """End the processes of :func:`start_workers`."""
    global _current  # noqa: PLW0603
    if _current:
        _current.close()
        _current = None


def current_workers() -> Workers | None:
    """The workers that this process started, if it did."""
    return _current


def parsing_workers(burst_gap: int, aside: str) -> tuple[Workers, bool]:
    """The workers of this process, or a few threads of its own; and whether the caller has to close them."""
    if _current is not None:
        return _current, False
    return Workers(ThreadPoolExecutor(min(4, worker_count())), burst_gap, aside), True
