"""Kubernetes: objects of the published types of the API, and objects of no type at all."""

from __future__ import annotations

import io
import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from aftershock.parsers.detect import detect
from aftershock.parsers.documents import kubernetes
from aftershock.parsers.documents.json_records import load_record, records_of
from aftershock.parsers.documents.kubernetes import stream as short_way
from aftershock.parsers.documents.kubernetes.objects import kind_of
from aftershock.parsers.documents.kubernetes.stream import Record, objects_of
from aftershock.parsers.formats import Found, Head, Refused
from aftershock.parsers.selfcheck import rows_of_text

client = pytest.importorskip("kubernetes.client")

API: Any = client.ApiClient()
BEGIN = datetime(2026, 5, 1, 1, 20, 30, tzinfo=timezone.utc)
LATER = BEGIN + timedelta(hours=2)
US = 1_000_000


def micros(time: datetime) -> int:
    return round(time.timestamp() * US)


def printed(thing: Any) -> str:
    """An object as the API serves it. The models themselves refuse what the schema does not allow."""
    return json.dumps(API.sanitize_for_serialization(thing)) + "\n"


SIMPLE = {"str": str, "int": int, "bool": bool, "float": float}


def problems(thing: Any, kind: str, at: str = "") -> list[str]:
    """Where a value is not what the published type says. What is required and left out is not asked for."""
    if thing is None or kind == "object":
        return []
    if kind.startswith("list["):
        return [p for value in thing for p in problems(value, kind[5:-1], f"{at}[]")]
    if kind.startswith("dict("):
        return [p for key, value in thing.items() for p in problems(value, kind[5:-1].split(", ")[1], f"{at}/{key}")]
    if kind == "datetime":
        return [] if datetime.fromisoformat(thing.replace("Z", "+00:00")).tzinfo else [at]
    if kind in SIMPLE:
        return [] if type(thing) is SIMPLE[kind] else [at]
    model = getattr(client, kind)
    types = {name: model.openapi_types[attribute] for attribute, name in model.attribute_map.items()}
    unknown = [f"{at}/{key}" for key in thing if key not in types]
    return unknown + [p for key in thing if key in types for p in problems(thing[key], types[key], f"{at}/{key}")]


def rows(text: str) -> list[Any]:
    return list(rows_of_text(text, kubernetes.FORMAT))


def test_core_events_of_the_published_type() -> None:
    thing = client.CoreV1Event(
        api_version="v1",
        kind="Event",
        metadata=client.V1ObjectMeta(name="gpu-012.17a", namespace="default", uid="e1", creation_timestamp=BEGIN),
        involved_object=client.V1ObjectReference(kind="Node", name="gpu-012", uid="gpu-012"),
        reason="NodeNotReady",
        message="Node gpu-012 status is now: NodeNotReady",
        source=client.V1EventSource(component="node-controller"),
        first_timestamp=BEGIN,
        last_timestamp=LATER,
        count=7,
        type="Normal",
    )
    (row,) = rows(printed(thing))
    assert (row.kind, row.hosts, row.count, row.time, row.last_time) == (
        "node_down",
        ["gpu-012"],
        7,
        micros(BEGIN),
        micros(LATER),
    )


def test_newer_events_of_the_published_type() -> None:
    thing = client.EventsV1Event(
        api_version="events.k8s.io/v1",
        kind="Event",
        metadata=client.V1ObjectMeta(name="w-0.17b", namespace="ml", uid="e2"),
        regarding=client.V1ObjectReference(kind="Pod", namespace="ml", name="w-0"),
        reason="FailedScheduling",
        note="0/9 nodes are available: 9 Insufficient nvidia.com/gpu.",
        reporting_controller="default-scheduler",
        reporting_instance="default-scheduler-0",
        action="Scheduling",
        event_time=BEGIN,
        series=client.EventsV1EventSeries(count=4, last_observed_time=LATER),
        type="Warning",
    )
    (row,) = rows(printed(thing))
    assert (row.kind, row.job_id, row.count) == ("pending", "w-0", 4)
    assert (row.time, row.last_time) == (micros(BEGIN), micros(LATER))
    assert row.message.startswith("0/9 nodes")


