"""Errors by the words of those who print them: their class, rank, host and what they say of time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.training.faults.classes import class_of
from aftershock.schemas.events import TrainingEvent
from tests.parsers.training.reading import events_of, rows_of

NCCL = "torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:1970, unhandled"


def errors_of(text: str) -> list[TrainingEvent]:
    return [row for row in events_of(text) if row.error_class is not None]


@pytest.mark.parametrize(
    ("text", "error_class", "role"),
    [
        ("RuntimeError: connect() timed out. Original timeout was 60000 ms.", "rendezvous_failure", "root"),
        ("RuntimeError: Pin memory thread exited unexpectedly", "peer_exit", "symptom"),
        ("RuntimeError: wait timeout after 300000ms, keys: /default_pg/0//cuda", "collective_timeout", "symptom"),
        ("RuntimeError: Triton Error [CUDA]: an illegal memory access was encountered", "cuda_kernel_fault", "root"),
        ("triton.runtime.errors.OutOfResources: out of resource: shared memory", "user_code_exception", "root"),
        (
            "OSError: org/model is not a local folder, listed on 'https://huggingface.co/models'",
            "user_data_path",
            "root",
        ),
        ("OSError: We couldn't connect to 'https://huggingface.co' to load this file", "external_service", "root"),
        ("requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='hub', port=443)", "external_service", "root"),
        ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 1.5 GiB for an array", "host_oom", "root"),
        ("concurrent.futures.process.BrokenProcessPool: A process in the pool ended", "peer_exit", "symptom"),
        ("ray.exceptions.RayTaskError(OutOfMemoryError): ray::train()", "user_gpu_oom", "root"),
        ("torch.multiprocessing.spawn.ProcessExitedException: process 1 ended with exit code 1", "teardown", "symptom"),
        ("  | ValueError: one of a group", "user_code_exception", "root"),
        ("Exception: any text", "user_code_exception", "root"),
        ("AssertionError", "user_code_exception", "root"),
        ("*** Error in `python3': double free or corruption (!prev): 0x7f2a ***", "process_crash", "root"),
        ("[1703056789.123456] [gpu017:811  :0] Caught signal 7 (Bus error: nonexistent address)", "host_shm", "root"),
        ("slurmstepd: error: Step 811.0 exceeded memory limit (7 > 6), being killed", "host_oom", "root"),
        ("[rank3]:[E socket.cpp:1011] [c10d] The client socket has timed out after 6s.", "rendezvous_failure", "root"),
        ("python3: can't open file '/app/x.py': [Errno 2] No such file or directory", "user_data_path", "root"),
        ("ERROR: Unexpected segmentation fault encountered in worker.", "process_crash", "root"),
        (
            "E0301 10:20:30.123456 811 coordination_service_agent.cc:283] Polling an error from the coordination "
            "service...UNAVAILABLE: failed to connect to all addresses; Connection refused",
            "peer_exit",
            "symptom",
        ),
        ("torch.distributed.elastic.agent.server.api.WorkerGroupFailureException: x", "teardown", "teardown"),
        ("/bin/sh: 1: torchrun: not found", "user_environment", "root"),
        (
            "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='hub', port=443): Max retries exceeded with "
            "url: /x (Caused by NewConnectionError('[Errno -3] Temporary failure in name resolution'))",
            "external_service",
            "root",
        ),
        ("CUDA runtime error in sync(): an illegal memory access was encountered", "cuda_kernel_fault", "root"),
    ],
)
def test_one_line_has_one_class(text: str, error_class: str, role: str) -> None:
    for end in ("", "\n", "\r\n", "\nmore\n"):
        assert [(row.error_class, row.error_role) for row in errors_of(text + end)] == [(error_class, role)]


@pytest.mark.parametrize(
    ("below", "error_class"),
    [
        (
            "ncclRemoteError: A call failed.\nLast error:\nNET/IB : Got completion from peer 10.0.0.9<4> with status=12",
            "nic_or_link",
        ),
        ("ncclSystemError: System call failed.\nLast error:\nError: failed to extend /dev/shm/nccl-x", "host_shm"),
        ("ncclInvalidUsage: wrong.\nLast error:\nDuplicate GPU detected : rank 1 and rank 0", "user_config"),
        ("ncclUnhandledCudaError: Call failed.\nLast error:\nCuda failure 'out of memory'", "user_gpu_oom"),
        ("ncclUnhandledCudaError: Call failed.\nLast error:\nCuda failure 999 'unknown error'", "gpu_fallen_off_bus"),
        ("ncclUnhandledCudaError: Call failed.", "cuda_kernel_fault"),
        ("ncclSystemError: System call failed.", "peer_exit"),
    ],
)
def test_why_nccl_failed_stands_below_its_error(below: str, error_class: str) -> None:
    cause = "cuda error" if "Cuda" in below else "system error"
    rows = errors_of("".join(f"[rank3]: {line}\n" for line in f"{NCCL} {cause}\n{below}".split("\n")))
    assert {row.error_class for row in rows} == {error_class}
    assert rows[0].rank == 3


def test_the_rank_of_a_group_is_not_the_rank_of_the_run() -> None:
    text = (
        "[rank17]:[E301 10:48:25.033625188 ProcessGroupNCCL.cpp:632] [Rank 2] Watchdog caught collective operation "
        "timeout: "
        "WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600070 milliseconds "
        "before "
        "timing out.\n"
    )
    (row,) = errors_of(text)
    assert (row.rank, row.duration_s, row.time_local) == (17, 600.07, "E301 10:48:25.033625188")


def test_an_exception_of_work_under_way_is_told_by_the_words_below() -> None:
    text = (
        "[rank1]:[E415 21:17:08.996319560 ProcessGroupNCCL.cpp:552] [Rank 1] Collective WorkNCCL(SeqNum=3, OpType="
        "ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=6) raised the following async exception: NCCL error: {}, NCCL "
        "version 2.21.5\n{}\nLast error:\n{}\n"
    )
    gone = text.format("remote process exited", "ncclRemoteError: A call failed.", "socketProgress: closed by peer")
    assert [(row.error_class, row.error_role, row.rank) for row in errors_of(gone)] == [("peer_exit", "symptom", 1)]
    fault = text.format("unhandled cuda error", "ncclUnhandledCudaError: Call failed.", "Cuda failure 'out of memory'")
    assert {row.error_class for row in errors_of(fault)} == {"user_gpu_oom"}


def test_the_last_work_of_ranks_is_kept_apart_where_it_differs() -> None:
    text = "".join(
        f"[rank{rank}]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank {rank}] Timeout at NCCL work: 7, last enqueued NCCL "
        f"work: "
        f"{last}, last completed NCCL work: 6.\n"
        for rank, last in ((0, 9), (1, 9), (2, 7), (3, 9))
    )
    said = {(row.error or ""): row.ranks or [row.rank] for row in errors_of(text)}
    assert said == {
        "last enqueued work: 9, last completed work: 6": [0, 1, 3],
        "last enqueued work: 7, last completed work: 6": [2],
    }


@pytest.mark.parametrize(
    "status", ["status=5 opcode=129 len=7 vendor err 249", "status=IBV_WC_WR_FLUSH_ERR(5)", "error 5, op"]
)
def test_a_flushed_request_is_never_the_cause(status: str) -> None:
    warning = "gpu017:1:2 [0] transport/net_ib.cc:9 NCCL WARN NET/IB : Got completion from peer 10.0.0.9<4> with"
    (row,) = errors_of(f"{warning} {status}\n")
    assert (row.error_class, row.error_role, row.host_raw) == ("nic_or_link", "symptom", "gpu017")


def test_an_error_code_of_nccl_is_a_row_only_where_nothing_else_says_it() -> None:
    codes = "gpu017:1:2 [0] NCCL INFO proxy.cc:694 -> 6 [Progress Thread]\ngpu017:1:2 [0] NCCL INFO init.cc:9 -> 6\n"
    assert [row.error_class for row in errors_of(codes)] == ["peer_exit"]
    warning = "gpu017:1:2 [0] misc/socket.cc:5 NCCL WARN Net : Connection closed by remote peer\n"
    assert [row.error_class for row in errors_of(warning + codes)] == ["peer_exit"]
    assert errors_of("gpu017:1:2 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[2] via P2P\n") == []


def test_overflows_are_no_failure_until_there_are_many_in_a_row() -> None:
    line = "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 2, reducing to 1\n"
    assert errors_of(line * 20) == []
    assert [(row.error_class, row.error_role) for row in errors_of(line * 21)] == [("numeric_divergence", "root")]


@pytest.mark.parametrize(
    "text",
    [
        "If you see CUDA error: out of memory, lower the batch size.",
        "{'on': 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB', 'retry': True}",
        "    raise RuntimeError('CUDA error: an illegal memory access was encountered')",
        'logger.error(f"NCCL error in: {name}")',
        "--on-error 'RuntimeError: CUDA error: unknown error'",
        "+ echo Segmentation fault (core dumped)",
        "2026-03-01 10:20:30,123 - root - INFO - RuntimeError: CUDA error: unknown error",
        "[W socket.cpp:601] [c10d] The client socket has failed to connect to [gpu016]:29500 (errno: 111).",
        "ConnectionResetError: lost, retrying in 5 s",
        "ValueError is raised if the file is empty",
        "RuntimeWarning: invalid value encountered in divide",
        "error_class: Optional[str]",
        "wandb: ERROR Error while calling W&B API: user is not logged in",
        "ECC error count: 0",
        "Killed processes are restarted",
        "错误: CUDA error 的说明见文档 (see CUDA error: list)",
        "Fehler: keiner",
        "nccl_timeout ................. 600",
        "    ValueError: If the batch is empty.",
        "``RuntimeError: CUDA out of memory`` means that the memory is full.",
        "> [rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 10.73 GiB.",
        "* RuntimeError: CUDA error: unspecified launch failure",
        "WARNING: Not saved: previous save failed with OSError: [Errno 5] Input/output error",
        "FAILED tests/test_oom.py::test_memory - torch.OutOfMemoryError: CUDA out of memory.",
        "CUDA error handling: an illegal memory access is fatal",
        "      ModuleNotFoundError:",
        "  FileNotFoundError: when there is no file",
        "on_error: TimeoutError",
        "TimeoutError: true",
        '"0: NCCL WARN NET/IB : Got async event : port error",',
        "[NeMo W 2026-03-01 10:20:30 exp_manager:400] FileNotFoundError: no checkpoint, starting anew",
    ],
)
def test_talk_of_errors_is_no_error(text: str) -> None:
    assert [row for row in errors_of(f"{text}\n") if row.error_role == "root"] == []


@given(st.text(max_size=300))
@settings(max_examples=150, deadline=None)
def test_any_text_behind_a_name_is_read(text: str) -> None:
    rows_of(f"RuntimeError: {text}\n")
    assert class_of(b"RuntimeError", text.encode("utf-8", "replace"))[1] in ("root", "symptom", "teardown")


def test_a_class_is_asked_for_by_name_only_where_the_text_says_nothing() -> None:
    assert class_of(b"FileNotFoundError", b"x")[0] == "user_data_path"
    assert class_of(b"OSError", b"[Errno 28] No space left on device: '/dev/shm/x'")[0] == "host_shm"
    assert class_of(b"OSError", b"[Errno 28] No space left on device: '/ckpt/x'")[0] == "disk_full_quota"
    assert class_of(b"ChildFailedError", b"CUDA error: unknown error") == ("teardown", "teardown")
