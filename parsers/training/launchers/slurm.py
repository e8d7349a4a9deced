"""What Slurm writes into the output of a job, as errors of the run: time limits, preemption, cancels, tasks that exit.

    slurmstepd: error: *** STEP 812.0 ON gpu017 CANCELLED AT 2026-03-01T10:20:30 DUE TO TIME LIMIT ***
    srun: error: gpu[017-018]: tasks 8-15: Exited with exit code 137
    slurmstepd: error: Detected 1 oom_kill event in StepId=812.0. Some of the step tasks have been OOM Killed.

The same lines are events of the scheduler in the format ``slurm_step``, which also names their sources. The host behind
``ON`` is where the line was printed; the one that failed stands behind ``Node failure on``. A cancel without a reason
is a person's, or follows a task that failed.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.clock import SECOND, Reading, wall_micros
from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.training.rules import Match, Rule, Said, Told, error
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 20

_CANCEL: Final = re.compile(
    rb"(?P<error>\*\*\* (?:STEP|JOB) [\w.+]{1,40} ON (?P<node>[\w.-]{1,64}) CANCELLED AT (?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)"
    rb"(?:[^\r\n]{0,60}? DUE (?:TO|to) (?P<why>[A-Za-z][^\r\n*]{0,80}?))?[ ,]*(?:\*\*\*|SEE SLURMCTLD)[^\r\n]{0,60})"
)
_WALL: Final = re.compile(rb"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)")
_REASONS: Final = (
    (b"TIME LIMIT", "scheduler_time_limit", "root"),
    (b"PREEMPTION", "preemption", "root"),
    (b"NODE FAILURE", "node_failure", "root"),
    (b"JOB REQUEUE", "requeue", "symptom"),
    (b"TASK FAILURE", "teardown", "teardown"),
    (b"SIGNAL", "user_or_admin_cancel", "root"),
)


def _read_cancel(found: Match, _said: Said) -> Told:
    why = (found["why"] or b"").upper()
    cancelled = ("user_or_admin_cancel", "root")
    known = next(((name, role) for words, name, role in _REASONS if words in why), cancelled)
    row = TrainingEvent(kind="error", error_class=known[0], error_role=known[1], error=text_of(found["error"]))
    if known[0] != "node_failure":
        row.host_raw = text_of(found["node"])
    parts = _WALL.match(found["at"])
    wall = wall_micros(*(int(part) for part in parts.groups())) if parts else None
    if wall is None:
        return Told(row)
    return Told(row, Reading("local", wall, None, None, SECOND, text_of(found["at"])))


def _read_exit(found: Match, _said: Said) -> TrainingEvent:
    how = found["how"]
    row = TrainingEvent(kind="exit", error_class="unknown", error_role="symptom", error=text_of(found["error"]))
    if how.startswith(b"Out Of Memory"):
        row.kind, row.error_class, row.error_role = "error", "host_oom", "root"
    elif how.startswith((b"Segmentation fault", b"Illegal instruction", b"Floating point")):
        row.error_class, row.error_role = "process_crash", "root"
    elif how.startswith(b"Bus error"):
        row.error_class, row.error_role = "host_shm", "root"
    elif how.startswith(
        (b"Terminated", b"Aborted", b"Killed", b"Exited with exit code 143", b"Exited with exit code 134")
    ):
        row.error_class, row.error_role = "teardown", "teardown"
    return row


RULES: Final = (
    Rule(
        words=(b" CANCELLED AT ",),
        shape=_CANCEL,
        row=_read_cancel,
        only="slurm",
    ),
    Rule(
        words=(b"Node failure on ",),
        shape=re.compile(rb"srun: error: (?P<error>Node failure on (?P<host>[\w.,\[\]-]{1,400}))"),
        row=error("node_failure"),
        only="slurm",
    ),
    Rule(
        words=(b"oom_kill event", b"oom-kill event"),
        shape=re.compile(rb"(?P<error>Detected \d{1,9} oom[_-]kill event[^\r\n]{0,300})"),
        row=error("host_oom"),
        only="slurm",
    ),
    Rule(
        words=(b": task ", b": tasks "),
        scan=(b"srun: error: ",),
        shape=re.compile(
            rb"srun: error: (?P<error>(?P<hosts>[\w.,\[\]-]{1,400}): tasks? (?P<tasks>[\d,\[\]-]{1,200}): (?P<how>[A-Z][^\r\n]{1,200}))"
        ),
        row=_read_exit,
        only="slurm",
    ),
    Rule(
        words=(b"Job step aborted", b"srun: Force Terminated", b"Killing subprocess", b"Main process received SIGTERM"),
        shape=re.compile(
            rb"(?P<error>Job step aborted: Waiting up to \d{1,6} seconds[^\r\n]{0,60}|srun: Force Terminated[^\r\n]{0,80}"
            rb"|Killing subprocess \d{1,9}|Main process received SIGTERM, exiting)"
        ),
        row=error("teardown", "teardown", kind="exit"),
        only="slurm",
    ),
    Rule(
        words=(b"Unable to create step", b"pyxis: ", b"enroot-", b"ImagePullBackOff", b"ErrImagePull"),
        shape=re.compile(
            rb"(?P<error>(?:srun: error: )?Unable to create step for job[^\r\n]{1,200}|pyxis: [^\r\n]{0,120}(?:failed|error|couldn't)[^\r\n]{0,200}"
            rb"|ImagePullBackOff|ErrImagePull)"
        ),
        row=error("launcher_or_container"),
        only="slurm",
    ),
)

SAMPLES: Final = (
    Sample(
        "slurmstepd: error: *** STEP 812.0 ON gpu017 CANCELLED AT 2026-03-01T10:20:30 DUE TO TIME LIMIT ***\n",
        (
            expect(
                "training_events",
                error_class="scheduler_time_limit",
                error_role="root",
                time=1_772_360_430_000_000,
            ),
        ),
        title="Slurm",
        url="https://github.com/SchedMD/slurm",
    ),
)

NON_SAMPLES: Final = ("the job was CANCELLED AT noon\n", "srun: job 812 has been allocated resources\n")
