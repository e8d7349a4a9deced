"""Trainers: wordings beside their samples, what looks like a step and is none, and grammars that stay linear."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import Any

import pytest

from aftershock.parsers.training import trainers
from aftershock.parsers.training.topics import topics
from tests.parsers.training.reading import events_of, megatron, rows_of, steps_of
from tests.timing import seconds

DICT = "{{'loss': {}, 'grad_norm': {}, 'learning_rate': 1e-05, 'epoch': 0.5, 'global_step/max_steps': '7/10'}}\n"


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("step:  1  loss: 12.2721  memory: 38.90GiB(40.96%)  wps: 1,234  mfu: 10.61%", {"step": 1, "loss": 12.2721}),
        (
            "[rank0]:[titan] 2026-03-01 10:20:30,1 - root - INFO - step: 1000  loss:  4.1  grad_norm: 1.5",
            {"step": 1000},
        ),
        (
            "completed step: 3, seconds: 1.2, total_weights: 5, loss: 2.5",
            {"step": 3, "tflops_per_gpu": None, "loss": 2.5},
        ),
        (
            "Epoch 0: :  10%|#| 9/100 [00:39<12:28, reduced_train_loss=11.0, global_step=8.000]",
            {"step": 8, "loss": 11.0},
        ),
        (
            "Epoch 0:   6%|#| 32040/500150 [6:28<9:39, 1.37it/s, reduced_train_loss=2.5, global_step=3.2e+4]",
            {"step": 32039, "loss": 2.5},
        ),
        (
            "Steps:  38%|#| 397/800 [5:06<4:17, 1.07s/it, loss=0.5, lr=1e-6]\r"
            "Steps:  38%|#| 397/800 [5:06<4:17, 1.07s/it, loss=0.25, lr=1e-6]",
            {"step": 397, "loss": 0.25},
        ),
        (
            "Epoch 3:  45%|####| 450/1000 [01:12<01:28,  6.21it/s, v_num=12, train_loss=0.532]",
            {"step": None, "loss": 0.532},
        ),
        (
            "Train:  14%|#| 35/250 [01:12<01:28,  2.00s/it, loss=1.5]",
            {"step": 35, "total_steps": 250, "step_time_s": 2.0},
        ),
        (
            "{'loss': 1.5, 'lr': 1e-05, 'iteration': '10/100', 'train_speed(iter/s)': 0.5}",
            {"step": 10, "step_time_s": 2.0},
        ),
        ("{'num_tokens': 1000.0, 'reward': 0.5, 'epoch': 0.1, 'loss': 0.002, 'step': 4}", {"step": 4, "tokens": 1000}),
        ('{"loss": 1.5, "lr": 1e-05, "iteration": "10/100"}', {"step": 10, "total_steps": 100}),
        ("[step=1,234/???,epoch=1]\n    train/CE loss=2.5", {"step": 1234, "total_steps": None, "loss": 2.5}),
        (
            "steps: 20 loss: 2.5000 aux_loss: 0.1000 iter time (s): 1.250 samples/sec: 8.0",
            {"step": 20, "step_time_s": 1.25},
        ),
        ("Training epoch 0, iteration 0/9 | lr: 1e-06 | global_step: 0 | reduced_train_loss: 11.5", {"step": 0}),
        ("iteration 5/10 | elapsed time per iteration (s): 1.5 | loss: 2.5E+00 |", {"step_time_s": 1.5, "loss": 2.5}),
        ("Iteration 300: loss = 2.5, lr = 0.001", {"step": 300, "loss": 2.5, "learning_rate": 0.001}),
    ],
)
def test_steps(text: str, fields: dict[str, Any]) -> None:
    (row,) = steps_of(text + "\n")
    assert {name: getattr(row, name) for name in fields} == fields
    assert row.copies == 1


def test_bars_that_lost_their_ends_are_bars_each() -> None:
    bars = [
        f"Epoch 0:   3%|#| {n}/20101 [2:12<6:15, 14.05s/it, train_loss={n}.5, global_step={n - 1}.0" for n in (8, 9)
    ]
    assert [(row.step, row.loss) for row in steps_of(", ".join(bars) + "]\n")] == [(7, 8.5), (8, 9.5)]


@pytest.mark.parametrize(
    "text",
    [
        "eval step: 3  loss:  2.5",
        "Epoch 4:   6%|#| 32040/500150 [6:28<9:39, 1.37it/s, reduced_train_loss=2.5, global_step=2.03e+6]",
        "Steps: 38% done, loss=2.5",
        "Evaluating: 100%|####| 10/10 [00:01<00:00,  9.50it/s, loss=2.5]",
        "Validation DataLoader 0: 100%|####| 10/10 [00:01<00:00,  9.50it/s, loss=2.5, global_step=3.0]",
        "Map:  10%|#| 100/1000 [00:01<00:09, 99.00 examples/s]",
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 64, reducing to 32",
        "epoch=0/micro_step=1/global_step=0, RunningAvgSamplesPerSec=1.0",
        "time (ms) | forward-compute: 29733.63 | optimizer: 323.04",
        "{'loss': 'mse', 'epoch': 1}",
        "{'loss': 0.5}",
        '{"loss": 0.5, "dropped": 3}',
        "Task: boolq; number of requests: 818               | 334/408 [00:00<00:00, 1665.81ctx/s]",
        "consumed samples: none were kept in iteration 5",
    ],
)
def test_what_is_no_step(text: str) -> None:
    assert steps_of(text + "\n") == []


def test_numbers_that_are_none_are_kept_as_what_they_are() -> None:
    nan, inf = steps_of(DICT.format("nan", "inf"))[0], steps_of(DICT.format("'1.5'", "'nan'"))[0]
    assert nan.loss is not None
    assert math.isnan(nan.loss)
    assert nan.grad_norm == math.inf
    assert (inf.loss, math.isnan(inf.grad_norm or 0.0)) == (1.5, True)


@pytest.mark.parametrize(
    ("text", "kind", "step"),
    [
        (
            " validation loss at iteration 1000 on validation set | lm loss value: 2.3E+00 | lm loss PPL: 1.0E+01 | ",
            "validation",
            1000,
        ),
        (" validation results at iteration 500 | lm_loss value: 2.3E+00 | ", "validation", 500),
        ("[exiting program at iteration 700] datetime: 2026-03-01 10:20:30 ", "exit", 700),
        ("[exiting program after receiving SIGTERM.] datetime: 2026-03-01 10:20:30.123456 ", "exit", None),
        ("[after dataloaders are built] datetime: 2026-03-01 10:20:30 ", "clock", None),
        ("Unable to find latest file at /c/latest, if trying to load latest checkpoint", "load_missing", None),
        ("  successfully deleted checkpoint from iteration      20 at /c", "checkpoint_deleted", 20),
    ],
)
def test_events(text: str, kind: str, step: int | None) -> None:
    (row,) = events_of(text + "\n")
    assert (row.kind, row.step, row.error_role) == (kind, step, None)


def test_the_clock_of_a_stage_is_that_of_the_line() -> None:
    (row,) = events_of("[before the start of training step] datetime: 2026-03-01 10:20:30.123456 \n")
    assert row.time == 1_772_360_430_123_456
    assert row.time_local == "2026-03-01 10:20:30.123456"


def test_records_of_mlperf_begin_anew_at_their_word() -> None:
    good = ':::MLLOG {"time_ms": 1772360430111, "event_type": "INTERVAL_END", "key": "run_stop", "metadata": {"status": "aborted"}}'
    assert [row.error for row in events_of(good[:80] + good + "\n")] == ["status aborted"]
    assert rows_of(good[:80] + "\n") == []


def test_progress_file_names_the_step_that_was_saved() -> None:
    text = "2026-03-01 10:20:30\tJob ID: 4001\t# GPUs: 64\tSaving async checkpoint\tIteration: 500\tTokens (in billions): 2.1\n"
    text += "2026-03-01 10:30:30\tJob ID: 4001\t# GPUs: 64\tSaved async checkpoint\tIteration: 500\n"
    checkpoint = next(row for row in rows_of(text) if row.table == "checkpoints")
    assert (checkpoint.step, checkpoint.complete, checkpoint.start_time) == (500, True, None)
    assert checkpoint.end_time - checkpoint.scheduled_time == 600_000_000


SEEDS = (
    b"step 1 ",
    b"iteration 1/2 |",
    b"{'a': ",
    b'{"a": ',
    b"1",
    b" ",
    b"a",
    b"| a: 1 ",
    b"=1.0, ",
    b"1%|| 1/2 [1<1, ",
)


def _found(shape: re.Pattern[bytes], text: bytes) -> list[re.Match[bytes]]:
    return list(shape.finditer(text))


@pytest.mark.parametrize("topic", [topic for topic in topics() if topic.__name__.startswith(trainers.__name__)])
def test_ten_times_the_text_takes_ten_times_as_long(topic: Any) -> None:
    for rule in topic.RULES:
        for seed in {*SEEDS, *rule.words}:
            for word in (b"", rule.words[0]):
                took = []
                for size in (3_000, 30_000):
                    text = word + (seed * (size // len(seed) + 1))[:size]
                    took.append(seconds(partial(_found, rule.shape, text), enough=0.1))
                assert took[1] < max(0.1, 40 * took[0]), (rule.words, seed)


def test_a_glued_line_gives_all_of_its_records() -> None:
    text = megatron(1) + " saving checkpoint at iteration 1 to /c" + megatron(2) + "\n"
    assert [row.step for row in steps_of(text)] == [1, 2]
    assert [row.step for row in events_of(text)] == [1]
