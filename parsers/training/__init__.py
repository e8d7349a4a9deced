"""Training output: steps, checkpoints, starts and ends, and what went wrong, as trainers and launchers print it.

One line may hold several records, behind any nesting of labels and stamps (``prefixes``). What a record looks like is
said by rules, in a file for each trainer (``trainers``), launcher (``launchers``) and domain of faults (``faults``).
What follows from several lines of one file is said by ``settle``.

https://github.com/NVIDIA/Megatron-LM, https://pytorch.org/docs/stable/elastic/run.html and others: see each file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from aftershock.parsers.envelopes.layer import clocks_together
from aftershock.parsers.formats import LOOKAHEAD, Envelope, Found, FoundLines, Head, Line, LineFormat, Refused
from aftershock.parsers.kernel.rules import literal
from aftershock.parsers.scan import PatternScanner
from aftershock.parsers.training.alike import alike_steps
from aftershock.parsers.training.dense import dense_steps
from aftershock.parsers.training.prefixes import Prefix, peel_all
from aftershock.parsers.training.rules import Made, Said, Told
from aftershock.parsers.training.saves import CHECKPOINT_KINDS
from aftershock.parsers.training.settle import settle
from aftershock.parsers.training.stamped import line_with_words
from aftershock.parsers.training.topics import all_non_samples, all_rules, all_samples
from aftershock.parsers.training.writers import signed
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import TrainingStep

RULES: Final = all_rules()
SIGNATURES: Final = tuple(dict.fromkeys(signature for rule in RULES for signature in rule.signatures()))

# The longest message that is kept of a line: a glued line may be very long.
_MOST_MESSAGE: Final = 4096
# Where the line of another writer begins within a line: processes that write at once lose newlines. Labels may stand
# behind other labels and stamps; behind the end of a sentence, of a word or of a bar they begin a line.
_GLUE: Final = re.compile(
    rb"(?:(?<=[\w.!?)%])(?<!m)|(?<= \|)|(?<=/s\])|(?<=it\])|(?<=last\):)|(?<=[.!?)]) {2,})"
    rb"(?=\[(?:rank|default)\d{1,6}\]:)"
)


@lru_cache(maxsize=1)
def _words() -> PatternScanner:
    return PatternScanner([(literal(words), number) for number, rule in enumerate(RULES) for words in rule.words])


def read(line: Line) -> Iterator[Found | Refused]:
    """The rows of one line of output. Words that a stamp makes look like a writer belong to it if they tell more."""
    other = line_with_words(line)
    rows = [] if other is None else list(_read_line(other))
    yield from rows or _read_line(line)


def _read_line(line: Line) -> Iterator[Found]:
    """Carriage returns of bars and labels in the midst of a line cut it into several."""
    envelope = line.envelope
    message = envelope.message
    glued = message.find(b"[rank", 1) > 0 or message.find(b"[default", 1) > 0
    if b"\r" not in message and not glued:
        yield from _read_text(line, message, line.following)
        return
    parts = message.split(b"\r")
    if glued:
        parts = [whole for part in parts for whole in _GLUE.split(part)]
    if len(parts) == 1:
        yield from _read_text(line, message, line.following)
        return
    for number, part in enumerate(parts):
        rest = b"\n".join([*parts[number + 1 : number + 9], line.following[:LOOKAHEAD]])[:LOOKAHEAD]
        yield from _read_text(line, part, rest)


def _read_text(line: Line, text: bytes, rest: bytes) -> Iterator[Found]:
    hits = sorted({number for _, number in _words().hits(text)})
    if not hits:
        return
    prefix = _prefix(text, line.envelope)
    said = Said(line, prefix, rest)
    done: set[str] = set()
    for number in hits:
        rule = RULES[number]
        if rule.only and rule.only in done:
            continue
        for found in rule.shape.finditer(prefix.message):
            for row in _rows(rule.row(found, said)):
                done.add(rule.only)
                yield _found(line, row, prefix, rule.mark)
            if rule.only and rule.only in done:
                break


def _prefix(text: bytes, envelope: Envelope) -> Prefix:
    host = envelope.host
    if host is None or not host.isdigit():
        return peel_all(text, envelope.reading, host)
    # The label of a task looks like that of a host to those who know no ranks.
    prefix = peel_all(text, envelope.reading)
    return prefix._replace(task=int(host[:9]), label=f"{host}: ".encode() + prefix.label)


def _rows(made: Made | Told | Iterable[Made | Told] | None) -> Iterable[Made | Told]:
    if made is None:
        return ()
    return (made,) if isinstance(made, (TrainingStep, TrainingEvent, Told)) else made


def _found(line: Line, made: Made | Told, prefix: Prefix, mark: str) -> Found:
    reading = prefix.reading
    row = made
    if isinstance(row, Told):
        row, told, own_mark = row
        mark = mark if own_mark is None else own_mark
        reading = reading if told is None else clocks_together(reading, told)
    if isinstance(row, TrainingEvent):
        row.message = prefix.message[:_MOST_MESSAGE].decode("utf-8", "backslashreplace")
        row.host_raw = row.host_raw or prefix.host
        row.rank = prefix.rank if row.rank is None else row.rank
        row.local_rank = prefix.local_rank if row.local_rank is None else row.local_rank
        row.count = prefix.repeated
        # Events of one file are joined by who wrote them; some rules know better who that is.
        if row.kind in CHECKPOINT_KINDS or (row.error_class is not None and "@" not in mark):
            mark = signed(mark, prefix)
    else:
        # Ray folds lines that differ in their numbers: those are other steps.
        row.copies = 1
        row.rank, row.local_rank = prefix.rank, prefix.local_rank
        mark = signed(mark, prefix)
    return Found(row, reading, line.offset, mark)


def read_lines(block: bytes | bytearray, begin: int, end: int, base: int) -> FoundLines | None:
    """The steps of many lines at once: those of any trainer by what is alike in them.

    Those of Megatron-LM have a way of their own, which is nearly twice as fast: their numbers stand in the same places.
    """
    known = dense_steps(block, begin, end, base)
    if known is not None and 2 * sum(stop - start for start, stop in known.spans) > end - begin:
        return known
    return alike_steps(block, begin, end, base, read) or known


def detects(head: Head) -> float:
    """How sure the head of a file is training output: by the records in it."""
    if any(isinstance(found.row, TrainingStep) for text in head.lines(200) if _may_tell(text) for found in _try(text)):
        return 0.9
    hits = {number for _, number in _words().hits(head.data) if RULES[number].tells}
    return 0.3 + 0.05 * min(10, len(hits)) if len(hits) > 1 else 0.0


def _may_tell(text: bytes) -> bool:
    """Whether words of a rule stand in a line, or may stand in what is escaped or coloured there."""
    return b'"' in text or b"\x1b" in text or b"#033" in text or bool(_words().hits(text))


def _try(text: bytes) -> Iterator[Found]:
    from aftershock.parsers.envelopes import unwrap  # noqa: PLC0415 - only at the beginning of a file

    for item in read(Line(0, text, unwrap(text))):
        if isinstance(item, Found):
            yield item


FORMAT = LineFormat(
    name="training",
    doc="""The output of training runs: steps, checkpoints, validation, starts and ends of workers, restarts, and
    errors by class, as trainers, launchers and libraries print them, of many ranks in one file or of one.""",
    url="https://github.com/NVIDIA/Megatron-LM",
    tables=("training_steps", "training_events", "checkpoints"),
    detects=detects,
    signatures=SIGNATURES,
    read=read,
    settle=settle,
    samples=all_samples(),
    non_samples=all_non_samples(),
    everywhere=False,
    read_lines=read_lines,
)
