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
from aftershock.parsers.patterns import later
from aftershock.parsers.training.faults.talk import is_shown, speaks_of
from aftershock.parsers.training.marks import CONFIRMED
from aftershock.parsers.training.rules import Match, Rule, Said, Told, error
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 20

# What somebody quotes nobody printed.
_CANCEL: Final = re.compile(
    rb"(?<!['\"`])(?P<error>\*\*\* (?:STEP|JOB) [\w.+]{1,40} ON (?P<node>[\w.-]{1,64}) CANCELLED AT "
    rb"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)"
    rb"(?:[^\r\n]{0,60}? DUE (?:TO|to) (?P<why>[A-Za-z][^\r\n*]{0,80}?))?[ ,]*(?:\*\*\*|SEE SLURMCTLD)[^\r\n]{0,60})"
)
_FAILED: Final = re.compile(
    rb"(?<!['\"`])(?P<error>\*\*\* (?:STEP|JOB) [\w.+]{1,40} ON (?P<node>[\w.-]{1,64}) "
    rb"(?P<how>FAILED \(|UNCORRECTABLE MEMORY ERROR AT |REASON: )[^\r\n]{0,200})"
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


def _read_cancel(found: Match, said: Said) -> Told | None:
    if is_shown(said, found.start()):
        return None
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


def _read_failed(found: Match, said: Said) -> TrainingEvent | None:
    if is_shown(said, found.start()):
        return None
    row = TrainingEvent(kind="error", error_class="unknown", error_role="symptom", error=text_of(found["error"]))
    row.host_raw = text_of(found["node"])
    if found["how"].startswith(b"UNCORRECTABLE"):
        row.error_class, row.error_role = "host_hardware", "root"
    return row


_REFUSED: Final = error("launcher_or_container")
_EXITS: Final = (
    ((b"Segmentation fault", b"Illegal instruction", b"Floating point"), "process_crash", "root"),
    ((b"Exited with exit code 139", b"Exited with exit code 132"), "process_crash", "root"),
    ((b"Bus error", b"Exited with exit code 135"), "host_shm", "root"),
    ((b"Terminated", b"Aborted", b"Exited with exit code 143", b"Exited with exit code 134"), "teardown", "teardown"),
)


def _read_exit(found: Match, said: Said) -> Told | None:
    if is_shown(said, found.start()):
        return None
    how = found["how"]
    row = TrainingEvent(kind="exit", error_class="unknown", error_role="symptom", error=text_of(found["error"]))
    if found["hosts"] and b"," not in found["hosts"] and b"[" not in found["hosts"]:
        row.host_raw = text_of(found["hosts"])
    if how.startswith(b"Out Of Memory"):
        row.kind, row.error_class, row.error_role = "error", "host_oom", "root"
        return Told(row, None, CONFIRMED)
    for words, error_class, role in _EXITS:
        if how.startswith(words):
            row.error_class, row.error_role = error_class, role
    return Told(row)


def _read_launch(found: Match, said: Said) -> TrainingEvent | None:
    return None if is_shown(said, found.start()) else _REFUSED(found, said)


def _read_refused(found: Match, said: Said) -> TrainingEvent | None:
    """A command of Slurm that could not do its work; what it tries again is no failure yet."""
    return None if speaks_of(said, found.start("error")) else _REFUSED(found, said)


def _read_node(found: Match, said: Said) -> TrainingEvent:
    row = error("node_failure")(found, said)
    if b"," not in found["host"] and b"[" not in found["host"]:
        row.host_raw = text_of(found["host"])
    return row


RULES: Final = (
    Rule(
        words=(b" CANCELLED AT ",),
        shape=_CANCEL,
        row=_read_cancel,
        only="slurm",
    ),
    Rule(
        words=(b" FAILED (non-zero exit code", b" UNCORRECTABLE MEMORY ERROR AT ", b" REASON: "),
        scan=(b" FAILED (non-zero exit code", b" UNCORRECTABLE MEMORY ERROR AT "),
        shape=_FAILED,
        row=_read_failed,
        only="slurm",
    ),
    Rule(
        words=(b"Node failure on ",),
        shape=later(rb"srun: error: (?P<error>Node failure on (?P<host>[\w.,\[\]-]{1,400}))"),
        row=_read_node,
        only="slurm",
    ),
    Rule(
        words=(b"oom_kill event", b"oom-kill event", b"xceeded job memory limit", b" exceeded memory limit ("),
        shape=later(
            rb"(?P<error>Detected \d{1,9} oom[_-]kill event[^\r\n]{0,300}|slurmstepd: error: (?:Exceeded job memory "
            rb"limit"
            rb"|(?:Step|Job) [\w.]{1,40} exceeded (?:virtual )?memory limit \()[^\r\n]{0,200})"
        ),
        row=error("host_oom"),
        mark=CONFIRMED,
        only="slurm",
    ),
    Rule(
        words=(b": task ", b": tasks "),
        scan=(b"srun: error: ",),
        shape=later(
            rb"srun: error: (?P<error>(?:(?P<hosts>[\w.,\[\]-]{1,400}): )?tasks? (?P<tasks>[\d,\[\]-]{1,200}): "
            rb"(?P<how>[A-Z][^\r\n]{1,200}))"
        ),
        row=_read_exit,
        only="slurm",
    ),
    Rule(
        words=(
            *(b"Job step aborted", b"srun: Force Terminated", b"forcing job termination", b"STEPD TERMINATED ON"),
            *(b"srun: Terminating StepId=", b"srun: got SIGCONT", b"srun: forcing"),
        ),
        shape=later(
            rb"(?P<error>Job step aborted: Waiting up to \d{1,6} seconds[^\r\n]{0,60}|srun: Force "
            rb"Terminated[^\r\n]{0,80}"
            rb"|srun: forcing job termination|\*\*\* STEP [\w.+]{1,40} STEPD TERMINATED ON [^\r\n]{1,200}"
            rb"|srun: Terminating StepId=[^\r\n]{1,60}|srun: got SIGCONT)"
        ),
        row=error("teardown", "teardown", kind="exit"),
        only="slurm",
    ),
    Rule(
        words=(
            b"Unable to create step for job",
            b"Task launch for ",
            b"Application launch failed",
            b"spank plugin stack",
            b" launch failed: ",
            b"Unable to allocate resources: ",
            b"Batch job submission failed: ",
        ),
        shape=later(
            rb"(?P<error>(?:Unable to create step for job|Task launch for (?:StepId=)?[\w.+]{1,40} failed on node"
            rb"|Application launch failed|Failed to invoke spank plugin stack|srun: error: task [\d,-]{1,80} launch "
            rb"failed: "
            rb"|(?:Unable to allocate resources|Batch job submission failed): )[^\r\n]{0,200})"
        ),
        row=_read_launch,
        only="slurm",
    ),
    Rule(
        words=(b": error: ", b": fatal: "),
        scan=(b"srun: error: ", b"srun: fatal: ", b"sbatch: error: ", b"salloc: error: ", b"slurmstepd: error: "),
        shape=later(
            rb"\A(?:srun|sbatch|salloc|slurmstepd): (?P<error>error: (?:Munge (?:en|de)code failed"
            rb"|[^\r\n]{0,120}\bhas authentication error|Authentication plugin initialization failed"
            rb"|cannot (?:find|create) auth (?:plugin|context) for"
            rb"|Unable to (?:contact slurm controller|confirm allocation for job|resolve \"|establish control machine))"
            rb"[^\r\n]{0,200}|fatal: [^\r\n]{1,300})"
        ),
        row=_read_refused,
        only="slurm",
    ),
    Rule(
        words=(b": unrecognized option '", b": invalid option -- '", b": error: Invalid "),
        scan=(b"srun: unrecognized option", b"srun: invalid option", b"srun: error: Invalid "),
        shape=later(
            rb"\A(?P<error>srun: (?:unrecognized option|invalid option|error: Invalid (?:numeric value|--|argument"
            rb"|time|node|task|generic resource|account|partition|directive))[^\r\n]{0,200})"
        ),
        row=error("user_config"),
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
    Sample(
        "slurmstepd: error: *** STEP 812.0 ON gpu016 CANCELLED AT 2026-03-01T10:20:30 DUE TO NODE FAILURE, SEE "
        "SLURMCTLD LOG "
        "FOR DETAILS ***\nsrun: error: Node failure on gpu018\n",
        (
            expect("training_events", error_class="node_failure", error_role="symptom", host_raw=None),
            expect("training_events", error_class="node_failure", error_role="root", host_raw="gpu018"),
        ),
        title="Slurm: a node that failed",
    ),
    Sample(
        'srun: error: Munge encode failed: Failed to access "/run/munge/munge.socket.2": No such file or directory\n',
        (expect("training_events", error_class="launcher_or_container", error_role="root"),),
        title="Slurm: nobody can say who asks",
    ),
    Sample(
        "srun: unrecognized option '--gpu-per-task=1'\n",
        (expect("training_events", error_class="user_config", error_role="root"),),
        title="Slurm: an option that is none",
    ),
)

NON_SAMPLES: Final = (
    "the job was CANCELLED AT noon\n",
    "srun: job 812 has been allocated resources\n",
    'srun: error: Munge encode failed: Failed to access "/run/munge/munge.socket": Connection refused (retrying ...)\n',
    "slurmstepd: error: Unable to create TMPDIR [/scratch/811]: Permission denied\n",
    "#   *** JOB 812 ON gpu017 CANCELLED AT 2026-03-01T10:20:30 DUE TO PREEMPTION ***\n",
    '    log = "srun: error: Task launch for StepId=812.0 failed on node gpu017: Unable to satisfy cpu bind request"\n',
    "watching for '*** JOB 812 ON gpu017 CANCELLED AT 2026-03-01T10:20:30 DUE TO TIME LIMIT ***' in the output\n",
)
