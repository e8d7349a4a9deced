"""What a format is: how it is recognised, what it looks for, how a record becomes rows, and the samples that prove it.

One file in this package holds one format and names it ``FORMAT``; :mod:`aftershock.parsers.registry` finds it. There
are two kinds. A :class:`LineFormat` reads single lines that a multi-pattern scan has found by their signature, whatever
envelope they stand in. A :class:`DocumentFormat` reads a whole stream in order: JSON documents, tables with a header.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import pyarrow as pa

from aftershock.parsers.clock import NO_CLOCK, Reading
from aftershock.parsers.column_map import ColumnMap
from aftershock.schemas.columns import Row

if TYPE_CHECKING:
    from aftershock.parsers.prometheus.columns import MetricsSource, SeriesBatch, Wanted


class Envelope(NamedTuple):
    """What stands around a message: who wrote it, when, through which layers.

    names: the layers, outermost first, for example ``("rfc3164", "dmesg")``; ``("plain",)`` if there is none.
    message: the text inside, without colours and line end.
    host: as printed; tag: the program that wrote it (``kernel``, ``slurmctld``), without its pid.
    facility, level: the syslog numbers where they are printed (facility 0 is the kernel, 1 is user space).
    labels: what else an outer layer says about the writer.
    """

    names: tuple[str, ...]
    message: bytes
    reading: Reading = NO_CLOCK
    host: str | None = None
    tag: str | None = None
    facility: int | None = None
    level: int | None = None
    labels: Mapping[str, str] | None = None


class Line(NamedTuple):
    """One line that a signature was found in.

    offset: of its first byte in the decompressed file.
    text: the whole line without its end.
    following: the bytes after it, at most LOOKAHEAD of them, for records that go on over several lines.
    """

    offset: int
    text: bytes
    envelope: Envelope
    following: bytes = b""


LOOKAHEAD = 8192


@dataclass(slots=True)
class Found:
    """A row as its text gives it: its times are not resolved yet.

    reading: the clock of the record. In rows that are no events (sessions), every time column holds the printed wall
        clock, and ``reading.kind`` says of which kind they all are.
    mark: a word with which a format tells its own ``settle`` what the record is (empty for most).
    last: the clock of the last occurrence, where equal records were folded into this one (``row.count`` says how many).
    until: where the last of them stands, None where nothing was folded.
    format: name of the format that found it (filled by the reader; a document fills it for formats inside it).
    """

    row: Row
    reading: Reading
    offset: int
    mark: str = ""
    last: Reading | None = None
    format: str = ""
    until: int | None = None


@dataclass(frozen=True, slots=True)
class FoundColumns:
    """Many rows of one table at once: the columns of the table, and of each row what :class:`Found` holds beside it.

    columns: by name; a column that is not given is null. The offset stands under ``@offset``, the clock under
        ``@kind``, ``@wall``, ``@resolution``, as printed under ``@text``. Credentials are masked.
    """

    table: str
    count: int
    columns: Mapping[str, pa.Array]


class FoundLines(NamedTuple):
    """Whole lines of a block that were read together. Nothing else is to be found in them.

    spans: the runs of bytes that were read, in order: each begins with the first byte of a line and ends behind the
        last byte of one, its line end not counted.
    examples: where it is not known beforehand what the records are, one for each of those that they are like: other
        formats must find nothing in them.
    """

    rows: FoundColumns
    spans: list[tuple[int, int]]
    examples: tuple[bytes, ...] = ()


class Refused(NamedTuple):
    """Something that looked like a record and could not be read."""

    offset: int
    length: int
    reason: str
    excerpt: bytes = b""


class Mark(NamedTuple):
    """The clock and envelope of a line on the way through the file: an anchor for years, boots, first and last time.

    With the envelope ``SECTION`` it says that another text begins here, with clocks of its own: a file within a file.
    """

    offset: int
    reading: Reading
    envelope: str


SECTION = "section"


@dataclass(frozen=True)
class Head:
    """The beginning of a file, by which its format is recognised: base name and first kilobytes, decompressed."""

    name: str
    data: bytes

    def lines(self, most: int = 40) -> list[bytes]:
        """The first whole lines that are not empty (the last, maybe cut, one is left out unless it is the only one)."""
        return self._lines[:most]

    @cached_property
    def _lines(self) -> list[bytes]:
        # Every format asks for them.
        rows = self.data.split(b"\n")
        whole = rows[:-1] if len(rows) > 1 else rows
        return [row.rstrip(b"\r") for row in whole if row.strip()]


class Expect(NamedTuple):
    """A row that a sample must give: its table and the fields that matter."""

    table: str
    fields: Mapping[str, Any]


def expect(table: str, **fields: Any) -> Expect:
    """``expect("gpu_errors", code=79, pci="0000:3b:00.0")``."""
    return Expect(table, fields)


@dataclass(frozen=True)
class Sample:
    """A text in the true format and all rows that it gives, in order (fields that are not named are free).

    title, url: what this shape of the format is and where it is documented, where the format has several; samples of
    one title stand together in the documentation.
    name: of the file, for formats that read it.
    """

    text: str
    rows: tuple[Expect, ...]
    title: str = ""
    url: str = ""
    name: str = ""


def nothing_settled(found: list[Found]) -> list[Found]:
    """The settle step of a format whose lines stand alone."""
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class LineFormat:
    """A format whose records are found line by line.

    doc: what it is, in a sentence or two; url: where the format is documented.
    detects: how sure the head of a file is of this format, 0 to 1.
    signatures: byte patterns (Hyperscan syntax, no captures) of which one stands in every record.
    read: the rows of one line; nothing where the line only looked like a record from afar; ``Refused`` where it is one
        but cannot be read.
    settle: takes all rows of this format in one source in the order of their offsets, and gives them back with joined
        lines joined (twin lines, requeues told over several lines). Times are not resolved yet: nearness is told by
        ``clock.micros_between``, so that the answer does not hang on a zone.
    everywhere: whether its records are looked for in every log; else not in a system's own logs, where words such as
        error and step mean other things.
    aliases: formats among whose lines its own stand: a file that is forced to one of those is read for these too.
    read_lines: many lines at once, where they are of known shape: the same rows as ``read`` would give. It takes bytes,
        the place of the first line in them and that behind the line end of the last one, and the offset of the bytes.
    """

    name: str
    doc: str
    url: str
    tables: tuple[str, ...]
    detects: Callable[[Head], float]
    signatures: tuple[bytes, ...]
    read: Callable[[Line], Iterable[Found | Refused]]
    samples: tuple[Sample, ...]
    non_samples: tuple[str, ...]
    settle: Callable[[list[Found]], list[Found]] = nothing_settled
    everywhere: bool = True
    aliases: tuple[str, ...] = ()
    read_lines: Callable[[bytes | bytearray, int, int, int], FoundLines | None] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class DocumentFormat:
    """A format that is read as one stream, in order.

    read: rows of the whole stream; it must stream, and must not keep more than one record (or one JSON element) at a
        time where the format allows that. Rows that another format found in a text inside keep the name of that format
        in ``Found.format``; marks tell the clocks on the way.
    aliases: fixed names in the configuration that this format answers to as well.
    holds_files: it only cuts a text into files within a file, which are recognised each for itself.
    read_mapped: the same as ``read`` for a table whose columns have the names that a map tells.
    magics: first bytes of the binary files that it reads. binary: it reads binary files without such bytes; ``detects``
        tells them.
    read_named: the same as ``read``, for a format of which part of the record is the name of its file (the path as
        given): a rank, a metric.
    read_columns: the same as ``read``, with many rows at once where it can; used where speed counts.
    read_metrics: samples of metrics by columns: see ``prometheus.columns``. The main job asks it for the times that
        events need, after it knows the events; ``read`` is for ``aftershock parse``.
    read_metrics_mapped: the same for a table whose columns have the names that a map tells.
    is_folder: its input is a folder of files, recognised by what stands in it (``prometheus.folders``).
    """

    name: str
    doc: str
    url: str
    tables: tuple[str, ...]
    detects: Callable[[Head], float]
    read: Callable[[BinaryIO], Iterator[Found | Refused | Mark]]
    samples: tuple[Sample, ...]
    non_samples: tuple[str, ...]
    settle: Callable[[list[Found]], list[Found]] = nothing_settled
    aliases: tuple[str, ...] = field(default=())
    holds_files: bool = False
    read_mapped: Callable[[BinaryIO, ColumnMap], Iterator[Found | Refused | Mark]] | None = None
    magics: tuple[bytes, ...] = ()
    binary: bool = False
    read_named: Callable[[BinaryIO, str], Iterator[Found | Refused | Mark]] | None = None
    read_columns: Callable[[BinaryIO], Iterator[Found | FoundColumns | Refused | Mark]] | None = None
    read_metrics: Callable[[MetricsSource, Wanted], Iterator[SeriesBatch | Refused]] | None = None
    read_metrics_mapped: Callable[[MetricsSource, Wanted, ColumnMap], Iterator[SeriesBatch | Refused]] | None = None
    is_folder: bool = False

    def mapped(self, column_map: ColumnMap | None) -> DocumentFormat:
        """This format for the tables that a map describes; itself if there is no map, or none for it."""
        if column_map is None or self.read_mapped is None:
            return self
        read_mapped, read_metrics_mapped = self.read_mapped, self.read_metrics_mapped
        mapped = replace(self, read=lambda stream: read_mapped(stream, column_map), read_columns=None)
        if read_metrics_mapped is None:
            return mapped
        return replace(mapped, read_metrics=lambda source, wanted: read_metrics_mapped(source, wanted, column_map))

    def of_file(self, source: str) -> DocumentFormat:
        """This format for the file of that name; itself if the name tells it nothing."""
        if self.read_named is None:
            return self
        read_named = self.read_named
        return replace(self, read=lambda stream: read_named(stream, source), read_columns=None)


Format = LineFormat | DocumentFormat
