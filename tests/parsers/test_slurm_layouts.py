"""What Slurm's tools print for people, and other delimiters; the controller's jobs and hosts as JSON."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.documents import sacct, scontrol_node_json, sinfo, squeue, squeue_json
from aftershock.parsers.formats import Found, Refused
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session
from tests.timing import seconds


def found(text: str, module: Any) -> list[Any]:
    items = list(module.read(io.BytesIO(text.encode("utf-8", "surrogateescape"))))
    return [item.row if isinstance(item, Found) else item for item in items]


def squeue_line(job: str, name: str, state: str, nodes: str, last: str) -> str:
    return f"{job[:18]:>18} {'long':>9} {name[:8]:>8} {'mira':>8} {state:>2} {'1:00':>10} {nodes:>6} {last}\n"


SQUEUE = "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (squeue_line("7", "a b c", "R", "2", "d[1-2]"), ("7", "a b c", "RUNNING", ["d1", "d2"], None)),
        (squeue_line("7", "R 1:00 2", "PD", "1", "(Resources)"), ("7", "R 1:00 2", "PENDING", [], "Resources")),
        (squeue_line("7_[1-3]", "", "PD", "1", "(ReqNodeNotAvail, UnavailableNodes:d1)"),
         ("7_[1-3]", None, "PENDING", [], "ReqNodeNotAvail, UnavailableNodes:d1")),
        (squeue_line("123456_[0-7,9-2000]", "a", "PD", "1", "(Priority)"),
         ("123456_[0-7,9-2000", "a", "PENDING", [], "Priority")),
    ],
)  # fmt: skip
def test_the_layout_of_squeue(line: str, expected: Any) -> None:
    (row,) = found(SQUEUE + line, squeue)
    assert (row.job_id, row.name, row.state, row.hosts, row.end_reason) == expected


def test_the_long_layout_of_squeue_with_its_time_and_a_state_that_was_cut() -> None:
    text = (
        "Mon Feb 03 10:00:00 2025\n"
        "             JOBID PARTITION     NAME     USER    STATE       TIME TIME_LIMI  NODES NODELIST(REASON)\n"
        "                 7      long     bert     mira COMPLETI       1:00 UNLIMITED      1 d1\n"
    )
    (row,) = found(text, squeue)
    assert (row.job_id, row.state, row.hosts) == ("7", "RUNNING", ["d1"])


@given(st.text(alphabet=st.characters(blacklist_characters="\n\r", blacklist_categories=["Cs"]), max_size=8))
def test_any_name_in_the_layout_of_squeue_leaves_the_rest(name: str) -> None:
    cell = name.encode()[:8].decode("utf-8", "ignore")
    pad = " " * (8 - len(cell.encode()))
    line = squeue_line("7", "@", "R", "1", "d1").replace("       @", pad + cell)
    rows = found(SQUEUE + line, squeue)
    assert [(row.job_id, row.state, row.hosts) for row in rows] == [("7", "RUNNING", ["d1"])]


def test_a_line_that_does_not_fit_its_columns_is_refused() -> None:
    (refused,) = found(SQUEUE + "slurm_load_jobs error: Unable to contact slurm controller\n", squeue)
    assert isinstance(refused, Refused)


SACCT = (
    "JobID           JobName      State ExitCode               Start        NodeList \n"
    "------------ ---------- ---------- -------- ------------------- --------------- \n"
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("812                 a b  COMPLETED      0:0 2025-02-03T08:12:31              d1 \n", ("812", "a b", "COMPLETED", ["d1"])),
        ("812          pretraini+ OUT_OF_ME+    0:125 2025-02-03T08:12:31          d[1-2] \n",
         ("812", None, "OUT_OF_MEMORY", ["d1", "d2"])),
        ("812                bert CANCELLED+      0:0             Unknown   None assigned \n", ("812", "bert", "CANCELLED", [])),
        ("812                bert    RUNNING      0:0 2025-02-03T08:12:31 gpu[001-003,01+ \n", ("812", "bert", "RUNNING", [])),
    ],
)  # fmt: skip
def test_the_layout_of_sacct(line: str, expected: Any) -> None:
    (row,) = found(SACCT + line, sacct)
    assert (row.job_id, row.name, row.state, row.hosts or []) == expected


def test_steps_and_cut_ids_in_the_layout_of_sacct() -> None:
    text = SACCT + (
        "812.batch         batch  COMPLETED      0:0 2025-02-03T08:12:31              d1 \n"
        "17311133.ba+      batch  COMPLETED      0:0 2025-02-03T08:12:31              d1 \n"
        "17311133.ex+     extern  COMPLETED      0:0 2025-02-03T08:12:31              d1 \n"
        "1234567_[0-+       bert    PENDING      0:0             Unknown   None assigned \n"
    )
    (refused,) = found(text, sacct)
    assert isinstance(refused, Refused)
    assert refused.reason == "sacct: JobID is not a job id"


@pytest.mark.parametrize("mark", ["|", "|#", ";", "\t", "^", "~", "@@", ","])
def test_any_delimiter(mark: str) -> None:
    rows = ["JobID", "State", "NodeList", "AllocTRES", "End"], [
        "7", "FAILED", "d[1,3-4]", "cpu=4,gres/gpu=8,mem=10.50G", "2025-02-03T08:12:31",
    ]  # fmt: skip
    (row,) = found("".join(mark.join(cells) + "\n" for cells in rows), sacct)
    assert (row.job_id, row.state, row.hosts, row.n_gpus) == ("7", "FAILED", ["d1", "d3", "d4"], 8)


@pytest.mark.parametrize(
    ("line", "nodes", "expected"),
    [
        ("sbatch -w d1,d2 a.sh", "2", ["d1", "d2"]),
        ("sbatch --nodelist=d[1-2] a.sh", "2", ["d1", "d2"]),
        ("sbatch -w d1 a.sh", "2", None),  # and another one, whichever
        ("sbatch a.sh -w d1", "1", None),  # of the script
        ("sbatch -w ./hosts a.sh", "1", None),
    ],
)
def test_hosts_that_a_request_named_are_designated_where_it_needs_no_more(
    line: str, nodes: str, expected: list[str] | None
) -> None:
    text = f"JobID|State|NNodes|SubmitLine\n7|COMPLETED|{nodes}|{line}\n"
    (row,) = found(text, sacct)
    assert (row.designated_hosts, row.command) == (expected, line)


def controller_job(**fields: Any) -> Session:
    job = {"job_id": 7, "job_state": "RUNNING", "nodes": "d1", "submit_time": 10**9, "start_time": 10**9 + 5}
    (row,) = found(json.dumps({"jobs": [job | fields]}), squeue_json)
    assert isinstance(row, Session)
    return row


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"job_id": "7", "state": "RUNNING", "hosts": ["d1"], "start_time": (10**9 + 5) * 10**6}),
        ({"job_state": ["COMPLETING", "RUNNING"]}, {"state": "RUNNING"}),
        ({"job_state": ["FAILED"], "exit_code": 256, "end_time": 10**9 + 9}, {"exit_code": 1, "exit_signal": None}),
        ({"job_state": ["FAILED"], "exit_code": 9, "end_time": 10**9 + 9}, {"exit_code": 0, "exit_signal": 9}),
        ({"job_state": "PENDING", "nodes": ""}, {"hosts": [], "start_time": None}),
        ({"array_job_id": {"set": True, "number": 5}, "array_task_id": {"set": True, "number": 0}}, {"job_id": "5_0"}),
        ({"array_job_id": 5, "array_task_id": None, "array_task_string": "1-3%2"}, {"job_id": "5_[1-3%2]"}),
        ({"het_job_id": {"set": True, "number": 5}, "het_job_offset": {"set": True, "number": 1}}, {"job_id": "5+1"}),
        ({"excluded_nodes": "d[3-4]"}, {"excluded_hosts": ["d3", "d4"]}),
        ({"required_nodes": "d1", "node_count": {"set": True, "number": 1}}, {"designated_hosts": ["d1"]}),
    ],
)
def test_jobs_of_the_controller_as_json(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    row = controller_job(**fields)
    assert {name: getattr(row, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("record", "kinds"),
    [
        ({"name": "d1", "state": ["IDLE"]}, []),
        ({"name": "d1", "state": ["DOWN", "DRAIN"], "reason": "x"}, ["node_drain"]),
        ({"name": "d1", "state": ["DOWN", "NOT_RESPONDING"]}, ["node_down"]),
        ({"name": "d1", "state": "idle", "state_flags": ["DRAIN"]}, ["node_drain"]),
        ({"name": "d1", "state": ["MAINTENANCE", "IDLE"]}, ["node_state"]),
        ({"name": "d1", "state": 7, "reason": ["x"]}, []),
    ],
)
def test_hosts_of_the_controller_as_json(record: dict[str, Any], kinds: list[str]) -> None:
    rows = found(json.dumps({"nodes": [record]}), scontrol_node_json)
    assert [row.kind for row in rows if isinstance(row, SchedulerEvent)] == kinds


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "name",
                        "state",
                        "node",
                        "nodes",
                        "reason",
                        "job_id",
                        "job_state",
                        "number",
                        "set",
                        "start_time",
                        "array_task_id",
                        "exit_code",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
    )
)
def test_any_json_is_read_without_error(value: Any) -> None:
    found(json.dumps({"nodes": [value], "jobs": [value]}), scontrol_node_json)
    found(json.dumps({"nodes": [value], "jobs": [value]}), squeue_json)


def seconds_for(text: str, module: Any) -> float:
    return seconds(lambda: found(text, module))


@pytest.mark.parametrize(
    ("header", "line", "module"),
    [
        ("REASON               USER      TIMESTAMP           NODELIST\n", " " * 70 + "{}x", sinfo),
        ("NODELIST NODES STATE REASON\n", "a {} ", sinfo),
        (SQUEUE, "a {}", squeue),
        ("JobID,State,NodeList,Comment\n", "7,FAILED,d[{}", sacct),
        ("JobID|State|Comment|JobName\n", "7|FAILED|{}", sacct),
    ],
)
@pytest.mark.parametrize("fill", [" ", ",", "|", "a ", "a,", "[", "cpu=1,"])
def test_ten_times_the_text_takes_no_more_than_about_ten_times_as_long(
    header: str, line: str, module: Any, fill: str
) -> None:
    few, many = (header + (line.format(fill * count) + "\n") * 20 for count in (200, 2000))
    seconds_for(few, module)
    assert seconds_for(many, module) < 0.05 + 40 * seconds_for(few, module)
