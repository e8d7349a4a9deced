"""Reports of LSF in the output of jobs."""

from __future__ import annotations

import pytest

from aftershock.parsers.lsf_report import FORMAT
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.schemas.sessions import Session

TEXT = FORMAT.samples[0].text


def sessions(text: str) -> list[Session]:
    return [row for row in rows_of_text(text, FORMAT) if isinstance(row, Session)]


@pytest.mark.parametrize(
    ("words", "code", "signal"),
    [
        ("exit code 1.", 1, None),
        ("exit code 137.", 137, 9),
        ("signal termination: Alarm clock.", None, 14),
        ("signal termination: 9.", None, 9),
    ],
)
def test_ends(words: str, code: int | None, signal: int | None) -> None:
    (row,) = sessions(TEXT.replace("exit code 140.", words))
    assert (row.exit_code, row.exit_signal) == (code, signal)


def test_reasons() -> None:
    for word, state in (("TERM_OWNER", "CANCELLED"), ("TERM_MEMLIMIT", "OUT_OF_MEMORY"), ("TERM_UNKNOWN", "FAILED")):
        (row,) = sessions(TEXT.replace("TERM_RUNLIMIT", word))
        assert row.state == state


def test_two_reports_in_one_file_have_their_own_ends() -> None:
    second = TEXT.replace("Job 812", "Job 813[4]").replace("TERM_RUNLIMIT: job killed after", "no reason")
    one, two = sessions(TEXT + "more output\n" + second.replace("exit code 140", "exit code 2"))
    assert (one.job_id, one.state, one.exit_code) == ("812", "TIMEOUT", 140)
    assert (two.job_id, two.state, two.exit_code, two.end_reason) == ("813[4]", "FAILED", 2, None)


def test_a_job_that_never_started_has_no_hosts() -> None:
    lines = [line for line in TEXT.splitlines() if not line.startswith((" ", "Job was", "Started", "Terminated"))]
    (row,) = sessions("\n".join(lines) + "\n")
    assert (row.hosts, row.start_time, row.duration_s) == ([], None, None)
    assert row.submit_time is not None
