"""Words that Slurm's logs and tables share: job ids, states, times, exit codes, GPU counts, ``--exclude``.

Sources: https://slurm.schedmd.com/sacct.html (states, times, exit codes), https://slurm.schedmd.com/job_array.html
and https://slurm.schedmd.com/heterogeneous_jobs.html (job ids), https://slurm.schedmd.com/sbatch.html (options).
"""

from __future__ import annotations

import re
import shlex
from typing import Final, NamedTuple

from aftershock.parsers.clock import SECOND, ClockKind, wall_micros, zone_offset_micros

# A job as slurmctld prints it, as a pattern to be built into larger ones (verbose, ASCII):
#   JobId=123   JobId=123_4(130)   JobId=123_*   JobId=123_[1-5]   JobId=123+1(124)   JobId=123 SLUID=s0123456789abc
# Newer daemons print the SLUID beside the number, or alone. Those before 19.05 say `JobID=123 State=0x1 NodeCnt=2`, and
# in some lines `job 123` or `job_id 123`: there the word before it is a part of the larger pattern.
JOB: Final = r"""
    (?:
        (?: JobI[dD]= | (?<=\bjob[ ]) | (?<=\bjob_id[ ]) ) (?P<job>[0-9]{1,20})
        (?: _ (?P<task> [0-9]{1,10} | \* | \[ [^\]\s]{1,4096} \] ) )?   # array task, all tasks, some tasks
        (?: \+ (?P<component>[0-9]{1,10}) )?                            # component of a heterogeneous job
        (?: \( (?P<raw>[0-9]{1,20}) \) )?                               # its own number
        (?: [ ] SLUID=\w{1,64} )?
        (?: [ ] State=0x[0-9a-f]{1,16} [ ] NodeCnt=[0-9]{1,10} )?
    |
        SLUID= (?P<sluid>\w{1,64})
    )
    (?![\w+])
"""


class JobRef(NamedTuple):
    """A job as a log names it. ``raw_job_id``: its own number, or its SLUID where that is all the line has."""

    job_id: str | None
    array_task: str | None
    raw_job_id: str | None


def job_ref(match: re.Match[str]) -> JobRef:
    """The job that the groups of :data:`JOB` name."""
    job, task, component, raw = match["job"], match["task"], match["component"], match["raw"]
    if job is None:
        return JobRef(None, None, match["sluid"])
    if component is not None:
        return JobRef(f"{job}+{component}", task, raw)
    return JobRef(job, task, raw or (job if task is None else None))


# A job as sacct shows it: 9, 9_2, 9_[0-3%2], 123+1, each with .batch, .extern, .0 for a step.
_SHOWN_JOB: Final = re.compile(
    r"(?P<job>[0-9]{1,20}(?:_(?:[0-9]{1,10}|\[[^\]\s|]*\]?|\*))?(?:\+[0-9]{1,10})?)(?P<step>\.\S*)?\Z"
)


def shown_job(text: str) -> tuple[str, str | None] | None:
    """(job id, step) of a cell of the column JobID, step None for the job itself; None if it is no job id."""
    match = _SHOWN_JOB.match(text)
    return (match["job"], match["step"]) if match else None


# State as printed, in full and as squeue shortens it, to the state of a session. Suspended, configuring and completing
# jobs still hold their hosts; held ones wait.
_STATES: Final = {
    "PENDING": "PENDING",
    "PD": "PENDING",
    "REQUEUE_HOLD": "PENDING",
    "RH": "PENDING",
    "SPECIAL_EXIT": "PENDING",
    "SE": "PENDING",
    "RESV_DEL_HOLD": "PENDING",
    "RD": "PENDING",
    "EXPEDITING": "PENDING",
    "RUNNING": "RUNNING",
    "R": "RUNNING",
    "SUSPENDED": "RUNNING",
    "S": "RUNNING",
    "STOPPED": "RUNNING",
    "ST": "RUNNING",
    "CONFIGURING": "RUNNING",
    "CF": "RUNNING",
    "COMPLETING": "RUNNING",
    "CG": "RUNNING",
    "SIGNALING": "RUNNING",
    "SI": "RUNNING",
    "STAGE_OUT": "RUNNING",
    "SO": "RUNNING",
    # A record that was closed because its job changed size: the job goes on in the next one.
    "RESIZING": "UNKNOWN",
    "RS": "UNKNOWN",
    "COMPLETED": "COMPLETED",
    "CD": "COMPLETED",
    "FAILED": "FAILED",
    "F": "FAILED",
    "LAUNCH_FAILED": "FAILED",
    "RECONFIG_FAIL": "FAILED",
    "NODE_FAIL": "NODE_FAIL",
    "NF": "NODE_FAIL",
    "CANCELLED": "CANCELLED",
    "CA": "CANCELLED",
    "REVOKED": "CANCELLED",
    "RV": "CANCELLED",
    "TIMEOUT": "TIMEOUT",
    "TO": "TIMEOUT",
    "OUT_OF_MEMORY": "OUT_OF_MEMORY",
    "OOM": "OUT_OF_MEMORY",
    "PREEMPTED": "PREEMPTED",
    "PR": "PREEMPTED",
    "REQUEUED": "REQUEUED",
    "RQ": "REQUEUED",
    "REQUEUE_FED": "REQUEUED",
    "RF": "REQUEUED",
    "BOOT_FAIL": "BOOT_FAIL",
    "BF": "BOOT_FAIL",
    "DEADLINE": "DEADLINE",
    "DL": "DEADLINE",
}
_STATE: Final = re.compile(r"(?P<word>[A-Za-z_]{1,32})(?P<cut>\+?)(?: by (?P<by>[^\s|]{1,64}))?\Z")


