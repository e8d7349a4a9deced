"""Text that only talks about errors makes no event: prose, code, commands, rules, and other programs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers import kernel
from aftershock.parsers.blocks import Mark
from aftershock.parsers.detect import detect
from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.formats import Found, Head
from aftershock.parsers.registry import formats, line_formats
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.parsers.settle import SourceRules, settle_source
from aftershock.parsers.source import read_stream
from aftershock.schemas.columns import Row
from aftershock.schemas.events import GpuError, NodeEvent

NAMED = {fmt.name: fmt for fmt in formats()}


def events_of(text: str) -> list[Row]:
    """The errors and events that any format finds in a text whose format is not known."""
    data = text.encode("utf-8", "surrogateescape")
    found: list[Found] = []
    marks: list[Mark] = []
    for block in read_stream(io.BytesIO(data), detect(Head("notes.txt", data))):
        found += block.found
        marks += block.marks
    rows = settle_source(found, marks, SourceRules(source="notes.txt"), NAMED.get).rows
    return [row for row in rows if isinstance(row, (GpuError, NodeEvent))]


def said_in(texts: Iterable[str]) -> list[str]:
    """The messages of the lines of samples, without what stands around them."""
    lines = [line for text in texts for line in text.splitlines() if not line.lstrip().startswith("{")]
    messages = [unwrap(line.encode("utf-8", "surrogateescape")).message.decode("utf-8", "replace") for line in lines]
    return sorted({message for message in messages if message.strip()})


# The events of Windows are told over several lines, which single lines cannot quote.
EVENT_FORMATS = [
    fmt
    for fmt in line_formats()
    # What Slurm writes into the output of a job may stand behind anything.
    if not {"gpu_errors", "node_events"}.isdisjoint(fmt.tables) and fmt.name not in ("windows_events", "slurm_step")
]
MESSAGES = said_in(sample.text for fmt in EVENT_FORMATS for sample in fmt.samples)
WORDS = sorted({words.decode().strip(" :,") for rule in kernel.RULES for words in rule.words} | {"NVRM: Xid", "SXid"})

PROSE = [
    "I saw {} on two nodes, what should I do?",
    "Why does it print {}",
    "The log said: {}",
    "See also {}",
    "- {}",
    "* {}",
    "> {}",
    "# {}",
    "1. {}",
    "| {} | reset the GPU |",
    "**{}**",
    "`{}`",
    '"{}"',
    "<li>{}</li>",
    "Re: {}",
    "TODO {}",
    "e.g. {}",
]
CODE = [
    '    print("{}")',
    '  printf("{}\\n");',
    '    assert "{}" in text',
    "// {}",
    "/* {} */",
    "-- {}",
    'PATTERN = re.compile(r"{}")',
    "const line = `{}`;",
    'logger.error("{}")',
    "+    {}",
    "@@ {}",
]
COMMANDS = [
    "grep -F '{}' /var/log/syslog",
    "$ dmesg | grep '{}'",
    "sed -n '/{}/p' kern.log",
    "awk '/{}/ {{ print $1 }}' kern.log",
    "echo '{}' > /dev/kmsg",
    "logger -t kernel '{}'",
    "  812  journalctl -k | grep '{}'",
    'ssh gpu017 "dmesg | grep {}"',
    'type=USER_CMD msg=audit(1772522142.123:77): pid=7 uid=1000 cmd="{}" exe="/usr/bin/sudo" res=success',
    "Mar  3 07:15:42 gpu021 sudo:      ops : TTY=pts/0 ; PWD=/root ; USER=root ; COMMAND=/usr/bin/grep {} /var/log/syslog",
    "Mar  3 07:15:42 gpu021 CRON[71]: (root) CMD (grep '{}' /var/log/kern.log)",
    "Mar  3 07:15:42 gpu021 ansible-command[71]: Invoked with _raw_params=grep '{}' creates=None",
    "Mar  3 07:15:42 gpu021 bash[71]: HISTORY: PID=71 UID=0 {}",
    "Mar  3 07:15:42 gpu021 systemd-coredump[71]: {}",
]
RULES = [
    "    expr: {}",
    "      - pattern: '{}'",
    '    match: "{}"',
    "  - alert: {}",
    "      summary: {}",
    "      description: '{}'",
    '        regex: "{}"',
    "  message: {}",
    "      - {}",
    "reason = '{}'",
    "pattern={}",
]
PROGRAMS = [
    "Mar  3 07:15:42 gpu021 python3[71]: {}",
    "Mar  3 07:15:42 gpu021 trainer: {}",
    "2026-03-03T07:15:42.250000+09:00 gpu021 kubelet[71]: {}",
    "<14>1 2026-03-03T07:15:42Z gpu021 trainer 71 - - {}",
    "2026-03-03 07:15:42,250 INFO trainer: {}",
    "[2026-03-03T07:15:42.250] error: {}",
    "INFO:root:{}",
]
TEMPLATES = [*PROSE, *CODE, *COMMANDS, *RULES, *PROGRAMS]


@pytest.mark.parametrize("template", TEMPLATES)
def test_text_around_a_message_makes_no_event_of_it(template: str) -> None:
    texts = [template.replace("{{", "{").replace("}}", "}").replace("{}", message) for message in MESSAGES]
    assert len(texts) > 120
    assert [row.message for row in events_of("\n".join(texts) + "\n")] == []


SAID_AFTER = [
    "is what it says",
    "means that the GPU is gone",
    "was found in the docs",
    "(see the manual)",
    "?",
    "and so on",
]


@pytest.mark.parametrize("after", SAID_AFTER)
def test_words_that_a_sentence_begins_with_make_no_event(after: str) -> None:
    assert events_of("".join(f"{words} {after}\n" for words in WORDS)) == []


@pytest.mark.parametrize("key", ["expr", "query", "title", "pattern", "regex"])
def test_dashboards_and_queries_make_no_event(key: str) -> None:
    panels = [{"panels": [{"id": 3, "targets": [{key: message, "refId": "A"}]}]} for message in MESSAGES]
    loki = [{key: 'sum(count_over_time({job="kernel"} |= "' + message + '" [5m]))'} for message in MESSAGES]
    assert events_of("".join(json.dumps(item) + "\n" for item in [*panels, *loki])) == []
    for item in [*panels, *loki][::15]:
        assert events_of(json.dumps(item) + "\n") == []
        assert events_of(json.dumps(item, indent=2) + "\n") == []


def test_entries_of_other_programs_in_the_journal_make_no_event() -> None:
    entry = {"_TRANSPORT": "stdout", "SYSLOG_IDENTIFIER": "trainer", "_HOSTNAME": "n"}
    assert events_of("".join(json.dumps({**entry, "MESSAGE": message}) + "\n" for message in MESSAGES)) == []


# Whatever the other lines of a file are: a real record stands above each of these.
ABOVE = "[  512.000100] NVRM: Xid (PCI:0000:84:00): 61, pid=7, name=a.out, 0a76 00000000\n"
FALLEN = "NVRM: Xid (PCI:0000:9d:00): 79, GPU has fallen off the bus."
NOTES = [
    "| 79 | {} |",
    "| gpu021 | 79 | {} |",
    "| 79 | {} | reset |",
    "79 | {} | reset",
    "|79|{}|",
    "<td>79</td><td>{}</td>",
    "79: {}",
    "79, {}",
    "79\t{}",
    "79 - {}",
    "- 79: {}",
    "[1] {}",
    "bob: {}",
    "[10:02] bob: {}",
    "[10:02] <bob> {}",
    "2026-03-03 07:16 <bob> {}",
    "[2026-03-03 07:16] bob: {}",
    "> {}",
    ">{}",
    "> [  512.000100] {}",
    ">[  512.000100] {}",
    "- [  512.000100] {}",
    "xid.c:79: {}",
    "notes.md:12:{}",
    "e.g.: {}",
    "samples:\n  - line: {}\n    code: 79\nmessage: {}",
]
TALK = [
    {"alert": "GpuXid", "expr": "x > 0", "annotations": {"summary": "Kernel: {}"}},
    {"instruction": "Explain this line", "input": "{}", "output": "The GPU is gone"},
    {"messages": [{"role": "user", "content": "{}"}, {"role": "assistant", "content": "{}"}]},
    {"conversations": [{"from": "human", "value": "{}"}]},
    {"title": "Xid 79", "body": "{}", "user": {"login": "bob"}},
    {"message": "{}", "example": True, "pattern": "NVRM: Xid"},
    {"message": "{}", "host": "gpu021", "example": True},
    {"timestamp": 1772522142500, "message": "{}", "sample": True},
    {"pattern": "Xid", "lines": ["{}"]},
    {"samples": ["{}"]},
    {"query": "{}", "user": "bob"},
    {"prompt": "{}", "completion": "reset"},
    {"question": "why?", "context": "{}"},
    {"text": "{}", "label": 3},
    {"user": "bob", "text": "{}", "ts": "1772522142.5"},
    {"panels": [{"description": "{}"}]},
    # A record on a line of its own within what somebody wrote.
    {"title": "Xid 79", "body": "I get\n[  512.000100] {}\nWhy?", "user": {"login": "bob"}},
    {"fields": {"summary": "lost", "description": "See:\n[  512.000100] {}", "reporter": {"name": "bob"}}},
    {"role": "user", "content": "it says\tMay  7 01:39:28 n-1 kernel: {}"},
]


@pytest.mark.parametrize("template", [*NOTES, *map(json.dumps, TALK)])
@pytest.mark.parametrize("above", ["", ABOVE])
def test_notes_and_talk_make_no_event_beside_a_record(template: str, above: str) -> None:
    rows = events_of(above + template.replace("{}", FALLEN) + "\n")
    assert [row.code for row in rows if isinstance(row, GpuError)] == [61] * bool(above)


def test_a_word_that_grep_coloured_is_found() -> None:
    coloured = FALLEN.replace("Xid", "\x1b[01;31m\x1b[KXid\x1b[m\x1b[K")
    assert [row.code for row in events_of(f"[  512.000100] {coloured}\n") if isinstance(row, GpuError)] == [79]


@pytest.mark.parametrize("stamp", ["[...]", "[  512.000100]"])
def test_a_stamp_that_was_left_out_is_a_stamp(stamp: str) -> None:
    (row,) = (row for row in events_of(f"{stamp} {FALLEN}\n") if isinstance(row, GpuError))
    assert (row.code, row.trust) == (79, "relayed" if "..." in stamp else "kernel")


def test_what_a_label_an_alert_or_a_pipe_hands_on_is_an_event() -> None:
    firing = json.dumps({"status": "firing", "annotations": {"summary": FALLEN}})
    for line in (firing, f"3: {FALLEN}", f"12: [  512.000100] {FALLEN}", f"dmesg-1  | {FALLEN}"):
        assert [row.code for row in events_of(ABOVE + line + "\n") if isinstance(row, GpuError)] == [61, 79], line


FILLERS = """my node the driver GPU Xid XID NVRM: kernel: says prints error when we saw OOM killed link down server not
responding OK panic AER nfs: mce: EDAC watchdog: Lustre: 79 79, 0000:9d:00.0 grep dmesg # // ; = : if then"""
PLAIN_WORDS = st.sampled_from(FILLERS.split())


