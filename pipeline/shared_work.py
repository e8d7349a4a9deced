"""Work on partitions, shared with the processes that parse: what waits on disk is as near to one process as to another.

A step that works on one partition at a time gives every other one to a worker that has nothing to do, and takes the
rest on itself. Where there are no workers, or where a partition is small enough to travel in memory, it does all of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import pyarrow as pa

from aftershock.pipeline.quick_beam import beam
from aftershock.pipeline.waiting import is_waiting
from aftershock.pipeline.work import Keyed, Sent, Tagged, Work, elsewhere, received
from aftershock.pipeline.workers import current_workers
from aftershock.schemas.batches import encode_batch


class SharedWork(beam.DoFn):  # type: ignore[misc]
    """Does some work on each element, in this process or in another one.

    share_from: rows from which a partition that is in memory is given away too; without it only what waits on disk is.
    """

    def __init__(self, work: Work, *rest: Any, share_from: int | None = None) -> None:
        self._work = work
        self._rest = rest
        self._share_from = share_from

    def start_bundle(self) -> None:
        """Begin a bundle with nothing given away."""
        self._workers = current_workers()
        self._away: deque[Future[list[Sent]]] = deque()

    def process(self, keyed: Keyed) -> Iterator[Any]:
        """Give a partition away, or work on it."""
        key, batches = keyed[0], list(keyed[1])
        if self._workers is not None and len(self._away) < self._workers.count and self._is_worth_it(batches):
            sent = [encode_batch(batch) for batch in batches]
            self._away.append(self._workers.submit(elsewhere, self._work, key, sent, self._rest))
            return
        for output in self._work((key, batches), *self._rest):
            yield beam.pvalue.TaggedOutput(*output) if isinstance(output, Tagged) else output
        while self._away and self._away[0].done():
            for output in map(received, self._away.popleft().result()):
                yield beam.pvalue.TaggedOutput(*output) if isinstance(output, Tagged) else output

    def finish_bundle(self) -> Iterator[Any]:
        """Wait for what was given away."""
        window = beam.transforms.window.GlobalWindow()
        while self._away:
            for output in map(received, self._away.popleft().result()):
                value = output.value if isinstance(output, Tagged) else output
                there = beam.utils.windowed_value.WindowedValue(value, window.max_timestamp(), [window])
                yield beam.pvalue.TaggedOutput(output.tag, there) if isinstance(output, Tagged) else there

    def _is_worth_it(self, batches: Sequence[pa.RecordBatch]) -> bool:
        if any(map(is_waiting, batches)):
            return True
        return self._share_from is not None and sum(batch.num_rows for batch in batches) >= self._share_from
