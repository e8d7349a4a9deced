"""One layer of an envelope, and how layers add up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from aftershock.parsers.clock import NO_CLOCK, Reading

# Names of syslog facilities and levels as ``dmesg -x``, talosctl and busybox print them. Facility 0 is the kernel.
FACILITIES: Final = {
    name: number
    for number, name in enumerate(
        (
            *(b"kern", b"user", b"mail", b"daemon", b"auth", b"syslog", b"lpr", b"news"),
            *(b"uucp", b"cron", b"authpriv", b"ftp", b"ntp", b"security", b"console", b"clock"),
            *(b"local%d" % number for number in range(8)),
        )
    )
}
LEVELS: Final = {
    **{name: i for i, name in enumerate((b"emerg", b"alert", b"crit", b"err", b"warn", b"notice", b"info", b"debug"))},
    **{b"panic": 0, b"critical": 2, b"error": 3, b"warning": 4},
}


class Layer(NamedTuple):
    """What one layer says, and what stands inside it.

    rest: the text inside. open: any other layer may stand inside (a container's line); in a closed layer only those
    that the kernel and syslog themselves put there are looked for, so that a program cannot pass for another.
    stale: clocks that stand inside belong to an earlier occurrence.
    weak: the host is that of whoever stored the line; one that is named inside is nearer to the event.
    """

    name: str
    rest: bytes
    reading: Reading = NO_CLOCK
    host: str | None = None
    tag: str | None = None
    facility: int | None = None
    level: int | None = None
    labels: Mapping[str, str] | None = None
    open: bool = False
    stale: bool = False
    weak: bool = False


def text_of(data: bytes) -> str:
    """Printed bytes as text; whatever is not UTF-8 stays visible as an escape."""
    return data.decode("utf-8", "backslashreplace")


def clocks_together(outer: Reading, inner: Reading) -> Reading:
    """The clocks of an outer and an inner layer as one reading.

    The inner wall clock is the event's own. An absolute time around it becomes its anchor; a boot-relative clock beside
    a wall clock is kept as well.
    """
    if inner is NO_CLOCK:
        return outer
    if outer is NO_CLOCK:
        return inner
    boot = inner.boot if inner.boot is not None else outer.boot
    if inner.wall is None:
        if outer.wall is None and (outer.boot is not None or outer.text is None):
            return inner
        return Reading(outer.kind, outer.wall, boot, outer.epoch, outer.resolution, outer.text)
    epoch = inner.epoch
    if inner.kind in ("local", "yearless") and outer.kind in ("epoch", "zoned"):
        epoch = outer.wall
    return Reading(inner.kind, inner.wall, boot, epoch, inner.resolution, inner.text)
