"""Network adapters: links that go down and come up, adapters whose firmware or queues are in trouble.

    mlx5_core 0000:5e:00.0 ibp94s0: Link down
    bnxt_en 0000:19:00.0 ens1f0np0: NIC Link is Up, 100000 Mbps full duplex, Flow control: none
    mlx5_core 0000:5e:00.0: Port module event: module 0, Cable unplugged
    mlx5_core 0000:5e:00.0: poll_health:825:(pid 0): device's health compromised - reached miss count
    infiniband mlx5_0: Port: 1 Link DOWN
    bond0: (slave ens1f0): link status definitely down, disabling slave

EFA is known by the format of its driver only. Of the lines that tell one failure of an adapter ``settle`` keeps one.
https://github.com/torvalds/linux/tree/master/drivers/net/ethernet/mellanox/mlx5/core,
https://github.com/torvalds/linux/tree/master/drivers/infiniband
"""

from __future__ import annotations

from typing import Final

from aftershock.parsers.formats import Line, Sample, expect
from aftershock.parsers.kernel.rules import BDF, ECHO, Match, Rule, event, text_of
from aftershock.parsers.patterns import later
from aftershock.schemas.events import NodeEvent

LINK, ADAPTER = "link", "adapter"

_MLX5: Final = "https://github.com/torvalds/linux/tree/master/drivers/net/ethernet/mellanox/mlx5/core"
_IB: Final = "https://github.com/torvalds/linux/blob/master/drivers/infiniband/core/cache.c"
_EFA: Final = "https://github.com/amzn/amzn-drivers/tree/master/kernel/linux/efa"
_ENA: Final = "https://github.com/amzn/amzn-drivers/tree/master/kernel/linux/ena"
_BOND: Final = "https://docs.kernel.org/networking/bonding.html"

_DOWN: Final = frozenset({b"down", b"unplugged", b"disabled"})
# The firmware of mlx5 grades its own reports like syslog: above 4 (warning) they are no trouble.
_WARNING: Final = 4

# Driver, address, and the name of the interface where it has one.
_DEVICE: Final = rb"(?P<device>" + BDF + rb"(?: [\w.@-]{1,32})?)(?: \((?:unnamed net_device|uninitialized)\))*: ?"
_MLX: Final = rb"mlx[45]_core " + _DEVICE + rb"(?:[\w.]{1,64}:\d{1,6}:\(pid \d{1,10}\): )?"
# Behind the state of a link comes how fast it is or why it went; a sentence goes on with other words.
_LINK_END: Final = rb"\.?(?:\s*\Z|[,:;] ?\S| (?:at|due to|after) |\W?\s?\(?\d)"

_LINK_WORDS: Final = tuple(
    b"ink " + verb + state
    for verb in (b"", b"is ", b"is now ")
    for state in (b"down", b"Down", b"DOWN", b"up", b"Up", b"UP")
)


def _link(found: Match, _line: Line) -> NodeEvent:
    state = found["state"].lower()
    return NodeEvent(kind="link_down" if state in _DOWN else "link_up", device=text_of(found["device"]))


def _port(found: Match, _line: Line) -> NodeEvent:
    kind = "link_up" if found["state"] == b"ACTIVE" else "link_down"
    return NodeEvent(kind=kind, device=f"{text_of(found['device'])} port {int(found['port'])}")


def _module(found: Match, _line: Line) -> NodeEvent:
    kind = "link_up" if found["state"] == b"plugged" else "link_down"
    return NodeEvent(kind=kind, device=f"{text_of(found['device'])} module {int(found['module'])}")


def _slave(found: Match, _line: Line) -> NodeEvent:
    slave = found["slave"] or found["interface"]
    device = found["bond"] if slave is None else slave + b" in " + found["bond"]
    return NodeEvent(kind="link_down" if found["state"] == b"down" else "link_up", device=text_of(device))


def _bond(found: Match, _line: Line) -> NodeEvent:
    kind = "link_up" if found["up"] else "link_down"
    return NodeEvent(kind=kind, device=text_of(found["device"]))


def _syndrome(found: Match, _line: Line) -> NodeEvent | None:
    """Why an adapter is in trouble. Syndrome 0 is none."""
    return NodeEvent(kind="nic_error", device=text_of(found["device"])) if int(found["syndrome"], 16) else None


def _health_issue(found: Match, _line: Line) -> NodeEvent | None:
    if int(found["level"]) > _WARNING:
        return None
    return NodeEvent(kind="nic_error", device=text_of(found["device"]))


