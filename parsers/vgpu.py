"""vGPU hosts: the manager of virtual GPUs says which Xid a guest met.

    nvidia-vgpu-mgr[7012]: error: vmiop_log: (0x0): XID 43 detected on physical_chid:0x1c, guest_chid:0x4

The pid is the manager's own. On VMware the log of the virtual machine has these lines, each with its own stamp:

    2026-04-09T08:15:30.123Z| vthread-9| E110: vmiop_log: (0x0): XID 31 detected on physical_chid:0x1c, guest_chid:0x4
    2026-04-09T08:15:30.123Z In(05) vthread-2101 - vmiop_log: (0x0): XID 31 detected on ...

https://docs.nvidia.com/vgpu/latest/grid-vgpu-user-guide/
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.envelopes.syslog import iso_reading
from aftershock.parsers.formats import Found, Head, Line, LineFormat, Refused, Sample, expect
from aftershock.parsers.kernel.text import is_by
from aftershock.schemas.events import GpuError

_WRITERS: Final = ("nvidia-vgpu", "vmiop", "kernel")
_XID: Final = re.compile(
    rb"(?:(?P<time>\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:?\d\d))\| )?(?:[\w-]{1,32}\| [A-Z]\d{2,3}: "
    rb"|[A-Z][a-z]\(\d{2}\)\+? [\w-]{1,32} - )?"
    rb"(?P<said>)(?:(?:nvidia-vgpu[\w.-]{0,32}|vmiop[\w-]{0,16})(?:\[\d{1,10}\])?: )?(?:(?:error|notice): )?"
    rb"vmiop_log: \(0x[0-9a-fA-F]{1,8}\): (?:XID|Xid) (?P<code>\d{1,9}) detected on "
)


def read(line: Line) -> Iterator[Found | Refused]:
    """The row of an Xid that a guest met."""
    envelope = line.envelope
    found = _XID.match(envelope.message)
    if found is None or not is_by(envelope, _WRITERS):
        return
    row = GpuError(
        family="xid",
        code=int(found["code"]),
        trust="relayed",
        host_raw=envelope.host,
        message=envelope.message[found.start("said") :].decode("utf-8", "backslashreplace"),
    )
    own = iso_reading(found["time"]) if found["time"] else None
    yield Found(row, own or envelope.reading, line.offset)


def detects(head: Head) -> float:
    """Its lines stand among those of other programs."""
    return 0.4 if b"vmiop_log: " in head.data else 0.0


FORMAT = LineFormat(
    name="vgpu",
    doc="Lines of the manager of virtual GPUs on a hypervisor: Xid errors that a guest met.",
    url="https://docs.nvidia.com/vgpu/latest/grid-vgpu-user-guide/",
    tables=("gpu_errors",),
    detects=detects,
    signatures=(rb"XID [0-9]", rb"\): Xid [0-9]"),
    read=read,
    samples=(
        Sample(
            "Apr  9 08:15:30 hv03 nvidia-vgpu-mgr[7012]: error: vmiop_log: (0x0): XID 43 detected on "
            "physical_chid:0x1c, guest_chid:0x4\n",
            (expect("gpu_errors", family="xid", code=43, pci=None, pid=None, host="hv03", trust="relayed"),),
        ),
        Sample(
            "nvidia-vgpu-mgr[7012]: error: vmiop_log: (0x0): XID 13 detected on physical_chid:0x1c, guest_chid:0x4\n",
            (expect("gpu_errors", code=13, time_local=None),),
        ),
        Sample(
            "Apr  9 08:15:30 hv03 nvidia-vgpu-mgr[7012]: error: vmiop_log: (0x0): Xid 45 detected on "
            "physical_chid:0x1c, guest_chid:0x4\n",
            (expect("gpu_errors", family="xid", code=45, host="hv03", trust="relayed"),),
        ),
        Sample(
            "2026-04-09T08:15:30.123Z| vthread-9| E110: vmiop_log: (0x0): XID 31 detected on physical_chid:0x1d, "
            "guest_chid:0x4\n"
            "2026-04-09T08:15:31.123Z In(05) vthread-2101 - vmiop_log: (0x0): XID 32 detected on physical_chid:0x1d, "
            "guest_chid:0x4\n",
            (
                expect("gpu_errors", code=31, time=1775722530123000, time_basis="zoned"),
                expect("gpu_errors", code=32, time=1775722531123000, time_basis="zoned"),
            ),
        ),
    ),
    non_samples=(
        "2026-04-09T08:15:30.123Z| vthread-9| I120: vmiop_log: (0x0): Guest driver loaded\n",
        "Apr  9 08:15:30 hv03 nvidia-vgpu-mgr[7012]: notice: vmiop_log: (0x0): Guest driver loaded\n",
        "r8169 0000:05:00.0: XID 641 detected on the bus\n",
        "Somebody wrote that XID 43 detected on physical_chid:0x1c means a guest fault.\n",
    ),
)
