"""The rows of a Parquet or Arrow file, in batches. It is laid down in an unnamed file first: it is read from its end.

Only the columns that are asked for are read. Texts stay as codes of a dictionary until a row is made, so that a file
whose one long text stands in a million rows does not become a million long texts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, BinaryIO, Final

import pyarrow as pa

from aftershock.parsers.documents.cell_values import ArrowTime
from aftershock.parsers.formats import Refused

PARQUET_MAGIC: Final = b"PAR1"
ARROW_MAGIC: Final = b"ARROW1\0\0"

# A table of jobs has some hundred bytes a row: this is room for tens of millions of them.
MAX_FILE: Final = 4 << 30
# A row group or batch that claims more than this is no table of jobs, or wants our memory.
MAX_GROUP: Final = 1 << 30
_BATCH_ROWS: Final = 1024
_PIECE: Final = 1 << 20

# What pyarrow raises for files that are damaged, or made to look like files.
_DAMAGE: Final = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError)

Choose = Callable[[Sequence[str]], Sequence[str] | None]
"""Which of the columns of a file are read; None: it is no file of this kind."""


def parquet_rows(stream: BinaryIO, choose: Choose, tool: str) -> Iterator[tuple[int, dict[str, Any]] | Refused]:
    """(number of the row from 0, its values by the names of the columns). Times become :class:`ArrowTime`."""
    with tempfile.TemporaryFile() as file:
        size = _lay_down(stream, file)
        if size > MAX_FILE:
            yield Refused(0, 0, f"{tool}: a file of more than {MAX_FILE} bytes")
            return
        number = 0
        try:
            for batch in _batches(file, choose):
                columns = {name: _plain(batch.column(name)) for name in batch.schema.names}
                for i in range(batch.num_rows):
                    yield number, {name: _value(column, i) for name, column in columns.items()}
                    number += 1
        except _Unfit as error:
            yield Refused(number, 0, f"{tool}: {error}")
        except _DAMAGE as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            yield Refused(number, 0, f"{tool}: damaged file, or not of this kind: {first[:200]}")


class _Unfit(Exception):
    """A sound file that is not read; the message says why."""


def _lay_down(stream: BinaryIO, file: IO[bytes]) -> int:
    size = 0
    while size <= MAX_FILE and (piece := stream.read(_PIECE)):
        file.write(piece)
        size += len(piece)
    file.flush()
    file.seek(0)
    return size


def _batches(file: IO[bytes], choose: Choose) -> Iterator[pa.RecordBatch]:
    if file.read(len(ARROW_MAGIC)) == ARROW_MAGIC:
        yield from _arrow_batches(file, choose)
        return
    import pyarrow.parquet as pq  # noqa: PLC0415 - large, and few inputs are Parquet

    file.seek(0)
    schema = pq.read_schema(file)
    chosen = _chosen(schema, choose)
    texts = [name for name in chosen if pa.types.is_string(schema.field(name).type)]
    parquet = pq.ParquetFile(file, read_dictionary=texts, pre_buffer=False)
    groups = parquet.metadata
    if any(groups.row_group(i).total_byte_size > MAX_GROUP for i in range(groups.num_row_groups)):
        raise _Unfit(f"a row group of more than {MAX_GROUP} bytes: write the file with smaller ones")
    yield from parquet.iter_batches(batch_size=_BATCH_ROWS, columns=chosen)


def _arrow_batches(file: IO[bytes], choose: Choose) -> Iterator[pa.RecordBatch]:
    file.seek(0)
    reader = pa.ipc.open_file(file)
    chosen = _chosen(reader.schema, choose)
    for i in range(reader.num_record_batches):
        batch = reader.get_batch(i).select(chosen)
        batch.validate(full=True)
        for at in range(0, batch.num_rows, _BATCH_ROWS):
            yield batch.slice(at, _BATCH_ROWS)


def _chosen(schema: pa.Schema, choose: Choose) -> list[str]:
    chosen = choose(schema.names)
    if chosen is None:
        raise _Unfit("its columns are not those of such a table; a map of columns says which they are")
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


def _value(column: pa.Array, i: int) -> Any:
    scalar = column[i]
    if not scalar.is_valid:
        return None
    if pa.types.is_timestamp(column.type):
        return ArrowTime(scalar.value, column.type.tz is not None)
    if pa.types.is_duration(column.type):
        return scalar.cast(pa.duration("us"), safe=False).value / 1_000_000
    if pa.types.is_decimal(column.type):
        return float(scalar.as_py())
    return scalar.as_py()
