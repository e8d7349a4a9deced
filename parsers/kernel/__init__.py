"""The kernel log: NVIDIA Xid and SXid errors above all, and what else it says about the health of a host.

An Xid is what the NVIDIA driver prints when a GPU fails. The same line travels far: through dmesg, journald, syslog,
container logs and the JSON of agents; any envelope may stand around it, and it is one record in all of them.

https://docs.nvidia.com/deploy/xid-errors/, https://github.com/NVIDIA/open-gpu-kernel-modules
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from aftershock.parsers.clock import Reading
from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.envelopes.layer import LEVELS, clocks_together
from aftershock.parsers.formats import Envelope, Found, Head, Line, LineFormat, Refused
from aftershock.parsers.kernel import amd, cpu, hardware, life, memory, netfs, network, pcie, power, storage
from aftershock.parsers.kernel.amd import SIGNATURES as AMD_SIGNATURES
from aftershock.parsers.kernel.amd import read_amd_line
from aftershock.parsers.kernel.broken import suppressed_in
from aftershock.parsers.kernel.gpu import SIGNATURES as GPU_SIGNATURES
from aftershock.parsers.kernel.gpu import read_gpu_line
from aftershock.parsers.kernel.hardware import block_clock
from aftershock.parsers.kernel.relayed import Relayed, is_json, relayed_lines
from aftershock.parsers.kernel.rules import literal, signatures_of
from aftershock.parsers.kernel.samples import NON_SAMPLES, SAMPLES
from aftershock.parsers.kernel.settle import settle
from aftershock.parsers.kernel.text import daemon_of, occurrences, trust_of, whole_message
from aftershock.parsers.kernel.xid import EVENT_START, Torn, is_garbled, read_event
from aftershock.parsers.scan import PatternScanner
from aftershock.schemas.columns import Row
from aftershock.schemas.events import EventRow, GpuError, NodeEvent
from aftershock.schemas.topology import Gpu

# What is said of the host, by topic.
_TOPICS: Final = (life, memory, hardware, pcie, network, netfs, storage, cpu, power, amd)
RULES: Final = tuple(rule for topic in _TOPICS for rule in topic.RULES)
# Which rules may read a line: a line is matched with few of all the shapes.
_WORDS: Final = PatternScanner([(literal(words), number) for number, rule in enumerate(RULES) for words in rule.words])
_WRITERS: Final = frozenset(writer for rule in RULES for writer in rule.writers) - {"kernel"}

# Few bytes, so that they are found in colours and in JSON too; what stands around them is looked at afterwards.
SIGNATURES: Final = tuple(
    dict.fromkeys((rb"Xid \(", rb"Xid\x1b", *GPU_SIGNATURES, *AMD_SIGNATURES, *signatures_of(RULES)))
)

# What may stand before the driver's words in an envelope that is not known: words with digits or marks, like clocks,
# hosts and levels. A word of plain letters, or a quotation mark, is somebody's sentence, command or rule.
_HEADER_WORD: Final = re.compile(
    rb"(?i)(?=[^\s]*\d)[\w.:@/|\[\]()<>,+-]{1,64}|[\[(]\s?(?:\w{0,16}|\.\.\.)[\])]:?|<\s?(?:"
    + b"|".join(LEVELS)
    + rb")?>:?"
    rb"|kern(?:el)?:?|[-|:]"
)
# What stands before an item of a list or a cell of a table in somebody's notes, and before a numbered line.
_LIST_MARK: Final = re.compile(rb"[-*+|:>]{1,3}|[(\[]?\d{1,4}[.):,|\]]{0,2}|</?[a-z]{1,10}>")
# Quotations, rows of tables, tags of HTML, and lines of a file of code or text that a search has numbered.
_NOTES: Final = re.compile(
    rb"\s*(?:[>|]|[-*+]\s+\[)|.*</|.*\.(?:c|cc|cpp|h|go|rs|py|md|rst|adoc|html?|ya?ml|json|toml|js|ts|sh):\d+:",
    re.DOTALL,
)
_CELL: Final = re.compile(rb"\|\s*\Z")
_CODE: Final = re.compile(rb"(?:NVRM: ?|nvidia-nvswitch\d*: ?)S?Xid \([^()]{1,64}\): (\d{1,9})\b")
# No log prints the time of day without seconds, unless the date stands before it: people do.
_MINUTES: Final = re.compile(rb"(?i)[\[(]?\d{1,2}[:.]\d\d(?:am|pm|h)?[\])]?[,:]?")
_SPEAKER: Final = re.compile(rb"(?i)<(?!(?:" + b"|".join(LEVELS) + rb")>)[a-z][\w-]{0,30}>:?")
_DATE: Final = re.compile(rb"\[?\d{4}-\d\d-\d\d")
_MOST_HEADER_BYTES: Final = 200
# The stamp of a second record that was torn into the first: it ends where the driver's words begin.
_STAMP_BEFORE: Final = re.compile(
    rb"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,64} )?(?:kernel: ?)?(?:<\d{1,3}>)?"
    rb"(?:\[[ \d]{1,10}\.\d{3,9}\](?: ?\[ *[TC]\d+\])? ?|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d:]{11,16}\] ?"
    rb"|(?<=kernel: ))\Z"
)
# A record that was torn within its own stamp.
_TORN_STAMP: Final = re.compile(
    rb"(?:<\d{1,3}>)?\[(?: *\d{1,10}(?:\.\d{0,9})?|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d:]{1,16})"
)
# A JSON record of a log, as far as the driver's words within it.
_JSON_RECORD: Final = re.compile(
    rb'(?:data: )?\[{0,2}\{.{0,4000}?"(?:MESSAGE|message|log|line|msg|_raw|_msg|@message|textPayload)" ?: ?'
    rb'"(?:[^"\\]|\\.){0,400}?(?:NVRM: ?Xid|SXid) \(',
    re.DOTALL,
)


def read(line: Line) -> Iterator[Found | Refused]:
    """The rows of one line of a kernel log."""
    envelope = line.envelope
    if b"Xid (" in envelope.message and envelope.tag in (None, "kernel"):
        relayed = relayed_lines(envelope.message)
        if relayed:
            yield from _read_relayed(line, relayed)
            return
        if envelope.message.lstrip()[:1] in (b"{", b"[") and is_json(envelope.message):
            return  # a rule, an example, or what somebody wrote: its text is no record
    trust = trust_of(envelope)
    if envelope.names == ("label",) and _is_numbered(envelope):
        return
    if trust is None and envelope.names == ("slurm",) and EVENT_START.match(envelope.message):
        trust = "relayed"  # a stamp in brackets that others write too, and behind it the driver's own words
    if trust is None:
        if envelope.tag is not None and envelope.tag in _WRITERS and {"slurm", "stamp"}.isdisjoint(envelope.names):
            yield from _read_host(line, whole_message(line), envelope.tag, None)
        return
    message = whole_message(line)
    if b"Xid (" in message:
        if envelope.names == ("plain",) and _JSON_RECORD.match(message) and not is_json(message.rstrip(b" ,]")):
            yield Refused(line.offset, len(line.text), "JSON record that cannot be read", message[:512])
            return
        if envelope.names == ("plain",) and message[:1].isspace() and message.lstrip().startswith(b"NVRM: "):
            return  # nothing prints a bare record indented: it stands in a block of somebody's YAML or notes
        yield from _read_events(line, message, envelope.reading, envelope.host, trust)
        return
    if trust == "relayed" and envelope.tag not in (None, "kernel"):
        return  # what agents say about hosts in their own words is theirs
    gpu = read_gpu_line(message, line.following)
    row, mark = gpu if gpu is not None else (read_amd_line(message), "")
    if row is not None:
        yield _told(line, row, message, envelope.reading, trust, mark)
        return
    daemon = daemon_of(message)
    if daemon is None:
        yield from _read_host(line, message, "kernel", trust)
    else:
        yield from _read_host(line, daemon[1], daemon[0], None)


def _is_numbered(envelope: Envelope) -> bool:
    """Whether the number before bare words of the driver is the code that they tell of: an entry of a list of codes."""
    code = _CODE.match(envelope.message)
    return code is not None and envelope.labels is not None and envelope.labels.get("task") == code[1].decode("ascii")


def _read_host(line: Line, message: bytes, writer: str, trust: str | None) -> Iterator[Found]:
    """What a message says of the host, in the voice of the kernel or of a daemon."""
    for number in sorted({number for _, number in _WORDS.hits(message)}):
        rule = RULES[number]
        shape = rule.shape.match(message) if writer in rule.writers else None
        row = None if shape is None else rule.row(shape, line)
        if row is not None:
            reading = block_clock(line, line.envelope.reading) if rule.clock else line.envelope.reading
            yield _told(line, row, message, reading, trust, rule.mark)
            return


def _told(line: Line, row: Row, message: bytes, reading: Reading, trust: str | None, mark: str) -> Found:
    if isinstance(row, EventRow) and row.count == 1:
        row.count = occurrences(line)
    if isinstance(row, (GpuError, NodeEvent)):
        row.trust = trust
    return _found(line, row, message, reading, line.envelope.host, mark)


def _read_events(
    line: Line, message: bytes, reading: Reading, host: str | None, trust: str
) -> Iterator[Found | Refused]:
    """All Xid and SXid events in a message: one, or two where records were torn into each other."""
    starts = list(EVENT_START.finditer(message))
    for number, start in enumerate(starts):
        begin = start.start()
        before = message[starts[number - 1].start() if number else 0 : begin]
        stamp = _STAMP_BEFORE.search(before, max(0, len(before) - _MOST_HEADER_BYTES))
        own = reading
        if stamp is not None and stamp.group() and (number or _is_torn(line, before[: stamp.start()])):
            own = clocks_together(reading, unwrap(stamp.group() + b"-").reading)
        elif number == 0 and before and not _TORN_STAMP.fullmatch(before):
            header = before
            if stamp is not None and stamp.group():
                header = before[: stamp.start()]  # the clock of the kernel is known, whatever stands around it
                own = clocks_together(reading, unwrap(stamp.group() + b"-").reading)
            if not _is_header(header) or (_CELL.search(before) and b" | " in message[begin:]):
                return
            trust = "relayed"  # whatever wrote that header, it was not the kernel
        end = starts[number + 1].start() if number + 1 < len(starts) else len(message)
        text = message[begin:end]
        if end < len(message):
            cut = _STAMP_BEFORE.search(text, max(0, len(text) - _MOST_HEADER_BYTES))
            text = text[: cut.start()] if cut is not None else text
        if start.group() == b"Xid (" and line.envelope.tag != "nvidia_dev_xid":
            continue
        row = read_event(text)
        if row is None and not before and _is_kernel(line.envelope.names, line.envelope.tag) and is_garbled(text):
            row = Torn("the address or the code cannot be read")
        if isinstance(row, Torn):
            yield Refused(line.offset, len(line.text), row.reason, text[:512])
        elif row is not None:
            row.trust = row.trust or trust
            row.count = occurrences(line) + suppressed_in(text)
            yield _found(line, row, text.rstrip(), own, host, "")


def _is_torn(line: Line, before: bytes) -> bool:
    """Whether the rest of another record stands before a stamp, rather than a sentence that quotes a record.

    Torn records are glued to each other; and in an envelope of the kernel nobody writes sentences.
    """
    if not before.strip():
        return True
    if before.endswith((b"\\n", b"\\r", b"\\t")):
        return False  # an escape in quoted text
    return before[-1:].isalnum() or _is_kernel(line.envelope.names, line.envelope.tag)


def _is_header(before: bytes) -> bool:
    """Whether what stands before the driver's words can be an envelope that is not known."""
    if len(before) > _MOST_HEADER_BYTES:
        return False
    words = before.split()
    if _NOTES.match(before) or (words and all(_LIST_MARK.fullmatch(word) for word in words)):
        return False
    for number, word in enumerate(words):
        if _SPEAKER.fullmatch(word):
            return False
        if _MINUTES.fullmatch(word) and not (number and _DATE.fullmatch(words[number - 1]) and words[-1][-1:] != b":"):
            return False
    return all(_HEADER_WORD.fullmatch(word) for word in words)


