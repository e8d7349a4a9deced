"""AMD GPUs: hardware errors, rings that time out, page faults, and resets.

    amdgpu 0000:e3:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!
    amdgpu 0000:e3:00.0: amdgpu: GPU reset begin!

A reset is how a fault was answered, not a fault. This grammar rests on few examples.
https://docs.kernel.org/gpu/amdgpu/ras.html
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.kernel.rules import BDF, Rule, event, text_of
from aftershock.schemas.events import GpuError

_URL: Final = "https://docs.kernel.org/gpu/amdgpu/ras.html"
_GPU: Final = rb"amdgpu (?P<pci>" + BDF + rb"): (?:amdgpu: )?"


_ERRORS: Final = (
    re.compile(_GPU + rb".{0,80}?(?P<severity>uncorrectable|correctable) hardware errors?\b.{0,80}detected"),
    re.compile(_GPU + rb"(?:\[drm\] )?(?:\*ERROR\* )?(?P<severity>)ring \S{1,40} timeout"),
    re.compile(_GPU + rb"\[\w{2,12}\d?\] (?P<severity>)(?:no-retry |retry )?page fault"),
)

# Resets are events of the host; errors are rows of another table, and have no rule of that kind.
RULES: Final = (
    Rule(
        words=(b"amdgpu: GPU reset begin",),
        shape=re.compile(rb"amdgpu (?P<device>" + BDF + rb"): (?:amdgpu: )?GPU reset begin"),
        row=event("gpu_reset"),
    ),
    Rule(
        words=(b"amdgpu: GPU reset",),
        shape=re.compile(rb"amdgpu (?P<device>" + BDF + rb"): (?:amdgpu: )?GPU reset(?:\(\d{1,6}\))? succeeded"),
        row=event("gpu_reset_done"),
    ),
)
SIGNATURES: Final = (
    rb"correctable hardware error",
    rb" timeout, signaled seq",
    rb" timeout, but soft recovered",
    rb"page fault \(src_id",
)


def read_amd_line(message: bytes) -> GpuError | None:
    """The row of an error of an AMD GPU; None if the line is none."""
    if not message.startswith(b"amdgpu "):
        return None
    for error in _ERRORS:
        found = error.match(message)
        if found is not None:
            severity = "correctable" if found["severity"] == b"correctable" else None
            pci = text_of(found["pci"])
            return GpuError(family="amdgpu", pci=pci, pci_raw=pci, severity=severity)
    return None


SAMPLES: Final = (
    Sample(
        "[ 77.100001] amdgpu 0000:83:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!\n"
        "[ 77.200001] amdgpu 0000:83:00.0: amdgpu: GPU reset begin!\n"
        "[ 79.200001] amdgpu 0000:83:00.0: amdgpu: GPU reset(2) succeeded!\n",
        (
            expect("gpu_errors", family="amdgpu", code=None, pci="0000:83:00.0"),
            expect("node_events", kind="gpu_reset", device="0000:83:00.0"),
            expect("node_events", kind="gpu_reset_done", device="0000:83:00.0"),
        ),
        "AMD GPUs: errors and resets",
        _URL,
    ),
)

NON_SAMPLES: Final = (
    "[ 77.100001] amdgpu 0000:83:00.0: amdgpu: MODE2 reset\n",
    "[ 77.100001] [drm] ring buffers are ready\n",
    "Mar  3 07:15:42 gpu021 trainer[7]: amdgpu 0000:83:00.0: amdgpu: GPU reset begin!\n",
    "The manual says amdgpu 0000:83:00.0: amdgpu: GPU reset begin!\n",
)
