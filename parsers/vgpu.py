"""vGPU hosts: the manager of virtual GPUs says which Xid a guest met.

    nvidia-vgpu-mgr[7012]: error: vmiop_log: (0x0): XID 43 detected on physical_chid:0x1c, guest_chid:0x4

The pid is the manager's own. https://docs.nvidia.com/vgpu/latest/grid-vgpu-user-guide/
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.formats import Found, Head, Line, LineFormat, Refused, Sample, expect
from aftershock.parsers.kernel.text import is_by
from aftershock.schemas.events import GpuError

_WRITERS: Final = ("nvidia-vgpu", "vmiop", "kernel")
_XID: Final = re.compile(
    rb"(?:(?:nvidia-vgpu[\w.-]{0,32}|vmiop[\w-]{0,16})(?:\[\d{1,10}\])?: )?(?:(?:error|notice): )?"
    rb"vmiop_log: \(0x[0-9a-fA-F]{1,8}\): XID (?P<code>\d{1,9}) detected on "
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
        message=envelope.message.decode("utf-8", "backslashreplace"),
    )
    yield Found(row, envelope.reading, line.offset)


def detects(head: Head) -> float:
    """Its lines stand among those of other programs."""
    return 0.4 if b"vmiop_log: " in head.data else 0.0


FORMAT = LineFormat(
    name="vgpu",
    doc="Lines of the manager of virtual GPUs on a hypervisor: Xid errors that a guest met.",
    url="https://docs.nvidia.com/vgpu/latest/grid-vgpu-user-guide/",
    tables=("gpu_errors",),
    detects=detects,
    signatures=(rb"XID [0-9]",),
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
    ),
    non_samples=(
        "Apr  9 08:15:30 hv03 nvidia-vgpu-mgr[7012]: notice: vmiop_log: (0x0): Guest driver loaded\n",
        "r8169 0000:05:00.0: XID 641 detected on the bus\n",
        "Somebody wrote that XID 43 detected on physical_chid:0x1c means a guest fault.\n",
    ),
)
