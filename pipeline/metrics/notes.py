"""What the sources of metrics held, for their rows in ``sources``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aftershock.parsers.prometheus.columns import SeriesBatch
from aftershock.parsers.transit import lean_batch, rows_of
from aftershock.pipeline.metrics.gathered import Known
from aftershock.pipeline.training.staged import Staged


class Note:
    """What one source held."""

    def __init__(self) -> None:
        self.samples = 0
        self.first: int | None = None
        self.last: int | None = None
        self._series: set[str] = set()
        self._unmatched: set[str] = set()
        self._by_index: set[str] = set()
        self._counts = (0, 0, 0)
        self._resampled = False

    def take(self, batch: SeriesBatch, known: Sequence[Known]) -> None:
        """Count a batch."""
        self.samples += len(batch.times)
        self._series.update(one.series_id for one in known)
        self._unmatched.update(one.series_id for one in known if not one.subject.matched)
        self._by_index.update(one.series_id for one in known if one.subject.how == "index")
        self._resampled = self._resampled or batch.resampled
        if len(batch.times):
            first, last = int(batch.times.min()), int(batch.times.max())
            self.first = first if self.first is None else min(first, self.first)
            self.last = last if self.last is None else max(last, self.last)

    def settle(self) -> None:
        """Keep the numbers only: a year has thousands of blocks, each with all series."""
        if self._series:
            self._counts = (len(self._series), len(self._unmatched), len(self._by_index))
            self._series, self._unmatched, self._by_index = set(), set(), set()

    def text(self) -> str:
        """For people."""
        self.settle()
        series, unmatched, by_index = self._counts
        words = [f"{series} series read, {unmatched} of them of no known host"]
        if by_index:
            words.append(f"the GPU of {by_index} known by its index only, which may change")
        if self._resampled:
            words.append("resampled by a query: these are not the values that were scraped")
        return "; ".join(words)


def tell(staged: Staged, notes: Mapping[str, Note]) -> None:
    """Write into ``sources`` what the metrics held."""
    for path in staged.parts("sources"):
        batch = staged.read("sources", path)
        rows: list[Any] = rows_of(batch.replace_schema_metadata({"table": "sources"}))
        for row in rows:
            note = notes.get(row.source)
            if note is not None:
                row.records = row.events = note.samples
                row.first_time = None if note.first is None else note.first * 1000
                row.last_time = None if note.last is None else note.last * 1000
                row.note = "; ".join(text for text in (row.note, note.text()) if text)
        staged.replace("sources", path, lean_batch(rows, "sources"))