@settings(max_examples=300, deadline=None)
@given(
    st.lists(PLAIN_WORDS, max_size=6),
    st.sampled_from(WORDS),
    st.lists(PLAIN_WORDS, max_size=6),
)
def test_words_among_words_make_no_event(before: list[str], words: str, after: list[str]) -> None:
    assert events_of(" ".join([*before, words, *after, "says my colleague"]) + "\n") == []


@settings(max_examples=300, deadline=None)
@given(
    st.lists(PLAIN_WORDS, min_size=1, max_size=6),
    st.sampled_from(MESSAGES),
    st.sampled_from(["{}", '"{}"', "'{}'", "`{}`", "({})", "print({})"]),
)
def test_sentences_that_quote_a_message_make_no_event(before: list[str], message: str, quote: str) -> None:
    assert events_of(" ".join(["We", "saw", *before, quote.format(message)]) + "\n") == []


@pytest.mark.parametrize(
    "line",
    [
        "2026-10-02T20:53:38-07:00 n-1 kernel: r8169 0000:06:00.0 eth0: RTL8125B, 00:00:5e:00:53:01, XID 641, IRQ 158",
        "[    2.1] r8169 0000:06:00.0 eth0: RTL8168h/8111h, 00:00:5e:00:53:07, XID 541, IRQ 130",
        "2026-03-01 12:00:00 UTC [4242] ERROR:  could not access status of transaction 79 (xid 79, oldest xid 31)",
        "LOG:  automatic vacuum of table: oldest xmin: 79, XID (79): 31",
        "mysqld[7]: XA COMMIT xid (31): 79, done",
        'dhclient[7]: DHCPREQUEST on eno1 to 10.0.0.1 port 67 (xid=0x79)',
        "NVRM: Xid (PCI:<bdf>): <code>, pid=<pid>, name=<name>, <text>",
        "NVRM: Xid (PCI:%04x:%02x:%02x): %d, ",
        "NVRM: Xid (PCI:0000:00:00): 79 is an example",
    ],
)  # fmt: skip
def test_other_things_of_that_name(line: str) -> None:
    assert events_of(line + "\n") == []


def test_a_bare_record_in_an_indented_block_is_no_event() -> None:
    rule = "    description: |\n      NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
    assert rows_of_text(rule, kernel.FORMAT) == []
    assert len(rows_of_text("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n", kernel.FORMAT)) == 1
