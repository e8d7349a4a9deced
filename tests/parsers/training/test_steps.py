"""Steps that are printed several times, and steps that are reached several times."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.training.reading import megatron, steps_of

TITAN = (
    "[titan] 2026-03-01 10:20:{:02d},508 - root - INFO - step: {:2d}  loss: {:8.5f}  grad_norm: 26.6250  tps: 10,050\n"
)


def test_the_key_of_a_loss_is_left_out_for_nan_and_for_skipped_steps() -> None:
    (nan,) = steps_of(megatron(5, lm_loss="", grad_norm="nan") + "\n")
    assert nan.loss is None
    assert nan.grad_norm is not None
    assert math.isnan(nan.grad_norm)
    (skipped,) = steps_of(megatron(5, lm_loss="", number_of_skipped_iterations=" 10") + "\n")
    assert (skipped.loss, skipped.skipped) == (None, 10)


@pytest.mark.parametrize("key", ["z_loss", "load_balancing_loss", "mtp_1 loss", "indexer loss"])
def test_no_other_loss_takes_the_place_of_one_that_is_left_out(key: str) -> None:
    line = megatron(5, lm_loss="").replace(" loss scale", f" {key}: 1.000000E-03 | loss scale")
    (row,) = steps_of(line + "\n")
    assert row.loss is None


@pytest.mark.parametrize(
    ("key", "value"),
    [("lm-loss", "1.0E+00"), ("lm_loss", "1.0E+00"), ("total loss", "1.0E+00"), ("ce loss", "1.0E+00")],
)
def test_names_of_losses(key: str, value: str) -> None:
    line = megatron(5, lm_loss="").replace(" loss scale", f" {key}: {value} | loss scale")
    assert [row.loss for row in steps_of(line + "\n")] == [1.0]


def test_widths_overflow_and_unknown_segments_pass() -> None:
    line = megatron(123456789, 999999999).replace(
        " loss scale", " memory(GiB): 70.1 | remaining time: 3h 2m | loss scale"
    )
    (row,) = steps_of(line + "\n")
    assert (row.step, row.total_steps, row.samples) == (123456789, 999999999, 123456789 * 256)


def test_steps_glued_to_other_text_and_to_each_other() -> None:
    rows = steps_of("Processing done" + megatron(1) + megatron(2) + " time (ms)\n")
    assert [row.step for row in rows] == [1, 2]
    assert [row.loss for row in rows] == [3.0, 2.5]


def test_a_line_that_srun_cut_in_two() -> None:
    line = megatron(7)
    at = line.index("learning")
    (row,) = steps_of(f"3: {line[:at]}\n0: hello\n3: {line[at:]}\n")
    assert (row.step, row.loss, row.learning_rate, row.nan) == (7, pytest.approx(2 + 1 / 7), 1.5e-4, 0)


def test_prints_of_many_ranks_are_one_row() -> None:
    text = "".join(TITAN.format(10 + step, step, 7 - step / 10) * 8 for step in range(1, 5))
    assert [(row.step, row.copies) for row in steps_of(text)] == [(1, 8), (2, 8), (3, 8), (4, 8)]


def test_the_stage_of_a_pipeline_that_has_no_loss_says_nothing_against_it() -> None:
    text = TITAN.format(10, 4, -1.0) + TITAN.format(10, 4, 7.62585)
    assert [(row.loss, row.copies) for row in steps_of(text)] == [(7.62585, 2)]


def test_ranks_with_labels_may_differ_in_their_loss() -> None:
    text = "".join(
        f"[rank{rank}]: {megatron(step, lm_loss=f'{rank + step}.0')}\n" for step in (1, 2) for rank in range(4)
    )
    assert [(row.step, row.loss, row.copies, row.rank) for row in steps_of(text)] == [(1, 1.0, 4, 0), (2, 2.0, 4, 0)]


def test_a_trainer_and_the_library_below_it_print_one_step() -> None:
    text = (
        "[2026-03-01 10:20:30,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=3, lr=[0.00015], mom=[]\n"
        + megatron(10)
        + "\n"
    )
    (row,) = steps_of(text)
    assert (row.copies, row.skipped, row.step_time_s) == (2, 0, 1.2345)
    assert row.time is not None  # only the library prints a clock


@pytest.mark.parametrize(
    "boundary", ["", "***** Running training *****\n", " loading checkpoint from /c at iteration 2\n"]
)
def test_a_restart_prints_steps_again(boundary: str) -> None:
    first = "".join(megatron(step) + "\n" for step in (1, 2, 3, 4, 5))
    again = "".join(megatron(step, lm_loss="" if boundary else f"9.{step}E+00") + "\n" for step in (3, 4, 5))
    assert [row.step for row in steps_of(first + boundary + again)] == [1, 2, 3, 4, 5, 3, 4, 5]


def test_a_writer_that_comes_back_to_a_step_has_been_restarted() -> None:
    lines = [f"[rank3]: {megatron(step)}\n" for step in (1, 2, 3, 2, 3)]
    assert [row.step for row in steps_of("".join(lines))] == [1, 2, 3, 2, 3]


def test_values_without_any_bar_are_kept_without_a_step() -> None:
    (row,) = steps_of("{'loss': 1.5, 'learning_rate': 1e-05, 'epoch': 0.5}\n")
    assert (row.step, row.loss) == (None, 1.5)


def test_the_bar_of_an_evaluation_does_not_lend_its_step() -> None:
    text = (
        " 50%|#####     | 50/100 [00:50<00:50,  1.00s/it]\n{'loss': 2.5, 'learning_rate': 1e-05, 'epoch': 0.5}\n"
        " 10%|#         | 1/10 [00:01<00:09,  1.00s/it]\n100%|##########| 10/10 [00:10<00:00,  1.00s/it]\n"
        "{'eval_loss': 2.4, 'eval_runtime': 10.1, 'epoch': 0.5}\n{'loss': 2.3, 'learning_rate': 1e-05, 'epoch': 0.6}\n"
    )
    assert [(row.step, row.loss) for row in steps_of(text)] == [(50, 2.5), (50, 2.3)]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 5))
def test_no_step_is_lost(steps: list[int], ranks: int) -> None:
    """Whatever is printed in whatever order: the copies of all rows are the printed lines, and each step has a row."""
    text = "".join(f"[rank{rank}]: {megatron(step)}\n" for step in steps for rank in range(ranks))
    rows = steps_of(text)
    assert sum(row.copies or 0 for row in rows) == len(steps) * ranks
    assert {row.step for row in rows} == set(steps)
    if steps == sorted(set(steps)):
        assert [(row.step, row.copies) for row in rows] == [(step, ranks) for step in steps]


@pytest.mark.parametrize("label", ["", "0: ", "[rank0]: ", "gpu017: ", "2026-03-01T10:20:30Z "])
def test_values_on_lines_below_have_the_label_of_their_head(label: str) -> None:
    lines = ["[step=10/100,epoch=0]", "    train/CrossEntropyLoss=2.5", "    optim/total_grad_norm=1,234.5"]
    text = "".join(f"{label}{line}\n" for line in lines)
    assert [(row.step, row.loss, row.grad_norm) for row in steps_of(text)] == [(10, 2.5, 1234.5)]
