"""The table of events that kubectl prints."""

from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.documents import kubectl_events
from aftershock.parsers.formats import Found, Refused
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.schemas.events import SchedulerEvent

HEADER = "LAST SEEN   TYPE      REASON         OBJECT         MESSAGE\n"


def test_the_lost_times_are_told_once() -> None:
    row = "12m         Normal    NodeNotReady   node/gpu-012   Node gpu-012 status is now: NodeNotReady\n"
    found = list(kubectl_events.read(io.BytesIO((HEADER + row + HEADER + row).encode())))
    assert [type(item) for item in found] == [Refused, Found, Found]
    assert "relative" in str(found[0])


def test_rows_that_do_not_keep_to_their_columns_are_cut_at_gaps() -> None:
    text = (
        HEADER + "3m42s   Warning   VeryLongReasonOfSomebody   pod/a-name-that-is-longer-than-its-column   two  words\n"
    )
    (row,) = rows_of_text(text, kubectl_events.FORMAT)
    assert isinstance(row, SchedulerEvent)
    assert (row.reason, row.message) == ("VeryLongReasonOfSomebody", "two  words")
    assert row.job_id == "a-name-that-is-longer-than-its-column"


def test_a_row_without_an_object_is_refused() -> None:
    found = list(kubectl_events.read(io.BytesIO((HEADER + "12m         Normal\n").encode())))
    assert [item.reason for item in found if isinstance(item, Refused)][1:] == [
        "kubectl_events: a row without object and reason"
    ]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(max_size=60), max_size=5))
def test_any_text_below_the_header_is_a_row_or_a_refusal(lines: list[str]) -> None:
    body = "\n".join(lines)
    found = list(kubectl_events.read(io.BytesIO((HEADER + body + "\n").encode("utf-8", "surrogatepass"))))
    told = [line for line in (HEADER + body).encode("utf-8", "surrogatepass").split(b"\n")[1:] if line.strip()]
    assert len(found) <= 1 + len(told)
