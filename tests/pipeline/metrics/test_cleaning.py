"""Values that can be compared: what a sample says, and what only looks like one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.prometheus.columns import Labels
from aftershock.pipeline.metrics.cleaning import COUNTER, GAUGE, LAST_CODE, cleaned, kind_of, kinds_of
from tests.pipeline.metrics.made import SECOND, STALE, START, batch, every, labels


def clean(metric: str, samples: list[tuple[int, float]]) -> list[tuple[int, float]]:
    grid = cleaned(batch({labels(metric): samples}), kinds_of([metric]))
    return [(int(time) - START, float(value)) for time, value in zip(grid.times, grid.values, strict=True)]


@pytest.mark.parametrize(
    ("metric", "kind"),
    [
        ("node_intr_total", COUNTER),
        ("http_seconds_bucket", COUNTER),
        ("node_vmstat_pgpgout", COUNTER),
        ("node_vmstat_nr_free_pages", GAUGE),
        ("node_netstat_Tcp_RetransSegs", COUNTER),
        ("node_netstat_Tcp_CurrEstab", GAUGE),
        ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", COUNTER),
        ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", COUNTER),
        ("DCGM_FI_DEV_ROW_REMAP_FAILURE", GAUGE),
        ("DCGM_FI_DEV_XID_ERRORS", LAST_CODE),
        ("DCGM_EXP_XID_ERRORS_COUNT", GAUGE),
        ("DCGM_FI_DEV_GPU_UTIL", GAUGE),
        ("node_memory_total_bytes", GAUGE),
    ],
)
def test_kind_of_a_metric(metric: str, kind: int) -> None:
    assert kind_of(metric) == kind


def test_markers_other_nan_infinities_and_sentinels_are_no_values() -> None:
    blanks = [STALE, math.nan, math.inf, 0x7FFFFFF0, 0x7FFFFFF3, 9223372036854775794, 2**47, 2**47 + 3]
    assert clean("DCGM_FI_DEV_GPU_TEMP", every(1000, [51, *blanks, 52])) == [(0, 51), (9000, 52)]
    # Near a sentinel there are values.
    assert len(clean("node_memory_MemFree_bytes", every(1000, [0x7FFFFFF4, 0x7FFFFFEF, 2**47 - 1]))) == 3


def test_counters_become_rates_that_know_of_resets() -> None:
    assert clean("node_intr_total", every(10 * SECOND, [100, 150, 150, 30, 40])) == [
        (10 * SECOND, 5.0),
        (20 * SECOND, 0.0),
        (30 * SECOND, 3.0),
        (40 * SECOND, 1.0),
    ]


def test_a_counter_is_read_across_a_marker() -> None:
    assert clean("node_intr_total", every(SECOND, [1, STALE, 3])) == [(2000, 1.0)]


def test_the_last_code_shows_when_it_changed() -> None:
    assert [value for _, value in clean("DCGM_FI_DEV_XID_ERRORS", every(SECOND, [0, 0, 79, 79, 79, 43, 0]))] == [
        *(0, 79, 0, 0, 43, 0)
    ]
    # One that was there before the first sample says nothing.
    assert not any(value for _, value in clean("DCGM_FI_DEV_XID_ERRORS", every(SECOND, [79] * 5)))


def test_two_samples_of_one_time_are_one() -> None:
    assert clean("DCGM_FI_DEV_GPU_TEMP", [(0, 1.0), (1000, 2.0), (1000, 2.0), (2000, 3.0)]) == [
        *((0, 1.0), (1000, 2.0), (2000, 3.0))
    ]
    # A marker at the same time as a value does not hide it.
    assert clean("DCGM_FI_DEV_GPU_TEMP", [(0, STALE), (0, 1.0)]) == [(0, 1.0)]


def test_values_scraped_twice_count_once() -> None:
    collected = [float(value * 7 % 31) for value in range(30)]
    scraped = [value for value in collected for _ in range(2)]
    assert [value for _, value in clean("DCGM_FI_DEV_POWER_USAGE", every(15 * SECOND, scraped))] == collected


def test_rates_of_counters_scraped_twice_do_not_alternate_with_nothing() -> None:
    collected = [float(100 * at + at % 3) for at in range(30)]
    scraped = [value for value in collected for _ in range(2)]
    rates = [value for _, value in clean("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", every(15 * SECOND, scraped))]
    assert len(rates) == 29
    assert min(rates) > 3.0


def test_values_that_change_with_every_scrape_stay() -> None:
    samples = every(15 * SECOND, [float(value % 2) for value in range(40)])
    assert clean("node_procs_running", samples) == samples
    # So do those that stand still: nothing tells that they were not collected.
    still = every(15 * SECOND, [5.0] * 40)
    assert clean("node_procs_running", still) == still


_SAMPLES = st.lists(
    st.lists(st.one_of(st.integers(0, 5).map(float), st.sampled_from([STALE, math.nan, math.inf])), max_size=40),
    min_size=1,
    max_size=4,
)


@given(_SAMPLES, st.sampled_from(["node_intr_total", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_XID_ERRORS"]))
def test_each_series_is_cleaned_by_itself(series: list[list[float]], metric: str) -> None:
    rows: dict[Labels, list[tuple[int, float]]] = {
        labels(metric, gpu=str(at)): every(SECOND, values) for at, values in enumerate(series)
    }
    grid = cleaned(batch(rows), kinds_of([metric] * len(rows)))
    assert np.isfinite(grid.values).all()
    for at, samples in enumerate(rows.values()):
        begin, end = grid.begins[at : at + 2]
        own = list(zip((grid.times[begin:end] - START).tolist(), grid.values[begin:end].tolist(), strict=True))
        assert own == clean(metric, samples)
