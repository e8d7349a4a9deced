"""What else the kernel says about a host: storage, memory, hangs, crashes, links, shutdowns, AMD GPUs.

Each rule is a signature, the shape of the whole line, and the row that it makes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from aftershock.parsers.clock import SECOND, Reading
from aftershock.schemas.events import EventRow, GpuError, NodeEvent

Match = re.Match[bytes]


class Rule(NamedTuple):
    """signature: what the scan looks for; pattern: the line from its beginning; row: what it becomes."""

    signature: bytes
    pattern: re.Pattern[bytes]
    row: Callable[[Match], EventRow]


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")


def _event(kind: str) -> Callable[[Match], EventRow]:
    """A row of the named groups that the pattern has: device, pid, process, and value with the unit in the pattern."""

    def build(found: Match) -> EventRow:
        groups = found.groupdict()
        pid, value = groups.get("pid"), groups.get("value")
        return NodeEvent(
            kind=kind,
            device=_text(groups.get("device")),
            pid=None if pid is None else int(pid),
            process=_text(groups.get("process")),
            value=None if value is None else float(value),
        )

    return build


def _measured(kind: str, unit: str) -> Callable[[Match], EventRow]:
    build = _event(kind)

    def with_unit(found: Match) -> EventRow:
        row = build(found)
        if isinstance(row, NodeEvent) and row.value is not None:
            row.unit = unit
        return row

    return with_unit


def _corrected_memory(found: Match) -> EventRow:
    """EDAC prints how many errors it found since it last looked."""
    errors = int(found["value"])
    device = _text(found["device"] + (b" " + found["place"] if found["place"] else b""))
    return NodeEvent(kind="memory_error", device=device, value=float(errors), unit="errors", count=max(1, errors))


def _machine_check(found: Match) -> EventRow:
    return NodeEvent(kind="machine_check", device=f"CPU {int(found['cpu'])} bank {int(found['bank'])}")


def _amd_error(found: Match) -> EventRow:
    word = found["severity"] or b""
    severity = "correctable" if word == b"correctable" else None
    return GpuError(family="amdgpu", pci=_text(found["pci"]), pci_raw=_text(found["pci"]), severity=severity)


_TASK: Final = rb"(?P<process>.{1,64}?)"
_BDF: Final = rb"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_AMD: Final = rb"amdgpu (?P<pci>" + _BDF + rb"): (?:amdgpu: )?"

RULES: Final = tuple(
    Rule(signature, re.compile(pattern), row)
    for signature, pattern, row in (
        # nfs: server 10.0.0.7 not responding, timed out
        (
            rb"server \S{1,255} not responding",
            rb"nfs4?: server (?P<device>\S+) not responding",
            _event("nfs_not_responding"),
        ),
        (rb"server \S{1,255} OK", rb"nfs4?: server (?P<device>\S+) OK\s*$", _event("nfs_ok")),
        # Out of memory: Killed process 4242 (python3) total-vm:...: the victim. Whoever asked for memory ("python3
        # invoked oom-killer") and what was only chosen ("Kill process 4242 (python3) score 900") are other lines.
        (
            rb"Killed process \d",
            rb"(?:Memory cgroup )?(?:[Oo]ut of memory(?: \(oom_kill_allocating_task\))?: )?"
            rb"Killed process (?P<pid>\d{1,10}) \("
            + _TASK
            + rb"\)(?:,|\s|$)(?:.{0,200}?anon-rss:(?P<value>\d{1,15})kB)?",
            _measured("oom_kill", "kB"),
        ),
        # python3[4242]: segfault at 7f79 ip 00007f7c sp 00007f7c error 4 in libnccl.so.2[...]
        (
            rb"\]: segfault at ",
            _TASK + rb"\[(?P<pid>\d{1,10})\]: segfault at [0-9a-f]+ ip [0-9a-f]+ ",
            _event("segfault"),
        ),
        # traps: python3[4242] general protection fault ip:... sp:... error:0 in ...
        (
            rb"general protection fault",
            rb"traps: " + _TASK + rb"\[(?P<pid>\d{1,10})\] general protection fault ",
            _event("general_protection_fault"),
        ),
        # EDAC MC0: 4 CE error on CPU#0Channel#2_DIMM#0 (channel:2 slot:0 page:0x0 ...)
        (
            rb"EDAC .{0,20}MC\d+: \d",
            rb"EDAC (?:\S+ )?(?P<device>MC\d{1,4}): (?P<value>\d{1,9}) (?:CE|UE) "
            rb".{0,200}? on (?P<place>\S{1,80}|any memory)",
            _corrected_memory,
        ),
        # mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: 8c00004000010090
        (
            rb"Machine Check(?: Exception)?: ",
            rb"(?:mce: )?\[Hardware Error\]: CPU (?P<cpu>\d{1,5}): "
            rb"Machine Check(?: Exception)?: [0-9a-f]+ Bank (?P<bank>\d{1,3}): ",
            _machine_check,
        ),
        (
            rb"Machine check events logged",
            rb"(?:mce: )?\[Hardware Error\]: Machine check events logged",
            _event("machine_check"),
        ),
        # INFO: task python3:4242 blocked for more than 120 seconds.
        (
            rb"blocked for more than \d",
            rb"(?:INFO: )?task " + _TASK + rb":(?P<pid>\d{1,10}) blocked for more than (?P<value>\d{1,9}) seconds",
            _measured("hung_task", "s"),
        ),
        # watchdog: BUG: soft lockup - CPU#12 stuck for 22s! [python3:4242]
        (
            rb"soft lockup - CPU",
            rb"(?:NMI )?(?:watchdog: )?BUG: soft lockup - (?P<device>CPU#\d{1,5}) stuck for (?P<value>\d{1,9})s! "
            rb"\[" + _TASK + rb":(?P<pid>\d{1,10})\]",
            _measured("soft_lockup", "s"),
        ),
        (
            rb"hard LOCKUP on cpu",
            rb"(?:NMI )?(?:watchdog: )?(?:Watchdog detected )?hard LOCKUP on (?P<device>cpu \d{1,5})",
            _event("hard_lockup"),
        ),
        (rb"Kernel panic - not syncing", rb"Kernel panic - not syncing", _event("panic")),
        (
            rb"reboot: (?:Restarting|Power)",
            rb"reboot: (?:Restarting system|Power(?:ing)? (?:down|off))",
            _event("shutdown"),
        ),
        # mlx5_core 0000:5e:00.0 ibp94s0: Link down; igb 0000:01:00.0 eno1: igb: eno1 NIC Link is Down
        (
            rb"[Ll]ink (?:is )?[Dd]own",
            rb"(?:mlx[45]_core|mlx5_ib|igb|ixgbe|ice|i40e|bnxt_en|tg3|e1000e) (?P<device>"
            + _BDF
            + rb"(?: [\w.-]{1,32})?): "
            rb"(?:.{0,40} )?(?:NIC )?[Ll]ink (?:is )?[Dd]own",
            _event("link_down"),
        ),
        (
            rb"[Ll]ink (?:is )?[Uu]p",
            rb"(?:mlx[45]_core|mlx5_ib|igb|ixgbe|ice|i40e|bnxt_en|tg3|e1000e) (?P<device>"
            + _BDF
            + rb"(?: [\w.-]{1,32})?): "
            rb"(?:.{0,40} )?(?:NIC )?[Ll]ink (?:is )?[Uu]p",
            _event("link_up"),
        ),
        # bond0: (slave ens1f0): link status definitely down, disabling slave
        (
            rb"link status definitely down",
            rb"(?:bonding: )?\w{1,32}: (?:\(slave (?P<device>\S{1,32})\): )?link status definitely down",
            _event("link_down"),
        ),
        # mlx5_core 0000:5e:00.0: poll_health:825:(pid 0): device's health compromised - reached miss count
        (
            rb"health compromised",
            rb"mlx5_core (?P<device>" + _BDF + rb").{0,120}device's health compromised",
            _event("nic_error"),
        ),
        (
            rb"Port module event",
            rb"mlx5_core (?P<device>" + _BDF + rb").{0,40}Port module event\[error\]: ",
            _event("nic_error"),
        ),
        # amdgpu 0000:e3:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!
        (
            rb"correctable hardware error",
            _AMD + rb".{0,80}?(?P<severity>uncorrectable|correctable) hardware errors?\b.{0,80}detected",
            _amd_error,
        ),
        (
            rb"amdgpu.{0,60} timeout",
            _AMD + rb"(?:\[drm\] )?(?:\*ERROR\* )?(?P<severity>)ring \S{1,40} timeout",
            _amd_error,
        ),
        (
            rb"amdgpu.{0,60}page fault",
            _AMD + rb"\[\w{2,12}\d?\] (?P<severity>)(?:no-retry |retry )?page fault",
            _amd_error,
        ),
        # A reset is how a fault was answered, not a fault.
        (
            rb"amdgpu: GPU reset",
            rb"amdgpu (?P<device>" + _BDF + rb"): (?:amdgpu: )?GPU reset begin",
            _event("gpu_reset"),
        ),
        (
            rb"amdgpu: GPU reset\(?\d*\)? succeeded",
            rb"amdgpu (?P<device>" + _BDF + rb"): (?:amdgpu: )?GPU reset(?:\(\d+\))? succeeded",
            _event("gpu_reset_done"),
        ),
    )
)
SIGNATURES: Final = tuple(rule.signature for rule in RULES)

# A machine check prints the time at which it happened, which may lie before the boot in which it is told.
_TIME: Final = re.compile(rb"\bTIME (\d{9,10})\b")
_TIME_BYTES: Final = 800


def read_host_line(message: bytes) -> EventRow | None:
    """The row of a line about the host; None if it is none."""
    for rule in RULES:
        found = rule.pattern.match(message)
        if found is not None:
            return rule.row(found)
    return None


def machine_check_clock(reading: Reading, message: bytes, following: bytes) -> Reading:
    """The clock of a machine check, with the epoch that its block prints."""
    block = message + b"\n" + following[:_TIME_BYTES]
    found = _TIME.search(block)
    if found is None:
        return reading
    epoch = int(found[1]) * SECOND
    if reading.wall is None:
        return Reading("epoch", epoch, reading.boot, None, SECOND, reading.text or found[1].decode("ascii"))
    return reading._replace(epoch=epoch)
