"""Answers of Prometheus' remote read, saved to a file: samples in snappy, or chunks in a stream of frames.

    curl -X POST http://prometheus:9090/api/v1/read --data-binary @request -H 'Content-Encoding: snappy' > answer

Documented at https://prometheus.io/docs/prometheus/latest/querying/remote_read_api/. Markers of staleness are there by
their bits. Which of the two an answer is, is told by its first bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO, Final, cast

import google_crc32c

from aftershock.parsers.formats import DocumentFormat, Head, Refused, Sample, expect
from aftershock.parsers.prometheus import remote_read
from aftershock.parsers.prometheus.columns import MetricsSource, SeriesBatch, Wanted
from aftershock.parsers.prometheus.rows import reader

_HEAD: Final = 64 << 10


def detects(head: Head) -> float:
    """Sure of messages that go down to the name of a label."""
    # The first byte behind the length of a frame is one of a checksum: nothing that samples begin with.
    if remote_read.is_samples(head.data):
        return 0.96
    return 0.95 if remote_read.is_streamed(head.data) else 0.0


def read_metrics(source: MetricsSource, wanted: Wanted) -> Iterator[SeriesBatch | Refused]:
    """The samples of an answer."""
    stream = _Begun(source.open(""))
    again = replace(source, open=lambda name: cast(BinaryIO, stream))
    read = remote_read.read_samples if remote_read.is_samples(stream.begin(_HEAD)) else remote_read.read_streamed
    yield from read(again, wanted)


class _Begun:
    """A stream whose beginning was looked at."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._held = b""

    def begin(self, size: int) -> bytes:
        """The first bytes, which are read again afterwards."""
        while len(self._held) < size and (data := self._stream.read(size - len(self._held))):
            self._held += data
        return self._held

    def read(self, size: int = -1) -> bytes:
        """The next bytes: as many as asked for, all of them if there are fewer."""
        if not self._held:
            return self._stream.read(size)
        data, self._held = (self._held, b"") if size < 0 else (self._held[:size], self._held[size:])
        return data + self._stream.read() if size < 0 else data

    def __enter__(self) -> _Begun:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()


def _message(number: int, data: bytes) -> bytes:
    assert len(data) < 128
    return bytes((number << 3 | 2, len(data))) + data


def _label(name: bytes, value: bytes) -> bytes:
    return _message(1, _message(1, name) + _message(2, value))


_LABELS: Final = _label(b"__name__", b"up") + _label(b"instance", b"10.20.0.17:9400")
# Values 1 and 0 at 2026-03-01T12:00:00Z and 15 seconds later; a stream has a marker of staleness for the second.
_SERIES: Final = _LABELS + b"".join(
    _message(2, bytes.fromhex(sample)) for sample in ("09000000000000f03f10809494caca33", "10988995caca33")
)
_ANSWER: Final = _message(1, _message(1, _SERIES))
# A literal of snappy: nothing in it is said twice.
_PACKED: Final = bytes((len(_ANSWER), 60 << 2, len(_ANSWER) - 1)) + _ANSWER
_CHUNK: Final = bytes.fromhex("000280a8a89495673ff00000000000009875c3f40000000000000020")
_TIMES: Final = bytes.fromhex("08809494caca3310988995caca33")
_FRAME: Final = _message(1, _LABELS + _message(2, _TIMES + b"\x18\x01" + _message(4, _CHUNK)))
_STREAMED: Final = bytes((len(_FRAME),)) + google_crc32c.value(_FRAME).to_bytes(4, "big") + _FRAME

_BEGAN: Final = 1772366400000000
_SERIES_ROW: Final = expect("series", metric="up", labels={"instance": "10.20.0.17:9400"})

FORMAT: Final = DocumentFormat(
    name="remote_read",
    doc="Answers of Prometheus' remote read that were saved to a file, as samples (snappy) or as a stream of chunks. "
    "External labels are among the labels here, unlike in blocks.",
    url="https://prometheus.io/docs/prometheus/latest/querying/remote_read_api/",
    tables=("series", "samples"),
    detects=detects,
    read=reader(read_metrics),
    read_metrics=read_metrics,
    binary=True,
    samples=(
        Sample(
            _PACKED.decode("utf-8", "surrogateescape"),
            (
                _SERIES_ROW,
                expect("samples", time=_BEGAN, value=1.0, stale=False),
                expect("samples", time=_BEGAN + 15_000_000, value=0.0, stale=False),
            ),
            title="SAMPLES: one message in snappy",
        ),
        Sample(
            _STREAMED.decode("utf-8", "surrogateescape"),
            (
                _SERIES_ROW,
                expect("samples", time=_BEGAN, value=1.0, stale=False),
                expect("samples", time=_BEGAN + 15_000_000, value=None, stale=True),
            ),
            title="STREAMED_XOR_CHUNKS: frames with chunks",
        ),
    ),
    non_samples=("up 1\n", "\n\x10\n\x0e__name__\n", "snappy\n"),
)
