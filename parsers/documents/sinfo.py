"""sinfo: the state of hosts at one moment, in its default and long layouts, with ``-R``, or with a delimiter.

    REASON               USER      TIMESTAMP           NODELIST
    bad dimm slot 4      root      2025-02-03T08:00:05 dgx[07-08]

    NODELIST|STATE|REASON|USER|TIMESTAMP
    dgx07|drained*|bad dimm slot 4|root(0)|2025-02-03T08:00:05

Documented at https://slurm.schedmd.com/sinfo.html. ``-R`` without ``-l`` lists hosts that are down, drained, draining
or failing and does not say which: such a row has no state. It is a drain (which needs a reason, and so is what people
and health checks do) unless the controller's own words say that it set the host down. It also cuts reasons at 20
characters; ``-o '%E|%u|%H|%N'`` and ``scontrol show node`` print them whole. Hosts that work give no row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final

from aftershock.parsers.documents.slurm_header import Columns
from aftershock.parsers.documents.slurm_nodes import NodeText, event_of
from aftershock.parsers.documents.slurm_table import Record, has_header, read_table
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.parsers.hostlist import HostListError, expand_hosts

_HOSTS: Final = ("nodelist", "hostnames", "hostname")
_STATES: Final = ("statecomplete", "statelong", "state", "statecompact")
_OWN_NAMES: Final = "nodelist hostnames state statelong statecompact statecomplete reason"
_KNOWN_NAMES: Final = (
    f"{_OWN_NAMES} user timestamp partition avail timelimit nodes cpus s:c:t sockets cores threads memory tmp_disk "
    "weight avail_fe active_features features gres gres_used version cluster free_mem cpu_load comment nodes(a/i) "
    "nodes(a/i/o/t) cpus(a/i/o/t) job_size root oversubs groups priority extra allocmem"
)
_STATE: Final = re.compile(r"[A-Za-z_]{2,20}(?:\+[A-Za-z_]{2,20}){0,8}[*~#!%$@^+-]{0,3}(?:\+[A-Za-z_]{2,20}){0,8}|n/a")
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\S*|Unknown|None|N/A|[0-9]{9,10}|#+|\(null\)")

COLUMNS: Final = Columns(
    required=frozenset(_OWN_NAMES.split()) - {"nodelist", "hostnames"},
    known=frozenset(_KNOWN_NAMES.split()),
    shapes={
        "state": _STATE,
        "statelong": _STATE,
        "statecompact": _STATE,
        "statecomplete": _STATE,
        "timestamp": _TIME,
        "nodes": re.compile(r"[0-9]+"),
        "nodelist": re.compile(r"\S+"),
        "hostnames": re.compile(r"\S+"),
        "avail": re.compile(r"[a-z]+"),
    },
    free=frozenset({"reason", "comment", "extra"}),
    barred=frozenset({"jobid", "jobidraw", "job_id", "nodelist(reason)"}),
    laid_out=True,
)
_HOST_WORD: Final = re.compile(rb"\b(?:NODELIST|HOSTNAMES?)\b")


def detects(head: Head) -> float:
    """Sure of a header that names hosts beside a state or a reason, and no job."""
    lines = head.lines(8)
    return 0.9 if has_header(lines, COLUMNS) and any(_HOST_WORD.search(line) for line in lines) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The events of the rows: of each host that takes no work."""
    before: tuple[tuple[str, ...], str | None, str | None, str | None] | None = None
    for record in read_table(stream, COLUMNS, "sinfo"):
        if isinstance(record, Refused):
            yield record
            continue
        node = _node(record)
        if isinstance(node, Refused):
            yield node
            continue
        # A host of two partitions has two rows, one behind the other.
        now = tuple(node.hosts), node.state, node.reason, node.since
        if now != before:
            yield from event_of(node, record.offset, record.raw)
        before = now


