"""Machine checks and memory errors: what processors, memory controllers and firmware report.

    mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: 8c00004000010090
    mce: [Hardware Error]: TSC 0 ADDR 6d3d483240 MISC 200401c080602086
    mce: [Hardware Error]: PROCESSOR 0:50654 TIME 1709294400 SOCKET 0 APIC 18 microcode 2000065
    EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x6d3d483 ...)
    {1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 4

A block is one row. ``TIME`` is seconds since 1970: the time of the event, and an anchor for the clocks around it.
Lines that only say that something was logged, or that EDAC is at work, are rows only where nothing near says more.
https://docs.kernel.org/admin-guide/RAS/main.html, https://github.com/torvalds/linux/blob/master/drivers/edac/edac_mc.c
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from aftershock.parsers.clock import SECOND, Reading
from aftershock.parsers.formats import Line, Sample, expect
from aftershock.parsers.kernel.rules import BDF, ECHO, TASK, Match, Rule, event, text_of
from aftershock.parsers.kernel.text import lines_below
from aftershock.parsers.patterns import later
from aftershock.schemas.events import NodeEvent

MACHINE: Final = "machine"

_MCE_URL: Final = "https://docs.kernel.org/admin-guide/RAS/main.html"
_EDAC_URL: Final = "https://github.com/torvalds/linux/blob/master/drivers/edac/edac_mc.c"
_GHES_URL: Final = "https://github.com/torvalds/linux/blob/master/drivers/firmware/efi/cper.c"

# The status register of a bank: uncorrected, and the context of the processor is corrupt.
_UNCORRECTED: Final = 1 << 61
_CORRUPT: Final = 1 << 57
_STATUS_DIGITS: Final = 16

# A record of the firmware has some twenty lines for each section; the first section is the one that counts.
_FIRMWARE_LINES: Final = 40
_PREFIX: Final = re.compile(rb"(?:\{\d{1,10}\})?\[Hardware Error\]:")
_SECTION: Final = re.compile(rb"section_type: ([A-Za-z ]{3,40})")
_SEVERITY: Final = re.compile(rb"event severity: (corrected|recoverable|fatal)")
_DEVICE_ID: Final = re.compile(rb"device_id: (" + BDF + rb")")
# Where the memory is: as the board is labelled, or as the controller counts.
_DIMMS: Final = (
    re.compile(rb"DIMM location: (?:not present. )?(\S[^\r\n]{0,80})"),
    re.compile(rb"fru_text: (\S[^\r\n]{0,80})"),
    re.compile(rb"\b(node:? ?\d{1,4}[^\r\n]{0,80})"),
)
_SEVERITIES: Final = {b"corrected": "correctable", b"recoverable": "nonfatal", b"fatal": "fatal"}

# The line that prints the time is at most the fourth of its block.
_CLOCK_LINES: Final = 5
_TIME: Final = re.compile(rb"\bTIME (\d{9,10})\b")
_NEXT_BLOCK: Final = re.compile(rb": Machine Check(?: Exception)?: |HANDLING MCE")
# A machine that has lost its clock counts from some earlier year.
_OLDEST_EPOCH: Final = 1_262_304_000  # 2010


def block_clock(line: Line, reading: Reading) -> Reading:
    """The clock of a machine check, with the epoch that its block prints."""
    for below in (line.envelope.message, *lines_below(line, _CLOCK_LINES)):
        found = _TIME.search(below)
        if found is not None and (b"[Hardware Error]" in below or b"EDAC" in below):
            break
        if below is not line.envelope.message and _NEXT_BLOCK.search(below):
            return reading
    else:
        return reading
    if int(found[1]) < _OLDEST_EPOCH:
        return reading
    epoch = int(found[1]) * SECOND
    if reading.wall is None:
        return Reading("epoch", epoch, reading.boot, None, SECOND, reading.text or found[1].decode("ascii"))
    return reading._replace(epoch=epoch)


def _machine_check(found: Match, _line: Line) -> NodeEvent:
    device = f"CPU {int(found['cpu'])} bank {int(found['bank'])}"
    return NodeEvent(kind="machine_check", device=device, severity=_severity(found["status"]))


def _severity(status: bytes | None) -> str | None:
    if status is None or len(status) != _STATUS_DIGITS:
        return None
    bits = int(status, 16)
    if not bits & _UNCORRECTED:
        return "correctable"
    return "fatal" if bits & _CORRUPT else "uncorrectable"


def _counted(found: Match, _line: Line) -> NodeEvent:
    """EDAC prints how many errors it found since it last looked, and where; old kernels print one line for each."""
    errors = int(found["value"] or 1)
    place = found["place"] or found["label"]
    return NodeEvent(
        kind="memory_error",
        device=text_of(found["device"] + (b" " + place if place else b"")),
        value=float(errors),
        unit="errors",
        count=max(1, errors),
        severity="correctable" if found["sort"] == b"CE" else "uncorrectable",
    )


def _firmware(found: Match, line: Line) -> NodeEvent:
    prefix = _PREFIX.match(found.string)
    wanted = b"" if prefix is None else prefix.group()
    block = []
    for below in lines_below(line, _FIRMWARE_LINES):
        if not _PREFIX.match(below) or (wanted[:1] == b"{" and not below.startswith(wanted)):
            break
        block.append(below)
    return _firmware_row(block, previous_boot=found.string.startswith(b"BERT"))


def _firmware_row(block: Sequence[bytes], *, previous_boot: bool) -> NodeEvent:
    text = b"\n".join(block)
    section = _SECTION.search(text)
    word = section[1].lower() if section else b""
    kind, place = "machine_check", None
    if b"pcie" in word:
        kind, place = "pcie_error", _DEVICE_ID.search(text)
    elif b"memory" in word:
        kind, place = "memory_error", next((found for dimm in _DIMMS if (found := dimm.search(text))), None)
    device = text_of(place[1].strip()) if place else None
    if previous_boot:
        device = f"{device} (previous boot)" if device else "previous boot"
    severity = _SEVERITY.search(text)
    return NodeEvent(kind=kind, device=device, severity=_SEVERITIES.get(severity[1]) if severity else None)


def _poisoned(found: Match, _line: Line) -> NodeEvent:
    return NodeEvent(
        kind="memory_error",
        device=text_of(b"page " + found["page"]),
        pid=int(found["pid"]),
        process=text_of(found["process"]),
        severity="uncorrectable",
    )


RULES: Final = (
    Rule(
        words=(b": Machine Check: ", b": Machine Check Exception: "),
        shape=later(
            rb"(?:mce: )?\[Hardware Error\]: CPU (?P<cpu>\d{1,5}): "
            rb"Machine Check(?: Exception)?: [0-9a-f]{1,16} Bank (?P<bank>\d{1,3}): (?P<status>[0-9a-f]{1,16})?"
        ),
        row=_machine_check,
        mark=MACHINE,
        clock=True,
    ),
    Rule(
        words=(b"_STATUS[",),
        shape=later(
            rb"(?:mce: )?\[Hardware Error\]: CPU:(?P<cpu>\d{1,5}) \([0-9a-f:]{1,12}\) "
            rb"MC(?P<bank>\d{1,3})_STATUS\[[^\]]{0,100}\]: 0x(?P<status>[0-9a-f]{16})"
        ),
        row=_machine_check,
        mark=MACHINE,
        clock=True,
    ),
    Rule(
        words=(b"Machine check events logged",),
        shape=later(rb"(?:mce: )?\[Hardware Error\]: Machine check events logged\s*\Z"),
        row=event("machine_check"),
        mark=MACHINE + ECHO,
    ),
    Rule(
        words=(b" CE ", b" UE "),
        shape=later(
            rb"EDAC (?:[\w-]{1,32}:? )?(?P<device>MC\d{1,4}): (?:(?P<value>\d{1,9}) )?(?P<sort>CE|UE)\b"
            rb"(?=[ :,])(?:(?: [^\s(]{1,40}){0,8}? on (?P<place>any memory|[^\s(]\S{0,120}))?"
            rb"(?:(?<=CE|UE) page 0x[0-9a-f]{1,16},.{0,200}?, label \"(?P<label>[^\"]{1,80})\")?"
        ),
        row=_counted,
        mark=MACHINE,
        scan=(b"EDAC ",),
    ),
    Rule(
        words=(b"HANDLING MCE MEMORY ERROR",),
        shape=later(rb"EDAC (?:[\w-]{1,32}:? )?(?P<device>MC\d{1,4}): HANDLING MCE MEMORY ERROR\s*\Z"),
        row=event("memory_error"),
        mark=MACHINE + ECHO,
        clock=True,
    ),
    Rule(
        words=(b"due to hardware memory corruption",),
        shape=later(
            rb"(?:Memory failure:|MCE) (?P<page>0x[0-9a-f]{1,16}): (?:Sending SIGBUS to|Killing) "
            + TASK
            + rb":(?P<pid>\d{1,10}) due to hardware memory corruption"
        ),
        row=_poisoned,
    ),
    Rule(
        words=(b"Hardware error from APEI Generic Hardware Error Source",),
        shape=later(
            rb"(?:\{\d{1,10}\})?\[Hardware Error\]: "
            rb"Hardware error from APEI Generic Hardware Error Source: \d{1,5}\s*\Z"
        ),
        row=_firmware,
        mark=MACHINE + ECHO,
    ),
    Rule(
        words=(b"BERT: Error records from previous boot",),
        shape=later(rb"BERT: Error records from previous boot:?\s*\Z"),
        row=_firmware,
    ),
)

_MCE: Final = "Machine checks"
_EDAC: Final = "Memory errors that EDAC counts"
_GHES: Final = "Errors that the firmware reports (APEI): a block is one row"

SAMPLES: Final = (
    Sample(
        "[ 9001.250000] mce: [Hardware Error]: Machine check events logged\n"
        "[ 9001.250003] mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: 8c00004000010090\n"
        "[ 9001.250007] mce: [Hardware Error]: TSC 0 ADDR 6d3d483240 MISC 200401c080602086\n"
        "[ 9001.250011] mce: [Hardware Error]: PROCESSOR 0:50654 TIME 1772522142 SOCKET 0 APIC 18 microcode 2000065\n",
        (
            expect(
                "node_events",
                kind="machine_check",
                device="CPU 12 bank 7",
                severity="correctable",
                time=1772522142000000,
                time_basis="epoch",
            ),
        ),
        _MCE,
        _MCE_URL,
    ),
    Sample(
        "[ 9001.250003] [Hardware Error]: Corrected error, no action required.\n"
        "[ 9001.250005] [Hardware Error]: CPU:2 (19:1:1) MC17_STATUS[Over|CE|MiscV|-|-|-|SyndV|CECC|-|-|-]: "
        "0xdc2040000000011b\n"
        "[ 9001.250006] [Hardware Error]: Unified Memory Controller Ext. Error Code: 0, DRAM ECC error.\n",
        (expect("node_events", kind="machine_check", device="CPU 2 bank 17", severity="correctable"),),
        "Machine checks that the kernel decodes (AMD)",
        "https://github.com/torvalds/linux/blob/master/drivers/edac/mce_amd.c",
    ),
    Sample(
        "Mar  3 07:15:42 gpu021 kernel: EDAC sbridge MC1: HANDLING MCE MEMORY ERROR\n"
        "Mar  3 07:15:42 gpu021 kernel: EDAC sbridge MC1: CPU 1: Machine Check Event: 0 Bank 11: 8c00004f000800c2\n"
        "Mar  3 07:15:42 gpu021 kernel: EDAC sbridge MC1: PROCESSOR 0:306e4 TIME 1772522142 SOCKET 1 APIC 20\n"
        "Mar  3 07:15:42 gpu021 kernel: EDAC MC1: 2 CE memory scrubbing error on CPU_SrcID#1_Ha#0_Chan#0_DIMM#0 "
        "(channel:0 slot:0 page:0xee30a0 offset:0x0 grain:32 syndrome:0x0)\n",
        (
            expect(
                "node_events",
                kind="memory_error",
                device="MC1 CPU_SrcID#1_Ha#0_Chan#0_DIMM#0",
                value=2.0,
                unit="errors",
                count=2,
                severity="correctable",
            ),
        ),
        _EDAC,
        _EDAC_URL,
    ),
    Sample(
        "[ 77.100001] EDAC MC3: 1 UE memory read error on any memory (page:0x0 offset:0x0 grain:32)\n"
        "[ 99.100001] EDAC MC0: CE page 0x3d8d9, offset 0x3c0, grain 8, syndrome 0x44, row 2, channel 1, label "
        '"DIMM_B2": k8_edac\n',
        (
            expect("node_events", kind="memory_error", device="MC3 any memory", severity="uncorrectable", count=1),
            expect("node_events", kind="memory_error", device="MC0 DIMM_B2", severity="correctable", value=1.0),
        ),
        _EDAC,
        _EDAC_URL,
    ),
    Sample(
        "[ 77.100001] {1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 4\n"
        "[ 77.100002] {1}[Hardware Error]: It has been corrected by h/w and requires no further action\n"
        "[ 77.100003] {1}[Hardware Error]: event severity: corrected\n"
        "[ 77.100004] {1}[Hardware Error]:  Error 0, type: corrected\n"
        "[ 77.100005] {1}[Hardware Error]:   section_type: memory error\n"
        "[ 77.100006] {1}[Hardware Error]:   node: 1 card: 4 module: 0 rank: 0 bank: 1 device: 14 row: 5 column: 8\n"
        "[ 77.100007] {1}[Hardware Error]:   DIMM location: P0 CHANNEL A DIMM0\n",
        (expect("node_events", kind="memory_error", device="P0 CHANNEL A DIMM0", severity="correctable"),),
        _GHES,
        _GHES_URL,
    ),
    Sample(
        "[ 77.100001] {2}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 4\n"
        "[ 77.100002] {2}[Hardware Error]: event severity: recoverable\n"
        "[ 77.100003] {2}[Hardware Error]:  Error 0, type: recoverable\n"
        "[ 77.100004] {2}[Hardware Error]:  fru_text: B1\n"
        "[ 77.100005] {2}[Hardware Error]:   section_type: memory error\n",
        (expect("node_events", kind="memory_error", device="B1", severity="nonfatal"),),
        _GHES,
        _GHES_URL,
    ),
    Sample(
        "[ 77.100001] {7}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 0\n"
        "[ 77.100003] {7}[Hardware Error]: event severity: fatal\n"
        "[ 77.100005] {7}[Hardware Error]:   section_type: PCIe error\n"
        "[ 77.100006] {7}[Hardware Error]:   device_id: 0000:9d:00.0\n",
        (expect("node_events", kind="pcie_error", device="0000:9d:00.0", severity="fatal"),),
        _GHES,
        _GHES_URL,
    ),
    Sample(
        "[  1.100001] BERT: Error records from previous boot:\n"
        "[  1.100002] [Hardware Error]: event severity: fatal\n"
        "[  1.100003] [Hardware Error]:   section_type: general processor error\n",
        (expect("node_events", kind="machine_check", device="previous boot", severity="fatal"),),
        _GHES,
        _GHES_URL,
    ),
    Sample(
        "[ 77.100001] Memory failure: 0x1f4a3: Sending SIGBUS to python3:4242 due to hardware memory corruption\n"
        "[ 77.100002] Memory failure: 0x1f4a3: recovery action for dirty LRU page: Recovered\n",
        (
            expect(
                "node_events",
                kind="memory_error",
                pid=4242,
                process="python3",
                device="page 0x1f4a3",
                severity="uncorrectable",
            ),
        ),
        "Memory that is poisoned, and the process that used it",
        "https://github.com/torvalds/linux/blob/master/mm/memory-failure.c",
    ),
)

NON_SAMPLES: Final = (
    "[ 77.100001] mce: [Hardware Error]: TSC 0 ADDR 6d3d483240 MISC 200401c080602086\n",
    "[ 77.100001] mce: [Hardware Error]: PROCESSOR 0:50654 TIME 1709294400 SOCKET 0 APIC 18 microcode 2000065\n",
    "[  1.100001] mce: CPU supports 32 MCE banks\n",
    "[  1.100001] MCE: In-kernel MCE decoding enabled.\n",
    "[  1.100001] EDAC MC0: Giving out device to module skx_edac controller Skylake Socket#0 IMC#0\n",
    "[  1.100001] EDAC amd64: F19h_M10h detected (node 0).\n",
    "[ 77.100001] EDAC skx MC3: CPU 0: Machine Check Event: 0x0 Bank 7: 0x8c00004000010090\n",
    "[ 77.100001] {1}[Hardware Error]:   section_type: memory error\n",
    "[ 77.100001] {1}[Hardware Error]: event severity: corrected\n",
    "[ 77.100001] Memory failure: 0x1f4a3: recovery action for dirty LRU page: Recovered\n",
    "Mar  3 07:15:42 gpu021 mcelog[7]: mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: 8c00004000010090\n",
    "We had EDAC MC0: 1 CE memory read error on DIMM_A1 twice this week\n",
    "[  1.100001] GHES: APEI firmware first mode is enabled by APEI bit and WHEA _OSC.\n",
)
