"""Grid Engine (SGE and what came of it): its accounting, raw and as qacct tells it.

    gpu.q:dgx07:ml:mira:bert:812:sge:0:1738569590:1738569605:1738573811:0:0:4206:...        common/accounting

    ==============================================================                          qacct -j
    qname        gpu.q
    hostname     dgx07
    owner        mira
    jobname      bert
    jobnumber    812
    start_time   Mon Feb  3 08:00:05 2025
    failed       100 : assumedly after job

Documented at https://manpages.debian.org/testing/gridengine-common/sge_accounting.5.en.html. Times of the file are
seconds since 1970, milliseconds in the commercial versions; those of qacct are local and have no zone. A job on several
hosts has one record for each task that was started on another host, where the settings ask for them: they are one
session. How many GPUs a request gives depends on the settings, unless the job has one slot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK, SECOND, Reading, wall_micros
from aftershock.parsers.documents.text_lines import chunks_of, lines_of
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.parsers.slurm_words import LAST_SIGNAL
from aftershock.schemas.sessions import Session

# The fields of a line, in order; usage of resources is not read. Newer versions append.
_NAMES: Final = {
    0: "qname",
    1: "hostname",
    3: "owner",
    4: "jobname",
    5: "jobnumber",
    8: "qsub_time",
    9: "start_time",
    10: "end_time",
    11: "failed",
    12: "exit_status",
    34: "slots",
    35: "taskid",
    39: "category",
    41: "pe_taskid",
}
_LEAST: Final = 43
_LINE: Final = re.compile(
    rb"[^:\s]{1,128}:[^:\s]{1,253}:[^:]{1,64}:[^:]{1,64}:[^:]{0,512}:[1-9][0-9]{0,9}:[^:]{0,256}:-?[0-9]{1,5}"
    rb"(?::[0-9]{1,13}){3}:[0-9]{1,3}:[0-9]{1,3}:[0-9.]"
)
_RULE: Final = re.compile(rb"={40,80}\s*\Z")
_FIELD: Final = re.compile(r"(?P<key>[a-z][a-z_]{1,31}) +(?P<value>\S.*)\Z")
_FIRST: Final = re.compile(rb"qname +\S")
_SHOWN: Final = re.compile(
    r"(?:[A-Z][a-z]{2} (?P<name>[A-Z][a-z]{2}) +(?P<day>\d{1,2}) (?P<time>\d\d:\d\d:\d\d) (?P<year>\d{4})"
    r"|(?P<month>\d\d)/(?P<day2>\d\d)/(?P<year2>\d{4}) (?P<time2>\d\d:\d\d:\d\d)(?:\.\d{1,6})?"
    r"|(?P<year3>\d{4})-(?P<month3>\d\d)-(?P<day3>\d\d) (?P<time3>\d\d:\d\d:\d\d)(?:\.\d{1,6})?)\Z"
)
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NONE: Final = frozenset({"NONE", "none", "undefined", "-/-", "0", ""})
_TIMES: Final = ("qsub_time", "start_time", "end_time")
_GPUS: Final = re.compile(r"(?:\A|[ ,])(?:n?gpus?|gpu_count)=(?P<number>[0-9]{1,4})(?:\.0+)?(?=[ ,]|\Z)")
_MILLIS: Final = 100_000_000_000
# Codes of `failed` that the state follows from, and the words that qacct has for those.
_REQUEUED: Final = {24: "migrating", 25: "rescheduling"}
_LIMIT: Final = {37: "qmaster enforced h_rt limit"}
_WORDS: Final = {
    1: "assumedly before job",
    7: "before prolog",
    8: "in prolog",
    10: "in pestart",
    11: "before job",
    13: "in pestop",
    15: "in epilog",
    18: "shepherd returned error",
    19: "before writing exit_status",
    21: "in recognizing job",
    26: "opening input/output file",
    27: "searching requested shell",
    28: "changing into working directory",
    100: "assumedly after job",
    **_REQUEUED,
    **_LIMIT,
}
_SLAVE: Final = "slave"
_LONGEST: Final = 4096


def detects(head: Head) -> float:
    """Sure of lines that have the fields of a record, and of blocks that begin as those of qacct."""
    lines = head.lines(60)
    if any(_RULE.match(line) and _FIRST.match(below) for line, below in pairwise(lines)):
        return 0.9
    told = [line for line in lines[:20] if len(line) > 1 and not line.startswith(b"#")]
    return 0.9 if told and all(_LINE.match(line) for line in told[:-1] or told) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The session of each record."""
    block: dict[str, str] | None = None
    blocks = False
    began = size = 0
    for offset, raw in lines_of(chunks_of(stream)):
        if _RULE.match(raw):
            blocks = True
            if block:
                yield from _session(block, began, size)
            block, began, size = {}, offset, len(raw)
        elif block is not None:
            field = _FIELD.match(raw.decode("utf-8", "backslashreplace").rstrip())
            if field is not None:
                block.setdefault(field["key"], field["value"])
                size = offset + len(raw) - began
            elif block and not raw.strip():  # sums over all jobs may stand below
                yield from _session(block, began, size)
                block = None
        elif _LINE.match(raw):
            cells = raw.decode("utf-8", "backslashreplace").split(":")
            if len(cells) < _LEAST:
                yield Refused(offset, len(raw), "gridengine: record is cut short", raw[:512])
            else:
                yield from _session({name: cells[at] for at, name in _NAMES.items()}, offset, len(raw))
        elif raw.strip() and not raw.startswith(b"#") and not blocks:
            yield Refused(offset, len(raw), "gridengine: a record with other fields", raw[:512])
    if block:
        yield from _session(block, began, size)


