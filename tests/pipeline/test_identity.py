"""Sightings of GPUs and hosts become rows that hold for some time; errors are given their GPU by them."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.pipeline.host_table import merge_hosts
from aftershock.pipeline.identity import identify, merge_gpus
from aftershock.schemas.events import GpuError, HealthCheck, NodeEvent
from aftershock.schemas.topology import Gpu, Host

H = 3600 * 1_000_000
SLOT, OTHER = "0000:1a:00.0", "0000:1b:00.0"
A, B, C = (f"GPU-0a0a0a0a-1111-2222-3333-44444444440{n}" for n in (1, 2, 3))


def gpu(hour: float | None = None, pci: str | None = SLOT, uuid: str | None = None, **fields: Any) -> Gpu:
    given_fields = {"how_known": "kernel log", "host": "dgx07"} | fields
    return Gpu(pci=pci, gpu_uuid=uuid, valid_from=None if hour is None else round(hour * H), **given_fields)


def boot(hour: float, host: str = "dgx07", message: str = "Linux version 6.8.0-45-generic (x@y)") -> NodeEvent:
    return NodeEvent(kind="boot", host=host, time=round(hour * H), message=message)


def load(hour: float, version: str) -> NodeEvent:
    message = f"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {version}  Tue Oct 29 17:16:42 UTC 2024"
    return NodeEvent(kind="driver_load", host="dgx07", time=round(hour * H), message=message)


def spans(rows: list[Gpu]) -> list[tuple[Any, ...]]:
    def hours(time: int | None) -> float | None:
        return None if time is None else time / H

    return [(row.pci, row.gpu_uuid, hours(row.valid_from), hours(row.valid_to)) for row in rows]


def test_sources_join_by_uuid_and_by_slot() -> None:
    (row,) = merge_gpus(
        [
            gpu(5, SLOT, A, gpu_serial="1650000000101"),
            gpu(6, SLOT, A, gpu_index=0, model="NVIDIA H100 80GB HBM3", how_known="nvidia-smi"),
            gpu(None, None, A, gpu_index=0, model="NVIDIA H100 80GB HBM3", how_known="nvidia-smi"),
            gpu(None, SLOT, None, model="H100 SXM5 80GB", how_known="lspci"),
        ]
    )
    assert (row.gpu_uuid, row.gpu_serial, row.gpu_index, row.model) == (A, "1650000000101", 0, "NVIDIA H100 80GB HBM3")
    assert row.how_known == "kernel log, lspci, nvidia-smi"
    assert (row.valid_from, row.valid_to) == (None, None)


def test_a_swapped_gpu_is_a_new_row_and_closes_the_old() -> None:
    assert spans(merge_gpus([gpu(5, SLOT, A), gpu(20, SLOT, B), gpu(30, SLOT, B)])) == [
        (SLOT, A, None, 20),
        (SLOT, B, 20, None),
    ]


def test_a_swap_lies_at_the_boot_before_the_new_gpu() -> None:
    rows = merge_gpus([gpu(5, SLOT, A), gpu(20, SLOT, B)], [boot(1), boot(12), boot(9, "dgx08")])
    assert spans(rows) == [(SLOT, A, 1, 12), (SLOT, B, 12, None)]


def test_between_two_boots_nobody_knows_which_gpu_it_was() -> None:
    assert spans(merge_gpus([gpu(5, SLOT, A), gpu(20, SLOT, B)], [boot(10), boot(15)])) == [
        (SLOT, A, None, 10),
        (SLOT, B, 15, None),
    ]


def test_a_gpu_that_moves_leaves_its_slot() -> None:
    rows = merge_gpus([gpu(5, SLOT, A), gpu(6, OTHER, B), gpu(20, OTHER, A), gpu(21, SLOT, C)], [boot(15)])
    assert set(spans(rows)) == {(SLOT, A, None, 15), (OTHER, B, None, 15), (OTHER, A, 15, None), (SLOT, C, 15, None)}


def test_a_name_that_is_learned_after_a_boot_does_not_hold_before_it() -> None:
    nameless = gpu(5, SLOT, None, gpu_index=0, how_known="nvidia-smi")
    assert spans(merge_gpus([nameless, gpu(6, SLOT, A)])) == [(SLOT, A, None, None)]
    assert spans(merge_gpus([nameless, gpu(20, SLOT, A)], [boot(10)])) == [(SLOT, None, None, 10), (SLOT, A, 10, None)]


def test_another_index_after_a_boot_is_a_new_row() -> None:
    rows = merge_gpus([gpu(5, SLOT, A, gpu_index=3), gpu(20, SLOT, A, gpu_index=2)], [boot(10)])
    assert [(row.gpu_index, row.valid_to) for row in rows] == [(3, 10 * H), (2, None)]


def test_serial_numbers_join_unless_a_board_has_two_gpus() -> None:
    seen = [gpu(5, SLOT, A, gpu_serial="1650000000101"), gpu(None, None, None, gpu_serial="1650000000101", gpu_index=4)]
    (row,) = merge_gpus(seen)
    assert row.gpu_index == 4
    shared = [
        gpu(5, SLOT, A, gpu_serial="16500"),
        gpu(5, OTHER, B, gpu_serial="16500"),
        gpu(9, SLOT, None, gpu_serial="16500"),
    ]
    assert spans(merge_gpus(shared)) == [(SLOT, A, None, None), (OTHER, B, None, None)]


def test_slots_of_hosts_that_are_not_known_are_not_joined() -> None:
    rows = merge_gpus([gpu(5, SLOT, A, host=None), gpu(6, SLOT, B, host=None), gpu(None, None, A, host=None)])
    assert [(row.gpu_uuid, row.valid_to) for row in rows] == [(A, None), (B, None)]


def error(hour: float | None, **fields: Any) -> GpuError:
    time = None if hour is None else round(hour * H)
    return GpuError(
        **({"host": "dgx07", "time": time, "time_error_s": 1e-6, "family": "xid", "code": 79, "pci": SLOT} | fields)
    )


@pytest.mark.parametrize(
    ("hour", "expected"),
    [(2, A), (11.999, A), (12, None), (12.001, B), (40, B), (None, None)],
)
def test_an_error_is_given_the_gpu_of_its_time(hour: float | None, expected: str | None) -> None:
    gpus = merge_gpus([gpu(5, SLOT, A, gpu_serial="1650000000101", gpu_index=0), gpu(20, SLOT, B)], [boot(1), boot(12)])
    row = error(hour)
    identify([row], gpus)
    assert row.gpu_uuid == expected
    assert row.gpu_serial == ("1650000000101" if expected == A else None)


def test_an_error_before_the_first_known_boot_of_a_gpu_stays_under_its_address() -> None:
    row = error(2)
    identify([row], merge_gpus([gpu(20, SLOT, A)], [boot(10)]))
    assert (row.pci, row.gpu_uuid) == (SLOT, None)


def test_what_the_line_says_wins() -> None:
    gpus = merge_gpus([gpu(5, SLOT, A, gpu_serial="1650000000101", gpu_index=0)])
    row = error(6, gpu_uuid=C, gpu_serial="1650000000109")
    identify([row], gpus)
    assert (row.gpu_uuid, row.gpu_serial, row.gpu_index) == (C, "1650000000109", None)


def test_two_gpus_that_may_be_meant_are_none() -> None:
    row = error(6)
    identify([row], merge_gpus([gpu(None, SLOT, A), gpu(None, SLOT, B)]))
    assert row.gpu_uuid is None


def test_the_uuid_finds_the_slot_and_checks_are_identified_too() -> None:
    gpus = merge_gpus([gpu(None, SLOT, A, gpu_index=0)])
    told = error(6, pci=None, gpu_uuid=A)
    check = HealthCheck(host="dgx07", pci=SLOT, time=6 * H)
    elsewhere = error(6, host="dgx08")
    identify([told, check, elsewhere], gpus)
    assert (told.pci, told.gpu_index, check.gpu_uuid, elsewhere.gpu_uuid) == (SLOT, 0, A, None)


SIGHTINGS = st.builds(
    gpu,
    st.none() | st.integers(0, 30),
    st.sampled_from([SLOT, OTHER, None]),
    st.sampled_from([A, B, C, None]),
    gpu_serial=st.sampled_from(["16501", "16502", None]),
    gpu_index=st.sampled_from([0, 1, None]),
    model=st.sampled_from(["H100", "NVIDIA H100", None]),
    how_known=st.sampled_from(["kernel log", "nvidia-smi", "lspci", "dcgm labels"]),
    host=st.sampled_from(["dgx07", "dgx07", "dgx08", None]),
)


@given(seen=st.lists(SIGHTINGS, max_size=12), hours=st.lists(st.integers(0, 30), max_size=3), order=st.randoms())
def test_order_does_not_matter(seen: list[Gpu], hours: list[int], order: Any) -> None:
    boots = [boot(hour) for hour in hours]
    first = [dataclasses.astuple(row) for row in merge_gpus(seen, boots)]
    order.shuffle(seen)
    order.shuffle(boots)
    assert [dataclasses.astuple(row) for row in merge_gpus(seen, boots)] == first


@given(seen=st.lists(SIGHTINGS, max_size=12), hours=st.lists(st.integers(0, 30), max_size=3))
def test_dated_rows_of_a_slot_follow_each_other(seen: list[Gpu], hours: list[int]) -> None:
    dated = [row for row in seen if row.host and row.pci and row.valid_from is not None]
    by_slot: dict[Any, list[Gpu]] = {}
    for row in merge_gpus(dated, [boot(hour) for hour in hours]):
        by_slot.setdefault((row.host, row.pci), []).append(row)
        assert row.valid_from is None or row.valid_to is None or row.valid_from <= row.valid_to
    for rows in by_slot.values():
        rows.sort(key=lambda row: (-1 if row.valid_from is None else row.valid_from, row.valid_to or 99 * H))
        for before, after in itertools.pairwise(rows):
            assert before.valid_to is not None
            assert after.valid_from is not None
            assert before.valid_to <= after.valid_from


def host(hour: float | None, **fields: Any) -> Host:
    return Host(**({"host": "dgx07", "valid_from": None if hour is None else round(hour * H)} | fields))


def host_spans(rows: list[Host]) -> list[tuple[Any, ...]]:
    def hours(time: int | None) -> float | None:
        return None if time is None else time / H

    return [(row.kernel, row.driver, hours(row.valid_from), hours(row.valid_to)) for row in rows]


def test_a_boot_and_the_driver_load_behind_it_are_one_row() -> None:
    assert host_spans(merge_hosts([], [load(1.01, "550.90.07"), boot(1)])) == [
        ("6.8.0-45-generic", "550.90.07", 1, None)
    ]


def test_a_new_driver_is_a_new_row_since_the_boot_before_it() -> None:
    events = [boot(1), load(1.01, "550.90.07"), boot(10), load(10.01, "570.86.15")]
    assert host_spans(merge_hosts([], events)) == [
        ("6.8.0-45-generic", "550.90.07", 1, 10),
        ("6.8.0-45-generic", "570.86.15", 10, None),
    ]


def test_the_driver_is_unknown_after_a_boot_into_another_kernel() -> None:
    events = [boot(1), load(1.01, "550.90.07"), boot(10, message="Linux version 6.8.0-50-generic (x@y)")]
    assert host_spans(merge_hosts([host(2, rack="r1")], events)) == [
        ("6.8.0-45-generic", "550.90.07", 1, 10),
        ("6.8.0-50-generic", None, 10, None),
    ]


def test_reports_state_drivers_and_undated_ones_fill_in() -> None:
    assert host_spans(merge_hosts([host(5, driver="550.90.07")], [])) == [(None, "550.90.07", None, None)]
    assert host_spans(merge_hosts([host(None, driver="550.90.07")], [boot(1)])) == [
        ("6.8.0-45-generic", "550.90.07", 1, None)
    ]
    assert host_spans(merge_hosts([host(None, driver="535.1.1"), host(5, driver="550.90.07")], [])) == [
        (None, "550.90.07", None, None),
        (None, "535.1.1", None, None),
    ]
    assert merge_hosts([Host(driver="1.2.3")], []) == []


FACTS = st.one_of(
    st.builds(host, st.none() | st.integers(0, 20), driver=st.sampled_from(["550.90.07", "570.86.15", None])),
    st.builds(boot, st.integers(0, 20), message=st.sampled_from(["Linux version 1.0 x", "Linux version 2.0 x", None])),
    st.builds(load, st.integers(0, 20), st.sampled_from(["550.90.07", "570.86.15"])),
)


@given(facts=st.lists(FACTS, max_size=12), order=st.randoms())
def test_order_of_facts_does_not_matter(facts: list[Any], order: Any) -> None:
    def merged() -> list[tuple[Any, ...]]:
        reports = [fact for fact in facts if isinstance(fact, Host)]
        return [
            dataclasses.astuple(row) for row in merge_hosts(reports, [f for f in facts if isinstance(f, NodeEvent)])
        ]

    first = merged()
    order.shuffle(facts)
    assert merged() == first
    dated = [row for row in first if row[2] is not None or row[3] is not None]
    assert all(row[2] is None or row[3] is None or row[2] <= row[3] for row in dated)
