"""What tools write as text and JSON comes back, whatever the labels are and however the stream is cut."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.detect import detect
from aftershock.parsers.documents import openmetrics, prometheus_query, promtool_dump, victoria_metrics
from aftershock.parsers.formats import Head
from aftershock.parsers.prometheus.columns import NAME, Labels, Wanted
from aftershock.parsers.prometheus.labels_text import labels_of, series_of, unquoted, with_float_labels
from aftershock.parsers.prometheus.number_text import number_list
from tests.parsers.prometheus.blocks import Samples
from tests.parsers.prometheus.texts import (
    NAMES,
    TEXTS,
    WRITERS,
    Written,
    as_dump,
    as_query,
    go_float,
    go_quoted,
    read_with,
    samples_of,
    series_in,
    written,
)

UP: Labels = ((NAME, "up"), ("instance", "gpu-a1:9100"), ("job", "node"))
T0 = 1_772_435_289_321


def same(one: dict[Labels, Samples], other: dict[Labels, Samples]) -> bool:
    """Whether the samples are equal, NaN to NaN."""
    return one.keys() == other.keys() and all(
        len(one[key]) == len(other[key])
        and all(
            t == u and (v == w or (math.isnan(v) and math.isnan(w)))
            for (t, v), (u, w) in zip(one[key], other[key], strict=True)
        )
        for key in one
    )


# A cell of CSV may not have a line end, and what has blanks around it stays as it is.
PLAIN = TEXTS.filter(lambda text: not set(text) & set("\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029\0"))


@pytest.mark.parametrize("name", WRITERS)
@settings(max_examples=150, deadline=None)
@given(data=st.data(), most=st.integers(1, 40) | st.just(1 << 20))
def test_samples_come_back_through_any_stream(name: str, data: st.DataObject, most: int) -> None:
    write, reader = WRITERS[name]
    series: Written = data.draw(written(PLAIN if name == "csv" else TEXTS))
    batches, refused = read_with(reader, write(series), most=most)
    assert refused == []
    assert same(samples_of(batches), dict(series))


@pytest.mark.parametrize("name", WRITERS)
def test_each_is_recognised_by_content(name: str) -> None:
    write, reader = WRITERS[name]
    series = [(UP, [(T0 + 15_000 * i, float(i % 2)) for i in range(30)])]
    found = detect(Head("unknown", write(series).encode()[:400]))
    assert found.document is not None
    assert found.document.read_metrics is reader


@pytest.mark.parametrize("name", WRITERS)
def test_only_what_is_wanted_is_given(name: str) -> None:
    write, reader = WRITERS[name]
    load: Labels = ((NAME, "load1"),)
    text = write([(UP, [(T0 + i, float(i)) for i in range(10)]), (load, [(T0, 1.0)])])
    wanted = Wanted(spans=((T0 - 9, T0 + 2), (T0 + 5, T0 + 6)), metrics=frozenset({"up"}))
    batches, refused = read_with(reader, text, wanted)
    assert refused == []
    assert samples_of(batches) == {UP: [(T0, 0.0), (T0 + 1, 1.0), (T0 + 5, 5.0)]}


@given(st.dictionaries(NAMES | TEXTS, TEXTS, min_size=1, max_size=4))
def test_labels_come_back_from_their_text(labels: dict[str, str]) -> None:
    quoted = ", ".join(f"{go_quoted(name)}={go_quoted(value)}" for name, value in labels.items())
    assert series_of(f"{{{quoted}}}".encode()) == tuple(sorted(labels.items()))


@given(st.text(st.characters(codec="utf-8")))
def test_json_escapes_come_back_too(text: str) -> None:
    """VictoriaMetrics quotes labels as JSON does, with pairs of surrogates."""
    assert unquoted(json.dumps(text).replace("\\/", "/").encode()) == text


@pytest.mark.parametrize(
    "text", ["", "{}", "up{", 'up{a="b"', 'up{a="b}', 'up{a="1",a="2"}', 'up{a="1"} 5 #', "up up", "up{a}", '"up"']
)
def test_what_is_no_series_is_none(text: str) -> None:
    assert series_of(text.encode()) is None


def test_an_empty_label_is_none() -> None:
    assert series_of(b'up{a="",b="c"}') == ((NAME, "up"), ("b", "c"))
    assert labels_of([("a", "")]) == ()


@given(st.lists(st.floats(), max_size=50))
def test_numbers_are_read_exactly(numbers: list[float]) -> None:
    text = ",".join(go_float(number) for number in numbers).replace("+", "")
    assert np.array_equal(number_list(text.encode()), np.array(numbers, np.float64), equal_nan=True)


@pytest.mark.parametrize("text", ["1,,2", "1,", ",", "1,x", "0x10", "1_0", "1 ,2"])
def test_what_is_no_list_of_numbers_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="parse"):
        number_list(text.encode())


@pytest.mark.parametrize(
    ("written_as", "stored"),
    [("1", "1.0"), ("0.5", "0.5"), ("1e6", "1e+06"), ("100000", "100000.0"), ("+Inf", "+Inf"), ("0.00001", "1e-05"),
     ("1234567", "1.234567e+06"), ("0", "0.0"), ("-2", "-2.0"), ("high", "high")],
)  # fmt: skip
def test_bounds_of_buckets_are_floats(written_as: str, stored: str) -> None:
    text = f'# TYPE rpc histogram\nrpc_bucket{{le="{written_as}"}} 3 {T0}\nother_bucket{{le="{written_as}"}} 3 {T0}\n'
    found = series_in(openmetrics.read_metrics, text)
    assert set(found) == {((NAME, "rpc_bucket"), ("le", stored)), ((NAME, "other_bucket"), ("le", written_as))}
    assert with_float_labels((("le", "1"),), "gauge") == (("le", "1"),)


def test_lines_of_all_shapes_stand_side_by_side() -> None:
    text = (
        '# HELP up "quoted" # {x}\n\n  # a comment\nup{job="a b 5 6"} 1 1772435289.321\n'
        'up\t{ job = "tab" , }\t2\t1772435289.321\r\n'
        f'up{{job="ms"}} 3 {T0}\n'
        'up_bucket{le="1"} 4 1772435289.321 # {id="a} 1 2"} 0.5 1772435280\n'
        '{"my.up",job="quoted"} 5 1772435289.321\nup{job="created"} 6 1772435289.321 st@1772435000\nup 7 1772435289.321\n'
    )
    found = series_in(openmetrics.read_metrics, text)
    assert {labels[-1][1]: samples for labels, samples in found.items()} == {
        "a b 5 6": [(T0, 1.0)],
        "tab": [(T0, 2.0)],
        "ms": [(T0, 3.0)],
        "1": [(T0, 4.0)],
        "quoted": [(T0, 5.0)],
        "created": [(T0, 6.0)],
        "up": [(T0, 7.0)],
    }
    assert ((NAME, "my.up"), ("job", "quoted")) in found


def test_native_histograms_are_count_sum_and_buckets() -> None:
    dump = '{__name__="rpc", job="a"} {count:3, sum:2.5, [-1e-128,1e-128]:1, (0.5,1]:2} 1772435289321\n'
    buckets = [[3, "-1e-128", "1e-128", "1"], [0, "0.5", "1", "2"]]
    result = [
        {
            "metric": {NAME: "rpc", "job": "a"},
            "histograms": [[T0 / 1000, {"count": "3", "sum": "2.5", "buckets": buckets}]],
        }
    ]
    query = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})
    for reader, text in ((promtool_dump.read_metrics, dump), (prometheus_query.read_metrics, query)):
        batches, refused = read_with(reader, text)
        assert refused == []
        (batch,) = batches
        (histogram,) = batch.histograms
        assert batch.labels[histogram.series] == ((NAME, "rpc"), ("job", "a"))
        assert (histogram.time, histogram.buckets) == (T0, ((-1e-128, 1e-128, 1.0), (0.5, 1.0, 2.0)))
        found = {labels[0][1]: samples for labels, samples in samples_of(batches).items() if samples}
        assert found == {"rpc_count": [(T0, 3.0)], "rpc_sum": [(T0, 2.5)]}


def test_several_answers_one_after_the_other_are_all_read() -> None:
    one = as_query([(UP, [(T0, 1.0)])])
    other = as_query([(UP, [(T0 + 15_000, 0.0)])])
    bare = json.dumps(json.loads(other)["data"]["result"]).replace(str((T0 + 15_000) / 1000), str((T0 + 30_000) / 1000))
    found = series_in(prometheus_query.read_metrics, f"{one}\n{other}\n{bare}")
    assert found == {UP: [(T0, 1.0), (T0 + 15_000, 0.0), (T0 + 30_000, 0.0)]}


def test_a_series_of_many_pieces_keeps_its_order() -> None:
    samples = [(T0 + 5_000 * i, float(i)) for i in range(200_000)]
    found = series_in(prometheus_query.read_metrics, as_query([(UP, samples)]))
    assert found == {UP: samples}
    lines = as_dump([(UP, samples[100_000:]), (UP, samples[:100_000])])
    assert {key: sorted(own) for key, own in series_in(promtool_dump.read_metrics, lines).items()} == {UP: samples}


def test_one_time_may_stand_twice_in_an_export() -> None:
    line = json.dumps({"metric": dict(UP), "values": [1, 2, 3], "timestamps": [T0 + 1, T0, T0]})
    assert series_in(victoria_metrics.read_metrics, line) == {UP: [(T0, 2.0), (T0, 3.0), (T0 + 1, 1.0)]}
