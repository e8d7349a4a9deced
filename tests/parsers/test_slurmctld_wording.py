"""Wordings of slurmctld from 20.02 to 26.05, every stamp of its log, and lines that nobody signed."""

from __future__ import annotations

import io
from typing import Any

import pytest

from aftershock.parsers.clock import SECOND
from aftershock.parsers.detect import detect
from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.formats import Found, Head, Line
from aftershock.parsers.scan import scanner_for
from aftershock.parsers.slurmctld import FORMAT
from aftershock.parsers.source import read_stream

DAY = 1738570205 * SECOND  # 2025-02-03T08:10:05, as if it were UTC


def found_in(text: str) -> list[Found]:
    """The settled rows of a whole log."""
    data = text.encode()
    found = [
        item
        for block in read_stream(io.BytesIO(data), detect(Head("slurmctld.log", data), "slurmctld"))
        for item in block.found
    ]
    return FORMAT.settle(found)


def rows_of(*messages: str) -> list[Any]:
    return [item.row for item in found_in("".join(f"[2025-02-03T08:10:05.220] {message}\n" for message in messages))]


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        ("_slurm_rpc_submit_batch_job: JobId=7 SLUID=s0123456789ABC InitPrio=1 usec=5", {"kind": "submitted"}),
        (
            "_slurm_rpc_submit_batch_job: SLUID=s0123456789ABC InitPrio=1 usec=5",
            {"kind": "submitted", "job_id": None, "raw_job_id": "s0123456789ABC"},
        ),
        ("Added JobId=7 from crontab entry from uid=5, next start is 1", {"kind": "submitted", "user": "5"}),
        ("Added JobId=JobId=7 from crontab entry from uid=5, next start is 1", {"kind": "submitted", "job_id": "7"}),
        (
            "sched/backfill: _start_job: HETJOB: Started JobId=7+1(8) in p on a[1-2]",
            {"kind": "started", "job_id": "7+1", "raw_job_id": "8", "hosts": ["a1", "a2"]},
        ),
        ("sched: Allocate JobId=7_* NodeList=a1 #CPUs=2 Partition=p", {"kind": "started", "array_task": "*"}),
        ("sched: Allocate JobId=7_4(130) NodeList=a1 #CPUs=2 Partition=p", {"array_task": "4", "raw_job_id": "130"}),
        (
            "requeue JobId=7 due to failure of node a1",
            {"kind": "requeued", "hosts": ["a1"], "reason": "failure of node a1"},
        ),
        ("JobId=7 timed out, assoc 5 is at or exceeds group wall limit 5 with 6 for account x", {"kind": "time_limit"}),
        (
            "JobId=7 timed out, the job is at or exceeds QOS q's max tres(cpu) minutes of 5 with 6",
            {"kind": "time_limit", "state": "TIMEOUT"},
        ),
        ("Reservation ended for JobId=7", {"kind": "time_limit", "reason": "Reservation ended"}),
        (
            "_delete_expired: JobId=7 with time_limit 60 exceeded deadline 2025-02-03T08:00:00 and cancelled",
            {"kind": "cancelled", "state": "DEADLINE", "user": None},
        ),
        (
            "Killing non-startable batch JobId=7: Zero Bytes were transmitted or received",
            {"kind": "launch_failed", "reason": "Zero Bytes were transmitted or received"},
        ),
        (
            "error: slurmd error running JobId=7 on Node(s)=a1: Job prolog failed",
            {"kind": "launch_failed", "host_raw": "a1", "hosts": ["a1"], "reason": "Job prolog failed"},
        ),
        ("error: Slurmd error running JobId=7 SLUID=s0123456789ABC on Node(s)=a1: x", {"kind": "launch_failed"}),
        ("error: Prolog launch failure, JobId=7", {"kind": "launch_failed", "reason": "Prolog launch failure"}),
        ("error: agent waited too long for nodes to respond, abort launch of JobId=7", {"kind": "launch_failed"}),
        (
            "error: agent(batch_launch) removed pending request for JobId=7, missing node a1",
            {"kind": "launch_failed", "hosts": ["a1"], "reason": "missing node a1"},
        ),
        ("error: _purge: Revoking job JobId=7 due to nodes not responding", {"kind": "launch_failed", "hosts": None}),
        ("error: _build: slurm_cred_create failure for JobId=7, holding job", {"kind": "launch_failed"}),
        ("error: Script for JobId=7 lost, state set to FAILED", {"kind": "ended", "state": "FAILED"}),
        ("error: prolog_slurmctld JobId=7 prolog exit status 1:0", {"kind": "prolog_error", "exit_code": 1}),
        ("error: _run_script: JobId=7 epilog exit status 0:9", {"kind": "epilog_error", "exit_signal": 9}),
        ("sched: _update_job: hold on JobId=7 by uid 0", {"kind": "held", "user": "0"}),
        ("sched: _update_job: release hold on JobId=7 by uid 0", {"kind": "released", "user": "0"}),
        (
            "sched: _update_job: setting exc_nodes to a[1-2] for JobId=7",
            {"kind": "exclude_list", "hosts": ["a1", "a2"], "job_id": "7"},
        ),
        ("_slurm_rpc_suspend(suspend) for 7_3 usec=5", {"kind": "suspended", "job_id": "7", "array_task": "3"}),
        ("_slurm_rpc_suspend(resume) for 7 usec=5", {"kind": "resumed", "raw_job_id": "7"}),
        ("Resending TERMINATE_JOB request JobId=7 Nodelist=a1", {"kind": "kill_resent", "hosts": ["a1"]}),
        ("reboot request queued for nodes a[1-2]", {"kind": "node_reboot", "hosts": ["a1", "a2"], "host": None}),
        ("powering down node a1", {"kind": "node_state", "state": "POWERING_DOWN", "host": "a1"}),
        ("_slurm_rpc_delete_reservation complete for r1 usec=3", {"kind": "reservation", "state": "DELETED"}),
        ("Reservation r1 has no more jobs for 00:05:00, ending it", {"kind": "reservation", "reason": "r1"}),
        ("Purging vestigial reservation r1 with 2 pending jobs", {"kind": "reservation", "state": "DELETED"}),
        (
            "sched: Created reservation=r1 users=root nodes=a1 cores=0 licenses=(null) tres=(null) start=x end=y "
            "MaxStartDelay= Comment=moved nodes=evil",
            {"kind": "reservation", "hosts": ["a1"], "user": "root"},
        ),
    ],
)
def test_one_line(message: str, fields: dict[str, Any]) -> None:
    assert scanner_for((FORMAT,)).hits(message.encode()), "no signature finds this line"
    (row,) = rows_of(message)
    assert {name: getattr(row, name) for name in fields} == fields
    assert (row.scheduler, row.message) == ("slurm", message)


