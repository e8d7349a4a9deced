"""nvidia-smi -q: which GPUs a host has, and what their error counters and pending repairs say; as text and as XML.

    ==============NVSMI LOG==============

    Timestamp                                 : Tue Nov 12 09:48:31 2024
    Driver Version                            : 550.90.07
    Attached GPUs                             : 8
    GPU 00000000:3B:00.0
        GPU UUID                              : GPU-5d0f1c1e-...
        ECC Errors
            Volatile
                DRAM Uncorrectable            : 0

Documented at https://docs.nvidia.com/deploy/nvidia-smi/index.html. The time is the wall clock of the host, without a
zone. GPUs are shown in the order of their index; the ``Minor Number`` is another number. A report that shows fewer GPUs
than are attached was asked for some of them (``-i``), and their index is not known. XML: see ``nvidia_smi_xml``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final

from aftershock.parsers.documents.nvidia_smi_checks import MOST_GPUS, GpuReport, Report, smi_clock
from aftershock.parsers.documents.nvidia_smi_xml import read_xml
from aftershock.parsers.documents.text_lines import chunks_of, lines_of
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect

_TITLE: Final = re.compile(rb"={3,}NVSMI LOG={3,}\s*\Z")
# What a collection of reports writes over it: the command, a rule.
_BEFORE: Final = re.compile(rb"nvidia-smi|\A[\W_]+\Z")
_GPU: Final = re.compile(rb"GPU ((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*\Z")
_FIELD: Final = re.compile(rb"( *)([^:]{1,80}?) *(?: : ?(.{0,4096}))?\Z")
_UNREACHABLE: Final = re.compile(
    rb"Unable to determine the device handle for GPU ?((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])"
)
# Sections are indented by four blanks each; none is deeper than this.
_DEEPEST: Final = 12


def detects(head: Head) -> float:
    """Sure of the title that stands over the report, and of the root element of its XML."""
    start = head.data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"<"):
        return 0.95 if b"<nvidia_smi_log>" in start else 0.0
    for line in head.lines(5):
        if _TITLE.match(line):
            return 0.95
        if not _BEFORE.search(line):
            return 0.0
    return 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The rows of all reports of a stream."""
    chunks = chunks_of(stream)
    first = next(chunks, b"")
    whole = itertools.chain([first], chunks)
    if first.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        yield from read_xml(whole)
    else:
        yield from _read_text(whole)


def _read_text(chunks: Iterable[bytes]) -> Iterator[Found | Refused]:
    report: Report | None = None
    path: list[tuple[int, str]] = []
    for offset, line in lines_of(chunks):
        if _TITLE.match(line):
            if report is not None:
                yield from report.rows()
            report, path = Report(offset), []
            continue
        if report is None or not line.strip():
            continue
        gpu = _GPU.match(line)
        if gpu is not None:
            if len(report.gpus) >= MOST_GPUS:
                yield Refused(offset, len(line), f"nvidia_smi_q: more than {MOST_GPUS} GPUs", line[:512])
                return
            report.gpus.append(GpuReport(offset, gpu[1].decode("ascii")))
            path = []
            continue
        unreachable = _UNREACHABLE.match(line)
        if unreachable is not None:
            if len(report.lost) < MOST_GPUS:
                report.lost.append((unreachable[1].decode("ascii"), offset))
            continue
        _take(report, path, line, offset)
    if report is not None:
        yield from report.rows()


def _take(report: Report, path: list[tuple[int, str]], line: bytes, offset: int) -> None:
    """A field or the heading of a section; ``path``: the sections that are open, with their indentation."""
    found = _FIELD.match(line)
    if found is None:
        return
    indent, key, value = len(found[1]), _key(found[2]), found[3]
    while path and path[-1][0] >= indent:
        path.pop()
    if value is not None:
        text = value.decode("utf-8", "replace").strip()
        if report.gpus and indent:
            report.gpus[-1].put((*(name for _, name in path), key), text, offset)
        elif not indent:
            _take_head(report, key, text, offset)
    if len(path) < _DEEPEST:
        path.append((indent, key))


def _take_head(report: Report, key: str, text: str, offset: int) -> None:
    if key == "timestamp":
        report.reading = smi_clock(text)
    elif key == "driver_version":
        report.driver = text, offset
    elif key == "attached_gpus" and text.isascii() and text.isdigit() and len(text) < 6:
        report.attached = int(text)


def _key(printed: bytes) -> str:
    """``SRAM Uncorrectable SEC-DED`` as ``sram_uncorrectable_sec_ded``."""
    return printed.decode("utf-8", "replace").strip().lower().replace(" ", "_").replace("-", "_")