def job_state(text: str | None) -> tuple[str | None, str | None]:
    """(state of a session, who cancelled it) for a printed state; (None, None) for none, ``UNKNOWN`` for another word.

    A name that sacct cut to the width of its column (``CANCELLED+``, ``OUT_OF_ME+``) is made whole again.
    """
    word = (text or "").strip()
    if not word:
        return None, None
    match = _STATE.match(word)
    if not match:
        return "UNKNOWN", None
    name = match["word"].upper()
    state = _STATES.get(name)
    if state is None and match["cut"]:
        whole = {value for known, value in _STATES.items() if known.startswith(name)}
        state = whole.pop() if len(whole) == 1 else None
    return state or "UNKNOWN", match["by"]


class Clock(NamedTuple):
    """A printed time: microseconds and what they count (see :class:`aftershock.parsers.clock.Reading`)."""

    kind: ClockKind
    wall: int


# What stands where there is no time.
_NO_TIME: Final = re.compile(r"(?:unknown|none|n/a|\(null\)|invalid|0)?\Z", re.IGNORECASE)
_TIME: Final = re.compile(
    r"""
    (?P<year>[0-9]{4}) - (?P<month>[0-9]{2}) - (?P<day>[0-9]{2})
    [T ]
    (?P<hour>[0-9]{2}) : (?P<minute>[0-9]{2}) : (?P<second>[0-9]{2})
    (?P<zone> Z | [+-][0-9]{2}:?[0-9]{2} )?
    \Z""",
    re.VERBOSE | re.ASCII,
)
_EPOCH: Final = re.compile(r"[0-9]{9,10}\Z")


def clock_of(text: str | None) -> Clock | None:
    """A time as Slurm's tools print it: local without a zone, with one, or seconds since 1970; None for none.

    Raises:
        ValueError: the text is no time, or a date that does not exist.
    """
    word = (text or "").strip()
    if _NO_TIME.match(word):
        return None
    if _EPOCH.match(word):
        return Clock("epoch", int(word) * SECOND)
    match = _TIME.match(word)
    if not match:
        # There was a time, and it was lost: that has to be said.
        raise ValueError("not a time" if word.strip("#") else "a time that did not fit its column")
    wall = wall_micros(*(int(match[name]) for name in ("year", "month", "day", "hour", "minute", "second")))
    if wall is None:
        raise ValueError("a date that does not exist")
    if match["zone"] is None:
        return Clock("local", wall)
    offset = zone_offset_micros(match["zone"])
    if offset is None:
        raise ValueError("not a zone")
    return Clock("zoned", wall - offset)


_ELAPSED: Final = re.compile(
    r"(?:(?P<days>[0-9]{1,6})-)?(?:(?P<hours>[0-9]{1,6}):)?(?P<minutes>[0-9]{1,6}):(?P<seconds>[0-9]{2})(?:\.[0-9]{1,9})?\Z"
)
_SECONDS: Final = re.compile(r"[0-9]{1,11}\Z")


def elapsed_seconds(text: str | None) -> float | None:
    """``D-HH:MM:SS``, ``MM:SS`` or whole seconds as seconds; None for anything else."""
    word = (text or "").strip()
    if _SECONDS.match(word):
        return float(word)
    match = _ELAPSED.match(word)
    if not match:
        return None
    days, hours, minutes, seconds = (int(match[name] or 0) for name in ("days", "hours", "minutes", "seconds"))
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


