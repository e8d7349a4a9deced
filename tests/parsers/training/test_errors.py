"""Prints of one error are one row: of many ranks, in chains, in the words of those who only tell of it."""

from __future__ import annotations

import pytest

from aftershock.schemas.events import TrainingEvent
from tests.parsers.training.reading import events_of, megatron


def errors_of(text: str) -> list[TrainingEvent]:
    return [row for row in events_of(text) if row.error_class is not None]


def raised(error: str, label: str = "", before: str = "") -> str:
    lines = ["Traceback (most recent call last):", '  File "/app/x.py", line 1, in f', "    g()", error]
    return before + "".join(f"{label}{line}\n" for line in lines)


@pytest.mark.parametrize("before", ["OSError: x.", "s/it]", "10 of 12 |", "Traceback (most recent call last):"])
def test_a_label_in_the_midst_of_a_line_begins_another_line(before: str) -> None:
    rows = [row for row in events_of(f"[rank0]: {before}[rank3]: ValueError: bad\n") if row.rank == 3]
    assert [(row.error_class, row.error) for row in rows] == [("user_code_exception", "ValueError: bad")]


def test_a_label_behind_other_labels_begins_no_line() -> None:
    (row,) = errors_of("[default5]:[rank13]: ValueError: bad\n")
    assert (row.rank, row.local_rank) == (13, 5)
    (row,) = errors_of("[2026-03-01 10:20:30][rank3]: ValueError: bad\n")
    assert row.time_local == "2026-03-01 10:20:30"
    assert errors_of("see `a`[rank3]: ValueError: bad\n") == []


def test_the_same_error_of_many_ranks_is_one_row_with_all_of_them() -> None:
    text = "".join(
        raised(f"FileNotFoundError: [Errno 2] No such file or directory: '/data/{rank}.bin'", f"[rank{rank}]: ")
        for rank in (5, 2, 7, 0)
    )
    (row,) = errors_of(text)
    assert (row.ranks, row.count, row.error_role) == ([0, 2, 5, 7], 4, "root")


def test_tracebacks_of_ranks_that_are_mixed_up_line_by_line_are_told_apart() -> None:
    two = [
        raised(error, label).splitlines()
        for error, label in (("ValueError: a", "[rank0]: "), ("TypeError: b", "[rank1]: "))
    ]
    text = "".join(f"{line}\n" for pair in zip(*two, strict=True) for line in pair)
    assert [(row.rank, row.error) for row in errors_of(text)] == [(0, "ValueError: a"), (1, "TypeError: b")]


@pytest.mark.parametrize(
    ("first", "link", "second", "causes"),
    [
        ("OSError: [Errno 5] Input/output error", "during", "RuntimeError: unexpected pos 6 vs 5", ["storage_io"]),
        ("KeyError: 'cached'", "during", "torch.OutOfMemoryError: CUDA out of memory.", ["user_gpu_oom"]),
        ("KeyError: 'a'", "from", "RuntimeError: cannot build the model", ["user_code_exception"]),
        (
            "ConnectionRefusedError: [Errno 111] Connection refused",
            "from",
            "urllib3.exceptions.MaxRetryError: HTTPSConnectionPool(h)",
            ["external_service"],
        ),
        ("FileNotFoundError: [Errno 2] No such file: '/x'", "from", "ValueError: bad dataset", ["user_data_path"]),
    ],
)
def test_of_a_chain_one_exception_is_the_cause(first: str, link: str, second: str, causes: list[str]) -> None:
    words = {
        "during": "During handling of the above exception, another exception occurred:",
        "from": "The above exception was the direct cause of the following exception:",
    }[link]
    for label in ("", "[rank3]: ", "(RayTrainWorker pid=811, ip=10.0.0.7) "):
        text = raised(first, label) + f"{label}\n{label}{words}\n{label}\n" + raised(second, label)
        assert [row.error_class for row in errors_of(text) if row.error_role == "root"] == causes


