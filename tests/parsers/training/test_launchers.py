"""What launchers say: exits, restarts, and which attempt a line belongs to."""

from __future__ import annotations

from typing import Any

import pytest

from tests.parsers.training.reading import SAMPLES, events_of, megatron


def roots(text: str | bytes) -> list[tuple[str | None, int | None]]:
    return [(row.error_class, row.rank) for row in events_of(text) if row.error_role == "root"]


def exits(text: str) -> list[tuple[str | None, str | None, int | None, str | None]]:
    return [(row.error_class, row.error_role, row.rank, row.host) for row in events_of(text, "exit")]


@pytest.mark.parametrize(
    ("text", "error_class", "role", "rank", "host"),
    [
        (
            "mpirun noticed that process rank 3 with PID 811 on node gpu017 exited on signal 9 (Killed).",
            "unknown",
            "symptom",
            3,
            "gpu017",
        ),
        ("srun: error: gpu017: task 5: Killed", "unknown", "symptom", None, "gpu017"),
        ("srun: error: gpu[017-018]: tasks 8-15: Exited with exit code 1", "unknown", "symptom", None, None),
        ("srun: error: gpu017: task 5: Segmentation fault (core dumped)", "process_crash", "root", None, "gpu017"),
        ("['python', '--local_rank=3'] exits with return code = -7", "host_shm", "root", None, None),
        ("['python', '--local_rank=3'] exits with return code = -15", "teardown", "teardown", None, None),
        ("[api.py:869] failed (exitcode: -6) local_rank: 6 (pid", "teardown", "teardown", None, None),
        ("[api.py:897] Sending process 811 closing signal SIG", "teardown", "teardown", None, None),
        ("exit 137", "unknown", "symptom", None, None),
        (
            "Some rank(s) exited with non-zero exit code: {3: f, 5: f}. Agent's exit code = 1",
            "unknown",
            "symptom",
            None,
            None,
        ),
    ],
)
def test_an_exit_says_how_and_where(text: str, error_class: str, role: str, rank: int | None, host: str | None) -> None:
    assert exits(f"{text}\n") == [(error_class, role, rank, host)]


def test_all_entries_of_a_table_of_failures_are_exits() -> None:
    def entry(number: int, rank: int, code: int) -> str:
        return (
            f"[{number}]:\n  time      : 2026-03-01_10:20:3{number}\n  host      : gpu017\n  rank      : {rank} "
            f"(local_rank: {rank})\n  exitcode  : {code} (pid: 81{rank})\n  error_file: <N/A>\n  traceback : <NONE>\n"
        )

    table = f"Failures:\n{entry(1, 4, -15)}{entry(2, 5, 1)}----\nRoot Cause (first observed failure):\n{entry(0, 2, -11)}====\n"
    labelled = "".join(f"3: {line}\n3: other: line of another kind\n" for line in table.splitlines())
    for text in (table, labelled):
        assert exits(text) == [
            ("teardown", "teardown", 4, "gpu017"),
            ("unknown", "symptom", 5, "gpu017"),
            ("process_crash", "root", 2, "gpu017"),
        ]


def test_new_nodes_are_no_retry() -> None:
    text = "[default] Detected 1 new nodes from group_rank=0; will restart worker group\n"
    assert [row.kind for row in events_of(text)] == ["regroup"]


def test_the_time_of_a_cycle_is_utc_beside_the_local_stamp() -> None:
    text = (
        "[2026-03-01 10:20:30,124] [INFO] [ft_launcher811@gpu017]   - Cycle: 2 Event: failure_detected Node: "
        "gpu017_811_0 "
        "Rank: 0 Time: 2026-03-01 01:20:30.123 UTC\n"
    )
    (row,) = events_of(text)
    assert (row.kind, row.error, row.time_basis, row.host) == ("failure_detected", "cycle 2", "zoned", "gpu017")


def test_each_attempt_has_its_own_cause() -> None:
    attempt = "[rank1]: ValueError: first\n[rank1]: ValueError: and a second one of it\n"
    restart = "[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"
    begin = "[default] Rendezvous complete for workers. Result:\n  restart_count=1\n"
    late = "[rank2]: TypeError: raised while it was stopped\n"
    rows = [
        row
        for row in events_of(attempt + restart + late + begin + attempt.replace("rank1", "rank3"))
        if row.error_class
    ]
    assert [(row.rank, row.error_role) for row in rows] == [
        (1, "root"),
        (1, "symptom"),
        (2, "symptom"),
        (3, "root"),
        (3, "symptom"),
    ]


def test_one_agent_that_sees_its_workers_end_twice_had_two_attempts() -> None:
    def failed(pid: int) -> str:
        return (
            f"E0301 10:21:0{pid}.390000 811 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) "
            f"local_rank: 0 (pid: 81{pid}) of binary: /usr/bin/python3\n"
        )

    text = f"[rank0]: ValueError: a\n{failed(1)}[rank0]: TypeError: b\n{failed(2)}"
    assert roots(text) == [("user_code_exception", 0), ("user_code_exception", 0)]
    other = failed(2).replace(" 811 ", " 911 ")  # the agent of another host
    assert roots(f"[rank0]: ValueError: a\n{failed(1)}[rank0]: TypeError: b\n{other}") == [("user_code_exception", 0)]


def test_a_command_that_runs_again_is_another_attempt() -> None:
    start = "[before the start of training step] datetime: 2026-03-01 10:00:00.000000 \n"
    steps = "".join(megatron(step) + "\n" for step in range(1, 6))
    killed = "bash: line 111: 811 Killed                  python train.py\n"
    done = "[after training is done] datetime: 2026-03-01 11:00:00.000000 \n"
    text = start + steps + "RuntimeError: CUDA error: unknown error\n" + killed + start + steps + done
    assert roots(text) == [("gpu_fallen_off_bus", None)]
    assert roots(start + steps + done + "RuntimeError: at exit\n" + start + steps + "TypeError: x\n") == [
        ("user_code_exception", None)
    ]


@pytest.mark.parametrize(
    ("name", "restarts", "expected"),
    [
        ("torchrun_restarts.log", 0, []),
        ("nvrx_restart.log", 1, []),
        ("hf_trainer_killed_and_resumed.log", 0, []),
        ("ray_train_restarts.log", 2, [("cuda_kernel_fault", 1)]),
    ],
)
def test_real_restarts_have_the_causes_that_their_logs_can_know(name: str, restarts: int, expected: list[Any]) -> None:
    """A rank that was killed says nothing: nobody who speaks is the cause."""
    data = (SAMPLES / name).read_bytes()
    assert roots(data) == expected
    assert len(events_of(data, "restart")) == restarts


def test_who_was_killed_is_known_where_the_launcher_knows_it() -> None:
    nvrx = (SAMPLES / "nvrx_restart.log").read_bytes()
    assert [row.local_rank for row in events_of(nvrx, "exit") if row.error_class == "unknown"] == [1]
    ray = (SAMPLES / "ray_train_restarts.log").read_bytes()
    assert {row.rank for row in events_of(ray, "exit") if row.rank is not None} == {0}
    torchrun = (SAMPLES / "torchrun_restarts.log").read_bytes()
    victims = {row.rank for row in events_of(torchrun) if row.error_class == "peer_exit"}
    assert victims == {0, 1}