_EXIT: Final = re.compile(r"(?P<code>[0-9]{1,9}):(?P<signal>[0-9]{1,9})\Z")

# Linux numbers its signals from 1 to 64. Slurm prints higher ones for its own use: 125 for a job out of memory, 126
# where there is no exit status at all.
LAST_SIGNAL: Final = 64


def exit_pair(text: str | None) -> tuple[int | None, int | None]:
    """(exit status, signal) of ``code:signal``, the signal None if there was none; (None, None) for anything else."""
    match = _EXIT.match((text or "").strip())
    if not match:
        return None, None
    signal = int(match["signal"])
    return int(match["code"]), signal if 0 < signal <= LAST_SIGNAL else None


_GPUS: Final = re.compile(r"(?:\A|,)gres/gpu(?P<type>:[^=,]+)?=(?P<count>[0-9]{1,9})(?=,|\Z)")


def gpu_count(tres: str | None) -> int | None:
    """GPUs in a list of trackable resources; None if it names none. ``gres/gpu=8`` is the sum of its typed parts."""
    found = [(match["type"], int(match["count"])) for match in _GPUS.finditer(tres or "")]
    if not found:
        return None
    untyped = [count for kind, count in found if kind is None]
    return untyped[0] if untyped else sum(count for _, count in found)


# Options of sbatch, srun and salloc that take no value of their own; after any other the next word is its value.
_FLAG_NAMES: Final = (
    "async bcast bell compress consolidate-segments contiguous disable-status exact exclusive external "
    "external-launcher get-user-env help hold ignore-pbs immediate interactive kill-command kill-on-bad-exit label "
    "multi-prog nice no-allocate no-bell no-kill no-requeue no-shell oom-kill-step overcommit overlap oversubscribe "
    "parsable preserve-env propagate pty quiet quit-on-interrupt reboot requeue resv-ports send-libs share spread-job "
    "spread-segments stepmgr test-only unbuffered usage use-min-nodes verbose version wait-for-children whole"
)
_FLAGS: Final = frozenset(_FLAG_NAMES.split())
_SHORT_FLAGS: Final = frozenset("hHIkKlOQsuvVXZE")

# A submit line longer than this is data, not options.
_LONGEST_LINE: Final = 64 << 10


class HostOptions(NamedTuple):
    """Host lists of a submit line: those left out (``--exclude``) and those asked for (``--nodelist``)."""

    excluded: str | None
    wanted: str | None


# Words of most submit lines need not be told apart.
_MAYBE_HOSTS: Final = re.compile(r"[\s'\"]-(?:-exclude|-nodelist|[A-Za-z]{0,32}[xw])")
_NO_OPTIONS: Final = HostOptions(None, None)
_HOST_OPTIONS: Final = {"exclude": "x", "nodelist": "w"}


def excluded_in(submit_line: str | None) -> str | None:
    """The host list that a submit line excludes (the last one counts); None if it excludes none."""
    return host_options_in(submit_line).excluded


def host_options_in(submit_line: str | None) -> HostOptions:
    """The host lists of a submit line; of an option that comes twice the last one counts.

    Only options before the name of the script count: what follows belongs to the script.
    """
    line = submit_line or ""
    if len(line) > _LONGEST_LINE or not _MAYBE_HOSTS.search(line):
        return _NO_OPTIONS
    try:
        words = shlex.split(line)
    except ValueError:  # a quote that was never closed
        words = line.split()
    is_sbatch = bool(words) and words[0].rsplit("/", 1)[-1] == "sbatch"
    found: dict[str, str] = {}
    at = 1
    while at < len(words):
        word = words[at]
        at += 1
        if word == ":":  # between the components of a heterogeneous job
            continue
        if word == "--" or not word.startswith("-") or len(word) < 2:
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals and name not in _FLAGS and not (name == "wait" and is_sbatch):
                value, at = _word(words, at), at + 1
            found[_HOST_OPTIONS.get(name, "")] = value
            continue
        letters = word[1:]
        while letters[:1] in _SHORT_FLAGS or (letters[:1] == "W" and is_sbatch):
            letters = letters[1:]
        if not letters:
            continue
        value = letters[1:]
        if not value:
            value, at = _word(words, at), at + 1
        found[letters[0]] = value.removeprefix("=")
    return HostOptions(_host_list(found.get("x")), _host_list(found.get("w")))


def _host_list(value: str | None) -> str | None:
    """A value with a slash names a file of hosts, which nobody recorded."""
    return value if value and "/" not in value else None


def _word(words: list[str], at: int) -> str:
    return words[at] if at < len(words) else ""
