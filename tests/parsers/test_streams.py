"""Compressed streams: read whole, in members, torn, and as bombs."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers import streams
from aftershock.parsers.streams import StreamError, compression_of, decompressed

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


def unpack(data: bytes) -> bytes:
    kind = compression_of(data)
    out = io.BytesIO()
    stream = decompressed(io.BytesIO(data), kind)
    while piece := stream.read(1000):
        out.write(piece)
    return out.getvalue()


@pytest.mark.parametrize("kind", PACKERS)
@settings(max_examples=20)
@given(parts=st.lists(st.binary(max_size=3000), min_size=1, max_size=3))
def test_members_that_follow_each_other_are_one_stream(kind: str, parts: list[bytes]) -> None:
    data = b"".join(PACKERS[kind](part) for part in parts)
    assert compression_of(data) == kind
    assert unpack(data) == b"".join(parts)


@pytest.mark.parametrize("kind", PACKERS)
def test_a_torn_stream_says_so(kind: str) -> None:
    data = PACKERS[kind](bytes(range(256)) * 2000)
    with pytest.raises(StreamError, match="torn or damaged"):
        unpack(data[: len(data) // 2])


@pytest.mark.parametrize("kind", PACKERS)
def test_damage_in_the_middle_says_so(kind: str) -> None:
    data = bytearray(PACKERS[kind](b"".join(b"%d" % n for n in range(20000))))
    data[len(data) // 2 : len(data) // 2 + 40] = b"\xff" * 40
    with pytest.raises(StreamError, match="torn or damaged"):
        unpack(bytes(data))


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz", "bzip2"])
def test_a_bomb_is_cut_off(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "FREE_BYTES", 1 << 20)
    with pytest.raises(StreamError, match="bomb"):
        unpack(PACKERS[kind](bytes(64 << 20)))


def test_plain_data_passes_through() -> None:
    raw = io.BytesIO(b"plain")
    assert decompressed(raw, compression_of(b"plain")) is raw
