"""LSF's accounting and event logs: fields by their order, cut records, statuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers import lsf
from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.formats import Line, Refused
from aftershock.parsers.lsf_words import BadRecord, Fields, ending_of, gpus_of
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.schemas.sessions import Session

USAGE = " ".join(["1.5"] * 19)
BEGIN = (
    '"JOB_FINISH" "10.1" 1772439009 812 1001 33554434 16 1772434790 0 0 1772434801 "mira" "gpu" "" "" "" "login1" "/w" '
    '"" "" "" "f" '
)
END = f' 64 60.0 "bert" "./train" {USAGE} "" "ml" 0 16 "" "" 0 8 9 "" "" "" "" 0 "" 0'


def session(text: str) -> Session:
    (row,) = rows_of_text(text + "\n", lsf.FORMAT)
    assert isinstance(row, Session)
    return row


def refusals(text: str) -> list[str]:
    raw = text.encode()
    return [item.reason for item in lsf.read(Line(0, raw, unwrap(raw))) if isinstance(item, Refused)]


def test_asked_hosts_stand_before_the_hosts_that_it_ran_on():
    row = session(BEGIN + '1 "c9" 3 "c1" "c1" "c2"' + END)
    assert (row.hosts, row.n_hosts, row.state, row.exit_code) == (["c1", "c2"], 2, "COMPLETED", 0)
    assert (row.start_time, row.end_time, row.duration_s) == (1772434801000000, 1772439009000000, 4208.0)


def test_a_job_that_never_started_has_no_hosts():
    row = session((BEGIN + "0 0" + END).replace("1772434801", "0").replace(" 64 60.0", " 32 60.0"))
    assert (row.hosts, row.start_time, row.exit_code, row.state) == ([], None, None, "FAILED")


@pytest.mark.parametrize("kept", [1, 2, 3, 4, 10, 23, 24])
def test_a_record_cut_behind_its_hosts_still_tells_them(kept):
    rest = END.split(" ")
    text = BEGIN + '0 1 "16*c1"' + " ".join(rest[: kept + 1])
    assert session(text).hosts == ["c1"]
    assert refusals(text)[0].startswith("lsf: record is cut short before or in ")


def test_a_record_cut_before_its_hosts_is_refused():
    assert rows_of_text(BEGIN + '0 2 "16*c1"\n', lsf.FORMAT) == []
    assert refusals(BEGIN + '0 2 "16*c1"') == ["lsf: record is cut short before or in execHosts"]
    assert refusals(BEGIN + '0 2 "16*c1" "16*c') == ["lsf: record is cut short before or in execHosts"]


@pytest.mark.parametrize("count", ["-1", "99999999999999999999", "9999999999999999999", "x", '"two"', "1.5"])
def test_bad_counts_are_refused(count):
    assert len(refusals(BEGIN + f"0 {count}" + ' "c1"' + END)) == 1
    assert len(refusals(BEGIN + f"{count} 1" + ' "c1"' + END)) == 1


def test_an_element_of_an_array_whose_index_is_cut_off_is_not_taken_for_the_array():
    text = BEGIN + '0 1 "c1"' + f' 64 60.0 "sweep[1-4]" "./x" {USAGE} "" "ml" 0 16 ""'
    assert refusals(text) == ["lsf: record is cut short before the index of its task"]


def test_quotes_in_texts_are_doubled():
    fields = Fields('"a ""b"" c" "" "x')
    assert (fields.text("one"), fields.text("two")) == ('a "b" c', "")
    with pytest.raises(BadRecord, match="cut short before or in three"):
        fields.text("three")


@pytest.mark.parametrize(
    ("told", "ending"),
    [
        ((64, 0, 0, "u"), ("COMPLETED", 0, None, None, None)),
        ((32, 256, 0, "u"), ("FAILED", 1, None, None, None)),
        ((32, 137 << 8, 0, "u"), ("FAILED", 137, None, None, None)),
        ((32, 9, 14, "mira"), ("CANCELLED", None, 9, "TERM_OWNER", "mira")),
        ((32, 9, 15, "mira"), ("CANCELLED", None, 9, "TERM_ADMIN", None)),
        ((32, 9, 16, "u"), ("OUT_OF_MEMORY", None, 9, "TERM_MEMLIMIT", None)),
        ((32, 9, 99, "u"), ("FAILED", None, 9, "exit reason 99", None)),
        ((64 | 128, 0, None, "u"), ("COMPLETED", 0, None, None, None)),
        ((4, None, None, "u"), ("UNKNOWN", None, None, None, None)),
        ((None, None, None, None), ("UNKNOWN", None, None, None, None)),
    ],
)
def test_endings(told, ending):
    assert tuple(ending_of(*told)) == ending


def test_events_of_array_elements_name_their_task():
    (row,) = rows_of_text('"JOB_REQUEUE" "10.1" 1772439010 814 7\n', lsf.FORMAT)
    assert (row.job_id, row.array_task, row.raw_job_id) == ("814", "7", "814[7]")


@given(st.text(alphabet='ab"1 -*', max_size=40))
def test_any_tail_gives_a_row_or_a_refusal_and_no_error(tail):
    raw = (BEGIN + "0 " + tail).encode()
    assert list(lsf.read(Line(0, raw, unwrap(raw))))


@pytest.mark.parametrize(
    ("request_text", "hosts", "gpus"),
    [
        ("select[type == any] order[r15s:pg] rusage[ngpus_physical=4.00] span[hosts=1]", 1, 4),
        ("rusage[mem=6000.00,ngpus_physical=2.00/host:gmem=10G]", 4, 8),
        ("rusage[ngpus_physical=2/host:duration=1h]", 3, 6),
        ("rusage[ngpus_physical=16/job,mem=10]", 2, 16),
        ("select[(ngpus>0 || ngpus_shared>0)] rusage[ngpus_physical=1.00] ", 1, 1),
        ("rusage[ngpus_physical=4.00]", 2, None),  # for each host or for all of them: that is a setting
        ("rusage[ngpus_physical=1.00/task]", 1, None),
        ("rusage[ngpus_physical=0.50]", 1, None),
        ("1*{rusage[ngpus_physical=2]} + 4*{rusage[ngpus_physical=1]}", 5, None),
        ("{rusage[ngpus_physical=2]} || {rusage[mem=1]}", 1, None),
        ("select[ngpus_physical=4] order[pg]", 1, None),
        ("rusage[xngpus_physical=4]", 1, None),
        ("select[type == any] order[r15s:pg]", 1, None),
        ("", 1, None),
    ],
)
def test_gpus_of_a_request(request_text: str, hosts: int, gpus: int | None) -> None:
    assert gpus_of(request_text, hosts) == gpus
