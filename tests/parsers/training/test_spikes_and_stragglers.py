"""What is said of high losses and of slow ranks: events of their own, and nothing that ends a run."""

from __future__ import annotations

import pytest

from aftershock.parsers.selfcheck import rows_of_text
from aftershock.parsers.training import FORMAT
from aftershock.schemas.events import TrainingEvent

NAMED = "STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected ranks: "


def events(text: str) -> list[TrainingEvent]:
    """The events of a log."""
    return [row for row in rows_of_text(text, FORMAT) if isinstance(row, TrainingEvent)]


def test_ranks_are_told_by_node() -> None:
    ranks = (
        "{StragglerId(rank=9, node='gpu018'), StragglerId(rank=3, node='gpu017'), StragglerId(rank=1, node='gpu017')}"
    )
    found = events(f"{NAMED}{ranks}\n")
    assert [(row.host, row.rank, row.ranks) for row in found] == [("gpu017", None, [1, 3]), ("gpu018", 9, [9])]
    assert {(row.kind, row.error_class, row.error_role) for row in found} == {("straggler", "slowdown", "symptom")}


@pytest.mark.parametrize("ranks", ["{}", "set()", "{StragglerId(", "{" + "StragglerId(rank=" * 2000])
def test_ranks_that_cannot_be_read_name_nobody(ranks: str) -> None:
    assert [row.ranks for row in events(f"{NAMED}{ranks}\n")] == []


def report(most: str, low: str) -> str:
    """What Megatron-LM prints of the slowest and the fastest rank."""
    return (
        f"[2026-03-01 10:20:30] | MnRtt/Rnk: 100.00ms/2 | MxRtt/Rnk: {most}ms/3 | MnPwr/Rnk: 601.20W/3 | MxPwr/Rnk: "
        f"640.10W/0 | MnEtpt/Rnk: {low}TF/5 | MxEtpt/Rnk: 160.00TF/2\n"
    )


@pytest.mark.parametrize(
    ("most", "low", "ranks"),
    [("104.00", "158.00", None), ("120.00", "159.00", [3]), ("120.00", "130.00", [3, 5]), ("1.2.3", "130.00", None)],
)
def test_ranks_that_are_close_are_not_slow(most: str, low: str, ranks: list[int] | None) -> None:
    found = events(report(most, low))
    assert [row.ranks for row in found] == ([] if ranks is None else [ranks])


@pytest.mark.parametrize("name", ["LossSpikeError", "HighLossError"])
def test_a_run_that_is_stopped_for_its_loss_diverged(name: str) -> None:
    text = (
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/app/train.py", line 12, in step\n'
        "[rank0]:     self.run()\n"
        f"[rank0]: llmfoundry.utils.exceptions.{name}: Training stopped due to a loss spike. The training loss was more "
        "than 2 times greater than the running average loss (approx. 2.31) over 5 consecutive training steps.\n"
    )
    (found,) = events(text)
    assert (found.kind, found.error_class, found.error_role) == ("error", "numeric_divergence", "root")


def test_a_spike_is_no_error_and_a_number_that_is_none_is_one() -> None:
    spiky, nan = (
        events(f"Unexpected result {value} on rank 3 at iteration #120 invocation #1 (message='Spiky loss')\n")
        for value in ("12.5", "nan")
    )
    assert [(row.kind, row.error_class, row.error_role) for row in spiky] == [("loss_spike", None, None)]
    assert [(row.kind, row.error_class, row.error_role) for row in nan] == [("error", "unknown", "symptom")]


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError: Train loss contains a NaN.",
        "ValueError: The loss returned in `training_step` is nan.",
        "FloatingPointError: invalid value (nan) encountered in jit(train_step)",
    ],
)
def test_exceptions_that_tell_of_numbers_that_are_none(error: str) -> None:
    (found,) = events(f'Traceback (most recent call last):\n  File "/app/train.py", line 12, in step\n{error}\n')
    assert (found.error_class, found.error_role) == ("numeric_divergence", "root")