RULES: Final = (
    Rule(
        words=_LINK_WORDS,
        shape=later(
            rb"[a-z][\w-]{1,31} " + _DEVICE + rb"(?:[\w .():-]{0,60}? )?(?:NIC |Device )?"
            rb"[Ll]ink (?:is )?(?:now )?(?P<state>[Dd]own|DOWN|[Uu]p|UP)" + _LINK_END
        ),
        row=_link,
        mark=LINK,
    ),
    Rule(
        words=_LINK_WORDS,
        shape=later(
            rb"(?:(?:e1000e?|igb|ixgbe|i40e|ice|tg3|bnx2x?|be2net|mlx4_en|hv_netvsc|qede|cxgb4|r8169): )"
            rb"(?P<device>[\w.@-]{1,32}):? (?:NIC )?[Ll]ink (?:is )?(?P<state>[Dd]own|DOWN|[Uu]p|UP)"
            + _LINK_END
            + rb"|(?P<ib>(?:ib|opa)[\w.]{1,30}): [Ll]ink (?:is )?(?P<ib_state>[Dd]own|DOWN|[Uu]p|UP)\.?\s*\Z"
        ),
        row=lambda found, line: _link(found, line) if found["device"] else _ipoib(found, line),
        mark=LINK,
    ),
    Rule(
        words=(b" Link ACTIVE", b" Link DOWN"),
        shape=later(
            rb"(?:infiniband )?(?P<device>[a-z][\w.-]{1,40}): Port: (?P<port>\d{1,3}) Link (?P<state>ACTIVE|DOWN)\s*\Z"
        ),
        row=_port,
        mark=LINK,
    ),
    Rule(
        words=(b"Port module event: module ",),
        shape=later(
            _MLX + rb"Port module event: module (?P<module>\d{1,3}), Cable (?P<state>plugged|unplugged|disabled)\b"
        ),
        row=_module,
        mark=LINK + ECHO,
    ),
    Rule(
        words=(b"Port module event[error]",),
        shape=later(_MLX + rb"Port module event\[error\]: module \d{1,3}, "),
        row=event("nic_error"),
    ),
    Rule(
        words=(b"Health issue observed, ",),
        shape=later(_MLX + rb"Health issue observed, [^,]{1,80}, severity\((?P<level>\d{1,2})\)"),
        row=_health_issue,
        mark=ADAPTER,
    ),
    Rule(
        words=(b": synd 0x",),
        shape=later(_MLX + rb"synd 0x(?P<syndrome>[0-9a-f]{1,8}): (?P<said>[a-zA-Z][\w ,/-]{3,80}?)\s*\Z"),
        row=_syndrome,
        mark=ADAPTER + ECHO,
    ),
    Rule(
        words=(
            *(b"health compromised", b"health poll failed", b"handling bad device here", b"TX timeout detected"),
            *(b"Will cause a leak of a command resource", b"health recovery flow aborted"),
        ),
        shape=later(
            _MLX + rb"(?:device's health compromised|[\w ]{0,40}health poll failed|handling bad device here"
            rb"|TX timeout detected|[\w() ]{1,80} timeout\. Will cause a leak of a command resource"
            rb"|health recovery flow aborted)"
        ),
        row=event("nic_error"),
        mark=ADAPTER,
    ),
    Rule(
        words=(b"High temperature on sensors",),
        shape=later(_MLX + rb"High temperature on sensors"),
        row=event("thermal"),
    ),
    Rule(
        words=(b"Detected insufficient power on the PCIe slot",),
        shape=later(_MLX + rb"Detected insufficient power on the PCIe slot \((?P<value>\d{1,4})W\)"),
        row=event("power", unit="W"),
    ),
    Rule(
        words=(b"efa 0000:", b"infiniband efa_"),
        shape=later(
            rb"(?:efa " + _DEVICE + rb"|infiniband (?P<ib>efa_\d{1,3}): )"
            rb"(?=.{0,200}\b(?i:fail\w{0,4}|errors?|time(?:d )?-?out|unable|lost|hung)\b)"
        ),
        row=lambda found, _line: NodeEvent(kind="nic_error", device=text_of(found["device"] or found["ib"])),
        mark=ADAPTER,
    ),
    Rule(
        words=(b"Keep alive watchdog timeout", b"Trigger reset is on", b"Reset attempt failed", b"TX hasn't completed"),
        shape=later(
            rb"ena " + _DEVICE + rb"(?:Keep alive watchdog timeout|Trigger reset is on|Reset attempt failed"
            rb"|.{0,80}TX hasn't completed)"
        ),
        row=event("nic_error"),
        mark=ADAPTER,
    ),
    Rule(
        words=(b"NETDEV WATCHDOG: ",),
        shape=later(
            rb"NETDEV WATCHDOG: (?P<device>[\w.@-]{1,32} \([\w.-]{1,32}\)): transmit queue \d{1,5} timed out"
            rb"|[a-z][\w-]{1,31} (?P<pci>" + BDF + rb" [\w.@-]{1,32}): NETDEV WATCHDOG: CPU: \d{1,5}: "
            rb"transmit queue \d{1,5} timed out"
        ),
        row=lambda found, _line: NodeEvent(kind="nic_error", device=text_of(found["device"] or found["pci"])),
    ),
    Rule(
        words=(b"link status definitely ",),
        shape=later(
            rb"(?:bonding: )?(?P<bond>[\w.-]{1,32}): (?:\(slave (?P<slave>[\w.@-]{1,32})\): )?"
            rb"link status definitely (?P<state>down|up)\b(?:,[^:]{0,60}?)?"
            rb"(?: for interface (?P<interface>[\w.@-]{1,32}))?"
        ),
        row=_slave,
    ),
    Rule(
        words=(b"now running without any active interface", b"active interface up"),
        shape=later(
            rb"(?:bonding: )?(?P<device>[\w.-]{1,32}): "
            rb"(?:now running without any active interface ?!|(?:first )?(?P<up>active interface up)!)"
        ),
        row=_bond,
    ),
)


