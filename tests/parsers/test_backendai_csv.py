"""Backend.AI's exports as CSV: columns in any order, quotes, credentials, files cut short."""

from __future__ import annotations

import csv
import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.documents.backendai_csv import MAX_RECORD
from aftershock.parsers.documents.backendai_export import FORMAT, read
from aftershock.parsers.documents.backendai_merge import settle
from aftershock.parsers.formats import Found, Head, Refused
from aftershock.schemas.sessions import Session

S1 = "5f0c9d1e-8a77-4c33-b1d2-6e40aa120001"
S2 = "5f0c9d1e-8a77-4c33-b1d2-6e40aa120002"
HISTORY = '{"PENDING": "2026-03-02T01:00:00+00:00", "RUNNING": "2026-03-02T02:00:00+00:00"}'
CELLS = {
    "id": S1,
    "name": 'llm "7b", final',
    "status": "RUNNING",
    "agent_ids": '["i-a1", "i-a2"]',
    "status_history": HISTORY,
    "scaling_group_name": "b200",
    "access_key": "site-key-77",
}


def table(*records: dict[str, str], delimiter: str = ",", order: list[str] | None = None, bom: bool = True) -> str:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, order or list(records[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(records)
    return ("\ufeff" if bom else "") + out.getvalue()


def items(text: str | bytes) -> list[Found | Refused]:
    return list(read(io.BytesIO(text.encode() if isinstance(text, str) else text)))


def sessions(text: str | bytes) -> list[Session]:
    found = settle([item for item in items(text) if isinstance(item, Found)])
    return [item.row for item in found if isinstance(item.row, Session)]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("bom", [True, False])
def test_any_order_and_delimiter(delimiter: str, bom: bool) -> None:
    for seed in range(5):
        order = list(CELLS)
        random.Random(seed).shuffle(order)
        text = table(CELLS, delimiter=delimiter, order=order, bom=bom)
        assert FORMAT.detects(Head("s.csv", text.encode())) > 0.5
        (row,) = sessions(text)
        assert (row.job_id, row.hosts, row.name) == (S1, ["i-a1", "i-a2"], 'llm "7b", final')
        assert "site-key-77" not in repr(row)


@pytest.mark.parametrize("nothing", ["", "None", "null", "NaN", "\\N"])
def test_nothing_in_a_cell(nothing: str) -> None:
    (row,) = sessions(table(CELLS | {"name": nothing, "agent_ids": nothing, "status_history": nothing}))
    assert (row.name, row.hosts, row.start_time) == (None, None, None)


def test_a_row_for_each_kernel_is_one_session() -> None:
    head = "ID,Name,Status,Result,Resource Group Name,Created At,Kernel Role,Kernel Agent\r\n"
    lines = [f"{S1},a,TERMINATED,,b200,2026-03-02T01:00:00+00:00,{role}\r\n" for role in ("sub,i-a2", "main,i-a1")]
    other = f"{S2},b,PENDING,,b200,2026-03-02T01:00:00+00:00,main,\r\n"
    first, second = sessions("\ufeff" + head + "".join(lines) + other)
    assert (first.hosts, first.n_hosts) == (["i-a1", "i-a2"], 2)
    assert (second.job_id, second.hosts) == (S2, [])


def test_cells_over_several_lines() -> None:
    (row,) = sessions(table(CELLS | {"status_history": HISTORY.replace(", ", ",\n  ")}))
    assert row.start_time is not None


def test_a_quote_that_never_closes_costs_one_record() -> None:
    good = table(CELLS | {"id": S2}).split("\r\n", 1)[1]
    for torn in (f'{S1},"llm,RUNNING,,,b200,k\r\n', f'{S1},x,RUNNING,"[""i-a1""]","{{""PENDING"": \r\n'):
        found = items(table(CELLS).split("\r\n", 1)[0] + "\r\n" + torn + good)
        assert [item.row.job_id for item in found if isinstance(item, Found)] == [S2]
        (refused,) = [item for item in found if isinstance(item, Refused)]
        assert (refused.reason, refused.excerpt) == ("backendai_export: a quote that is not closed", b"")


def test_a_record_without_an_end_is_bounded() -> None:
    head = table(CELLS).encode()
    found = items(head + b'"' + b"x" * (3 * MAX_RECORD) + b"\n" + table(CELLS | {"id": S2}).encode())
    assert [type(item) for item in found] == [Found, Refused, Found]


def test_a_header_may_come_again() -> None:
    assert [row.job_id for row in sessions(table(CELLS) + table(CELLS | {"id": S2}, bom=False))] == [S1, S2]


@given(st.text(max_size=200), st.integers(0, 10_000))
def test_any_cell_and_any_cut_give_rows_or_refusals(name: str, cut: int) -> None:
    text = table(CELLS | {"name": name.encode("utf-8", "replace").decode()}).encode()
    for item in items(text[: cut % (len(text) + 1)]):
        assert isinstance(item, (Found, Refused))
    whole = [item for item in items(text) if isinstance(item, Found)]
    assert len(whole) <= 1


@given(st.text("abc 12,.é-", min_size=1, max_size=30).filter(str.strip))
def test_names_survive(name: str) -> None:
    (row,) = sessions(table(CELLS | {"name": name}))
    assert row.name == name.strip()