@pytest.mark.parametrize(
    "message",
    [
        "slurmd error running JobId=7 from Node(s)=a1: Job credential revoked",
        "_slurm_rpc_suspend(suspend) for 7 Job is pending execution",
        "Killing StepId=7.0 on failed node a1",
        "Killing JobId=7 StepId=7.0 on failed node a1",
        "sched: _update_job: setting req_nodes to a1 for JobId=7",
        "power down request repeating for node a1",
        "preempted JobId=7 kill failure Job is pending",
        "cleanup_completing: JobId=7 completion process took 93 seconds",
        "Reservation r1 has invalid nodes (a1), shrinking to (a2)",
    ],
)
def test_lines_that_are_no_event(message: str) -> None:
    assert rows_of(message) == []


def test_a_signal_refused_by_20_02_cancelled_nothing() -> None:
    asked = "_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=7 uid 5"
    assert [row.kind for row in rows_of(asked)] == ["cancelled"]
    assert rows_of(asked, "_slurm_rpc_kill_job: job_str_signal() JobId=7 sig 9 returned Invalid job id specified") == []


def test_a_failed_script_of_the_controller_is_one_row() -> None:
    (row,) = rows_of(
        "error: _run_script: JobId=7 prolog exit status 1:0", "error: prolog_slurmctld JobId=7 prolog exit status 1:0"
    )
    assert (row.kind, row.exit_code) == ("prolog_error", 1)


