"""Accounting: delimited tables, JSON documents, and the queue."""

from __future__ import annotations

import io
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.clock import SECOND, wall_micros
from aftershock.parsers.documents import sacct, sacct_json, squeue
from aftershock.parsers.documents.json_elements import Element, elements_of
from aftershock.parsers.formats import Found, Head, Refused
from aftershock.schemas.sessions import Session


def sessions(text: str | bytes, module: Any = sacct) -> list[Session]:
    return [item.row for item in items(text, module) if isinstance(item, Found)]  # type: ignore[misc]


def reasons(text: str | bytes, module: Any = sacct) -> list[str]:
    return [item.reason for item in items(text, module) if isinstance(item, Refused)]


def items(text: str | bytes, module: Any = sacct) -> list[Found | Refused]:
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return list(module.read(io.BytesIO(data)))


def test_columns_in_any_order_and_a_trailing_delimiter() -> None:
    (row,) = sessions(
        "State|NodeList|End|JobID|Start|Submit|Colour|\nFAILED|a[1-2]|2025-01-01T02:00:00|7|2025-01-01T01:00:00|2025-01-01T00:00:00|red|\n"
    )
    assert (row.job_id, row.raw_job_id, row.state, row.hosts, row.n_hosts) == ("7", "7", "FAILED", ["a1", "a2"], 2)
    assert row.start_time == wall_micros(2025, 1, 1, 1, 0, 0)


def test_the_reading_is_the_end_else_the_start_else_the_submit() -> None:
    head = "JobID|State|Submit|Start|End\n"
    (item,) = items(head + "7|RUNNING|2025-01-01T00:00:00|2025-01-01T01:00:00|Unknown\n")
    assert isinstance(item, Found)
    assert (item.reading.kind, item.reading.text) == ("local", "2025-01-01T01:00:00")
    (item,) = items(head + "7|FAILED|1735689600|1735693200|1735696800\n")
    assert isinstance(item, Found)
    assert (item.reading.kind, item.reading.wall) == ("epoch", 1735696800 * SECOND)
    (item,) = items(head + "7|FAILED|2025-01-01T00:00:00Z|2025-01-01T01:00:00Z|2025-01-01T02:00:00+0100\n")
    assert isinstance(item, Found)
    assert (item.reading.kind, item.reading.wall) == ("zoned", 1735693200 * SECOND)


def test_steps_are_neither_sessions_nor_rejects() -> None:
    assert (
        items("JobID|State\n7.batch|FAILED\n7.extern|COMPLETED\n7.0|FAILED\n7_1.0|FAILED\n7+1.interactive|FAILED\n")
        == []
    )


def test_offsets_are_those_of_the_records() -> None:
    text = "JobID|State\r\n7|FAILED\r\n8|FAILED\r\n"
    assert [(item.offset, item.row.state) for item in items(text) if isinstance(item, Found)] == [  # type: ignore[attr-defined]
        (text.index("7|"), "FAILED"),
        (text.index("8|"), "FAILED"),
    ]


def test_byte_order_mark_header_again_and_blank_lines() -> None:
    text = "\ufeffJobID|State\n7|FAILED\n\nJobID|State\n8|FAILED\nState|JobID\nFAILED|9\n"
    assert [row.job_id for row in sessions(text)] == ["7", "8", "9"]
    assert reasons(text) == []


def test_other_delimiter() -> None:
    (row,) = sessions("JobID|#State|#JobName\n7|#FAILED|#a|b\n")
    assert (row.job_id, row.name) == ("7", "a|b")


def test_records_over_several_lines() -> None:
    text = "JobID|SubmitLine|State\n7|sbatch --wrap a\nb\n\nc|FAILED\n8|sbatch x|COMPLETED\n"
    assert [(row.job_id, row.state) for row in sessions(text)] == [("7", "FAILED"), ("8", "COMPLETED")]
    text = "JobID|State|SubmitLine\n7|FAILED|sbatch -x a1 \\\n  go | tee\n8|COMPLETED|sbatch x\n"
    rows = sessions(text)
    assert [(row.job_id, row.excluded_hosts) for row in rows] == [("7", ["a1"]), ("8", None)]
    assert reasons(text) == []


