"""Steps of any trainer by the block: records that are alike, read into columns by the template that one of them makes.

The first line that no template is known of makes one, if it is worth its while: if enough others differ from it in
nothing but numbers. Then all lines are walked along at once, and those that it fits are read. A log in which every line
is a step is read some fifty times as fast as line by line, with the same rows (a property test says so). Records that
are like few others, and those of which no template can be made, are left to be read by themselves.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aftershock.parsers.formats import LOOKAHEAD, FoundColumns, FoundLines
from aftershock.parsers.training.digits import Bytes, Ints
from aftershock.parsers.training.learning import template_of
from aftershock.parsers.training.line_places import line_ends, spans_of
from aftershock.parsers.training.taking import MARK, TEXT, WALL, Column, Taken
from aftershock.parsers.training.templates import Template, runs_of, skeleton_of
from aftershock.parsers.training.trying import Read, lines_of_record
from aftershock.parsers.training.walking import Page, segments_of, walk
from aftershock.schemas.tables import TABLES
from aftershock.schemas.training import TrainingStep

Bools = npt.NDArray[np.bool_]

# Places of a block that are looked at first, and in how many of them there may be something else than a step.
_LOOKS: Final = 16
_MOST_OTHERS: Final = 8
# Lines above such a place, one of which may be the first of a record.
_MOST_ABOVE: Final = 16
# Bytes that are taken together: few enough to stay in the cache.
_PAGE: Final = 1 << 20
_LONGEST: Final = 4096
# Lines of a page that have to be alike for their template to be worth its while.
_FEWEST: Final = 24
# Kinds of lines of a page that may be like too few others, before the rest of it is left.
_MOST_RARE: Final = 48
# Templates that differ in nothing but digits that have to be the same: those of ranks, as a rule.
_MOST_LITERALS: Final = 64
_MOST_KNOWN: Final = 512
# Records of one kind from which nothing can be learnt, before it is tried with no more of them.
_MOST_FAILURES: Final = 4

_TYPES: Final = {
    field.name: field.type for field in TABLES[TrainingStep.table].schema if not pa.types.is_dictionary(field.type)
}

# What was learnt of records, by what is left of them without digits: templates, or None where there is none.
_known: OrderedDict[bytes, list[Template | None]] = OrderedDict()


def alike_steps(block: bytes | bytearray, begin: int, end: int, base: int, read: Read) -> FoundLines | None:
    """The steps of records that are alike among the lines of ``block[begin:end]``; None if there are none.

    begin: the first byte of a line. end: behind the line end of one. base: offset of the block in its file. read: what
    reads one line.
    """
    if not _is_dense(block, begin, end, read):
        return None
    data = np.frombuffer(block, dtype=np.uint8)
    ends = line_ends(data, begin, end)
    starts = np.concatenate(([begin], ends[:-1] + 1))
    reader = _Reader(read)
    first = 0
    while first < starts.size:
        last = max(first + 1, int(np.searchsorted(ends, starts[first] + _PAGE)))
        if ends[last - 1] - starts[first] <= _PAGE + _LONGEST:
            page = Page.of(data, starts[first:last], ends[first:last])
            left = reader.take(page, first, int(starts[first]))
            # A record that goes on in the next page begins there.
            last -= left if last < starts.size and left < min(_MOST_ABOVE, last - first) else 0
        first = last
    return _found(reader.taken, data, starts, ends, base)


def _is_dense(block: bytes | bytearray, begin: int, end: int, read: Read) -> bool:
    """Whether most lines of a block are steps, or belong to one, as far as a few of them tell."""
    others = 0
    for number in range(_LOOKS):
        at = begin + (end - begin) * number // _LOOKS
        others += not _is_step(block, begin, at, end, read)
        if others > _MOST_OTHERS:
            return False
    return True


def _is_step(block: bytes | bytearray, begin: int, at: int, end: int, read: Read) -> bool:
    start = block.rfind(b"\n", max(begin, at - _LONGEST), at) + 1 or begin
    for above in range(_MOST_ABOVE):
        stop = block.find(b"\n", start, min(end, start + _LONGEST))
        if stop < 0:
            return False
        text = bytes(block[start:stop]).rstrip(b"\r")
        lines = lines_of_record(text, bytes(block[stop + 1 : min(end, stop + 1 + LOOKAHEAD)]), read)
        if lines or start == begin:
            return lines > above
        start = block.rfind(b"\n", max(begin, start - 1 - _LONGEST), start - 1) + 1 or begin
    return False


def _templates(skeleton: bytes) -> list[Template | None]:
    known = _known.setdefault(skeleton, [])
    _known.move_to_end(skeleton)
    if len(_known) > _MOST_KNOWN:
        _known.popitem(last=False)
    return known


@dataclass
class _Reader:
    """Reads the pages of a block, one after the other. taken: what was found, by template."""

    read: Read
    taken: dict[int, Taken] = field(default_factory=dict)

    def take(self, page: Page, first: int, offset: int) -> int:
        """Take what is alike in a page. first: number of its first line in the block, offset: where that begins.

        Returns how many lines are left at the end of it.
        """
        length = page.ends - page.begins
        self.page, self.first, self.offset = page, first, offset
        self.free = (length > 0) & (length <= _LONGEST)
        self.hits = np.zeros(length.size, np.bool_)
        for taken in list(self.taken.values())[::-1]:
            self._take(taken.template)
        for _ in range(_MOST_RARE):
            left = np.flatnonzero(self.free)
            if left.size < _FEWEST:
                break
            self._take_like(int(left[0]))
        hits = np.flatnonzero(self.hits)
        return length.size - 1 - int(hits[-1]) if hits.size else length.size

    def _take(self, template: Template) -> None:
        lines = np.flatnonzero(self.free)
        if not lines.size:
            return
        walked = walk(self.page, lines, template.segments, template.wanted)
        if not walked.lines.size:
            return
        for below in range(template.lines):
            self.free[walked.lines + below] = False
            self.hits[walked.lines + below] = True
        # The last one is the first to be tried on the next page.
        taken = self.taken.pop(id(template)) if id(template) in self.taken else Taken(template)
        self.taken[id(template)] = taken
        taken.add(self.page, walked, self.first, self.offset)

    def _take_like(self, line: int) -> None:
        """Take a line and those that are like it, or leave them."""
        text = self._record(line)
        known = _templates(skeleton_of(text))
        for template in known:
            if template is not None and id(template) not in self.taken and template.has_literals(text):
                self._take(template)
        if not self.free[line]:
            return
        like = next((template for template in known if template is not None), None)
        fits = any(template is not None and template.has_literals(text) for template in known)
        alike = self._alike(text, like)
        self.free[line] = False
        if not fits and known.count(None) < _MOST_FAILURES and len(known) < _MOST_LITERALS and alike.size >= _FEWEST:
            template = template_of(text, self.read, like)
            known.append(template)
            if template is not None:
                self.free[line] = True
                self._take(template)
                self.free[line] = False
                return
        self.free[alike] = False

    def _record(self, line: int) -> bytes:
        """A line, and those below that belong to it."""
        page = self.page
        text = page.text(line)
        begin = min(int(page.ends[line]) + 1, page.size)
        lines = lines_of_record(text, page.data[begin : min(begin + LOOKAHEAD, page.size)].tobytes(), self.read)
        return page.text(line, min(max(1, lines), page.begins.size - line))

    def _alike(self, text: bytes, like: Template | None) -> Ints:
        """Lines that differ in nothing but numbers, and not in those that have to be the same in lines of this kind."""
        head = text.partition(b"\n")[0].rstrip(b"\r")
        runs = runs_of(head)
        same = () if like is None else like.literal
        segments = segments_of(head, runs, [number for number in same if number < len(runs)], [(1, 99)] * len(runs))
        return walk(self.page, np.flatnonzero(self.free), segments, ()).lines


def _found(taken: dict[int, Taken], data: Bytes, starts: Ints, ends: Ints, base: int) -> FoundLines | None:
    """All that was taken of a block, in the order of its lines."""
    marks: list[str] = []
    groups: list[_Group] = []
    for each in taken.values():
        own, read = each.whole()
        read[MARK] += len(marks)
        marks += each.marks
        groups.append((each.template, own, read))
    groups = _with_company(groups, starts, ends)
    if not groups:
        return None
    lines = np.concatenate([lines for _, lines, _ in groups])
    which = np.concatenate([np.full(lines.size, number) for number, (_, lines, _) in enumerate(groups)])
    order = None if (lines[1:] > lines[:-1]).all() else np.argsort(lines, kind="stable")
    if order is not None:
        lines, which = lines[order], which[order]
    templates = [template for template, _, _ in groups]
    columns = {}
    for name in sorted(
        {name for template, _, read in groups for name in (*read, *template.constant)} - {WALL, TEXT, MARK}
    ):
        column = _column(name, groups, order)
        columns[name] = column.cast(_TYPES[name])
    columns["@wall"] = _column(WALL, groups, order)
    columns["@kind"] = _words(which, ["none" if each.moment is None else each.moment.kind for each in templates])
    columns["@mark"] = _words(_column(MARK, groups, order).to_numpy(), marks)
    resolutions = [1 if each.moment is None else each.moment.resolution for each in templates]
    columns["@resolution"] = pa.array(np.array(resolutions, np.int64)[which])
    columns["@text"] = _texts(_column(TEXT, groups, order), which, templates, data)
    columns["@offset"] = pa.array(starts[lines] + base)
    last = lines + np.array([template.lines - 1 for template in templates])[which]
    stops = ends[last]
    stops = stops - (data[stops - 1] == 13)
    examples = tuple(dict.fromkeys(template.text for template in templates))
    rows = FoundColumns(TrainingStep.table, len(lines), columns)
    return FoundLines(rows, spans_of(starts[lines], stops), examples)


_Group = tuple[Template, Ints, dict[str, Column]]


def _column(name: str, groups: list[_Group], order: Ints | None) -> pa.Array:
    """A column of all groups; null where a group has none of it."""
    parts: list[Column] = []
    there: list[Bools] = []
    for template, lines, read in groups:
        constant = template.constant.get(name)
        part = read.get(name)
        if part is None:
            part = np.full(lines.size, 0 if constant is None else constant)
        parts.append(part)
        there.append(np.full(lines.size, name in read or constant is not None))
    values, known = np.concatenate(parts), np.concatenate(there)
    if order is not None:
        values, known = values[order], known[order]
    return pa.array(values, mask=None if known.all() else ~known)


def _words(which: Ints, words: list[str]) -> pa.Array:
    if len(set(words)) == 1:
        return pa.repeat(pa.scalar(words[0]), which.size)
    return pa.array(words).take(pa.array(which))


def _texts(begins: pa.Array, which: Ints, templates: list[Template], data: Bytes) -> pa.Array:
    """Times as printed. begins: where they begin in the block, null where there is none."""
    if begins.null_count == len(begins):
        return pa.nulls(len(begins), pa.string())
    widths = {0 if template.moment is None else len(template.moment.text) for template in templates}
    if not begins.null_count and len(widths) == 1:
        (width,) = widths
        cells = np.lib.stride_tricks.sliding_window_view(data, width)[begins.to_numpy()]
        offsets = np.arange(0, cells.size + 1, width, dtype=np.int32)
        return pa.StringArray.from_buffers(len(cells), pa.py_buffer(offsets), pa.py_buffer(cells))
    timed = np.asarray(begins.is_valid())
    at = begins.drop_null().to_numpy()
    lengths = np.array([0 if template.moment is None else len(template.moment.text) for template in templates])
    edges = np.empty(2 * at.size, np.int32)
    edges[::2], edges[1::2] = at, at + lengths[which[timed]]
    # Every other string of those that are cut there.
    cut = pa.StringArray.from_buffers(edges.size - 1, pa.py_buffer(edges), pa.py_buffer(data))
    return cut.take(pa.array((np.cumsum(timed) - 1) * 2, mask=~timed))


def _with_company(groups: list[_Group], starts: Ints, ends: Ints) -> list[_Group]:
    """Records of which lines around have a say, without those that have anything around but their like."""
    kept = []
    for template, lines, columns in groups:
        if not (template.below or template.labelled) or not lines.size:
            kept.append((template, lines, columns))
            continue
        known = np.zeros(starts.size + 1, np.bool_)
        for below in range(template.lines):
            known[lines + below] = True
        # For each record the next line that is none, and whether it is beyond what a line shows of those that follow.
        others = np.flatnonzero(~known)
        following = others[np.searchsorted(others, lines)]
        far = np.append(starts, ends[-1] + 1)[following] - ends[lines] - 1 >= LOOKAHEAD
        good = far | (following - lines > template.below) | (template.below == 0)
        if template.labelled:
            good &= known[lines - 1] | known[lines + template.lines]
        kept.append((template, lines[good], {name: column[good] for name, column in columns.items()}))
    return [group for group in kept if group[1].size]