def _ipoib(found: Match, _line: Line) -> NodeEvent:
    kind = "link_down" if found["ib_state"].lower() in _DOWN else "link_up"
    return NodeEvent(kind=kind, device=text_of(found["ib"]))


_LINKS: Final = "Links of network adapters"
_HEALTH: Final = "Adapters in trouble: one row for the lines that tell one failure"

SAMPLES: Final = (
    Sample(
        "Mar  3 07:15:42 gpu021 kernel: mlx5_core 0000:5e:00.0: Port module event: module 0, Cable unplugged\n"
        "Mar  3 07:15:42 gpu021 kernel: mlx5_core 0000:5e:00.0 ibp94s0: Link down\n"
        "Mar  3 07:19:42 gpu021 kernel: mlx5_core 0000:5e:00.0 ibp94s0: Link up\n",
        (
            expect("node_events", kind="link_down", device="0000:5e:00.0 ibp94s0", trust="kernel"),
            expect("node_events", kind="link_up", device="0000:5e:00.0 ibp94s0"),
        ),
        _LINKS,
        _MLX5,
    ),
    Sample(
        "[ 77.100001] igb 0000:01:00.0 eno1: igb: eno1 NIC Link is Down\n"
        "[ 78.100001] bnxt_en 0000:19:00.0 ens1f0np0: NIC Link is Up, 100000 Mbps full duplex, Flow control: none\n"
        "[ 79.100001] i40e 0000:3d:00.0 eno2: NIC Link is Up, 10 Gbps Full Duplex, Flow Control: None\n"
        "[ 80.100001] tg3 0000:02:00.0 eno3: Link is down\n"
        "[ 81.100001] e1000e: eno4 NIC Link is Down\n"
        "[ 82.100001] ib0: link down\n",
        (
            expect("node_events", kind="link_down", device="0000:01:00.0 eno1"),
            expect("node_events", kind="link_up", device="0000:19:00.0 ens1f0np0"),
            expect("node_events", kind="link_up", device="0000:3d:00.0 eno2"),
            expect("node_events", kind="link_down", device="0000:02:00.0 eno3"),
            expect("node_events", kind="link_down", device="eno4"),
            expect("node_events", kind="link_down", device="ib0"),
        ),
        _LINKS,
        "https://docs.kernel.org/networking/device_drivers/ethernet/index.html",
    ),
    Sample(
        "[ 77.100001] infiniband mlx5_0: Port: 1 Link DOWN\n[ 99.100001] infiniband mlx5_0: Port: 1 Link ACTIVE\n",
        (
            expect("node_events", kind="link_down", device="mlx5_0 port 1"),
            expect("node_events", kind="link_up", device="mlx5_0 port 1"),
        ),
        "Ports of InfiniBand devices",
        _IB,
    ),
    Sample(
        "[ 77.100001] bond0: (slave ens1f0): link status definitely down, disabling slave\n"
        "[ 77.100002] bond0: now running without any active interface!\n"
        "[ 99.100001] bonding: bond0: link status definitely up for interface ens1f0, 25000 Mbps full duplex.\n",
        (
            expect("node_events", kind="link_down", device="ens1f0 in bond0"),
            expect("node_events", kind="link_down", device="bond0"),
            expect("node_events", kind="link_up", device="ens1f0 in bond0"),
        ),
        "Links of a bond",
        _BOND,
    ),
    Sample(
        "[ 77.100001] mlx5_core 0000:5e:00.0: poll_health:825:(pid 0): device's health compromised - reached "
        "miss count\n"
        "[ 77.100004] mlx5_core 0000:5e:00.0: print_health_info:425:(pid 0): Health issue observed, firmware internal "
        "error, severity(3) ERROR:\n"
        "[ 77.100009] mlx5_core 0000:5e:00.0: print_health_info:429:(pid 0): assert_var[0] 0x08040700\n"
        "[ 88.100001] mlx5_core 0000:5e:00.1: Port module event[error]: module 1, Cable error, Bus stuck (I2C or data "
        "shorted)\n",
        (
            expect("node_events", kind="nic_error", device="0000:5e:00.0"),
            expect("node_events", kind="nic_error", device="0000:5e:00.1"),
        ),
        _HEALTH,
        _MLX5,
    ),
    Sample(
        "[ 77.100001] efa 0000:00:1d.0: Failed to process command CREATE_QP (opcode 1) comp_status 7 err -12\n"
        "[ 88.100001] ena 0000:00:05.0 ens5: Keep alive watchdog timeout.\n"
        "[ 88.100101] ena 0000:00:05.0 ens5: Trigger reset is on\n"
        "[ 99.100001] NETDEV WATCHDOG: ens1f0 (bnxt_en): transmit queue 3 timed out\n",
        (
            expect("node_events", kind="nic_error", device="0000:00:1d.0"),
            expect("node_events", kind="nic_error", device="0000:00:05.0 ens5"),
            expect("node_events", kind="nic_error", device="ens1f0 (bnxt_en)"),
        ),
        _HEALTH,
        _EFA,
    ),
    Sample(
        "[ 77.100001] mlx5_core 0000:5f:00.0: print_health_info:418:(pid 0): assert_var[0] 0x00000001\n"
        "[ 77.100004] mlx5_core 0000:5f:00.0: print_health_info:424:(pid 0): synd 0x1: firmware internal error\n"
        "[ 77.100005] mlx5_core 0000:5f:00.0: print_health_info:425:(pid 0): ext_synd 0x8a2f\n",
        (expect("node_events", kind="nic_error", device="0000:5f:00.0", trust="kernel"),),
        _HEALTH,
        _MLX5,
    ),
    Sample(
        "[ 77.100001] mlx5_core 0000:5e:00.0: temp_warn:127:(pid 0): High temperature on sensors with bit set 0 1\n"
        "[ 78.100001] mlx5_core 0000:5e:00.0: mlx5_pcie_event:305:(pid 12): Detected insufficient power on the "
        "PCIe slot (27W).\n",
        (
            expect("node_events", kind="thermal", device="0000:5e:00.0"),
            expect("node_events", kind="power", device="0000:5e:00.0", value=27.0, unit="W"),
        ),
        "Heat and power of adapters",
        _MLX5,
    ),
)

