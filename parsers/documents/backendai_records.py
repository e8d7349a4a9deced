"""Records of Backend.AI's exports, whatever the document: what each is about, and its members under one spelling.

JSON comes from the command line (``backend.ai admin session list --output=json``: ``{"count", "total_count",
"items": []}``), from REST (``{"items", "total_count"}``, the members in groups such as ``lifecycle``), from GraphQL
(``{"data": {"compute_session_list": {"items": []}}}``, ``{"edges": [{"node": {}}]}``, names like ``agentIds``), and
from dumps of the tables ``sessions``, ``kernels``, ``agents``, ``session_scheduling_history`` and ``audit_logs``. CSV
comes from the export of release 26.1 and later (``Kernel Agent``) and from dumps. Names become those of the database.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, BinaryIO, Final, Literal, NamedTuple

from aftershock.parsers.backendai_words import UUID
from aftershock.parsers.documents.backendai_csv import CsvRecord, csv_records, header_of
from aftershock.parsers.documents.backendai_values import text_of
from aftershock.parsers.documents.json_records import json_start, load_record, records_of
from aftershock.parsers.documents.stream_head import with_head
from aftershock.parsers.formats import Head, Refused

Kind = Literal["session", "kernel", "agent", "history", "audit"]


class Record(NamedTuple):
    """A record: what it is about, its members by name, where it stands, and its first bytes."""

    kind: Kind
    members: Mapping[str, Any]
    offset: int
    raw: bytes


# Members that hold others of the same record, in answers of REST and of the newer GraphQL.
_GROUPS: Final = (
    *("metadata", "resource", "lifecycle", "runtime", "network", "session_info", "user_info", "cluster"),
    *("status_info", "resource_info", "system_info", "network_info", "allocation"),
)
# Names that only sessions of Backend.AI have, and others that go with them.
_STRONG_NAMES: Final = (
    "agent_ids designated_agent_ids status_history occupying_slots scaling_group scaling_group_name "
    "resource_group_name kernel_agent kernel_id main_kernel_id session_type cluster_mode parent_session_id "
    "resource_used resources_used target_sgroup_names"
)
_WEAK_NAMES: Final = (
    "status_info status_data cluster_size requested_slots occupied_slots starts_at terminated_at startup_command "
    "retry_count max_retries retry_policy resource_requested resources_requested resource_group access_key "
    "vfolder_mounts service_ports batch_timeout user_email kernel_role "
    "kernel_status domain_name group_name project_name result agents"
)
_KERNEL_NAMES: Final = "cluster_role cluster_idx cluster_hostname kernel_id kernel_host repl_in_port"
_AGENT_NAMES: Final = "schedulable first_contact lost_at compute_plugins available_slots region"
_STRONG: Final = frozenset(_STRONG_NAMES.split())
_WEAK: Final = frozenset(_WEAK_NAMES.split())
_OF_KERNELS: Final = frozenset(_KERNEL_NAMES.split())
_OF_AGENTS: Final = frozenset(_AGENT_NAMES.split())
_SESSION_ONLY: Final = frozenset({"agent_ids", "designated_agent_ids", "containers", "kernel_agent"})
_IDS: Final = frozenset({"id", "session_id", "row_id"})

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOT_WORD: Final = re.compile(r"[^a-z0-9]+")
_KEY: Final = re.compile(rb'"([A-Za-z][A-Za-z0-9_]{1,40})"\s{0,8}:')
_UUID: Final = re.compile(UUID)
_GLOBAL_ID: Final = re.compile(rf"[A-Za-z]\w{{0,60}}:({UUID})\Z")
_CREDENTIAL: Final = re.compile(r"access_?key|secret|environ|token|password", re.IGNORECASE)
_DEEPEST: Final = 8


@lru_cache(maxsize=4096)
def name_of(printed: str) -> str:
    """``agent_ids`` for ``agentIds``, ``Agent IDs`` and ``AGENT_IDS``."""
    return _NOT_WORD.sub("_", _CAMEL.sub("_", printed.strip()).lower()).strip("_")


def kind_of(names: frozenset[str]) -> Kind | None:
    """What a record with members of these names is about; None if it is nothing of Backend.AI's."""
    if {"phase", "result"} <= names and names & {"from_status", "to_status"} and names & {"session_id", "kernel_id"}:
        return "history"
    if {"entity_type", "entity_id", "operation"} <= names and names & {"triggered_by", "action_id", "request_id"}:
        return "audit"
    if len(names & _OF_AGENTS) > 1 and "status" in names and "session_id" not in names and names & {"id", "row_id"}:
        return "agent"
    if "session_id" in names and not names & _SESSION_ONLY and _is_kernel(names):
        return "kernel"
    if not names & _IDS or not names & {"status", "status_history", "result"}:
        return None
    strong = names & _STRONG
    return "session" if strong and len(strong) + len(names & _WEAK) > 1 else None


