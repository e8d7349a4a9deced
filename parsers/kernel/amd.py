"""AMD GPUs: hardware errors, rings that time out, page faults, and resets.

    amdgpu 0000:e3:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!
    amdgpu 0000:e3:00.0: amdgpu: 2 new correctable hardware errors detected in umc block
    amdgpu 0000:e3:00.0: amdgpu: GPU reset begin!

A reset is how a fault was answered, not a fault; one that fails is. This grammar rests on few examples.
https://docs.kernel.org/gpu/amdgpu/ras.html
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.formats import Line, Sample, expect
from aftershock.parsers.kernel.rules import BDF, Match, Rule, event, text_of
from aftershock.parsers.kernel.text import lines_below
from aftershock.parsers.patterns import later
from aftershock.schemas.events import GpuError

_URL: Final = "https://docs.kernel.org/gpu/amdgpu/ras.html"
_DRIVER_URL: Final = "https://github.com/torvalds/linux/tree/master/drivers/gpu/drm/amd/amdgpu"

_GPU: Final = rb"amdgpu (?P<pci>" + BDF + rb"): (?:amdgpu: )?"
_DRM: Final = rb"\[drm(?::amdgpu_\w{1,60}(?: \[amdgpu\])?)?\] (?:\*ERROR\* )?"
# Older drivers do not say which of the GPUs it is.
_ANY_GPU: Final = rb"(?:" + _GPU + rb"(?:" + _DRM + rb")?|\[drm:amdgpu_\w{1,60}(?: \[amdgpu\])?\] (?:\*ERROR\* )?)"
_FAULT: Final = rb"\[\w{2,12}\d?\] (?:no-retry |retry )?page fault\b"
_AT_RING: Final = rb"ring \S{1,40} timeout\b"
# The scheduler of the GPU (MES): a number, or ``REMOVE_QUEUE`` and ``MISC (WAIT_REG_MEM)``.
_IN_FUNCTION: Final = rb"\[drm:\w{1,64}(?:\.\w{1,16}){0,3} \[amdgpu\]\] \*ERROR\* "
_REQUEST: Final = rb"(?:\d{1,4}|[A-Z][A-Z_0-9]{2,40}(?: \([A-Z_0-9]{2,40}\))?)\s*\Z"
# The kernel numbers the events that its hardware reports.
_REPORTED: Final = rb"(?:\{\d{1,10}\})?\[Hardware Error\]: ?"

# How many errors there are since the driver last looked. What there is in total was told before.
_COUNTED: Final = re.compile(
    _GPU + rb"(?:.{0,80}?\b(?P<count>\d{1,9}) (?:new )?|.{0,80}?)\b(?P<severity>uncorrectable|correctable) "
    rb"hardware errors?\b.{0,80}?\bdetected\b(?! in total)"
)
_BROKEN: Final = re.compile(
    _GPU
    + rb"(?:"
    + _DRM
    + rb")?(?:(?P<fatal>Fatal error during GPU init)\b|Saved bad pages \d{1,9} reaches threshold value \d)"
)

# Who ran stands in the line of a page fault or in one of the next lines, as it does below that of a ring.
_VICTIM: Final = rb"rocess (?:information: process )?(?P<process>[^\n]{0,15}?) pid (?P<pid>\d{1,10})\b"
_VICTIM_HERE: Final = re.compile(rb" for p" + _VICTIM)
_VICTIM_BELOW: Final = re.compile(_ANY_GPU + rb" ?(?:P|(?:for )?p)" + _VICTIM)
_VICTIM_LINES: Final = 4
_NEXT_FAULT: Final = re.compile(_ANY_GPU + rb"(?:" + _AT_RING + rb"|" + _FAULT + rb")")

# A bank of registers has a line for each of them; the banks of one event are numbered, from 0 in older drivers.
_REGISTER: Final = re.compile(
    _GPU + _REPORTED + rb"(?:ACA\[(?P<bank>\d{1,4})/\d{1,4}\]|aca entry\[(?P<entry>\d{1,4})\])\.(?P<name>\w{1,16})"
    rb"=0x(?P<value>[0-9a-fA-F]{1,16})"
)
_REGISTER_LINES: Final = 20
_UNCORRECTED: Final = 1 << 61
_DEFERRED: Final = 1 << 44

# A reset that failed says so twice, with the lines of other devices between.
_RESET_LINES: Final = 40
_RESET: Final = re.compile(_GPU + rb"GPU reset (?:(?P<end>end with ret = -)|begin)")


def _error(found: Match, _line: Line | None = None) -> GpuError:
    pci = text_of(found["pci"])
    return GpuError(family="amdgpu", pci=pci, pci_raw=pci)


def _with_victim(found: Match, line: Line) -> GpuError:
    row = _error(found)
    victim = _VICTIM_HERE.search(found.string, found.end(), found.end() + 400)
    for below in lines_below(line, _VICTIM_LINES) if victim is None else ():
        if _NEXT_FAULT.match(below):
            break
        told = _VICTIM_BELOW.match(below)
        if told is not None:
            victim = told if told["pci"] in (None, found["pci"]) else None
            break
    if victim is not None:
        row.pid, row.process = int(victim["pid"]) or None, text_of(victim["process"])
    return row


def _reported(found: Match, line: Line) -> GpuError | None:
    """The first bank of an event; the others go on with it."""
    row = _error(found)
    for below in lines_below(line, _REGISTER_LINES):
        register = _REGISTER.match(below)
        if register is None or register["pci"] != found["pci"]:
            break
        if int(register["bank"] or 1) > 1 or int(register["entry"] or 0) > 0:
            return None
        if register["name"] == b"STATUS":
            if not int(register["value"], 16) & (_UNCORRECTED | _DEFERRED):
                row.severity = "correctable"
            break
    return row


def _failed_reset(found: Match, line: Line) -> GpuError | None:
    for below in lines_below(line, _RESET_LINES) if not found["end"] else ():
        told = _RESET.match(below)
        if told is not None and told["pci"] == found["pci"]:
            if told["end"]:
                return None  # which is the row of both
            break
    return _error(found)


# Resets are events of the host; errors are rows of another table.
RULES: Final = (
    Rule(
        words=(b"amdgpu: GPU reset begin",),
        shape=later(rb"amdgpu (?P<device>" + BDF + rb"): (?:amdgpu: )?GPU reset begin"),
        row=event("gpu_reset"),
    ),
    Rule(
        words=(b"amdgpu: GPU reset",),
        shape=later(rb"amdgpu (?P<device>" + BDF + rb"): (?:amdgpu: )?GPU reset(?:\(\d{1,6}\))? succeeded"),
        row=event("gpu_reset_done"),
    ),
    Rule(
        words=(b"amdgpu: GPU reset", b"GPU reset end with ret = -"),
        shape=later(_GPU + rb"GPU reset(?:(?:\(\d{1,6}\))? failed\b|(?P<end> end with ret = -)\d{1,6}\s*\Z)"),
        row=_failed_reset,
    ),
    Rule(
        words=(b" timeout, signaled seq", b" timeout, but soft recovered"),
        shape=later(_ANY_GPU + _AT_RING),
        row=_with_victim,
    ),
    Rule(
        words=(b"page fault (src_id",),
        shape=later(_GPU + _FAULT),
        row=_with_victim,
    ),
    # The scheduler of the GPU hangs; what the driver cannot do without it stands in lines of its own.
    Rule(
        words=(b"MES failed to respon",),
        shape=later(rb"(?:" + _GPU + rb"|" + _IN_FUNCTION + rb")MES failed to respon(?:d to|se) msg=" + _REQUEST),
        row=_error,
    ),
    Rule(
        words=(b"unsuccessful queues preemption",),
        shape=later(
            rb"(?:amdgpu: |" + _GPU + rb")The cp might be in an unrecoverable state due to an unsuccessful queues "
            rb"preemption\s*\Z"
        ),
        row=_error,
    ),
    Rule(
        words=(b"Accelerator Check Architecture events logged",),
        shape=later(_GPU + _REPORTED + rb"Accelerator Check Architecture events logged\s*\Z"),
        row=_reported,
    ),
)
SIGNATURES: Final = (
    rb"correctable hardware error",
    rb"Fatal error during GPU init",
    rb" reaches threshold value ",
)


def read_amd_line(message: bytes) -> GpuError | None:
    """The row of an error of an AMD GPU that one line tells all of; None if the line is none."""
    if not message.startswith(b"amdgpu "):
        return None
    broken = _BROKEN.match(message)
    if broken is not None:
        row = _error(broken)
        row.severity = "fatal" if broken["fatal"] else None
        return row
    counted = _COUNTED.match(message)
    if counted is None or (counted["count"] is not None and not int(counted["count"])):
        return None
    row = _error(counted)
    row.severity = "correctable" if counted["severity"] == b"correctable" else None
    row.count = int(counted["count"] or 1)
    return row


_ERRORS: Final = "AMD GPUs: errors and resets"

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
        _ERRORS,
        _URL,
    ),
    Sample(
        "[ 77.100001] amdgpu 0000:83:00.0: amdgpu: socket: 0, die: 1, 3 new uncorrectable hardware errors detected in "
        "gfx block\n"
        "[ 77.100002] amdgpu 0000:83:00.0: amdgpu: socket: 0, die: 1, 9 uncorrectable hardware errors detected in "
        "total in gfx block\n"
        "[ 77.100003] amdgpu 0000:83:00.0: amdgpu: 0 correctable hardware errors detected in gfx block\n"
        "[ 99.100001] amdgpu 0000:83:00.0: amdgpu: 2 correctable hardware errors detected in umc block\n",
        (
            expect("gpu_errors", family="amdgpu", pci="0000:83:00.0", count=3, severity=None),
            expect("gpu_errors", family="amdgpu", pci="0000:83:00.0", count=2, severity="correctable"),
        ),
        _ERRORS,
        _URL,
    ),
    Sample(
        "[ 77.100001] amdgpu 0000:83:00.0: amdgpu: {4}[Hardware Error]: Accelerator Check Architecture events logged\n"
        "[ 77.100002] amdgpu 0000:83:00.0: amdgpu: {4}[Hardware Error]: ACA[01/01].CONTROL=0x00000000ffffffff\n"
        "[ 77.100003] amdgpu 0000:83:00.0: amdgpu: {4}[Hardware Error]: ACA[01/01].STATUS=0xb0a0000000000137\n",
        (expect("gpu_errors", family="amdgpu", pci="0000:83:00.0", severity=None, trust="kernel"),),
        "AMD GPUs: a block of registers is one row",
        _DRIVER_URL,
    ),
    # The registers of a correctable error, as drivers before 6.10 print them.
    Sample(
        "[ 77.100001] amdgpu 0000:83:00.0: {1}[Hardware Error]: Accelerator Check Architecture events logged\n"
        "[ 77.100002] amdgpu 0000:83:00.0: {1}[Hardware Error]: aca entry[00].STATUS=0x98000000003e0000\n"
        "[ 77.100003] amdgpu 0000:84:00.0: {1}[Hardware Error]: Accelerator Check Architecture events logged\n"
        "[ 77.100004] amdgpu 0000:84:00.0: {1}[Hardware Error]: aca entry[01].STATUS=0x98000000003e0000\n",
        (expect("gpu_errors", family="amdgpu", pci="0000:83:00.0", severity="correctable"),),
        "AMD GPUs: a block of registers is one row",
        _DRIVER_URL,
    ),
    Sample(
        "[ 77.100001] amdgpu 0000:83:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE\n"
        "[ 77.100002] amdgpu 0000:83:00.0: amdgpu: failed to unmap legacy queue\n"
        "[ 88.100001] [drm:mes_v11_0_submit_pkt_and_poll_completion.constprop.0 [amdgpu]] *ERROR* MES failed to "
        "response msg=3\n"
        "[ 99.100001] amdgpu: The cp might be in an unrecoverable state due to an unsuccessful queues preemption\n",
        (
            expect("gpu_errors", family="amdgpu", pci="0000:83:00.0"),
            expect("gpu_errors", family="amdgpu", pci=None),
            expect("gpu_errors", family="amdgpu", pci=None),
        ),
        "AMD GPUs: their scheduler hangs",
        _DRIVER_URL,
    ),
    Sample(
        "[ 77.100001] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=71, emitted "
        "seq=73\n"
        "[ 77.100002] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* Process information: process render pid 4242 thread "
        "render:cs0 pid 4250\n"
        "[ 88.100001] amdgpu 0000:83:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:3 "
        "pasid:32770, for process python3 pid 4243 thread python3 pid 4243)\n",
        (
            expect("gpu_errors", family="amdgpu", pci=None, pid=4242, process="render"),
            expect("gpu_errors", family="amdgpu", pci="0000:83:00.0", pid=4243, process="python3"),
        ),
        "AMD GPUs: who ran",
        _DRIVER_URL,
    ),
    Sample(
        "[ 77.100001] amdgpu 0000:83:00.0: amdgpu: GPU reset(2) failed\n"
        "[ 77.100002] amdgpu 0000:83:00.0: amdgpu: GPU reset end with ret = -62\n"
        "[ 88.100001] amdgpu 0000:83:00.0: amdgpu: Fatal error during GPU init\n"
        "[ 99.100001] amdgpu 0000:83:00.0: amdgpu: Saved bad pages 17 reaches threshold value 16\n",
        (
            expect("gpu_errors", family="amdgpu", message="amdgpu 0000:83:00.0: amdgpu: GPU reset end with ret = -62"),
            expect("gpu_errors", family="amdgpu", severity="fatal"),
            expect("gpu_errors", family="amdgpu", pci="0000:83:00.0"),
        ),
        "AMD GPUs: resets that fail, GPUs that do not start",
        _DRIVER_URL,
    ),
)

NON_SAMPLES: Final = (
    "[ 77.100001] amdgpu 0000:83:00.0: amdgpu: MODE2 reset\n",
    "[ 77.100001] [drm] ring buffers are ready\n",
    "[ 77.100001] amdgpu 0000:83:00.0: amdgpu: 0 uncorrectable hardware errors detected in gfx block\n",
    "[ 77.100001] amdgpu 0000:83:00.0: amdgpu: {4}[Hardware Error]: ACA[01/01].STATUS=0xb0a0000000000137\n",
    "[ 77.100001] amdgpu 0000:83:00.0: amdgpu: GPU reset end with ret = 0\n",
    "Mar  3 07:15:42 gpu021 trainer[7]: amdgpu 0000:83:00.0: amdgpu: GPU reset begin!\n",
    "The manual says amdgpu 0000:83:00.0: amdgpu: GPU reset begin!\n",
    "[ 77.100001] amdgpu 0000:83:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE is what we see\n",
    "[ 77.100001] amdgpu 0000:83:00.0: amdgpu: ring mes_kiq_3.1.0 uses VM inv eng 13 on hub 0\n",
)
