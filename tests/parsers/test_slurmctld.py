"""Controller lines: each shape alone, and the lines that tell one thing together."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.clock import NO_CLOCK, SECOND, Reading
from aftershock.parsers.formats import Envelope, Found, Line, Refused
from aftershock.parsers.slurmctld import FORMAT, read, settle
from aftershock.schemas.events import SchedulerEvent

SIGNATURE = re.compile(b"|".join(b"(?:%s)" % signature for signature in FORMAT.signatures))


def line_of(message: str, at: float = 0.0, offset: int = 0, names: tuple[str, ...] = ("slurm",)) -> Line:
    text = message.encode()
    reading = Reading("local", int(at * SECOND), text="printed") if names != ("plain",) else NO_CLOCK
    return Line(offset, text, Envelope(names, text, reading))


def found_in(*messages: str | tuple[float, str]) -> list[Found]:
    """The settled rows of messages, one second apart unless each says when."""
    timed = [m if isinstance(m, tuple) else (float(i), m) for i, m in enumerate(messages)]
    items = [item for i, (at, message) in enumerate(timed) for item in read(line_of(message, at, 100 * i))]
    return settle([item for item in items if isinstance(item, Found)])


def rows_of(*messages: str | tuple[float, str]) -> list[SchedulerEvent]:
    rows = [item.row for item in found_in(*messages)]
    assert all(isinstance(row, SchedulerEvent) for row in rows)
    return rows  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        ("_slurm_rpc_submit_batch_job: JobId=7 InitPrio=1 usec=5", {"kind": "submitted", "job_id": "7"}),
        ("_slurm_rpc_submit_batch_job: JobId=7 SLUID=s01 InitPrio=1 usec=5", {"kind": "submitted", "raw_job_id": "7"}),
        ("sched: Allocate JobId=7 NodeList=a[1-2] #CPUs=2 Partition=p", {"kind": "started", "hosts": ["a1", "a2"]}),
        ("sched: Allocate JobId=7 Partition=p NodeList=a1 #CPUs=2", {"kind": "started", "hosts": ["a1"]}),
        ("sched/backfill: _start_job: Started JobId=7_2(9) in p on a1", {"kind": "started", "array_task": "2"}),
        ("backfill: Started JobId=7 in p on a1", {"kind": "started", "hosts": ["a1"]}),
        ("sched: _slurm_rpc_allocate_resources JobId=7 NodeList=a1 usec=5", {"kind": "started", "hosts": ["a1"]}),
        ("sched: _slurm_rpc_allocate_resources JobId=7 NodeList=(null) usec=5", {"kind": "submitted", "hosts": []}),
        ("_job_complete: JobId=7 WEXITSTATUS 0", {"kind": "ended", "exit_code": 0, "state": "COMPLETED"}),
        ("_job_complete: JobId=7 WEXITSTATUS 139", {"exit_code": 139, "exit_signal": None, "state": "FAILED"}),
        ("job_complete: JobId=7 WTERMSIG 9", {"kind": "ended", "exit_code": None, "exit_signal": 9}),
        ("_job_complete: JobId=7 WTERMSIG 126", {"kind": "ended", "exit_signal": None, "state": None}),
        ("_job_complete: JobId=7 OOM failure", {"kind": "ended", "state": "OUT_OF_MEMORY"}),
        ("_job_complete: JobId=7 cancelled by interactive user", {"kind": "ended", "state": "CANCELLED"}),
        ("_job_complete: JobId=7 cancelled by node failure", {"kind": "ended", "state": "NODE_FAIL"}),
        ("_job_complete: JobId=7 done", {"kind": "ended", "state": None, "exit_code": None}),
        ("Killing JobId=7 on failed node a1", {"kind": "ended", "state": "NODE_FAIL", "hosts": ["a1"]}),
        ("Killing JobId=7 on DOWN node a1", {"kind": "ended", "state": "NODE_FAIL", "hosts": ["a1"]}),
        ("Killing JobId=7 on defunct partition p", {"kind": "ended", "reason": "defunct partition p", "hosts": None}),
        ("requeue job JobId=7 due to failure of node a1", {"kind": "requeued", "hosts": ["a1"], "state": "NODE_FAIL"}),
        ("_job_complete: requeue JobId=7 due to node failure", {"kind": "requeued", "reason": "node failure"}),
        ("_job_complete: requeue JobId=7 per user/system request", {"kind": "requeued", "state": None}),
        ("Requeue job JobId=7 due to node failure", {"kind": "requeued", "reason": "node failure"}),
        (
            "Requeue het job leader JobId=7+0(7) due to node failure on JobId=7+1(8)",
            {"job_id": "7+0", "raw_job_id": "7"},
        ),
        ("Requeuing JobId=7", {"kind": "requeued", "reason": None}),
        (
            "Batch JobId=7 missing from batch node a1 (not found BatchStartTime after startup), Requeuing job",
            {"kind": "requeued", "hosts": ["a1"], "reason": "missing from batch node a1"},
        ),
        (
            "Batch JobId=7 missing from batch node a1 (not found BatchStartTime after startup)",
            {"kind": "ended", "state": "NODE_FAIL"},
        ),
        (
            "preempted JobId=7 has been requeued to reclaim resources for JobId=8",
            {"kind": "requeued", "state": "PREEMPTED"},
        ),
        ("preempted JobId=7 has been killed", {"kind": "preempted", "job_id": "7"}),
        ("slurm_job_preempt: preempted JobId=7 had to be killed", {"kind": "preempted"}),
        ("_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=7_[1-3] uid 40", {"kind": "cancelled", "user": "40"}),
        ("test: Job dependency can't be satisfied, cancelling JobId=7", {"kind": "cancelled", "user": None}),
        ("Time limit exhausted for JobId=7", {"kind": "time_limit", "state": "TIMEOUT"}),
        ("job_time_limit: inactivity time limit reached for JobId=7", {"kind": "time_limit"}),
        ("error: Removing failed node a1 from JobId=7", {"kind": "resized", "hosts": ["a1"], "host": None}),
        (
            "error: Nodes a[1-2] not responding, setting DOWN",
            {"kind": "node_down", "hosts": ["a1", "a2"], "host": None},
        ),
        ("error: Nodes a1 not responding, setting DOWN", {"kind": "node_down", "host": "a1", "state": "DOWN"}),
        (
            "node a1 not resumed by ResumeTimeout(60), setting DOWN and POWERED_DOWN",
            {"kind": "node_down", "host": "a1"},
        ),
        ("node a1 not resumed by ResumeTimeout(60) - marking down and power_save", {"kind": "node_down"}),
        ("validate_node_specs: Node a1 unexpectedly rebooted boot_time=5 last response=4", {"kind": "node_down"}),
        ("Node a1 now responding", {"kind": "node_up", "host": "a1"}),
        ("node_did_resp: node a1 returned to service", {"kind": "node_up", "host": "a1"}),
        ("update_node: node a1 reason set to: bad", {"kind": "node_state", "reason": "bad", "host": "a1"}),
        ("update_node: node a1 state set to DRAINED*", {"kind": "node_drain", "state": "DRAINED*"}),
        ("update_node: node a1 state set to DOWN", {"kind": "node_down"}),
        ("update_node: node a1 state set to ALLOCATED", {"kind": "node_resume"}),
        ("update_node: node a1 state set to UNDRAIN", {"kind": "node_resume"}),
        ("update_node: node a1 state set to POWER_DOWN", {"kind": "node_state", "state": "POWER_DOWN"}),
        ("drain_nodes: node a1 state set to DRAIN", {"kind": "node_drain", "reason": None}),
        ("error: Setting node a1 state to INVAL with reason:low gpus", {"kind": "node_drain", "reason": "low gpus"}),
        ("error: Prolog/Epilog failure on nodes a1, set to state DRAIN", {"kind": "node_drain", "host": "a1"}),
        (
            "error: validate_node_specs: Prolog or job env setup failure on node a1, draining the node",
            {"kind": "node_drain", "state": "DRAIN"},
        ),
        (
            "error: job_epilog_complete: JobId=7 epilog error on a1, draining the node",
            {"kind": "epilog_error", "host": "a1", "job_id": "7"},
        ),
        (
            "error: _slurm_rpc_epilog_complete: epilog error JobId=7 Node=a1 Err=Job epilog failed usec=3",
            {"kind": "epilog_error", "host": "a1", "reason": "Job epilog failed"},
        ),
        ("error: Epilog failure on host a1, setting DOWN", {"kind": "epilog_error", "host": "a1"}),
        (
            "sched: Created reservation=r1 users=root nodes=a[1-2] cores=0 start=2025-01-01T00:00:00 end=2025-01-02T00:00:00",
            {"kind": "reservation", "hosts": ["a1", "a2"], "user": "root", "reason": "r1", "state": "CREATED"},
        ),
        (
            "sched: Updated reservation=r1 start=2025-01-01T00:00:00 end=2025-01-02T00:00:00 nodes=a1 users=root comment='nodes=x'",
            {"kind": "reservation", "host": "a1", "user": "root", "state": "UPDATED"},
        ),
        ("_slurm_rpc_resv_delete complete for r1 usec=3", {"kind": "reservation", "state": "DELETED", "hosts": []}),
        ("slurmctld version 26.05.3 started on cluster beta(77)", {"kind": "controller_start", "cluster": "beta"}),
        ("SLUID=s01 is no line", {}),
    ],
)
def test_one_line(message: str, fields: dict[str, Any]) -> None:
    rows = rows_of(message)
    if not fields:
        assert not rows
        return
    assert SIGNATURE.search(message.encode()), "no signature finds this line"
    (row,) = rows
    assert {name: getattr(row, name) for name in fields} == fields
    assert row.message == message


@pytest.mark.parametrize(
    "message",
    [
        "error: Nodes a1 not responding",
        "_slurm_rpc_requeue: Requeue of JobId=7 returned an error: Job is pending execution",
        "error: preempted JobId=7 could not be requeued: Job is pending execution",
        "error: Unable to requeue JobId=7: Requested operation is disabled",
        "error: Batch completion for JobId=7 sent from wrong node (a1 rather than a2). Was the job requeued due to node failure?",
        "_pick_best_nodes: JobId=7 never runnable in partition p",
        "Invalid node state transition requested for node a1 from=IDLE to=RESUME",
        "_update_node_weight: nodes a1 weight set to: 5",
        "job_step_signal: JobId=7 is in state COMPLETING, cannot signal steps",
        "error: Registered PENDING JobId=7 StepId=7.0 on node a1",
        "agent/is_node_resp: node:a1 RPC:REQUEST_PING : Communication connection failure",
        "_slurm_rpc_create_reservation reservation=r1: Requested nodes are busy",
        "user said: Requeuing JobId=7 now",
    ],
)
def test_lines_that_are_no_event(message: str) -> None:
    assert rows_of(message) == []


def test_an_end_is_one_row() -> None:
    assert [
        (row.kind, row.exit_code)
        for row in rows_of("_job_complete: JobId=7 WEXITSTATUS 0", "_job_complete: JobId=7 done")
    ] == [("ended", 0)]
    (row,) = rows_of(
        "_job_complete: JobId=7 WTERMSIG 126",
        "_job_complete: JobId=7 cancelled by interactive user",
        "_job_complete: JobId=7 done",
    )
    assert (row.kind, row.state, row.exit_signal) == ("ended", "CANCELLED", None)


def test_ends_of_two_jobs_are_two_rows() -> None:
    rows = rows_of(
        "_job_complete: JobId=7_1(8) WEXITSTATUS 0",
        "_job_complete: JobId=7_2(9) WEXITSTATUS 1",
        "_job_complete: JobId=7_1(8) done",
        "_job_complete: JobId=7_2(9) done",
    )
    assert [(row.array_task, row.exit_code) for row in rows] == [("1", 0), ("2", 1)]


def test_five_lines_of_a_requeue_are_one_row_at_the_earliest_time() -> None:
    (item,) = found_in(
        (10.0, "Batch JobId=7 missing from batch node a1 (not found BatchStartTime after startup), Requeuing job"),
        (10.1, "_job_complete: JobId=7 WTERMSIG 126"),
        (10.1, "_job_complete: JobId=7 cancelled by node failure"),
        (10.1, "_job_complete: requeue JobId=7 due to node failure"),
        (10.2, "_job_complete: JobId=7 done"),
        (300.0, "Requeuing JobId=7"),
    )
    row = item.row
    assert isinstance(row, SchedulerEvent)
    assert (row.kind, row.hosts, row.state) == ("requeued", ["a1"], "NODE_FAIL")
    assert row.reason is not None
    assert "node" in row.reason
    assert (item.offset, item.reading.wall) == (0, 10 * SECOND)


def test_a_requeue_that_begins_with_its_end_keeps_that_time() -> None:
    (item,) = found_in(
        (5.0, "_job_complete: JobId=7 WTERMSIG 126"),
        (5.0, "_job_complete: JobId=7 cancelled by node failure"),
        (5.1, "_job_complete: requeue JobId=7 due to node failure"),
        (5.1, "_job_complete: JobId=7 done"),
        (6.0, "Requeuing JobId=7"),
    )
    assert isinstance(item.row, SchedulerEvent)
    assert (item.row.kind, item.row.state, item.offset) == ("requeued", "NODE_FAIL", 0)


def test_an_exit_status_before_a_requeue_is_kept() -> None:
    rows = rows_of(
        "_job_complete: JobId=7 WEXITSTATUS 3",
        "_job_complete: requeue JobId=7 per user/system request",
        "_job_complete: JobId=7 done",
        "Requeuing JobId=7",
    )
    assert [(row.kind, row.exit_code) for row in rows] == [("ended", 3), ("requeued", None)]


def test_requeues_with_a_start_between_them_are_two() -> None:
    rows = rows_of(
        "requeue job JobId=7 due to failure of node a1",
        "Requeuing JobId=7",
        "sched: Allocate JobId=7 NodeList=a2 #CPUs=2 Partition=p",
        "requeue job JobId=7 due to failure of node a2",
        "Requeuing JobId=7",
    )
    assert [(row.kind, row.hosts) for row in rows] == [("requeued", ["a1"]), ("started", ["a2"]), ("requeued", ["a2"])]


def test_requeues_far_apart_are_two_even_without_a_start() -> None:
    rows = rows_of((0.0, "Requeuing JobId=7"), (200.0, "Requeuing JobId=7"))
    assert len(rows) == 2


def test_a_reason_and_its_state_are_one_row() -> None:
    rows = rows_of(
        "update_node: node a1 reason set to: Xid 79",
        "update_node: node a1 state set to DRAINED",
        "update_node: node a2 reason set to: Xid 79",
        "update_node: node a2 state set to DOWN",
        (900.0, "update_node: node a1 reason set to: replaced"),
    )
    assert [(row.kind, row.host, row.reason, row.state) for row in rows] == [
        ("node_drain", "a1", "Xid 79", "DRAINED"),
        ("node_down", "a2", "Xid 79", "DOWN"),
        ("node_state", "a1", "replaced", None),
    ]


def test_a_drain_by_epilog_takes_its_reason() -> None:
    rows = rows_of(
        "error: job_epilog_complete: JobId=7 epilog error on a1, draining the node",
        "drain_nodes: node a1 state set to DRAIN",
    )
    assert [(row.kind, row.reason) for row in rows] == [
        ("epilog_error", "Epilog error"),
        ("node_drain", "Epilog error"),
    ]


def test_a_return_to_service_is_one_row() -> None:
    rows = rows_of(
        (1.0, "Node a1 now responding"), (1.0, "node a1 returned to service"), (1.0, "Node a2 now responding")
    )
    assert [row.host for row in rows] == ["a1", "a2"]


@pytest.mark.parametrize(
    ("after", "kinds"),
    [
        ("_slurm_rpc_kill_job: job_str_signal() uid=4 JobId=7 sig=9 returned: Access/permission denied", []),
        ("job_signal: 10 of running JobId=7 successful 0x8001", []),
        ("job_signal: 9 of pending JobId=7 successful", ["cancelled"]),
        ("job_signal: 10 of running JobId=8 successful 0x8001", ["cancelled"]),
    ],
)
def test_a_kill_that_killed_nothing_is_no_row(after: str, kinds: list[str]) -> None:
    rows = rows_of("_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=7 uid 4", after)
    assert [row.kind for row in rows] == kinds


def test_the_cluster_is_told_to_all_rows_unless_there_are_two() -> None:
    start = "slurmctld version 24.05.1 started on cluster {}"
    rows = rows_of("Node a1 now responding", start.format("beta"))
    assert {row.cluster for row in rows} == {"beta"}
    rows = rows_of("Node a1 now responding", start.format("beta"), start.format("gamma"))
    assert [row.cluster for row in rows] == [None, "beta", "gamma"]


@pytest.mark.parametrize("hosts", ["n[0-9999999999]", "n[1-", "n[3-1]"])
def test_a_host_list_that_cannot_be_read_is_refused(hosts: str) -> None:
    (refused,) = read(line_of(f"sched: Allocate JobId=7 NodeList={hosts} #CPUs=2 Partition=p"))
    assert isinstance(refused, Refused)
    assert "host list" in refused.reason


def test_only_lines_of_the_controller_are_read() -> None:
    message = "Node a1 now responding"
    assert settle([i for i in read(line_of(message, names=("plain",))) if isinstance(i, Found)]) == []
    assert list(read(line_of(message, names=("rfc3164",)))) == []
    by_tag = line_of(message)
    assert list(read(by_tag._replace(envelope=by_tag.envelope._replace(names=("rfc3164",), tag="slurmctld"))))
    assert list(read(line_of("_job_complete: JobId=7 WEXITSTATUS 1", names=("plain",))))


PIECES = [
    "JobId=7", "JobId=7_[1-2]", "SLUID=s1", "_job_complete: ", "error: ", "requeue ", "Requeuing ", " done", " on ", "node a1",
    "update_node: ", " state set to ", "NodeList=", "n[1-", "]", " WTERMSIG ", "99999999999999", "preempted ", "reservation=r",
    "sched: Created ", " nodes=n[1-3]", "\x00", "é", " ",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(max_size=60))
def test_any_message_is_read_without_error(message: str) -> None:
    list(read(line_of(message)))


@given(st.binary(max_size=80))
def test_any_bytes_are_read_without_error(message: bytes) -> None:
    list(read(Line(0, message, Envelope(("slurm",), message))))


@given(
    st.lists(
        st.sampled_from(
            [
                "_job_complete: JobId=7 WTERMSIG 126",
                "_job_complete: JobId=7 cancelled by node failure",
                "_job_complete: requeue JobId=7 due to node failure",
                "_job_complete: JobId=7 done",
                "Requeuing JobId=7",
                "sched: Allocate JobId=7 NodeList=a1 #CPUs=2 Partition=p",
                "update_node: node a1 reason set to: x",
                "update_node: node a1 state set to DRAIN",
                "drain_nodes: node a1 state set to DRAIN",
                "job_signal: 10 of running JobId=7 successful",
                "_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=7 uid 4",
            ]
        ),
        max_size=12,
    )
)
def test_settling_gives_known_kinds_in_order_and_settles_once(messages: list[str]) -> None:
    settled = found_in(*messages)
    assert [item.offset for item in settled] == sorted({item.offset for item in settled})
    assert all(isinstance(item.row, SchedulerEvent) and item.row.kind for item in settled)


@pytest.mark.parametrize(
    "torn",
    [
        "sched: Allocate JobId=41 NodeList=gp",
        "_job_complete: JobId=41 WEXIT",
        "error: Nodes gpu031 not responding, setting DO",
        "update_node: node gpu031 state set to",
        "requeue job JobId=41 due to",
    ],
)
def test_a_record_that_breaks_off_is_refused(torn: str) -> None:
    line = Line(0, torn.encode(), Envelope(("slurm",), torn.encode(), Reading("local", 0)))
    (refused,) = read(line)
    assert isinstance(refused, Refused)
    assert "breaks off" in refused.reason


@pytest.mark.parametrize("names", [("cri", "plain"), ("docker", "plain"), ("plain",), ("journal",)])
def test_the_name_before_a_line_in_the_foreground_is_no_part_of_it(names: tuple[str, ...]) -> None:
    text = b"slurmctld: sched: Allocate JobId=41 NodeList=gpu[031-032] #CPUs=8 Partition=long"
    (found,) = read(Line(0, text, Envelope(names, text)))
    assert isinstance(found, Found)
    assert found.row.hosts == ["gpu031", "gpu032"]
