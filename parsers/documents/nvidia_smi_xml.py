"""nvidia-smi -q -x: the report as XML, read as a stream and without trust.

    <?xml version="1.0" ?>
    <!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
    <nvidia_smi_log>
        <timestamp>Tue Nov 12 09:48:31 2024</timestamp>
        <driver_version>550.90.07</driver_version>
        <gpu id="00000000:3B:00.0"> ... </gpu>
    </nvidia_smi_log>

The document type is named and never loaded; a document that brings definitions or entities of its own is refused.
A file may hold one document after the other (``-l``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from xml.parsers import expat

from aftershock.parsers.documents.nvidia_smi_checks import MOST_GPUS, WANTED, GpuReport, Report, smi_clock
from aftershock.parsers.formats import Found, Refused

ROOT: Final = "nvidia_smi_log"
_START: Final = b"<?xml"
# The deepest field of a true report stands at 7.
_DEEPEST: Final = 32
_LONGEST_VALUE: Final = 4096


class _NotOurs(Exception):
    """A document that nvidia-smi does not write."""


def read_xml(chunks: Iterable[bytes]) -> Iterator[Found | Refused]:
    """The rows of all documents of a stream."""
    document: _Document | None = None
    offset = 0
    held = b""
    for chunk in chunks:
        held += chunk
        while True:
            # The next document ends the one before; its first bytes may be cut by the end of the chunk.
            at = held.find(_START)
            if at < 0:
                break
            if document is not None:
                document.feed(held[:at])
                yield from document.rows()
            held, offset = held[at:], offset + at
            document = _Document(offset)
            document.feed(held[: len(_START)])
            held, offset = held[len(_START) :], offset + len(_START)
        if document is None:
            begin = held.find(b"<")
            if begin < 0 or len(held) - begin < len(_START):
                held, offset = (held[begin:], offset + begin) if begin >= 0 else (b"", offset + len(held))
                continue
            held, offset = held[begin:], offset + begin
            document = _Document(offset)
        safe = max(0, len(held) - len(_START) + 1)
        document.feed(held[:safe])
        held, offset = held[safe:], offset + safe
    if document is not None:
        document.feed(held)
        yield from document.rows()


class _Document:
    """One document while it is read."""

    def __init__(self, offset: int) -> None:
        self._begin = offset
        self._report = Report(offset)
        self._gpu: GpuReport | None = None
        self._path: list[str] = []
        self._text: list[str] | None = None
        self._size = 0
        self._flaw: str | None = None
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EntityDeclHandler = self._entity
        parser.StartElementHandler = self._open
        parser.EndElementHandler = self._close
        parser.CharacterDataHandler = self._characters
        self._parser = parser

    def feed(self, data: bytes) -> None:
        """Take in the next bytes; nothing more is taken once the document is found wanting."""
        if self._flaw is not None or not data:
            return
        try:
            self._parser.Parse(data, False)
        except _NotOurs as error:
            self._flaw = str(error)
        except (expat.ExpatError, ValueError, LookupError) as error:
            self._flaw = f"not well-formed XML: {error}"

    def rows(self) -> Iterator[Found | Refused]:
        """What the document said, and what is wrong with it."""
        if self._flaw is None:
            try:
                self._parser.Parse(b"", True)
            except (expat.ExpatError, ValueError, LookupError):
                self._flaw = "document ends early"
        yield from self._report.rows()
        if self._flaw is not None:
            yield Refused(self._begin, 0, f"nvidia_smi_q: {self._flaw}")
        self._parser = expat.ParserCreate()  # the handlers hold on to this object

    def _doctype(self, name: str, system: str | None, public: str | None, has_subset: bool) -> None:
        if name != ROOT or has_subset:
            raise _NotOurs("a document type that nvidia-smi does not write")

    def _entity(self, *_: object) -> None:
        raise _NotOurs("an entity of its own")

    def _offset(self) -> int:
        return self._begin + max(0, self._parser.CurrentByteIndex)

    def _open(self, name: str, attributes: Mapping[str, str]) -> None:
        if not self._path and name != ROOT:
            raise _NotOurs(f"its outermost element is not {ROOT}")
        if len(self._path) >= _DEEPEST:
            raise _NotOurs("nested too deeply")
        self._path.append(name)
        self._text, self._size = [], 0
        if len(self._path) == 2 and name == "gpu":
            if len(self._report.gpus) >= MOST_GPUS:
                raise _NotOurs(f"more than {MOST_GPUS} GPUs")
            self._gpu = GpuReport(self._offset(), attributes.get("id", ""))
            self._report.gpus.append(self._gpu)

    def _close(self, name: str) -> None:
        text = None if self._text is None else "".join(self._text).strip()
        self._text = None  # what follows belongs to the parent, whose own text does not matter
        if text is not None:
            self._keep(tuple(self._path), text)
        if len(self._path) == 2:
            self._gpu = None
        self._path.pop()

    def _keep(self, path: tuple[str, ...], text: str) -> None:
        report = self._report
        if self._gpu is not None:
            inner = path[2:]
            if inner in WANTED:
                self._gpu.put(inner, text, self._offset())
        elif path == (ROOT, "timestamp"):
            report.reading = smi_clock(text)
        elif path == (ROOT, "driver_version"):
            report.driver = text, self._offset()
        elif path == (ROOT, "attached_gpus") and text.isascii() and text.isdigit() and len(text) < 6:
            report.attached = int(text)

    def _characters(self, data: str) -> None:
        if self._text is not None and self._size < _LONGEST_VALUE:
            self._text.append(data[:_LONGEST_VALUE])
            self._size += len(data)
