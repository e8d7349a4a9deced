"""How a line of training output is read: a rule names words that stand in it, the shape of the record, and its row.

    RULES = (
        Rule(
            words=(b"saving snapshot of step",),
            shape=later(rb"saving snapshot of step (?P<step>\\d+) to (?P<path>\\S+)"),
            row=event("save_begin"),
        ),
    )

The words are what the scan looks for: literals that are rare elsewhere. The shape is searched in the message, that is,
in the line without its prefixes; it is found wherever it stands, since records are glued to progress bars and to each
other, unless it begins with ``\\A``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aftershock.parsers.clock import Reading
from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Line
from aftershock.parsers.kernel.rules import literal
from aftershock.parsers.training.prefixes import Prefix, peel_all
from aftershock.parsers.training.stamped import words_given_back
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import TrainingStep

Match = re.Match[bytes]
Made = TrainingStep | TrainingEvent


class Told(NamedTuple):
    """A row whose record states its own time, within the message. ``mark``: goes before that of its rule."""

    row: Made
    reading: Reading | None = None
    mark: str | None = None


# Lines below a record that are looked at for its rest.
MOST_BELOW: Final = 64


@dataclass(frozen=True)
class Said:
    """A line without its prefixes, and the line itself. ``rest``: what stands below it, as in ``Line.following``."""

    line: Line
    prefix: Prefix
    rest: bytes

    @property
    def message(self) -> bytes:
        """The text behind the prefixes."""
        return self.prefix.message

    def below(self, most: int = MOST_BELOW) -> Iterator[bytes]:
        """The next lines of the same writer, without prefixes; those of other ranks in between are left out."""
        envelope = self.line.envelope
        task = (envelope.host or "").isdigit()  # the label of a task is a prefix, not an envelope
        for text in self._lines_below(most):
            if envelope.names == ("plain",) or task:
                other = peel_all(text)
            else:
                inner = self._unwrapped(text)
                if inner is None:
                    continue
                other = peel_all(inner)
            if other.label == self.prefix.label:
                yield other.message

    def _lines_below(self, most: int) -> Iterator[bytes]:
        """Line by line: who looks at the first has not looked at the others."""
        at = 0
        for _ in range(most):
            end = self.rest.find(b"\n", at)
            if end < 0:
                yield self.rest[at:]
                return
            yield self.rest[at:end]
            at = end + 1

    def _unwrapped(self, text: bytes) -> bytes | None:
        """A line out of the envelope that this one has; None if another host wrote it."""
        envelope = self.line.envelope
        if envelope.names[-1] == "label":  # not told from words where no record stands behind it
            label = f"{envelope.host}:".encode()
            return text[len(label) :] if text.startswith(label) else None
        inner = unwrap(text)
        if envelope.tag is None:  # as in the line above
            inner = words_given_back(text, inner) or inner
        return inner.message if inner.host == envelope.host else None


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One grammar of training output.

    words: literals of which one stands in every such line. shape: the record, searched in the message.
    row: what it becomes: a row, several, or nothing after all.
    mark: what ``settle`` has to know. only: of the rules of one such group the first that gives a row is the last
        that is asked, for one line may speak of one fault in many words.
    scan: the literals that the scan looks for instead of the words, where those are too common by themselves.
    tells: whether the words tell that a text is training output; those of any program's errors do not.
    """

    words: tuple[bytes, ...]
    shape: re.Pattern[bytes]
    row: Callable[[Match, Said], Made | Told | Iterable[Made | Told] | None]
    mark: str = ""
    only: str = ""
    scan: tuple[bytes, ...] = ()
    tells: bool = True

    def signatures(self) -> tuple[bytes, ...]:
        """The patterns of the scan. The last line of what is scanned comes without its newline."""
        words = self.scan or self.words
        ends = [literal(text[:-1]) for text in words if text.endswith(b"\n")]
        return (*map(literal, words), *(end + b"\r" for end in ends), *(end + b"$" for end in ends))


def whole(printed: bytes | None) -> int | None:
    """A whole number as printed: ``1,048,576``, ``794.0``, ``1.63e+6``; null if there is none or it is no number."""
    if printed is None:
        return None
    text = printed.strip().replace(b",", b"")
    try:
        value = int(text) if text.isdigit() else int(float(text))
    except (ValueError, OverflowError):
        return None
    return value if abs(value) < 2**63 else None


def number(printed: bytes | None) -> float | None:
    """A number as printed: ``1.5E-03``, ``1,048,576``, ``nan``; null if there is none or it is no number."""
    if printed is None:
        return None
    try:
        return float(printed.strip().replace(b",", b""))
    except ValueError:
        return None


@dataclass(frozen=True)
class _Event:
    kind: str
    values: tuple[tuple[str, object], ...] = field(default=())

    def __call__(self, found: Match, _said: Said) -> TrainingEvent:
        groups = found.groupdict()
        row = TrainingEvent(kind=self.kind, step=whole(groups.get("step")), duration_s=number(groups.get("duration")))
        path = groups.get("path")
        row.path = text_of(path).strip("'\"") if path else None
        for name in ("rank", "local_rank"):
            setattr(row, name, whole(groups.get(name)))
        for name, value in self.values:
            setattr(row, name, value)
        return row


def event(kind: str, **values: object) -> _Event:
    """An event of ``values`` and of the groups of the shape: step, path, duration (seconds), rank, local_rank."""
    return _Event(kind, tuple(values.items()))


@dataclass(frozen=True)
class _Error:
    error_class: str
    error_role: str
    kind: str = "error"

    def __call__(self, found: Match, said: Said) -> TrainingEvent:
        groups = found.groupdict()
        row = TrainingEvent(kind=self.kind, error_class=self.error_class, error_role=self.error_role)
        error = groups.get("error") or said.message
        row.error = text_of(error[:4096]).strip()
        for name in ("rank", "local_rank"):
            setattr(row, name, whole(groups.get(name)))
        path = groups.get("path")
        row.path = text_of(path).strip("'\"") if path else None
        return row


def error(error_class: str, error_role: str = "root", kind: str = "error") -> _Error:
    """An error of a class of the failure taxonomy, with the role that it has if nothing else is known.

    Groups of the shape: error (the text of it; else the whole message), path, rank, local_rank.
    """
    return _Error(error_class, error_role, kind)
