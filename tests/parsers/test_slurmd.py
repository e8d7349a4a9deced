"""Lines of slurmd and slurmstepd in the log of a host."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.formats import Found, Head, Line, Refused
from aftershock.parsers.scan import scanner_for
from aftershock.parsers.slurmctld import FORMAT as SLURMCTLD
from aftershock.parsers.slurmd import FORMAT, detects, read, settle

STAMP = "[2025-02-03T08:10:05.220] "
CANCEL = "[7.batch] error: *** JOB 7 ON a1 CANCELLED AT 2025-02-03T08:10:05 DUE TO TIME LIMIT ***"


def items_of(*lines: str, stamp: str = STAMP) -> list[Found | Refused]:
    scanner = scanner_for((FORMAT,))
    items: list[Found | Refused] = []
    for number, line in enumerate(lines):
        text = (stamp + line).encode()
        if scanner.hits(text):
            items += read(Line(1000 * number, text, unwrap(text)))
    return items


def rows_of(*lines: str, stamp: str = STAMP) -> list[Any]:
    return [item.row for item in settle([item for item in items_of(*lines, stamp=stamp) if isinstance(item, Found)])]


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("slurmd version 25.05.1 started", {"kind": "daemon_start", "reason": "version 25.05.1"}),
        ("Slurmd shutdown completing", {"kind": "daemon_stop"}),
        ("Launching batch job 7 for UID 501", {"kind": "launched", "job_id": "7", "user": "501"}),
        (
            "Launching batch JobId=7 SLUID=s0123456789ABC for UID 501",
            {"kind": "launched", "job_id": "7", "raw_job_id": "7"},
        ),
        (
            "launch task StepId=7.0 request from UID:501 GID:501 HOST:10.0.0.1 PORT:5",
            {"kind": "launched", "job_id": "7", "user": "501", "reason": "step 0"},
        ),
        ("launch task 7.0 request from UID:501 GID:501 HOST:10.0.0.1 PORT:5", {"kind": "launched", "job_id": "7"}),
        (
            "launch task 7+1.0 (StepId=8.0) request from UID:501 GID:501 HOST:10.0.0.1 PORT:5",
            {"kind": "launched", "job_id": "7", "reason": "step 0"},
        ),
        ("error: [job 7] prolog failed status=1:0", {"kind": "prolog_error", "exit_code": 1, "exit_signal": None}),
        ("error: JobId=7 SLUID=s0123456789ABC epilog failed status=0:15", {"kind": "epilog_error", "exit_signal": 15}),
        ("Could not launch job 7 and not able to requeue it, cancelling job", {"kind": "launch_failed"}),
        ("error: Could not confirm batch launch for job 7, aborting request", {"kind": "launch_failed", "job_id": "7"}),
        ("error: timed out waiting for job 7 to complete", {"kind": "kill_failed", "job_id": "7"}),
        ("error: _rpc_complete: timed out waiting for JobId=7 to complete", {"kind": "kill_failed", "job_id": "7"}),
        ("Node reboot request with features numa being processed", {"kind": "node_reboot"}),
        (
            "error: Munge decode failed: Rewound credential",
            {"kind": "credential_error", "reason": "Rewound credential"},
        ),
        ("error: auth/munge: _decode: Munge decode failed: Expired credential", {"kind": "credential_error"}),
        ("[7.0] task 3 (99) exited with exit code 137.", {"kind": "task_ended", "exit_code": 137, "state": "FAILED"}),
        ("[7.0] task 3 (99) exited. Killed by signal 11 (core dumped).", {"exit_signal": 11, "exit_code": None}),
        ("[7.0] task 3 (99) Out Of Memory (OOM)", {"kind": "task_ended", "state": "OUT_OF_MEMORY"}),
        ("[7.0 stepmgr] task 3 (99) exited with exit code 1.", {"job_id": "7", "reason": "task 3 of step 7.0"}),
        ("[s0123456789ABC.0] task 3 (99) exited with exit code 1.", {"job_id": None, "raw_job_id": "s0123456789ABC"}),
        (
            "[7.batch] job 7 completed with slurm_rc = 0, job_rc = 35072",
            {"kind": "batch_ended", "exit_code": 137, "exit_signal": None, "state": "FAILED"},
        ),
        ("[7.batch] JobId=7 completed with slurm_rc = 0, job_rc = 0", {"exit_code": 0, "state": "COMPLETED"}),
        (CANCEL, {"kind": "time_limit", "job_id": "7", "hosts": ["a1"], "host_raw": None}),
        ("Job 7 exceeded memory limit (900>800), cancelling it", {"kind": "oom_kill", "state": "OUT_OF_MEMORY"}),
    ],
)
def test_one_line(line: str, fields: dict[str, Any]) -> None:
    (row,) = rows_of(line)
    assert {name: getattr(row, name) for name in fields} == fields
    assert (row.scheduler, row.message) == ("slurm", line)


@pytest.mark.parametrize(
    "stamp",
    [
        "slurmd: ",
        "Feb  3 08:10:05 a1 slurmd[99]: ",
        "[2025-02-03T08:10:05+09:00] ",
        "[Feb 03 08:10:05] ",
        "[Feb 03 08:10:05.220    12345 rpc-8        0x7f2a11b2c700] ",
    ],
)
def test_the_envelope_may_be_any_that_a_daemon_writes(stamp: str) -> None:
    assert [row.kind for row in rows_of("slurmd version 25.05.1 started", stamp=stamp)] == ["daemon_start"]


def test_a_bare_line_that_nobody_signed_is_not_read() -> None:
    assert items_of("slurmd version 25.05.1 started", CANCEL[len("[7.batch] ") :], stamp="") == []


def test_the_host_of_the_log_is_the_one_between_stars() -> None:
    start, _ = rows_of("slurmd version 25.05.1 started", CANCEL)
    assert start.host_raw == "a1"
    start, *_ = rows_of("slurmd version 25.05.1 started", CANCEL, CANCEL.replace("ON a1", "ON a2"))
    assert start.host_raw is None


def test_a_step_and_its_job_are_one_cancel() -> None:
    (row,) = rows_of(CANCEL, CANCEL.replace("[7.batch]", "[7.0]").replace("JOB 7", "STEP 7.0"))
    assert (row.kind, row.reason) == ("time_limit", "time limit")


def test_the_clock_is_that_of_the_log() -> None:
    (item,) = [item for item in items_of(CANCEL) if isinstance(item, Found)]
    assert item.reading.text == "2025-02-03T08:10:05.220"


def test_a_line_that_breaks_off_is_refused() -> None:
    for cut in range(len("[7.batch] error: *** JOB 7"), len(CANCEL) - len("T ***")):
        (item,) = items_of(CANCEL[:cut])
        assert isinstance(item, Refused)


def test_another_program_is_not_read() -> None:
    for stamp in ("Feb  3 08:10:05 a1 train[99]: ", "Feb  3 08:10:05 a1 kernel: ", "Feb  3 08:10:05 a1 slurmctld[9]: "):
        assert items_of(CANCEL, "slurmd version 25.05.1 started", stamp=stamp) == []


def test_the_log_is_recognised_by_its_lines() -> None:
    lines = f"{STAMP}slurmd version 25.05.1 started\n{STAMP}{CANCEL}\n".encode()
    assert detects(Head("slurmd.a1.log", lines)) > SLURMCTLD.detects(Head("slurmd.a1.log", lines))
    assert detects(Head("a1.log", lines)) > SLURMCTLD.detects(Head("a1.log", lines))
    control = b"[2025-02-03T08:10:05.220] _slurm_rpc_submit_batch_job: JobId=7 InitPrio=1 usec=5\n"
    assert detects(Head("slurmctld.log", control)) == 0.0


@given(
    st.text(max_size=80), st.sampled_from(["", "[7.0] ", "error: *** JOB ", "[7.0] task 3 (9) exited", "launch task "])
)
def test_any_text_is_read_without_error(text: str, begin: str) -> None:
    message = (STAMP + begin + text).encode("utf-8", "surrogatepass")
    list(read(Line(0, message, unwrap(message))))
