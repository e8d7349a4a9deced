"""Words of LSF's event records: fields in order, host lists with slots, statuses, reasons of an end.

Sources: https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=files-lsbacct and the numbers of lsbatch.h that it names.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from aftershock.parsers.clock import SECOND
from aftershock.parsers.hostlist import CAP

LATEST: Final = 7_258_118_400

_FIELD: Final = re.compile(r'"(?P<text>[^"]*(?:""[^"]*)*)"(?=[ \t]|\Z)|(?P<word>[^ \t"]+)(?=[ \t]|\Z)')
_BLANKS: Final = re.compile(r"[ \t]*")
_WHOLE: Final = re.compile(r"-?[0-9]{1,19}\Z")
_SLOTS: Final = re.compile(r"(?:[0-9]{1,9}\*)?(?P<host>[A-Za-z0-9_][A-Za-z0-9_.:-]{0,252})\Z")


class BadRecord(Exception):
    """A record that cannot be read; the message says which field is wrong."""


class Fields:
    """The fields of a record, taken one after the other.

    cut: what is wrong with the end of the record, once a field that may be missing was asked for and is.
    """

    def __init__(self, text: str) -> None:
        self._text = text.rstrip()
        self._at = 0
        self.cut: str | None = None

    def text(self, name: str) -> str:
        """The next field as text.

        Raises:
            BadRecord: there is none, or a quote that is never closed.
        """
        self._at = _BLANKS.match(self._text, self._at).end()  # type: ignore[union-attr]
        match = _FIELD.match(self._text, self._at)
        if match is None:
            ended = self._at >= len(self._text) or self._text[self._at] == '"'
            raise BadRecord(f"record is cut short before or in {name}" if ended else f"{name} is no field")
        self._at = match.end()
        return match["word"] if match["text"] is None else match["text"].replace('""', '"')

    def number(self, name: str) -> int:
        """The next field as a whole number.

        Raises:
            BadRecord: there is none, or it is no whole number.
        """
        word = self.text(name)
        if not _WHOLE.match(word):
            raise BadRecord(f"{name} is no whole number")
        return int(word)

    def skip(self, number: int, names: str) -> None:
        """Pass fields that nobody needs."""
        for _ in range(number):
            self.text(names)

    def hosts(self, name: str) -> list[str]:
        """A count and as many hosts, each once, in order: ``2 "16*a" "16*b"``, or each as often as it has slots.

        Raises:
            BadRecord: the count is none, or one of the hosts.
        """
        count = self.number(f"number of {name}")
        if not 0 <= count <= CAP * 64:
            raise BadRecord(f"number of {name} cannot be {count}")
        names: dict[str, None] = {}
        for _ in range(count):
            match = _SLOTS.match(self.text(name))
            if match is None:
                raise BadRecord(f"a name that no host has in {name}")
            names[match["host"]] = None
        return list(names)

    def maybe_text(self, name: str) -> str | None:
        """The next field, None where the record has ended."""
        if self.cut is not None:
            return None
        try:
            return self.text(name)
        except BadRecord as error:
            self.cut = str(error)
            return None

    def maybe_number(self, name: str) -> int | None:
        """The next field as a whole number, None where the record has ended or it is none."""
        word = self.maybe_text(name)
        if word is None:
            return None
        if not _WHOLE.match(word):
            self.cut = f"{name} is no whole number"
            return None
        return int(word)

    def maybe_skip(self, number: int, names: str) -> None:
        """Pass fields that may be missing."""
        for _ in range(number):
            self.maybe_text(names)

    def maybe_list(self, width: int, name: str) -> None:
        """Pass a count and as many entries of some fields each, which may be missing."""
        count = self.maybe_number(f"number of {name}")
        if count is not None and not 0 <= count <= CAP:
            self.cut = f"number of {name} cannot be {count}"
        elif count:
            self.maybe_skip(count * width, name)


def epoch_of(seconds: int) -> int | None:
    """Seconds since 1970 as microseconds; None for 0 and what is no time."""
    return seconds * SECOND if 0 < seconds < LATEST else None


# GPUs in the section of a request that says what is used: a number, for each host, task or job, before other things.
_USED: Final = re.compile(r"(?:^|[\]\s])rusage\[(?P<used>[^\]]*)\]")
_GPUS: Final = re.compile(
    r"(?:^|[,\s])ngpus_physical=(?P<count>[0-9]{1,6})(?:\.0*)?(?:/(?P<each>host|job|task))?(?=[:,\s]|\Z)", re.IGNORECASE
)


def gpus_of(request: str, hosts: int) -> int | None:
    """The GPUs of a job on some hosts, from its effective resource request; None where the request does not tell.

    Requests with alternatives, or with parts for several kinds of hosts, stand for more than one number.
    """
    used = [] if "{" in request else [match["used"] for match in _USED.finditer(request)]
    match = _GPUS.search(used[0]) if len(used) == 1 else None
    if match is None:
        return None
    count, each = int(match["count"]), (match["each"] or "").lower()
    if each == "host":
        return count * hosts
    return count if each == "job" or (not each and hosts == 1) else None


class Ending(NamedTuple):
    """How a job ended: state of a session, exit status, signal, reason, who ended it."""

    state: str
    exit_code: int | None = None
    exit_signal: int | None = None
    reason: str | None = None
    cancelled_by: str | None = None


_EXIT: Final = 0x20
_DONE: Final = 0x40

# Reasons of an end by their number, and the state that each means; "" where the exit status tells.
_REASONS: Final = (
    ("TERM_UNKNOWN", ""),
    ("TERM_PREEMPT", "PREEMPTED"),
    ("TERM_WINDOW", "TIMEOUT"),
    ("TERM_LOAD", ""),
    ("TERM_OTHER", ""),
    ("TERM_RUNLIMIT", "TIMEOUT"),
    ("TERM_DEADLINE", "DEADLINE"),
    ("TERM_PROCESSLIMIT", "FAILED"),
    ("TERM_FORCE_OWNER", "CANCELLED"),
    ("TERM_FORCE_ADMIN", "CANCELLED"),
    ("TERM_REQUEUE_OWNER", "REQUEUED"),
    ("TERM_REQUEUE_ADMIN", "REQUEUED"),
    ("TERM_CPULIMIT", "TIMEOUT"),
    ("TERM_CHKPNT", "REQUEUED"),
    ("TERM_OWNER", "CANCELLED"),
    ("TERM_ADMIN", "CANCELLED"),
    ("TERM_MEMLIMIT", "OUT_OF_MEMORY"),
    ("TERM_EXTERNAL_SIGNAL", ""),
    ("TERM_RMS", "FAILED"),
    ("TERM_ZOMBIE", ""),
    ("TERM_SWAP", "OUT_OF_MEMORY"),
    ("TERM_THREADLIMIT", "FAILED"),
    ("TERM_SLURM", "NODE_FAIL"),
    ("TERM_BUCKET_KILL", "CANCELLED"),
    ("TERM_CTRL_PID", ""),
    ("TERM_CWD_NOTEXIST", "FAILED"),
    ("TERM_REMOVE_HUNG_JOB", ""),
    ("TERM_ORPHAN_SYSTEM", "CANCELLED"),
    ("TERM_PRE_EXEC_FAIL", "FAILED"),
    ("TERM_DATA", "FAILED"),
    ("TERM_MC_RECALL", "REQUEUED"),
    ("TERM_RC_RECLAIM", "REQUEUED"),
    ("TERM_CSM_ALLOC", ""),
    ("TERM_KUBE", ""),
    ("TERM_RC", ""),
)
_OF_OWNER: Final = frozenset({"TERM_OWNER", "TERM_FORCE_OWNER"})
_LAST_SIGNAL: Final = 64


def is_end(status: int) -> bool:
    """Whether a status is that of a job that ended."""
    return bool(status & (_EXIT | _DONE))


def ending_of(status: int | None, exit_status: int | None, reason: int | None, owner: str | None) -> Ending:
    """The ending that a status, an exit status as wait(2) gives it and the number of a reason make together."""
    code, signal = _waited(exit_status)
    name, state = _REASONS[reason] if reason is not None and 0 <= reason < len(_REASONS) else ("", "")
    if status is None or not is_end(status):
        return Ending("UNKNOWN", code, signal, name or None)
    if status & _DONE:
        return Ending("COMPLETED", 0 if exit_status is None else code, signal)
    shown = name if reason else ""
    if not state and shown == "" and reason:
        shown = f"exit reason {reason}"
    return Ending(state or "FAILED", code, signal, shown or None, owner if name in _OF_OWNER else None)


def _waited(exit_status: int | None) -> tuple[int | None, int | None]:
    if exit_status is None or not 0 <= exit_status <= 0xFFFF:
        return None, None
    signal = exit_status & 0x7F
    if signal:
        return None, signal if signal <= _LAST_SIGNAL else None
    return exit_status >> 8, None
