"""Damage, errors of servers and hostile texts: rows up to there, and a refusal that says what is wrong."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.detect import detect
from aftershock.parsers.documents import openmetrics, prometheus_query, promtool_dump, samples_table, victoria_metrics
from aftershock.parsers.formats import Head, Refused
from aftershock.parsers.prometheus.columns import NAME, Labels, ReadColumns
from aftershock.parsers.prometheus.line_blocks import Block, line_blocks
from tests.parsers.prometheus.texts import WRITERS, Dribble, as_dump, as_query, read_with, samples_of

UP: Labels = ((NAME, "up"), ("instance", "gpu-a1:9100"), ("job", "node"))
T0 = 1_772_435_289_321
SOME = [(T0 + 15_001 * i, float(i)) for i in range(20)]


def reasons(refused: list[Refused]) -> str:
    return "\n".join(one.reason for one in refused)


@pytest.mark.parametrize("name", WRITERS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_damage_is_refused_and_never_raises(name: str, data: st.DataObject) -> None:
    write, reader = WRITERS[name]
    text = bytearray(write([(UP, SOME[:4]), (((NAME, "load1"),), SOME[:2])]).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 12))] = data.draw(st.binary(max_size=6))
    samples_of(read_with(reader, bytes(text))[0])


@pytest.mark.parametrize("reader", [reader for _, reader in WRITERS.values()])
@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_raise(reader: ReadColumns, data: bytes) -> None:
    read_with(reader, data)


@given(st.integers(1, 2000))
def test_half_an_answer_is_read_so_far(cut: int) -> None:
    text = as_query([(UP, SOME), (((NAME, "load1"),), SOME)])
    whole = samples_of(read_with(prometheus_query.read_metrics, text)[0])
    batches, refused = read_with(prometheus_query.read_metrics, text[:cut])
    found = samples_of(batches)
    assert all(whole[labels][: len(samples)] == samples for labels, samples in found.items())
    # The sample at the very end may be the beginning of a longer one.
    assert sum(map(len, found.values())) >= text[:cut].count('"],')
    assert ("ends early" in reasons(refused)) == (cut < len(text))


def test_an_error_of_the_server_is_told() -> None:
    text = '{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}'
    batches, refused = read_with(prometheus_query.read_metrics, text)
    assert batches == []
    assert reasons(refused) == (
        "prometheus_query: the server answered with an error: timeout: query timed out in expression evaluation"
    )


def test_warnings_and_remarks_of_the_server_are_told() -> None:
    text = as_query([(UP, SOME)], warnings=["store 3 is away"], infos=["metric might not be a counter"], isPartial=True)
    batches, refused = read_with(prometheus_query.read_metrics, text)
    assert samples_of(batches) == {UP: SOME}
    for said in ("the server warns: store 3 is away", "remarks: metric might not be a counter", "is partial"):
        assert said in reasons(refused)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"status":"success","data":{"resultType":"matrix","result":[]}}', "no series"),
        ('{"status":"success","data":{"resultType":"scalar","result":[1772435289.5,"1"]}}', "a scalar"),
        ('{"status":"success","data":["up"]}', "without the result of a query"),
        ('{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":1},"values":[]}]}}', "labels"),
        ('{"status":"success","data":{"resultType":"matrix","result":[7]}}', "an element that is no object"),
        ("[" * 100_000, "early"),
        ('{"status":' * 100_000, "early"),
    ],
)
def test_answers_without_samples_say_why(text: str, said: str) -> None:
    batches, refused = read_with(prometheus_query.read_metrics, text)
    assert batches == []
    assert said in reasons(refused)


def test_a_bad_sample_costs_no_other() -> None:
    text = as_query([(UP, SOME)]).replace('"7.0"', '"seven"').replace(f"{SOME[9][0] / 1000}", '"1e99"')
    batches, refused = read_with(prometheus_query.read_metrics, text)
    assert samples_of(batches) == {UP: [pair for i, pair in enumerate(SOME) if i not in (7, 9)]}
    assert "2 samples" in reasons(refused)


def test_samples_without_times_are_told_once_with_what_to_do() -> None:
    text = "# TYPE up gauge\n" + 'up{job="a"} 1\n' * 500 + f'up{{job="b"}} 1 {T0}\n# EOF\n'
    batches, refused = read_with(openmetrics.read_metrics, text)
    assert samples_of(batches) == {((NAME, "up"), ("job", "b")): [(T0, 1.0)]}
    assert len(refused) == 1
    assert refused[0].reason.startswith("openmetrics: 500 samples without a time")
    assert refused[0].offset == text.index("up{")


def test_a_bad_line_costs_no_other() -> None:
    lines = as_dump([(UP, SOME)]).splitlines(keepends=True)
    lines[3] = lines[3].replace(" 3.0 ", " three ")
    lines[5] = lines[5].replace('"node"}', '"node}')
    lines[8] = lines[8].replace(str(SOME[8][0]), "9" * 30)
    lines[9] = lines[9][:40]  # torn off, and the next line behind it
    batches, refused = read_with(promtool_dump.read_metrics, "".join(lines))
    assert samples_of(batches) == {UP: [pair for i, pair in enumerate(SOME) if i not in (3, 5, 8, 9, 10)]}
    begins = [sum(map(len, lines[:i])) for i in (3, 5, 8, 9)]
    assert [one.offset for one in refused] == begins


def test_very_many_bad_lines_are_counted() -> None:
    refused = read_with(promtool_dump.read_metrics, "no sample\n" * 5_000)[1]
    assert len(refused) == 1_001
    assert "4000 more lines" in reasons(refused)


def test_lines_of_an_export_may_be_bad() -> None:
    good = json.dumps({"metric": dict(UP), "values": [1, 2], "timestamps": [T0, T0 + 1]})
    lines = [
        good[:50],
        "[1]",
        json.dumps({"metric": {"a": 1}, "values": [1], "timestamps": [1]}),
        json.dumps({"metric": dict(UP), "values": [1, 2, 3], "timestamps": [T0 + 2]}),
        json.dumps({"metric": dict(UP), "values": [1, "high", [2]], "timestamps": [T0 + 3, T0 + 4, T0 + 5]}),
        json.dumps({"metric": dict(UP), "values": [1], "timestamps": ["now"]}),
        good,
    ]
    batches, refused = read_with(victoria_metrics.read_metrics, "\n".join(lines))
    assert samples_of(batches) == {UP: [(T0, 1.0), (T0 + 1, 2.0), (T0 + 2, 1.0), (T0 + 3, 1.0)]}
    assert len(refused) == 6


def test_the_native_format_is_recognised_and_refused_with_advice() -> None:
    name = b"up\x01job\x01node\x01"
    data = struct.pack(">QQI", (T0 - 10**6) << 1, T0 << 1, len(name)) + name + bytes(range(256)) * 8
    found = detect(Head("export.bin", data))
    assert found.document is victoria_metrics.FORMAT
    batches, refused = read_with(victoria_metrics.read_metrics, data)
    assert batches == []
    assert "export with /api/v1/export (JSON lines) instead" in reasons(refused)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=30)), st.integers(1, 9), st.sampled_from([3, 8, 40]))
def test_blocks_of_lines_do_not_hang_on_their_size(lines: list[bytes], most: int, longest: int) -> None:
    text = b"\n".join(lines)

    def lines_of(block: int) -> list[tuple[int, bytes]]:
        found = []
        for item in line_blocks(Dribble(text, most), "t", block, longest):  # type: ignore[arg-type]
            if isinstance(item, Block):
                at = item.offset
                for line in item.data[:-1].split(b"\n"):
                    found.append((at, line))
                    at += len(line) + 1
            else:
                found.append((item.offset, b"refused"))
        return found

    assert lines_of(1) == lines_of(2) == lines_of(3)


def test_a_line_without_end_is_refused_and_not_kept() -> None:
    text = as_dump([(UP, SOME[:1])]) + "x" * (10 << 20) + "\n" + as_dump([(UP, SOME[1:2])])
    batches, refused = read_with(promtool_dump.read_metrics, text)
    assert samples_of(batches) == {UP: SOME[:2]}
    assert [one.length for one in refused] == [(10 << 20) + 1]


HOSTILE: dict[str, tuple[ReadColumns, Callable[[int], str]]] = {
    "digits": (openmetrics.read_metrics, lambda n: "up " + "1" * n + "x\n"),
    "blanks": (openmetrics.read_metrics, lambda n: "up" + " " * n + "x\n"),
    "blanks behind": (openmetrics.read_metrics, lambda n: "up 1" + " " * n + "x\n"),
    "quotes": (openmetrics.read_metrics, lambda n: "up{" + 'a="b",' * (n // 6) + "\n"),
    "open quote": (promtool_dump.read_metrics, lambda n: '{a="' + "b\\\\" * (n // 3) + "\n"),
    "braces": (promtool_dump.read_metrics, lambda n: "{" * n + " 1 1\n"),
    "buckets": (promtool_dump.read_metrics, lambda n: '{a="b"} {count:1, sum:1' + ", (1,2]" * (n // 7) + "} 1\n"),
    "brackets": (prometheus_query.read_metrics, lambda n: '[{"metric":{"a":"b"},"values":[' + "[1,[" * (n // 4)),
    "early values": (prometheus_query.read_metrics, lambda n: "[{" + '"values":[[1,"2"]],' * (n // 19)),
    "escapes": (prometheus_query.read_metrics, lambda n: '[{"metric":"' + '\\"' * (n // 2)),
    "nested": (victoria_metrics.read_metrics, lambda n: '{"metric":{"a":"b"},"values":' + "[" * n + "\n"),
    "open cell": (samples_table.read_metrics, lambda n: 'metric,time,value\n"' + "up,1,1\n" * (n // 7)),
    "short rows": (samples_table.read_metrics, lambda n: "metric,time,value\n" + "up,1\n" * (n // 5)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_ten_times_the_text_takes_no_more_than_ten_times_as_long(name: str) -> None:
    reader, text = HOSTILE[name]

    def seconds(size: int) -> float:
        data = text(size)
        best = 1e9
        for _ in range(3):
            begin = time.perf_counter()
            read_with(reader, data)
            best = min(best, time.perf_counter() - begin)
        return best

    small = seconds(100_000)
    assert seconds(1_000_000) < 30 * max(small, 0.01)
