"""What a file is, told by its first kilobytes: a document, lines, or something that is not read."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from aftershock.parsers.column_map import ColumnMap
from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.formats import DocumentFormat, Head, LineFormat
from aftershock.parsers.registry import (
    OF_JOBS,
    document_formats,
    format_named,
    formats_named,
    line_formats,
    system_formats,
)

HEAD_BYTES: Final = 64 << 10

# Names for files of which no format is sure: a system's own log, and lines in envelopes that anything may have written.
LOG, RECORDS = "log", "records"

# Below this a document format only guesses, and the file is read as lines.
SURE: Final = 0.5

# Containers that hold files: named, so that the person knows what to do.
_ARCHIVES: Final = (
    (0, b"PK\x03\x04", "a zip archive"),
    (257, b"ustar", "a tar archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
)
# Names of source code and of documentation: what stands in them are examples, tests and quotations of records.
_SOURCE: Final = re.compile(
    r".+\.(?:c|cc|cpp|cxx|h|hh|hpp|cu|cuh|go|rs|java|kt|scala|swift|py|pyi|ipynb|rb|js|jsx|tsx|vue|css|md|mdx|rst|adoc|tex"
    r"|[sx]?html?|proto|tf)(?:\.(?:gz|bz2|xz|zst))?",
    re.IGNORECASE,
)
_NUL_RUN: Final = re.compile(rb"\0{16,}")
# Bytes that no text holds, NUL apart.
_CONTROLS: Final = bytes({*range(1, 32)} - {7, 8, 9, 10, 11, 12, 13, 27})
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")


class Detected(NamedTuple):
    """How to read a file.

    how: ``lines`` (may be split), ``document`` (one stream) or ``refused``.
    format: the name it was recognised as; None for lines that no format or envelope vouches for.
    document: the format of a document; formats: the line formats whose signatures are looked for.
    reason: why it is refused.
    """

    how: Literal["lines", "document", "refused"]
    format: str | None = None
    document: DocumentFormat | None = None
    formats: tuple[LineFormat, ...] = ()
    reason: str | None = None

    def mapped(self, column_map: ColumnMap | None) -> Detected:
        """The same for a table that a map describes."""
        return self._replace(document=self.document.mapped(column_map)) if self.document else self

    def of_file(self, source: str) -> Detected:
        """The same for a file of that name."""
        return self._replace(document=self.document.of_file(source)) if self.document else self


def detect(head: Head, forced: str | None = None) -> Detected:
    """Recognise a file by its head; ``forced`` is a format name that the user stated."""
    if not head.data:
        return Detected("refused", reason="empty file")
    refusal = _not_text(head.data)
    if refusal:
        return _binary(head, forced) or Detected("refused", forced, reason=refusal)
    if forced:
        return _forced(head, forced)
    if _is_plain_log(head):
        return Detected("lines", _best(head, system_formats()) or LOG, formats=system_formats())
    # Logs may be named by hosts, of which some are in domains of such names: they begin like logs.
    if _SOURCE.fullmatch(head.name):
        return Detected("refused", reason="source code or documentation, by its name: state the format to read it")
    scored = sorted(((fmt.detects(head), fmt.name, fmt) for fmt in document_formats()), reverse=True, key=_score)
    if scored and scored[0][0] >= SURE:
        return Detected("document", scored[0][1], document=scored[0][2])
    name = _best(head, line_formats()) or _in_envelopes(head)
    return Detected("lines", name, formats=_formats_beside(name))


def _formats_beside(name: str | None) -> tuple[LineFormat, ...]:
    """The formats that are looked for in a file of this format. In what nobody vouches for anything may stand."""
    return line_formats() if name in (None, RECORDS, *OF_JOBS) else system_formats()


# Envelopes that no document begins with: a file whose first lines all stand in them is a log.
_LOG_ENVELOPES: Final = frozenset({"rfc3164", "rfc5424", "slurm"})
# The output of a job as Slurm names it. Since 25.05 slurmstepd writes into it with the stamp of its own log.
_JOB_OUTPUT: Final = re.compile(r"slurm-\d+(?:_\d+)?\.(?:out|err)")


def _is_plain_log(head: Head) -> bool:
    if _JOB_OUTPUT.fullmatch(head.name):
        return False
    found = [unwrap(line) for line in head.lines(5)]
    # Some print the time of syslog before lines of any program (ts of moreutils); a log also says who wrote them.
    stamped = sum(envelope.names == ("rfc3164",) and envelope.host is envelope.tag is None for envelope in found)
    return 2 * stamped <= len(found) > 0 and all(envelope.names[0] in _LOG_ENVELOPES for envelope in found)


def rebuild(how: str, name: str | None, *, forced: bool) -> Detected:
    """What :func:`detect` said, from its names (formats themselves do not travel between workers)."""
    if how == "document":
        found = format_named(name or "")
        assert isinstance(found, DocumentFormat)
        return Detected("document", name, document=found)
    named = (f for f in line_formats() if name == f.name or name in f.aliases)
    formats = tuple(named) if forced else _formats_beside(name)
    return Detected("lines", name, formats=formats)


def _binary(head: Head, forced: str | None) -> Detected | None:
    """The document that begins with these bytes, if it is one that is no text."""
    named = formats_named(forced) if forced else document_formats()
    known = (fmt for fmt in named if isinstance(fmt, DocumentFormat) and _reads_binary(fmt, head, forced))
    best = max(known, key=lambda fmt: (fmt.detects(head), fmt.name), default=None)
    return Detected("document", best.name, document=best) if best else None


def _reads_binary(fmt: DocumentFormat, head: Head, forced: str | None) -> bool:
    return head.data.startswith(fmt.magics) or (fmt.binary and (forced is not None or fmt.detects(head) >= SURE))


def _score(entry: tuple[float, str, object]) -> tuple[float, str]:
    return entry[0], entry[1]


def _forced(head: Head, name: str) -> Detected:
    named = formats_named(name)
    documents = [fmt for fmt in named if isinstance(fmt, DocumentFormat)]
    if documents:
        best = max(documents, key=lambda fmt: fmt.detects(head))
        return Detected("document", best.name, document=best)
    lines = tuple(fmt for fmt in named if isinstance(fmt, LineFormat))
    return Detected("lines", name, formats=lines)


def _best(head: Head, formats: tuple[LineFormat, ...]) -> str | None:
    """The format that is surest of a head."""
    surest = max(((fmt.detects(head), fmt.name) for fmt in formats), default=(0.0, ""))
    return surest[1] if surest[0] > 0 else None


def _in_envelopes(head: Head) -> str | None:
    return RECORDS if any(unwrap(line).names != ("plain",) for line in head.lines(8)) else None


def _not_text(data: bytes) -> str | None:
    for at, magic, name in _ARCHIVES:
        if data[at : at + len(magic)] == magic:
            return f"{name}: unpack it and give the files inside"
    if data.startswith(_UTF16):
        return "UTF-16 text: convert it to UTF-8"
    # A log that lived through a crash, or was cut off under its writer, holds runs of NUL bytes: they are no sign.
    zeros = data.count(0)
    if zeros:
        data = _NUL_RUN.sub(b"", data)
        if not data:
            return "nothing but NUL bytes"
        zeros = data.count(0)
    controls = len(data) - len(data.translate(None, _CONTROLS))
    if zeros > 0.3 * len(data) or controls > 0.05 * len(data) or (zeros > 0 and b"\n" not in data):
        return "binary data, of no format that is known here"
    return None
