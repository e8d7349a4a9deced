"""The rows of a Parquet file, in batches. It is laid down in an unnamed file first, for it is read from its end.

Only the columns that are asked for are read. Texts stay as codes of a dictionary until a row is made, so that a file
whose one long text stands in a million rows does not become a million long texts. What the file claims of itself is
looked at before anything of it is read.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, BinaryIO, Final

import pyarrow as pa

from aftershock.parsers.documents.cell_values import ArrowTime
from aftershock.parsers.formats import Refused

PARQUET_MAGIC: Final = b"PAR1"

# A table of jobs has some hundred bytes a row: this is room for tens of millions of them.
MAX_FILE: Final = 4 << 30
# Columns of a row group that claim more than this are no table of jobs, or want our memory.
MAX_GROUP: Final = 512 << 20
# A cell that is larger makes its row a refusal.
MAX_CELL: Final = 1 << 20
# Rows that a file of any size may have; beyond them there have to be bytes for them.
FREE_ROWS: Final = 1_000_000
_BATCH_ROWS: Final = 1024
_PIECE: Final = 1 << 20


class Unfit(Exception):
    """A sound file that is not read; the message says why."""


# What pyarrow raises for files that are damaged, or made to look like files.
DAMAGE: Final = (
    Unfit,
    pa.ArrowException,
    OSError,
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    OverflowError,
    MemoryError,
    StopIteration,
    struct.error,
)

Choose = Callable[[Sequence[str]], Sequence[str] | None]
"""Which of the columns of a file are read; None: it is no file of this kind."""


def parquet_rows(stream: BinaryIO, choose: Choose, tool: str) -> Iterator[tuple[int, dict[str, Any]] | Refused]:
    """(number of the row from 0, its values by the names of the columns). Times become :class:`ArrowTime`."""
    with tempfile.TemporaryFile() as file:
        size = lay_down(stream, file)
        if size > MAX_FILE:
            yield Refused(0, 0, f"{tool}: a file of more than {MAX_FILE} bytes")
            return
        yield from typed_rows(_batches(file, size, choose), tool)


def parquet_batches(stream: BinaryIO, choose: Choose, tool: str, rows: int) -> Iterator[pa.RecordBatch | Refused]:
    """The chosen columns as they are, that many rows at a time."""
    with tempfile.TemporaryFile() as file:
        size = lay_down(stream, file)
        if size > MAX_FILE:
            yield Refused(0, 0, f"{tool}: a file of more than {MAX_FILE} bytes")
            return
        number = 0
        try:
            for batch in _batches(file, size, choose, rows):
                yield batch
                number += batch.num_rows
        except DAMAGE as error:
            yield damage(error, number, tool)


def typed_rows(batches: Iterator[pa.RecordBatch], tool: str) -> Iterator[tuple[int, dict[str, Any]] | Refused]:
    """The rows of batches; what they are read from may be damaged."""
    number = 0
    try:
        for batch in batches:
            columns = {name: _plain(batch.column(name)) for name in batch.schema.names}
            for i in range(batch.num_rows):
                row = {name: _value(column, i) for name, column in columns.items()}
                large = next((name for name, value in row.items() if value is _TOO_LARGE), None)
                if large is None:
                    yield number, row
                else:
                    yield Refused(number, 0, f"{tool}: {large} has a cell of more than {MAX_CELL} bytes")
                number += 1
    except DAMAGE as error:
        yield damage(error, number, tool)


def damage(error: BaseException, number: int, tool: str) -> Refused:
    """Why the rows from a number on are not there."""
    if isinstance(error, Unfit):
        return Refused(number, 0, f"{tool}: {error}")
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return Refused(number, 0, f"{tool}: damaged file, or not of this kind: {first[:200]}")


def lay_down(stream: BinaryIO, file: IO[bytes]) -> int:
    """Write a stream to a file, unless it is too large; how many bytes it has."""
    size = 0
    while size <= MAX_FILE and (piece := stream.read(_PIECE)):
        file.write(piece)
        size += len(piece)
    file.flush()
    file.seek(0)
    return size


def _batches(file: IO[bytes], size: int, choose: Choose, rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - large, and few inputs are Parquet

    schema = pq.read_schema(file)
    chosen = chosen_columns(schema, choose)
    texts = [name for name in chosen if pa.types.is_string(schema.field(name).type)]
    parquet = pq.ParquetFile(file, read_dictionary=texts, pre_buffer=False)
    told = parquet.metadata
    if told.num_rows > max(FREE_ROWS, size):
        raise Unfit(f"{told.num_rows} rows in {size} bytes: looks like a bomb")
    if any(_group_bytes(told.row_group(i), chosen) > MAX_GROUP for i in range(told.num_row_groups)):
        raise Unfit(f"a row group of more than {MAX_GROUP} bytes: write the file with smaller ones")
    yield from parquet.iter_batches(batch_size=rows, columns=chosen)


def _group_bytes(group: Any, chosen: Sequence[str]) -> int:
    """What a row group says that the chosen columns take in memory."""
    columns = (group.column(i) for i in range(group.num_columns))
    return sum(column.total_uncompressed_size for column in columns if column.path_in_schema.split(".")[0] in chosen)


def chosen_columns(schema: pa.Schema, choose: Choose) -> list[str]:
    """The columns that are read."""
    chosen = choose(schema.names)
    if chosen is None:
        raise Unfit("its columns are not those of such a table; a map of columns says which they are")
    # A name that stands twice cannot be chosen by its name.
    return [name for name in chosen if schema.names.count(name) == 1]


def _plain(column: pa.Array) -> pa.Array:
    """Times as whole microseconds; other types as they are."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz), safe=False)
    if pa.types.is_date(kind):
        return column.cast(pa.timestamp("us"), safe=False)
    return column


_TOO_LARGE: Final = object()


def _value(column: pa.Array, i: int) -> Any:
    scalar = column[i]
    if not scalar.is_valid:
        return None
    if _size(scalar) > MAX_CELL:
        return _TOO_LARGE
    if pa.types.is_timestamp(column.type):
        return ArrowTime(scalar.value, column.type.tz is not None)
    if pa.types.is_duration(column.type):
        return scalar.cast(pa.duration("us"), safe=False).value / 1_000_000
    if pa.types.is_decimal(column.type):
        return float(scalar.as_py())
    return scalar.as_py()


def _size(scalar: pa.Scalar) -> int:
    """About how many bytes a value takes."""
    if isinstance(scalar, pa.DictionaryScalar):
        scalar = scalar.value
    if isinstance(scalar, (pa.StringScalar, pa.LargeStringScalar, pa.BinaryScalar)):
        return scalar.as_buffer().size if scalar.is_valid else 0
    return scalar.values.nbytes if isinstance(scalar, pa.ListScalar) else 0
