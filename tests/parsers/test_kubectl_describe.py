"""Objects as kubectl describes them."""

from __future__ import annotations

import io
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.documents import kubectl_describe
from aftershock.parsers.documents.kubectl_describe import FORMAT
from aftershock.parsers.formats import Found, Refused
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session

POD = FORMAT.samples[0].text
NODE = FORMAT.samples[1].text
EVICTED = """\
Name:           bert-1
Namespace:      ml
Node:           dgx09/
Start Time:     Mon, 03 Feb 2025 08:00:01 +0100
Labels:         job-name=bert
Status:         Failed
Reason:         Evicted
Message:        The node was low on resource: ephemeral-storage.
Controlled By:  Job/bert
Containers:
  train:
    Image:      bert:1
    Limits:
      nvidia.com/gpu:  8
Events:         <none>
"""


def test_a_pod_that_was_taken_away() -> None:
    (row,) = rows_of_text(EVICTED, FORMAT)
    assert isinstance(row, Session)
    assert (row.job_id, row.state, row.hosts, row.n_gpus) == ("bert", "PREEMPTED", ["dgx09"], 8)
    assert row.end_reason == "Evicted: The node was low on resource: ephemeral-storage."
    assert row.start_time == 1_738_566_001_000_000  # an hour before UTC


def test_several_objects_in_one_file_and_lost_times_told_once() -> None:
    found = list(kubectl_describe.read(io.BytesIO((POD + "\n\n" + NODE + "\n" + POD).encode())))
    assert sum(isinstance(item, Refused) for item in found) == 1
    rows = [item.row for item in found if isinstance(item, Found)]
    assert sum(isinstance(row, Session) for row in rows) == 4
    assert sum(isinstance(row, SchedulerEvent) and row.kind == "node_down" for row in rows) == 1


def test_events_about_objects_that_are_not_read() -> None:
    text = (
        "Name:             bert\nNamespace:        ml\nSelector:         batch.kubernetes.io/controller-uid=1\n"
        "Pods Statuses:    0 Active / 0 Succeeded / 3 Failed\nEvents:\n"
        "  Type     Reason                Age   From            Message\n"
        "  ----     ------                ----  ----            -------\n"
        "  Warning  BackoffLimitExceeded  2m    job-controller  Job has reached the specified backoff limit\n"
    )
    (row,) = rows_of_text(text, FORMAT)
    assert isinstance(row, SchedulerEvent)
    assert (row.kind, row.state, row.job_id, row.time) == ("ended", "FAILED", "bert", None)


def test_what_a_container_is_told_is_not_read() -> None:
    text = POD.replace(
        "      NAME:  Name", "      State:       Terminated\n      Exit Code:   9\n      Reason:      Error"
    )
    told, plain = rows_of_text(text, FORMAT), rows_of_text(POD, FORMAT)
    assert [row for row in told if isinstance(row, Session)] == [row for row in plain if isinstance(row, Session)]


def test_pods_that_serve_are_no_sessions() -> None:
    served = POD.replace("Job/bert", "ReplicaSet/web-5f").replace("batch.kubernetes.io/job-name=bert", "app=web")
    served = served.replace("                  job-name=bert\n", "")
    assert not [row for row in rows_of_text(served, FORMAT) if isinstance(row, Session)]


LINES = sorted({*POD.splitlines(), *NODE.splitlines(), *EVICTED.splitlines()})


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(LINES) | st.text(max_size=60), max_size=40))
def test_any_lines_are_read_in_order(lines: list[str]) -> None:
    text = "\n".join([LINES[0], "Name:   a-b", *lines]).encode("utf-8", "surrogatepass")
    offsets = [item.offset for item in kubectl_describe.read(io.BytesIO(text))]
    assert all(0 <= offset <= len(text) for offset in offsets)
    assert all(a <= b for a, b in pairwise(offsets))
