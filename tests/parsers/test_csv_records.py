"""Delimited text: quotes, line ends, torn records, and what is said about them."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.documents.csv_records import MAX_LINES, MAX_RECORD, CsvRecord, csv_records
from aftershock.parsers.formats import Refused

CELLS = st.text(alphabet="ab ,;\"'|\t\n\r.é", max_size=8)


def is_ours(names) -> bool:
    return "id" in names


def read(data: bytes) -> list[CsvRecord | Refused]:
    return list(csv_records(io.BytesIO(data), is_ours, "t"))


def cells(data: bytes) -> list[dict[str, str]]:
    return [record.cells for record in read(data) if isinstance(record, CsvRecord)]


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_any_delimiter_is_found_by_the_header(mark):
    text = f"id{mark}host\n1{mark}gpu1\n"
    assert cells(text.encode()) == [{"id": "1", "host": "gpu1"}]


def test_byte_order_mark_comments_and_line_ends_of_windows():
    assert cells(b"\xef\xbb\xbfid,host\r\n1,gpu1\r\n") == [{"id": "1", "host": "gpu1"}]
    assert cells(b"# made by hand\nJobs of March\n\nid,host\n1,gpu1") == [{"id": "1", "host": "gpu1"}]


def test_offsets_are_those_of_the_bytes():
    data = 'id,text\n1,é\n2,"a\nb"\n3,c\n'.encode()
    assert [data[record.offset :][:1] for record in read(data)] == [b"1", b"2", b"3"]


def test_quotes_hold_delimiters_quotes_and_line_ends():
    assert cells(b'id,text\n1,"a, ""b""\nc"\n2,5" disk\n') == [
        {"id": "1", "text": 'a, "b"\nc'},
        {"id": "2", "text": '5" disk'},
    ]


def test_a_quote_that_is_never_closed_costs_its_own_line_only():
    data = b'id,text\n1,a\n2,"b\n3,c\n4,d\n'
    records = read(data)
    assert [r.cells["id"] for r in records if isinstance(r, CsvRecord)] == ["1", "3", "4"]
    assert [(r.offset, r.reason) for r in records if isinstance(r, Refused)] == [(12, "t: a quote is never closed")]


def test_two_torn_lines_do_not_take_the_lines_between_them_along():
    data = b'id,text\n1,"a\n2,b\n3,c\n4,"d\n5,e\n'
    records = read(data)
    assert [r.cells["id"] for r in records if isinstance(r, CsvRecord)] == ["2", "3", "5"]
    assert len([r for r in records if isinstance(r, Refused)]) == 2


def test_records_with_too_few_or_too_many_cells_are_refused():
    records = read(b"id,a\n1\n2,x,y\n3,x,,\n4,x\n")
    assert [r.cells["id"] for r in records if isinstance(r, CsvRecord)] == ["3", "4"]
    assert [r.reason for r in records if isinstance(r, Refused)] == ["t: cells do not fit the header"] * 2


def test_a_header_may_come_again_and_may_change_its_order():
    assert cells(b"id,a\n1,x\nid,a\n2,y\na,id\nz,3\n") == [
        {"id": "1", "a": "x"},
        {"id": "2", "a": "y"},
        {"id": "3", "a": "z"},
    ]


def test_without_a_header_nothing_is_read():
    assert [r.reason for r in read(b"a,b\n1,2\n") if isinstance(r, Refused)] == ["t: no header that names the columns"]
    assert [r.reason for r in read(b"") if isinstance(r, Refused)] == ["t: no header that names the columns"]


def test_long_lines_are_passed_over():
    data = b"id,a\n1,x\n2," + b"y" * (MAX_RECORD + 5) + b"\n3,z\n"
    records = read(data)
    assert [r.cells["id"] for r in records if isinstance(r, CsvRecord)] == ["1", "3"]
    (refused,) = [r for r in records if isinstance(r, Refused)]
    assert (refused.offset, refused.length) == (9, MAX_RECORD + 8)


def test_a_record_of_many_lines_ends_somewhere():
    data = b'id,a\n1,"' + b"x\n" * (3 * MAX_LINES) + b"2,y\n"
    assert [c["id"] for c in cells(data)] == ["2"]


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=5))
def test_what_a_writer_wrote_is_read_again(rows):
    written = io.StringIO()
    writer = csv.writer(written, quoting=csv.QUOTE_ALL)
    writer.writerow(["id", "a", "b"])
    writer.writerows(rows)
    wanted = [row for row in rows if [cell.strip() for cell in row] != ["id", "a", "b"]]
    assert [list(c.values()) for c in cells(written.getvalue().encode())] == wanted


@given(st.binary(max_size=300))
def test_any_bytes_give_records_or_refusals(data):
    for item in read(b"id,a\n" + data):
        assert isinstance(item, (CsvRecord, Refused))
        assert item.offset <= len(data) + 5
