"""How rare the rows of evidence are, however they come and wherever they wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.pipeline.metrics import evidence_rows
from aftershock.pipeline.metrics.evidence_rows import EvidenceRows, false_discovery
from aftershock.schemas.metrics import Evidence

Peaks = Mapping[tuple[str, ...], Sequence[float]]


def row(z: float | None, series: str = "s", event: str = "e") -> Evidence:
    return Evidence(event_id=event, series_id=series, host="h", metric="m", robust_z=z)


def told(peaks: Peaks, *groups: Sequence[Evidence], folder: Path | None = None) -> list[dict[str, object]]:
    rows = EvidenceRows(peaks, {"e": "incident"}, folder)
    for group in groups:
        rows.add(group)
    return [one for batch in rows.batches() for one in batch.to_pylist()]


def test_chances_are_shares_of_healthy_slots() -> None:
    heights = [float(at) for at in range(99)]
    peaks = {("series", "s"): heights, ("host", "h", "m"): heights[:5], ("metric", "m"): [1.0] * 49}
    rows = told(peaks, [row(1000.0), row(-97.5), row(0.0)], [row(None), row(50.0, "other"), row(50.0, event="f")])
    assert [one["p_value"] for one in rows[:5]] == [0.01, 0.02, 1.0, None, 0.02]
    assert rows[3]["q_value"] is None
    assert [one["q_value"] for one in rows if one["q_value"] and one["event_id"] == "e"] == [
        pytest.approx(q) for q in (0.02 * 4 / 3,) * 2 + (1.0,) + (0.02 * 4 / 3,)
    ]
    # What was seen of another event changes nothing.
    assert rows[5]["q_value"] == rows[5]["p_value"] == 0.5
    assert [one["incident_id"] for one in rows] == ["incident"] * 5 + [None]
    assert told({("series", "s"): [1.0] * 18}, [row(9.0)])[0]["p_value"] is None


def test_rows_that_wait_on_disk_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = {("metric", "m"): [float(at) for at in range(99)]}

    def groups() -> list[list[Evidence]]:
        return [[row(float(at * 37 % 101), f"s{at}", "ef"[at % 2]) for at in range(k, k + 500)] for k in range(20)]

    plain = told(peaks, *groups())
    monkeypatch.setattr(evidence_rows, "_HELD_ROWS", 2000)
    monkeypatch.setattr("aftershock.pipeline.waiting.FEWEST_ROWS", 100)
    assert told(peaks, *groups(), folder=tmp_path) == plain
    assert list((tmp_path / ".evidence").iterdir())


@given(st.lists(st.floats(0.001, 1.0), min_size=1, max_size=20))
def test_corrected_chances_are_never_smaller_and_keep_their_order(chances: list[float]) -> None:
    corrected = false_discovery(np.array(chances)).tolist()
    assert all(p <= q <= 1 for p, q in zip(chances, corrected, strict=True))
    by_chance = [q for _, q in sorted(zip(chances, corrected, strict=True))]
    assert by_chance == sorted(by_chance)
    n = len(chances)
    for p, q in zip(chances, corrected, strict=True):
        direct = min(1.0, *(other * n / sum(one <= other for one in chances) for other in chances if other >= p))
        assert q == pytest.approx(direct)
