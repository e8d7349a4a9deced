"""Whatever stands in a file: readers do not raise, take time in proportion to it, and keep no more than a block of it."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aftershock.parsers import kernel
from aftershock.parsers.blocks import Mark
from aftershock.parsers.detect import Detected, detect
from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.formats import Found, Head, Line, LineFormat
from aftershock.parsers.kernel.rules import Rule
from aftershock.parsers.registry import formats, line_formats
from aftershock.parsers.resolve import ClockRules
from aftershock.parsers.settle import SourceRules, settle_source
from aftershock.parsers.source import read_stream
from tests import timing

NAMED = {fmt.name: fmt for fmt in formats()}
RULES = SourceRules(source="s", clock=ClockRules("UTC", year=2026), burst_gap=60_000_000)
SAMPLES = [sample.text.encode("utf-8", "surrogateescape") for fmt in line_formats() for sample in fmt.samples]
LINES = sorted({line for text in SAMPLES for line in text.splitlines() if line.strip()})
MESSAGES = sorted({message for line in LINES if (message := unwrap(line).message).strip()})

ENVELOPES = [
    b"%s",
    b"kernel: %s",
    b"May  7 01:39:28 n-1 kernel: [ 4117.304981] %s\r",
    b"<4>1 2026-03-01T12:00:00Z n-1 kernel - - - [ 4242.000001] %s",
    b"[   52.731904][ T1946] %s",
    b"[Sat Aug 31 10:44:08 2024] %s",
    b"kern  :err   : [   52.731904] %s",
    b"4,77,52731904,-;%s",
    b"192.0.2.9: kern:     err: [2026-05-05T05:05:05.000000009Z]: %s",
    b"gpu017: [   52.731904] %s",
    b"MESSAGE=%s",
    b"2026-03-01T12:00:00.987654321Z stdout P %s",
    b'{"__REALTIME_TIMESTAMP":"1757508815654321","_TRANSPORT":"kernel","MESSAGE":"%s"}',
    b'{"log":"[   52.731904] %s\\n","stream":"stderr","time":"2026-02-02T02:02:02.5Z"}',
    b'  "Message" : "%s",',
    b"May  7 01:39:28 n-1 kernel: message repeated 3 times: [ %s]",
    b"May  7 01:39:28 n-1 systemd-shutdown[1]: %s",
    b"\x1b[32m[   52.731904] \x1b[0m\x1b[33m%s\x1b[0m",
]
THROUGH_ALL = Detected("lines", None, formats=line_formats())


def read_all(data: bytes, detected: Detected = THROUGH_ALL) -> int:
    """Read a text to the end of the way that it goes in a run; the number of rows."""
    found: list[Found] = []
    marks: list[Mark] = []
    for block in read_stream(io.BytesIO(data), detected):
        found += block.found
        marks += block.marks
    return len(settle_source(found, marks, RULES, NAMED.get).rows)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A message of a sample with bytes cut out, put in, changed, doubled."""
    text = bytearray(draw(st.sampled_from(MESSAGES)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(text)))
        end = min(len(text), at + draw(st.integers(0, 12)))
        what = draw(st.sampled_from(["cut", "put", "double", "other"]))
        if what == "cut":
            del text[at:end]
        elif what == "put":
            text[at:end] = draw(st.binary(max_size=8))
        elif what == "double":
            text[at:at] = text[at:end] * draw(st.integers(1, 3))
        else:
            text[at:at] = draw(st.sampled_from(MESSAGES))[: draw(st.integers(0, 60))]
    return bytes(text)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(st.tuples(st.sampled_from(ENVELOPES), mutated()), min_size=1, max_size=6))
def test_mutations_in_any_envelope_never_raise(lines: list[tuple[bytes, bytes]]) -> None:
    read_all(b"\n".join(envelope.replace(b"%s", message) for envelope, message in lines))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.binary(max_size=120) | st.sampled_from(LINES), max_size=8),
    st.sampled_from([b"\n", b"\r\n", b"\0", b" "]),
)
def test_arbitrary_bytes_between_lines_never_raise(parts: list[bytes], between: bytes) -> None:
    data = between.join(parts)
    read_all(data)
    found = detect(Head("any", data))
    if found.how != "refused":
        read_all(data, found)


@settings(max_examples=150, deadline=None)
@given(mutated(), st.lists(mutated(), max_size=4), st.integers(0, 200))
def test_any_line_with_any_lines_below_never_raises(message: bytes, below: list[bytes], cut: int) -> None:
    following = b"\n".join(below)[: max(0, 8192 - cut)]
    for fmt in line_formats():
        list(fmt.read(Line(0, message, unwrap(message), following)))


SMALL, LARGE = 20_000, 200_000
# What a quadratic grammar takes for LARGE is a hundred times what it takes for SMALL; noise of the machine is less.
MOST_TIMES = 40
# Below this no ratio is measured.
FREE_SECONDS = 0.05


