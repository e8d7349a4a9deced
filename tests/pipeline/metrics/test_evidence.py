"""Evidence: what a series did around an event, against its past and its peers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.hosts import HostNames
from aftershock.parsers.prometheus.columns import Labels
from aftershock.pipeline.metrics.asked import Asked
from aftershock.pipeline.metrics.cleaning import cleaned, kinds_of
from aftershock.pipeline.metrics.evidence import evidence_of, first_crossing
from aftershock.pipeline.metrics.gathered import known_of
from aftershock.pipeline.metrics.identity import Subjects
from aftershock.pipeline.metrics.peers import Peers
from aftershock.pipeline.metrics.rules import WindowRules
from aftershock.schemas.metrics import Evidence
from aftershock.schemas.topology import Gpu
from tests.pipeline.metrics.made import MINUTE, SECOND, START, batch, every, labels

RULES = WindowRules()
STEP = 30 * SECOND
HOSTS = [f"gpu{number:03}" for number in range(1, 9)]
A, B = "GPU-a0000000", "GPU-b0000000"
SUBJECTS = Subjects(HostNames(), HOSTS, [Gpu(host="gpu001", gpu_index=0, gpu_uuid=A, pci="0000:1b:00.0")])
# The event: an hour and a half after the first sample.
EVENT = START + 90 * MINUTE
N = 200


def asked(**more: object) -> Asked:
    return Asked("event-1", "gpu001", EVENT * 1000, 0, **more)  # type: ignore[arg-type]


def look(
    series: dict[Labels, list[tuple[int, float]]], one: Asked | None = None, rules: WindowRules = RULES
) -> list[Evidence]:
    one = one or asked()
    peers = Peers([one], rules)
    whole = batch(series)
    known = [known_of(own, SUBJECTS) for own in whole.labels]
    grid = cleaned(whole, kinds_of([own.metric for own in known]))
    peers.take(whole, known)
    return evidence_of([one], known, grid, peers, rules)


def wobble(level: float, by: float) -> list[float]:
    return [level + by * ((at * 7919) % 11 - 5) / 5 for at in range(N)]


def at(minute: float) -> int:
    return round(minute * MINUTE / STEP)


def test_a_rise_before_the_event_leads_it() -> None:
    values = wobble(60, 1)
    values[at(80) :] = [value + 30 for value in values[at(80) :]]
    (row,) = look({labels("DCGM_FI_DEV_GPU_TEMP", instance="gpu001", gpu="0"): every(STEP, values)})
    assert row.n_baseline == 120
    assert row.baseline_median == pytest.approx(60, abs=0.3)
    assert row.robust_z is not None
    assert row.robust_z > 20
    assert row.peak_value == max(values[at(60) : at(95) + 1])
    assert row.first_crossing_time == (START + 80 * MINUTE) * 1000
    assert row.lead_s == 600.0


def test_what_stays_as_it_was_crosses_nothing() -> None:
    rows = look(
        {
            labels("DCGM_FI_DEV_POWER_USAGE", instance="gpu001", gpu="0"): every(STEP, wobble(500, 20)),
            labels("DCGM_FI_DEV_GPU_TEMP", instance="gpu001", gpu="0"): every(STEP, [60.0] * N),
            # One more is no deviation in a gauge of whole numbers.
            labels("node_procs_running", instance="gpu001"): every(
                STEP, [4.0 + (at % 5 == 0) + 2 * (at == 165) for at in range(N)]
            ),
        }
    )
    assert [row.lead_s for row in rows] == [None] * 3
    assert all(row.robust_z is not None and abs(row.robust_z) < 6 for row in rows)


def test_a_single_spike_is_no_crossing_but_a_single_count_is_one() -> None:
    spike = wobble(60, 1)
    spike[at(75)] = 500.0
    rows = 3.0
    counts = [rows + (step >= at(75)) for step in range(N)]
    found = look(
        {
            labels("DCGM_FI_DEV_GPU_TEMP", instance="gpu001", gpu="0"): every(STEP, spike),
            labels("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", instance="gpu001", gpu="0"): every(STEP, counts),
        }
    )
    assert found[0].peak_value == 500.0
    assert found[0].lead_s is None
    assert found[1].lead_s == 15 * 60.0


def test_the_last_xid_is_evidence_when_it_changes_only() -> None:
    def xid(changed: float) -> Evidence:
        codes = [79.0 if step >= at(changed) else 0.0 for step in range(N)]
        return look({labels("DCGM_FI_DEV_XID_ERRORS", instance="gpu001", gpu="0"): every(STEP, codes)})[0]

    # It came half an hour before the window began, and still stands there: that is no news.
    assert xid(30).lead_s is None
    assert xid(30).robust_z == 0
    assert xid(91).lead_s == -60.0
    assert xid(91).peak_value == 79.0


def test_a_dip_below_the_baseline_counts_too() -> None:
    values = [100.0 - (step % 3) for step in range(N)]
    values[at(89) :] = [0.0] * (N - at(89))
    (row,) = look({labels("DCGM_FI_DEV_GPU_UTIL", instance="gpu001", gpu="0"): every(STEP, values)})
    assert row.robust_z is not None
    assert row.robust_z < -30
    assert row.lead_s == 60.0


def test_too_little_before_is_no_baseline() -> None:
    late = every(STEP, wobble(60, 1)[:60], 58 * MINUTE)
    (row,) = look({labels("DCGM_FI_DEV_GPU_TEMP", instance="gpu001", gpu="0"): late})
    assert row.n_baseline == 4
    assert (row.robust_z, row.peak_value, row.lead_s) == (None, None, None)
    assert row.baseline_median is not None
    (row,) = look({labels("DCGM_FI_DEV_GPU_TEMP", instance="gpu001", gpu="0"): every(STEP, wobble(60, 1)[:100])})
    assert (row.n_baseline, row.robust_z) == (100, None)


def test_series_of_the_gpu_and_of_the_host_but_not_of_other_gpus_or_hosts() -> None:
    series = {
        labels("t", instance="gpu001", UUID=A): every(STEP, wobble(1, 1)),
        labels("t", instance="gpu001", UUID=B): every(STEP, wobble(1, 1)),
        labels("t", instance="gpu001"): every(STEP, wobble(1, 1)),
        labels("t", instance="gpu002"): every(STEP, wobble(1, 1)),
    }
    assert [row.gpu_uuid for row in look(series, asked(gpu_uuid=A))] == [A, None]
    # An event that names an address is about the GPU that has it.
    assert [row.gpu_uuid for row in look(series, asked(pci="0000:1b:00.0"))] == [A, B, None]
    assert len(look(series)) == 3


def test_the_error_of_the_clock_widens_the_window() -> None:
    values = wobble(60, 1)
    values[at(97) : at(97) + 4] = [99.0] * 4
    own = labels("DCGM_FI_DEV_GPU_TEMP", instance="gpu001", gpu="0")
    assert look({own: every(STEP, values)})[0].lead_s is None
    unsure = Asked("event-1", "gpu001", EVENT * 1000, 300_000_000)
    assert look({own: every(STEP, values)}, unsure)[0].lead_s == -420.0


def test_what_the_whole_job_does_is_nothing_against_peers() -> None:
    def job(own_too: bool) -> Evidence:
        series = {}
        for number, host in enumerate(HOSTS):
            values = wobble(100 + number, 1)
            dips = own_too or host != "gpu001"
            values[at(80) : at(90)] = [5.0 + number / 10 if dips else 100.0] * (at(90) - at(80))
            series[labels("DCGM_FI_DEV_GPU_UTIL", Hostname=host, gpu="0")] = every(STEP, values)
        return look(series, asked(peers=tuple(HOSTS[1:])))[0]

    together = job(True)
    assert together.peer_z is not None
    assert together.robust_z is not None
    assert together.robust_z < -30
    assert abs(together.peer_z) < 4
    alone = look(
        {
            labels("DCGM_FI_DEV_GPU_UTIL", Hostname=host, gpu="0"): every(
                STEP, [5.0 if host == "gpu001" and step > at(80) else value for step, value in enumerate(wobble(99, 1))]
            )
            for host in HOSTS
        },
        asked(peers=tuple(HOSTS[1:])),
    )[0]
    assert alone.peer_z is not None
    assert alone.peer_z < -30


def test_peers_are_compared_by_like_series() -> None:
    # The modes of a CPU are no peers of each other.
    series = {
        labels("node_cpu_share", instance=host, mode=mode): every(STEP, wobble(level, 0.5))
        for host in HOSTS
        for mode, level in (("idle", 90.0), ("user", 5.0))
    }
    found = look(series, asked(peers=tuple(HOSTS[1:])))
    assert all(row.peer_z is not None and abs(row.peer_z) < 4 for row in found)
    # Two peers tell nothing, however often they are scraped.
    assert [row.peer_z for row in look(series, asked(peers=("gpu002", "gpu003")))] == [None, None]


@given(st.lists(st.booleans(), max_size=30), st.integers(1, 4))
def test_first_crossing_is_that_of_a_loop(beyond: list[bool], persistence: int) -> None:
    run, expected = 0, None
    for place, one in enumerate(beyond):
        run = run + 1 if one else 0
        if run >= persistence:
            expected = place - run + 1
            break
    else:
        expected = len(beyond) - run if run else None
    assert first_crossing(np.array(beyond, bool), persistence) == expected
