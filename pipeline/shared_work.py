"""Work on partitions, shared with the processes that parse: what waits on disk is as near to one process as to another.

A step that works on one partition at a time gives every other one to a worker that has nothing to do, and takes the
rest on itself. Where there are no workers, or where a partition is small enough to travel in memory, it does all of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, TypeAlias

import pyarrow as pa

from aftershock.pipeline.quick_beam import beam
from aftershock.pipeline.waiting import is_waiting
from aftershock.pipeline.workers import current_workers
from aftershock.schemas.batches import decode_batch, encode_batch

Keyed: TypeAlias = tuple[Any, Iterable[pa.RecordBatch]]
Work: TypeAlias = Callable[..., Iterator[Any]]
"""From a key with its batches, and further arguments, to outputs, some of them tagged. It can be pickled."""

# An output as it comes back from another process: tag, key (none for a batch without one), and the batch as bytes or
# another value.
_Sent: TypeAlias = tuple[str | None, tuple[Any, ...], Any]


class SharedWork(beam.DoFn):  # type: ignore[misc]
    """Does some work on each element, in this process or in another one."""

    def __init__(self, work: Work, *rest: Any) -> None:
        self._work = work
        self._rest = rest

    def start_bundle(self) -> None:
        """Begin a bundle with nothing given away."""
        self._workers = current_workers()
        self._away: deque[Future[list[_Sent]]] = deque()

    def process(self, keyed: Keyed) -> Iterator[Any]:
        """Give a partition away, or work on it."""
        key, batches = keyed[0], list(keyed[1])
        if self._workers is not None and any(map(is_waiting, batches)) and len(self._away) < self._workers.count:
            sent = [encode_batch(batch) for batch in batches]
            self._away.append(self._workers.submit(_elsewhere, self._work, key, sent, self._rest))
            return
        yield from self._work((key, batches), *self._rest)
        while self._away and self._away[0].done():
            yield from map(_received, self._away.popleft().result())

    def finish_bundle(self) -> Iterator[Any]:
        """Wait for what was given away."""
        window = beam.transforms.window.GlobalWindow()
        while self._away:
            for output in map(_received, self._away.popleft().result()):
                tagged = isinstance(output, beam.pvalue.TaggedOutput)
                value = output.value if tagged else output
                there = beam.utils.windowed_value.WindowedValue(value, window.max_timestamp(), [window])
                yield beam.pvalue.TaggedOutput(output.tag, there) if tagged else there


def _elsewhere(work: Work, key: Any, sent: list[bytes], rest: tuple[Any, ...]) -> list[_Sent]:
    """In another process: the same work, with the same way to ask for memory (see :mod:`aftershock.pipeline.run`)."""
    pa.set_memory_pool(pa.system_memory_pool())
    return [_as_sent(output) for output in work((key, [decode_batch(batch) for batch in sent]), *rest)]


def _as_sent(output: Any) -> _Sent:
    tagged = isinstance(output, beam.pvalue.TaggedOutput)
    tag, value = (output.tag, output.value) if tagged else (None, output)
    key, last = (value[:-1], value[-1]) if isinstance(value, tuple) else ((), value)
    return tag, key, encode_batch(last) if isinstance(last, pa.RecordBatch) else last


def _received(sent: _Sent) -> Any:
    tag, key, last = sent
    last = decode_batch(last) if isinstance(last, bytes) else last
    value = (*key, last) if key else last
    return value if tag is None else beam.pvalue.TaggedOutput(tag, value)