NON_SAMPLES: Final = (
    "[  1.100001] IPv6: ADDRCONF(NETDEV_CHANGE): ib0: link becomes ready\n",
    "[  1.100001] mlx5_core 0000:5e:00.0: firmware version: 28.39.1002\n",
    "[  1.100001] mlx5_core 0000:5e:00.0: print_health_info:429:(pid 0): assert_var[0] 0x08040700\n",
    "[  1.100001] mlx5_core 0000:5e:00.0: mlx5_pcie_event:301:(pid 12): PCIe slot advertised sufficient power (27W).\n",
    "[  1.100001] mlx5_core 0000:5e:00.0: print_health_info:425:(pid 0): Health issue observed, x, severity(6) INFO:\n",
    "[  1.100001] mlx5_core 0000:5e:00.0: print_health_info:424:(pid 0): synd 0x0: unrecognized error\n",
    "[  1.100001] efa 0000:00:1d.0: Setup irq:1861 name:efa-mgmnt@pci:0000:00:1d.0\n",
    "[  1.100001] infiniband mlx5_0: Port: 1 Link INIT\n",
    "[  1.100001] ena 0000:00:05.0: ENA device version: 0.10\n",
    "[  1.100001] ata3: SATA link down (SStatus 0 SControl 300)\n",
    "Mar  3 07:15:42 gpu021 NetworkManager[9]: <info> device (ens1f0): link down\n",
    "Mar  3 07:15:42 gpu021 python3[9]: mlx5_core 0000:5e:00.0 ibp94s0: Link down\n",
    "mlx5_core 0000:5e:00.0 ibp94s0: Link down means that the cable is out\n",
    "The switch said Link is Down for eno1\n",
    "      - alert: mlx5_core 0000:5e:00.0 ibp94s0: Link down\n",
)
