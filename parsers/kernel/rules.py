"""How a line about a host is read: a rule names words that stand in it, the shape of the whole line, and its row.

The words are what the scan looks for: literals that are rare in other logs; the shape is matched from the
beginning of the message, so that a sentence, a command or a rule that quotes the words gives nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from aftershock.parsers.formats import Line
from aftershock.schemas.events import GpuError, NodeEvent

Match = re.Match[bytes]

# The voice that most rules listen to. Other writers are the daemons that a rule names.
KERNEL: Final = frozenset({"kernel"})

# A mark ends with this where the line may only repeat what another line of its block says: see ``kernel_joins``.
ECHO: Final = "~"

BDF: Final = rb"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
# The kernel's names of tasks have 15 bytes at most, and may hold anything.
TASK: Final = rb"(?P<process>.{1,15}?)"

_SPECIAL: Final = re.compile(rb"([\\.^$*+?()\[\]{}|])")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One grammar of a line about a host.

    words: literals of which one stands in every such line. shape: the message from its beginning.
    row: what it becomes; it may look at the lines below, and may say that it is nothing after all.
    mark: what ``settle`` has to know. writers: who says it. clock: the block prints the epoch at which it happened.
    scan: the literals that the scan looks for instead of the words, where those are too common.
    """

    words: tuple[bytes, ...]
    shape: re.Pattern[bytes]
    row: Callable[[Match, Line], NodeEvent | GpuError | None]
    mark: str = ""
    writers: frozenset[str] = KERNEL
    clock: bool = False
    scan: tuple[bytes, ...] = ()

    def signatures(self) -> tuple[bytes, ...]:
        """The patterns of the scan."""
        return tuple(literal(words) for words in self.scan or self.words)


def literal(words: bytes) -> bytes:
    """Words as a pattern of the scan. A hundred literals cost it less than one pattern with a repeat in it."""
    return _SPECIAL.sub(rb"\\\1", words)


def signatures_of(rules: Iterable[Rule]) -> tuple[bytes, ...]:
    """The patterns of many rules, each once."""
    return tuple(dict.fromkeys(signature for rule in rules for signature in rule.signatures()))


def text_of(data: bytes | None) -> str | None:
    """Matched bytes as text; whatever is not UTF-8 stays visible as an escape."""
    return data.decode("utf-8", "backslashreplace") if data else None


def event(kind: str, unit: str | None = None, severity: str | None = None, device: str | None = None) -> _Build:
    """A row of the groups that the shape has: device, pid, process and value (in ``unit``)."""
    return _Build(kind, unit, severity, device)


@dataclass(frozen=True)
class _Build:
    kind: str
    unit: str | None
    severity: str | None
    device: str | None

    def __call__(self, found: Match, _line: Line) -> NodeEvent:
        groups = found.groupdict()
        pid, value = groups.get("pid"), groups.get("value")
        return NodeEvent(
            kind=self.kind,
            device=text_of(groups.get("device")) or self.device,
            pid=None if pid is None else int(pid),
            process=text_of(groups.get("process")),
            value=None if value is None else float(value),
            unit=None if value is None else self.unit,
            severity=self.severity,
        )
