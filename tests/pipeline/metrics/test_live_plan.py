"""What a server is asked: exactly the times and hosts that events need."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from aftershock.pipeline.metrics.asked import Asked, window_ms
from aftershock.pipeline.metrics.live_plan import (
    HOSTS_AT_ONCE,
    Ask,
    Matcher,
    Names,
    Window,
    joined,
    windows_of,
    without,
)
from aftershock.pipeline.metrics.live_questions import labels_in, question_of
from aftershock.pipeline.metrics.rules import WindowRules

T0 = 1_772_435_280_000_000  # microseconds
RULES = WindowRules()
HOSTS = [f"gpu{number:03d}" for number in range(40)]

spans = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=8).map(
    lambda pairs: joined((begin, begin + length) for begin, length in pairs)
)
events = st.lists(
    st.builds(
        Asked,
        event_id=st.just("e"),
        host=st.sampled_from(HOSTS),
        time=st.integers(0, 3 * 86_400).map(lambda s: T0 + s * 1_000_000),
        error=st.sampled_from([0, 2_000_000]),
        peers=st.lists(st.sampled_from(HOSTS), unique=True, max_size=30).map(tuple),
    ),
    max_size=6,
)


GRID = 300_000


@given(spans, spans)
def test_what_is_left_of_spans(some: tuple[tuple[int, int], ...], taken: tuple[tuple[int, int], ...]) -> None:
    def points(of: tuple[tuple[int, int], ...]) -> set[int]:
        return {at for begin, end in of for at in range(begin, end)}

    left = without(some, taken)
    assert points(left) == points(some) - points(taken)
    assert all(begin < end for begin, end in left)


@given(events)
def test_windows_cover_what_events_need_and_nothing_twice(asked: list[Asked]) -> None:
    windows = windows_of(asked, RULES, 100)
    needed: dict[str, list[tuple[int, int]]] = {}
    for one in asked:
        begin, before, _, end = window_ms(one, RULES)
        needed.setdefault(one.host, []).append((begin, end))
        for peer in one.peers:
            needed.setdefault(peer, []).append((before, end))
    given_: dict[str, list[tuple[int, int]]] = {}
    for window in windows:
        assert len(window.hosts) <= HOSTS_AT_ONCE
        for host in window.hosts:
            given_.setdefault(host, []).append((window.begin, window.end))
    assert given_.keys() == needed.keys()
    for host, some in given_.items():
        whole = joined(some)
        assert sum(end - begin for begin, end in some) == sum(end - begin for begin, end in whole), "asked twice"
        assert without(needed[host], whole) == ()
        most = [(begin - GRID + 1, end + GRID - 1) for begin, end in needed[host]]
        assert without(whole, joined(most)) == ()
        assert all(begin % GRID == end % GRID == 0 for begin, end in some)


def test_hosts_of_events_come_before_their_peers_of_whom_some_will_do() -> None:
    asked = [Asked("a", "gpu001", T0, 0, peers=("gpu002", "gpu003", "gpu004")), Asked("b", "gpu009", T0, 0)]
    windows = windows_of(asked, RULES, 2)
    assert [window.hosts for window in windows] == [("gpu001", "gpu009"), ("gpu002", "gpu003")]
    assert windows[0].text() == "2026-03-02T05:35:00Z to 2026-03-02T07:15:00Z of gpu001, gpu009"
    assert windows[1].text() == "2026-03-02T06:35:00Z to 2026-03-02T07:15:00Z of gpu002, gpu003"


def test_a_storm_of_faults_takes_few_questions() -> None:
    asked = [Asked("e", host, T0 + number * 1_000_000, 0, peers=tuple(HOSTS)) for number, host in enumerate(HOSTS)]
    assert len(windows_of(asked, RULES, 16)) == 3


@given(st.lists(st.sampled_from(HOSTS), min_size=1, max_size=16, unique=True), st.integers(1, 10_000_000))
def test_halves_are_the_whole(hosts: list[str], length: int) -> None:
    window = Window(0, length, tuple(hosts))
    left, least = [window], []
    while left:
        halves = left[-1].halves()
        least += [] if halves else [left[-1]]
        left[-1:] = list(halves)
    covered = sorted((host, one.begin, one.end) for one in least for host in one.hosts)
    assert sum(end - begin for _, begin, end in covered) == length * len(hosts)
    assert {host for host, _, _ in covered} == set(hosts)
    assert len(least) <= 64


LABELS = ("instance", "Hostname")
NAMES = Names(("up", "DCGM_FI_DEV_GPU_TEMP"), LABELS, {"gpu001": ("gpu001-mgmt",)}, {"gpu002": ("GPU-1a", "GPU-2b")})

SERIES = [
    {"__name__": "up", "instance": "gpu001:9100"},
    {"__name__": "up", "instance": "GPU001.cluster.local:9100"},
    {"__name__": "up", "instance": "gpu001-mgmt:9100"},
    {"__name__": "up", "instance": "gpu001"},
    {"__name__": "DCGM_FI_DEV_GPU_TEMP", "instance": "10.0.0.1:9400", "Hostname": "gpu001"},
    {"__name__": "DCGM_FI_DEV_GPU_TEMP", "instance": "gpu001:9400", "Hostname": "gpu001"},
    {"__name__": "DCGM_FI_DEV_GPU_TEMP", "instance": "gpu001:9400", "Hostname": "gpu002", "UUID": "GPU-1a"},
    {"__name__": "DCGM_FI_DEV_GPU_TEMP", "instance": "10.0.0.2:9400", "Hostname": "dcgm-x7k", "UUID": "GPU-2b"},
]
OTHERS = [
    {"__name__": "up", "instance": "gpu0011:9100"},
    {"__name__": "up", "instance": "xgpu001:9100"},
    {"__name__": "up", "instance": "gpu001-ipmi:9100"},
    {"__name__": "upper", "instance": "gpu001:9100"},
    {"__name__": "DCGM_FI_DEV_GPU_TEMP", "instance": "10.0.0.3:9400", "Hostname": "gpu003", "UUID": "GPU-3c"},
]


def found_by(ask: Ask, labels: dict[str, str]) -> bool:
    return all(
        bool(re.fullmatch(matcher.value, labels.get(matcher.label, ""))) != matcher.is_not for matcher in ask.matchers
    )


def test_each_series_of_the_hosts_is_found_by_one_question() -> None:
    asks = list(NAMES.asks(Window(0, 1000, ("gpu001", "gpu002")), NAMES.known_labels()))
    assert [sum(found_by(ask, labels) for ask in asks) for labels in SERIES] == [1] * len(SERIES)
    assert [sum(found_by(ask, labels) for ask in asks) for labels in OTHERS] == [0] * len(OTHERS)
    halves = [half for ask in asks for half in NAMES.halves(ask) or [ask]]
    assert len(halves) > len(asks)
    assert [sum(found_by(ask, labels) for ask in halves) for labels in SERIES] == [1] * len(SERIES)


def test_an_address_is_no_name_with_a_domain() -> None:
    ask = next(NAMES.asks(Window(0, 1, ("10.0.0.1",)), ("instance",)))
    assert found_by(ask, {"__name__": "up", "instance": "10.0.0.1:9100"})
    assert not found_by(ask, {"__name__": "up", "instance": "10.0.0.2:9100"})
    ask = next(NAMES.asks(Window(0, 1, ("gpu001.cluster.local",)), ("instance",)))
    assert found_by(ask, {"__name__": "up", "instance": "gpu001:9100"})


@given(st.text(min_size=1))
def test_any_name_of_a_host_is_matched_as_it_is(host: str) -> None:
    # A selector is text in double quotes, as JSON writes it (for what host names hold).
    ask = next(Names(("up",), ("instance",), {}, {}).asks(Window(0, 1, (host,)), ("instance",)))
    assert re.fullmatch(ask.matchers[1].value, host)
    if host.isprintable() and host.isascii():
        assert json.loads('"' + Matcher("a", host).text()[4:-1] + '"') == host


def test_a_question_ends_before_the_end_of_its_window() -> None:
    ask = next(NAMES.asks(Window(1_000, 61_000, ("gpu001",)), ("instance",)))
    question = question_of(ask, "query", 30)
    assert question.form == {"query": f"{ask.selector()}[60000ms]", "time": "60.999", "timeout": "30s"}


def test_labels_of_an_answer() -> None:
    assert labels_in(b'{"status":"success","data":["instance","job"]}') == {"instance", "job"}
    for bad in (b"", b"[]", b"{", b'{"data":3}', b'{"data":[3]}', b'{"status":"error"}'):
        assert labels_in(bad) == frozenset()