_SAMPLES: Final = (
    # One of two GPUs has errors and rows that wait for a reset.
    Sample(
        "\n==============NVSMI LOG==============\n\n"
        "Timestamp                                 : Mon Mar  2 07:08:09 2026\n"
        "Driver Version                            : 570.86.15\n"
        "CUDA Version                              : 12.8\n\n"
        "Attached GPUs                             : 2\n"
        "GPU 00000000:1A:00.0\n"
        "    Product Name                          : NVIDIA H100 80GB HBM3\n"
        "    Serial Number                         : 1650000000101\n"
        "    GPU UUID                              : GPU-0a0a0a0a-1111-2222-3333-444444444401\n"
        "    Minor Number                          : 4\n"
        "    GPU Reset Status\n"
        "        Reset Required                    : Requested functionality has been deprecated\n"
        "    GPU Recovery Action                   : None\n"
        "    PCI\n"
        "        Bus                               : 0x1A\n"
        "        Bus Id                            : 00000000:1A:00.0\n"
        "    ECC Errors\n"
        "        Volatile\n"
        "            SRAM Uncorrectable Parity     : 0\n"
        "            DRAM Uncorrectable            : 0\n"
        "    Remapped Rows\n"
        "        Pending                           : No\n"
        "        Remapping Failure Occurred        : No\n"
        "GPU 00000000:1B:00.0\n"
        "    Product Name                          : NVIDIA H100 80GB HBM3\n"
        "    GPU UUID                              : GPU-0a0a0a0a-1111-2222-3333-444444444402\n"
        "    GPU Recovery Action                   : Reset\n"
        "    ECC Errors\n"
        "        Volatile\n"
        "            SRAM Uncorrectable Parity     : 1\n"
        "            DRAM Uncorrectable            : 2\n"
        "    Retired Pages\n"
        "        Pending Page Blacklist            : N/A\n"
        "    Remapped Rows\n"
        "        Pending                           : Yes\n"
        "        Remapping Failure Occurred        : No\n"
        "    Processes                             : None\n",
        (
            expect("hosts", driver="570.86.15", valid_from=1772435289000000),
            expect(
                "gpus",
                gpu_index=0,
                pci="0000:1a:00.0",
                gpu_uuid="GPU-0a0a0a0a-1111-2222-3333-444444444401",
                gpu_serial="1650000000101",
                model="NVIDIA H100 80GB HBM3",
                how_known="nvidia-smi",
            ),
            expect("health_checks", check="reset_required", result="skip"),
            expect("health_checks", check="gpu_recovery_action", result="pass", time_basis="zoned"),
            expect("health_checks", check="ecc_uncorrectable_volatile", result="pass", value=0.0, unit="errors"),
            expect("health_checks", check="remapped_rows_pending", result="pass", pci="0000:1a:00.0"),
            expect("health_checks", check="remapped_rows_failure", result="pass", device="GPU 0"),
            expect("gpus", gpu_index=1, pci="0000:1b:00.0", gpu_serial=None),
            expect("health_checks", check="gpu_recovery_action", result="fail", detail="Reset"),
            expect("health_checks", check="ecc_uncorrectable_volatile", result="fail", value=3.0),
            expect("health_checks", check="pending_page_blacklist", result="skip"),
            expect(
                "health_checks",
                check="remapped_rows_pending",
                result="fail",
                gpu_uuid="GPU-0a0a0a0a-1111-2222-3333-444444444402",
            ),
            expect("health_checks", check="remapped_rows_failure", result="pass"),
        ),
    ),
    Sample(
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
        "\t<timestamp>Mon Mar  2 07:08:09 2026</timestamp>\n\t<driver_version>570.86.15</driver_version>\n"
        '\t<attached_gpus>1</attached_gpus>\n\t<gpu id="00000000:1A:00.0">\n'
        "\t\t<product_name>NVIDIA L40S</product_name>\n\t\t<serial>N/A</serial>\n"
        "\t\t<uuid>GPU-0a0a0a0a-1111-2222-3333-444444444403</uuid>\n"
        "\t\t<pci>\n\t\t\t<pci_bus_id>00000000:1A:00.0</pci_bus_id>\n\t\t</pci>\n"
        "\t\t<retired_pages>\n\t\t\t<pending_blacklist>No</pending_blacklist>\n"
        "\t\t\t<pending_retirement>Yes</pending_retirement>\n\t\t</retired_pages>\n"
        "\t\t<remapped_rows>N/A</remapped_rows>\n\t</gpu>\n</nvidia_smi_log>\n",
        (
            expect("hosts", driver="570.86.15"),
            expect("gpus", gpu_index=0, gpu_uuid="GPU-0a0a0a0a-1111-2222-3333-444444444403", gpu_serial=None),
            expect("health_checks", check="pending_page_blacklist", result="pass"),
            expect("health_checks", check="retired_pages_pending", result="fail"),
            expect("health_checks", check="remapped_rows_pending", result="skip"),
            expect("health_checks", check="remapped_rows_failure", result="skip"),
        ),
    ),
)

FORMAT: Final = DocumentFormat(
    name="nvidia_smi_q",
    doc="The report of `nvidia-smi -q`, as text or with `-x` as XML: GPUs with their addresses, UUIDs and serial "
    "numbers, "
    "the driver, and the checks of memory errors, pending repairs and resets.",
    url="https://docs.nvidia.com/deploy/nvidia-smi/index.html",
    tables=("gpus", "hosts", "health_checks"),
    detects=detects,
    read=read,
    samples=_SAMPLES,
    non_samples=(
        # The table without -q.
        "+-----------------------------------------------------------------------------------------+\n"
        "| NVIDIA-SMI 570.86.15              Driver Version: 570.86.15      CUDA Version: 12.8     |\n",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        "Timestamp : Mon Mar  2 07:08:09 2026\nDriver Version : 570.86.15\nGPU 00000000:1A:00.0\n    GPU UUID : "
        "GPU-1\n",
        '<?xml version="1.0"?>\n<!DOCTYPE nvidia_smi_log [<!ENTITY a "b">]>\n<nvidia_smi_log>\n'
        "<driver_version>&a;</driver_version></nvidia_smi_log>\n",
        '<?xml version="1.0"?>\n<html><gpu id="00000000:1A:00.0"><uuid>GPU-1</uuid></gpu></html>\n',
    ),
)
