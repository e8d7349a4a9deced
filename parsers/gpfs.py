"""GPFS (Storage Scale): the log that its daemon keeps itself, beside what it tells syslog.

    Tue Mar  3 07:15:42.123 2026: [N] Node 172.17.0.102 (gpu021) lease renewal is overdue. Pinging to check if it
    is alive                                                                                      (one line)
    2026-03-03_07:15:42.123+0900: [E] Node 172.17.0.101 (nsd01) is being expelled because of an expired lease.

The rows are those of the same words in syslog. https://www.ibm.com/docs/en/storage-scale
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.clock import MONTHS, Reading, fraction_micros, wall_micros
from aftershock.parsers.envelopes.syslog import iso_reading
from aftershock.parsers.formats import Found, Head, Line, LineFormat, Refused, Sample, expect
from aftershock.parsers.kernel import netfs
from aftershock.parsers.kernel.text import is_by

_STAMP: Final = re.compile(
    rb"""
    (?:(?P<asctime>[A-Z][a-z]{2}\ (?P<month>[A-Z][a-z]{2})\ {1,2}(?P<day>\d{1,2})\ (?P<clock>\d\d:\d\d:\d\d)
        \.(?P<fraction>\d{3,6})\ (?P<year>\d{4}))
    |(?P<iso>\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d\.\d{3,6}[+-]\d{4}))
    :\ (?=\[[A-Z]\]\ )
    """,
    re.VERBOSE,
)
_RULES: Final = tuple(rule for rule in netfs.RULES if rule.writers == netfs.SCALE)


def read(line: Line) -> Iterator[Found | Refused]:
    """The row of one line of the log."""
    envelope = line.envelope
    stamp = _STAMP.match(envelope.message)
    if stamp is None or not is_by(envelope, tuple(netfs.SCALE)):
        return
    said = envelope.message[stamp.end() :]
    for rule in _RULES:
        shape = rule.shape.match(said)
        row = None if shape is None else rule.row(shape, line)
        if row is not None:
            row.host_raw = envelope.host
            row.message = said.decode("utf-8", "backslashreplace")
            yield Found(row, _reading(stamp), line.offset)
            return


def _reading(stamp: re.Match[bytes]) -> Reading:
    if stamp["iso"]:
        printed = stamp["iso"].decode("ascii")
        reading = iso_reading(stamp["iso"].replace(b"_", b"T")) or Reading()
        return reading._replace(text=printed)
    printed = stamp["asctime"].decode("ascii")
    month = MONTHS.get(stamp["month"].decode("ascii"))
    hour, minute, second = (int(part) for part in stamp["clock"].split(b":"))
    micros, resolution = fraction_micros(stamp["fraction"])
    wall = wall_micros(int(stamp["year"]), month, int(stamp["day"]), hour, minute, second, micros) if month else None
    return Reading(text=printed) if wall is None else Reading("local", wall, None, None, resolution, printed)


def detects(head: Head) -> float:
    """Its stamps are like those of no other log."""
    lines = head.lines()
    own = [line for line in lines if _STAMP.match(line)]
    return 0.8 * len(own) / len(lines) if own else 0.0


FORMAT = LineFormat(
    name="gpfs",
    doc="The log of GPFS (Storage Scale), mmfs.log: nodes that lose their lease or are expelled, and other errors.",
    url="https://www.ibm.com/docs/en/storage-scale/5.2.0?topic=logs-gpfs-log",
    tables=("node_events",),
    detects=detects,
    signatures=(rb"\d: \[[EX]\] ", rb"lease renewal is overdue"),
    read=read,
    samples=(
        Sample(
            "Tue Mar  3 07:15:42.123 2026: [N] Node 172.17.0.102 (gpu021) lease renewal is overdue. Pinging to check "
            "if it is alive\n",
            (
                expect(
                    "node_events",
                    kind="fs_timeout",
                    device="gpfs 172.17.0.102",
                    trust=None,
                    time=1772522142123000,
                    time_local="Tue Mar  3 07:15:42.123 2026",
                ),
            ),
        ),
        Sample(
            "2026-03-03_07:15:42.123+0900: [E] Node 172.17.0.101 (nsd01) is being expelled because of an expired "
            "lease.\n"
            "2026-03-03_07:15:43.123+0900: [X] File System scratch unmounted by the system with return code 5\n",
            (
                expect("node_events", kind="fs_timeout", device="gpfs 172.17.0.101", time=1772489742123000),
                expect("node_events", kind="fs_error", device="gpfs", severity="fatal", time_basis="zoned"),
            ),
        ),
    ),
    non_samples=(
        "Tue Mar  3 07:15:42.123 2026: [I] Node 172.17.0.102 (gpu021) lease renewal is in time.\n",
        "Mar  3 07:15:42 gpu021 trainer[7]: Tue Mar  3 07:15:42.123 2026: [E] the lease has expired\n",
        "[N] Node 172.17.0.102 (gpu021) lease renewal is overdue.\n",
    ),
)
