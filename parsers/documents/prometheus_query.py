"""Answers of Prometheus' HTTP API to a query, and of what speaks like it (Thanos, Mimir, VictoriaMetrics).

    {"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"up","job":"node",
        "instance":"gpu-a1:9100"},"values":[[1772435289.321,"1"],[1772435304.321,"0"]]}]}}

Documented at https://prometheus.io/docs/prometheus/latest/querying/api/. An instant query with a range selector
(``up[1h]``) gives raw samples; markers of staleness are left out of them by the server. ``query_range``, and instant
queries without such a selector, give values that the server made up at the steps of the query: they are read, and
marked as resampled where it can be told. An array of the elements of ``result`` alone, as client libraries save it, is
read too; so are several answers one after the other, and the first half of one.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Any, Final

from aftershock.parsers.formats import DocumentFormat, Head, Refused, Sample, expect
from aftershock.parsers.prometheus.columns import Labels, MetricsSource, SeriesBatch, Wanted
from aftershock.parsers.prometheus.gather import Gather
from aftershock.parsers.prometheus.grid import GridWatch
from aftershock.parsers.prometheus.json_cursor import BadJson, JsonCursor
from aftershock.parsers.prometheus.json_samples import (
    Pairs,
    histogram_of,
    metric_labels,
    pairs_of,
    pairs_of_values,
)
from aftershock.parsers.prometheus.rows import reader

_NAME: Final = "prometheus_query"
# So many samples are looked at before it is said whether they look resampled.
_LOOKAHEAD: Final = 1 << 20
# Samples that may stand before the labels they belong to, where somebody sorted the keys.
_MOST_EARLY: Final = 1 << 22
_OF_HISTOGRAM: Final = 64
_MOST_WARNINGS: Final = 20

# Tools that sort the keys put the data first.
_STATUS: Final = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{\s*(?:"status"\s*:\s*"(?:success|error)"\s*,|"data"\s*:\s*\{\s*"result(?:Type)?"\s*:)'
)
_ANSWER: Final = re.compile(
    rb'"resultType"\s*:\s*"(?:matrix|vector|scalar|string)"|"errorType"\s*:\s*"[a-z_]+"|"result"\s*:\s*\[\s*\{\s*"metric"'
)
_BARE: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\[\s*\{\s*"metric"\s*:\s*\{[^{}]{0,16384}\}\s*,\s*"values?"\s*:\s*\[')


def detects(head: Head) -> float:
    """Sure of an answer with a status, and of an array of its elements."""
    if _STATUS.match(head.data):
        return 0.95 if _ANSWER.search(head.data) else 0.0
    return 0.9 if _BARE.match(head.data) else 0.0


def read_metrics(source: MetricsSource, wanted: Wanted) -> Iterator[SeriesBatch | Refused]:
    """The samples of all series."""
    with source.open("") as stream:
        yield from _Answers(JsonCursor(stream), wanted).read()


class _Answers:
    """Reads answer after answer. Batches wait until it is known whether they look resampled."""

    def __init__(self, cursor: JsonCursor, wanted: Wanted) -> None:
        self._cursor = cursor
        self._gather = Gather(wanted)
        self._watch = GridWatch()
        self._waiting: list[SeriesBatch] = []
        self._seen = 0
        self._resampled: bool | None = None
        self._warnings = 0

    def read(self) -> Iterator[SeriesBatch | Refused]:
        cursor = self._cursor
        try:
            cursor.skip_mark()
            while cursor.peek():
                yield from self._document()
        except BadJson as error:
            yield from self._rest()
            text = f"the answer {error}" if str(error) == "ends early" else str(error)
            yield Refused(error.offset, 0, f"{_NAME}: {text}: what stands before is read", cursor.excerpt())
            return
        yield from self._rest()

    def _rest(self) -> Iterator[SeriesBatch]:
        self._decide()
        yield from self._flush()

    def _decide(self) -> None:
        if self._resampled is None:
            self._resampled = self._watch.resampled

    def _flush(self) -> Iterator[SeriesBatch]:
        """The batches that are ready, once it is known what they are."""
        batch = self._gather.take()
        if batch is not None:
            self._waiting.append(batch)
        if self._seen >= _LOOKAHEAD:
            self._decide()
        if self._resampled is None:
            return
        for one in self._waiting:
            yield SeriesBatch(one.labels, one.begins, one.times, one.values, self._resampled, one.histograms)
        self._waiting = []

    def _document(self) -> Iterator[SeriesBatch | Refused]:
        cursor = self._cursor
        begin = cursor.offset
        if cursor.peek() == b"[":
            yield from self._result("")
            return
        if cursor.peek() != b"{":
            raise cursor.bad("no answer to a query")
        said: dict[str, str] = {}
        number = None
        for key in cursor.members():
            if key in ("status", "error", "errorType"):
                said[key] = str(cursor.value())
            elif key == "data" and cursor.peek() == b"{":
                number = yield from self._data()
            elif key in ("warnings", "infos"):
                yield from self._said(key, cursor.value(), begin)
            elif key == "isPartial" and cursor.value() is True:
                yield Refused(begin, 0, f"{_NAME}: the server says that the answer is partial")
            else:
                cursor.skip()
        if said.get("status") == "error" or "error" in said:
            text = ": ".join(said[key] for key in ("errorType", "error") if key in said)[:400]
            yield Refused(begin, cursor.offset - begin, f"{_NAME}: the server answered with an error: {text}")
        elif number is None:
            yield Refused(begin, cursor.offset - begin, f"{_NAME}: an object without the result of a query")
        elif number == 0:
            yield Refused(begin, cursor.offset - begin, f"{_NAME}: the answer holds no series")

    def _said(self, key: str, texts: Any, offset: int) -> Iterator[Refused]:
        word = {"warnings": "warns", "infos": "remarks"}[key]
        for text in texts if isinstance(texts, list) else []:
            self._warnings += 1
            if self._warnings <= _MOST_WARNINGS:
                yield Refused(offset, 0, f"{_NAME}: the server {word}: {str(text)[:400]}")

    def _data(self) -> Generator[SeriesBatch | Refused, None, int | None]:
        """The ``data`` of an answer. Returns how many elements its result has, None if it has none."""
        cursor = self._cursor
        kind, number = "", None
        for key in cursor.members():
            if key == "resultType":
                kind = str(cursor.value())
            elif key == "result" and cursor.peek() == b"[":
                number = yield from self._result(kind)
            else:
                cursor.skip()
        return number

    def _result(self, kind: str) -> Generator[SeriesBatch | Refused, None, int]:
        cursor = self._cursor
        number = 0
        if kind in ("scalar", "string"):
            begin = cursor.offset
            cursor.skip()
            yield Refused(begin, cursor.offset - begin, f"{_NAME}: a {kind}, which belongs to no series")
            return 1
        for _ in cursor.elements():
            number += 1
            begin = cursor.offset
            if cursor.peek() == b"{":
                yield from self._element(begin)
            else:
                cursor.skip()
                yield Refused(begin, cursor.offset - begin, f"{_NAME}: an element that is no object")
            if self._gather.full:
                yield from self._flush()
        return number

    def _element(self, begin: int) -> Iterator[SeriesBatch | Refused]:
        """One series."""
        cursor = self._cursor
        labels: Labels | None = None
        early: list[Pairs] = []
        early_histograms: list[Any] = []
        n_early = bad = 0
        for key in cursor.members():
            if key == "metric":
                labels = metric_labels(cursor.value())
            elif key == "values" and cursor.peek() == b"[":
                for text in cursor.rows():
                    pairs = pairs_of(text)
                    if pairs is None:
                        raise cursor.bad("values that are no pairs")
                    bad += self._take(labels, pairs, early)
                    n_early = self._early(n_early + (len(pairs.times) if labels is None else 0))
                    if self._gather.full:
                        yield from self._flush()
            elif key == "value":
                self._watch.computed()
                n_early = self._early(n_early + 1)
                bad += self._take(labels, pairs_of_values([cursor.value()]), early)
            elif key == "histograms" and cursor.peek() == b"[":
                for _ in cursor.elements():
                    early_histograms.append(cursor.value())
                    n_early = self._early(n_early + (_OF_HISTOGRAM if labels is None else 0))
                    if labels is not None:
                        bad += self._take_histograms(labels, early_histograms)
                        if self._gather.full:
                            yield from self._flush()
            elif key == "histogram":
                self._watch.computed()
                early_histograms.append(cursor.value())
                n_early = self._early(n_early + _OF_HISTOGRAM)
            else:
                cursor.skip()
        if labels is None:
            yield Refused(begin, cursor.offset - begin, f"{_NAME}: a series without labels that are text")
            return
        for pairs in early:
            self._take(labels, pairs, early)
        bad += self._take_histograms(labels, early_histograms)
        if bad:
            yield Refused(begin, cursor.offset - begin, f"{_NAME}: {bad} samples of {labels} are not read"[:400])

    def _early(self, number: int) -> int:
        """That many samples stand before their labels, and are kept."""
        if number > _MOST_EARLY:
            raise self._cursor.bad(f"more than {_MOST_EARLY} samples stand before their labels")
        return number

    def _take(self, labels: Labels | None, pairs: Pairs, early: list[Pairs]) -> int:
        if labels is None:
            early.append(pairs)
        else:
            self._watch.see(labels, pairs.times)
            self._gather.add(labels, pairs.times, pairs.values)
            self._seen += len(pairs.times)
        return pairs.bad

    def _take_histograms(self, labels: Labels, found: list[Any]) -> int:
        bad = 0
        for one in found:
            pair = histogram_of(one)
            if pair is None:
                bad += 1
            else:
                self._gather.add_histogram(labels, *pair)
        found.clear()
        return bad


_LABELS: Final = (
    '{"__name__":"DCGM_FI_DEV_GPU_TEMP","Hostname":"gpu-a1","gpu":"3","instance":"gpu-a1:9400","job":"dcgm"}'
)

_SAMPLES: Final = (
    Sample(
        '{"status":"success","data":{"resultType":"matrix","result":[{"metric":' + _LABELS + ',"values":'
        '[[1772435289.321,"61"],[1772435319.322,"NaN"],[1772435349.321,"1e+06"]]}]}}\n',
        (
            expect(
                "series",
                metric="DCGM_FI_DEV_GPU_TEMP",
                labels={"Hostname": "gpu-a1", "gpu": "3", "instance": "gpu-a1:9400", "job": "dcgm"},
            ),
            expect("samples", time=1772435289321000, value=61.0, stale=False),
            expect("samples", time=1772435319322000, stale=False),
            expect("samples", time=1772435349321000, value=1e6),
        ),
        title="raw samples: an instant query with a range selector",
    ),
    Sample(
        '{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"up","instance":"gpu-a1:9100"},'
        '"values":[[1772435280,"1"],[1772435295,"1"],[1772435310,"0"]]}]},"warnings":["results may be incomplete"]}\n',
        (
            expect("series", metric="up"),
            expect("samples", time=1772435280000000, value=1.0),
            expect("samples", value=1.0),
            expect("samples", value=0.0),
        ),
        title="query_range: values at the steps of the query",
    ),
    Sample(
        '[{"metric": {"__name__": "up", "job": "node"}, "value": [1772435289.5, "+Inf"]}]\n',
        (expect("series", metric="up"), expect("samples", time=1772435289500000, value=float("inf"))),
        title="the elements of a result alone",
    ),
    Sample(
        '{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"rpc_seconds","job":"api"},'
        '"histograms":[[1772435289.5,{"count":"3","sum":"2.5","buckets":[[0,"0.5","1","2"],[0,"1","2","1"]]}]]}]}}\n',
        (
            expect("series", metric="rpc_seconds_count"),
            expect("samples", value=3.0),
            expect("series", metric="rpc_seconds_sum"),
            expect("samples", time=1772435289500000, value=2.5),
        ),
        title="native histograms",
    ),
)

FORMAT: Final = DocumentFormat(
    name=_NAME,
    doc="Answers of Prometheus' HTTP API to `query` and `query_range`, and of what speaks like it: raw samples of a "
    "range selector, values at the steps of a query (marked as resampled where it can be told), native histograms. "
    "Errors and warnings of the server are told.",
    url="https://prometheus.io/docs/prometheus/latest/querying/api/",
    tables=("series", "samples"),
    detects=detects,
    read=reader(read_metrics),
    read_metrics=read_metrics,
    samples=_SAMPLES,
    non_samples=(
        '{"status":"error","errorType":"bad_data","error":"exceeded maximum resolution of 11,000 points"}\n',
        '{"status":"success","data":{"resultType":"matrix","result":[]}}\n',
        '{"status":"success","data":{"resultType":"scalar","result":[1772435289.5,"1"]}}\n',
        '{"status":"success","data":["up","node_load1"]}\n',
        '{"status":"firing","alerts":[{"labels":{"alertname":"up"}}]}\n',
        '[{"metric":"up","value":1}]\n',
    ),
)
