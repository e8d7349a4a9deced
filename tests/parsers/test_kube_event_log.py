"""Events in the logs of Kubernetes' components."""

from __future__ import annotations

import pytest

from aftershock.parsers.kube_event_log import FORMAT
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.schemas.events import EventRow, GpuError, SchedulerEvent

HEAD = "I0203 08:11:12.123456       1 event.go:307] "


def rows(said: str, head: str = HEAD) -> list[EventRow]:
    return [row for row in rows_of_text(head + said + "\n", FORMAT) if isinstance(row, EventRow)]


def told(message: str, kind: str = "Node", reason: str = "NodeNotReady") -> str:
    return (
        f'"Event occurred" object="dgx07" fieldPath="" kind="{kind}" apiVersion="v1" type="Normal" '
        f'reason="{reason}" message="{message}"'
    )


def test_quotes_within_a_message() -> None:
    (row,) = rows(told(r"a \"b\" \\ c"))
    assert row.message == 'a "b" \\ c'


def test_an_error_that_node_problem_detector_passes_on() -> None:
    found = rows(
        told("NVRM: Xid (PCI:0000:3b:00): 79, pid=42, name=python3, GPU has fallen off the bus.", reason="Xid")
    )
    assert [row.code for row in found if isinstance(row, GpuError)] == [79]


@pytest.mark.parametrize(
    "said",
    [
        told("gone").replace('"Event', 'x "Event'),
        told("gone", kind="Service"),
        'Starting to record "Event occurred" object="dgx07"',
    ],
)
def test_what_is_no_event_of_a_host_or_a_job(said: str) -> None:
    assert rows(said) == []


def test_pods_are_those_of_their_namespace() -> None:
    (row,) = rows(told("evicted", "Pod", "Evicted").replace('object="', 'object="ml/'))
    assert isinstance(row, SchedulerEvent)
    assert (row.kind, row.job_id, row.state) == ("evicted", "dgx07", "PREEMPTED")
