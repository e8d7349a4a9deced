"""Where the sources of one session contradict each other.

A row takes each column from the source that is trusted most; what another source says instead is kept as text. An open
look (a job that still waited or ran) does not contradict a closed one, nor does a time within the resolution of its
source.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from aftershock.pipeline.attempts import OPEN_STATES, SLURM, Record, error_us, is_echo
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session

# Most hosts of a list that are printed.
_SHOWN: Final = 16
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
# States that exclude each other also where one of them is only concluded from the log.
_DISTINCT: Final = frozenset({"TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"})

# A format, what it says, and how wrong a time of it can be, in microseconds.
Said = tuple[str, Any, int]
Same = Callable[[Said, Said], bool]


def conflicts_in(
    row: Session, records: Sequence[Record], log: Iterable[tuple[str, str, Any, int]], tolerance: int
) -> list[str] | None:
    """One text for each column that two sources fill differently; the value of ``row`` comes first.

    records: by trust. log: what lines say, by trust, as (column, format, value, error of a time in microseconds).
    tolerance: of times, microseconds.
    """
    told = list(log)
    if len(records) < 2 and not told:
        return None
    found = []
    for column, same in _COLUMNS:
        taken = getattr(row, column)
        if taken is None:
            continue
        said = [
            (origin, value, error_us(record))
            for origin, record in records
            if (value := getattr(record, column)) is not None and (column not in _OF_END or _closed(record))
        ]
        said += [(origin, value, error) for name, origin, value, error in told if name == column]
        if len(said) > 1:
            text = _against(column, taken, said, partial(same, tolerance))
            if text:
                found.append(text)
    return found or None


def _closed(record: Session) -> bool:
    return record.state is not None and record.state not in OPEN_STATES


def _against(column: str, taken: Any, said: Sequence[Said], same: Same) -> str | None:
    first = next((s for s in said if s[1] == taken), None) or next((s for s in said if same(s, ("", taken, 0))), None)
    if first is None:
        return None  # what was taken is no source's own word
    others: list[Said] = []
    for one in said:
        if not same(first, one) and not any(one[1] == other[1] for other in others):
            others.append(one)
    if not others:
        return None
    printed = [f"{_shown(value)} ({origin})" for origin, value, _ in (first, *others)]
    return f"{column}: {printed[0]} against {', '.join(printed[1:])}"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        names = sorted(value)
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return (",".join(names[:_SHOWN]) or "none") + more
    if isinstance(value, int) and abs(value) > 10**12:  # no number of hosts or exit code is that large
        return (_EPOCH + dt.timedelta(microseconds=value)).isoformat().replace("+00:00", "Z")
    return str(value)


def _equal(_tolerance: int, one: Said, other: Said) -> bool:
    return bool(one[1] == other[1])


def _users(_tolerance: int, one: Said, other: Said) -> bool:
    # A number may be the id of the name.
    return bool(one[1] == other[1]) or one[1].isdigit() != other[1].isdigit()


def _partitions(_tolerance: int, one: Said, other: Said) -> bool:
    # A job may be submitted to several, and runs in one of them.
    return bool(set(one[1].split(",")) & set(other[1].split(",")))


def _sets(_tolerance: int, one: Said, other: Said) -> bool:
    return set(one[1]) == set(other[1])


def _hosts(_tolerance: int, one: Said, other: Said) -> bool:
    # A source without a list of hosts prints none.
    return not one[1] or not other[1] or set(one[1]) == set(other[1])


def _times(tolerance: int, one: Said, other: Said) -> bool:
    return bool(abs(one[1] - other[1]) <= tolerance + one[2] + other[2])


def _states(_tolerance: int, one: Said, other: Said) -> bool:
    pair = {one[1], other[1]}
    return len(pair) == 1 or "UNKNOWN" in pair


def _exits(_tolerance: int, one: Said, other: Said) -> bool:
    # Accounting prints exit statuses above 128 less 128.
    return bool(one[1] == other[1] or (abs(one[1] - other[1]) == 128 and min(one[1], other[1]) > 0))


_COLUMNS: Final[tuple[tuple[str, Callable[[int, Said, Said], bool]], ...]] = (
    ("name", _equal),
    ("user", _users),
    ("work_dir", _equal),
    ("partition", _partitions),
    ("hosts", _hosts),
    ("n_gpus", _equal),
    ("submit_time", _times),
    ("start_time", _times),
    ("end_time", _times),
    ("state", _states),
    ("exit_code", _exits),
    ("exit_signal", _equal),
    ("excluded_hosts", _sets),
    ("designated_hosts", _sets),
    ("retry_of", _equal),
)
# No contradiction is a command: accounting keeps the submit line, the controller shows the script.
_OF_END: Final = frozenset({"end_time", "state", "exit_code", "exit_signal"})


def states_exclude(recorded: str | None, logged: str | None) -> bool:
    """Whether a state concluded from the log contradicts a recorded one.

    A job that was cancelled or requeued has failed by its exit status too: those two go together.
    """
    if recorded is None or logged is None or recorded == logged:
        return False
    if "COMPLETED" in (recorded, logged):
        return not {recorded, logged} & {"UNKNOWN", "RUNNING", "PENDING"}
    return {recorded, logged} <= _DISTINCT


def log_says(
    events: Sequence[SchedulerEvent],
    closing: SchedulerEvent | None,
    state: str | None,
    origin: Callable[[SchedulerEvent], str],
) -> list[tuple[str, str, Any, int]]:
    """What lines say of the columns of a session. ``state``: of the end, where the log tells it."""
    said: list[tuple[str, str, Any, int]] = []
    for event in events:
        # Elsewhere than at Slurm a line tells of one container.
        if event.kind == "started" and event.scheduler in (None, SLURM):
            said.append(("start_time", origin(event), event.time, error_us(event)))
            if event.hosts:
                said.append(("hosts", origin(event), event.hosts, 0))
            break
    if closing is not None:
        if not is_echo(closing):  # which is printed when the last process is gone
            said.append(("end_time", origin(closing), closing.time, error_us(closing)))
        if state is not None:
            said.append(("state", origin(closing), state, 0))
    return said
