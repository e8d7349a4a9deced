"""What stands before a line of training output: labels of launchers, ranks, the stamps of loggers, in any nesting.

     3: [default7]:[2023-06-07 22:16:00,018] [INFO] [logging.py:96:log_dist] [Rank 0] ...
    [rank1]:[E410 01:50:33.889423318 ProcessGroupNCCL.cpp:1895] ...
    (RayTrainWorker pid=811, ip=10.0.0.7) 2026-03-01 10:20:30,123 - root - INFO - ...
    (worker1, rank=1, pid=811, ip=10.0.0.7) ...    (SkyPilot: the rank is that of the node)
    [1,12]<stdout>: [NeMo I 2026-03-01 10:20:30 exp_manager:400] ...

``[defaultN]`` and torchrun's local_rank count within a host, ``[rankN]`` counts over all hosts, and the label of ``srun
--label`` is a task, which may be a rank or a whole host. Stamps of Google's loggers have no year, and no blank between
month and day: in PyTorch's C++ the month is not padded (``E410``).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from aftershock.parsers.clock import (
    NO_CLOCK,
    SECOND,
    YEARLESS,
    Reading,
    fraction_micros,
    wall_micros,
    zone_offset_micros,
)
from aftershock.parsers.envelopes.layer import clocks_together, text_of

# Zones differ by quarters of an hour, and a collector stamps a line soon after it was written.
_ZONE_STEP: Final = 900 * SECOND
_MOST_OFFSET: Final = 14 * 3600 * SECOND
_MOST_DELAY: Final = 120 * SECOND

# Layers that are taken off one line. Real lines have five at most.
_MOST: Final = 8


class Prefix(NamedTuple):
    """What the prefixes of a line say, and the message behind them (from its first byte that is no blank).

    task: the label of ``srun --label``. level: as printed (``INFO``, ``E``). label: the bytes that name the writer, by
    which lines of one writer are known. repeated: how many lines Ray folded into this one.
    """

    message: bytes
    reading: Reading = NO_CLOCK
    host: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    task: int | None = None
    level: str | None = None
    label: bytes = b""
    repeated: int = 1


_ANSI: Final = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>78cM]")
_LEVELS: Final = rb"(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|TRACE|NOTICE)"
_FILE: Final = rb"[\w./<>-]{1,80}:\d{1,6}(?::[\w<>.]{1,64})?"

_TASK: Final = re.compile(rb"(?:P\d{1,4} )?(\d{1,6}):(?: |(?!\d\d:\d\d\b))")
_RANK: Final = re.compile(rb"\[rank:? ?(\d{1,6})\](?::| )? ?", re.IGNORECASE)
_ROLE: Final = re.compile(rb"\[(?:default|trainer|worker|[a-z]{3,16}_?)(\d{1,4})\]: ?")
_MPI: Final = re.compile(rb"\[(?:\d{1,6},)?(\d{1,6})\]<std(?:out|err|diag)>: ?")
_RAY: Final = re.compile(
    rb"\((?:(?=[\w.:<>-]{1,80}(?:, rank=\d{1,6})?,? pid=|pid=)[^()\n]{0,100}?pid=\d{1,9}"
    rb"|(?:raylet|gcs_server|autoscaler)(?=[,)]))(?:, ip=([\w.:-]{1,64}))?[^()\n]{0,40}\) ?"
)
_RAY_FOLDED: Final = re.compile(rb" \[repeated (\d{1,6})x across cluster\](?: \(Ray deduplicates logs.{0,300})?\s*\Z")
_NODE: Final = re.compile(
    rb"(?=[A-Za-z0-9.-]{0,60}\d)(?!E[A-Z]\d{4}:)([A-Za-z][A-Za-z0-9.-]{0,60}): ?"
    rb"(?=\[|\d{4}-\d\d-\d\d|\d{1,6}: |iteration +\d|Traceback \(|\{'|:::MLLOG|[A-Z]\d{3,4} \d\d:|\w+Error: )"
)
_DATE: Final = re.compile(
    rb"(?:\[(?:titan|rank\d+|[A-Za-z][\w.-]{0,30})\] )?(?P<open>\[)?"
    rb"(?P<text>(?P<y>\d{4})[-/](?P<m>\d\d)[-/](?P<d>\d\d)[ T:_](?P<t>\d\d:\d\d:\d\d)(?:[.,](?P<f>\d{1,9}))?"
    rb"(?P<z>Z|[+-]\d\d:?\d\d)?)(?P<zone> ?UTC)?(?(open)\])"
)
# ``03/01/2026 10:20:30`` of Hugging Face's scripts, ``[03/01/26 10:20:30]`` of rich: month first.
_US_DATE: Final = re.compile(
    rb"(?P<open>\[)?(?P<text>(?P<m>\d\d)/(?P<d>\d\d)/(?P<y>\d{4}|\d\d) (?P<t>\d\d:\d\d:\d\d))(?(open)\])"
)
_NEMO: Final = re.compile(
    rb"\[NeMo (?P<level>[A-Z]) (?P<text>(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d) (?P<t>\d\d:\d\d:\d\d))"
    rb"(?: (?:nemo_logging|[\w./-]{1,80})(?::\d{1,6})?)?\] ?"
)
# Hugging Face's own logger: ``[INFO|trainer.py:2134] 2026-03-01 10:20:30,123 >> ``.
_HF: Final = re.compile(rb"\[(?P<level>" + _LEVELS + rb")\|[\w./-]{1,80}:\d{1,6}\] ")
_GLOG: Final = re.compile(
    rb"\[?(?P<level>[IWEFV])(?P<md>\d{3,4}) (?P<text>(?P<t>\d\d:\d\d:\d\d)\.(?P<f>\d{1,9}))"
    rb"(?: +\d{1,20})?(?: [\w./+-]{1,200}:\d{1,6})?\] ?"
)
_PG: Final = re.compile(rb"\[(?P<level>[IWEF]) [\w./+-]{1,100}\.(?:cpp|cc|h|hpp):\d{1,6}\] ?")
# ``[node01] [workload:7(3) infra:0(0)] train.py:12 `` of nvidia-resiliency-ext: global and local rank.
_NVRX: Final = re.compile(
    rb"\[(?P<host>[\w.-]{1,64})\] \[workload:(?P<rank>\w{1,8})\((?P<local>\w{1,8})\) infra:[^\]\n]{1,24}\] "
    rb"(?:[\w./-]{1,80}:\d{1,6} )?"
)
# ``[03/01 10:20:30 d2.utils.events]: `` of Detectron2, ``03/01 10:20:30 - mmengine - INFO - `` of MMEngine: no year.
_NO_YEAR: Final = re.compile(
    rb"(?P<open>\[)?(?P<text>(?P<m>\d\d)/(?P<d>\d\d) (?P<t>\d\d:\d\d:\d\d))(?(open) [\w.]{1,80}\]:|(?= - ))"
)
# ``ERROR 03-01 10:20:30 [core.py:718] `` of vLLM, its file without a bracket before it in early releases: no year.
_VLLM: Final = re.compile(
    rb"(?P<level>" + _LEVELS + rb") (?P<text>(?P<m>\d\d)-(?P<d>\d\d) (?P<t>\d\d:\d\d:\d\d))(?:\.\d{1,9})? "
    rb"\[?[\w./-]{1,100}:\d{1,6}\] ?"
)
# ``trainer/0 [default3]:`` of TorchX and NeMo-Run: role and replica.
_REPLICA: Final = re.compile(rb"[A-Za-z][\w.-]{0,60}/\d{1,6} (?=\[(?:default|rank|trainer)\d{1,6}\])")
# The time of day alone, before a label or a stamp: no clock, for the day is not known.
_TIME: Final = re.compile(rb"\[?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]? +(?=\[|[IWEF]\d{4} |Traceback |\w+Error: )")
# What loggers put behind their stamp: level, name, file and line, pid, in brackets or between hyphens, bars or blanks.
_LOGGER: Final = re.compile(
    rb"(?:[ \t]*[-|:][ \t]*|[ \t]+)?(?:"
    rb"\[?(?P<level>"
    + _LEVELS
    + rb")\]?(?=[\s:|\]-])(?:[ \t]{0,10}(?:\["
    + _FILE
    + rb"(?:, rank=(?P<rank>\d{1,6}))?\]))?"
    rb"|\[" + _FILE + rb"(?:, rank=(?P<rank2>\d{1,6}))?\]"
    rb"|(?P<host>[\w.-]{1,64}):(?P<local>\d{1,3})(?=\t|  )"
    rb"|[\w.]{1,64}:\d{1,6}(?=[ \t])"
    rb"|[\w.]{1,80}:[\w<>]{1,80}:\d{1,6}(?= - )"
    rb"|\[[\w.]{1,80}\]\[(?P<level2>" + _LEVELS + rb")\](?= - )"
    rb"|(?:root|__main__|[\w.]{1,80})(?= - )"
    rb"|(?<=- )[\w.]{1,80}(?= -)"
    rb")"
)
_BASIC: Final = re.compile(rb"(?P<level>" + _LEVELS + rb"):[\w.]{1,100}:(?:\[\w{1,32}\] ?)?")
_TAIL: Final = re.compile(rb"[ \t]*(?:- |\| |: |>> |\t)?")


def clean(line: bytes) -> bytes:
    """A line without colours and the commands that clear or move on a terminal."""
    return _ANSI.sub(b"", line) if b"\x1b" in line else line


def peel_all(text: bytes, reading: Reading = NO_CLOCK, host: str | None = None) -> Prefix:
    """Take all prefixes off a line. ``reading``, ``host``: of the envelope that it stood in."""
    found = Prefix(clean(text).strip(b" \t\r"), reading, host)
    for _ in range(_MOST):
        peeled = (
            next((next_ for peel in _BY_FIRST[found.message[0]] if (next_ := peel(found))), None)
            if found.message
            else None
        )
        if peeled is None:
            break
        found = peeled._replace(message=peeled.message.lstrip(b" \t"))
    folded = _RAY_FOLDED.search(found.message) if b"across cluster]" in found.message else None
    if folded is not None:
        found = found._replace(message=found.message[: folded.start()], repeated=int(folded[1]))
    return found


def _peel_task(at: Prefix) -> Prefix | None:
    found = _TASK.match(at.message)
    # Behind the stamp of a logger a number is no label; behind that of a collector it may be one.
    if found is None or at.task is not None or at.reading.kind in ("local", "yearless"):
        return None
    return at._replace(message=at.message[found.end() :], task=int(found[1]), label=at.label + found[0])


def _peel_rank(at: Prefix) -> Prefix | None:
    found = _RANK.match(at.message) or _MPI.match(at.message)
    if found is None:
        return None
    rank = at.rank if at.rank is not None else int(found[1])
    return at._replace(message=at.message[found.end() :], rank=rank, label=at.label + found[0])


def _peel_role(at: Prefix) -> Prefix | None:
    found = _ROLE.match(at.message)
    if found is None:
        return None
    return at._replace(message=at.message[found.end() :], local_rank=int(found[1]), label=at.label + found[0])


def _peel_ray(at: Prefix) -> Prefix | None:
    found = _RAY.match(at.message)
    if found is None:
        return None
    host = text_of(found[1]) if found[1] else at.host
    return at._replace(message=at.message[found.end() :], host=host, label=at.label + found[0])


def _peel_node(at: Prefix) -> Prefix | None:
    found = _NODE.match(at.message)
    if found is None or at.host is not None:
        return None
    return at._replace(message=at.message[found.end() :], host=text_of(found[1]), label=at.label + found[0])


def _peel_date(at: Prefix) -> Prefix | None:
    found = _DATE.match(at.message) or _US_DATE.match(at.message)
    return None if found is None else _stamped(at, found, found.groupdict().get("z"))


def _peel_time(at: Prefix) -> Prefix | None:
    found = _TIME.match(at.message)
    return None if found is None else at._replace(message=at.message[found.end() :])


def _peel_nvrx(at: Prefix) -> Prefix | None:
    found = _NVRX.match(at.message)
    if found is None:
        return None
    rank = int(found["rank"]) if found["rank"].isdigit() else at.rank
    local = int(found["local"]) if found["local"].isdigit() else at.local_rank
    host = text_of(found["host"])
    return at._replace(message=at.message[found.end() :], host=host, rank=rank, local_rank=local)


def _peel_no_year(at: Prefix) -> Prefix | None:
    found = _NO_YEAR.match(at.message)
    wall = None if found is None else _wall(YEARLESS, int(found["m"]), int(found["d"]), found["t"])
    if found is None or wall is None:
        return None
    reading = Reading("yearless", wall, None, None, SECOND, text_of(found["text"]))
    return _behind_logger(at, found.end())._replace(reading=_together(at.reading, reading))


def _peel_vllm(at: Prefix) -> Prefix | None:
    found = _VLLM.match(at.message)
    wall = None if found is None else _wall(YEARLESS, int(found["m"]), int(found["d"]), found["t"])
    if found is None or wall is None:
        return None
    reading = _together(at.reading, Reading("yearless", wall, None, None, SECOND, text_of(found["text"])))
    return at._replace(message=at.message[found.end() :], reading=reading, level=text_of(found["level"]))


def _peel_replica(at: Prefix) -> Prefix | None:
    found = _REPLICA.match(at.message)
    return None if found is None else at._replace(message=at.message[found.end() :], label=at.label + found[0])


def _peel_nemo(at: Prefix) -> Prefix | None:
    found = _NEMO.match(at.message)
    if found is None:
        return None
    return (_stamped(at, found, None) or at)._replace(level=text_of(found["level"]), message=at.message[found.end() :])


def _peel_hf(at: Prefix) -> Prefix | None:
    found = _HF.match(at.message)
    return None if found is None else at._replace(message=at.message[found.end() :], level=text_of(found["level"]))


def _peel_glog(at: Prefix) -> Prefix | None:
    found = _GLOG.match(at.message)
    if found is None:
        bare = _PG.match(at.message)
        return None if bare is None else at._replace(message=at.message[bare.end() :], level=text_of(bare["level"]))
    printed = found["level"] + found["md"] + b" " + found["text"]
    reading = glog_reading(found["md"], found["t"], found["f"], printed)
    level = text_of(found["level"])
    return at._replace(message=at.message[found.end() :], reading=_together(at.reading, reading), level=level)


def _peel_basic(at: Prefix) -> Prefix | None:
    found = _BASIC.match(at.message)
    return None if found is None else at._replace(message=at.message[found.end() :], level=text_of(found["level"]))


def _stamped(at: Prefix, found: re.Match[bytes], zone: bytes | None) -> Prefix | None:
    """The line behind a stamp and behind what its logger puts there."""
    reading = _reading(found, zone)
    if reading is None:
        return None
    return _behind_logger(at, found.end())._replace(reading=_together(at.reading, reading))


def _reading(found: re.Match[bytes], zone: bytes | None) -> Reading | None:
    year = int(found["y"])
    wall = _wall(year if year > 99 else 2000 + year, int(found["m"]), int(found["d"]), found["t"])
    if wall is None:
        return None
    groups = found.groupdict()
    micros, resolution = fraction_micros(groups.get("f"))
    text = text_of(found["text"])
    offset = zone_offset_micros(zone) if zone else 0 if groups.get("zone") else None
    if offset is None:
        return Reading("local", wall + micros, None, None, resolution, text)
    return Reading("zoned", wall + micros - offset, None, None, resolution, text)


def _behind_logger(at: Prefix, end: int) -> Prefix:
    rank, level, host, local = at.rank, at.level, at.host, at.local_rank
    data = at.message
    for number in range(4):
        found = _LOGGER.match(data, end)
        if found is None:
            break
        end = found.end()
        named = found["level"] or found["level2"]
        level = text_of(named) if named else level
        printed = found["rank"] or found["rank2"]
        rank = int(printed) if printed else rank
        if found["host"] and number == 0:  # behind it the same shape is a module and a line
            host, local = text_of(found["host"]), int(found["local"])
    tail = _TAIL.match(data, end)
    end = tail.end() if tail is not None else end
    return at._replace(message=data[end:], rank=rank, level=level, host=host, local_rank=local)


def reading_of(printed: bytes) -> Reading | None:
    """The clock of a date and time that stand within a record: ``2026-03-01 10:20:30.123456``; None if it is none."""
    found = _DATE.match(printed)
    return None if found is None else _reading(found, found["z"])


def _together(outer: Reading, inner: Reading) -> Reading:
    """The clock of a line that has two: an absolute one around a local one says in which zone, and year, that is."""
    if outer is NO_CLOCK:
        return inner
    if outer.kind in ("zoned", "epoch") and inner.kind in ("local", "yearless") and outer.wall and inner.wall:
        wall = inner.wall if inner.kind == "local" else _in_year_of(outer.wall, inner.wall)
        offset = round((wall - outer.wall) / _ZONE_STEP) * _ZONE_STEP
        if abs(offset) <= _MOST_OFFSET and abs(wall - offset - outer.wall) <= _MOST_DELAY:
            return Reading("zoned", wall - offset, None, None, inner.resolution, inner.text)
    return clocks_together(outer, inner)


def _in_year_of(moment: int, yearless: int) -> int:
    """A wall clock of the year 1972 in the year in which it is nearest to a moment."""
    year = time.gmtime(moment // SECOND).tm_year
    shown = time.gmtime(yearless // SECOND)
    day = (shown.tm_mon, shown.tm_mday, shown.tm_hour, shown.tm_min, shown.tm_sec)
    walls = (wall_micros(near, *day, yearless % SECOND) for near in (year - 1, year, year + 1))
    return min((wall for wall in walls if wall is not None), key=lambda wall: abs(wall - moment), default=yearless)


@lru_cache(maxsize=4096)
def _wall(year: int, month: int, day: int, time: bytes) -> int | None:
    hour, minute, second = time.split(b":")
    return wall_micros(year, month, day, int(hour), int(minute), int(second))


def glog_reading(month_day: bytes, time: bytes, fraction: bytes | None, printed: bytes) -> Reading:
    """The clock of ``E0410 01:50:33.889423``: no year, no zone; a month of one digit may stand without its zero.

    ``E129`` is Jan 29 rather than Dec 9: the day always has two digits.
    """
    month, day = int(month_day[:-2]), int(month_day[-2:])
    wall = _wall(YEARLESS, month, day, time)
    if wall is None:
        return NO_CLOCK
    micros, resolution = fraction_micros(fraction)
    return Reading("yearless", wall + micros, None, None, resolution, text_of(printed))


_Peel = Callable[[Prefix], Prefix | None]


def _by_first() -> tuple[tuple[_Peel, ...], ...]:
    table: list[tuple[_Peel, ...]] = [()] * 256
    for byte in range(256):
        char = bytes([byte])
        if char.isdigit() or char == b"P":
            table[byte] = (_peel_date, _peel_task, _peel_no_year, _peel_time)
        elif char == b"[":
            table[byte] = (
                *(_peel_rank, _peel_role, _peel_nemo, _peel_glog, _peel_hf, _peel_date, _peel_nvrx),
                *(_peel_no_year, _peel_time),
            )
        elif char == b"(":
            table[byte] = (_peel_ray,)
        elif char.isalpha():
            table[byte] = (_peel_glog, _peel_basic, _peel_vllm, _peel_replica, _peel_node)
    return tuple(table)


_BY_FIRST: Final = _by_first()
