"""NVIDIA's device plugin for Kubernetes: it marks a GPU as unhealthy when the driver tells it of an Xid.

    I0309 12:00:01.123456       1 health.go:172] XidCriticalError: Xid=48 on Device=GPU-7c1d...; marking device as
    unhealthy.                                                                                    (one line)
    2019/03/14 08:15:30 XidCriticalError: Xid=31 on Device=GPU-7c1d..., the device will go unhealthy.

The stamp of klog has neither year nor zone, that of older versions has no zone. A device may be a slice of a GPU, or
all of them. https://github.com/NVIDIA/k8s-device-plugin
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.clock import SECOND, YEARLESS, Reading, fraction_micros, wall_micros
from aftershock.parsers.formats import Found, Head, Line, LineFormat, Refused, Sample, expect
from aftershock.parsers.kernel.text import is_by
from aftershock.parsers.kernel.xid import INT32_MAX
from aftershock.schemas.events import GpuError

_WRITERS: Final = ("nvidia-device-plugin", "nvidia-dp", "k8s-device-plugin", "device-plugin")
_UUID: Final = rb"GPU-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_STAMP: Final = (
    rb"(?:(?P<klog>[IWEF](?P<month>\d\d)(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d)\.(?P<fraction>\d{6})) +\d{1,10} "
    rb"[\w.-]{1,64}:\d{1,6}\] |(?P<dated>(?P<date>\d{4}/\d\d/\d\d) (?P<clock>\d\d:\d\d:\d\d)) )?"
)
_XID: Final = re.compile(
    _STAMP + rb"(?P<said>)XidCriticalError: Xid=(?P<code>\d{1,10}) on "
    rb"(?:Device=(?P<device>[\w./-]{4,80}?)|(?:all|unknown) devices?)"
    rb"[,;:] (?:the device|all devices|marking)\b[\w ]{0,40}? unhealthy\.?\s*\Z",
    re.IGNORECASE,
)
_SLICE: Final = re.compile(rb"(?:MIG-)?(?P<uuid>" + _UUID + rb")(?:/(?P<gi>\d{1,3})/(?P<ci>\d{1,3}))?")


def read(line: Line) -> Iterator[Found | Refused]:
    """The row of an Xid that the plugin was told of."""
    envelope = line.envelope
    found = _XID.match(envelope.message)
    if found is None or not 0 < int(found["code"]) <= INT32_MAX or not is_by(envelope, _WRITERS):
        return
    part = _SLICE.fullmatch(found["device"] or b"")
    row = GpuError(
        family="xid",
        code=int(found["code"]),
        gpu_uuid=part["uuid"].decode("ascii") if part else None,
        mig_gi=int(part["gi"]) if part and part["gi"] else None,
        mig_ci=int(part["ci"]) if part and part["ci"] else None,
        trust="relayed",
        host_raw=envelope.host,
        message=envelope.message[found.start("said") :].decode("utf-8", "backslashreplace"),
    )
    yield Found(row, _reading(found) or envelope.reading, line.offset)


def _reading(found: re.Match[bytes]) -> Reading | None:
    """The clock that the plugin prints; None if it prints none, or one that cannot be."""
    if found["klog"]:
        hour, minute, second = (int(part) for part in found["time"].split(b":"))
        micros, resolution = fraction_micros(found["fraction"])
        wall = wall_micros(YEARLESS, int(found["month"]), int(found["day"]), hour, minute, second, micros)
        text = found["klog"].decode("ascii")[1:]
        return None if wall is None else Reading("yearless", wall, None, None, resolution, text)
    if found["dated"]:
        year, month, day = (int(part) for part in found["date"].split(b"/"))
        hour, minute, second = (int(part) for part in found["clock"].split(b":"))
        wall = wall_micros(year, month, day, hour, minute, second)
        return None if wall is None else Reading("local", wall, None, None, SECOND, found["dated"].decode("ascii"))
    return None


def detects(head: Head) -> float:
    """Its lines stand among those of the plugin's start."""
    return 0.4 if b"XidCriticalError: " in head.data else 0.0


_ID: Final = "GPU-7c1d2e3f-4a5b-4c6d-8e9f-0a1b2c3d4e5f"

FORMAT = LineFormat(
    name="device_plugin",
    doc="The log of NVIDIA's device plugin for Kubernetes: Xid errors for which it marks a device as unhealthy.",
    url="https://github.com/NVIDIA/k8s-device-plugin/blob/main/internal/rm/health.go",
    tables=("gpu_errors",),
    detects=detects,
    signatures=(rb"XidCriticalError: Xid=",),
    read=read,
    samples=(
        Sample(
            f"I0309 12:00:01.123456       1 health.go:172] XidCriticalError: Xid=48 on Device={_ID}; marking device "
            "as unhealthy.\n",
            (
                expect(
                    "gpu_errors",
                    family="xid",
                    code=48,
                    gpu_uuid=_ID,
                    pci=None,
                    trust="relayed",
                    time_local="0309 12:00:01.123456",
                ),
            ),
        ),
        Sample(
            f"2026-03-09T12:00:02.000000001Z stderr F I0309 12:00:01.123456       1 health.go:172] XidCriticalError: "
            f"Xid=79 on Device=MIG-{_ID}/3/0; marking device as unhealthy.\n",
            (expect("gpu_errors", code=79, gpu_uuid=_ID, mig_gi=3, mig_ci=0),),
        ),
        Sample(
            f"2026/03/09 12:00:01 XidCriticalError: Xid=31 on Device={_ID}, the device will go unhealthy.\n"
            "I0309 12:00:05.123456       1 health.go:160] XidCriticalError: Xid=79 on all devices; marking all devices "
            "as unhealthy.\n",
            (
                expect("gpu_errors", code=31, gpu_uuid=_ID, time=1773057601000000),
                expect("gpu_errors", code=79, gpu_uuid=None),
            ),
        ),
    ),
    non_samples=(
        "I0309 12:00:01.123456       1 health.go:75] Ignoring the following XIDs for health checks: map[13:true]\n",
        f"XidCriticalError: Xid=48 on Device={_ID} is what the plugin says\n",
        f"Mar  9 12:00:01 gpu021 trainer[7]: XidCriticalError: Xid=48 on Device={_ID}; marking device as unhealthy.\n",
        'pattern: "XidCriticalError: Xid=48 on Device=all; marking device as unhealthy."\n',
    ),
)
