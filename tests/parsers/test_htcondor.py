"""HTCondor's log of job events."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.documents import htcondor
from aftershock.parsers.documents.htcondor import FORMAT
from aftershock.parsers.formats import Found, Refused
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session

FIRST, SECOND = (sample.text for sample in FORMAT.samples)
BEGUN = (
    "000 (812.003.000) 2025-02-03 07:59:50 Job submitted from host: <10.0.0.1:9618>\n    DAG Node: bert-3\n...\n"
    "001 (812.003.000) 2025-02-03 08:00:05 Job executing on host: <10.0.0.7:9618?alias=dgx07.cluster&noUDP>\n...\n"
)


def sessions(text: str) -> list[Session]:
    return [row for row in rows_of_text(text, FORMAT) if isinstance(row, Session)]


def test_a_job_that_runs_and_one_that_waits() -> None:
    waits = "000 (813.000.000) 2025-02-03 08:01:00 Job submitted from host: <10.0.0.1:9618>\n...\n"
    runs, pending = sessions(BEGUN + waits)
    assert (runs.job_id, runs.state, runs.hosts, runs.name) == ("812.3", "RUNNING", ["dgx07"], "bert-3")
    assert (pending.state, pending.hosts, pending.start_time) == ("PENDING", [], None)
    assert runs.submit_time is not None
    assert runs.start_time is not None
    assert runs.start_time - runs.submit_time == 15_000_000


@pytest.mark.parametrize(
    ("end", "state", "reason"),
    [
        ("005 (812.003.000) {} Job terminated.\n\t(1) Normal termination (return value 0)", "COMPLETED", None),
        ("005 (812.003.000) {} Job terminated.\n\t(0) Abnormal termination (signal 11)", "FAILED", None),
        (
            "007 (812.003.000) {} Shadow exception!\n\tError from slot1@dgx07: no space\n\t0  -  Run Bytes Sent By Job",
            "REQUEUED",
            "Error from slot1@dgx07: no space",
        ),
        (
            "012 (812.003.000) {} Job was held.\n\tJob runtime longer than allowed (60)\n\tCode 47 Subcode 0",
            "TIMEOUT",
            "Job runtime longer than allowed (60)",
        ),
        (
            "012 (812.003.000) {} Job was held.\n\tvia condor_hold (by user mira)\n\tCode 1 Subcode 0",
            "CANCELLED",
            "via condor_hold (by user mira)",
        ),
        ("009 (812.003.000) {} Job was aborted.\n\tvia condor_rm (by user mira)", "CANCELLED", None),
    ],
)
def test_ends(end: str, state: str, reason: str | None) -> None:
    (row,) = sessions(BEGUN + end.format("2025-02-03 08:01:05") + "\n...\n")
    assert (row.state, row.duration_s) == (state, 60.0)
    assert reason is None or row.end_reason == reason


def test_a_parallel_job_has_the_hosts_of_its_nodes() -> None:
    node = "014 (812.000.000) 2025-02-03 08:00:0{} Node {} executing on host: <10.0.0.{}:9618>\n...\n"
    text = node.format(1, 0, 7) + node.format(2, 1, 8)
    text += "001 (812.000.000) 2025-02-03 08:00:05 Job executing on host: MPI_job\n...\n"
    (row,) = sessions(text)
    assert (row.hosts, row.n_hosts) == (["10.0.0.7", "10.0.0.8"], 2)


def test_an_end_whose_beginning_the_log_does_not_have() -> None:
    (row,) = sessions(
        "005 (812.000.000) 2025-02-03 09:20:05 Job terminated.\n\t(1) Normal termination (return value 3)\n"
    )
    assert (row.state, row.exit_code, row.hosts, row.start_time) == ("FAILED", 3, None, None)


def test_dates_without_a_year() -> None:
    text = "001 (812.000.000) 02/03 08:00:05 Job executing on host: <10.0.0.7:9618>\n...\n"
    found = [item for item in htcondor.read(io.BytesIO(text.encode())) if isinstance(item, Found)]
    assert {item.reading.kind for item in found} == {"yearless"}


def test_an_eviction_that_is_not_followed_by_its_hold_stays_one() -> None:
    evicted = "004 (812.003.000) 2025-02-03 08:01:05 Job was evicted.\n\t(0) CPU times\n...\n"
    later = "012 (812.003.000) 2025-02-03 09:01:05 Job was held.\n\tvia condor_hold\n\tCode 1 Subcode 0\n...\n"
    assert [row.state for row in sessions(BEGUN + evicted + later)] == ["PREEMPTED"]


def test_lines_without_their_header_are_refused_together() -> None:
    whole = FORMAT.samples[0].text
    for torn in ("(1) Normal termination (return value 0)\n\tand more\n...\n", "005 (812.000.000) 2025-02\n"):
        found = list(htcondor.read(io.BytesIO((torn + whole).encode())))
        assert [type(item) for item in found if isinstance(item, Refused)] == [Refused]
        assert len(found) == 1 + len(list(htcondor.read(io.BytesIO(whole.encode()))))


def test_a_date_that_does_not_exist_is_refused() -> None:
    found = list(htcondor.read(io.BytesIO(BEGUN.replace("02-03", "02-30").encode())))
    assert [type(item) for item in found] == [Refused, Refused]


PARTS = sorted({*FIRST.splitlines(), *SECOND.splitlines(), *BEGUN.splitlines()})


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PARTS) | st.text(max_size=60), max_size=40))
def test_every_run_is_told_once(lines: list[str]) -> None:
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    found = [item for item in htcondor.read(io.BytesIO(data)) if isinstance(item, Found)]
    started = [item.offset for item in found if isinstance(item.row, SchedulerEvent) and item.row.kind == "started"]
    begun = [item.offset for item in found if isinstance(item.row, Session) and item.row.start_time is not None]
    assert sorted(started) == sorted(begun)
