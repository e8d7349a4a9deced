"""Lines of slurmstepd and srun in the output of a job, alone and among the lines of the job."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.clock import SECOND, Reading
from aftershock.parsers.detect import detect, rebuild
from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.formats import Found, Head, Line, Refused
from aftershock.parsers.scan import scanner_for
from aftershock.parsers.slurm_step import FORMAT, detects, read, settle

CANCEL = "slurmstepd: error: *** JOB 7 ON a1 CANCELLED AT 2025-02-03T08:10:05 DUE TO TIME LIMIT ***"


def items_of(*lines: str) -> list[Found | Refused]:
    """What each line gives that a signature stands in."""
    scanner = scanner_for((FORMAT,))
    items: list[Found | Refused] = []
    for number, line in enumerate(lines):
        text = line.encode()
        if scanner.hits(text):
            items += read(Line(1000 * number, text, unwrap(text)))
    return items


def rows_of(*lines: str) -> list[Any]:
    return [item.row for item in settle([item for item in items_of(*lines) if isinstance(item, Found)])]


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (CANCEL, {"kind": "time_limit", "job_id": "7", "raw_job_id": "7", "hosts": ["a1"], "host_raw": None}),
        (CANCEL.replace("TIME LIMIT", "PREEMPTION"), {"kind": "preempted", "state": "PREEMPTED"}),
        (CANCEL.replace("TIME LIMIT", "JOB REQUEUE"), {"kind": "requeued", "state": "REQUEUED"}),
        (
            CANCEL.replace("TIME LIMIT", "NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"),
            {"kind": "ended", "state": "NODE_FAIL", "reason": "node failure"},
        ),
        (CANCEL.replace("TIME LIMIT", "TASK FAILURE"), {"kind": "ended", "state": "FAILED"}),
        (CANCEL.replace(" DUE TO TIME LIMIT", ""), {"kind": "cancelled", "state": "CANCELLED", "reason": None}),
        (CANCEL.replace("DUE TO TIME LIMIT", "DUE to SIGNAL Killed"), {"kind": "cancelled", "reason": "SIGNAL Killed"}),
        (CANCEL.replace("JOB 7", "STEP 7.0"), {"kind": "time_limit", "job_id": "7", "reason": "time limit; step 7.0"}),
        (CANCEL.replace("JOB 7", "STEP 7.interactive"), {"job_id": "7"}),
        (
            CANCEL.replace("JOB 7", "STEP s0123456789ABC.0"),
            {"job_id": None, "raw_job_id": "s0123456789ABC", "kind": "time_limit"},
        ),
        (CANCEL.replace("TIME LIMIT", "TASK FAILURE").replace("JOB 7", "STEP 7.0"), {"kind": "cancelled"}),
        ("slurmd[a1]: *** JOB 7 CANCELLED AT 2015-02-03T08:10:05 DUE TO TIME LIMIT ***", {"kind": "time_limit"}),
        ("slurmstepd: error: *** JOB 7 CANCELLED AT 2015-02-03T08:10:05 ***", {"kind": "cancelled", "hosts": None}),
        (
            "slurmstepd: error: *** STEP 7.0 STEPD TERMINATED ON a1 AT 2025-02-03T08:10:05 DUE TO JOB NOT ENDING WITH "
            "SIGNALS ***",
            {"kind": "kill_failed", "host_raw": "a1", "reason": "job not ending with signals; step 7.0"},
        ),
        (
            "srun: error: a[1-2]: tasks 0-1,5: Exited with exit code 1",
            {"kind": "task_ended", "hosts": ["a1", "a2"], "exit_code": 1, "exit_signal": None, "state": "FAILED"},
        ),
        ("srun: error: a1: task 3: Killed", {"exit_signal": 9, "exit_code": None, "state": None, "host_raw": "a1"}),
        ("srun: error: a1: task 3: Aborted (core dumped)", {"exit_signal": 6, "state": "FAILED"}),
        ("srun: error: a1: task 3: Out Of Memory", {"state": "OUT_OF_MEMORY", "exit_signal": None}),
        ("srun: error: Node failure on a2", {"kind": "node_down", "hosts": ["a2"], "state": "DOWN"}),
        ("srun: Force Terminated job 7", {"kind": "ended", "job_id": "7"}),
        ("srun: Force Terminated StepId=7.0", {"kind": "step_aborted", "job_id": "7"}),
        ("srun: Force Terminated job step 7.0", {"kind": "step_aborted", "job_id": "7"}),
        ("srun: Terminating StepId=7.3", {"kind": "step_aborted", "job_id": "7"}),
        ("srun: sending Ctrl-C to StepId=7.0", {"kind": "cancelled", "exit_signal": 2}),
        ("srun: job 7 queued and waiting for resources", {"kind": "submitted", "job_id": "7"}),
        ("srun: job 7 has been allocated resources", {"kind": "started", "job_id": "7"}),
        ("salloc: Pending job allocation 7", {"kind": "submitted"}),
        ("salloc: Granted job allocation 7", {"kind": "started"}),
        ("salloc: Relinquishing job allocation 7", {"kind": "ended"}),
        ("salloc: error: Job allocation 7 has been revoked", {"kind": "cancelled"}),
        (
            "salloc: Job 7 has exceeded its time limit and its allocation has been revoked.",
            {"kind": "time_limit", "state": "TIMEOUT"},
        ),
        ("Submitted batch job 8", {"kind": "submitted", "job_id": "8"}),
        ("Submitted batch job 8 on cluster alpha", {"kind": "submitted", "job_id": "8"}),
        (
            "srun: error: Unable to create step for job 7: Job/step already completing or completed",
            {"kind": "launch_failed", "reason": "Job/step already completing or completed"},
        ),
        ("sbatch: error: Batch job submission failed: Invalid qos specification", {"kind": "submit_failed"}),
        (
            "slurmstepd: error: StepId=7.0 exceeded memory limit (900 > 800), being killed",
            {"kind": "oom_kill", "state": "OUT_OF_MEMORY"},
        ),
    ],
)
def test_one_line(line: str, fields: dict[str, Any]) -> None:
    (row,) = rows_of(line)
    assert {name: getattr(row, name) for name in fields} == fields
    assert row.scheduler == "slurm"
    assert row.message == line


@pytest.mark.parametrize(
    "said",
    [
        "Detected 2 oom_kill events in StepId=7.0. Some of the step tasks have been OOM Killed.",
        "Detected 2 oom-kill event(s) in StepId=7.0. Some of your processes may have been killed by the cgroup "
        "out-of-memory handler.",
        "Detected 2 oom-kill event(s) in step 7.0 cgroup. Some of your processes may have been killed by the cgroup "
        "out-of-memory handler.",
        "Detected 2 oom-kill event(s) in StepId=7.0 cgroup.",
    ],
)
def test_a_kill_for_memory_is_of_the_host_and_of_the_job(said: str) -> None:
    on_host, on_job = rows_of(f"slurmstepd-a1: error: {said}")
    assert (on_host.table, on_host.kind, on_host.value, on_host.host_raw) == ("node_events", "oom_kill", 2.0, "a1")
    assert (on_job.kind, on_job.job_id, on_job.state, on_job.host_raw) == ("oom_kill", "7", "OUT_OF_MEMORY", "a1")


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "0: {}",
        "  12: {}",
        "[rank3]: {}",
        "\x1b[31m{}\x1b[0m",
        "{}\r",
        "Epoch 1:  45%|####5     | 12/100 [00:12<01:01]{}",
        "step 12 loss 2.5{}",
        "{}  ",
    ],
)
def test_a_line_is_found_behind_what_the_job_writes(around: str) -> None:
    (row,) = rows_of(around.format(CANCEL))
    assert (row.kind, row.job_id, row.message) == ("time_limit", "7", CANCEL)


def test_several_records_may_stand_in_one_line() -> None:
    rows = rows_of(f"{CANCEL}srun: error: a1: task 3: Killed srun: error: a2: task 4: Killed")
    assert [(row.kind, row.job_id) for row in rows] == [("time_limit", "7"), ("task_ended", "7"), ("task_ended", "7")]
    assert [row.host_raw for row in rows] == [None, "a1", "a2"]


def test_the_time_is_the_printed_one_and_has_no_zone() -> None:
    (item,) = [item for item in items_of(CANCEL) if isinstance(item, Found)]
    assert item.reading == Reading("local", 1738570205 * SECOND, None, None, SECOND, "2025-02-03T08:10:05")


def test_a_journal_that_holds_the_line_anchors_its_time() -> None:
    stamped = f"2025-02-02T23:10:05.2Z a1 job.sh[99]: {CANCEL}"
    (item,) = [item for item in items_of(stamped) if isinstance(item, Found)]
    assert (item.reading.kind, item.reading.epoch) == ("local", 1738537805 * SECOND + 200_000)


def test_the_lines_of_a_job_and_its_step_are_one_row_where_the_first_stands() -> None:
    step = CANCEL.replace("JOB 7 ON a1", "STEP 7.0 ON a2")
    for lines in ((CANCEL, step), (step, CANCEL)):
        (row,) = rows_of(*lines)
        assert (row.reason, set(row.hosts), row.message) == ("time limit", {"a1", "a2"}, lines[0])
    later = step.replace("08:10:05", "09:10:05")
    assert len(rows_of(CANCEL, later)) == 2
    assert len(rows_of(CANCEL, CANCEL.replace("08:10:05", "09:10:05"))) == 2  # the output of a requeued job goes on


def test_lines_without_a_job_take_the_only_one_that_the_file_names() -> None:
    killed = "srun: error: a1: task 3: Killed"
    assert [row.job_id for row in rows_of(killed, CANCEL)] == ["7", "7"]
    assert [row.job_id for row in rows_of(killed, CANCEL, CANCEL.replace("JOB 7", "JOB 8"))] == [None, "7", "8"]
    assert [row.job_id for row in rows_of(killed, "Submitted batch job 8")] == [None, "8"]


@pytest.mark.parametrize("cut", range(len("slurmstepd: error: *** JOB 7"), len(CANCEL) - len("T ***")))
def test_a_cancel_that_breaks_off_is_refused(cut: int) -> None:
    (item,) = items_of(CANCEL[:cut])
    assert isinstance(item, Refused)
    assert "breaks off" in item.reason


def test_a_time_that_cannot_be_read_is_told_beside_its_row() -> None:
    lost, found = items_of(CANCEL.replace("2025-02-03", "2025-02-31"))
    assert isinstance(lost, Refused)
    assert "a date that does not exist: 2025-02-31T08:10:05" in lost.reason
    assert isinstance(found, Found)
    assert (found.reading.wall, found.reading.text) == (None, "2025-02-31T08:10:05")


def test_hosts_that_cannot_be_expanded_are_refused() -> None:
    (item,) = items_of("srun: error: a[1-99999999]: tasks 0-3: Killed")
    assert isinstance(item, Refused)


@pytest.mark.parametrize("quote", ['"{}"', "'{}'", "`{}`", "my{}", "/usr/lib/{}", "not-{}"])
def test_words_of_others_are_no_record(quote: str) -> None:
    assert items_of(quote.format(CANCEL)) == []


def test_a_training_log_is_not_claimed() -> None:
    steps = "".join(f"step {n}: loss 2.1\n" for n in range(60))
    assert detects(Head("train.log", f"{steps}{CANCEL}\n".encode())) == 0.0
    assert detects(Head("slurm-7.out", f"{CANCEL}\nsrun: Job step aborted: Waiting up to 32\n".encode())) > 0
    assert detects(Head("empty", b"")) == 0.0


def test_the_output_of_a_job_is_no_log_of_a_daemon_whatever_the_stamp() -> None:
    stamped = CANCEL.replace("slurmstepd: ", "[2025-02-03T08:10:05.123] ").encode() + b"\n"
    of_output = detect(Head("slurm-7.out", stamped))
    of_daemon = detect(Head("slurmd.a1.log", stamped))
    assert "training" in {found.name for found in of_output.formats}
    assert "training" not in {found.name for found in of_daemon.formats}


def test_stamps_of_syslog_before_lines_of_a_program_make_no_log_of_a_system() -> None:
    of_program = (
        b"Feb 03 08:10:05 [rank3]: Traceback (most recent call last):\nFeb 03 08:10:05 [rank3]: ValueError: x\n"
    )
    of_system = b"Feb 03 08:10:05 a1 slurmd[811]: x\nFeb 03 08:10:06 a1 kernel: y\nFeb 03 08:10:06 [rank3]: z\n"
    assert "training" in {found.name for found in detect(Head("out", of_program)).formats}
    assert "training" not in {found.name for found in detect(Head("out", of_system)).formats}


def test_a_file_that_is_forced_to_be_a_training_log_is_read_for_these_lines_too() -> None:
    forced = detect(Head("train.log", b"step 1\n"), "training")
    assert FORMAT in forced.formats
    assert FORMAT in rebuild("lines", "training", forced=True).formats


@given(st.text(max_size=80), st.sampled_from(["", "srun: error: a1: ", "slurmstepd: error: *** JOB ", "salloc: Job "]))
def test_any_text_is_read_without_error(text: str, begin: str) -> None:
    message = (begin + text).encode("utf-8", "surrogatepass")
    list(read(Line(0, message, unwrap(message))))
