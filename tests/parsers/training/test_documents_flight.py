"""Dumps of the flight recorder: pickles are followed without running anything, groups are told as they stood."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import pickle
import pickletools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.detect import detect
from aftershock.parsers.documents import flight_recorder, plain_pickle
from aftershock.parsers.documents.flight_state import GroupState, state_of
from aftershock.parsers.documents.plain_pickle import NotPlain, plain_value
from aftershock.parsers.formats import Found, Head, Refused
from aftershock.schemas.events import TrainingEvent

NANOS = 1772360430_500000000


def entry(seq: int, state: str = "scheduled", group: str = "74", **more: Any) -> dict[str, Any]:
    return {
        "record_id": seq,
        "pg_id": 11,
        "process_group": (group, "EXPERT_GROUP"),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "profiling_name": "nccl:all_to_all",
        "time_created_ns": NANOS + seq,
        "state": state,
        "is_p2p": False,
        "frames": [{"name": "main", "filename": "train.py", "line": 12}],
        **more,
    }


def dump(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    config = {"74": {"name": "74", "desc": "EXPERT_GROUP", "ranks": "[12, 13, 14]"}}
    return {"version": "2.9", "pg_config": config, "pg_status": {}, "entries": list(entries), **more}


def read(data: bytes, source: str = "/dumps/nccl_trace_rank_12") -> list[TrainingEvent]:
    items = list(flight_recorder.read_named(io.BytesIO(data), source))
    rows = [item.row for item in items if isinstance(item, Found)]
    assert len(rows) == len(items), items
    return [row for row in rows if isinstance(row, TrainingEvent)]


def reason(data: bytes) -> str:
    (item,) = flight_recorder.read(io.BytesIO(data))
    assert isinstance(item, Refused)
    return item.reason


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner)
        | inner.map(lambda value: [value, value])
    ),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(PLAIN, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_plain_values_come_back(value: Any, protocol: int) -> None:
    data = pickle.dumps(value, protocol)
    if any(op.name in ("GLOBAL", "STACK_GLOBAL") for op, _, _ in pickletools.genops(data)):
        return  # the oldest protocols write bytes as a call
    assert plain_value(data) == value


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("value", [dt.date(2026, 3, 1), {1, 2}, len, Exception("x"), complex(1, 2), bytearray(b"x")])
def test_anything_else_is_refused_by_name(value: Any, protocol: int) -> None:
    with pytest.raises(NotPlain, match=r"more than plain values: [A-Z0-9_]+"):
        plain_value(pickle.dumps({"entries": [value]}, protocol))


class _Command:
    """What an attacker would put into a pickle."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch ran",)


def test_nothing_is_run(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps({"version": _Command(), "entries": [], "pg_config": {}, "pg_status": {}}, 2)
    assert reason(data).startswith("flight_recorder: a pickle that is more than plain values: GLOBAL '")
    assert "system" in reason(data)
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_pickles_are_refused_or_read(data: Any) -> None:
    text = bytearray(pickle.dumps(dump(entry(37), entry(38, "completed")), 2))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    for item in flight_recorder.read(io.BytesIO(bytes(text))):
        assert isinstance(item, (Found, Refused))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x80\x02", "pickle exhausted"),
        (b"\x80\x02a.", "nothing on its stack"),
        (b"\x80\x02e.", "no mark on its stack"),
        (b"\x80\x02K\x01K\x02a.", "appends to what is no list"),
        (b"\x80\x02](K\x01K\x02u.", "sets an item of what is no dict"),
        (b"\x80\x02}(K\x01u.", "a key without a value"),
        (b"\x80\x02}(]K\x01u.", "keys that are neither texts nor numbers"),
        (b"\x80\x02h\x05.", "nothing of that number in its memo"),
        (b"\x80\x02\x8a\xff" + b"\x01" * 255 + b"\x8b\x00\x10\x00\x00" + b"\x01" * 4096 + b".", "bits at byte"),
    ],
)
def test_what_is_wrong_with_a_pickle_is_said(data: bytes, said: str) -> None:
    with pytest.raises(NotPlain, match=said):
        plain_value(data)


def test_a_pickle_cannot_ask_for_any_amount_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_pickle, "MOST_CONTAINERS", 100)
    with pytest.raises(NotPlain, match="more than 100 lists and dicts"):
        plain_value(pickle.dumps([[] for _ in range(101)], 2))
    monkeypatch.setattr(plain_pickle, "MOST_STEPS", 100)
    with pytest.raises(NotPlain, match="more than 100 instructions"):
        plain_value(b"\x80\x02" + b"N" * 101 + b".")


