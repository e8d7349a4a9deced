"""A table of samples: CSV or Parquet with a column for the time, one for the value, and labels in the others.

    __name__,Hostname,gpu,__value__,__timestamp__:unix_ms
    DCGM_FI_DEV_GPU_TEMP,gpu-a1,3,61,1772435289321

Such are exports of VictoriaMetrics (``/api/v1/export/csv``, with a header since 2026), ``Series;Time;Value`` of Grafana
where its times are numbers, and what scripts write. All columns but those of time and value are labels. Times are
numbers since 1970 (their size tells the unit), or have a zone; others are refused. Rows without a value are no samples.
A table with other names is read with a map:

    [[sources]]
    glob = "metrics/*.parquet"
    format = "samples_table"
    time_unit = "ms"                 # of times that are numbers; their size tells it as a rule
    [sources.columns]
    time = "ts"
    value = "reading"
    metric = "sensor"                # or, of one metric, below [sources.values]: metric = "gpu_temperature"
    labels = ["host", "gpu"]         # all other columns, if this is not said
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final, NamedTuple

import pyarrow as pa

from aftershock.parsers.column_map import SAMPLE_COLUMNS, ColumnMap
from aftershock.parsers.documents.parquet_records import PARQUET_MAGIC, parquet_batches
from aftershock.parsers.documents.stream_head import with_head
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.parsers.prometheus.columns import MetricsSource, SeriesBatch, Wanted
from aftershock.parsers.prometheus.gather import Gather
from aftershock.parsers.prometheus.line_blocks import EXCERPT, line_blocks
from aftershock.parsers.prometheus.rows import reader
from aftershock.parsers.prometheus.sample_columns import series_of_rows, times_of_column, values_of_column

_NAME: Final = "samples_table"
_NO_MAP: Final = ColumnMap()

_TIMES: Final = ("__timestamp__", "timestamp", "time", "ts", "datetime")
_VALUES: Final = ("__value__", "value")
_METRICS: Final = ("__name__", "metric", "metric_name", "series", "name")
_DELIMITERS: Final = ",;\t|"
_ROWS: Final = 1 << 16
_MOST_COLUMNS: Final = 500
_MOST_TOLD: Final = 100
_NO_HEADER: Final = (
    "no header with columns for time, value and metric: put one before the rows, or say below [sources.columns] which "
    "columns they are"
)


class _Places(NamedTuple):
    """Which columns of a table hold what. ``metric``: None where it is stated for all rows."""

    time: str
    value: str
    metric: str | None
    stated: str | None
    labels: tuple[str, ...]

    @property
    def all(self) -> list[str]:
        metric = () if self.metric is None else (self.metric,)
        return list(dict.fromkeys((self.time, self.value, *metric, *self.labels)))


def _places(names: Sequence[str], mapped: ColumnMap) -> _Places | None:
    """Where a table with these columns holds what; None if it is no table of samples."""
    told = dict(mapped.columns)
    stated = dict(mapped.values).get("metric")

    def place(column: str, known: Sequence[str]) -> str | None:
        for wanted in told.get(column, known):
            for name in names:
                if name == wanted or (column not in told and name.split(":")[0].strip().lower() == wanted):
                    return name
        return None

    time, value, metric = place("time", _TIMES), place("value", _VALUES), place("metric", _METRICS)
    if time is None or value is None or (metric is None and stated is None):
        return None
    own = {time, value, metric}
    labels = [name for name in told.get("labels", names) if name in names and name not in own and name]
    return _Places(time, value, metric, None if stated is None else str(stated), tuple(labels))


def detects(head: Head) -> float:
    """Sure of a header with a time, a value and the name of a metric. Of Parquet the head says nothing."""
    header = _header(head.data.split(b"\n", 1)[0])
    if header is None or _places(header[0], _NO_MAP) is None:
        return 0.0
    return 0.9 if any(name.startswith("__value__") for name in header[0]) else 0.65


def _header(line: bytes) -> tuple[list[str], str] | None:
    """The names in a line, and what stands between them."""
    text = line.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").rstrip("\r\n")
    delimiter = max(_DELIMITERS, key=text.count)
    if text.count(delimiter) not in range(1, _MOST_COLUMNS):
        return None
    try:
        rows = list(csv.reader([text], delimiter=delimiter, strict=True))
    except csv.Error:
        return None
    return ([name.strip() for name in rows[0]], delimiter) if len(rows) == 1 else None


def read_metrics(source: MetricsSource, wanted: Wanted) -> Iterator[SeriesBatch | Refused]:
    """The samples of a table with known names."""
    return read_metrics_mapped(source, wanted, _NO_MAP)


def read_metrics_mapped(source: MetricsSource, wanted: Wanted, mapped: ColumnMap) -> Iterator[SeriesBatch | Refused]:
    """The samples of a table with the names of a map."""
    gather = Gather(wanted)
    with source.open("") as stream:
        table = _Table(mapped)
        for batch in table.batches(stream):
            if isinstance(batch, Refused):
                yield batch
                continue
            yield from table.take(batch, gather)
            if gather.full and (full := gather.take()) is not None:
                yield full
    if (rest := gather.take()) is not None:
        yield rest


def read_mapped(stream: BinaryIO, column_map: ColumnMap) -> Iterator[Found | Refused]:
    """The rows of a table with the names of a map."""
    return reader(lambda source, wanted: read_metrics_mapped(source, wanted, column_map))(stream)


class _Table:
    """A table on its way from the stream to samples."""

    def __init__(self, mapped: ColumnMap) -> None:
        self._map = mapped
        self._places: _Places | None = None
        self._row = 0
        self._told = 0

    def batches(self, stream: BinaryIO) -> Iterator[pa.RecordBatch | Refused]:
        """The needed columns, some rows at a time."""
        head, stream = with_head(stream)
        if head.startswith(PARQUET_MAGIC):
            yield from parquet_batches(stream, self._chosen, _NAME, _ROWS)
            return
        yield from self._csv(stream)

    def _csv(self, stream: BinaryIO) -> Iterator[pa.RecordBatch | Refused]:
        """A table as CSV, block by block: a quoted cell does not go on over lines."""
        reader_of: _CsvBlocks | None = None
        for block in line_blocks(stream, _NAME):
            if isinstance(block, Refused):
                yield block
                continue
            offset, data = block
            if reader_of is None:
                line, _, data = data.partition(b"\n")
                header = _header(line)
                self._places = _places(header[0], self._map) if header is not None else None
                if header is None or self._places is None:
                    yield Refused(0, 0, f"{_NAME}: {_NO_HEADER}", line[:EXCERPT])
                    return
                reader_of = _CsvBlocks(*header, self._places.all)
                offset += len(line) + 1
            if data.strip():
                yield from reader_of.read(data, offset)
        if reader_of is not None:
            yield from reader_of.rest()

    def _chosen(self, names: Sequence[str]) -> Sequence[str] | None:
        self._places = _places(names, self._map)
        return None if self._places is None else self._places.all

    def take(self, batch: pa.RecordBatch, gather: Gather) -> Iterator[Refused]:
        """The samples of some rows. What is wrong is told once for each kind and batch."""
        places, begin = self._places, self._row
        assert places is not None
        self._row += batch.num_rows
        times, timed, wrong_time = times_of_column(
            batch.column(places.time), self._map.time_unit, self._map.time_format
        )
        values, there, wrong_value = values_of_column(batch.column(places.value))
        for what, problem, good in (("time", wrong_time, timed), ("value", wrong_value, there)):
            if problem is not None and self._told < _MOST_TOLD:
                self._told += 1
                number = int((~good).sum())
                first = begin + int(good.argmin())
                text = f"{_NAME}: {what} is not read in some of {number} rows from row {first} on: {problem}"
                yield Refused(first, 0, text)
        names = [name for name in places.all if name not in (places.time, places.value)]
        rows = (timed & there).nonzero()[0]
        columns = {name: batch.column(name) for name in names}
        for labels, own in series_of_rows(columns, places.metric, places.stated, rows):
            if labels:
                gather.add(labels, times[own], values[own])
            else:
                yield Refused(begin + int(own[0]), 0, f"{_NAME}: {len(own)} rows without a series")


class _CsvBlocks:
    """Reads blocks of rows below a header. Rows that do not fit it are told one by one up to a number."""

    def __init__(self, names: Sequence[str], delimiter: str, chosen: Sequence[str]) -> None:
        # Names that stand twice cannot be chosen by their name: all but the first get one of their own.
        self._names = [name if name not in names[:at] else f"\x00{at}" for at, name in enumerate(names)]
        self._chosen = list(chosen)
        self._delimiter = delimiter
        self._misfits = 0

    def read(self, data: bytes, offset: int) -> Iterator[pa.RecordBatch | Refused]:
        """The rows of a block that begins at this offset."""
        import pyarrow.csv as csv_of  # noqa: PLC0415 - few inputs are such tables

        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            data = data.decode("utf-8", "replace").encode("utf-8")
        misfits: list[tuple[int, bytes]] = []

        def misfit(row: Any) -> str:
            self._misfits += 1
            if self._misfits <= _MOST_TOLD:
                misfits.append((len(row.text), row.text[:EXCERPT].encode("utf-8", "replace")))
            return "skip"

        try:
            table = csv_of.read_csv(
                pa.py_buffer(data),
                read_options=csv_of.ReadOptions(block_size=len(data) + 1, column_names=self._names, use_threads=False),
                parse_options=csv_of.ParseOptions(delimiter=self._delimiter, invalid_row_handler=misfit),
                convert_options=csv_of.ConvertOptions(
                    column_types=dict.fromkeys(self._chosen, pa.string()), include_columns=self._chosen
                ),
            )
        except (pa.ArrowException, OSError, ValueError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            yield Refused(offset, len(data), f"{_NAME}: a part that is not read: {first[:200]}", data[:EXCERPT])
            return
        yield from table.to_batches()
        for length, text in misfits:
            yield Refused(offset, length, f"{_NAME}: cells do not fit the header", text)

    def rest(self) -> Iterator[Refused]:
        """How many rows were not told."""
        if self._misfits > _MOST_TOLD:
            more = self._misfits - _MOST_TOLD
            yield Refused(0, 0, f"{_NAME}: {more} more rows whose cells do not fit the header")


FORMAT: Final = DocumentFormat(
    name=_NAME,
    doc="Samples as a table, CSV or Parquet: exports of VictoriaMetrics as CSV, and what a site wrote itself. Columns "
    "for time, value and metric are known by usual names, all others are labels; other names are told in the "
    'configuration, below a `[[sources]]` with `format = "samples_table"`: `[sources.columns]` '
    f"({', '.join(SAMPLE_COLUMNS)} = theirs), `[sources.values]`, `time_unit`, `time_format`. Parquet is read only "
    "where the format is stated.",
    url="https://docs.victoriametrics.com/victoriametrics/#how-to-export-csv-data",
    tables=("series", "samples"),
    detects=detects,
    read=reader(read_metrics),
    read_metrics=read_metrics,
    read_mapped=read_mapped,
    read_metrics_mapped=read_metrics_mapped,
    magics=(PARQUET_MAGIC,),
    samples=(
        Sample(
            "__name__,Hostname,gpu,__value__,__timestamp__:unix_ms\n"
            "DCGM_FI_DEV_GPU_TEMP,gpu-a1,3,61,1772435289321\nup,gpu-a1,,+Inf,1772435289321\n"
            "DCGM_FI_DEV_GPU_TEMP,gpu-a1,3,NaN,1772435304321\n",
            (
                expect("series", metric="DCGM_FI_DEV_GPU_TEMP", labels={"Hostname": "gpu-a1", "gpu": "3"}),
                expect("samples", time=1772435289321000, value=61.0, stale=False),
                expect("samples", time=1772435304321000),
                expect("series", metric="up", labels={"Hostname": "gpu-a1"}),
                expect("samples", value=float("inf")),
            ),
            title="VictoriaMetrics, CSV",
        ),
        Sample(
            '"Series";"Time";"Value"\n"up{job=""node""}";1772435289321;1\nload1;2026-03-02T07:08:09.5Z;\n'
            "load1;2026-03-02T07:08:09.5+01:00;0.5\n",
            (
                expect("series", metric="up", labels={"job": "node"}),
                expect("samples", time=1772435289321000, value=1.0),
                expect("series", metric="load1", labels={}),
                expect("samples", time=1772431689500000, value=0.5),
            ),
            title="Grafana, CSV with times that are numbers",
        ),
    ),
    non_samples=(
        "DCGM_FI_DEV_GPU_TEMP,gpu-a1,3,61,1772435289321\n",
        "time,value\n1772435289321,61\n",
        "metric,time,value\nup,2026-03-02 07:08:09,1\n",
        "metric,time,value\nup,1772435289321,high\n",
    ),
)
