"""What the lines around a line say about it: the entry that a field belongs to, the pieces of a record that was cut.

Most lines stand alone. Some kinds do not, and are found in the same way, by the signature inside them:

* a field of a journal entry, whose time, host and sender are fields on other lines (``journalctl -o export`` and
  ``-o verbose``; in the former a message with line ends or control characters comes as a length and raw bytes, in the
  latter its other lines are indented as far as the first begins);
* a piece of a line that a container runtime cut (CRI marks it ``P``, docker leaves out the line end). Lines of the
  other output of the container may stand between the pieces. The record is where its first piece is;
* a line with the label of a host (``gpu017: NVRM: ...``). Parallel shells print a label before every line, people print
  their names before what they say: only the lines around tell which it is (see :mod:`aftershock.parsers.labels`).

https://systemd.io/JOURNAL_EXPORT_FORMATS/,
https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.envelopes import inside, layer_of
from aftershock.parsers.envelopes.journal import peel_entry
from aftershock.parsers.envelopes.layer import Layer, text_of
from aftershock.parsers.formats import Envelope
from aftershock.parsers.labels import has_company, weigh_label

# How far around a line is looked. An entry of the journal has some kilobytes; a piece of CRI or docker at most 16 KiB.
REACH: Final = 64 << 10
# How far behind its length a line of a message in raw bytes may stand: asked of every bare line, so kept short.
_RAW_REACH: Final = 2 << 10
# A record of more pieces than this is longer than any line that is read.
_MOST_PIECES: Final = 64
# Lines of the other output between two pieces.
_MOST_BETWEEN: Final = 400

_RUNTIMES: Final = ("cri", "docker")
_BINARY: Final = b"MESSAGE\n"
_LENGTH_BYTES: Final = 8
# As wide as "    MESSAGE=".
_GOES_ON: Final = b" " * 12
_FIELD: Final = re.compile(rb"[ ]{0,4}([A-Z_][A-Z0-9_]{0,63})=(.*)", re.DOTALL)
# -o verbose: the time, and in brackets the cursor with the monotonic (m) and the real time (t) in hexadecimal.
_VERBOSE: Final = re.compile(rb"\S.{10,60} \[s=[0-9a-f]+;(?:[a-z]=[0-9a-f-]+;?)+\]\r?\Z")
_CURSOR_PART: Final = re.compile(rb"[\[;]([mt])=([0-9a-f]{1,15})\b")
# Another record has its own stamp or the words of the driver; the rest of one that was cut has neither.
_NEW_RECORD: Final = re.compile(rb"NVRM:|nvidia-nvswitch\d")


def is_alone(envelope: Envelope, data: bytes | bytearray, begin: int) -> bool:
    """Whether a line (at ``begin`` of ``data``) says all about itself. Cheap: it is asked of every line with a hit."""
    name = envelope.names[0]
    if name in ("plain", "dmesg"):
        # It may be raw bytes of a message, or another line of one.
        if data[begin : begin + len(_GOES_ON)] == _GOES_ON:
            return False
        return data.rfind(_BINARY, max(0, begin - _RAW_REACH), begin) < 0
    if name in _RUNTIMES:
        labels = envelope.labels or {}
        if "partial" in labels:
            return False
        if begin == 0:
            return True
        above = bytes(data[data.rfind(b"\n", max(0, begin - REACH), begin - 1) + 1 : begin - 1])
        other = _same_output(name, labels.get("stream"), above)
        return other is not None and not _is_cut(other)
    if name == "label":
        return has_company(envelope, data, begin)
    return name != "export"


def may_hold_raw_bytes(data: bytes | bytearray, begin: int, end: int) -> bool:
    """Whether a message in raw bytes may begin in ``data[begin:end]`` and reach beyond it."""
    return data.rfind(_BINARY, max(begin, end - _RAW_REACH), end) >= 0


def look_around(text: bytes, envelope: Envelope, before: bytes, after: bytes) -> Envelope | None:
    """The envelope of a line with what the lines around it say; None if the line is part of a record before it.

    ``before`` ends and ``after`` begins where the line does; both are at most REACH long.
    """
    if envelope.names[0] in _RUNTIMES:
        return _whole_record(text, envelope, before, after)
    if envelope.names[0] == "export":
        return _in_entry(envelope, envelope.message, before, after)
    if envelope.names[0] == "label":
        return weigh_label(text, envelope, before, after)
    if text.startswith(_GOES_ON):
        return _in_field(text, envelope, before, after)
    return _in_raw_bytes(text, envelope, before, after)


def _in_entry(envelope: Envelope, message: bytes, before: bytes, after: bytes) -> Envelope:
    """The envelope of the message of a journal entry whose other fields stand on the lines around."""
    fields: dict[str, str] = {}
    for line in _lines_up(before):
        field = _FIELD.fullmatch(line.rstrip(b"\r"))
        if field is not None:
            fields.setdefault(field[1].decode("ascii"), text_of(field[2]))
        elif line.startswith(_GOES_ON):
            continue
        elif _VERBOSE.match(line):
            for part in _CURSOR_PART.finditer(line):
                name = "__MONOTONIC_TIMESTAMP" if part[1] == b"m" else "__REALTIME_TIMESTAMP"
                fields.setdefault(name, str(int(part[2], 16)))
            break
        elif not line.strip():
            break
    for line in after[1:].split(b"\n"):
        if line.startswith(_GOES_ON):
            continue
        field = _FIELD.fullmatch(line.rstrip(b"\r"))
        if field is None:
            break
        fields.setdefault(field[1].decode("ascii"), text_of(field[2]))
    layer = peel_entry({**fields, "MESSAGE": ""})
    return envelope if layer is None else inside(layer._replace(rest=message))


def _in_field(text: bytes, envelope: Envelope, before: bytes, after: bytes) -> Envelope:
    """The envelope of a line that ``-o verbose`` printed below the first one of a message."""
    size = 0
    for line in _lines_up(before):
        if not line.startswith(_GOES_ON):
            field = _FIELD.fullmatch(line.rstrip(b"\r"))
            if field is None or field[1] != b"MESSAGE" or not line.startswith(b"    "):
                break
            return _in_entry(envelope, text[len(_GOES_ON) :], before[: len(before) - size], after)
        size += len(line) + 1
    return envelope


def _in_raw_bytes(text: bytes, envelope: Envelope, before: bytes, after: bytes) -> Envelope:
    """The envelope of a line within a message that comes as a length and raw bytes."""
    at = before.rfind(_BINARY)
    raw = at + len(_BINARY) + _LENGTH_BYTES
    if at < 0 or (at > 0 and before[at - 1 : at] != b"\n"):
        return envelope
    around = before[at:] + text + after
    length = int.from_bytes(around[len(_BINARY) : len(_BINARY) + _LENGTH_BYTES], "little")
    end = len(_BINARY) + _LENGTH_BYTES + length
    begins = len(before) - at  # of the line, in ``around``
    if end <= begins or around[end : end + 1] not in (b"\n", b""):
        return envelope
    message = text[max(0, raw - len(before)) :]
    return _in_entry(envelope, message, before[:at], around[end:])


def _lines_up(before: bytes) -> Iterator[bytes]:
    """The lines that end in ``before``, the last first."""
    end = len(before) - 1 if before.endswith(b"\n") else len(before)
    while end > 0:
        begin = before.rfind(b"\n", 0, end) + 1
        yield before[begin:end]
        end = begin - 1


def _whole_record(text: bytes, envelope: Envelope, before: bytes, after: bytes) -> Envelope | None:
    first = layer_of(text)
    if first is None or not first.labels or "stream" not in first.labels:
        return envelope
    if _goes_on_from(first, before):
        return None
    if "partial" not in first.labels:
        return envelope
    pieces = _pieces_below(first, after)
    labels = {name: value for name, value in first.labels.items() if name != "partial"}
    return inside(first._replace(rest=b"".join([first.rest, *pieces]), labels=labels))


def _goes_on_from(piece: Layer, before: bytes) -> bool:
    """Whether the line before on the same output was cut, so that this one is its rest."""
    for number, line in enumerate(_lines_up(before)):
        if number > _MOST_BETWEEN:
            return False
        other = _same_output(piece.name, _output_of(piece), line)
        if other is not None:
            return _is_cut(other) and _is_rest(piece)
    return False


def _pieces_below(first: Layer, after: bytes) -> Iterator[bytes]:
    taken = between = 0
    for line in after[1:].split(b"\n"):
        other = _same_output(first.name, _output_of(first), line.rstrip(b"\r"))
        if other is None:
            between += 1
            if between > _MOST_BETWEEN:
                return
            continue
        if not _is_rest(other) or taken == _MOST_PIECES:
            return
        yield other.rest
        taken += 1
        if not _is_cut(other):
            return


def _output_of(piece: Layer) -> str | None:
    return piece.labels.get("stream") if piece.labels else None


def _same_output(runtime: str, output: str | None, line: bytes) -> Layer | None:
    """The layer of a line if the same runtime wrote it to the same output of the container."""
    other = layer_of(line)
    return other if other is not None and other.name == runtime and _output_of(other) == output else None


def _is_cut(piece: Layer) -> bool:
    return piece.labels is not None and "partial" in piece.labels


def _is_rest(piece: Layer) -> bool:
    """Whether a piece can be the rest of a record. CRI says so; docker's line ends may have been lost on the way."""
    if piece.name == "cri":
        return True
    return layer_of(piece.rest) is None and not _NEW_RECORD.match(piece.rest)