def test_pods_of_the_published_type() -> None:
    terminated = client.V1ContainerStateTerminated(
        exit_code=137, signal=9, reason="OOMKilled", started_at=BEGIN, finished_at=LATER
    )
    status = client.V1ContainerStatus(
        name="train",
        image="i",
        image_id="i",
        ready=True,
        restart_count=1,
        state=client.V1ContainerState(running=client.V1ContainerStateRunning(started_at=LATER)),
        last_state=client.V1ContainerState(terminated=terminated),
    )
    limits = client.V1ResourceRequirements(limits={"nvidia.com/gpu": "8", "memory": "1Ti"})
    labels = {"batch.kubernetes.io/job-name": "bert", "batch.kubernetes.io/job-completion-index": "0"}
    owner = client.V1OwnerReference(api_version="batch/v1", kind="Job", name="bert", uid="j1", controller=True)
    thing = client.V1Pod(
        api_version="v1",
        kind="Pod",
        metadata=client.V1ObjectMeta(name="bert-0", namespace="ml", uid="p", labels=labels, owner_references=[owner]),
        spec=client.V1PodSpec(node_name="gpu-012", containers=[client.V1Container(name="train", resources=limits)]),
        status=client.V1PodStatus(phase="Running", start_time=BEGIN, container_statuses=[status]),
    )
    first, second = rows(printed(thing))
    assert (first.state, first.exit_code, first.exit_signal, first.attempt) == ("OUT_OF_MEMORY", 137, 9, 1)
    assert (first.start_time, first.end_time) == (micros(BEGIN), micros(LATER))
    assert (second.state, second.start_time, second.end_time) == ("RUNNING", micros(LATER), None)
    assert {(row.raw_job_id, tuple(row.hosts), row.n_gpus) for row in (first, second)} == {("ml/bert", ("gpu-012",), 8)}


def test_nodes_and_jobs_of_the_published_types() -> None:
    ready = client.V1NodeCondition(
        type="Ready", status="Unknown", reason="NodeStatusUnknown", last_transition_time=BEGIN
    )
    taint = client.V1Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule", time_added=LATER)
    node = client.V1Node(
        api_version="v1",
        kind="Node",
        metadata=client.V1ObjectMeta(name="gpu-012"),
        spec=client.V1NodeSpec(unschedulable=True, taints=[taint]),
        status=client.V1NodeStatus(conditions=[ready]),
    )
    failed = client.V1JobCondition(
        type="Failed", status="True", reason="BackoffLimitExceeded", last_transition_time=LATER
    )
    job = client.V1Job(
        api_version="batch/v1",
        kind="Job",
        metadata=client.V1ObjectMeta(name="bert", namespace="ml", creation_timestamp=BEGIN),
        status=client.V1JobStatus(start_time=BEGIN, conditions=[failed], failed=7),
    )
    cordon, down, session = rows(printed(node) + printed(job))
    assert (cordon.kind, cordon.time) == ("node_cordon", micros(LATER))
    assert (down.kind, down.time, down.reason) == ("node_down", micros(BEGIN), "NodeStatusUnknown")
    assert (session.state, session.start_time, session.end_time) == ("FAILED", micros(BEGIN), micros(LATER))


TYPES = {"Event": "CoreV1Event", "Pod": "V1Pod", "Node": "V1Node"}


@pytest.mark.parametrize("number", range(len(kubernetes.FORMAT.samples)))
def test_the_samples_of_the_format_hold_nothing_that_the_published_types_do_not(number: int) -> None:
    """Types of the API itself; the kinds of other controllers and the audit log have no published models here."""
    text = kubernetes.FORMAT.samples[number].text
    for record in objects_of(io.BytesIO(text.encode())):
        assert isinstance(record, Record)
        kind, version = kind_of(record.data), record.data.get("apiVersion", "v1")
        if version.startswith("audit.") or kind not in TYPES:
            continue
        name = "EventsV1Event" if version.startswith("events.k8s.io") else TYPES[kind]
        assert problems(record.data, name) == []


def test_the_check_against_types_finds_what_is_wrong() -> None:
    wrong = {
        "kind": 7,
        "metadata": {"name": "a", "nam": "b"},
        "status": {"phase": [], "startTime": "2026-05-01T00:00:00Z"},
    }
    assert problems(wrong, "V1Pod") == ["/kind", "/metadata/nam", "/status/phase"]


# --- objects of no type -----------------------------------------------------------------------------------------------

WORDS = [
    "Event",
    "Pod",
    "Node",
    "Job",
    "JobSet",
    "RayJob",
    "Workload",
    "True",
    "Failed",
    "2026-05-01T01:00:00Z",
    "8",
    "-1",
    "é\x00",
]
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS)
    | st.text(max_size=4)
)


def mangled(thing: Any, draw: Any) -> Any:
    """The object with some of its values of another type, empty, or gone."""
    if draw(st.integers(0, 30)) == 0:
        return draw(LEAVES | st.lists(LEAVES, max_size=2) | st.dictionaries(st.sampled_from(["name", "type"]), LEAVES))
    if isinstance(thing, dict):
        return {key: mangled(value, draw) for key, value in thing.items() if draw(st.integers(0, 40))}
    return [mangled(value, draw) for value in thing] if isinstance(thing, list) else thing


