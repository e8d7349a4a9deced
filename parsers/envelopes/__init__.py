"""What stands around a message, peeled off layer by layer.

A message may stand in any envelope, and envelopes stand in each other: a pod prints ``dmesg -x``, rsyslog writes the
kernel's own clock behind its own. :func:`unwrap` takes off whatever is there. It looks at the first byte to know which
layers can follow, never raises, and takes time linear in the length of the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from aftershock.parsers.clock import NO_CLOCK
from aftershock.parsers.envelopes import container, dmesg, plain, slurm, stores, syslog
from aftershock.parsers.envelopes.layer import Layer, clocks_together
from aftershock.parsers.formats import Envelope

__all__ = ["SIGNATURES", "inside", "layer_of", "lines_within", "unwrap"]

Peel = Callable[[bytes], Layer | None]

# Envelopes that hide their text from a scan of the bytes: a journal entry whose message is an array of numbers, and
# lines that a container runtime cut into pieces (CRI says so, docker leaves out the line end).
SIGNATURES: Final[tuple[bytes, ...]] = (
    rb'"MESSAGE(?:\\(?:\\\\)?)?" ?: ?\[',
    rb" std(?:out|err) P ",
    rb'(?:[^n]|[^\\]n)","stream":"std',
)

# Deeper nesting than this has not been seen, and a line must not be able to ask for more work than its length.
MOST_LAYERS: Final = 6

_PLAIN: Final = ("plain",)
_COLOUR: Final = re.compile(rb"(?:\x1b|#033)(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[()][0-9A-B])")
_BOM: Final = b"\xef\xbb\xbf"


def unwrap(line: bytes) -> Envelope:
    """The envelope of a line and the message inside. The host and the program are those of the outermost layer."""
    text = _clean(line)
    layer = _peel(text, _OUTER)
    return Envelope(_PLAIN, text) if layer is None else inside(layer)


def layer_of(line: bytes) -> Layer | None:
    """The outermost layer of a line; None if there is none."""
    return _peel(_clean(line), _OUTER)


def inside(layer: Layer) -> Envelope:
    """The envelope that begins with a layer: the layers inside it are taken off too."""
    if b"\x1b" in layer.rest:  # written as an escape within JSON
        layer = layer._replace(rest=_clean(layer.rest))
    name, rest, reading, host, tag, facility, level, labels, is_open, stale, weak = layer
    # What stands in brackets behind a stamp of Slurm's is a job step, "[7.0]", and no clock.
    inner = None if name == "slurm" else _peel(rest, _OUTER if is_open else _INNER)
    if inner is None:
        return Envelope((name,), rest, reading, host, tag, facility, level, labels)
    names = [name]
    merged: Mapping[str, str] | None = labels
    while inner is not None and len(names) < MOST_LAYERS:
        names.append(inner.name)
        rest = _COLOUR.sub(b"", inner.rest) if b"\x1b" in inner.rest else inner.rest
        if inner.labels and "collected" in inner.labels:
            reading = inner.reading  # whoever stands around a collector came after it
        elif not stale:
            reading = clocks_together(reading, inner.reading)
        if inner.host is not None and (weak or host is None):
            host = inner.host
            weak = inner.weak
        tag = tag if tag is not None else inner.tag
        facility = facility if facility is not None else inner.facility
        level = level if level is not None else inner.level
        if inner.labels:
            merged = {**inner.labels, **(merged or {})}
        stale = stale or inner.stale
        is_open = inner.open or (is_open and not inner.tag and inner.reading is NO_CLOCK)
        inner = _peel(rest, _OUTER if is_open else _INNER)
    return Envelope(tuple(names), rest.rstrip(b"\r\n"), reading, host, tag, facility, level, merged)


def lines_within(envelope: Envelope) -> list[Envelope]:
    """The lines of a message that has several, each in the same envelope; one that is empty is left out."""
    name, *deeper = envelope.names
    closed = envelope.tag is not None
    lines = []
    for text in envelope.message.split(b"\n"):
        if not text.strip():
            continue
        _, _, reading, host, tag, facility, level, labels = envelope
        line = inside(Layer(name, text, reading, host, tag, facility, level, labels, open=not closed, weak=True))
        lines.append(line._replace(names=(name, *deeper, *line.names[1:])))
    return lines


def _clean(line: bytes) -> bytes:
    """Without line end, colours, byte order mark, and the zero bytes that a crash leaves before the next line."""
    if line[-1:] in (b"\r", b"\n"):
        line = line.rstrip(b"\r\n")
    if line[:1] in (b"\0", b"\x1e"):  # \x1e begins a record of journalctl -o json-seq
        line = line.lstrip(b"\0\x1e")
    if b"\x1b" in line or b"#033[" in line:
        line = _COLOUR.sub(b"", line)
    return line[3:] if line.startswith(_BOM) else line


def _peel(data: bytes, table: tuple[tuple[Peel, ...], ...]) -> Layer | None:
    if data:
        for peel in table[data[0]]:
            layer = peel(data)
            if layer is not None:
                return layer
    return None


def _peel_priority(data: bytes) -> Layer | None:
    """``<4>`` before any of the others, or before the bare message."""
    whole = syslog.peel_rfc5424(data)
    if whole is not None:
        return whole
    priority = syslog.priority_of(data)
    if priority is None:
        return None
    facility, level, length = priority
    rest = data[length:]
    inner = _peel(rest, _OUTER) if rest[:1] != b"<" else None
    if inner is None:
        return Layer("printk", rest, facility=facility, level=level)
    return inner._replace(facility=facility, level=level)


def _peel_indented(data: bytes) -> Layer | None:
    """`` kernel:[ 12.3] ...`` of messages to all terminals, ``    MESSAGE=`` of ``journalctl -o verbose``."""
    text = data.lstrip(b" ")
    return plain.peel_field(text) or (syslog.peel_writer(text) if text.startswith(b"kernel:") else None)


def _by_first_byte(rules: Mapping[bytes, tuple[Peel, ...]]) -> tuple[tuple[Peel, ...], ...]:
    table: list[tuple[Peel, ...]] = [()] * 256
    for first_bytes, peels in rules.items():
        for byte in first_bytes:
            table[byte] = peels
    return tuple(table)


_BRACKETS: Final = (dmesg.peel_bracket, slurm.peel_bracket)
_LISTS: Final = (*_BRACKETS, stores.peel_pod, container.peel_pair, stores.peel_fluent_text)
_WORDS: Final = (
    syslog.peel_bsd,
    dmesg.peel_decoded,
    syslog.peel_writer,
    syslog.peel_asctime,
    syslog.peel_iso,
    plain.peel_label,
    plain.peel_login,
    dmesg.peel_talos,
    dmesg.peel_ftrace,
    stores.peel_stern,
    plain.peel_file,
)
_NUMBERS: Final = (
    container.peel_cri,
    stores.peel_stamped,
    syslog.peel_iso,
    dmesg.peel_kmsg,
    syslog.peel_unix,
    syslog.peel_rfc5424,
    syslog.peel_bsd,
    plain.peel_label,
    dmesg.peel_talos,
    plain.peel_file,
)

# Lower-case letters, and what an inner layer may begin with, are looked up in this order.
_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_OUTER: Final = _by_first_byte(
    {
        _LETTERS: _WORDS,
        bytes(range(0x80, 0x100)): (syslog.peel_bsd,),
        b"M": (plain.peel_field, *_WORDS),
        b"d": (container.peel_server_sent, *_WORDS),
        b"s": (slurm.peel_sched, *_WORDS),
        b"mL": (plain.peel_repeated, *_WORDS),
        b"0123456789": _NUMBERS,
        b"[": _LISTS,
        b"<": (_peel_priority, dmesg.peel_ftrace),
        b"{": (container.peel_object,),
        b"/.": (plain.peel_file,),
        b" ": (dmesg.peel_ftrace, plain.peel_label, _peel_indented),
    }
)
# Inside a closed layer stand only the kernel's own clock, a daemon's stamp, and the count of repeats.
_INNER: Final = _by_first_byte({b"[": _BRACKETS, b"mL": (plain.peel_repeated,)})