def test_another_rank_in_between_does_not_break_a_chain() -> None:
    text = (
        "[rank0]: OSError: [Errno 5] Input/output error\n"
        "[rank0]: During handling of the above exception, another exception occurred:\n"
        "[rank1]: OSError: [Errno 5] Input/output error\n"
        "[rank0]: RuntimeError: unexpected pos 6 vs 5\n"
    )
    assert [(row.error_role, row.ranks or row.rank) for row in errors_of(text)] == [("root", [0, 1]), ("symptom", 0)]


def test_an_error_that_python_and_c_plus_plus_print_is_one() -> None:
    text = (
        "[rank2]: RuntimeError: CUDA error: an illegal memory access was encountered\n"
        "terminate called after throwing an instance of 'c10::Error'\n"
        "  what():  CUDA error: an illegal memory access was encountered\n"
    )
    (row,) = errors_of(text)
    assert (row.rank, row.error_class) == (2, "cuda_kernel_fault")


def test_a_controller_shows_the_traceback_of_its_worker_again() -> None:
    error = "RuntimeError: CUDA error: an illegal memory access was encountered"
    text = (
        "(TrainController pid=7) Started training worker group of size 2: \n"
        "(TrainController pid=7) - (ip=10.0.0.7, pid=811) world_rank=0, local_rank=0, node_rank=0\n"
        "(TrainController pid=7) - (ip=10.0.0.7, pid=812) world_rank=1, local_rank=1, node_rank=0\n"
        + raised(error, "(RayTrainWorker pid=812) ")
        + raised(error, "(TrainController pid=7) ")
    )
    (row,) = errors_of(text)
    assert (row.rank, row.error_role) == (1, "root")


@pytest.mark.parametrize(
    "before",
    [
        "Exception ignored in: <function f at 0x7f>\n",
        "--- Logging error ---\n",
        "Error in atexit._run_exitfuncs:\n",
    ],
)
def test_a_traceback_that_nobody_minds_is_no_row(before: str) -> None:
    chain = "\nDuring handling of the above exception, another exception occurred:\n\n"
    assert errors_of(raised("OSError: [Errno 5] Input/output error", before=before)) == []
    assert (
        errors_of(raised("KeyError: 1", before=before) + chain + raised("OSError: [Errno 5] Input/output error")) == []
    )


def test_what_nobody_minds_ends_with_its_traceback() -> None:
    ignored = raised("OSError: [Errno 5] Input/output error", before="Exception ignored in: <function f at 0x7f>\n")
    assert [row.error_class for row in errors_of(ignored + raised("TypeError: x"))] == ["user_code_exception"]
    lost = "Exception ignored in: <function f at 0x7f>\n" + "a line\n" * 20_000
    assert [row.error_class for row in errors_of(lost + raised("TypeError: x"))] == ["user_code_exception"]


def test_the_output_of_another_program_is_not_of_this_run() -> None:
    shown = (
        "  [3 lines of output]\n"
        + raised("ModuleNotFoundError: No module named 'x'", "      ")
        + "      [end of output]\n"
    )
    assert errors_of(shown) == []
    assert len(errors_of(shown + raised("TypeError: x"))) == 1


@pytest.mark.parametrize("level", ["ERROR", "WARNING", "CRITICAL"])
def test_an_error_in_a_logger_counts_unless_the_run_goes_on(level: str) -> None:
    logged = raised("ValueError: x", before=f"2026-03-01 10:20:30,123 - root - {level} - failed\n")
    assert [row.error_role for row in errors_of(megatron(1) + "\n" + logged)] == ["root"]
    assert [row.error_role for row in errors_of(megatron(1) + "\n" + logged + megatron(2) + "\n")] == ["noise"]
    again = logged + raised("ValueError: x")
    assert [(row.error_role, row.count) for row in errors_of(again)] == [("root", 2)]
