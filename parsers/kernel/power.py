"""Heat and power: processors that slow themselves down, machines that are about to switch themselves off.

    mce: CPU3: Core temperature above threshold, cpu clock throttled (total events = 1)
    thermal thermal_zone0: acpitz: critical temperature reached, shutting down
    NVRM: GPU 0000:3b:00.0: GPU does not have the necessary power cables connected.

Every core of a package prints the package's line: ``settle`` makes one row of them.
https://github.com/torvalds/linux/blob/master/drivers/thermal/intel/therm_throt.c
"""

from __future__ import annotations

from typing import Final

from aftershock.parsers.formats import Line, Sample, expect
from aftershock.parsers.kernel.rules import Match, Rule, event
from aftershock.parsers.kernel.xid import pci_of
from aftershock.parsers.patterns import later
from aftershock.schemas.events import NodeEvent

PACKAGE: Final = "package"

_THROTTLE: Final = "https://github.com/torvalds/linux/blob/master/drivers/thermal/intel/therm_throt.c"
_ZONES: Final = "https://docs.kernel.org/driver-api/thermal/index.html"
_NVRM: Final = "https://github.com/NVIDIA/open-gpu-kernel-modules"

_GPU: Final = (
    rb"NVRM: GPU (?:at )?(?:PCI:)?(?P<device>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?):? "
)


def _throttled(found: Match, _line: Line) -> NodeEvent:
    device = f"CPU{int(found['cpu'])} {found['what'].decode('ascii').lower()}"
    kind = "thermal" if found["limit"] is None else "power"
    return NodeEvent(kind=kind, device=device, value=float(found["value"]), unit="events")


_ABOVE: Final = (
    rb" (?:temperature above threshold, cpu clock throttled|(?P<limit>power limit notification)) "
    rb"\(total events = (?P<value>\d{1,12})\)"
)

RULES: Final = (
    Rule(
        words=(b": Core temperature above threshold", b": Core power limit notification"),
        shape=later(rb"(?:mce: )?CPU(?P<cpu>\d{1,5}): (?P<what>Core)" + _ABOVE),
        row=_throttled,
    ),
    Rule(
        words=(b": Package temperature above threshold", b": Package power limit notification"),
        shape=later(rb"(?:mce: )?CPU(?P<cpu>\d{1,5}): (?P<what>Package)" + _ABOVE),
        row=_throttled,
        mark=PACKAGE,
    ),
    Rule(
        words=(b"ritical temperature reached",),
        shape=later(
            rb"(?:thermal )?(?P<device>thermal_zone\d{1,3}|thermal_sys|ACPI)(?:: [\w.-]{1,40}(?= ?:))? ?: ?"
            rb"[Cc]ritical temperature reached ?(?:\((?P<value>-?\d{1,4}) ?C\))?, ?shutting down"
        ),
        row=event("thermal", unit="C"),
    ),
    Rule(
        words=(b"necessary power cables connected",),
        shape=later(_GPU + rb"(?:GPU )?does not have the necessary power cables connected"),
        row=lambda found, _line: NodeEvent(kind="power", device=pci_of(found["device"])),
    ),
)

SAMPLES: Final = (
    Sample(
        "[ 77.100001] mce: CPU3: Core temperature above threshold, cpu clock throttled (total events = 12)\n"
        "[ 77.100011] mce: CPU3: Package temperature above threshold, cpu clock throttled (total events = 98)\n"
        "[ 77.100021] mce: CPU19: Package temperature above threshold, cpu clock throttled (total events = 98)\n"
        "[ 77.200001] mce: CPU3: Core temperature/speed normal\n",
        (
            expect("node_events", kind="thermal", device="CPU3 core", value=12.0, unit="events", count=1),
            expect("node_events", kind="thermal", device="CPU3 package", value=98.0, unit="events", count=1),
        ),
        "Processors that are too hot: one row for a package",
        _THROTTLE,
    ),
    Sample(
        "[ 77.100001] thermal thermal_zone0: acpitz: critical temperature reached, shutting down\n"
        "[ 78.100001] thermal thermal_zone1: critical temperature reached (105 C), shutting down\n"
        "[ 79.100001] ACPI: Critical temperature reached (128 C), shutting down\n",
        (
            expect("node_events", kind="thermal", device="thermal_zone0", value=None, unit=None),
            expect("node_events", kind="thermal", device="thermal_zone1", value=105.0, unit="C"),
            expect("node_events", kind="thermal", device="ACPI", value=128.0, unit="C"),
        ),
        "Temperatures at which a machine goes off",
        _ZONES,
    ),
    Sample(
        "[ 77.100001] NVRM: GPU 0000:3b:00.0: GPU does not have the necessary power cables connected.\n",
        (expect("node_events", kind="power", device="0000:3b:00.0"),),
        "Power of GPUs",
        _NVRM,
    ),
)

NON_SAMPLES: Final = (
    "[ 77.200001] mce: CPU3: Core temperature/speed normal\n",
    "[  1.100001] CPU0: Thermal monitoring enabled (TM1)\n",
    "[  1.100001] thermal_sys: Registered thermal governor 'step_wise'\n",
    "[  1.100001] ACPI: thermal: Thermal Zone [TZ00] (28 C)\n",
    "[  1.100001] power_supply BAT0: driver loaded\n",
    "Mar  3 07:15:42 gpu021 thermald[7]: CPU3: Core temperature above threshold, cpu clock throttled (total events = "
    "1)\n",
    "If you see critical temperature reached, shutting down, clean the fans\n",
)