SAMPLES = [
    record.data
    for sample in kubernetes.FORMAT.samples
    for record in objects_of(io.BytesIO(sample.text.encode()))
    if isinstance(record, Record)
]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_objects_of_wrong_types_never_raise(data: Any) -> None:
    things = [mangled(data.draw(st.sampled_from(SAMPLES)), data.draw) for _ in range(3)]
    text = "".join(json.dumps(thing) + "\n" for thing in things)
    for row in rows(text):
        assert getattr(row, "count", 1) >= 1
        start, end = getattr(row, "start_time", None), getattr(row, "end_time", None)
        assert all(time is None or isinstance(time, int) for time in (start, end))


OBJECTS = st.lists(
    st.recursive(
        st.dictionaries(st.sampled_from(["a", "items", "b\nc"]), LEAVES, max_size=3),
        lambda inner: st.dictionaries(st.sampled_from(["a", "items", "kind"]), inner | st.lists(inner, max_size=2), max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(
    documents=st.lists(
        st.tuples(OBJECTS, st.sampled_from(["lines", "list", "short list", "array", "objects"])), max_size=3
    ),
    chunk=st.sampled_from([1, 7, 64, 1 << 20]),
)
@example(documents=[([{"a": None}, {}, {"items": []}], "list")], chunk=64)
def test_the_short_way_finds_the_same_records(documents: list[tuple[list[Any], str]], chunk: int) -> None:
    def laid_out(things: list[Any], layout: str) -> str:
        if layout == "lines":
            return "".join(json.dumps(thing) + "\n" for thing in things)
        if layout == "objects":
            return "".join(json.dumps(thing, indent=2) for thing in things)
        whole = {"apiVersion": "v1", "items": things, "kind": "List"}
        return json.dumps(things if layout == "array" else whole, indent=4 if layout == "list" else None) + "\n"

    data = "".join(laid_out(*document) for document in documents).encode()
    whole = [(e.offset, load_record(e)) for e in records_of(io.BytesIO(data), ("items",)) if not isinstance(e, Refused)]
    before, short_way._CHUNK = short_way._CHUNK, chunk  # type: ignore[misc]
    try:
        found = [tuple(record) for record in objects_of(io.BytesIO(data)) if isinstance(record, Record)]
    finally:
        short_way._CHUNK = before  # type: ignore[misc]
    assert found == whole


@pytest.mark.parametrize("behind", ["", "\n", '\n{"b": 1}\n', "\n[]\n"])
def test_a_list_that_is_cut_in_an_item_or_behind_it_is_read_and_refused_as_the_long_way_does(behind: str) -> None:
    things = {"apiVersion": "v1", "items": [{"a": n, "items": []} for n in range(3)], "kind": "List"}
    text = json.dumps(things, indent=4)
    for cut in range(text.index("{", 1), len(text)):
        data = (text[:cut] + behind).encode()
        whole = [
            e if isinstance(e, Refused) else (e.offset, load_record(e))
            for e in records_of(io.BytesIO(data), ("items",))
        ]
        assert [e if isinstance(e, Refused) else tuple(e) for e in objects_of(io.BytesIO(data))] == whole, cut


def test_what_is_torn_off_is_refused_and_the_rest_is_read() -> None:
    line = '{"kind":"Event","involvedObject":{"kind":"Node","name":"gpu-012"},"reason":"NodeNotReady"}\n'
    deep = '{"kind":"Event","involvedObject":' + '{"a":' * 5000 + "1" + "}" * 5000 + "}\n"
    text = (line + line[:40] + "\n" + line + deep + line).encode()
    assert detect(Head("x.json", text)).format == "kubernetes"
    found = list(kubernetes.read(io.BytesIO(text)))
    assert sum(isinstance(item, Found) for item in found) == 3
    assert [item.offset for item in found if isinstance(item, Refused)] == [len(line), 2 * len(line) + 41]


@pytest.mark.parametrize("text", ["apiVersion: v1\nkind: Pod\n", "---\napiVersion: v1\nitems:\n- kind: Pod\n"])
def test_yaml_is_recognised_and_refused(text: str) -> None:
    assert detect(Head("pods.yaml", text.encode())).format == "kubernetes"
    (refused,) = kubernetes.read(io.BytesIO(text.encode()))
    assert isinstance(refused, Refused)
    assert "-o json" in refused.reason
    assert (
        detect(Head("deploy.yaml", text.replace("Pod", "ConfigMap").replace("items", "data").encode())).format is None
    )


@pytest.mark.parametrize("layout", ["lines", "list"])
def test_no_more_than_one_record_is_held(layout: str) -> None:
    """The stream is read on only when a record is asked for."""
    thing = {"kind": "Event", "involvedObject": {"kind": "Node", "name": "a"}, "reason": "r", "message": "x" * 1000}
    many = [thing] * 5000
    text = json.dumps({"apiVersion": "v1", "items": many}, indent=4) if layout == "list" else "".join(json.dumps(t) + "\n" for t in many)  # fmt: skip
    data = io.BytesIO(text.encode())
    records = objects_of(data)
    for _ in range(10):
        next(records)
    assert data.tell() < len(text) / 2