def _session(fields: Mapping[str, str], offset: int, size: int) -> Iterator[Found | Refused]:
    number = fields.get("jobnumber", "")
    if not number.isdigit():
        if "jobnumber" in fields or "hostname" in fields:
            yield Refused(offset, size, "gridengine: a record without its job number")
        return
    times = {name: _time(fields.get(name, "")) for name in _TIMES}
    wrong = [name for name in _TIMES if times[name] is None and fields.get(name, "") not in _NONE]
    if wrong:
        yield Refused(offset, size, f"gridengine: {', '.join(wrong)} is not read", fields[wrong[0]].encode()[:512])
    start, end = times["start_time"], times["end_time"]
    placed = start is not None
    host = fields.get("hostname", "")
    hosts = [host] if placed and host and host not in _NONE and host.upper() != "UNKNOWN" else []
    task = fields.get("taskid", "")
    shown = number if task in _NONE else f"{number}.{task}"
    row = Session(
        scheduler="gridengine",
        job_id=shown,
        raw_job_id=shown,
        name=fields.get("jobname") or None,
        user=fields.get("owner") or None,
        work_dir=fields.get("cwd") if fields.get("cwd") not in _NONE else None,
        partition=fields.get("qname") if fields.get("qname") not in _NONE else None,
        command=fields["submit_cmd"][:_LONGEST] if fields.get("submit_cmd", "NONE") not in _NONE else None,
        hosts=hosts,
        n_hosts=len(hosts),
        n_gpus=_gpus(fields) if placed else None,
        submit_time=_wall(times["qsub_time"]),
        start_time=_wall(start),
        end_time=_wall(end),
    )
    if row.start_time is not None and row.end_time is not None and row.end_time >= row.start_time:
        row.duration_s = (row.end_time - row.start_time) / SECOND
    _end(row, fields, placed)
    reading = next((clock for clock in (end, start, times["qsub_time"]) if clock), NO_CLOCK)
    yield Found(row, reading, offset, _SLAVE if fields.get("pe_taskid", "NONE") not in _NONE else "")


def _wall(clock: Reading | None) -> int | None:
    return clock.wall if clock is not None else None


def _end(row: Session, fields: Mapping[str, str], placed: bool) -> None:
    """How a job ended: whether the system failed, and what the job returned."""
    code, _, words = fields.get("failed", "").partition(" : ")
    failed = int(code) if code.strip().isdigit() else None
    status = re.match(r"[0-9]{1,3}(?![0-9])", fields.get("exit_status", ""))
    returned = int(status[0]) if status and placed else None
    if returned is not None and 128 < returned <= 128 + LAST_SIGNAL:
        row.exit_signal = returned - 128
    row.exit_code = returned
    by = fields.get("deleted_by") or fields.get("qdel_info") or ""
    if failed:
        row.end_reason = words.strip() or _WORDS.get(failed) or f"failed {failed}"
    if by not in _NONE:
        row.state, row.cancelled_by = "CANCELLED", by.partition("@")[0] or None
    elif failed in _REQUEUED:
        row.state = "REQUEUED"
    elif failed in _LIMIT:
        row.state = "TIMEOUT"
    elif failed is None and returned is None:
        row.state = "UNKNOWN"
    else:
        row.state = "FAILED" if failed or returned else "COMPLETED"


def _gpus(fields: Mapping[str, str]) -> int | None:
    found = _GPUS.search(fields.get("category", "")) if fields.get("slots") == "1" else None
    return int(found["number"]) if found else None


def _time(text: str) -> Reading | None:
    if text in _NONE:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 13:
        number = int(text)
        micros = number * 1000 if number > _MILLIS else number * SECOND
        return Reading("epoch", micros, resolution=1000 if number > _MILLIS else SECOND, text=text)
    shown = _SHOWN.match(text)
    if shown is None:
        return None
    if shown["name"]:
        if shown["name"] not in _MONTHS:
            return None
        month = _MONTHS.index(shown["name"]) + 1
    else:
        month = int(shown["month"] or shown["month3"])
    year = int(shown["year"] or shown["year2"] or shown["year3"])
    day = int(shown["day"] or shown["day2"] or shown["day3"])
    clock = (shown["time"] or shown["time2"] or shown["time3"]).split(":")
    wall = wall_micros(year, month, day, *(int(part) for part in clock))
    return Reading("local", wall, resolution=SECOND, text=text) if wall is not None else None


