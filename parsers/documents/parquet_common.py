"""Parquet files of prometheus-community/parquet-common, which Thanos and Cortex make of blocks.

    l___name__ | l_instance | l_job | s_data_0 | s_data_1 | s_data_2
    up         | 10.20.0.17 | dcgm  | chunks of the first 8 hours, of the next 8 hours, ...

Documented at https://github.com/prometheus-community/parquet-common (schema/schema.go, schema/encoder.go). A row is a
series. A shard is a pair of files with the same rows, ``0.labels.parquet`` and ``0.chunks.parquet``: give their folder.
Early versions wrote one file. A cell of data holds, again and again: uvarint encoding, first time, last time, length,
and the chunk as in a block. Columns of other times, and groups of rows with other metrics, are not read.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa

from aftershock.parsers.formats import DocumentFormat, Head, Refused, Sample, expect
from aftershock.parsers.prometheus.chunk_batch import Chunks, batch_of
from aftershock.parsers.prometheus.columns import NAME, Labels, MetricsSource, SeriesBatch, Wanted
from aftershock.parsers.prometheus.file_ranges import seekable
from aftershock.parsers.prometheus.ragged import begins_of
from aftershock.parsers.prometheus.rows import reader
from aftershock.parsers.prometheus.varints import read_uvarint

_MAGIC: Final = b"PAR1"
_LABEL: Final = "l_"
_DATA: Final = re.compile(r"s_data_(\d{1,6})\Z")
_SHARD: Final = re.compile(r"(\d+)\.(labels|chunks)\.parquet\Z")
_COLUMNS: Final = re.compile(rb"s_data_0[^0-9]")
_ROWS: Final = 1024
_BUFFER: Final = 1 << 20
_EXCERPT: Final = 64
# Rows that a file of any size may have; beyond them there have to be bytes for them. What shrinks more is a bomb.
_FREE_ROWS: Final = 1_000_000
_MAX_RATIO: Final = 2000
_FREE_BYTES: Final = 64 << 20
# Problems that are told one by one; the others of a file are counted.
_MOST_TOLD: Final = 100

# What pyarrow raises for files that are damaged, or made to look like files.
_DAMAGE: Final = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError)


def detects(head: Head) -> float:
    """Sure of the names of shards, and of columns with data in the footer, which follows the first bytes."""
    if not head.data.startswith(_MAGIC):
        return 0.0
    return 0.9 if _SHARD.search(head.name) or (_COLUMNS.search(head.data) and b"l___name__" in head.data) else 0.0


def read_metrics(source: MetricsSource, wanted: Wanted) -> Iterator[SeriesBatch | Refused]:
    """The samples of a file, or of all shards in a folder."""
    if not source.names:
        yield from _read_pair(source, "", "", wanted)
        return
    for name in source.names:
        match = _SHARD.match(name)
        if match is None or match[2] != "labels":
            continue
        chunks = f"{match[1]}.chunks.parquet"
        if chunks not in source.names:
            yield Refused(0, 0, f"parquet_common: {name} has no {chunks} beside it")
            continue
        yield from _read_pair(source, name, chunks, wanted)


def _read_pair(source: MetricsSource, labels: str, chunks: str, wanted: Wanted) -> Iterator[SeriesBatch | Refused]:
    """A shard; both names are empty for a file that has everything."""
    opened: list[BinaryIO] = []
    try:
        files = []
        for name in dict.fromkeys((labels, chunks)):
            stream, size = seekable(source.open(name))
            opened.append(stream)
            files.append(_open(stream, size))
        yield from _Shard(files[0], files[-1], chunks).read(wanted)
    except _Unfit as error:
        yield Refused(0, 0, f"parquet_common: {labels or 'file'}: {error}")
    except _DAMAGE as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        yield Refused(0, 0, f"parquet_common: {labels or 'file'}: damaged, or not of this kind: {first[:200]}")
    finally:
        for stream in opened:
            stream.close()


class _Unfit(Exception):
    """A sound file that is not read; the message says why."""


def _open(stream: BinaryIO, size: int) -> Any:
    import pyarrow.parquet as pq  # noqa: PLC0415 - large, and few inputs are Parquet

    stream.seek(0)
    file = pq.ParquetFile(stream, pre_buffer=False, buffer_size=_BUFFER)
    if file.metadata.num_rows > max(_FREE_ROWS, size):
        raise _Unfit(f"{file.metadata.num_rows} rows in {size} bytes: looks like a bomb")
    return file


class _Shard:
    """Two files with the same rows (or one file twice)."""

    def __init__(self, labels: Any, chunks: Any, name: str) -> None:
        self._labels, self._chunks, self._name = labels, chunks, name
        self._label_columns = [text for text in labels.schema_arrow.names if text.startswith(_LABEL)]
        self._told = 0
        self._more = 0

    def read(self, wanted: Wanted) -> Iterator[SeriesBatch | Refused]:
        """All rows that are wanted, some at a time."""
        columns = self._data_columns(wanted)
        groups = self._labels.metadata.num_row_groups
        if not self._label_columns or columns is None:
            raise _Unfit("has no columns of labels and data: the labels and the chunks of a shard belong together")
        if [self._labels.metadata.row_group(i).num_rows for i in range(groups)] != [
            self._chunks.metadata.row_group(i).num_rows for i in range(self._chunks.metadata.num_row_groups)
        ]:
            raise _Unfit("has other rows than the file of chunks beside it")
        row = 0
        for group in range(groups):
            rows = self._labels.metadata.row_group(group).num_rows
            if columns and self._may_hold(group, wanted):
                yield from self._read_group(group, row, columns, wanted)
            row += rows
        if self._more:
            yield Refused(0, 0, f"parquet_common: {self._name}: {self._more} more chunks that cannot be read")

    def _data_columns(self, wanted: Wanted) -> list[str] | None:
        """The columns of data that may touch the wanted times; None if there are no columns of data."""
        numbers = [int(match[1]) for text in self._chunks.schema_arrow.names if (match := _DATA.match(text))]
        if not numbers:
            return None
        told = self._chunks.metadata.metadata or {}
        try:
            begin, length = int(told[b"minT"]), int(told[b"data_col_duration_ms"])
        except (KeyError, ValueError):
            begin = length = 0
        spans = wanted.spans
        if spans is None or length <= 0:
            return [f"s_data_{k}" for k in numbers]
        # What is earlier than the first column stands in it as well.
        edges = {k: (begin + k * length if k else -(1 << 63), begin + (k + 1) * length) for k in numbers}
        return [
            f"s_data_{k}"
            for k, (low, high) in edges.items()
            if any(first < high and low < last for first, last in spans)
        ]

    def _may_hold(self, group: int, wanted: Wanted) -> bool:
        """Whether a metric that is wanted may be in a group of rows."""
        if wanted.metrics is None:
            return True
        names = _with_bases(wanted.metrics)
        told = self._labels.metadata.row_group(group)
        for i in range(told.num_columns):
            column = told.column(i)
            if column.path_in_schema == _LABEL + NAME and column.is_stats_set and column.statistics.has_min_max:
                low, high = column.statistics.min, column.statistics.max
                return any(low <= name <= high for name in names) if isinstance(low, str) else True
        return True

    def _read_group(
        self, group: int, row: int, columns: Sequence[str], wanted: Wanted
    ) -> Iterator[SeriesBatch | Refused]:
        _check_ratio(self._chunks.metadata.row_group(group), columns)
        _check_ratio(self._labels.metadata.row_group(group), self._label_columns)
        both: Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]
        if self._labels is self._chunks:
            both = ((batch, batch) for batch in self._batches(self._labels, group, [*self._label_columns, *columns]))
        else:
            both = zip(
                self._batches(self._labels, group, self._label_columns),
                self._batches(self._chunks, group, columns),
                strict=True,
            )
        for labels, data in both:
            yield from self._read_rows(labels, data, row, columns, wanted)
            row += labels.num_rows

    def _batches(self, file: Any, group: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        batches: Iterator[pa.RecordBatch] = file.iter_batches(
            batch_size=_ROWS, row_groups=[group], columns=list(columns)
        )
        return batches

    def _read_rows(
        self, labels: pa.RecordBatch, data: pa.RecordBatch, row: int, columns: Sequence[str], wanted: Wanted
    ) -> Iterator[SeriesBatch | Refused]:
        if labels.num_rows != data.num_rows:
            raise _Unfit("has other rows than the file of chunks beside it")
        names = _labels_of(labels, self._label_columns)
        cells = [data.column(column) for column in columns]
        metrics = None if wanted.metrics is None else _with_bases(wanted.metrics)
        chosen: list[Labels] = []
        chunks: list[bytes] = []
        counts, encodings, places = [], [], []
        for i, own in enumerate(names):
            if metrics is not None and next((value for key, value in own if key == NAME), "") not in metrics:
                continue
            before = len(chunks)
            for cell in cells:
                found = _chunks_of(cell[i].as_py() or b"")
                if found is None:
                    yield from self._refuse(row + i, "a cell that is cut off")
                    continue
                for encoding, first, last, chunk in found:
                    if wanted.spans is None or any(low <= last and first < high for low, high in wanted.spans):
                        chunks.append(chunk)
                        encodings.append(encoding if 0 < encoding < 255 else 254)
                        places.append(row + i)
            if len(chunks) > before:
                chosen.append(own)
                counts.append(len(chunks) - before)
        begins = begins_of(np.array(counts, np.int64))
        batch, problems = batch_of(Chunks(tuple(chosen), begins, chunks, np.array(encodings, np.uint8)))
        for problem in problems:
            yield from self._refuse(places[problem.chunk], problem.reason, chunks[problem.chunk])
        if len(batch.times):
            yield batch

    def _refuse(self, row: int, reason: str, data: bytes = b"") -> Iterator[Refused]:
        self._told += 1
        if self._told > _MOST_TOLD:
            self._more += 1
            return
        yield Refused(row, len(data), f"parquet_common: {self._name} row {row}: {reason}", data[:_EXCERPT])


def _with_bases(metrics: frozenset[str]) -> frozenset[str]:
    """The same, and the native histograms whose count or sum is one of them."""
    return metrics | {name.removesuffix("_count").removesuffix("_sum") for name in metrics}


def _check_ratio(group: Any, columns: Sequence[str]) -> None:
    for i in range(group.num_columns):
        column = group.column(i)
        size, most = column.total_uncompressed_size, max(_FREE_BYTES, _MAX_RATIO * column.total_compressed_size)
        if column.path_in_schema in columns and size > most:
            raise _Unfit(f"{column.path_in_schema} claims {size} bytes: looks like a bomb")


def _labels_of(batch: pa.RecordBatch, columns: Sequence[str]) -> list[Labels]:
    """The labels of each row, sorted by name; an empty one is none."""
    found: list[list[tuple[str, str]]] = [[] for _ in range(batch.num_rows)]
    for column in sorted(columns):
        array = batch.column(column)
        if array.null_count == len(array):
            continue
        name = column[len(_LABEL) :]
        for own, value in zip(found, array.to_pylist(), strict=True):
            if value:
                own.append((name, value if isinstance(value, str) else bytes(value).decode("utf-8", "replace")))
    return [tuple(own) for own in found]


def _chunks_of(cell: bytes) -> list[tuple[int, int, int, bytes]] | None:
    """(encoding, first time, last time, chunk) of a cell; None where it is cut off."""
    found = []
    at = 0
    while at < len(cell):
        head: list[int] = []
        for _ in range(4):
            number = read_uvarint(cell, at)
            if number is None:
                return None
            head.append(number[0])
            at = number[1]
        encoding, first, last, size = head
        if size > len(cell) - at:
            return None
        found.append((encoding, _signed(first), _signed(last), cell[at : at + size]))
        at += size
    return found


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


# Written by pyarrow, uncompressed and without statistics: value 1, then a marker of staleness 15 seconds later.
_SAMPLE: Final = base64.b64decode(
    "UEFSMRUAFRgVGCwVAhUAFQYVBhwAAAACAAAAAgECAAAAdXAVABUyFTIsFQIVABUGFQYcAAAAAgAAAAIBDwAAADEwLjIwLjAuMTc6OTQwMBUA"
    "FWgVaCwVAhUAFQYVBhwAAAACAAAAAgEqAAAAAYCUlMrKM5iJlcrKMxwAAoCoqJSVZz/wAAAAAAAAmHXD9AAAAAAAAAAgFQQZTDUAGAZzY2hl"
    "bWEVBgAVDCUCGApsX19fbmFtZV9fJQBMHAAAABUMJQIYCmxfaW5zdGFuY2UlAEwcAAAAFQwlAhgIc19kYXRhXzAAFgIZHBk8JgAcFQwZJQYA"
    "GRgKbF9fX25hbWVfXxUAFgIWPhY+JghJHBUAFQAVAgA8FgQZBhkmAAIAAAAmABwVDBklBgAZGApsX2luc3RhbmNlFQAWAhZYFlgmRkkcFQAV"
    "ABUCADwWHhkGGSYAAgAAACYAHBUMGSUGABkYCHNfZGF0YV8wFQAWAhaOARaOASaeAUkcFQAVABUCADwWVBkGGSYAAgAAABakAhYCJggWpAIA"
    "KCBwYXJxdWV0LWNwcC1hcnJvdyB2ZXJzaW9uIDI1LjAuMRk8HAAAHAAAHAAAAC0BAABQQVIx"
)
_BEGAN: Final = 1772366400000000

FORMAT: Final = DocumentFormat(
    name="parquet_common",
    doc="Parquet files that Thanos and Cortex make of blocks of Prometheus (prometheus-community/parquet-common): give "
    "the folder in which N.labels.parquet and N.chunks.parquet stand together.",
    url="https://github.com/prometheus-community/parquet-common",
    tables=("series", "samples"),
    detects=detects,
    read=reader(read_metrics),
    read_metrics=read_metrics,
    binary=True,
    is_folder=True,
    samples=(
        Sample(
            _SAMPLE.decode("utf-8", "surrogateescape"),
            (
                expect("series", metric="up", labels={"instance": "10.20.0.17:9400"}),
                expect("samples", time=_BEGAN, value=1.0, stale=False),
                expect("samples", time=_BEGAN + 15_000_000, value=None, stale=True),
            ),
        ),
    ),
    non_samples=("s_data_0 l___name__\n", "l___name__,s_data_0\nup,\n"),
)
