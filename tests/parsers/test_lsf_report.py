"""Reports of LSF in the output of jobs."""

from __future__ import annotations

import pytest

from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.formats import LOOKAHEAD, Found, Line, Refused
from aftershock.parsers.lsf_report import FORMAT
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.schemas.sessions import Session

TEXT = FORMAT.samples[0].text


def items_of(text: str) -> list[Found | Refused]:
    """What the first line of a report gives, with what stands below it."""
    data = text[text.index("Subject: ") :].encode()
    first, _, below = data.partition(b"\n")
    return list(FORMAT.read(Line(0, first, unwrap(first), below[:LOOKAHEAD])))


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


def test_a_report_on_more_hosts_than_are_looked_at_is_told() -> None:
    more = "".join(f"{'':28}<8*c{number}>\n" for number in range(3, 403))
    text = FORMAT.samples[0].text.replace("<8*c2>\n", f"<8*c2>\n{more}")
    found = items_of(text)
    assert [type(item) for item in found] == [Refused, Found]
    (row,) = sessions(text)
    assert (row.job_id, row.state, row.hosts, row.n_hosts) == ("812", "TIMEOUT", None, None)


def test_a_date_that_does_not_exist_is_refused() -> None:
    text = FORMAT.samples[0].text.replace("Started at Mon Feb  3", "Started at Mon Feb 31")
    (refused,) = (item for item in items_of(text) if isinstance(item, Refused))
    assert (refused.reason, refused.excerpt[:10]) == ("lsf_report: a date that does not exist", b"Started at")
    (row,) = sessions(text)
    assert (row.start_time, row.end_time is None) == (None, False)
