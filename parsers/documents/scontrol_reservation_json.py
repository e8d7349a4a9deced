"""scontrol show reservations --json: the reservations that the controller knows, as one JSON document.

    {"reservations": [{"name": "fix7", "node_list": "dgx[07-08]", "node_count": 2, "users": "root", "accounts": "",
                       "flags": ["MAINT", "SPEC_NODES"], "start_time": {"set": true, "number": 1738584000},
                       "end_time": {"set": true, "number": 1738605600}}], "last_update": 1738569700}

Documented at https://slurm.schedmd.com/rest_api.html (schema of ``/slurm/reservations``), releases 21.08 to 25.11; the
number objects come with 23.02. Times are seconds since 1970; whether a reservation is active is not printed. Each is an
event at its start, as in the text of scontrol, and its message is written like that text, with times in UTC.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any, BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK, SECOND, Reading
from aftershock.parsers.documents.json_elements import Element
from aftershock.parsers.documents.slurm_json import number_of, objects_of, text_of
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.parsers.hostlist import HostListError, expand_hosts
from aftershock.schemas.events import SchedulerEvent

_OWN: Final = (b'"node_list"', b'"purge_completed"', b'"core_specializations"')
# Later than any reservation that means it: Slurm writes it for one that does not end.
_NEVER: Final = 0xFFFF_FFFE


def detects(head: Head) -> float:
    """Sure of a JSON object with an array of reservations that have what only Slurm prints."""
    start = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if start != b"{" or b'"reservations"' not in head.data:
        return 0.0
    return 0.93 if any(mark in head.data for mark in _OWN) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The events of a document, reservation by reservation."""
    for item in objects_of(stream, ("reservations",), "scontrol_reservation_json"):
        if isinstance(item, Refused):
            yield item
        else:
            yield from _rows(*item)


def _rows(element: Element, record: dict[str, Any]) -> Iterator[Found | Refused]:
    data = element.data
    if "node_list" not in record:
        return  # the document around an empty list, or some other one
    try:
        hosts = expand_hosts(text_of(record["node_list"]))
    except HostListError as error:
        yield Refused(element.offset, len(data), f"scontrol_reservation_json: not read: {error}", data[:512])
        return
    if not hosts:
        return  # keeps nobody from work
    start, end = _time(record.get("start_time")), _time(record.get("end_time"))
    told = {
        "ReservationName": text_of(record.get("name")),
        "StartTime": _printed(start),
        "EndTime": _printed(end),
        "Nodes": text_of(record["node_list"]),
        "Flags": ",".join(_words(record.get("flags"))),
    }
    alone = hosts[0] if len(hosts) == 1 else None
    row = SchedulerEvent(
        kind="reservation",
        host=alone,
        host_raw=alone,
        hosts=hosts,
        user=text_of(record.get("users")) or text_of(record.get("accounts")) or None,
        reason=text_of(record.get("name")) or None,
        message=" ".join(f"{name}={value}" for name, value in told.items() if value),
    )
    reading = NO_CLOCK
    if start is not None:
        reading = Reading("epoch", start * SECOND, resolution=SECOND, text=f"{_printed(start)}Z")
    yield Found(row, reading, element.offset)


def _time(value: Any) -> int | None:
    """Seconds since 1970; None for no time, and for the end of time."""
    seconds = number_of(value)
    return seconds if seconds and seconds < _NEVER else None


def _printed(seconds: int | None) -> str:
    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds, timezone.utc).replace(tzinfo=None).isoformat()


def _words(value: Any) -> list[str]:
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []


FORMAT: Final = DocumentFormat(
    name="scontrol_reservation_json",
    doc="Reservations as `scontrol show reservations --json` prints them: which hosts are set aside, for whom and for "
    "how long.",
    url="https://slurm.schedmd.com/rest_api.html",
    tables=("scheduler_events",),
    detects=detects,
    read=read,
    samples=(
        Sample(
            '{"reservations": [{"accounts": "", "burst_buffer": "", "core_count": 224, "core_specializations": [], '
            '"end_time": {"set": true, "infinite": false, "number": 1738605600}, "flags": ["MAINT", "SPEC_NODES"], '
            '"name": "fix7", "node_count": 2, "node_list": "dgx[07-08]", "partition": "", "purge_completed": {"time": '
            '{"set": false, "infinite": true, "number": 0}}, "start_time": {"set": true, "infinite": false, "number": '
            '1738584000}, "users": "root"}, {"accounts": "vision", "end_time": 1738605600, "flags": ["ANY_NODES"], '
            '"name": "lic", "node_count": 0, "node_list": "", "start_time": 1738584000, "users": ""}], "last_update": '
            '{"set": true, "infinite": false, "number": 1738569700}}\n',
            (
                expect(
                    "scheduler_events",
                    kind="reservation",
                    hosts=["dgx07", "dgx08"],
                    user="root",
                    reason="fix7",
                    state=None,
                    time=1738584000_000_000,
                    message="ReservationName=fix7 StartTime=2025-02-03T12:00:00 EndTime=2025-02-03T18:00:00 "
                    "Nodes=dgx[07-08] Flags=MAINT,SPEC_NODES",
                ),
            ),
            "Since 23.02",
        ),
        Sample(
            '{"meta": {"plugin": {"type": "openapi\\/v0.0.38"}}, "errors": [], "reservations": [{"accounts": "vision", '
            '"core_count": 112, "core_spec_cnt": 0, "end_time": 4294967294, "flags": ["MAINT"], "name": "spare", '
            '"node_count": 1, "node_list": "dgx09", "purge_completed": {"time": 0}, "start_time": 1738584000, "users": '
            '""}]}\n',
            (
                expect(
                    "scheduler_events",
                    kind="reservation",
                    host="dgx09",
                    user="vision",
                    time=1738584000_000_000,
                    message="ReservationName=spare StartTime=2025-02-03T12:00:00 Nodes=dgx09 Flags=MAINT",
                ),
            ),
            "Before 23.02, and one without an end",
        ),
    ),
    non_samples=(
        '{"reservations": [{"id": 7, "guest": "mira", "room": "12"}]}\n',
        '{"reservations": [], "last_update": {"set": true, "number": 1738569700}}\n',
        '{"nodes": [{"name": "dgx07", "state": ["IDLE"]}]}\n',
    ),
    aliases=("scontrol_reservation",),
)
