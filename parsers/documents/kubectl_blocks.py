"""How ``kubectl describe`` lays out an object: fields at the margin, what is indented below them, tables.

https://kubernetes.io/docs/reference/kubectl/generated/kubectl_describe/.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from aftershock.parsers.documents.kubernetes.objects import JsonObject

FIELD: Final = re.compile(r"(?P<indent> {0,12})(?P<key>[A-Za-z][\w ./()-]{0,80}):(?:\s+(?P<value>\S.*))?\Z")
_GAP: Final = re.compile(r" {2,}")


class DescribedLine(NamedTuple):
    """A line of what was printed."""

    offset: int
    text: str


class Section(NamedTuple):
    """What stands behind a field, and the lines that are indented below it."""

    value: str | None
    below: list[DescribedLine]


class Sections(dict[str, Section]):
    """What stands at the margin, and what is indented below each."""

    def value(self, key: str) -> str | None:
        """The word of a field; None where there is none."""
        section = self.get(key)
        return section.value if section is not None and section.value not in (None, "<none>", "<unset>") else None


def sections_of(lines: Sequence[DescribedLine]) -> Sections:
    """The fields of an object, by their names."""
    found = Sections()
    below: list[DescribedLine] = []
    for line in lines:
        if not line.text:
            continue
        field = FIELD.match(line.text)
        if field is not None and not field["indent"]:
            below = []
            found.setdefault(field["key"], Section(field["value"], below))
        elif line.text.startswith(" "):
            below.append(line)
        else:
            below = []  # something else that was printed between
    return found


def pairs_of(sections: Sections, key: str, mark: str) -> JsonObject:
    """Labels and annotations: the first stands on the line of the field, the others in its column."""
    section = sections.get(key)
    if section is None:
        return {}
    told = [section.value or "", *(line.text.strip() for line in section.below)]
    cut = (text.partition(mark) for text in told)
    return {name: value.strip() for name, found, value in cut if found and " " not in name}


def table_of(lines: Sequence[DescribedLine]) -> Iterator[tuple[DescribedLine, dict[str, str]]]:
    """The rows of a table below a header and dashes, that have a first and a second cell."""
    if not lines:
        return
    header = lines[0].text
    places = [word.start() for word in re.finditer(r"\S+", header)]
    names = header.split()
    if names[:2] not in (["Type", "Status"], ["Type", "Reason"]):
        return
    for line in lines[1:]:
        text = line.text
        if text.strip(" -") == "" or not text.startswith("  ") or text[2:3] == " ":
            continue
        if all(text[place - 1 : place] in ("", " ") for place in places):
            ends = [*places[1:], None]
            words = [text[begin:end].strip() for begin, end in zip(places, ends, strict=True)]
        else:
            words = _GAP.split(text.strip(), len(names) - 1)
        cells = dict(zip(names, words, strict=False))
        if cells.get(names[0]) and cells.get(names[1]):
            yield line, cells