def settle(found: list[Found]) -> list[Found]:
    """Tasks that a job started on other hosts are a part of it: of them only the host counts."""
    kept: list[Found] = []
    waiting: dict[str | None, list[str]] = {}
    for item in found:
        row = item.row
        assert isinstance(row, Session)
        if item.mark == _SLAVE:
            waiting.setdefault(row.raw_job_id, []).extend(row.hosts or ())
            continue
        others = waiting.pop(row.raw_job_id, [])
        if row.hosts:
            row.hosts = list(dict.fromkeys([*row.hosts, *others]))
            row.n_hosts = len(row.hosts)
        kept.append(item)
    return kept


def _line(job: str, host: str, times: str, end: str, slots: str, task: str, pe_task: str) -> str:
    usage = "0:" * 17
    return (
        f"gpu.q:{host}:ml:mira:{job}:sge:0:{times}:{end}:4206:{usage}NONE:defaultdepartment:NONE:{slots}:{task}"
        f":100.5:0.2:0.1:-l gpu=8:0.0:{pe_task}:1024.0:0:0\n"
    )


FORMAT: Final = DocumentFormat(
    name="gridengine",
    doc="The accounting file of Grid Engine and what `qacct -j` prints of it: a row for each job, array task and run.",
    url="https://manpages.debian.org/testing/gridengine-common/sge_accounting.5.en.html",
    tables=("sessions",),
    detects=detects,
    read=read,
    settle=settle,
    samples=(
        Sample(
            "# Version: 8.1.9\n"
            + _line("bert:812", "dgx07", "1738569590:1738569605:1738573811", "0:0", "1", "0", "NONE")
            + _line("bert:813", "dgx09", "0:1738569606:1738573811", "0:0", "1", "0", "1.dgx09")
            + _line("bert:813", "dgx08", "1738569590:1738569605:1738573811", "100:137", "16", "0", "NONE")
            + _line("eval:814", "dgx08", "1738569590:1738569605:1738573811", "25:99", "16", "3", "NONE")
            + _line("eval:815", "dgx08", "1738569590:0:0", "7:0", "16", "0", "NONE"),
            (
                expect(
                    "sessions",
                    job_id="812",
                    user="mira",
                    partition="gpu.q",
                    hosts=["dgx07"],
                    n_gpus=8,
                    state="COMPLETED",
                    exit_code=0,
                    duration_s=4206.0,
                    end_time=1_738_573_811_000_000,
                ),
                expect(
                    "sessions",
                    job_id="813",
                    hosts=["dgx08", "dgx09"],
                    n_gpus=None,
                    state="FAILED",
                    exit_code=137,
                    exit_signal=9,
                    end_reason="assumedly after job",
                ),
                expect("sessions", job_id="814.3", state="REQUEUED", end_reason="rescheduling"),
                expect("sessions", job_id="815", state="FAILED", hosts=[], start_time=None, exit_code=None),
            ),
        ),
        Sample(
            "==============================================================\n"
            "qname        gpu.q               \n"
            "hostname     dgx07               \n"
            "group        ml                  \n"
            "owner        mira                \n"
            "jobname      bert                \n"
            "jobnumber    812                 \n"
            "taskid       undefined\n"
            "qsub_time    Mon Feb  3 07:59:50 2025\n"
            "start_time   Mon Feb  3 08:00:05 2025\n"
            "end_time     Mon Feb  3 09:10:11 2025\n"
            "granted_pe   NONE                \n"
            "slots        1                   \n"
            "failed       37  : qmaster enforced h_rt limit\n"
            "exit_status  137                  (Killed)\n"
            "ru_wallclock 4206s\n"
            "category     -l gpu=4,h_rt=4200\n"
            "==============================================================\n"
            "qname        gpu.q               \n"
            "hostname     dgx08               \n"
            "owner        mira                \n"
            "jobnumber    816                 \n"
            "taskid       2                   \n"
            "start_time   02/03/2025 08:00:05.127\n"
            "end_time     02/03/2025 08:10:05.127\n"
            "failed       100 : assumedly after job\n"
            "deleted_by   nils@login1\n"
            "exit_status  137\n",
            (
                expect("sessions", job_id="812", n_gpus=4, state="TIMEOUT", exit_signal=9, duration_s=4206.0),
                expect("sessions", job_id="816.2", state="CANCELLED", cancelled_by="nils", duration_s=600.0),
            ),
        ),
    ),
    non_samples=(
        "root:x:0:0:root:/root:/bin/bash\n",
        "gpu.q:dgx07:ml:mira:bert:812\n",
        "==============================================================\nqueue        gpu.q\nowner        mira\n",
        "qname        gpu.q\nhostname     dgx07\n",
    ),
)
