"""Who is the cause: one error of an attempt at most, and none of a run that goes well."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsers.training.labelled import faults
from tests.parsers.training.reading import events_of, megatron

ECC = "[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
TYPE = "[rank1]: TypeError: x\n"
CLOSED = "[rank2]: RuntimeError: Connection closed by peer [10.0.0.9]:1\n"
TIMEOUT = (
    "[rank0]:[E301 10:48:25.033625188 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=4, OpType=ALLREDUCE) ran for 600070 milliseconds before timing out.\n"
)
CANCEL = "slurmstepd: error: *** STEP 811.0 ON gpu016 CANCELLED AT 2026-03-01T10:01:00 ***\n"
LIMIT = CANCEL.replace("00 ***", "00 DUE TO TIME LIMIT ***")
PREEMPTED = CANCEL.replace("00 ***", "00 DUE TO PREEMPTION ***")
OOM = "slurmstepd: error: Detected 1 oom_kill event in StepId=811.0. Some of the step tasks have been OOM Killed.\n"
LINK = (
    "gpu017:1:2 [0] transport/net_ib.cc:9 NCCL WARN NET/IB : Got completion from peer 10.0.0.9<4> with status=12 op\n"
)
STORE = (
    "[rank4]: torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 3/4 clients joined.\n"
)
TERM = "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
EXIT = "srun: error: gpu017: task 3: Exited with exit code 1\n"
NODE = "srun: error: Node failure on gpu018\n"
DISK = "[rank5]: OSError: [Errno 28] No space left on device\n"
DONE = "[after training is done] datetime: 2026-03-01 11:00:00 \n"


def steps(first: int, last: int) -> str:
    return "".join(
        megatron(step, stamp=f"2026-03-01 10:{step // 60:02}:{step % 60:02}.000000") + "\n"
        for step in range(first, last + 1)
    )


def causes(text: str) -> list[str | None]:
    return [row.error_class for row in events_of(text) if row.error_role == "root"]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (TYPE + ECC, "gpu_memory_ecc"),
        (CLOSED + TIMEOUT + TYPE, "user_code_exception"),
        (CLOSED + TIMEOUT, None),
        (TYPE + DISK, "user_code_exception"),
        (DISK + TYPE, "disk_full_quota"),
        (TYPE + OOM, "host_oom"),
        (DISK + OOM, "disk_full_quota"),
        (TYPE + PREEMPTED, "preemption"),
        (LINK, "nic_or_link"),
        (LINK + CLOSED, "nic_or_link"),
        (CLOSED + LINK, None),
        (TYPE + LINK, "user_code_exception"),
        (EXIT + LINK, None),
        (CANCEL, "user_or_admin_cancel"),
        (TERM + CANCEL, "user_or_admin_cancel"),
        (EXIT + TERM + CANCEL, None),
        (TIMEOUT + CANCEL, None),
        (TYPE + EXIT + CANCEL, "user_code_exception"),
        (LIMIT, "scheduler_time_limit"),
        (TIMEOUT + LIMIT, None),
        (TERM + TYPE + LIMIT, "scheduler_time_limit"),
        (TERM + "KeyboardInterrupt\n" + LIMIT, "scheduler_time_limit"),
        (TYPE + TERM + LIMIT, "user_code_exception"),
        (STORE, "rendezvous_failure"),
        (STORE + TYPE, "user_code_exception"),
        (steps(1, 3) + STORE, None),
        (CLOSED + TYPE.replace("TypeError", "KeyError") + NODE, "node_failure"),
        (EXIT + TERM + TYPE, None),
        ("srun: error: gpu017: task 3: Segmentation fault\n" + TERM, "process_crash"),
    ],
)
def test_the_cause_is_the_first_that_is_no_consequence(text: str, cause: str | None) -> None:
    assert causes(steps(1, 3) + text if "DistStore" not in text else text) == ([] if cause is None else [cause])


def test_what_a_run_survives_is_noise() -> None:
    caught = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.\n"
    assert causes(steps(1, 3) + caught + steps(4, 9)) == []
    assert causes(steps(1, 3) + caught + steps(4, 200) + TYPE) == ["user_code_exception"]


def test_steps_that_were_held_back_do_not_hide_an_error() -> None:
    assert causes(steps(1, 3) + TYPE + "".join(megatron(step) + "\n" for step in range(4, 9)) + EXIT) == [
        "user_code_exception"
    ]


def test_a_broken_gpu_is_not_survived() -> None:
    assert causes(steps(1, 3) + ECC + steps(4, 9)) == ["gpu_memory_ecc"]


def test_a_run_that_ended_well_has_no_cause_whatever_stands_before_or_behind() -> None:
    for text in (
        TYPE + steps(1, 9) + DONE,
        steps(1, 9) + DONE + TYPE + ECC + CLOSED,
        DISK + steps(1, 3) + DONE + CANCEL,
    ):
        assert causes(text) == []
        assert {row.error_role for row in events_of(text)} <= {None, "noise", "teardown"}


def test_a_run_that_stood_still_hung_before_it_was_ended() -> None:
    assert causes(steps(1, 30) + LIMIT) == ["scheduler_time_limit"]
    late = steps(1, 30) + LIMIT.replace("10:01:00", "12:01:00")
    rows = [row for row in events_of(late) if row.error_role == "root"]
    assert [(row.error_class, row.step, row.time_local) for row in rows] == [
        ("hang_no_error", 30, "2026-03-01 10:00:30.000000")
    ]


def test_numbers_that_stay_bad_are_the_cause_and_those_that_recover_are_not() -> None:
    bad = "".join(megatron(step, lm_loss="", grad_norm="nan") + "\n" for step in (10, 11))
    assert causes(steps(1, 9) + bad) == ["numeric_divergence"]
    assert causes(steps(1, 9) + bad + steps(12, 15)) == []
    assert causes(steps(1, 9) + bad + ECC) == ["gpu_memory_ecc"]
    skipped = "".join(megatron(step, lm_loss="", number_of_skipped_iterations="  1") + "\n" for step in range(1, 12))
    assert causes(skipped) == []
    assert causes(
        "".join(megatron(step, lm_loss="", number_of_skipped_iterations="  9") + "\n" for step in (9, 18, 27))
    ) == ["numeric_divergence"]


def test_a_path_that_only_one_host_misses_is_its_mount() -> None:
    def line(host: str, rank: int, error: str) -> str:
        return f"{host}: [rank{rank}]: {error}\n"

    missing = "FileNotFoundError: [Errno 2] No such file or directory: '/data/x'"
    one = "".join(line("gpu017", rank, missing) for rank in (0, 1)) + line("gpu018", 2, "RuntimeError: Broken pipe")
    assert causes(one) == ["storage_io"]
    both = line("gpu017", 0, missing) + line("gpu018", 1, missing)
    assert causes(both) == ["user_data_path"]


def test_memory_that_is_gone_before_anything_was_set_up_is_the_gpus() -> None:
    frame = '  File "/opt/torch/distributed/distributed_c10d.py", line 9, in barrier\n'
    assert causes(frame + "RuntimeError: CUDA error: out of memory\n") == ["gpu_unhealthy_suspect"]
    assert causes(steps(1, 3) + "RuntimeError: CUDA error: out of memory\n") == ["user_gpu_oom"]
    held = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has 1 MiB free. Process 7 has "
        "{others} GiB memory in use. Including non-PyTorch memory, this process has 40.0 GiB memory in use.\n"
    )
    assert causes(held.format(others="38.0")) == ["user_gpu_oom"]
    assert causes(held.format(others="41.0")) == ["gpu_unhealthy_suspect"]


LINES = [
    *(TYPE, ECC, CLOSED, TIMEOUT, CANCEL, LIMIT, PREEMPTED, OOM, LINK, STORE, TERM, EXIT, NODE, DISK, DONE),
    *(megatron(step) + "\n" for step in (5, 6)),
    *(f"{line}\n" for fault in faults() for line in fault.lines),
    "[default] Rendezvous complete for workers. Result:\n",
    "[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n",
]


@given(st.lists(st.sampled_from(LINES), max_size=25))
@settings(max_examples=200, deadline=None)
def test_any_lines_in_any_order_have_one_cause_at_most_for_each_attempt(lines: list[str]) -> None:
    text = "".join(lines)
    # What may end an attempt, or begin one.
    words = (
        "Rendezvous complete",
        "attempts left",
        "after training",
        "iteration ",
        "(exitcode",
        "Killed",
        "core dumped",
    )
    most = 1 + sum(any(word in line for word in words) for line in lines)
    assert len(causes(text)) <= most


def test_of_exits_in_the_same_second_the_one_that_the_launcher_calls_the_first_is_the_cause() -> None:
    def entry(number: int, rank: int) -> str:
        return (
            f"[{number}]:\n  time      : 2026-03-01_10:20:30\n  host      : gpu017\n  rank      : {rank} (local_rank: "
            f"{rank})\n  exitcode  : -7 (pid: {8000 + rank})\n  error_file: <N/A>\n  traceback : Signal 7 (SIGBUS) "
            f"received by PID {8000 + rank}\n"
        )

    line = "-" * 60 + "\n"
    text = "Failures:\n" + entry(1, 5) + line + "Root Cause (first observed failure):\n" + entry(0, 3) + "=" * 60 + "\n"
    (root,) = [event for event in events_of(text) if event.error_role == "root"]
    assert (root.error_class, root.rank, root.host_raw) == ("host_shm", 3, "gpu017")