def _read_relayed(line: Line, lines: Iterable[Relayed]) -> Iterator[Found | Refused]:
    for relayed in lines:
        if trust_of(relayed.envelope) is not None:
            inner = Line(line.offset, line.text, relayed.envelope)
            host = line.envelope.host or relayed.host
            yield from _read_events(inner, relayed.envelope.message, relayed.reading, host, relayed.trust)


def _found(line: Line, row: Row, message: bytes, reading: Reading, host: str | None, mark: str) -> Found:
    if isinstance(row, EventRow):
        row.message = message.decode("utf-8", "backslashreplace")
        row.host_raw = host
    elif isinstance(row, Gpu):
        row.host = host
    return Found(row, reading, line.offset, mark)


def detects(head: Head) -> float:
    """How much of the head the kernel wrote."""
    lines = [unwrap(text) for text in head.lines()]
    spoken = [e for e in lines if _is_kernel(e.names, e.tag) or e.message.startswith((b"NVRM: ", b"nvidia-nvswitch"))]
    if not spoken:
        return 0.0
    return 0.5 + 0.45 * len(spoken) / len(lines)


def _is_kernel(names: Iterable[str], tag: str | None) -> bool:
    return tag in ("kernel", "nvidia_dev_xid") or not {"dmesg", "dmesg-x", "kmsg", "talos", "printk"}.isdisjoint(names)


FORMAT = LineFormat(
    name="kernel",
    doc="""The kernel log in any envelope: dmesg in all its options, kmsg, the journal, syslog, container logs, JSON of
    agents. NVIDIA Xid and SXid errors, GPUs that fell off the bus and who sat where; PCIe and memory errors, lost
    storage, hangs, out-of-memory kills, crashes, links, boots and driver loads; AMD GPUs, thinly.""",
    url="https://docs.nvidia.com/deploy/xid-errors/",
    tables=("gpu_errors", "node_events", "gpus"),
    detects=detects,
    signatures=SIGNATURES,
    read=read,
    settle=settle,
    samples=(*SAMPLES, *(sample for topic in _TOPICS for sample in topic.SAMPLES)),
    non_samples=(*NON_SAMPLES, *(text for topic in _TOPICS for text in topic.NON_SAMPLES)),
)
