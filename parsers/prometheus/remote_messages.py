"""Messages of remote read: labels, samples, chunks and native histograms in protocol buffers, without generated code.

    message ReadResponse  { repeated QueryResult results = 1; }
    message QueryResult   { repeated TimeSeries timeseries = 1; }
    message TimeSeries    { repeated Label labels = 1; repeated Sample samples = 2; repeated Histogram histograms = 4; }
    message ChunkedSeries { repeated Label labels = 1; repeated Chunk chunks = 2; }

https://github.com/prometheus/prometheus/blob/main/prompb/types.proto. A field that is zero is not written. Messages are
taken as ranges of the one buffer that holds them all, so that nothing is copied on the way down.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aftershock.parsers.documents.proto_wire import BYTES, FIXED32, FIXED64, VARINT, NotProto, fields_of
from aftershock.parsers.prometheus.columns import Labels
from aftershock.parsers.prometheus.histogram import HistogramSample, layout_of, sample_of
from aftershock.parsers.prometheus.varbit import OutOfBits
from aftershock.parsers.prometheus.varints import all_uvarints, read_uvarint, zigzag

_SAMPLE_TAG: Final = 2 << 3 | BYTES
_VALUE_TAG: Final = 1 << 3 | FIXED64
_TIME_TAG: Final = 2 << 3 | VARINT
_LABELS, _SAMPLES, _HISTOGRAMS = 1, 2, 4
_NAME, _VALUE = 1, 2


class SeriesMessage(NamedTuple):
    """A TimeSeries: sorted labels, milliseconds, values, native histograms."""

    labels: Labels
    times: NDArray[np.int64]
    values: NDArray[np.float64]
    histograms: list[HistogramSample]


class ChunkMessage(NamedTuple):
    """A chunk: first and last time, encoding, bytes from its count on."""

    first: int
    last: int
    encoding: int
    data: bytes


def messages_in(data: bytes, begin: int, end: int, number: int) -> Iterator[tuple[int, int]]:
    """Where the messages of one field stand in the message at [begin, end).

    Raises:
        NotProto: the bytes are no message.
    """
    at = begin
    while at < end:
        key, at = _varint(data, at, end)
        wire = key & 7
        if wire == VARINT:
            _, at = _varint(data, at, end)
            continue
        if wire == BYTES:
            size, at = _varint(data, at, end)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise NotProto("a field of an unknown kind")
        if size > end - at:
            raise NotProto("a field is longer than its message")
        if wire == BYTES and key >> 3 == number:
            yield at, at + size
        at += size


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    found = read_uvarint(data, at)
    if found is None or found[1] > end:
        raise NotProto("a number that does not end")
    return found


def labels_of(data: bytes, begin: int, end: int) -> Labels:
    """The labels of a series, sorted by name.

    Raises:
        NotProto: the bytes are no message.
    """
    labels = []
    for first, last in messages_in(data, begin, end, _LABELS):
        texts = {field.number: field.text() for field in fields_of(data[first:last]) if field.wire == BYTES}
        labels.append((texts.get(_NAME, ""), texts.get(_VALUE, "")))
    return tuple(sorted(labels))


def series_of(data: bytes, begin: int, end: int) -> SeriesMessage:
    """A TimeSeries.

    Raises:
        NotProto: the bytes are no message.
    """
    labels = labels_of(data, begin, end)
    times, values = _samples_of(data, begin, end)
    histograms = [_histogram_of(data[first:last]) for first, last in messages_in(data, begin, end, _HISTOGRAMS)]
    return SeriesMessage(labels, times, values, histograms)


def _samples_of(data: bytes, begin: int, end: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """All samples of a series at once: the places in Python, the numbers in numpy."""
    starts = []
    at = begin
    while at < end:
        # A sample takes less than 128 bytes, and its tag one.
        if data[at] == _SAMPLE_TAG and at + 1 < end and data[at + 1] < 0x80:
            starts.append(at + 2)
            at += 2 + data[at + 1]
            continue
        key, behind = _varint(data, at, end)
        if key & 7 != BYTES:
            raise NotProto("a field that no series has")
        size, behind = _varint(data, behind, end)
        at = behind + size
    if at != end:
        raise NotProto("a field is longer than its message")
    return _numbers(data, np.array(starts, np.int64))


def _numbers(data: bytes, starts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Times and values of the samples that start at these places; their length stands in the byte before."""
    if not len(starts):
        return np.empty(0, np.int64), np.empty(0, np.float64)
    low, high = int(starts[0]) - 1, int(starts[-1]) + 128
    array = np.zeros(high - low, np.uint8)
    part = np.frombuffer(data, np.uint8)[low:high]
    array[: len(part)] = part
    at = starts - low
    ends = at + array[at - 1]
    valued = (array[at] == _VALUE_TAG) & (at < ends)
    values = np.zeros(len(at), np.float64)
    places = at[valued] + 1
    values[valued] = array[places[:, None] + np.arange(8)].reshape(-1).view("<f8") if len(places) else 0.0
    at = at + np.where(valued, 9, 0)
    timed = (at < ends) & (array[at] == _TIME_TAG)
    at += timed
    times = np.zeros(len(at), np.int64)
    rest = ends - at
    if (rest[timed] < 1).any() or (rest[timed] > 10).any() or (rest[~timed] != 0).any():
        raise NotProto("a sample of another kind")
    sizes = np.where(timed, rest, 0)
    inside = np.repeat(at - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
    numbers, behind = all_uvarints(array[inside])
    if len(numbers) != np.count_nonzero(timed) or not np.array_equal(behind, np.cumsum(sizes[timed])):
        raise NotProto("a time of another kind")
    times[timed] = numbers.view(np.int64)
    return times, values


def chunks_of(data: bytes, begin: int, end: int) -> list[ChunkMessage]:
    """The chunks of a ChunkedSeries.

    Raises:
        NotProto: the bytes are no message.
    """
    found = []
    for first, last in messages_in(data, begin, end, 2):
        fields = {field.number: field for field in fields_of(data[first:last])}
        numbers = [fields[i].signed() if i in fields else 0 for i in (1, 2, 3)]
        content = fields[4].data if 4 in fields else b""
        found.append(ChunkMessage(numbers[0], numbers[1], min(max(numbers[2], 0), 254), content))
    return found


def _histogram_of(data: bytes) -> HistogramSample:
    """A native histogram, of integers or of floats."""
    numbers: dict[int, float] = {}
    spans: dict[int, list[int]] = {8: [], 11: []}
    lists: dict[int, list[float]] = {9: [], 10: [], 12: [], 13: [], 16: []}
    ends = {8: 0, 11: 0}
    time = schema = 0
    for field in fields_of(data):
        if field.number in spans and field.wire == BYTES:
            ends[field.number] = _add_span(field.data, spans[field.number], ends[field.number], len(data))
        elif field.number in lists:
            lists[field.number] += _numbers_of(field.data, field.wire, field.varint, field.number)
        elif field.number == 15:
            time = field.signed()
        elif field.number == 4:
            schema = zigzag(field.varint)
        elif field.wire == VARINT:
            numbers[field.number] = float(field.varint)
        elif field.wire == FIXED64:
            numbers[field.number] = field.real() or 0.0
    counts = []
    for deltas, plain in ((12, 13), (9, 10)):
        own = np.cumsum(lists[deltas]).tolist() if lists[deltas] else lists[plain]
        counts.append(own)
    if [len(own) for own in counts] != [len(spans[11]), len(spans[8])]:
        # A marker of staleness has spans without counts, or none.
        counts = [[0.0] * len(spans[11]), [0.0] * len(spans[8])]
    try:
        layout = layout_of(schema, numbers.get(5, 0.0), spans[11], spans[8], lists[16])
    except OutOfBits as error:
        raise NotProto(f"a histogram that {error}") from error
    count = numbers.get(1, numbers.get(2, 0.0))
    zero = numbers.get(6, numbers.get(7, 0.0))
    return sample_of(time, count, zero, numbers.get(3, 0.0), counts[0] + counts[1], layout)


def _add_span(data: bytes, into: list[int], at: int, most: int) -> int:
    """Add the indices of the buckets of a span, of which there are no more than the message has bytes."""
    offset = length = 0
    for field in fields_of(data):
        if field.number == 1:
            offset = zigzag(field.varint)
        elif field.number == 2:
            length = field.varint
    if len(into) + length > most:
        raise NotProto("a histogram of more buckets than bytes")
    into += range(at + offset, at + offset + length)
    return at + offset + length


def _numbers_of(data: bytes, wire: int, varint: int, number: int) -> list[float]:
    """The numbers of a repeated field: packed, or one by itself. Deltas are signed, others doubles."""
    if number in (9, 12):
        if wire == VARINT:
            return [float(zigzag(varint))]
        return [float(zigzag(int(value))) for value in all_uvarints(np.frombuffer(data, np.uint8))[0]]
    if len(data) % 8:
        raise NotProto("doubles that are cut off")
    return list(struct.unpack(f"<{len(data) // 8}d", data))
