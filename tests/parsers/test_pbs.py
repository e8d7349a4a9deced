"""PBS accounting: what the letters mean, whose word counts for a time, and texts that have blanks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers import pbs
from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.formats import Line, Refused
from aftershock.parsers.pbs_words import ending_of, fields_of, gpus_of, hosts_of
from aftershock.parsers.resolve import ClockRules
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.parsers.settle import SourceRules
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session

NO_ZONE = SourceRules(source="20260302", clock=ClockRules(inferred=False))
INFERRED = SourceRules(source="20260302", clock=ClockRules())
AS_UTC = "user=mira jobname=a queue=q ctime=1772434000 start=1772434801 exec_host=c1/0*8 "


def rows(text: str, rules: SourceRules = NO_ZONE):
    return rows_of_text(text, pbs.FORMAT, rules)


def refusals(text: str) -> list[str]:
    found = []
    for raw in text.encode().splitlines():
        found += [item.reason for item in pbs.read(Line(0, raw, unwrap(raw))) if isinstance(item, Refused)]
    return found


def test_epochs_are_the_truth_and_need_no_zone():
    (row,) = rows(f"03/02/2026 08:10:09;E;1.s;{AS_UTC}end=1772439009 Exit_status=0\n")
    assert isinstance(row, Session)
    assert (row.start_time, row.end_time, row.duration_s) == (1772434801000000, 1772439009000000, 4208.0)
    assert (row.state, row.exit_code, row.time_basis) == ("COMPLETED", 0, "epoch")


def test_a_local_clock_takes_the_zone_that_other_records_show():
    # The end was written at 17:10:09 and states 08:10:09 UTC: nine hours ahead.
    text = f"03/02/2026 17:10:05;D;1.s;requestor=root@head\n03/02/2026 17:10:09;E;1.s;{AS_UTC}end=1772439009 Exit_status=0\n"
    event, _ = rows(text, INFERRED)
    assert isinstance(event, SchedulerEvent)
    assert (event.time, event.time_basis) == (1772439005000000, "inferred_zone")
    alone, _ = rows(text)
    assert isinstance(alone, SchedulerEvent)
    assert alone.time is None
    assert alone.time_local == "03/02/2026 17:10:05"


def test_records_that_disagree_by_minutes_show_no_zone():
    text = f"03/02/2026 17:10:05;D;1.s;requestor=root@head\n03/02/2026 17:17:00;E;1.s;{AS_UTC}end=1772439009 Exit_status=0\n"
    assert rows(text, INFERRED)[0].time is None


def test_an_end_without_its_time_has_the_clock_in_front_as_an_event():
    text = f"03/02/2026 08:10:09;E;1.s;{AS_UTC}Exit_status=0\n"
    session, event = rows(text)
    assert isinstance(session, Session)
    assert isinstance(event, SchedulerEvent)
    assert session.end_time is None
    assert (event.kind, event.time_local) == ("ended", "03/02/2026 08:10:09")
    assert refusals(text) == ["pbs: record without its end"]
    (bare,) = rows("03/02/2026 08:10:09;E;1.s;user=mira exec_host=c1/0\n", SourceRules("s", clock=ClockRules("UTC")))
    assert isinstance(bare, Session)
    assert bare.end_time == 1772439009000000
    assert bare.state == "UNKNOWN"


@pytest.mark.parametrize(
    ("fields", "ending"),
    [
        ("Exit_status=0", ("COMPLETED", 0, None, None)),
        ("Exit_status=1", ("FAILED", 1, None, None)),
        ("Exit_status=143", ("FAILED", 143, None, None)),
        ("Exit_status=265", ("FAILED", None, 9, None)),
        ("Exit_status=400", ("FAILED", 400, None, None)),
        (
            "Exit_status=271 resources_used.walltime=01:00:12 Resource_List.walltime=01:00:00",
            ("TIMEOUT", None, 15, "walltime exceeded"),
        ),
        (
            "Exit_status=271 resources_used.walltime=00:30:00 Resource_List.walltime=01:00:00",
            ("FAILED", None, 15, None),
        ),
        ("Exit_status=-2", ("FAILED", None, None, "JOB_EXEC_FAIL2")),
        ("Exit_status=-11 run_count=2", ("REQUEUED", None, None, "JOB_EXEC_RERUN")),
        ("Exit_status=-11 owner=a@b", ("TIMEOUT", None, None, "JOB_EXEC_OVERLIMIT_WT")),
        ("Exit_status=-11", ("UNKNOWN", None, None, "Exit_status=-11")),
        ("Exit_status=-29 run_count=1", ("TIMEOUT", None, None, "JOB_EXEC_KILL_WALLTIME")),
        ("Exit_status=x", ("UNKNOWN", None, None, None)),
        ("", ("UNKNOWN", None, None, None)),
    ],
)
def test_exit_statuses(fields, ending):
    assert tuple(ending_of(fields_of(fields))) == ending


@pytest.mark.parametrize(
    ("exec_host", "hosts"),
    [
        ("b/7+b/6+a/0", ["b", "a"]),
        ("c1/0*13+c2/1*13", ["c1", "c2"]),
        ("n1/0-3,5+n2/0", ["n1", "n2"]),
        ("n1", ["n1"]),
        ("gpu-1.example.org/0", ["gpu-1.example.org"]),
    ],
)
def test_hosts_stand_once_in_the_order_of_the_list(exec_host, hosts):
    assert hosts_of(exec_host) == hosts


@pytest.mark.parametrize(
    ("fields", "gpus"),
    [
        ("exec_vnode=(a:ncpus=8:ngpus=4:mem=1gb)+(b:ngpus=4) Resource_List.ngpus=99", 8),
        ("Resource_List.ngpus=16", 16),
        ("Resource_List.select=2:ncpus=8:ngpus=4+1:ngpus=1", 9),
        ("Resource_List.nodes=4:ppn=8:gpus=2", 8),
        ("Resource_List.nodes=gpu01:ppn=8:gpus=2+gpu02:ppn=8", 2),
        ("Resource_List.select=2:ncpus=8", None),
        ("Resource_List.select=999999:ngpus=999999", None),
    ],
)
def test_gpus(fields, gpus):
    assert gpus_of(fields_of(fields)) == gpus


def test_values_with_blanks_and_quotes():
    text = 'account="my lab" project=\'a "b" c\' comment=run start=5 again end="x" jobname=a start=7'
    assert fields_of(text) == {
        "account": "my lab",
        "project": 'a "b" c',
        "comment": "run",
        "start": "5 again",
        "end": "x",
        "jobname": "a",
    }
    assert fields_of("account=my lab jobname=x") == {"account": "my lab", "jobname": "x"}
    assert fields_of('account="never closed jobname=x')["jobname"] == "x"


@given(st.text(alphabet="ab= \"'.<>:", max_size=60))
def test_any_text_gives_fields(text):
    for key, value in fields_of(text).items():
        assert key
        assert "=" not in key
        assert isinstance(value, str)


def test_a_rerun_is_a_session_and_a_requeue():
    text = f"03/02/2026 08:10:09;R;1.s;{AS_UTC}end=1772439009 Exit_status=-14 run_count=1\n"
    event, session = rows(text)
    assert isinstance(event, SchedulerEvent)
    assert isinstance(session, Session)
    assert (event.kind, event.time, event.hosts) == ("requeued", 1772439009000000, ["c1"])
    assert (session.state, session.end_reason) == ("REQUEUED", "JOB_EXEC_RERUN_SIS_FAIL")


def test_a_deletion_explains_a_kill_and_nothing_else():
    deleted = "03/02/2026 08:10:05;D;1.s;requestor=mira@login\n"
    killed = f"03/02/2026 08:10:09;E;1.s;{AS_UTC}end=1772439009 Exit_status=265\n"
    failed = f"03/02/2026 08:10:09;E;1.s;{AS_UTC}end=1772439009 Exit_status=1\n"
    assert [(r.state, r.cancelled_by) for r in rows(deleted + killed)[1:]] == [("CANCELLED", "mira")]
    assert [(r.state, r.cancelled_by) for r in rows(deleted + failed)[1:]] == [("FAILED", None)]
    assert [(r.state, r.cancelled_by) for r in rows(killed + deleted)[:1]] == [("FAILED", None)]
    other = deleted.replace("1.s", "2.s") + killed
    assert [(r.state, r.cancelled_by) for r in rows(other)[1:]] == [("FAILED", None)]


def test_a_job_that_never_ran_has_no_hosts():
    (row,) = rows("03/02/2026 08:10:09;E;1.s;user=mira ctime=1772434000 start=0 end=1772439009 Exit_status=-1\n")
    assert isinstance(row, Session)
    assert (row.hosts, row.start_time, row.n_hosts) == ([], None, 0)


def test_an_array_as_a_whole_is_no_placement():
    assert rows(f"03/02/2026 08:10:09;E;1[].s;{AS_UTC}end=1772439009 Exit_status=0 run_count=0\n") == []


def test_an_abort_is_the_servers_cancel_with_its_words():
    (row,) = rows("03/02/2026 08:10:09;A;1.s;Job deleted as result of dependency on job 0.s\n")
    assert isinstance(row, SchedulerEvent)
    assert (row.kind, row.reason) == ("cancelled", "Job deleted as result of dependency on job 0.s")


def test_reservations_name_their_hosts():
    begun, ended = rows(
        "03/02/2026 08:00:00;B;R5.s;owner=root@head name=fix ctime=1772430000 start=1772438400 end=1772449200 "
        "nodes=(gpu1[0]:ncpus=4)+(gpu1[1]:ncpus=4)+(gpu2:ncpus=8)\n"
        "03/02/2026 11:00:00;F;R5.s;owner=root@head\n"
    )
    assert isinstance(begun, SchedulerEvent)
    assert isinstance(ended, SchedulerEvent)
    assert (begun.kind, begun.hosts, begun.user, begun.reason) == ("reservation", ["gpu1", "gpu2"], "root", "R5.s")
    assert ended.state == "ENDED"


def test_what_cannot_be_read_is_said():
    assert refusals("02/30/2026 08:10:09;E;1.s;end=1\n") == ["pbs: a date that does not exist"]
    assert refusals("03/02/2026 08:10:09;E;one;end=1\n") == ["pbs: no job id"]
    assert refusals(f"03/02/2026 08:10:09;S;1.s;{AS_UTC.replace('c1/0*8', '+')}\n") == [
        "pbs: a name that no host has in exec_host"
    ]
