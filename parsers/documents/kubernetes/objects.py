"""Objects of the Kubernetes API: taken out of what exporters wrap around them, and what all of them have.

An object stands alone, in the items of a list, or in the record of an exporter:

    {"type": "MODIFIED", "object": {...}}                kubectl get --watch -o json --output-watch-events
    {"verb": "ADDED", "event": {...}, "old_event": ...}  eventrouter
    {"_index": "...", "_source": {...}}                  Elasticsearch
    {"jsonPayload": {...}, "insertId": "..."}            Cloud Logging
    {"specversion": "1.0", "data": {...}}                CloudEvents

Nothing of an object can be relied on: it comes from files that anybody may have cut, merged or written. What is not of
the type that the API gives it is as if it were not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from aftershock.parsers.clock import Reading
from aftershock.parsers.documents.iso_clock import stated_time
from aftershock.parsers.documents.json_records import member, text_member

JsonObject = dict[str, Any]

_WRAPPERS: Final = ("object", "event", "_source", "jsonPayload", "data", "eventId", "body")
_MOST_WRAPPERS: Final = 4
_INT32: Final = 1 << 31

# What tells an object whose kind is not named, as in the lists that the API itself serves.
_SHAPES: Final = (
    ("Event", ("involvedObject",)),
    ("Event", ("regarding",)),
    ("Pod", ("spec", "containers")),
    ("Node", ("status", "nodeInfo")),
    ("JobSet", ("spec", "replicatedJobs")),
    ("PyTorchJob", ("spec", "pytorchReplicaSpecs")),
    ("MPIJob", ("spec", "mpiReplicaSpecs")),
    ("TFJob", ("spec", "tfReplicaSpecs")),
    ("TrainJob", ("spec", "runtimeRef")),
    ("RayJob", ("spec", "rayClusterSpec")),
    ("Workload", ("spec", "podSets")),
    ("LeaderWorkerSet", ("spec", "leaderWorkerTemplate")),
    ("AppWrapper", ("status", "resettingCount")),
    ("Job", ("spec", "tasks")),
    ("Job", ("spec", "backoffLimit")),
)


def object_in(record: JsonObject) -> JsonObject | None:
    """The object of a record, out of at most four wrappings; None if there is none."""
    for _ in range(_MOST_WRAPPERS + 1):
        if "metadata" in record or "status" in record or _shape_of(record) is not None:
            break
        inner = next((record[key] for key in _WRAPPERS if isinstance(record.get(key), dict)), None)
        if inner is None:
            break
        record = inner
    return record if kind_of(record) is not None else None


def kind_of(thing: JsonObject) -> str | None:
    """The kind that is named, or that the shape gives away."""
    about = "involvedObject" in thing or "regarding" in thing
    kind = text_member(thing, "kind")
    if kind is not None and not (about and kind != "Event"):
        return kind
    return _shape_of(thing)


def _shape_of(thing: JsonObject) -> str | None:
    return next((name for name, path in _SHAPES if member(thing, *path) is not None), None)


class Owner(NamedTuple):
    """An object that made another one."""

    kind: str
    name: str
    uid: str | None


@dataclass(frozen=True, slots=True)
class Meta:
    """The metadata of an object. Labels and annotations may hold anything, and are only looked up by key."""

    name: str
    namespace: str | None
    uid: str | None
    labels: JsonObject
    annotations: JsonObject
    owner: Owner | None
    created: Reading

    @property
    def full_name(self) -> str:
        """``namespace/name``: what tells jobs of two namespaces apart."""
        return full_name(self.namespace, self.name)

    def said(self, *keys: str) -> str | None:
        """The first of these labels or annotations that is set. Exporters write dots in keys as underscores."""
        if not self.labels and not self.annotations:
            return None
        for key in keys:
            for words in (self.labels, self.annotations):
                value = words.get(key, words.get(key.replace(".", "_")))
                if isinstance(value, str) and value:
                    return value
        return None


def meta_of(thing: JsonObject) -> Meta | None:
    """The metadata of an object; None if it has no name."""
    name = text_member(thing, "metadata", "name")
    return meta_from(member(thing, "metadata"), name) if name else None


def meta_from(data: Any, name: str) -> Meta:
    """Metadata out of a member that has what metadata has: references of some exporters do."""
    labels, annotations = member(data, "labels"), member(data, "annotations")
    return Meta(
        name=name,
        namespace=text_member(data, "namespace"),
        uid=text_member(data, "uid"),
        labels=labels if isinstance(labels, dict) else {},
        annotations=annotations if isinstance(annotations, dict) else {},
        owner=_owner(member(data, "ownerReferences")),
        created=stated_time(member(data, "creationTimestamp")),
    )


def full_name(namespace: str | None, name: str) -> str:
    """``namespace/name``, or the name alone where the namespace is not stated."""
    return f"{namespace}/{name}" if namespace else name


def _owner(references: Any) -> Owner | None:
    """The owner that controls an object, else the first."""
    told = [entry for entry in listed(references) if text_member(entry, "kind") and text_member(entry, "name")]
    told.sort(key=lambda entry: not flag(entry.get("controller")))
    return next((Owner(entry["kind"], entry["name"], text_member(entry, "uid")) for entry in told), None)


def listed(value: Any) -> list[JsonObject]:
    """The objects in a list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def whole(value: Any) -> int | None:
    """A count or code: a whole number of 32 bits that is not negative, also as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _INT32 else None


def flag(value: Any) -> bool:
    """Whether something is set: true, or the word that conditions use for it."""
    return value is True or (isinstance(value, str) and value.lower() == "true")


class Condition(NamedTuple):
    """A condition of an object that holds or does not hold, since when and why."""

    type: str
    status: str
    reason: str | None
    message: str | None
    since: Reading

    @property
    def holds(self) -> bool:
        """Whether it is true."""
        return self.status == "true"

    @property
    def words(self) -> str | None:
        """Reason and message in one."""
        return ": ".join(word for word in (self.reason, self.message) if word) or None


def conditions_of(thing: JsonObject) -> Iterator[Condition]:
    """The conditions of an object's status that name their type."""
    for entry in listed(member(thing, "status", "conditions")):
        kind = text_member(entry, "type")
        if kind:
            since = stated_time(entry.get("lastTransitionTime"))
            status = entry.get("status")
            yield Condition(
                kind,
                str(status).lower() if isinstance(status, (str, bool)) else "",
                text_member(entry, "reason"),
                text_member(entry, "message"),
                since,
            )
