"""Words of PBS accounting records: ``key=value`` texts, host lists, GPU counts, exit statuses.

Sources: src/server/accounting.c and src/include/job.h of https://github.com/openpbs/openpbs; src/server/accounting.c
and src/include/pbs_job.h of https://github.com/adaptivecomputing/torque. Below -7 their reasons differ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from aftershock.parsers.clock import SECOND
from aftershock.parsers.hostlist import CAP, HostListError

# The latest second that a time may have: in 2200, beyond it a number is no time.
LATEST: Final = 7_258_118_400
MOST_INT32: Final = 2**31 - 1

_KEY: Final = re.compile(r"(?P<key>[A-Za-z_][\w.-]{0,127})=(?P<value>.*)\Z", re.DOTALL)
_HOST: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,252}\Z")
_EPOCH: Final = re.compile(r"[0-9]{9,10}\Z")
_WHOLE: Final = re.compile(r"[0-9]{1,9}\Z")
_STATUS: Final = re.compile(r"-?[0-9]{1,9}\Z")
# Elements of HPC job descriptions have blanks, and texts of users, between their tags.
_ELEMENT: Final = re.compile(r"<(jsdl-hpcpa:(?:Executable|Argument))>")


def fields_of(text: str) -> dict[str, str]:
    """The fields of a record, the first of each name.

    A value with blanks stands in quotes, or just goes on: what has no ``=`` behind a name is more of the value before.
    """
    words = text.split(" ")
    fields: dict[str, list[str]] = {}
    unclosed: set[str] = set()  # what ends nowhere in the rest of the text is looked for once
    at = 0
    parts: list[str] = []  # of the value that may go on
    while at < len(words):
        match = _KEY.match(words[at])
        at += 1
        if match is None:
            if words[at - 1]:
                parts.append(words[at - 1])
            continue
        parts = [match["value"]]
        closing = _closing(match["value"])
        if closing is not None and closing not in unclosed and not _closes(match["value"], closing):
            end = next((i for i in range(at, len(words)) if words[i].endswith(closing)), None)
            if end is None:
                unclosed.add(closing)
            else:
                parts += words[at : end + 1]
                at = end + 1
        # A second field of the same name is the text of a user.
        fields.setdefault(match["key"], parts)
    return {name: _unquoted(" ".join(words)) for name, words in fields.items()}


def _closing(value: str) -> str | None:
    """What ends a value that begins so."""
    if value[:1] in ('"', "'"):
        return value[0]
    element = _ELEMENT.match(value)
    return f"</{element[1]}>" if element else None


def _closes(value: str, closing: str) -> bool:
    """Whether a value ends in its first word."""
    return len(value) > 1 and value.endswith(closing)


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] in ('"', "'") and value.endswith(value[0])
    return value[1:-1] if quoted else value


def hosts_of(exec_host: str) -> list[str]:
    """``a/0+a/1+b/0*8``: the hosts, each once, in the order of the list.

    Raises:
        HostListError: a name that no host has, or too many of them.
    """
    names: dict[str, None] = {}
    for slot in exec_host.split("+"):
        name = slot.partition("/")[0]
        if not _HOST.match(name):
            raise HostListError("a name that no host has in exec_host")
        names[name] = None
        if len(names) > CAP:
            raise HostListError(f"exec_host has more than {CAP} hosts")
    return list(names)


_VNODE: Final = re.compile(r"\(([A-Za-z0-9_][A-Za-z0-9_.-]{0,252})(?:\[[0-9]{1,6}\])?[:)]")


def vnodes_of(text: str) -> list[str]:
    """``(gpu1[0]:ncpus=4)+(gpu1[1]:ncpus=4)``: the hosts of virtual nodes, each once."""
    return list(dict.fromkeys(_VNODE.findall(text)))[:CAP]


_ALLOCATED: Final = re.compile(r":ngpus=([0-9]{1,6})(?=[:)+]|\Z)")
_CHUNK: Final = re.compile(r"(?:(?P<times>[0-9]{1,6})(?=:|\Z))?")
_ASKED: Final = re.compile(r"(?::|\A)(?:ngpus|gpus)=([0-9]{1,6})(?=:|\Z)")


def gpus_of(fields: Mapping[str, str]) -> int | None:
    """GPUs that a job got, else those that it asked for; None if the record names none."""
    allocated = _ALLOCATED.findall(fields.get("exec_vnode", ""))
    if allocated:
        return _count(sum(map(int, allocated)))
    total = fields.get("Resource_List.ngpus", "")
    if _WHOLE.match(total):
        return _count(int(total))
    for name in ("Resource_List.select", "Resource_List.nodes", "Resource_List.neednodes"):
        chunks = fields.get(name, "").split("+")
        asked = [(int(_CHUNK.match(chunk)["times"] or 1), _ASKED.search(chunk)) for chunk in chunks]  # type: ignore[index]
        if any(gpus for _, gpus in asked):
            return _count(sum(times * int(gpus[1]) for times, gpus in asked if gpus))
    return None


def _count(number: int) -> int | None:
    return number if number <= MOST_INT32 else None


def epoch_of(text: str | None) -> int | None:
    """Seconds since 1970 as microseconds; None for 0 and for what is no such time."""
    if text is None or not _EPOCH.match(text):
        return None
    seconds = int(text)
    return seconds * SECOND if seconds < LATEST else None


class Ending(NamedTuple):
    """How a job ended, by its exit status: state of a session, exit status of the job itself, signal, reason."""

    state: str
    exit_code: int | None = None
    exit_signal: int | None = None
    reason: str | None = None


# Reasons of both servers, then those of each: (name, state).
_COMMON: Final = {
    -1: ("JOB_EXEC_FAIL1", "FAILED"),
    -2: ("JOB_EXEC_FAIL2", "FAILED"),
    -3: ("JOB_EXEC_RETRY", "REQUEUED"),
    -4: ("JOB_EXEC_INITABT", "FAILED"),
    -5: ("JOB_EXEC_INITRST", "FAILED"),
    -6: ("JOB_EXEC_INITRMG", "FAILED"),
    -7: ("JOB_EXEC_BADRESRT", "FAILED"),
}
_OPENPBS: Final = {
    -10: ("JOB_EXEC_FAILUID", "FAILED"),
    -11: ("JOB_EXEC_RERUN", "REQUEUED"),
    -12: ("JOB_EXEC_CHKP", "REQUEUED"),
    -13: ("JOB_EXEC_FAIL_PASSWORD", "FAILED"),
    -14: ("JOB_EXEC_RERUN_SIS_FAIL", "REQUEUED"),
    -15: ("JOB_EXEC_QUERST", "REQUEUED"),
    -16: ("JOB_EXEC_FAILHOOK_RERUN", "REQUEUED"),
    -17: ("JOB_EXEC_FAILHOOK_DELETE", "FAILED"),
    -18: ("JOB_EXEC_HOOK_RERUN", "REQUEUED"),
    -19: ("JOB_EXEC_HOOK_DELETE", "FAILED"),
    -20: ("JOB_EXEC_RERUN_MS_FAIL", "NODE_FAIL"),
    -21: ("JOB_EXEC_FAIL_SECURITY", "FAILED"),
    -22: ("JOB_EXEC_HOOKERROR", "FAILED"),
    -23: ("JOB_EXEC_FAIL_KRB5", "FAILED"),
    -24: ("JOB_EXEC_KILL_NCPUS_BURST", "FAILED"),
    -25: ("JOB_EXEC_KILL_NCPUS_SUM", "FAILED"),
    -26: ("JOB_EXEC_KILL_VMEM", "OUT_OF_MEMORY"),
    -27: ("JOB_EXEC_KILL_MEM", "OUT_OF_MEMORY"),
    -28: ("JOB_EXEC_KILL_CPUT", "TIMEOUT"),
    -29: ("JOB_EXEC_KILL_WALLTIME", "TIMEOUT"),
    -30: ("JOB_EXEC_JOINJOB", "FAILED"),
}
_TORQUE: Final = {
    -8: ("JOB_EXEC_CMDFAIL", "FAILED"),
    -9: ("JOB_EXEC_STDOUTFAIL", "FAILED"),
    -10: ("JOB_EXEC_OVERLIMIT_MEM", "OUT_OF_MEMORY"),
    -11: ("JOB_EXEC_OVERLIMIT_WT", "TIMEOUT"),
    -12: ("JOB_EXEC_OVERLIMIT_CPUT", "TIMEOUT"),
    -13: ("JOB_EXEC_RETRY_CGROUP", "REQUEUED"),
}
# Fields that only one of the two writes.
_OF_OPENPBS: Final = frozenset(
    {"run_count", "exec_vnode", "project", "eligible_time", "accounting_id", "Resource_List.select"}
)
_OF_TORQUE: Final = frozenset({"owner", "total_execution_slots", "unique_node_count"})

# 256 and the signal is what both print for a job that a signal ended.
_SIGNALLED: Final = 256
_LAST_SIGNAL: Final = 64


def ending_of(fields: Mapping[str, str]) -> Ending:
    """The ending of a job by ``Exit_status`` and by the time that it used of what it was given."""
    text = fields.get("Exit_status", "")
    if not _STATUS.match(text):
        return Ending("UNKNOWN")
    status = int(text)
    if status < 0:
        return _server_reason(status, fields)
    signal = status - _SIGNALLED
    if 0 < signal <= _LAST_SIGNAL:
        late = _is_over_walltime(fields)
        return Ending("TIMEOUT" if late else "FAILED", None, signal, "walltime exceeded" if late else None)
    return Ending("FAILED" if status else "COMPLETED", status)


def _server_reason(status: int, fields: Mapping[str, str]) -> Ending:
    """A negative status is none of the job's: it says what the server made of it."""
    own: Mapping[int, tuple[str, str]] = {}
    if _OF_OPENPBS & fields.keys():
        own = _OPENPBS
    elif _OF_TORQUE & fields.keys():
        own = _TORQUE
    name, state = (_COMMON | dict(own)).get(status, (None, "FAILED"))
    if name is None:
        return Ending("FAILED" if status > -8 else "UNKNOWN", reason=f"Exit_status={status}")
    return Ending(state, reason=name)


_CLOCKED: Final = re.compile(r"(?:([0-9]{1,6}):)?([0-9]{1,6}):([0-9]{2})\Z")


def _is_over_walltime(fields: Mapping[str, str]) -> bool:
    used, given = (_seconds(fields.get(f"{name}.walltime", "")) for name in ("resources_used", "Resource_List"))
    return used is not None and given is not None and used >= given > 0


def _seconds(text: str) -> int | None:
    if _WHOLE.match(text):
        return int(text)
    match = _CLOCKED.match(text)
    return None if match is None else int(match[1] or 0) * 3600 + int(match[2]) * 60 + int(match[3])
