"""Asking a live server: only what is needed, once, and whatever it answers."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aftershock.parsers.formats import Refused
from aftershock.parsers.prometheus.columns import SeriesBatch
from aftershock.pipeline.metrics.live import LiveMetrics
from aftershock.pipeline.metrics.live_access import Access
from aftershock.pipeline.metrics.live_cache import Cache
from aftershock.pipeline.metrics.live_plan import Names, Window
from aftershock.pipeline.metrics.live_rules import PrometheusConfig
from aftershock.pipeline.metrics.live_server import Server
from tests.pipeline.metrics.pretended import Pretended, Reply, Request, serving

T0 = 1_772_435_280_000  # milliseconds
STEP = 15_000
HOSTS = ("gpu001", "gpu002", "gpu003", "gpu004")
DAY = 86_400_000

SERIES = [
    ({"__name__": "up", "instance": f"{host}:9100", "job": "node"}, [(T0 + at * STEP, 1.0) for at in range(400)])
    for host in HOSTS
] + [
    (
        {"__name__": "DCGM_FI_DEV_GPU_TEMP", "instance": "10.0.0.7:9400", "Hostname": host.upper(), "gpu": "0"},
        [(T0 + at * STEP, 40.0 + at) for at in range(400)],
    )
    for host in HOSTS
]

Samples = set[tuple[str, str, int, float]]


class Outcome:
    """What a reading gave: samples by metric and whose they are, and refusals."""

    def __init__(self, items: list[SeriesBatch | Refused], metrics: LiveMetrics) -> None:
        self.refused = [item for item in items if isinstance(item, Refused)]
        self.counts = metrics.counts
        rows = [
            (labels["__name__"], labels.get("Hostname", labels["instance"]), int(time), float(value))
            for batch in items
            if isinstance(batch, SeriesBatch)
            for at, pairs in enumerate(batch.labels)
            for labels in [dict(pairs)]
            for time, value in zip(
                batch.times[batch.begins[at] : batch.begins[at + 1]],
                batch.values[batch.begins[at] : batch.begins[at + 1]],
                strict=True,
            )
        ]
        self.samples: Samples = set(rows)
        assert len(rows) == len(self.samples), "a sample came twice"

    @property
    def reasons(self) -> list[str]:
        return [item.reason for item in self.refused]


def expected(*windows: Window) -> Samples:
    """The samples that lie in the windows."""
    return {
        (labels["__name__"], labels.get("Hostname", labels["instance"]), at, value)
        for labels, samples in SERIES
        for at, value in samples
        for window in windows
        if window.begin <= at < window.end
        and labels.get("Hostname", labels["instance"]).lower().split(":")[0] in window.hosts
    }


def window(first: int, last: int, *hosts: str) -> Window:
    """From one sample of the series to before another."""
    return Window(T0 + first * STEP, T0 + last * STEP, hosts or HOSTS)


Read = Callable[..., Outcome]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """``read(server, windows, **keys of [prometheus])``: one reading; the cache stays for the next."""

    def reading(server: Pretended, *windows: Window, now: int = T0 + DAY, headers: Any = None, **keys: Any) -> Outcome:
        config = PrometheusConfig(url=server.url, **{"backoff_s": 0.01, "timeout_s": 5.0, "api": "query", **keys})
        names = Names(config.metrics, config.host_labels, {}, {})
        asked = Server(config, Access(headers or {}))
        metrics = LiveMetrics(config, names, asked, Cache(tmp_path / "kept"), now)
        return Outcome(list(metrics.read(windows)), metrics)

    return reading


def bad_for(host: str, reply: Reply) -> Callable[[Request], Reply | None]:
    """Behaves badly when it is asked about a host."""
    return lambda request: reply if host in request.form.get("query", "") else None


def error(status: int, text: str, **headers: str) -> Reply:
    body = json.dumps({"status": "error", "errorType": "execution", "error": text}).encode()
    return Reply(status, body, {"Content-Type": "application/json", **headers})


def test_only_the_samples_of_the_windows_come_and_each_once(read: Read) -> None:
    windows = [window(10, 50, "gpu001", "gpu003"), window(50, 60, "gpu002")]
    with serving(Pretended(SERIES)) as server:
        outcome = read(server, *windows)
    assert outcome.samples == expected(*windows)
    assert len(outcome.samples) == 2 * 2 * 40 + 2 * 10
    assert outcome.refused == []
    # One question for each label that the server has: it has no hostname, node and others.
    assert len(server.queries()) == 4
    asked = [query.form["query"] for query in server.queries()]
    assert not any("{node=" in query or ",node=" in query for query in asked)


def test_a_second_run_asks_nothing(read: Read) -> None:
    with serving(Pretended(SERIES)) as server:
        first = read(server, window(10, 50))
        server.requests.clear()
        again = read(server, window(10, 50))
        assert server.requests == []
    assert again.samples == first.samples == expected(window(10, 50))
    assert (again.counts.asked, again.counts.kept) == (0, 2)


def test_another_server_is_asked_for_itself(read: Read) -> None:
    with serving(Pretended(SERIES)) as server:
        read(server, window(10, 50))
    with serving(Pretended(SERIES[:1])) as other:
        assert len(read(other, window(10, 50)).samples) == 40


def test_a_time_that_is_not_over_is_asked_again_and_only_up_to_now(read: Read) -> None:
    now = T0 + 50 * STEP
    with serving(Pretended(SERIES)) as server:
        first = read(server, window(10, 90), window(60, 90), now=now)
        asked = len(server.queries())
        read(server, window(10, 90), now=now)
        assert len(server.queries()) == 2 * asked
    assert first.samples == expected(window(10, 50))
    assert max(float(query.form["time"]) for query in server.queries()) * 1000 < now


@pytest.mark.parametrize("status", [400, 422])
def test_a_question_that_the_server_refuses_is_named_and_the_rest_goes_on(read: Read, status: int) -> None:
    reply = error(status, 'invalid parameter "query"')
    with serving(Pretended(SERIES, bad_for("gpu002", reply))) as server:
        outcome = read(server, window(0, 9, "gpu001"), window(0, 9, "gpu002"), window(0, 9, "gpu003"))
    assert outcome.samples == expected(window(0, 9, "gpu001", "gpu003"))
    assert len(outcome.refused) == 2
    assert outcome.reasons[0].endswith(f'of gpu002: the server answered {status}: invalid parameter "query"')
    assert b"gpu002" in outcome.refused[0].excerpt
    assert sum("gpu002" in query.form["query"] for query in server.queries()) == 2  # for two labels, and never again


def test_what_is_too_large_is_asked_in_halves(read: Read) -> None:
    def behave(request: Request) -> Reply | None:
        hosts = sum(host in request.form.get("query", "").split("!~")[0] for host in HOSTS)
        return (
            error(422, "query processing would load too many samples into memory in query execution")
            if hosts > 1
            else None
        )

    with serving(Pretended(SERIES, behave)) as server:
        outcome = read(server, window(10, 50))
        assert outcome.samples == expected(window(10, 50))
        assert outcome.refused == []


def test_what_is_too_large_in_all_parts_is_named(read: Read) -> None:
    reply = error(422, "query processing would load too many samples into memory in query execution")
    with serving(Pretended(SERIES, bad_for("gpu001", reply))) as server:
        outcome = read(server, window(0, 4, "gpu001"), window(0, 4, "gpu002"))
    assert outcome.samples == expected(window(0, 4, "gpu002"))
    assert outcome.refused
    assert all("of gpu001: the server answered 422: query processing" in reason for reason in outcome.reasons)


def test_503_is_asked_again_when_the_server_says(read: Read) -> None:
    left = [error(503, "no leader", **{"Retry-After": "1"}), error(500, "later")]
    with serving(Pretended(SERIES, lambda request: left.pop() if left and "query" in request.form else None)) as server:
        began = time.monotonic()
        outcome = read(server, window(0, 9), concurrency=1)
    assert outcome.samples == expected(window(0, 9))
    assert outcome.refused == []
    assert time.monotonic() - began >= 1


def test_503_for_ever_leaves_the_server_alone(read: Read) -> None:
    with serving(Pretended(SERIES, lambda _: error(503, "starting up"))) as server:
        outcome = read(server, *(window(at, at + 9) for at in range(0, 200, 10)), retries=1)
    assert outcome.samples == set()
    assert "the server answered 503: starting up (tried 2 times)" in outcome.reasons[0]
    assert "questions were not asked" in outcome.reasons[-1]
    assert "run again later" in outcome.reasons[-1]
    assert len(server.queries()) <= 2 * 6
    assert outcome.counts.failed + outcome.counts.left == 20 * 9  # the labels are not known


@pytest.mark.parametrize("cut", [1, 1000])
def test_half_an_answer_is_asked_again_and_then_named(read: Read, cut: int) -> None:
    whole = json.dumps(Pretended(SERIES).evaluated({"query": '{a=~".*"}[1000ms]', "time": "1772435280"})).encode()
    with serving(Pretended(SERIES, bad_for("gpu002", Reply(body=whole, cut=cut)))) as server:
        outcome = read(server, window(0, 9, "gpu001"), window(0, 9, "gpu002"), window(0, 9, "gpu003"), retries=2)
        assert sum("gpu002" in query.form["query"] for query in server.queries()) == 2 * 3
        server.behave = lambda _: None
        again = read(server, window(0, 9, "gpu001"), window(0, 9, "gpu002"))
    assert outcome.samples == expected(window(0, 9, "gpu001", "gpu003"))
    assert "broke off before the answer was whole (tried 3 times)" in outcome.reasons[0]
    assert again.samples == expected(window(0, 9, "gpu001", "gpu002"))


def test_half_of_the_text_of_an_answer_is_named_and_not_kept(read: Read) -> None:
    with serving(Pretended(SERIES)) as server:
        whole = json.dumps(server.evaluated({"query": '{a!~".+"}[60000ms]', "time": "1772435300"})).encode()
        for cut in (whole[: len(whole) // 2], whole[: whole.index(b"}") + 1], b"", b"<html>"):
            server.behave = bad_for("gpu002", Reply(body=cut))
            outcome = read(server, window(0, 9, "gpu001"), window(0, 9, "gpu002"), retries=0)
            assert outcome.samples == expected(window(0, 9, "gpu001")), cut
            assert any("of gpu002" in reason for reason in outcome.reasons), cut


@pytest.mark.parametrize("drips", [False, True])
def test_a_slow_server_does_not_hold_the_run(read: Read, drips: bool) -> None:
    reply = Reply(body=b" " * 200, slow_s=0.05 if drips else 3, drips=drips)
    began = time.monotonic()
    with serving(Pretended(SERIES, bad_for("gpu002", reply))) as server:
        outcome = read(server, window(0, 4, "gpu001"), window(0, 4, "gpu002"), timeout_s=0.3, host_labels=("instance",))
    assert time.monotonic() - began < 9
    assert outcome.samples == {sample for sample in expected(window(0, 4, "gpu001")) if sample[0] == "up"}
    assert any("within 0.3 s" in reason for reason in outcome.reasons)


@pytest.mark.parametrize("status", [401, 403])
def test_who_may_not_ask_stops_and_says_what_to_do(read: Read, status: int) -> None:
    with serving(Pretended(SERIES, lambda _: error(status, "who are you?"))) as server:
        outcome = read(server, *(window(at, at + 9) for at in range(0, 200, 10)))
    assert len(server.requests) == 1
    assert len(outcome.refused) == 1
    assert "bearer_token_file" in outcome.reasons[0]
    assert outcome.counts.left == 180


def test_secrets_are_sent_and_never_said(read: Read) -> None:
    token = "s3cr3t-t0ken-value"

    def behave(request: Request) -> Reply:
        return error(403, f"not for {request.headers['authorization']} or {token}")

    with serving(Pretended(SERIES, behave)) as server:
        outcome = read(server, window(0, 9), headers={"Authorization": f"Bearer {token}"})
    assert server.requests[0].headers["authorization"] == f"Bearer {token}"
    assert outcome.refused
    assert token not in str(outcome.refused)


def test_a_redirect_is_named_and_not_followed(read: Read) -> None:
    with serving(Pretended(SERIES)) as other:
        reply = Reply(302, b"", {"Location": f"{other.url}/login?token=abc"})
        with serving(Pretended(SERIES, lambda _: reply)) as server:
            outcome = read(server, window(0, 9), headers={"Authorization": "Bearer s3cr3t"})
    assert other.requests == []
    assert "write its address as url" in outcome.reasons[0]
    assert "abc" not in outcome.reasons[0]


def test_nobody_there(read: Read) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = Pretended(url=f"http://127.0.0.1:{free.getsockname()[1]}")
    outcome = read(server, *(window(at, at + 9) for at in range(0, 200, 10)), retries=1)
    assert "no connection" in outcome.reasons[0]
    assert "questions were not asked: no connection" in outcome.reasons[-1]
    assert len(outcome.refused) < 10


def test_the_budget_of_questions_goes_on_in_the_next_run(read: Read) -> None:
    windows = [window(at, at + 9) for at in range(0, 100, 10)]
    with serving(Pretended(SERIES)) as server:
        first = read(server, *windows, max_queries=12)
        assert len(server.queries()) == 12
        second = read(server, *windows, max_queries=12)
        assert len(server.queries()) == 20
    assert "8 of 20 questions were not asked: max_queries = 12" in first.reasons[0]
    assert second.samples == expected(*windows)
    assert second.refused == []


def test_the_budget_of_samples_is_never_passed(read: Read) -> None:
    windows = [window(at, at + 10) for at in range(0, 100, 10)]
    with serving(Pretended(SERIES)) as server:
        outcome = read(server, *windows, max_samples=100)
        assert len(server.queries()) < 10
    assert 40 <= len(outcome.samples) <= 100
    assert outcome.samples < expected(*windows)
    assert any("max_samples = 100 is reached" in reason for reason in outcome.reasons)
    assert len(outcome.refused) == 2


def test_an_answer_beyond_all_measure_is_not_stored(read: Read, tmp_path: Path) -> None:
    body = b'{"x":"' + b"0" * (5 << 20) + b'"}'
    with serving(Pretended(SERIES, bad_for("gpu002", Reply(body=body)))) as server:
        outcome = read(server, window(0, 4, "gpu002"), max_samples=10)
    assert any("the answer is longer than" in reason for reason in outcome.reasons)
    assert sum(path.stat().st_size for path in (tmp_path / "kept").iterdir()) < 10_000


def test_an_answer_that_was_damaged_on_the_disk_is_asked_again(read: Read, tmp_path: Path) -> None:
    with serving(Pretended(SERIES)) as server:
        read(server, window(0, 9))
        for path in (tmp_path / "kept").iterdir():
            path.write_bytes(path.read_bytes()[:-9])
        outcome = read(server, window(0, 9))
        assert outcome.refused
        assert read(server, window(0, 9)).samples == expected(window(0, 9))


def test_answers_are_compressed_and_questions_go_to_servers_that_take_only_get(read: Read) -> None:
    def behave(request: Request) -> Reply | None:
        if request.method == "POST":
            return Reply(405, b"")
        assert request.headers["accept-encoding"] == "gzip"
        if "query" not in request.form:
            return None
        body = gzip.compress(json.dumps(server.evaluated(request.form)).encode())
        return Reply(body=body, headers={"Content-Type": "application/json", "Content-Encoding": "gzip"})

    with serving(Pretended(SERIES, behave)) as server:
        assert read(server, window(0, 9)).samples == expected(window(0, 9))


def test_warnings_of_the_server_are_named_and_the_answer_is_read_and_asked_again(read: Read) -> None:
    def behave(request: Request) -> Reply | None:
        if "query" not in request.form:
            return None
        answer: Any = server.evaluated(request.form)
        return Reply(body=json.dumps({**answer, "warnings": ["store-7 is away"]}).encode())

    with serving(Pretended(SERIES, behave)) as server:
        for _ in range(2):
            outcome = read(server, window(0, 9, "gpu001"), host_labels=("instance",))
            assert outcome.counts.asked == 1
            assert len(outcome.samples) == 9
            assert "store-7 is away" in outcome.reasons[0]


def test_where_remote_read_is_not_offered_it_is_asked_by_query(read: Read) -> None:
    with serving(Pretended(SERIES)) as server:
        outcome = read(server, window(0, 9), window(20, 29), api="auto")
    assert outcome.samples == expected(window(0, 9), window(20, 29))
    assert outcome.refused == []
    assert sum(request.path == "/api/v1/read" for request in server.requests) <= 3


def test_the_proxy_of_the_environment_is_used_for_others_than_this_machine(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(Pretended(SERIES)) as proxy, serving(Pretended(SERIES)) as server:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//user:pass@"))
        monkeypatch.setenv("no_proxy", "")
        assert read(server, window(0, 9)).samples == expected(window(0, 9))
        assert proxy.requests == []
        far = Pretended(url="http://prometheus.example:9090")
        assert read(far, window(0, 9)).samples == expected(window(0, 9))
        assert proxy.requests[0].headers["host"] == "prometheus.example:9090"
        assert proxy.requests[0].headers["proxy-authorization"].startswith("Basic ")
