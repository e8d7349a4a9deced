"""Writes a whole block as Prometheus does: index with postings, chunks, tombstones, meta.json."""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import google_crc32c

from tests.parsers.prometheus.encoders import uvarint, varint

ULID = "01KJTESTB10CK0000000000000"


class WrittenChunk(NamedTuple):
    """A chunk: its first and last time (milliseconds), its encoding, its bytes from the count on."""

    first: int
    last: int
    data: bytes
    encoding: int = 1


class WrittenSeries(NamedTuple):
    """A series: its labels, the name among them, and its chunks."""

    labels: Mapping[str, str]
    chunks: Sequence[WrittenChunk]


def checksum(data: bytes) -> bytes:
    """CRC32C as four bytes."""
    return struct.pack(">I", google_crc32c.value(data))


def write_block(
    folder: Path,
    series: Sequence[WrittenSeries],
    *,
    thanos: Mapping[str, Any] | None = None,
    stones: Sequence[tuple[int, int, int]] = (),
    chunks_per_file: int = 1 << 30,
) -> Path:
    """Write a block. ``stones``: (number of the series, first, last time) that is deleted."""
    (folder / "chunks").mkdir(parents=True)
    ordered = sorted(series, key=lambda one: sorted(one.labels.items()))
    places = _write_chunks(folder, ordered, chunks_per_file)
    refs = _write_index(folder / "index", ordered, places)
    body = b"".join(uvarint(refs[number]) + varint(first) + varint(last) for number, first, last in stones)
    (folder / "tombstones").write_bytes(b"\x01\x30\xba\x30\x01" + body + checksum(body))
    times = [time for one in ordered for chunk in one.chunks for time in (chunk.first, chunk.last)]
    meta = {
        "ulid": ULID,
        "minTime": min(times, default=0),
        "maxTime": max(times, default=0) + 1,
        "stats": {"numSeries": len(ordered), "numChunks": len(times) // 2},
        "compaction": {"level": 1, "sources": [ULID]},
        "version": 1,
    }
    if thanos is not None:
        meta["thanos"] = thanos
    (folder / "meta.json").write_text(json.dumps(meta, indent="\t"))
    return folder


def _write_chunks(folder: Path, series: Sequence[WrittenSeries], per_file: int) -> list[list[int]]:
    places: list[list[int]] = []
    number, out = 0, bytearray(b"\x85\xbd\x40\xdd\x01\0\0\0")
    file = 0
    for one in series:
        own = []
        for chunk in one.chunks:
            if number and number % per_file == 0:
                (folder / "chunks" / f"{file + 1:06d}").write_bytes(out)
                file, out = file + 1, bytearray(b"\x85\xbd\x40\xdd\x01\0\0\0")
            own.append(file << 32 | len(out))
            summed = bytes((chunk.encoding,)) + chunk.data
            out += uvarint(len(chunk.data)) + summed + checksum(summed)
            number += 1
        places.append(own)
    (folder / "chunks" / f"{file + 1:06d}").write_bytes(out)
    return places


def _section(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body + checksum(body)


def _write_index(path: Path, series: Sequence[WrittenSeries], places: Sequence[Sequence[int]]) -> list[int]:
    symbols = sorted({text for one in series for label in one.labels.items() for text in label} | {""})
    number = {text: i for i, text in enumerate(symbols)}
    texts = b"".join(uvarint(len(text.encode())) + text.encode() for text in symbols)
    out = bytearray(b"\xba\xaa\xd7\x00\x02")
    out += _section(struct.pack(">I", len(symbols)) + texts)
    series_at = len(out)
    refs = []
    postings: dict[tuple[str, str], list[int]] = defaultdict(list)
    for one, own in zip(series, places, strict=True):
        out += bytes(-len(out) % 16)
        refs.append(len(out) // 16)
        labels = sorted(one.labels.items())
        body = bytearray(uvarint(len(labels)))
        for name, value in labels:
            body += uvarint(number[name]) + uvarint(number[value])
            postings[name, value].append(refs[-1])
        postings["", ""].append(refs[-1])
        body += uvarint(len(own))
        last_time = last_place = 0
        for i, (chunk, place) in enumerate(zip(one.chunks, own, strict=True)):
            body += varint(chunk.first) if i == 0 else uvarint(chunk.first - last_time)
            body += uvarint(chunk.last - chunk.first)
            body += uvarint(place) if i == 0 else varint(place - last_place)
            last_time, last_place = chunk.last, place
        out += uvarint(len(body)) + body + checksum(bytes(body))
    postings_at, table = len(out), bytearray(struct.pack(">I", len(postings)))
    for (name, value), own_refs in sorted(postings.items()):
        out += bytes(-len(out) % 4)
        table += b"\x02" + uvarint(len(name.encode())) + name.encode()
        table += uvarint(len(value.encode())) + value.encode() + uvarint(len(out))
        out += _section(struct.pack(f">I{len(own_refs)}I", len(own_refs), *own_refs))
    label_table_at = len(out)
    out += _section(struct.pack(">I", 0))
    table_at = len(out)
    out += _section(bytes(table))
    toc = struct.pack(">6Q", 5, series_at, postings_at, label_table_at, postings_at, table_at)
    path.write_bytes(out + toc + checksum(toc))
    return refs
