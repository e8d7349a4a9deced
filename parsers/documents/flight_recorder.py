"""Dumps of PyTorch's flight recorder, one file for each rank: the collectives of its groups, done and not done.

    {"version": "2.9", "pg_config": {"74": {"name": "74", "desc": "EXPERT_MODEL_PARALLEL_GROUP", "ranks": "[12, 13]"}},
     "pg_status": {"11": {"last_enqueued_collective": 20538, "last_started_collective": 20537, ...}},
     "entries": [{"pg_id": 11, "process_group": ["74", "EXPERT_MODEL_PARALLEL_GROUP"], "collective_seq_id": 20537,
                  "profiling_name": "nccl:all_to_all", "state": "started", "time_created_ns": 1772360430500000000}]}

torch/csrc/distributed/c10d/FlightRecorderDetail.hpp: a pickle as PyTorch writes it (``nccl_trace_rank_12``), or JSON as
its server and NVRx write it (``_dump_12.json``). The rank is in the name of the file only. Each group becomes an event
that says where the rank stood; who of all ranks held the others up is asked of the files of all of them together. The
time is that at which the oldest unfinished work was enqueued.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import orjson

from aftershock.parsers.clock import NO_CLOCK, Reading
from aftershock.parsers.documents.flight_state import GroupState
from aftershock.parsers.documents.json_records import json_start
from aftershock.parsers.documents.plain_pickle import MOST_BYTES, NotPlain, plain_value
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.schemas.events import TrainingEvent

_PICKLE: Final = b"\x80"
_RANK: Final = re.compile(r"(?:rank|dump|trace)[_-]?(?P<rank>\d{1,6})(?:\.[A-Za-z]\w*)*\Z")
# Values that a JSON document may have, by the marks between them: each takes memory of its own.
_MOST_VALUES: Final = 4_000_000
# Of a larger group the ranks are not told: every rank of it would tell them all.
MOST_RANKS: Final = 1024
_MOST_GROUPS: Final = 10_000
_LATEST_NS: Final = 7_258_118_400 * 10**9
_EXCERPT: Final = 256
_PIECE: Final = 1 << 20


def detects(head: Head) -> float:
    """Sure of the keys of a dump, in a pickle or in JSON."""
    data = head.data
    if not data.startswith(_PICKLE) and not json_start(data):
        return 0.0
    entries = b"entries" in data and (b"collective_seq_id" in data or b"profiling_name" in data)
    return 0.95 if entries or (b"pg_config" in data and b"pg_status" in data) else 0.0


def rank_of(source: str) -> int | None:
    """The rank that the name of a file tells."""
    found = _RANK.search(source.rpartition("/")[2])
    return int(found["rank"]) if found else None


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """Where a rank that nobody knows stood in its groups."""
    yield from read_named(stream, "")


def read_named(stream: BinaryIO, source: str) -> Iterator[Found | Refused]:
    """Where the rank of the file stood in its groups."""
    data = _all_of(stream)
    try:
        dump = _dump(data)
    except ValueError as error:
        yield Refused(0, len(data), f"flight_recorder: {error}", data[:_EXCERPT])
        return
    entries = dump.get("entries", [])
    groups = _groups(entries) if isinstance(entries, (list, tuple)) else None
    if groups is None or len(groups) > _MOST_GROUPS:
        yield Refused(0, len(data), "flight_recorder: entries that are none, or of too many groups", data[:_EXCERPT])
        return
    strange = sum(1 for entry in entries if not _is_entry(entry))
    if strange:
        yield Refused(0, len(data), f"flight_recorder: {strange} entries without group and state", data[:_EXCERPT])
    rank = rank_of(source)
    for group in groups.values():
        yield group.found(dump, rank)


def _all_of(stream: BinaryIO) -> bytes:
    """The whole stream; one byte more than is read of a dump tells that it is too large."""
    data = bytearray()
    while len(data) <= MOST_BYTES and (piece := stream.read(min(_PIECE, MOST_BYTES + 1 - len(data)))):
        data += piece
    return bytes(data)


def _dump(data: bytes) -> dict[Any, Any]:
    """The dump as plain values.

    Raises:
        ValueError: it is none.
    """
    if len(data) > MOST_BYTES:
        raise NotPlain(f"a dump of more than {MOST_BYTES} bytes")
    if data.startswith(_PICKLE):
        value = plain_value(data)
    elif sum(data.count(mark) for mark in (b",", b"[", b"{")) > _MOST_VALUES:
        raise NotPlain(f"a dump of more than {_MOST_VALUES} values")
    else:
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise NotPlain(f"not JSON: {str(error)[:200]}") from error
    if not isinstance(value, dict) or value.keys().isdisjoint({"entries", "pg_status", "pg_config"}):
        raise NotPlain("no dump: it has neither entries nor groups")
    return value


@dataclass
class _Group:
    """What the entries of one group say."""

    name: str
    desc: str
    number: str  # by which this rank alone knows the group
    enqueued: int | None = None
    started: int | None = None
    completed: int | None = None
    pending: int = 0
    since: int | None = None
    operation: str = ""
    created: int | None = None
    point_to_point: bool = False

    def add(self, entry: Mapping[Any, Any]) -> None:
        """Take in an entry; they stand in the order in which they were recorded."""
        by_pair = entry.get("is_p2p") is True
        seq = _whole(entry.get("p2p_seq_id" if by_pair else "collective_seq_id", entry.get("seq_id")))
        state = entry.get("state")
        self.point_to_point = self.point_to_point or by_pair
        if not by_pair and seq is not None:
            self.enqueued = max(seq, self.enqueued or 0)
            if state != "scheduled":
                self.started = max(seq, self.started or 0)
            if state == "completed":
                self.completed = max(seq, self.completed or 0)
        created = _whole(entry.get("time_created_ns"))
        if state == "completed":
            if not self.pending:
                self.created = created
            return
        if not self.pending:
            operation = entry.get("profiling_name")
            self.since, self.operation = seq, operation if isinstance(operation, str) else ""
            self.created = created
        self.pending += 1

    def found(self, dump: Mapping[Any, Any], rank: int | None) -> Found:
        """The event of this group."""
        status = _member(dump.get("pg_status"), self.number)
        told = [_whole(_member(status, f"last_{what}_collective")) for what in ("enqueued", "started", "completed")]
        own = (self.enqueued, self.started, self.completed)
        enqueued, started, completed = (a if a is not None else b for a, b in zip(told, own, strict=True))
        state = GroupState(
            self.name,
            self.desc,
            enqueued,
            started,
            completed,
            self.pending,
            self.since,
            self.operation,
            self.point_to_point,
        )
        event = TrainingEvent(
            kind="flight_record",
            rank=rank,
            ranks=_ranks(_member(_member(dump.get("pg_config"), self.name), "ranks")),
            message=state.text(),
        )
        return Found(event, _clock(self.created), 0)


def _groups(entries: list[Any] | tuple[Any, ...]) -> dict[tuple[str, str], _Group]:
    groups: dict[tuple[str, str], _Group] = {}
    for entry in entries:
        if not _is_entry(entry):
            continue
        number = str(entry.get("pg_id", ""))[:32]
        named = entry.get("process_group")
        pair = isinstance(named, (list, tuple)) and len(named) == 2 and all(isinstance(part, str) for part in named)
        name, desc = named if pair else (number, "")
        group = groups.setdefault((name, desc), _Group(name, desc, number))
        group.add(entry)
    return groups


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("state"), str) and "pg_id" in entry


def _member(holder: Any, key: str) -> Any:
    return holder.get(key) if isinstance(holder, dict) else None


def _whole(value: Any) -> int | None:
    """A number; in JSON some are texts."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,20}", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) < 2**63 else None