def test_delimiters_inside_free_text() -> None:
    head = "JobID|JobName|State|SubmitLine|End\n"
    (row,) = sessions(head + "7|a|FAILED|sbatch --wrap x|y|z|2025-01-01T00:00:00\n")
    assert (row.name, row.state) == ("a", "FAILED")
    (row,) = sessions(head + "7|a|b|FAILED|sbatch|2025-01-01T00:00:00\n")
    assert (row.name, row.state) == ("a|b", "FAILED")


def test_free_text_that_could_be_cut_in_two_ways_is_left_out() -> None:
    (row,) = sessions("JobID|JobName|Comment|State\n7|a|b|c|FAILED\n")
    assert (row.job_id, row.name, row.state) == ("7", None, "FAILED")


def test_records_that_do_not_fit_are_refused() -> None:
    text = "JobID|State|End\n7|a|FAILED|x|y\nx|FAILED|\n8|COMPLETED|2025-01-01T00:00:00\n9|FAI"
    assert [row.job_id for row in sessions(text)] == ["8"]
    assert len(reasons(text)) == 3
    assert reasons("what is this\n") == ["sacct: no header that names the columns"]


def test_a_time_that_is_none_is_null_and_refused() -> None:
    text = "JobID|State|Start|End\n7|FAILED|2025-01-01T00:00:00|2025-02-30T00:00:00\n"
    (row,) = sessions(text)
    assert (row.start_time, row.end_time) == (wall_micros(2025, 1, 1, 0, 0, 0), None)
    (reason,) = reasons(text)
    assert "End" in reason
    assert "2025-02-30" in reason


def test_a_host_list_that_cannot_be_read_is_null_and_refused() -> None:
    text = "JobID|State|NodeList\n7|FAILED|a[1-99999999]\n"
    assert sessions(text)[0].hosts is None
    assert "NodeList" in reasons(text)[0]


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        # Never placed: no start, no hosts, no duration, no exit status.
        (
            "7|CANCELLED by 40|2025-01-01T01:00:00|2025-01-01T01:00:00|None assigned|00:00:00|0:0|Priority",
            {"start_time": None, "hosts": [], "duration_s": None, "exit_code": None, "cancelled_by": "40", "end_reason": "Priority"},
        ),
        ("7|PENDING|Unknown|Unknown|None assigned|00:00:00|0:0|Resources", {"start_time": None, "state": "PENDING"}),
        # What a job waited for is no reason for its end.
        ("7|FAILED|2025-01-01T01:00:00|2025-01-01T01:00:05|a1|00:00:05|1:0|Dependency", {"end_reason": None, "exit_code": 1}),
        ("7|TIMEOUT|2025-01-01T01:00:00|2025-01-01T01:00:05|a1|00:00:05|0:15|TimeLimit", {"end_reason": "TimeLimit", "exit_signal": 15}),
        ("7|OUT_OF_ME+|2025-01-01T01:00:00|2025-01-01T01:00:05|a1|1-00:00:05|0:125|", {"state": "OUT_OF_MEMORY", "exit_signal": None, "duration_s": 86405.0}),
        ("7|RUNNING|2025-01-01T01:00:00|Unknown|a1|00:00:05|0:0|None", {"end_time": None, "exit_code": None, "duration_s": 5.0}),
        ("7|REVOKED|None|2025-01-01T01:00:00||00:00:00|0:0|", {"state": "CANCELLED", "end_reason": "REVOKED"}),
        ("7|RESIZING|2025-01-01T01:00:00|2025-01-01T01:00:05|a1|00:00:05|0:0|", {"state": "UNKNOWN", "end_reason": "RESIZING"}),
    ],
)  # fmt: skip
def test_what_a_record_means(record: str, fields: dict[str, Any]) -> None:
    (row,) = sessions(f"JobID|State|Start|End|NodeList|Elapsed|ExitCode|Reason\n{record}\n")
    assert {name: getattr(row, name) for name in fields} == fields


def test_detection() -> None:
    assert sacct.detects(Head("x", b"sacct: warning\nJobID|State\n7|FAILED\n")) > 0.5
    assert sacct.detects(Head("x", b"a|b\n1|2\n")) == 0.0
    queue = Head("x", b"JOBID|STATE|SUBMIT_TIME\n7|PENDING|2025-01-01T00:00:00\n")
    assert squeue.detects(queue) > sacct.detects(queue)


