"""scontrol show reservation: the reservations that the controller knows, as blocks, or with ``-o`` one per line.

    ReservationName=fix7 StartTime=2025-02-03T12:00:00 EndTime=2025-02-03T18:00:00 Duration=06:00:00
       Nodes=dgx[07-08] NodeCnt=2 CoreCnt=224 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES
       TRES=cpu=448
       Users=root Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null)

Documented at https://slurm.schedmd.com/scontrol.html. Each is an event at its start; start and end stand in its
message, where the planned end of the exclusion is read from. A reservation without hosts keeps nobody from work.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK, SECOND, Reading
from aftershock.parsers.documents.slurm_blocks import blocks_of, fields_of
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.parsers.hostlist import expand_hosts
from aftershock.parsers.slurm_words import clock_of
from aftershock.schemas.events import SchedulerEvent

_BEGIN: Final = b"ReservationName="
_NONE: Final = frozenset({"", "(null)", "N/A"})
# What free text may follow, which says nothing about the reservation.
_COMMENT: Final = re.compile(r"\sComment=")


def detects(head: Head) -> float:
    """Sure where a line begins a reservation the way scontrol does: with its times."""
    lines = head.lines(40)
    return 0.95 if any(line.startswith(_BEGIN) and b" StartTime=" in line for line in lines) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The events of the blocks."""
    for block in blocks_of(stream, _BEGIN, "scontrol_reservation"):
        if isinstance(block, Refused):
            yield block
        else:
            yield from _rows(*block)


def _rows(offset: int, block: bytes) -> Iterator[Found | Refused]:
    text = block.decode("utf-8-sig", "backslashreplace")
    fields = fields_of(_COMMENT.split(text, maxsplit=1)[0])
    start = fields.get("StartTime")
    try:
        hosts = expand_hosts(fields.get("Nodes", ""))
        clock = clock_of(start)
    except ValueError as error:
        yield Refused(offset, len(block), f"scontrol_reservation: not read: {error}", block[:512])
        return
    if not hosts:
        return
    reading = NO_CLOCK
    if clock is not None:
        reading = Reading(clock.kind, clock.wall, resolution=SECOND, text=(start or "").strip())
    names = ("ReservationName", "StartTime", "EndTime", "Nodes", "Flags", "State")
    alone = hosts[0] if len(hosts) == 1 else None
    row = SchedulerEvent(
        kind="reservation",
        host=alone,
        host_raw=alone,
        hosts=hosts,
        user=_known(fields.get("Users")) or _known(fields.get("Accounts")),
        reason=_known(fields.get("ReservationName")),
        state=_known(fields.get("State")),
        message=" ".join(f"{name}={fields[name]}" for name in names if name in fields),
    )
    yield Found(row, reading, offset)


def _known(text: str | None) -> str | None:
    return None if text is None or text in _NONE else text


FORMAT: Final = DocumentFormat(
    name="scontrol_reservation",
    doc="Reservations as `scontrol show reservation` prints them, also with `-o`: which hosts are set aside, for whom "
    "and for how long.",
    url="https://slurm.schedmd.com/scontrol.html#OPT_reservation",
    tables=("scheduler_events",),
    detects=detects,
    read=read,
    samples=(
        Sample(
            "ReservationName=fix7 StartTime=2025-02-03T12:00:00 EndTime=2025-02-03T18:00:00 Duration=06:00:00\n"
            "   Nodes=dgx[07-08] NodeCnt=2 CoreCnt=224 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES\n"
            "   TRES=cpu=448\n"
            "   Users=root Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null)\n"
            "   MaxStartDelay=(null)\n"
            "   Comment=see State=INACTIVE\n\n"
            "ReservationName=lic StartTime=2025-02-03T12:00:00 EndTime=2025-02-04T12:00:00 Duration=1-00:00:00 "
            "Nodes=(null) NodeCnt=0 CoreCnt=0 Features=(null) PartitionName=(null) Flags=ANY_NODES TRES=(null) "
            "Users=mira Groups=(null) Accounts=(null) Licenses=a:1 State=INACTIVE\n",
            (
                expect(
                    "scheduler_events",
                    kind="reservation",
                    hosts=["dgx07", "dgx08"],
                    user="root",
                    reason="fix7",
                    state="ACTIVE",
                    time_local="2025-02-03T12:00:00",
                ),
            ),
        ),
    ),
    non_samples=(
        "ReservationName=fix7 was made by hand\n",
        "No reservations in the system\n",
        "RESV_NAME     STATE           START_TIME             END_TIME     DURATION  NODELIST\n",
    ),
)
