"""Grid Engine's accounting."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.documents import gridengine
from aftershock.parsers.documents.gridengine import FORMAT
from aftershock.parsers.formats import Found, Head, Refused
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.schemas.sessions import Session

LINES, BLOCKS = (sample.text for sample in FORMAT.samples)


def sessions(text: str) -> list[Session]:
    return [row for row in rows_of_text(text, FORMAT) if isinstance(row, Session)]


def test_milliseconds_of_the_commercial_versions() -> None:
    line = LINES.splitlines()[1].replace(
        "1738569590:1738569605:1738573811", "1738569590123:1738569605123:1738573811123"
    )
    (row,) = sessions(line + ":-:NONE:nils@login1:0\n")
    assert (row.start_time, row.end_time) == (1_738_569_605_123_000, 1_738_573_811_123_000)


@pytest.mark.parametrize(("failed", "returned", "state"), [(0, 0, "COMPLETED"), (0, 7, "FAILED"), (37, 137, "TIMEOUT")])
def test_states(failed: int, returned: int, state: str) -> None:
    (row,) = sessions(LINES.splitlines()[1].replace(":0:0:4206:", f":{failed}:{returned}:4206:") + "\n")
    assert (row.state, row.exit_code) == (state, returned)


def test_a_request_for_each_slot_tells_no_number_of_gpus() -> None:
    (row,) = sessions(LINES.splitlines()[1].replace(":NONE:1:0:100.5", ":mpi:4:0:100.5") + "\n")
    assert row.n_gpus is None


def test_a_record_that_is_cut_short_is_refused() -> None:
    cut = LINES.splitlines()[1][:120]
    found = list(gridengine.read(io.BytesIO((LINES + cut + "\n").encode())))
    assert [item.reason for item in found if isinstance(item, Refused)] == ["gridengine: record is cut short"]


@pytest.mark.parametrize("kept", [3, 30, 60])
def test_a_torn_record_between_others_is_refused(kept: int) -> None:
    line = next(line for line in FORMAT.samples[0].text.splitlines() if not line.startswith("#"))
    found = list(gridengine.read(io.BytesIO(f"{line}\n{line[:kept]}\n{line}\n".encode())))
    assert [type(item) for item in found] == [Found, Refused, Found]


def test_sums_below_the_blocks_are_not_part_of_the_last() -> None:
    text = (
        BLOCKS
        + "Total System Usage\n    WALLCLOCK         UTIME\n========================\n         4206         1.0\n"
    )
    assert [row.job_id for row in sessions(text)] == ["812", "816.2"]


def test_files_of_users_are_not_accounting() -> None:
    for text in ("root:x:0:0:root:/root:/bin/bash\n", "a:b:c\n" * 9, "=====\nqname x\n"):
        assert FORMAT.detects(Head("accounting", text.encode())) == 0.0


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from([*LINES.splitlines(), *BLOCKS.splitlines()]) | st.text(max_size=80), max_size=30))
def test_any_lines_are_read_in_bounds(lines: list[str]) -> None:
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    for item in gridengine.read(io.BytesIO(data)):
        assert 0 <= item.offset <= len(data)
        assert isinstance(item, (Refused, Found))
