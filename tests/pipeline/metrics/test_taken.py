"""What is kept of samples, and what is not: times that cannot be."""

from __future__ import annotations

import numpy as np

from aftershock.parsers.hosts import HostNames
from aftershock.pipeline.config import Config
from aftershock.pipeline.metrics.asked import Asked
from aftershock.pipeline.metrics.identity import Subjects
from aftershock.pipeline.metrics.taken import Taken, possible
from tests.pipeline.metrics.made import SECOND, START, batch, every, labels

OWN = labels("DCGM_FI_DEV_GPU_TEMP", instance="gpu001:9400", gpu="0")
OTHER = labels("up", instance="gpu001:9400")
# Seconds for milliseconds, the smallest and the largest number, the year 9999.
IMPOSSIBLE = [START // 1000 - START, -(1 << 63) - START, (1 << 63) - 1 - START, 253_402_300_800_000 - START]


def test_impossible_times_are_left_out_and_told_once() -> None:
    good = every(30 * SECOND, [60.0] * 20)
    for wrong in IMPOSSIBLE:
        taken = Taken(
            [Asked("e", "gpu001", (START + 300 * SECOND) * 1000, 0)],
            Subjects(HostNames(), ["gpu001"], []),
            {},
            Config(),
            all_samples=True,
        )
        rows = batch({OTHER: [(0, 1.0)], OWN: [*good, (0, 1.0)]})
        rows.times[[0, -1]] = wrong + START
        taken.take("a", "tsdb", [rows, rows], windows=True, all_time=True)
        taken.take("a", "tsdb", [rows], windows=False, all_time=True)
        ((known, got),) = taken.gathered.groups()
        assert [one.labels for one in known] == [OWN]
        assert got.times.tolist() == [START + time for time, _ in good]
        assert taken.signals.span() == (START // 30_000, START // 30_000 + 20)
        (reject,) = taken.rejects
        assert "4 samples of times that cannot be" in (reject.reason or "")


def test_what_can_be_is_left_as_it_is() -> None:
    rows = batch({OTHER: every(SECOND, [1.0] * 3), OWN: every(SECOND, [2.0] * 4)})
    assert possible(rows) == (rows, 0)
    rows.times[1] = 0
    kept, left_out = possible(rows)
    assert left_out == 1
    assert kept.begins.tolist() == [0, 2, 6]
    assert np.array_equal(kept.values, [1.0, 1.0, 2.0, 2.0, 2.0, 2.0])
