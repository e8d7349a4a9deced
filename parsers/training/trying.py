"""What the rules make of a record that was changed for the sake of learning from it, and how far they looked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aftershock.parsers.clock import Reading
from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.formats import LOOKAHEAD, Envelope, Found, Line, Refused
from aftershock.parsers.training.templates import ALL_BELOW
from aftershock.parsers.training.watched import Watched
from aftershock.schemas.tables import TABLES
from aftershock.schemas.training import TrainingStep

Read = Callable[[Line], Iterable[Found | Refused]]

# Columns of a step that its record tells.
COLUMNS: Final = tuple(
    name
    for name in TABLES[TrainingStep.table].column_names
    if name not in ("session_id", "time", "time_basis", "time_error_s", "source", "byte_offset")
)
# Envelopes whose lines do not stand alone: what they are is told by the lines around.
_IN_COMPANY: Final = frozenset({"cri", "docker", "export", "label"})
# The message of a journal entry that goes on over several lines is indented.
_INDENTED: Final = b" " * 12
# Lines of a record.
_MOST_LINES: Final = 24


class Seen(NamedTuple):
    """A step that was read: its columns, and what else is known of it."""

    values: dict[str, int | float | None]
    mark: str
    reading: Reading


def _stands_alone(envelope: Envelope) -> bool:
    """Whether a line is what it is whatever stands around it; the number of a task is no host."""
    name = envelope.names[0]
    return name not in _IN_COMPANY or (name == "label" and (envelope.host is None or envelope.host.isdigit()))


def _step(found: list[Found | Refused]) -> Found | None:
    if len(found) != 1 or not isinstance(found[0], Found) or not isinstance(found[0].row, TrainingStep):
        return None
    return found[0]


def lines_of_record(text: bytes, following: bytes, read: Read) -> int:
    """Of how many lines the record is that begins with this one; 0 if no step is read from it.

    Below the first line stand those that were looked at, as far as nothing is read from them alone.
    """
    below = Watched(following)
    if _step(list(read(Line(0, text, unwrap(text), below)))) is None:
        return 0
    if not below.reach:
        return 1
    at, lines = 0, 1
    while at < min(below.reach, len(following)):
        stop = following.find(b"\n", at)
        line = following[at:stop].rstrip(b"\r")
        if stop < 0 or lines > _MOST_LINES:
            return 1
        if list(read(Line(0, line, unwrap(line), following[stop + 1 :]))):
            break
        lines += 1
        at = stop + 1
    return lines


@dataclass
class Trial:
    """Reads records. reach: how many lines below the first one were looked at, over all that was read.

    labelled: whether they have numbers before them that are labels if other lines have them too.
    """

    read: Read
    reach: int = 0
    labelled: bool = False
    reaches: set[int] = field(default_factory=set)

    def look(self, text: bytes, following: bytes = b"") -> Seen | None:
        """What is read from a record, if that is one step and nothing else. following: what stands below it."""
        head, newline, rest = text.partition(b"\n")
        head = head.removesuffix(b"\r")
        if any(line.startswith(_INDENTED) or b"\r" in line.rstrip(b"\r") for line in text.split(b"\n")):
            return None
        envelope = unwrap(head)
        if not _stands_alone(envelope) or b"\r" in head:
            return None
        self.labelled |= envelope.names[0] == "label" and envelope.host is not None
        below = Watched((rest + (newline and b"\n") + following)[:LOOKAHEAD])
        item = _step(list(self.read(Line(0, head, envelope, below))))
        if below.reach:
            lines = 1 + below.count(b"\n", 0, below.reach - 1) if below.reach <= len(below) else ALL_BELOW
            own = 1 + rest.count(b"\n") if newline else 0
            self.reaches.add(lines if following else own + 1)
            self.reach = max(self.reach, lines if following else own + 1)
        if item is None or item.last is not None or item.until is not None or not self._nothing_below(rest, newline):
            return None
        row = item.row
        return Seen({name: getattr(row, name) for name in COLUMNS}, item.mark, item.reading)

    def _nothing_below(self, rest: bytes, newline: bytes) -> bool:
        """Whether nothing is read from the further lines of a record by themselves."""
        for line in rest.split(b"\n") if newline else ():
            text = line.removesuffix(b"\r")
            envelope = unwrap(text)
            if not _stands_alone(envelope) or list(self.read(Line(0, text, envelope))):
                return False
        return True

    def looks_no_further(self) -> None:
        """Where it was not always as far, the numbers tell how far it is: then it may be any line."""
        if len(self.reaches) > 1:
            self.reach = ALL_BELOW
