"""nvidia-smi -L: index, model and UUID of every GPU, and the MIG devices on them.

    GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5d0f1c1e-...)
      MIG 1g.10gb     Device  0: (UUID: MIG-0c2a...)

Documented at https://docs.nvidia.com/deploy/nvidia-smi/index.html (-L, --list-gpus). Lines may carry the label of a
parallel shell (``gpu017: GPU 0: ...``), which names the host. MIG devices are parts of their GPU and have no row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK
from aftershock.parsers.documents.nvidia_smi_checks import lost_gpu
from aftershock.parsers.documents.text_lines import chunks_of, lines_of
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.schemas.columns import Row
from aftershock.schemas.events import HealthCheck
from aftershock.schemas.topology import Gpu

_LABEL: Final = rb"(?:(?P<host>[A-Za-z0-9][\w.-]{0,252}): )?"
_GPU: Final = re.compile(
    _LABEL + rb"GPU (?P<index>\d{1,4}): (?P<model>[^()\n]{1,120}(?:\([^()\n]{0,40}\)[^()\n]{0,40})?) "
    rb"\((?:UUID: (?P<uuid>GPU-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})|S/N: (?P<serial>\w{4,32}))\)\s*\Z"
)
_MIG: Final = re.compile(_LABEL + rb" +MIG \S{1,40} +Device +\d{1,3}: \(UUID: MIG-[\w/-]{1,80}\)\s*\Z")
_LOST: Final = re.compile(
    _LABEL + rb"Unable to determine the device handle for (?:gpu|GPU) ?"
    rb"(?P<slot>(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]): "
)


def detects(head: Head) -> float:
    """Sure where nothing but such lines stands."""
    lines = head.lines()
    ours = [line for line in lines if _GPU.match(line)]
    rest = [line for line in lines if not (_GPU.match(line) or _MIG.match(line) or _LOST.match(line))]
    return 0.9 if ours and not rest else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The GPUs, in order."""
    for offset, line in lines_of(chunks_of(stream)):
        found = _GPU.match(line)
        if found is not None:
            uuid, serial = found["uuid"], found["serial"]
            row = Gpu(
                host=_text(found["host"]),
                gpu_index=int(found["index"]),
                gpu_uuid=_text(uuid),
                gpu_serial=_text(serial),
                model=_text(found["model"].strip()),
                how_known="nvidia-smi",
            )
            yield Found(row, NO_CLOCK, offset)
            continue
        lost = _LOST.match(line)
        if lost is not None:
            item = lost_gpu(lost["slot"].decode("ascii"), NO_CLOCK, offset)
            _name_host(item.row, _text(lost["host"]))
            yield item
        elif line.strip() and not _MIG.match(line):
            yield Refused(offset, len(line), "nvidia_smi_l: no line of nvidia-smi -L", line[:512])


def _name_host(row: Row, host: str | None) -> None:
    if isinstance(row, HealthCheck):
        row.host_raw = host


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


FORMAT: Final = DocumentFormat(
    name="nvidia_smi_l",
    doc="The list of `nvidia-smi -L`: index, model and UUID of every GPU. It names no addresses; the UUID joins it "
    "with "
    "what does.",
    url="https://docs.nvidia.com/deploy/nvidia-smi/index.html",
    tables=("gpus", "health_checks"),
    detects=detects,
    read=read,
    samples=(
        Sample(
            "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0a0a0a0a-1111-2222-3333-444444444401)\n"
            "  MIG 1g.10gb     Device  0: (UUID: MIG-0b0b0b0b-1111-2222-3333-444444444401)\n"
            "  MIG 1g.10gb     Device  1: (UUID: MIG-0b0b0b0b-1111-2222-3333-444444444402)\n"
            "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-0a0a0a0a-1111-2222-3333-444444444402)\n",
            (
                expect(
                    "gpus",
                    gpu_index=0,
                    gpu_uuid="GPU-0a0a0a0a-1111-2222-3333-444444444401",
                    model="NVIDIA H100 80GB HBM3",
                    pci=None,
                    valid_from=None,
                ),
                expect("gpus", gpu_index=1, gpu_uuid="GPU-0a0a0a0a-1111-2222-3333-444444444402"),
            ),
        ),
        Sample(
            "dgx07: GPU 0: Tesla V100-SXM2-32GB (UUID: GPU-0a0a0a0a-1111-2222-3333-444444444411)\n"
            "dgx08: GPU 0: Tesla V100-SXM2-32GB (UUID: GPU-0a0a0a0a-1111-2222-3333-444444444412)\n"
            "dgx08: Unable to determine the device handle for GPU0000:8A:00.0: Unknown Error\n",
            (
                expect("gpus", host="dgx07", gpu_index=0),
                expect("gpus", host="dgx08", gpu_index=0),
                expect("health_checks", host="dgx08", check="gpu_lost", result="fail", pci="0000:8a:00.0"),
            ),
        ),
    ),
    non_samples=(
        "GPU 0: loss 2.31\n",
        "[rank0]: GPU 0: NVIDIA H100 80GB HBM3\n",
        "Device 0: (UUID: GPU-0a0a0a0a-1111-2222-3333-444444444401)\n",
        "GPU 00000000:1A:00.0\n    GPU UUID : GPU-0a0a0a0a-1111-2222-3333-444444444401\n",
    ),
)
