"""lspci: the slots that GPUs sit in, and the models; from a plain list, with ``-D``, ``-nn`` or as blocks of ``-vv``.

    0000:3b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
    9b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev ff)

Documented at https://man7.org/linux/man-pages/man8/lspci.8.html. There is neither a UUID nor a time in it. The domain
is left out where all of them are 0. ``rev ff`` is what a device answers whose registers cannot be read any more: it is
still in the kernel's list, but gone from the bus.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK
from aftershock.parsers.documents.text_lines import chunks_of, lines_of
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.parsers.kernel.xid import pci_of
from aftershock.schemas.events import HealthCheck
from aftershock.schemas.topology import Gpu

_DEVICE: Final = re.compile(
    rb"""
    (?: (?P<host> [A-Za-z0-9][\w.-]{0,252} ) :\ )?              # the label of a parallel shell
    (?P<slot> (?:[0-9a-f]{4,8}:)? [0-9a-f]{2}:[0-9a-f]{2}\.[0-7] ) [ ]
    (?P<class> [A-Z0-9][A-Za-z0-9/+.&() -]{2,60}? ) (?:\ \[[0-9a-f]{4}\])? :\ (?P<name> .{1,400} ) \Z
    """,
    re.VERBOSE,
)
_REVISION: Final = re.compile(rb" \(rev ([0-9a-f]{2})\)(?: \(prog-if [^()]{1,60}\))?\s*\Z")
_IDS: Final = re.compile(rb" \[[0-9a-f]{4}:[0-9a-f]{4}\]\s*\Z")
_PROGRAMMING: Final = re.compile(rb" \(prog-if [^()]{1,60}(?:\[[^\[\]]{1,60}\])?\)\s*\Z")
_MODEL: Final = re.compile(rb"\[([^\[\]]{1,120})\]\s*\Z")
_VENDORS: Final = (b"NVIDIA Corporation ", b"Advanced Micro Devices, Inc. [AMD/ATI] ")
# Datacenter GPUs show themselves under these classes; the graphics of a server's own chip is of no interest.
_CLASSES: Final = {
    _VENDORS[0]: (b"3D controller", b"VGA compatible controller", b"Display controller", b"Processing accelerators"),
    _VENDORS[1]: (b"Display controller", b"Processing accelerators"),
}


def detects(head: Head) -> float:
    """Sure where every line that is not indented is a device."""
    lines = [line for line in head.lines() if not line.startswith((b"\t", b" "))]
    return 0.9 if lines and all(_DEVICE.match(line) for line in lines) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The GPUs among the devices, each with the check whether it still answers."""
    for offset, line in lines_of(chunks_of(stream)):
        found = _DEVICE.match(line)
        vendor = next((v for v in _VENDORS if found and found["name"].startswith(v)), None) if found else None
        if found is None or vendor is None or found["class"] not in _CLASSES[vendor]:
            continue
        name = found["name"][len(vendor) :]
        name, revision = _without_tail(name)
        pci, host = pci_of(found["slot"]), found["host"].decode("ascii") if found["host"] else None
        yield Found(Gpu(host=host, pci=pci, model=_model(name), how_known="lspci"), NO_CLOCK, offset)
        gone = revision == b"ff"
        check = HealthCheck(
            host_raw=host,
            checker="lspci",
            check="pci_config_readable",
            result="fail" if gone else "pass",
            pci=pci,
            detail=f"rev {revision.decode('ascii')}" if revision else None,
            message=line.decode("utf-8", "replace"),
        )
        yield Found(check, NO_CLOCK, offset)


def _without_tail(name: bytes) -> tuple[bytes, bytes | None]:
    """The name without revision, programming interface and numeric ids; and the revision."""
    name = _PROGRAMMING.sub(b"", name)
    revision = _REVISION.search(name)
    if revision is not None:
        name = name[: revision.start()]
    return _IDS.sub(b"", name), revision[1] if revision else None


def _model(name: bytes) -> str | None:
    """``GH100 [H100 SXM5 80GB]`` is an H100 SXM5 80GB; a chip without a product name is named by its own."""
    product = _MODEL.search(name)
    text = (product[1] if product else name).decode("utf-8", "replace").strip()
    return None if not text or text.startswith("Device ") else text


FORMAT: Final = DocumentFormat(
    name="lspci",
    doc="The devices that `lspci` lists: the slots of NVIDIA and AMD GPUs and their models, without UUIDs.",
    url="https://man7.org/linux/man-pages/man8/lspci.8.html",
    tables=("gpus", "health_checks"),
    detects=detects,
    read=read,
    samples=(
        Sample(
            "00:00.0 Host bridge: Intel Corporation Ice Lake Memory Map/VT-d (rev 04)\n"
            "1b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n"
            "43:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev ff)\n"
            "05:00.0 Bridge: NVIDIA Corporation GH100 [H100 NVSwitch] (rev a1)\n",
            (
                expect("gpus", pci="0000:1b:00.0", model="H100 SXM5 80GB", gpu_uuid=None, how_known="lspci"),
                expect("health_checks", check="pci_config_readable", result="pass", pci="0000:1b:00.0"),
                expect("gpus", pci="0000:43:00.0"),
                expect("health_checks", check="pci_config_readable", result="fail", detail="rev ff"),
            ),
        ),
        Sample(
            "0001:00:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2] (rev a1)\n"
            "\tSubsystem: NVIDIA Corporation Device [10de:1463]\n"
            "\tLnkSta:\tSpeed 16GT/s (ok), Width x16 (ok)\n"
            "\tKernel driver in use: nvidia\n\n"
            "0001:01:00.0 Processing accelerators: Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram "
            "[Instinct MI300X]\n",
            (
                expect("gpus", pci="0001:00:00.0", model="A100 SXM4 80GB"),
                expect("health_checks", result="pass", detail="rev a1"),
                expect("gpus", pci="0001:01:00.0", model="Instinct MI300X"),
                expect("health_checks", result="pass", detail=None),
            ),
        ),
    ),
    non_samples=(
        "00:00.0 Host bridge: Intel Corporation Device 09a2 (rev 04)\n"
        "00:02.0 VGA compatible controller: ASPEED Technology, Inc. ASPEED Graphics Family (rev 41)\n",
        "nvidia 0000:1b:00.0: enabling device (0140 -> 0142)\n",
        "1b:00.0 Audio device: NVIDIA Corporation GA102 High Definition Audio Controller (rev a1)\n",
        "The 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n",
    ),
)