@pytest.mark.parametrize(
    ("stamp", "kind", "wall"),
    [
        ("[2025-02-03T08:10:05.220] ", "local", DAY + 220_000),
        ("[2025-02-03T08:10:05] ", "local", DAY),
        ("[2025-02-03T08:10:05.220+09:00] ", "zoned", DAY + 220_000 - 9 * 3600 * SECOND),
        ("[2025-02-03T08:10:05-05:30] ", "zoned", DAY + 5 * 3600 * SECOND + 1800 * SECOND),
        ("[2025-02-03T08:10:05Z] ", "zoned", DAY),
        ("[Feb 03 08:10:05] ", "yearless", None),
        ("[Feb 03 08:10:05.220    12345 srvcn        0x7f2a11b2c700] ", "yearless", None),
        ("[Feb 03 08:10:05.220123 12345 a b c        (nil)] ", "yearless", None),
        ("[Feb 03 08:10:05.220123 12345  0x7f2a11b2c700] ", "yearless", None),
        ("sched: [2025-02-03T08:10:05.220] ", "local", DAY + 220_000),
        ("Feb  3 08:10:05 head slurmctld[99]: ", "yearless", None),
        ("<13>Feb  3 08:10:05 head slurmctld: ", "yearless", None),
        ("2025-02-03T08:10:05.220Z head slurmctld[99]: slurmctld: ", "zoned", DAY + 220_000),
        ("[162044] ", "none", None),
        ("slurmctld: ", "none", None),
        ("", "none", None),
    ],
)
def test_every_stamp_is_read(stamp: str, kind: str, wall: int | None) -> None:
    for message in ("error: Nodes a1 not responding, setting DOWN", "Time limit exhausted for JobId=7"):
        sure = f"{stamp}sched: Allocate JobId=8 NodeList=a1 #CPUs=2 Partition=p\n"
        _, item = found_in(f"{sure}{stamp}{message}\n")
        assert item.row.kind in ("node_down", "time_limit")  # type: ignore[union-attr]
        assert item.reading.kind == kind
        if wall is not None:
            assert item.reading.wall == wall


def test_the_microseconds_of_a_thread_stamp_are_a_number() -> None:
    (item,) = found_in("[Feb 03 08:10:05.220    12345 bckfl        0x7f2a11b2c700] Time limit exhausted for JobId=7\n")
    assert (item.reading.wall or 0) % SECOND == 220


@pytest.mark.parametrize(
    ("time", "kind"),
    [("2025-02-03T08:10:05", "local"), ("2025-02-03T08:10:05+09:00", "zoned"), ("Feb 03 08:10:05", "yearless")],
)
def test_a_log_as_json_has_its_own_time(time: str, kind: str) -> None:
    entry = '{"log":"Time limit exhausted for JobId=%d","stream":"stderr","time":"%s"}\n'
    items = found_in(entry % (7, time) + entry % (8, time))
    assert [item.row.job_id for item in items] == ["7", "8"]  # type: ignore[union-attr]
    assert {item.reading.kind for item in items} == {kind}


def test_what_docker_collected_keeps_no_time_and_is_joined() -> None:
    entry = '{"log":"slurmctld: Time limit exhausted for JobId=7\\n","stream":"stderr","time":"2025-02-03T08:10:05.2Z"}'
    (item,) = found_in(entry + "\n")
    assert item.reading.kind == "none"


def test_lines_that_nobody_signed_need_one_that_is_the_controllers() -> None:
    common = "Node a1 now responding\nnode a1 returned to service\nTerminate signal SIGTERM received\n"
    assert found_in(common) == []
    assert found_in("step 10\n" + common) == []
    signed = found_in(common + "Requeuing JobId=7\n")
    assert [item.row.kind for item in signed] == ["node_up", "controller_stop", "requeued"]  # type: ignore[union-attr]
    assert not any(item.mark.startswith("?") for item in signed)


def test_the_end_of_a_stamped_log_may_be_that_of_another_daemon() -> None:
    stop = "[2025-02-03T08:10:05] Terminate signal (SIGINT or SIGTERM) received\n"
    assert found_in(stop) == []
    assert [item.row.kind for item in found_in(stop + stop[:22] + "Requeuing JobId=7\n")] == [  # type: ignore[union-attr]
        "controller_stop",
        "requeued",
    ]


def test_a_stamp_with_many_blanks_takes_linear_time() -> None:
    line = b"[Feb 03 08:10:05.220 1" + b" " * 200_000 + b"x]"
    assert unwrap(line).names == ("plain",)
    list(FORMAT.read(Line(0, line, unwrap(line))))
