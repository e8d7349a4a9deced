"""Checkpoints: what belongs to one save, what ended, what did not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.training.reading import checkpoints_of, events_of, megatron

BEGIN = "saving checkpoint at iteration {0:7d} to /c\n"
ENDS = (
    "  successfully saved checkpoint at iteration {0:7d} to /c\n",
    "  successfully saved checkpoint from iteration {0:7d} to /c\n",
    "  successfully saved checkpoint from iteration {0:7d} to /c [ t 1/8, p 1/4 ]\n",
    "  [2026-03-01 10:20:31.000000] successfully saved checkpoint from iteration {0:7d} to /c [ t 1/8, gtp_remat "
    "1/1, p 1/4 ]\n",
    "[NeMo I 2026-03-01 10:20:31 pl:222] Successfully saved checkpoint from iteration {0:7d} to /c\n",
)
TIMER = (
    "(min, max) time across ranks (ms):\n    save-checkpoint ................................: (81611.24, 81611.82)\n"
)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("begin", [BEGIN, "saving checkpoint at iteration {0:7d} to /c in torch_dist format\n"])
def test_all_generations_of_megatron(begin: str, end: str) -> None:
    (row,) = checkpoints_of((begin + end).format(20))
    assert (row.kind, row.step, row.path, row.complete) == ("save", 20, "/c", True)


@pytest.mark.parametrize(
    ("timer", "seconds"),
    [
        (TIMER, 81.61182),
        ("max time across ranks (ms):\n    save-checkpoint ........: 81611.82\n", 81.61182),
        ("time (ms) | save-checkpoint: 81611.82\n", 81.61182),
        ("(min, max) time across ranks (ms):\n    evaluate ........: (1795.46, 1795.46)\n", None),
        (BEGIN.format(40) + TIMER, None),
        ("(min, max) time across ranks (ms):\n1:     save-checkpoint ....: (5.00, 6.00)\n", 0.006),
    ],
)
def test_the_timer_below_an_end_is_its_duration(timer: str, seconds: float | None) -> None:
    (row,) = events_of(BEGIN.format(20) + ENDS[0].format(20) + timer, "save_end")
    assert row.duration_s == seconds


def test_a_timer_that_stops_when_a_save_is_scheduled_is_no_duration() -> None:
    text = (
        BEGIN.format(20)
        + "  scheduled an async checkpoint save at iteration      20 to /c\n"
        + TIMER
        + ENDS[1].format(20)
        + TIMER
    )
    (end,) = events_of(text, "save_end")
    assert end.duration_s is None
    (row,) = checkpoints_of(text)
    assert (row.complete, row.duration_s) == (True, None)


def test_an_async_save_ends_while_the_next_one_is_on_its_way() -> None:
    stamp = "[2026-03-01 10:{:02d}:00.000000] "
    text = (
        stamp.format(0) + BEGIN.format(20) + stamp.format(5) + BEGIN.format(40) + stamp.format(6) + ENDS[1].format(20)
    )
    assert [(row.step, row.complete, row.duration_s) for row in checkpoints_of(text)] == [
        (20, True, 360.0),
        (40, False, None),
    ]


def test_a_log_that_ends_within_a_save() -> None:
    assert [
        (row.step, row.complete) for row in checkpoints_of(BEGIN.format(20) + ENDS[0].format(20) + BEGIN.format(40))
    ] == [
        (20, True),
        (40, False),
    ]


def test_a_save_that_a_restart_interrupts_is_another_one_than_the_next_of_its_step() -> None:
    text = BEGIN.format(20) + "[before the start of training step] datetime: 2026-03-01 10:20:30 \n" + BEGIN.format(20)
    text += ENDS[1].format(20)
    assert [(row.step, row.complete) for row in checkpoints_of(text)] == [(20, False), (20, True)]


def test_ranks_that_say_the_same_are_one_event() -> None:
    line = "[rank{}]: [titan] 2026-03-01 10:20:{},000 - root - INFO - {}\n"
    text = "".join(line.format(rank, 30, "Saving the checkpoint.") for rank in range(4))
    text += "".join(
        line.format(rank, 40 + rank, "Finished saving the checkpoint in 9.50 seconds.") for rank in range(4)
    )
    (begin,) = events_of(text, "save_begin")
    assert (begin.count, begin.ranks) == (4, [0, 1, 2, 3])
    (row,) = checkpoints_of(text)
    assert (row.complete, row.duration_s) == (True, 13.0)  # the last rank ends it


def test_the_step_of_a_save_that_prints_none_is_that_of_the_line_before() -> None:
    text = "step: 10  loss:  7.5  grad_norm: 1.0  tps: 1,000\nSaving the checkpoint.\n"
    assert [row.step for row in checkpoints_of(text)] == [10]


@pytest.mark.parametrize(
    ("behind", "complete"),
    [
        ("", None),
        ("{'loss': 1.0, 'learning_rate': 1e-05, 'epoch': 1.0, 'global_step/max_steps': '20/40'}\n", None),
        ("{'loss': 1.0, 'learning_rate': 1e-05, 'epoch': 1.0, 'global_step/max_steps': '25/40'}\n", True),
        ("Saving model checkpoint to out/checkpoint-30\n", True),
        ("***** Running training *****\nResuming training from checkpoint with epoch 0 and global step 20\n", True),
        ("***** Running training *****\nResuming training from checkpoint with epoch 0 and global step 10\n", None),
    ],
)
def test_a_save_of_which_no_end_is_printed(behind: str, complete: bool | None) -> None:
    text = "Saving model checkpoint to out/checkpoint-20\n" + behind
    assert checkpoints_of(text)[0].complete is complete


@pytest.mark.parametrize(
    "text",
    [
        "WARNING: Starting a checkpoint save before previous has finished. Consider increasing the checkpoint "
        "interval.\n",
        "Model weights saved in out/checkpoint-20/model.safetensors\n",
        "(min, max) time across ranks (ms):\n    load-checkpoint ................................: (2.11, 2.22)\n",
        "Did not save the model /c because `stage3_gather_16bit_weights_on_model_save` is False\n",
    ],
)
def test_what_only_speaks_of_checkpoints(text: str) -> None:
    assert checkpoints_of(text) == []


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from("bse")), max_size=40))
def test_any_order_of_lines_is_told_as_it_is(lines: list[tuple[int, str]]) -> None:
    shapes = {
        "b": BEGIN,
        "s": "  scheduled an async checkpoint save at iteration {0:7d} to /c\n",
        "e": ENDS[1],
    }
    text = "".join(shapes[kind].format(step) for step, kind in lines) + megatron(9) + "\n"
    rows = checkpoints_of(text)
    assert {row.step for row in rows} == {step for step, _ in lines}
    ended = {step for step, kind in lines if kind == "e"}
    assert {row.step for row in rows if row.complete} == ended
    assert all(row.duration_s is None or row.duration_s >= 0 for row in rows)
