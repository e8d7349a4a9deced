"""dcgm-exporter's metrics page: who the GPUs are, from the labels of its samples.

    DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-5d0f...",pci_bus_id="00000000:3B:00.0",device="nvidia0",
        modelName="NVIDIA H100 80GB HBM3",Hostname="gpu017",DCGM_FI_DRIVER_VERSION="550.90.07"} 41

Documented at https://docs.nvidia.com/datacenter/cloud-native/gpu-telemetry/latest/dcgm-exporter.html. Only identities
are taken here, once for each; the samples are the business of the metrics formats, into which this one will be folded.
``device`` is the minor number of /dev/nvidiaN and is not taken for the index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK, Reading
from aftershock.parsers.documents.text_lines import chunks_of, lines_of
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.parsers.kernel.xid import pci_of
from aftershock.schemas.topology import Gpu, Host

_SAMPLE: Final = re.compile(
    rb"DCGM_FI_[A-Z0-9_]{3,60}\{(?P<labels>[^\n]{1,8000})\} +(?P<value>[^\s]{1,40})(?: "
    rb"+(?P<time>\d{9,17}(?:\.\d{1,9})?))?"
    rb"(?: # .*)?\s*\Z"
)
_LABEL: Final = re.compile(rb'(?P<name>[A-Za-z_][A-Za-z0-9_]{0,100})="(?P<value>(?:[^"\\]|\\.){0,512})"')
_HEADING: Final = re.compile(rb"# (?:HELP|TYPE) DCGM_FI_")
_UUID: Final = re.compile(rb"GPU-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
# Identities that are remembered, so that each is told once: those of a fleet. Beyond it they are told again.
_MOST: Final = 200_000
# Stamps of the text format are milliseconds, those of OpenMetrics seconds; nothing else lies above this.
_MILLISECONDS: Final = 100_000_000_000


def detects(head: Head) -> float:
    """A metrics page of the exporter: its headings or samples come first."""
    first = next((line for line in head.lines(3)), b"")
    return 0.6 if _HEADING.match(first) or _SAMPLE.match(first) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The GPUs, each once, and the hosts with their drivers."""
    told: set[tuple[object, ...]] = set()
    for offset, line in lines_of(chunks_of(stream)):
        if not line.startswith(b"DCGM_FI_"):
            continue
        sample = _SAMPLE.match(line)
        if sample is None:
            continue
        labels = {found["name"]: found["value"] for found in _LABEL.finditer(sample["labels"])}
        for row in _rows(labels):
            key = _key(row)
            if key in told:
                continue
            if len(told) < _MOST:
                told.add(key)
            yield Found(row, _clock(sample["time"]), offset)


def _rows(labels: dict[bytes, bytes]) -> Iterator[Gpu | Host]:
    host = _text(labels.get(b"Hostname"))
    uuid = labels.get(b"UUID", b"")
    if not _UUID.match(uuid):
        return
    index = labels.get(b"gpu", b"")
    yield Gpu(
        host=host,
        gpu_index=int(index) if index.isdigit() and len(index) < 5 else None,
        pci=pci_of(labels.get(b"pci_bus_id", b"")),
        gpu_uuid=uuid.decode("ascii"),
        model=_text(labels.get(b"modelName")),
        how_known="dcgm labels",
    )
    driver = _text(labels.get(b"DCGM_FI_DRIVER_VERSION"))
    if driver is not None:
        yield Host(host=host, driver=driver)


def _key(row: Gpu | Host) -> tuple[object, ...]:
    if isinstance(row, Host):
        return row.host, row.driver
    return row.host, row.gpu_uuid, row.pci, row.gpu_index, row.model


def _clock(stamp: bytes | None) -> Reading:
    if stamp is None:
        return NO_CLOCK
    number = float(stamp)
    micros = number * 1000 if number >= _MILLISECONDS else number * 1_000_000
    return Reading("epoch", int(micros), None, None, 1000, stamp.decode("ascii"))


def _text(value: bytes | None) -> str | None:
    return value.decode("utf-8", "replace") if value else None


FORMAT: Final = DocumentFormat(
    name="dcgm_labels",
    doc="The metrics page of dcgm-exporter, read for the identities in its labels: UUID, PCI address, index, model, "
    "host "
    "and driver. It will be folded into the metrics formats.",
    url="https://docs.nvidia.com/datacenter/cloud-native/gpu-telemetry/latest/dcgm-exporter.html",
    tables=("gpus", "hosts"),
    detects=detects,
    read=read,
    samples=(
        Sample(
            "# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).\n# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n"
            'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0a0a0a0a-1111-2222-3333-444444444421",'
            'pci_bus_id="00000000:5D:00.0",device="nvidia3",modelName="NVIDIA H100 80GB HBM3",Hostname="dgx07",'
            'DCGM_FI_DRIVER_VERSION="550.90.07"} 41\n'
            'DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-0a0a0a0a-1111-2222-3333-444444444421",'
            'pci_bus_id="00000000:5D:00.0",device="nvidia3",modelName="NVIDIA H100 80GB HBM3",Hostname="dgx07",'
            'DCGM_FI_DRIVER_VERSION="550.90.07",err_code="31",err_msg="a, b"} 31\n',
            (
                expect(
                    "gpus",
                    host="dgx07",
                    gpu_index=0,
                    pci="0000:5d:00.0",
                    gpu_uuid="GPU-0a0a0a0a-1111-2222-3333-444444444421",
                    model="NVIDIA H100 80GB HBM3",
                    how_known="dcgm labels",
                ),
                expect("hosts", host="dgx07", driver="550.90.07"),
            ),
        ),
    ),
    non_samples=(
        "# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.\n"
        'node_cpu_seconds_total{cpu="0",mode="idle"} 12.5\n',
        'DCGM_FI_DEV_GPU_TEMP{gpu="0"} 41\n',
        'alert: DCGM_FI_DEV_XID_ERRORS{UUID="GPU-0a0a0a0a-1111-2222-3333-444444444421"} > 0\n',
        'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="nvidia0"} 41\n',
    ),
)
