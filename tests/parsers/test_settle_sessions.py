"""Sessions settled column by column are what they are settled row by row."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.blocks import BlockResult
from aftershock.parsers.clock import SECOND, Reading
from aftershock.parsers.formats import Found
from aftershock.parsers.hosts import HostNames
from aftershock.parsers.registry import format_named
from aftershock.parsers.resolve import ClockRules
from aftershock.parsers.settle import SourceRules, settle_source
from aftershock.parsers.settle_sessions import are_alone, settle_sessions
from aftershock.parsers.transit import is_found, pack, rows_of, unpack
from aftershock.schemas.provenance import Source
from aftershock.schemas.sessions import Session

DAY = 86_400 * SECOND
# Around changes of zones: Berlin in March and October, an island that moves by half an hour, and anywhere.
MOMENTS = st.one_of(
    *(st.integers(at - DAY // SECOND, at + DAY // SECOND) for at in (1743296400, 1761440400, 1743861600, 1759593600)),
    st.integers(0, 2_000_000_000),
).map(lambda seconds: seconds * SECOND)
HOSTS = st.lists(st.sampled_from(["gpu1", "GPU2.example.org", "10.0.0.7", "bad name", "alias1", ""]), max_size=4)
ZONES = ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "+05:30", None]


@st.composite
def records(draw: Any) -> Found:
    times = {name: draw(st.none() | MOMENTS) for name in ("submit_time", "start_time", "end_time")}
    kind = draw(st.sampled_from(["local", "local", "epoch", "zoned", "none"]))
    wall = next((time for time in times.values() if time is not None), None)
    kind = kind if wall is not None else "none"
    row = Session(
        job_id="7",
        cluster=draw(st.sampled_from([None, "alpha"])),
        hosts=draw(st.none() | HOSTS),
        excluded_hosts=draw(st.none() | HOSTS),
        designated_hosts=draw(st.none() | HOSTS),
        **times,
    )
    reading = Reading(kind, wall if kind != "none" else None, resolution=draw(st.sampled_from([1, SECOND])))
    return Found(row, reading, draw(st.integers(0, 1 << 40)), format="sacct")


@settings(max_examples=300, deadline=None)
@given(
    st.lists(records(), min_size=1, max_size=30, unique_by=lambda item: item.offset),
    st.sampled_from(ZONES),
    st.booleans(),
    st.sampled_from([None, "beta"]),
)
def test_both_ways(found: list[Found], zone: str | None, assumed: bool, cluster: str | None) -> None:
    names = HostNames({"alias1": "gpu9"})
    rules = SourceRules(
        source="s", format="sacct", cluster=cluster, clock=ClockRules(zone, assumed=assumed), names=names, burst_gap=0
    )
    batches = [batch for batch in pack(BlockResult(found=found), "s") if is_found(batch)]
    assert are_alone(batches, format_named("sacct"))
    by_row = settle_source(unpack(batches).found, [], rules, format_named)
    described = Source(source="s", format="sacct")
    rows = [row for batch in settle_sessions(batches, rules, described) for row in rows_of(batch)]
    key = lambda row: row.sources[0]  # noqa: E731
    assert sorted(map(asdict, rows), key=lambda row: row["sources"]) == [
        asdict(row) for row in sorted(by_row.rows, key=key)
    ]
    assert described == by_row.source


@pytest.mark.parametrize(
    "changes",
    [
        {"reading": Reading("yearless", 5 * SECOND)},
        {"reading": Reading("local", 5 * SECOND, epoch=7 * SECOND)},
        {"reading": Reading("none", None, boot=7)},
        {"last": Reading("local", 5 * SECOND)},
        {"format": "scontrol_job"},
    ],
)
def test_what_needs_a_neighbour_is_not_alone(changes: dict[str, Any]) -> None:
    given_fields: dict[str, Any] = {"row": Session(job_id="7"), "reading": Reading("local", SECOND), "offset": 0}
    item = Found(**{**given_fields, "format": "sacct", **changes})
    batches = [batch for batch in pack(BlockResult(found=[item]), "s") if is_found(batch)]
    assert not are_alone(batches, format_named("sacct"))
