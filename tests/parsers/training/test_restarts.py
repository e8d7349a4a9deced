"""Real output of launchers and trainers with planted faults: what is known to have happened, found by hand.

``torchrun_restarts``, ``nvrx_restart``, ``hf_trainer_killed_and_resumed``, ``ray_train_restarts``: made on a machine
without a GPU; the lines of steps and checkpoints in the first two are printed by the script in Megatron's format.
"""

from __future__ import annotations

import pytest

from tests.parsers.training.reading import SAMPLES, checkpoints_of, events_of, steps_of


def text(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def test_torchrun_two_attempts_that_print_steps() -> None:
    data = text("torchrun_restarts.log")
    assert [row.step for row in steps_of(data)] == [*range(5, 36, 5), *range(25, 101, 5)]
    saves = [(row.kind, row.step, row.path, row.complete) for row in checkpoints_of(data)]
    assert saves == [
        ("save", 20, "ckB", True),
        ("load", 20, "ckB", True),
        *(("save", step, "ckB", True) for step in (40, 60, 80, 100)),
    ]
    assert checkpoints_of(data)[0].duration_s == pytest.approx(0.4042)
    assert {row.local_rank for row in steps_of(data)} == {2}


def test_nvrx_a_step_that_is_reached_again_is_a_row_again() -> None:
    data = text("nvrx_restart.log")
    assert [row.step for row in steps_of(data)] == [*range(5, 36, 5), *range(25, 61, 5)]
    assert [(row.kind, row.step) for row in checkpoints_of(data)] == [
        ("save", 20),
        ("load", 20),
        ("save", 40),
        ("save", 60),
    ]
    assert all(row.complete for row in checkpoints_of(data))


def test_hugging_face_bars_and_values() -> None:
    data = text("hf_trainer_killed_and_resumed.log")
    rows = steps_of(data)
    assert [(row.step, row.total_steps, row.loss) for row in rows] == [
        (5, 40, 3.906),
        (10, 40, 3.903),
        (15, 40, 3.91),
        (20, 40, 3.902),
        (25, 40, 3.902),
        (30, 40, 3.901),
        (35, 40, 3.895),
        (40, 40, 3.902),
    ]
    assert [(row.kind, row.step, row.complete) for row in checkpoints_of(data)] == [
        ("save", 10, True),
        ("save", 20, True),  # killed before the next step was printed: the load shows that it is whole
        ("load", 20, True),
        ("save", 30, True),
        ("save", 40, True),
    ]
    assert [row.step for row in events_of(data, "resume")] == [20]
    assert [row.duration_s for row in events_of(data, "exit") if row.error_role is None] == [0.1684]


def test_ray_each_rank_reports_a_loss_of_its_own() -> None:
    data = text("ray_train_restarts.log")
    rows = steps_of(data)
    assert [row.step for row in rows] == [
        *(1, 2, 5, 8, 10, 11, 13, 16),
        *(11, 12, 13, 15, 18, 20, 21, 23, 24),
        *(23, 26, 28, 30),
    ]
    assert [row.copies for row in rows if row.step == 30] == [2]
    assert [(row.kind, row.step, row.complete) for row in checkpoints_of(data)] == [
        ("save", 10, True),
        ("save", 20, True),
        ("save", 30, True),
    ]