CELLS = st.sampled_from(
    ["7", "7.batch", "FAILED", "|", "\n", "2025-01-01T00:00:00", "x", "a[1-2]", "\r", "\ufeff", "é", "JobID|State\n"]
)


@given(st.lists(CELLS, max_size=30).map("".join) | st.text(max_size=60))
def test_any_table_is_read_without_error(body: str) -> None:
    for head in ("JobID|State|Start|NodeList|JobName\n", "JobID|State|SubmitLine|\n", ""):
        items(head + body)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_error(body: bytes) -> None:
    items(b"JobID|State|JobName\n" + body)
    items(body, sacct_json)
    items(b'{"jobs": [' + body, sacct_json)


# JSON


def job(**fields: Any) -> dict[str, Any]:
    return {
        "job_id": 7,
        "state": {"current": ["FAILED"]},
        "nodes": "a1",
        "time": {"start": 1735689600, "end": 1735689660},
        **fields,
    }


def document(*jobs: Any, **top: Any) -> bytes:
    return orjson.dumps({"meta": {"x": [{"jobs": [1]}]}, "jobs": list(jobs), **top})


NUMBER = {"set": True, "infinite": False, "number": 4}
UNSET = {"set": False, "infinite": False, "number": 0}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"job_id": "7", "raw_job_id": "7", "state": "FAILED", "hosts": ["a1"]}),
        ({"array": {"job_id": 5, "task_id": NUMBER}}, {"job_id": "5_4", "raw_job_id": "7"}),
        ({"array": {"job_id": 5, "task_id": 0}}, {"job_id": "5_0"}),
        ({"array": {"job_id": 5, "task_id": UNSET, "task": "0-3%2"}}, {"job_id": "5_[0-3%2]"}),
        ({"het": {"job_id": 6, "job_offset": {"set": True, "number": 1}}}, {"job_id": "6+1"}),
        ({"het": {"job_id": 0, "job_offset": UNSET}}, {"job_id": "7"}),
        ({"state": {"current": "NODE_FAIL", "reason": "NodeDown"}}, {"state": "NODE_FAIL", "end_reason": "NodeDown"}),
        ({"state": {"current": ["RUNNING", "COMPLETING"]}}, {"state": "RUNNING", "end_time": None}),
        ({"exit_code": {"status": "SUCCESS", "return_code": 0}}, {"exit_code": None}),
        ({"exit_code": {"status": ["ERROR"], "return_code": NUMBER}}, {"exit_code": 4, "exit_signal": None}),
        (
            {"exit_code": {"status": ["SIGNALED"], "return_code": UNSET, "signal": {"id": {"set": True, "number": 9}}}},
            {"exit_code": None, "exit_signal": 9},
        ),
        ({"exit_code": {"status": "SIGNALED", "return_code": None, "signal": {"signal_id": 15}}}, {"exit_signal": 15}),
        ({"state": {"current": ["COMPLETED"]}, "exit_code": {"return_code": UNSET | {"set": True}}}, {"exit_code": 0}),
        ({"tres": {"allocated": [{"type": "gres", "name": "gpu:h100", "count": 8}]}}, {"n_gpus": 8}),
        ({"tres": {"allocated": [{"type": "gres", "name": "gpumem", "count": 8}]}}, {"n_gpus": None}),
        (
            {"submit_line": "sbatch -x a[3-4] b.sh", "working_directory": "/w"},
            {"excluded_hosts": ["a3", "a4"], "work_dir": "/w"},
        ),
        ({"association": {"cluster": "beta", "user": "mira"}}, {"cluster": "beta", "user": "mira"}),
        ({"nodes": "None assigned", "time": {"start": 0, "end": 1735689660}}, {"hosts": [], "start_time": None}),
        ({"nodes": 5, "time": [], "tres": None, "state": 3, "array": "x"}, {"job_id": "7", "state": None}),
    ],
)
def test_json_records(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    (row,) = sessions(document(job(**fields)), sacct_json)
    assert {name: getattr(row, name) for name in expected} == expected


def test_json_times_are_epochs() -> None:
    (item,) = items(document(job()), sacct_json)
    assert isinstance(item, Found)
    assert (item.reading.kind, item.reading.wall) == ("epoch", 1735689660 * SECOND)


def test_json_that_breaks_off_gives_the_rows_before() -> None:
    data = document(job(), job(job_id=8), job(job_id=9))
    cut = data[: data.index(b'"job_id":9') + 10]
    assert [row.job_id for row in sessions(cut, sacct_json)] == ["7", "8"]
    assert reasons(cut, sacct_json) == ["sacct_json: document ends within a record"]


def test_json_that_is_deep_or_broken_is_refused_and_the_rest_is_read() -> None:
    deep = b'{"jobs":[{"a":' + b"[" * 100_000 + b"]" * 100_000 + b'},{"job_id":8},{"job_id":},{"job_id":9}]}'
    assert [row.job_id for row in sessions(deep, sacct_json)] == ["8", "9"]
    assert len(reasons(deep, sacct_json)) == 2


def test_json_documents_in_a_row_and_text_in_other_encodings() -> None:
    data = document(job()) + b"\n" + document(job(job_id=8, name="x")).replace(b'"x"', b'"\xff"')
    assert [(row.job_id, row.name) for row in sessions(data, sacct_json)] == [("7", None), ("8", "\ufffd")]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["jobs", "a", 'q"', "\\"]), inner, max_size=3)
    ),
    max_leaves=10,
)