def _is_kernel(names: frozenset[str]) -> bool:
    own = bool(names & _OF_KERNELS) or {"container_id", "agent"} <= names
    return own and bool(names & {"status", "status_history", "status_info", "agent"})


def uuid_of(value: Any) -> str | None:
    """An id: a UUID in lower case, also one within a global id of GraphQL; another word as it is."""
    said = text_of(value)
    if said is None or len(said) > 200 or any(c.isspace() for c in said):
        return None
    if _UUID.fullmatch(said):
        return said.lower()
    try:
        inner = base64.b64decode(said, validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return said
    found = _GLOBAL_ID.match(inner)
    return found[1].lower() if found else said


def detects(head: Head) -> float:
    """Sure of JSON whose first record, or of CSV whose header, has the names of an export of Backend.AI."""
    start = json_start(head.data)
    if start:
        names = frozenset(name_of(key.decode("ascii")) for key in _KEY.findall(start))
        return 0.9 if kind_of(names) or kind_of(names | {"row_id"}) == "session" else 0.0
    return 0.9 if any(header_of(line, _knows) for line in head.lines(3)) else 0.0


def records(stream: BinaryIO) -> Iterator[Record | Refused]:
    """The records of a document, in order; what is about something else is left out."""
    head, whole = with_head(stream)
    if json_start(head):
        yield from _json_records(whole)
    else:
        yield from _csv_records(whole)


def _json_records(stream: BinaryIO) -> Iterator[Record | Refused]:
    for element in records_of(stream, ("items", "edges")):
        if isinstance(element, Refused):
            yield element
            continue
        loaded = load_record(element)
        if loaded is None:
            yield Refused(element.offset, len(element.data), "record is not JSON", element.data[:512])
            continue
        for kind, members in _within(loaded, _DEEPEST):
            yield Record(kind, members, element.offset, element.data[:512])


def _within(value: Mapping[str, Any], depth: int) -> Iterator[tuple[Kind, dict[str, Any]]]:
    """The record that an object is, or those within it; kernels within an agent are records too."""
    members = flattened(value)
    kind = kind_of(frozenset(members))
    if kind is not None:
        yield kind, members
    if depth == 0 or (kind is not None and kind != "agent"):
        return
    for inner in value.values():
        for item in inner if isinstance(inner, list) else [inner]:
            if isinstance(item, dict):
                yield from _within(item, depth - 1)


def flattened(value: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a record by name, those within its groups too; an outer one goes first."""
    members: dict[str, Any] = {}
    groups: list[Mapping[str, Any]] = []
    for key, item in value.items():
        name = name_of(key)
        if name in _GROUPS and isinstance(item, dict):
            groups.append(item)
        else:
            members.setdefault(name, item)
    for group in groups:
        for name, item in flattened(group).items():
            members.setdefault(name, item)
    return members


def _knows(names: Sequence[str]) -> bool:
    return kind_of(frozenset(map(name_of, names))) is not None


def _csv_records(stream: BinaryIO) -> Iterator[Record | Refused]:
    for record in csv_records(stream, _knows, _stands_alone):
        if isinstance(record, Refused):
            # Columns tell which cells are credentials, and cells without columns do not.
            yield record._replace(excerpt=b"")
            continue
        members = flattened(record.cells)
        kind = kind_of(frozenset(members))
        if kind is not None:
            yield Record(kind, members, record.offset, _shown(record))


def _stands_alone(cells: dict[str, str]) -> bool:
    ids = [cell for name, cell in cells.items() if name_of(name) in _IDS]
    return any(_UUID.fullmatch(cell.strip()) for cell in ids)


def _shown(record: CsvRecord) -> bytes:
    """The first bytes of a record, unless one of its cells is a credential."""
    return b"" if any(_CREDENTIAL.search(name) for name in record.cells) else record.raw[:512]