def fragments_of(message: bytes) -> Iterator[bytes]:
    """What a hostile line may repeat: the words of a message, growing beginnings of it, and bytes of each kind."""
    words = message.split(b" ")[:24]
    yield from (word + b" " for word in words)
    for count in range(1, len(words) + 1, 3):
        yield b" ".join(words[:count]) + b" "
    yield from (b"a", b"0", b" ", b"a ", b"0:", b"a: ", b"(", b"[0", b", ", b"\xff")


def hostile(message: bytes, size: int) -> Iterator[bytes]:
    """Long lines made of the pieces of a message: repeated from the start, and after a true beginning."""
    words = message.split(b" ")
    beginnings = [b"", *(b" ".join(words[:count]) + b" " for count in range(1, min(len(words), 12), 2)), message]
    for fragment in dict.fromkeys(fragments_of(message)):
        body = (fragment * (size // len(fragment) + 1))[:size]
        for beginning in beginnings:
            yield beginning + body


def seconds(action: Callable[[bytes], object], text: bytes) -> float:
    return timing.seconds(lambda: action(text), 2, FREE_SECONDS)


def assert_linear(action: Callable[[bytes], object], message: bytes) -> None:
    for small, large in zip(hostile(message, SMALL), hostile(message, LARGE), strict=True):
        taken = seconds(action, large)
        if taken > FREE_SECONDS:
            assert taken < MOST_TIMES * max(seconds(action, small), FREE_SECONDS / MOST_TIMES), large[:200]


def messages_for(rule: Rule) -> list[bytes]:
    return [message for message in MESSAGES if rule.shape.match(message)]


@pytest.mark.parametrize("rule", kernel.RULES, ids=lambda rule: rule.words[0].decode())
def test_the_shape_of_every_rule_is_linear(rule: Rule) -> None:
    messages = messages_for(rule)
    assert messages, "no sample shows this rule"
    for message in messages[:3]:
        assert_linear(rule.shape.match, message)


@pytest.mark.parametrize("fmt", line_formats(), ids=lambda fmt: fmt.name)
def test_reading_a_line_is_linear(fmt: LineFormat) -> None:
    """The whole way of a line: its envelopes, its message, what stands below it."""

    def read(text: bytes) -> None:
        list(fmt.read(Line(0, text, unwrap(text), text[:8192])))

    lines = [line for sample in fmt.samples for line in sample.text.encode("utf-8", "surrogateescape").splitlines()]
    for line in lines[:: max(1, len(lines) // 6)]:
        words = line.split(b" ")
        for fragment in {line, b" ".join(words[:3]) + b" ", words[0], b"a ", b"[", b'{"', b"Xid (", b"NVRM: Xid (PCI:"}:
            small, large = ((fragment * (size // max(1, len(fragment)) + 1))[:size] for size in (SMALL, LARGE))
            taken = seconds(read, large)
            if taken > 2 * FREE_SECONDS:
                assert taken < MOST_TIMES * max(seconds(read, small), FREE_SECONDS / MOST_TIMES), large[:200]


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_unwrapping_is_linear(envelope: bytes) -> None:
    head = envelope.partition(b"%s")[0]
    for fragment in {
        envelope,
        head or b"x",
        b"[ 1.5] ",
        b"<4>",
        b"a: ",
        b"\x1b[3",
        b'{"log":"',
        b"message repeated 3 times: [ ",
    }:
        small, large = ((head + fragment * (size // len(fragment) + 1))[:size] for size in (SMALL, LARGE))
        taken = seconds(unwrap, large)
        if taken > FREE_SECONDS:
            assert taken < MOST_TIMES * max(seconds(unwrap, small), FREE_SECONDS / MOST_TIMES), large[:200]


# A process that reads a file as `aftershock parse` does, and says how much it ever held.
# (The largest resident set that getrusage knows counts the process that started this one.)
PARSE = """
import sys
from aftershock.parse_command import parse_files
parse_files(sys.argv[1:], None, None, None, None)
status = open("/proc/self/status").read()
print(int(status.split("VmHWM:")[1].split()[0]) // 1024, file=sys.stderr)
"""
LONG_MEGABYTES = 100
# The interpreter with its libraries holds some 100 MB, a block with its window and hits as much again.
MOST_MEGABYTES = 256


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    "piece",
    [b"x", b"NVRM: Xid (PCI:0000:9d:00): 31, pid=7, name=a.out, Ch 00000002 ", b'{"log":"Oops: ', b"\x1b[31m[ 1.5] "],
    ids=["letters", "errors", "json", "colours"],
)
def test_a_line_of_a_hundred_megabytes_does_not_exhaust_memory(piece: bytes, tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    megabyte = (piece * (1_000_000 // len(piece) + 1))[:1_000_000]
    with open(path, "wb") as out:
        out.write(b"[ 1.5] Oops: 0000 [#1] SMP\n")
        for _ in range(LONG_MEGABYTES):
            out.write(megabyte)
        out.write(b"\n[ 9.5] nfs: server nas-3 OK\n")
    done = subprocess.run([sys.executable, "-c", PARSE, str(path)], capture_output=True, check=True, timeout=120)
    assert [b"panic" in row or b"nfs_ok" in row for row in done.stdout.splitlines()] == [True, True]
    assert b"line longer than" in done.stderr
    assert int(done.stderr.split()[-1]) < MOST_MEGABYTES