class Trickle(io.BytesIO):
    """A stream that gives a few bytes at a time, whatever is asked for."""

    step = 1

    def read(self, size: int | None = -1) -> bytes:
        return super().read(self.step)


@given(st.lists(st.dictionaries(st.text(max_size=4), VALUES, max_size=4), max_size=4), VALUES, st.integers(1, 7))
def test_elements_are_found_however_the_document_is_cut(jobs: list[Any], other: Any, step: int) -> None:
    data = json.dumps({"other": other, "jobs": jobs, "more": [{}]}).encode()
    stream = Trickle(data)
    stream.step = step
    found = list(elements_of(stream, "jobs"))
    assert all(isinstance(element, Element) for element in found)
    assert [json.loads(element.data) for element in found if isinstance(element, Element)] == jobs
    assert all(data[e.offset : e.offset + len(e.data)] == e.data for e in found if isinstance(e, Element))


# The queue


def test_queue() -> None:
    rows = sessions(
        "JOBID|#NAME|#STATE|#TIME|#NODELIST|#START_TIME|#SUBMIT_TIME|#REASON|#EXC_NODES\n"
        "7|#run|#PENDING|#0:00|#|#N/A|#2025-01-01T00:00:00|#DependencyNeverSatisfied|#a[1-2]\n"
        "8|#run|#RUNNING|#1:00|#a3|#2025-01-01T00:00:10|#2025-01-01T00:00:00|#None|#\n",
        squeue,
    )
    assert [(row.job_id, row.state, row.hosts, row.excluded_hosts) for row in rows] == [
        ("7", "PENDING", [], ["a1", "a2"]),
        ("8", "RUNNING", ["a3"], []),
    ]
    assert rows[0].end_reason == "DependencyNeverSatisfied"


def test_a_lost_time_is_a_reject_beside_its_row() -> None:
    table = (
        b"JobID|JobIDRaw|State|Submit|Start|End|NodeList\n"
        b"71|71|COMPLETED|2026-03-01T10:00:00|####|2026-03-01T12:00:00|gpu008\n"
    )
    items = list(sacct.FORMAT.read(io.BytesIO(table)))
    assert [item.row.hosts for item in items if isinstance(item, Found)] == [["gpu008"]]
    assert ["did not fit" in item.reason for item in items if isinstance(item, Refused)] == [True]


def test_a_word_where_json_has_a_time_is_a_reject_beside_its_row() -> None:
    document = (
        b'{"jobs": [{"job_id": 5, "state": {"current": "FAILED"}, "time": {"start": "soon"}, "nodes": "gpu001"}]}'
    )
    items = list(sacct_json.FORMAT.read(io.BytesIO(document)))
    assert [type(item) for item in items].count(Found) == 1
    assert ["Start is not read" in item.reason for item in items if isinstance(item, Refused)] == [True]
