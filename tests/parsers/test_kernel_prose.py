"""The kernel's words in prose, torn and in any mixture: nothing false comes of them, and nothing is raised."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers import kernel
from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.formats import Found, Line
from aftershock.parsers.kernel.samples import NON_SAMPLES
from aftershock.parsers.kernel.xid import EVENT_START, pci_of
from tests.parsers.test_kernel import ENVELOPES, MESSAGES, read_line

WORDS = [
    "my",
    "node",
    "prints",
    "NVRM:",
    "Xid",
    "XID",
    "79,",
    "saw",
    "the",
    "driver",
    "GPU",
    "fell",
    "off",
    "grep",
    "error",
]


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8), st.sampled_from(MESSAGES), st.booleans())
def test_prose_around_the_words_gives_nothing(words: list[str], message: tuple[bytes, int, str], quote: bool) -> None:
    text = " ".join([*words, "like"]).encode() + b" " + (b'"%s"' if quote else b"%s") % message[0]
    assert read_line(text) == []


@given(
    st.binary(max_size=300), st.sampled_from([m for m, _, _ in MESSAGES]), st.integers(0, 80), st.binary(max_size=200)
)
def test_arbitrary_bytes_never_raise(before: bytes, message: bytes, cut: int, after: bytes) -> None:
    text = (before + message[:cut] + after).replace(b"\n", b" ")
    found = [item for item in read_line(text, after) if isinstance(item, Found)]
    kernel.FORMAT.settle(found)


@given(
    st.lists(st.sampled_from([t.encode() for t in NON_SAMPLES] + [e % m for e in ENVELOPES for m, _, _ in MESSAGES]))
)
def test_settling_takes_any_mixture(lines: list[bytes]) -> None:
    found: list[Found] = []
    for number, line in enumerate(lines):
        items = kernel.read(Line(number * 100, line.rstrip(), unwrap(line.rstrip())))
        found += [item for item in items if isinstance(item, Found)]
    assert len(kernel.FORMAT.settle(found)) <= len(found)


def test_a_long_line_takes_linear_time() -> None:
    text = b"NVRM: Xid (PCI:0000:9d:00): 31, pid=7, name=" * 20_000
    assert len(read_line(text)) == 20_000
    assert EVENT_START.search(b"NVRM: Xid" * 100_000) is None


def test_what_is_no_address() -> None:
    for text in (b"", b"9d", b"0000:9d:00.8", b"0000:9d:0", b"000g:9d:00"):
        assert pci_of(text) is None