def _ranks(value: Any) -> list[int] | None:
    """The ranks of a group: a list, or its text."""
    if isinstance(value, str) and len(value) <= 16 * MOST_RANKS:
        value = [int(number) for number in re.findall(r"\d{1,9}", value)]
    if not isinstance(value, (list, tuple)) or not 0 < len(value) <= MOST_RANKS:
        return None
    ranks = [rank for rank in map(_whole, value) if rank is not None and 0 <= rank < 2**31]
    return sorted(set(ranks)) if len(ranks) == len(value) else None


def _clock(nanos: int | None) -> Reading:
    if nanos is None or not 0 < nanos < _LATEST_NS:
        return NO_CLOCK
    return Reading("epoch", nanos // 1000, text=str(nanos))


_JSON: Final = (
    '{"version":"2.9","pg_config":{"74":{"name":"74","desc":"EXPERT_GROUP","ranks":"[12, 13]"}},"pg_status":{"11":'
    '{"last_enqueued_collective":"38","last_started_collective":"37","last_completed_collective":"36"}},"entries":['
    '{"record_id":7,"pg_id":11,"process_group":["74","EXPERT_GROUP"],"collective_seq_id":36,"p2p_seq_id":0,'
    '"profiling_name":"nccl:all_to_all","time_created_ns":1772360429500000000,"state":"completed","is_p2p":false},'
    '{"record_id":8,"pg_id":11,"process_group":["74","EXPERT_GROUP"],"collective_seq_id":37,"p2p_seq_id":0,'
    '"profiling_name":"nccl:all_to_all","time_created_ns":1772360430500000000,"state":"started","is_p2p":false},'
    '{"record_id":9,"pg_id":11,"process_group":["74","EXPERT_GROUP"],"collective_seq_id":38,"p2p_seq_id":0,'
    '"profiling_name":"nccl:all_reduce","time_created_ns":1772360430600000000,"state":"scheduled","is_p2p":false}]}\n'
)
_ROW: Final = expect(
    "training_events",
    kind="flight_record",
    rank=12,
    ranks=[12, 13],
    message="group 74 (EXPERT_GROUP): enqueued 38, started 37, completed 36; 2 pending since 37 nccl:all_to_all",
    time=1772360430500000,
    time_basis="epoch",
)

FORMAT: Final = DocumentFormat(
    name="flight_recorder",
    doc="""Dumps of PyTorch's flight recorder (TORCH_NCCL_DUMP_ON_TIMEOUT), as pickle or JSON: where a rank stood in
    each of its process groups. Nothing in a pickle is run; one that asks for more than plain values is refused. Give
    the dumps of all ranks: who held up the others is seen only by comparison, and the rank is in the file's name.""",
    url="https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html",
    tables=("training_events",),
    detects=detects,
    read=read,
    read_named=read_named,
    binary=True,
    samples=(
        Sample(_JSON, (_ROW,), title="JSON", name="_dump_12.json"),
        Sample(
            pickle.dumps(orjson.loads(_JSON), protocol=2).decode("utf-8", "surrogateescape"),
            (_ROW,),
            title="Pickle, as PyTorch writes it",
            name="nccl_trace_rank_12",
        ),
    ),
    non_samples=(
        '{"entries":[{"name":"a"}],"log":{"version":"1.2"}}\n',
        '{"pg_config":{},"pg_status":{},"entries":[]}\n',
        "nccl_trace_rank_12\n",
    ),
)