def _node(record: Record) -> NodeText | Refused:
    cells = record.cells
    printed = _first(cells, _HOSTS) or ""
    try:
        hosts = expand_hosts(printed)
    except HostListError as error:
        return Refused(record.offset, len(record.raw), f"sinfo: NODELIST is not read: {error}", record.raw[:512])
    if not hosts and (cells.get("reason") or "").strip():
        return Refused(record.offset, len(record.raw), "sinfo: a reason, but no host", record.raw[:512])
    return NodeText(
        tool="sinfo",
        hosts=hosts,
        state=_first(cells, _STATES),
        reason=cells.get("reason"),
        user=cells.get("user"),
        since=cells.get("timestamp"),
        message=record.raw.decode("utf-8", "backslashreplace").strip(),
    )


def _first(cells: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((cells[name] for name in names if cells.get(name)), None)


_SAMPLES: Final = (
    Sample(
        "REASON               USER      TIMESTAMP           NODELIST\n"
        "bad dimm slot 4      root      2025-02-03T08:00:05 dgx[07-08]\n"
        "Not responding       slurm     2025-02-03T09:10:00 dgx09\n",
        (
            expect(
                "scheduler_events",
                kind="node_drain",
                hosts=["dgx07", "dgx08"],
                reason="bad dimm slot 4",
                user="root",
                state=None,
                time_local="2025-02-03T08:00:05",
            ),
            expect("scheduler_events", kind="node_down", host="dgx09", reason="Not responding", user="slurm"),
        ),
        title="sinfo -R",
    ),
    Sample(
        "NODELIST|STATE|REASON|USER|TIMESTAMP\n"
        "dgx07|drained*|bad dimm | fan 3|root(0)|2025-02-03T08:00:05\n"
        "dgx08|idle|none|Unknown|Unknown\n"
        "dgx[09-10]|down*|Not responding|slurm|2025-02-03T09:10:00\n",
        (
            expect(
                "scheduler_events",
                kind="node_drain",
                host="dgx07",
                state="drained*",
                reason="bad dimm | fan 3",
                user="root",
            ),
            expect("scheduler_events", kind="node_down", hosts=["dgx09", "dgx10"], state="down*"),
        ),
        title="sinfo -o '%N|%T|%E|%U|%H'",
    ),
    Sample(
        "Mon Feb 03 10:00:00 2025\n"
        "NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON              \n"
        "dgx07          1      long    draining 224    2:56:2 200000        0      1   (null) bad dimm slot 4     \n"
        "dgx07          1     debug    draining 224    2:56:2 200000        0      1   (null) bad dimm slot 4     \n"
        "dgx08          1      long        idle 224    2:56:2 200000        0      1   (null) none                \n",
        (expect("scheduler_events", kind="node_drain", host="dgx07", reason="bad dimm slot 4", time_local=None),),
        title="sinfo -Nel",
    ),
    Sample(
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
        "long*        up   infinite      2   drng dgx[07-08]\n"
        "long*        up   infinite      1  maint dgx09\n"
        "long*        up   infinite     20    mix dgx[10-29]\n"
        "debug        up    1:00:00      0    n/a \n",
        (
            expect("scheduler_events", kind="node_drain", hosts=["dgx07", "dgx08"], state="drng", reason=None),
            expect("scheduler_events", kind="node_state", hosts=["dgx09"], state="maint"),
        ),
        title="sinfo",
    ),
)

FORMAT: Final = DocumentFormat(
    name="sinfo",
    doc="Hosts that take no work, and why, as `sinfo` prints them: `-R`, `-Nel`, its default layout, or columns with a "
    "delimiter. The states of all others give no row.",
    url="https://slurm.schedmd.com/sinfo.html",
    tables=("scheduler_events",),
    detects=detects,
    read=read,
    samples=_SAMPLES,
    non_samples=(
        "NODELIST STATE\ndgx07 idle\ndgx08 alloc\n",
        "REASON               USER      TIMESTAMP           NODELIST\n",
        "JOBID|STATE|NODELIST|REASON\n812|DOWN|dgx07|bad\n",
        "STATE OF THE NODELIST: down\nall of it\n",
    ),
)
