"""Hosts as scontrol show node and sinfo print them."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.clock import wall_micros
from aftershock.parsers.detect import detect
from aftershock.parsers.documents import scontrol_node, scontrol_reservation, sinfo
from aftershock.parsers.formats import Found, Head, Refused
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.pipeline.exclusions import find_exclusions
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.topology import Host

NODE = """\
NodeName={name} Arch=x86_64 CoresPerSocket=56
   CPUAlloc=0 CPUEfctv=224 CPUTot=224 CPULoad=0.10
   NodeAddr=10.1.0.7 NodeHostName=r1u07 Version=23.11.4
   OS=Linux 6.8.0-45-generic #45-Ubuntu SMP
   State={state} ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=long,debug
   BootTime=2025-02-01T07:00:00 SlurmdStartTime=2025-02-01T07:02:11
{reason}
"""


def items(text: str, module: Any = scontrol_node) -> list[Any]:
    return list(module.read(io.BytesIO(text.encode("utf-8", "surrogateescape"))))


def events(text: str, module: Any = scontrol_node) -> list[SchedulerEvent]:
    rows = [item.row for item in items(text, module) if isinstance(item, Found)]
    return [row for row in rows if isinstance(row, SchedulerEvent)]


def reasons(text: str, module: Any) -> list[str]:
    return [item.reason for item in items(text, module) if isinstance(item, Refused)]


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("IDLE", None),
        ("ALLOCATED+CLOUD", None),
        ("MIXED+PLANNED", None),
        ("IDLE+CLOUD+POWERED_DOWN", None),
        ("IDLE+DRAIN", "node_drain"),
        ("MIXED+DRAIN+RESERVED", "node_drain"),
        ("DOWN*", "node_down"),
        ("DOWN+NOT_RESPONDING", "node_down"),
        ("DOWN*+DRAIN", "node_drain"),
        ("IDLE+MAINT+RESERVED", "node_state"),
        ("IDLE+FAIL", "node_state"),
        ("IDLE*", "node_state"),
        ("UNKNOWN*", "node_state"),
        ("DOWN+INVALID_REG", "node_down"),
    ],
)
def test_states(state: str, kind: str | None) -> None:
    found = events(NODE.format(name="dgx07", state=state, reason=""))
    assert [(row.kind, row.host, row.state) for row in found] == ([(kind, "dgx07", state)] if kind else [])


def test_one_row_for_each_host_with_kernel_and_partitions() -> None:
    rows = [item.row for item in items(NODE.format(name="dgx07", state="IDLE", reason="") * 3)]
    assert [(row.host, row.kernel, row.partition) for row in rows if isinstance(row, Host)] == [
        ("dgx07", "6.8.0-45-generic", "long,debug")
    ] * 3
    assert len(rows) == 3


@pytest.mark.parametrize(
    ("line", "reason", "user", "local"),
    [
        ("   Reason=bad dimm [mira@2025-02-03T08:00:05]", "bad dimm", "mira", "2025-02-03T08:00:05"),
        ("   Reason=a [b] c [mira@2025-02-03T08:00:05]", "a [b] c", "mira", "2025-02-03T08:00:05"),
        ("   Reason=x State=IDLE NodeName=y [4021@2025-02-03T08:00:05]", "x State=IDLE NodeName=y", "4021",
         "2025-02-03T08:00:05"),
        ("   Reason=one [mira@2025-02-03T08:00:05]\n          two\n          three\n   Comment=four", "one two three",
         "mira", "2025-02-03T08:00:05"),
        ("   Reason=no stamp\n   Comment=a [b@2025-02-03T08:00:05]", "no stamp", None, None),
        ("   Reason=none [root@Unknown]", None, "root", None),
    ],
)  # fmt: skip
def test_reasons(line: str, reason: str | None, user: str | None, local: str | None) -> None:
    (found,) = [
        item for item in items(NODE.format(name="d7", state="IDLE+DRAIN", reason=line)) if item.row.table[0] == "s"
    ]
    assert (found.row.reason, found.row.user, found.reading.text) == (reason, user, local)


def test_a_stamp_behind_a_reason_without_one_is_not_its_stamp() -> None:
    text = NODE.format(name="d7", state="IDLE+DRAIN", reason="   Reason=a\n   Comment=b [c@2025-01-01T00:00:00]")
    assert events(text)[0].user is None


def test_slurm_conf_is_not_the_state_of_a_cluster() -> None:
    conf = b"ClusterName=alpha\nNodeName=dgx[01-64] CPUs=224 CoresPerSocket=56 State=UNKNOWN\n"
    assert detect(Head("slurm.conf", conf)).format != "scontrol_node"
    assert items(conf.decode()) == []


R = "REASON               USER      TIMESTAMP           NODELIST\n"
NEL = "NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON              \n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (R + "bad                  root      2025-02-03T08:00:05 d7\n", [("node_drain", ["d7"], None, "bad", "root")]),
        (R + "two words            root      2025-02-03T08:00:05 d[7-8]\n",
         [("node_drain", ["d7", "d8"], None, "two words", "root")]),
        (R + "Not responding       slurm     2025-02-03T08:00:05 d7\n", [("node_down", ["d7"], None, "Not responding", "slurm")]),
        (R + "none                 Unknown   Unknown             d7\n", []),
        (R + "Prolog über + drei   root      2025-02-03T08:00:05 d7\n",
         [("node_drain", ["d7"], None, "Prolog über + drei", "root")]),
        ("REASON               USER         TIMESTAMP           STATE  NODELIST\n"
         "bad cable            mira(4021)   2025-02-03T08:00:05 drain* d7\n",
         [("node_drain", ["d7"], "drain*", "bad cable", "mira")]),
        ("REASON|USER|TIMESTAMP|NODELIST\na|b|root|2025-02-03T08:00:05|d7\n", [("node_drain", ["d7"], None, "a|b", "root")]),
        ("NODELIST,STATE,REASON\nd[7,9],down,a\n", [("node_down", ["d7", "d9"], "down", "a", None)]),
        ("NODELIST            STATE               REASON              USER                TIMESTAMP           \n"
         "d7                  drained             bad fan             root                2025-02-03T08:00:05 \n",
         [("node_drain", ["d7"], "drained", "bad fan", "root")]),
        (NEL + "d7             1      long       down* 224    2:56:2 200000        0      1   (null) a b\n",
         [("node_down", ["d7"], "down*", "a b", None)]),
        (NEL + "d7             1     long*     drained 224    2:56:2 200000        0      1 h100,ib  none\n",
         [("node_drain", ["d7"], "drained", None, None)]),
        ("NODELIST STATE\nd7 fail\nd8 idle\n", [("node_state", ["d7"], "fail", None, None)]),
        ("PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\nlong*        up   infinite      1  drng d7\n",
         [("node_drain", ["d7"], "drng", None, None)]),
    ],
)  # fmt: skip
def test_sinfo(text: str, expected: list[Any]) -> None:
    assert detect(Head("x", text.encode())).format == "sinfo"
    assert [(e.kind, e.hosts, e.state, e.reason, e.user) for e in events(text, sinfo)] == expected
    assert reasons(text, sinfo) == []


@pytest.mark.parametrize(
    "line",
    [
        "bad                  root      2025-02-03T08:00:05 d[7-",  # cut off
        "bad                  root      2025-02-03T08:00:05 d[1-99999999999]",
        "bad                  root      2025-99-03T08:00:05 d7",
        "bad root d7",
        "x" * 20_000,
    ],
)
def test_what_cannot_be_read_is_refused(line: str) -> None:
    assert len(reasons(R + line + "\n", sinfo)) == 1


def test_a_bad_time_costs_only_the_time() -> None:
    (row,) = events(R + "bad                  root      2025-02-33T08:00:05 d7\n", sinfo)
    assert row.reason == "bad"


def test_a_host_in_two_partitions_is_told_once() -> None:
    row = "d7             1  {}      down 224    2:56:2 200000        0      1   (null) a b\n"
    assert len(events(NEL + row.format(" long") + row.format("debug"), sinfo)) == 1


@given(st.text(alphabet=st.characters(blacklist_characters="\n\r", blacklist_categories=["Cs"]), max_size=20))
def test_any_reason_of_sinfo_is_kept_or_refused(reason: str) -> None:
    cell = reason.encode()[:20].decode("utf-8", "ignore")
    line = cell.encode() + b" " * (20 - len(cell.encode())) + b" root      2025-02-03T08:00:05 d7\n"
    found = list(sinfo.read(io.BytesIO(R.encode() + line)))
    rows = [item.row for item in found if isinstance(item, Found)]
    if rows:
        assert isinstance(rows[0], SchedulerEvent)
        assert (rows[0].reason or "") == (
            "" if cell.strip().lower() in ("none", "(null)", "n/a", "null") else cell.strip()
        )
        assert rows[0].user == "root"


RESERVATION = """\
ReservationName=fix7 StartTime=2025-02-03T12:00:00 EndTime=2025-02-03T18:00:00 Duration=06:00:00
   Nodes={nodes} NodeCnt=2 CoreCnt=224 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES
   Users=root Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null)
   Comment=EndTime=2030-01-01T00:00:00
"""


def test_a_reservation_sets_its_hosts_aside_until_its_end() -> None:
    rows = rows_of_text(RESERVATION.format(nodes="d[7-8]"), scontrol_reservation.FORMAT)
    found = find_exclusions([row for row in rows if isinstance(row, SchedulerEvent)])
    noon = (wall_micros(2025, 2, 3, 12, 0, 0), wall_micros(2025, 2, 3, 18, 0, 0))
    assert [(row.host, row.how, row.reason, row.by) for row in found] == [
        ("d7", "reservation", "fix7", "root"),
        ("d8", "reservation", "fix7", "root"),
    ]
    assert {(row.start_time, row.end_time) for row in found} == {noon}


def test_a_reservation_without_hosts_or_with_a_list_that_cannot_be_read() -> None:
    assert items(RESERVATION.format(nodes="(null)"), scontrol_reservation) == []
    assert len(reasons(RESERVATION.format(nodes="d[7-"), scontrol_reservation)) == 1