@pytest.mark.parametrize("write", [lambda d: pickle.dumps(d, 2), lambda d: json.dumps(d, indent=4).encode()])
def test_a_group_as_it_stood(write: Any) -> None:
    data = write(dump(entry(36, "completed"), entry(37, "started"), entry(38)))
    assert detect(Head("x", data[: 1 << 16])).format == "flight_recorder"
    (row,) = read(data)
    assert (row.kind, row.rank, row.ranks) == ("flight_record", 12, [12, 13, 14])
    assert state_of(row.message) == GroupState("74", "EXPERT_GROUP", 38, 37, 36, 2, 37, "nccl:all_to_all")


def test_the_status_of_a_group_goes_before_its_entries():
    status = {"11": {"last_enqueued_collective": 40, "last_started_collective": -1, "last_completed_collective": "36"}}
    state = state_of(read(json.dumps(dump(entry(37), pg_status=status)).encode())[0].message)
    assert state is not None
    assert (state.enqueued, state.started, state.completed, state.pending) == (40, -1, 36, 1)


def test_sends_and_receives():
    more = {"is_p2p": True, "p2p_seq_id": 900, "profiling_name": "nccl:send 0->3"}
    state = state_of(read(json.dumps(dump(entry(26, **more))).encode())[0].message)
    assert state == GroupState("74", "EXPERT_GROUP", None, None, None, 1, 900, "nccl:send 0->3", True)


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("/tmp/nccl_trace_rank_12", 12),
        ("_dump_3", 3),
        ("_dump_3.json", 3),
        ("comm_lib_trace_rank_7.pkl.gz", 7),
        ("dump", None),
        ("rank_12/dump", None),
    ],
)
def test_the_rank_is_in_the_name(name: str, rank: int | None) -> None:
    assert flight_recorder.rank_of(name) == rank


def test_entries_that_are_none_are_counted():
    data = json.dumps(dump(entry(37), {"state": 7})).encode()
    items = list(flight_recorder.read(io.BytesIO(data)))
    assert [item.reason for item in items if isinstance(item, Refused)] == [
        "flight_recorder: 1 entries without group and state"
    ]
    assert sum(isinstance(item, Found) for item in items) == 1


def test_a_huge_document_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.dumps(dump(entry(37))).encode()
    monkeypatch.setattr(flight_recorder, "_MOST_VALUES", 10)
    assert reason(data) == "flight_recorder: a dump of more than 10 values"
    monkeypatch.setattr(flight_recorder, "MOST_BYTES", 100)
    assert reason(data) == "flight_recorder: a dump of more than 100 bytes"


NUMBERS = st.none() | st.integers(-1, 2**62)
# Names as PyTorch and trainers make them; what they may not hold is made safe on the way.
NAMES = st.text(
    st.characters(codec="ascii", exclude_categories=("C",), exclude_characters="() "), min_size=1, max_size=40
)
OPERATIONS = st.sampled_from(["nccl:all_to_all", "nccl:recv 0<-3", "nccl:send 3->0", "nccl:_all_gather_base", ""])


@given(NAMES, NAMES | st.just(""), st.tuples(NUMBERS, NUMBERS, NUMBERS), st.integers(0, 9), OPERATIONS, st.booleans())
def test_a_state_survives_as_text(
    name: str, desc: str, numbers: tuple[Any, Any, Any], pending: int, operation: str, p2p: bool
) -> None:
    since, operation = (pending + 30, operation) if pending else (None, "")
    state = GroupState(name, desc, *numbers, pending, since, operation, p2p)
    assert state_of(state.text()) == state


@given(st.text(), st.text(), st.text())
def test_any_name_gives_a_state(name: str, desc: str, operation: str) -> None:
    state = GroupState(name, desc, 3, 2, 1, 1, 2, operation)
    found = state_of(state.text())
    assert found is not None
    assert (found.enqueued, found.started, found.completed, found.pending, found.since) == (3, 2, 1, 1, 2)


def test_other_messages_are_no_state():
    for message in (None, "", "group x: enqueued", "x" * 5000, "group 74 (A): enqueued 3, started 2, completed 1"):
        assert state_of(message) is None
