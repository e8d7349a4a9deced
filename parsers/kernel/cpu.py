"""Tasks that hang and crash, processors that are stuck, and kernels that die.

    INFO: task python3:4242 blocked for more than 120 seconds.
    watchdog: BUG: soft lockup - CPU#12 stuck for 22s! [python3:4242]
    rcu: INFO: rcu_sched self-detected stall on CPU
    python3[4242]: segfault at 7f79 ip 00007f7c sp 00007f7c error 4 in libnccl.so.2[7f7c7ac00000+d3d3000]
    BUG: unable to handle page fault for address: ffffa0c1                       (x86)
    BUG: Unable to handle kernel data access on read at 0xc0000001               (POWER)
    Kernel panic - not syncing: Fatal exception

A hang is told when it has lasted for a while: the time is that of the line, the value says how many seconds before it
began. An oops and the panic that follows it are one row.
https://docs.kernel.org/admin-guide/lockup-watchdogs.html, https://docs.kernel.org/RCU/stallwarn.html,
https://docs.kernel.org/admin-guide/bug-hunting.html
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from aftershock.parsers.formats import Line, Sample, expect
from aftershock.parsers.kernel.rules import TASK, Match, Rule, event, text_of
from aftershock.parsers.kernel.text import lines_below
from aftershock.parsers.patterns import later
from aftershock.schemas.events import NodeEvent

PANIC, STALL = "panic", "stall"

_HUNG_URL: Final = "https://github.com/torvalds/linux/blob/master/kernel/hung_task.c"
_LOCKUP_URL: Final = "https://docs.kernel.org/admin-guide/lockup-watchdogs.html"
_RCU_URL: Final = "https://docs.kernel.org/RCU/stallwarn.html"
_FAULT_URL: Final = "https://github.com/torvalds/linux/blob/master/arch/x86/mm/fault.c"
_TRAP_URL: Final = "https://github.com/torvalds/linux/blob/master/arch/x86/kernel/traps.c"
_OOPS_URL: Final = "https://docs.kernel.org/admin-guide/bug-hunting.html"

# libnccl.so.2[7f7c7ac00000+d3d3000], or with the offset within the file before the address.
_LIBRARY: Final = rb" in (?P<device>.{1,200}?)\[[0-9a-f]{1,16}(?:,[0-9a-f]{1,16})?\+[0-9a-f]{1,16}\]"

_ONE_WORD: Final = re.compile(rb"\(?[\w./@+-]{1,15}\)?")

_FATAL: Final = (b"Kernel panic", b"PANIC: ")
# The processor and the task stand a few lines below the first line of an oops.
_OOPS_LINES: Final = 12
_RUNNING: Final = re.compile(
    rb"CPU: (?P<cpu>\d{1,5}) (?:UID: \d{1,10} )?PID: (?P<pid>\d{1,10}) Comm: (?P<process>.{1,15}?) "
    rb"(?:Kdump: |Tainted: |Not tainted )"
)
_STALL_LINES: Final = 4
_STALLED: Final = re.compile(rb"(?:rcu: )?\s*(?P<cpu>\d{1,5})-[.!O\w]{0,8}: \(")
_JIFFIES: Final = re.compile(rb"[( ]t=(\d{1,9}) jiffies")
_EXPEDITED: Final = re.compile(rb"\{ (?P<cpu>\d{1,5})-.{0,200}?\} (?P<jiffies>\d{1,9}) jiffies")


def _crashed(kind: str) -> Callable[[Match, Line], NodeEvent | None]:
    """A crash of a program. The line begins with the name, so that in a line without any stamp it must be one word."""
    build = event(kind)

    def row(found: Match, line: Line) -> NodeEvent | None:
        if line.envelope.names == ("plain",) and not _ONE_WORD.fullmatch(found["process"]):
            return None
        return build(found, line)

    return row


def _oops(found: Match, line: Line) -> NodeEvent:
    """A panic is fatal; after an oops the machine may go on."""
    row = NodeEvent(kind="panic", severity="fatal" if found.string.startswith(_FATAL) else "nonfatal")
    for below in lines_below(line, _OOPS_LINES):
        running = _RUNNING.match(below)
        if running is not None:
            row.device = f"CPU {int(running['cpu'])}"
            row.pid, row.process = int(running["pid"]), text_of(running["process"])
            break
    return row


def _stall(found: Match, line: Line) -> NodeEvent:
    device, jiffies = text_of(found["device"]), None
    expedited = _EXPEDITED.search(found.string, found.end(), found.end() + 400)
    if expedited is not None:
        device, jiffies = f"{device} CPU {int(expedited['cpu'])}", expedited["jiffies"]
    for below in lines_below(line, _STALL_LINES) if expedited is None else ():
        stalled, lasted = _STALLED.match(below), _JIFFIES.search(below[:400])
        if stalled is not None and device and " CPU" not in device:
            device = f"{device} CPU {int(stalled['cpu'])}"
        if lasted is not None:
            jiffies = lasted[1]
            break
    return NodeEvent(
        kind="rcu_stall",
        device=device,
        value=None if jiffies is None else float(jiffies),
        unit=None if jiffies is None else "jiffies",
    )


RULES: Final = (
    Rule(
        words=(b" blocked for more than ", b" blocked in I/O wait for more than "),
        shape=later(
            rb"(?:INFO: )?task "
            + TASK
            + rb":(?P<pid>\d{1,10}) blocked (?:in I/O wait )?for more than (?P<value>\d{1,9}) seconds\.?\s*\Z"
        ),
        row=event("hung_task", unit="s"),
    ),
    Rule(
        words=(b"soft lockup - CPU#",),
        shape=later(
            rb"(?:NMI )?(?:watchdog: )?BUG: soft lockup - (?P<device>CPU#\d{1,5}) stuck for (?P<value>\d{1,9})s! "
            rb"\[" + TASK + rb":(?P<pid>\d{1,10})\]"
        ),
        row=event("soft_lockup", unit="s"),
    ),
    Rule(
        words=(b"ard LOCKUP",),
        shape=later(
            rb"(?:NMI )?(?:watchdog: )?(?:CPU ?\d{1,5}: )?Watchdog detected hard LOCKUP on (?P<device>cpu \d{1,5})\b"
            rb"|watchdog: (?P<self>CPU \d{1,5}) (?:self-detected )?[Hh]ard LOCKUP"
        ),
        row=lambda found, _line: NodeEvent(kind="hard_lockup", device=text_of(found["device"] or found["self"])),
    ),
    Rule(
        words=(b"detected stall", b"detected expedited stall"),
        shape=later(
            rb"(?:rcu: )?INFO: (?P<device>rcu\w{0,20}) (?:self-)?detected (?:expedited )?stalls? on "
            rb"(?:CPU(?:s/tasks:|\b)|tasks:)"
        ),
        row=_stall,
        mark=STALL,
    ),
    Rule(
        words=(b": segfault at ",),
        shape=later(
            TASK + rb"\[(?P<pid>\d{1,10})\]: segfault at [0-9a-f]{1,16} r?ip [0-9a-f]{1,16} r?sp [0-9a-f]{1,16} "
            rb"error [0-9a-f]{1,8}(?:" + _LIBRARY + rb")?"
        ),
        row=_crashed("segfault"),
    ),
    Rule(
        words=(b"] general protection ",),
        shape=later(
            rb"(?:traps: )?" + TASK + rb"\[(?P<pid>\d{1,10})\] general protection (?:fault )?r?ip:[0-9a-f]{1,16} "
            rb"r?sp:[0-9a-f]{1,16} error:[0-9a-f]{1,8}(?:" + _LIBRARY + rb")?"
        ),
        row=_crashed("segfault"),
    ),
    Rule(
        words=(b"] trap ",),
        shape=later(
            rb"(?:traps: )?" + TASK + rb"\[(?P<pid>\d{1,10})\] trap [a-z][\w -]{1,30}? r?ip:[0-9a-f]{1,16} "
            rb"r?sp:[0-9a-f]{1,16} error:[0-9a-f]{1,8}(?:" + _LIBRARY + rb")?"
        ),
        row=_crashed("trap"),
    ),
    Rule(
        words=(
            *(b"Kernel panic - not syncing: ", b"BUG: unable to handle ", b"BUG: kernel NULL pointer dereference"),
            *(b"Oops: ", b"nable to handle kernel ", b"kernel BUG at ", b"general protection fault"),
            *(b"invalid opcode: ", b"double fault", b"divide error: ", b"stack segment: "),
            b"BUG: Kernel NULL pointer dereference ",
        ),
        shape=later(
            rb"Kernel panic - not syncing: [^\s?]"
            rb"|BUG: unable to handle (?:kernel )?(?:page fault for address: "
            rb"|(?:NULL pointer|paging request).{0,24} at "
            rb"|NULL pointer dereference in |paging request for )"
            rb"|BUG: kernel NULL pointer dereference, address: "
            rb"|BUG: Kernel NULL pointer dereference (?:on (?:read|write) )?at 0x"
            rb"|(?:BUG: )?Unable to handle kernel [\w ]{5,60} at (?:virtual address |(?:address )?0x)"
            rb"|PANIC: double fault, error_code: 0x"
            rb"|kernel BUG at \S{1,200}:\d{1,6}!"
            rb"|(?:Oops: |Internal error: |segment-related )?(?:Oops|general protection fault|invalid opcode"
            rb"|double fault|divide error|stack segment)\b[^\[\n]{0,160}(?:: [0-9a-f]{4,16}|, sig: \d{1,2}) "
            rb"\[#\d{1,4}\]"
        ),
        row=_oops,
        mark=PANIC,
    ),
)

_HANGS: Final = "Hangs: the value says how many seconds before the line they began"
_STALLS: Final = "Stalls that RCU detects"
_FAULTS: Final = "Crashes of programs: the device is the library"
_PANICS: Final = "Panics and oopses: one row for a crash"

SAMPLES: Final = (
    Sample(
        "[Tue Mar  3 07:17:30 2026] INFO: task pt_main_thread:40001 blocked for more than 120 seconds.\n"
        "[Tue Mar  3 07:17:40 2026] watchdog: BUG: soft lockup - CPU#12 stuck for 22s! [python3:4242]\n"
        "[Tue Mar  3 07:17:50 2026] NMI watchdog: Watchdog detected hard LOCKUP on cpu 7\n",
        (
            expect("node_events", kind="hung_task", pid=40001, process="pt_main_thread", value=120.0, unit="s"),
            expect(
                "node_events", kind="soft_lockup", device="CPU#12", pid=4242, process="python3", value=22.0, unit="s"
            ),
            expect("node_events", kind="hard_lockup", device="cpu 7", value=None),
        ),
        _HANGS,
        _LOCKUP_URL,
    ),
    Sample(
        "[ 77.100001] INFO: task kworker/u256:3:991 blocked for more than 241 seconds.\n",
        (expect("node_events", kind="hung_task", pid=991, process="kworker/u256:3", value=241.0),),
        _HANGS,
        _HUNG_URL,
    ),
    Sample(
        "[ 77.100001] INFO: task pt_data:4249 blocked in I/O wait for more than 122 seconds.\n",
        (expect("node_events", kind="hung_task", pid=4249, process="pt_data", value=122.0, unit="s"),),
        _HANGS,
        _HUNG_URL,
    ),
    Sample(
        "[ 77.100001] rcu: INFO: rcu_sched self-detected stall on CPU\n"
        "[ 77.100011] rcu: \t12-....: (5249 ticks this GP) idle=2d2/1/0x4 softirq=1/1 fqs=2505\n"
        "[ 77.100021] rcu: \t(t=5250 jiffies g=12345 q=678)\n"
        "[ 99.100001] rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 3-...D } 21 jiffies s: 1 root: "
        "0x8/.\n",
        (
            expect("node_events", kind="rcu_stall", device="rcu_sched CPU 12", value=5250.0, unit="jiffies"),
            expect("node_events", kind="rcu_stall", device="rcu_preempt CPU 3", value=21.0),
        ),
        _STALLS,
        _RCU_URL,
    ),
    Sample(
        "[ 77.100001] pt_main_thread[4242]: segfault at 7f79 ip 00007f7c sp 00007f7d error 4 in "
        "libnccl.so.2[7f7c7ac00000+d3d3000] likely on CPU 3 (core 3, socket 0)\n"
        "[ 78.100001] traps: python3[4243] general protection fault ip:7f9a sp:7ffd error:0 in "
        "libcuda.so.550.90.07[28a4d,7f9a00000000+195000]\n"
        "[ 79.100001] traps: python3[4244] trap invalid opcode ip:7f9a sp:7ffd error:0 in libtorch_cpu.so[7f9a+19]\n"
        "[ 80.100001] a.out[4245]: segfault at 0 ip 0000000000000000 sp 00007ffd error 14\n",
        (
            expect("node_events", kind="segfault", pid=4242, process="pt_main_thread", device="libnccl.so.2"),
            expect("node_events", kind="segfault", pid=4243, process="python3", device="libcuda.so.550.90.07"),
            expect("node_events", kind="trap", pid=4244, device="libtorch_cpu.so"),
            expect("node_events", kind="segfault", pid=4245, process="a.out", device=None),
        ),
        _FAULTS,
        _FAULT_URL,
    ),
    Sample(
        "[ 77.100001] BUG: unable to handle page fault for address: ffffa0c100000000\n"
        "[ 77.100002] #PF: supervisor read access in kernel mode\n"
        "[ 77.100003] Oops: 0000 [#1] SMP NOPTI\n"
        "[ 77.100004] CPU: 3 PID: 4242 Comm: python3 Tainted: P           OE     5.15.0-91-generic\n"
        "[ 77.900001] Kernel panic - not syncing: Fatal exception\n"
        "[ 77.900002] ---[ end Kernel panic - not syncing: Fatal exception ]---\n",
        (expect("node_events", kind="panic", device="CPU 3", pid=4242, process="python3", severity="fatal"),),
        _PANICS,
        _OOPS_URL,
    ),
    Sample(
        "[ 77.100001] kernel BUG at mm/slub.c:306!\n[ 77.100002] invalid opcode: 0000 [#1] SMP PTI\n",
        (expect("node_events", kind="panic", severity="nonfatal"),),
        _PANICS,
        _TRAP_URL,
    ),
    Sample(
        "[ 77.100001] BUG: Unable to handle kernel data access on read at 0xc008000001a2b000\n"
        "[ 77.100002] Faulting instruction address: 0xc00000000049f000\n"
        "[ 77.100003] Oops: Kernel access of bad area, sig: 11 [#1]\n"
        "[ 77.100004] CPU: 3 PID: 4242 Comm: python3 Tainted: P           OE     5.14.0-70.el9.ppc64le\n",
        (expect("node_events", kind="panic", device="CPU 3", pid=4242, severity="nonfatal"),),
        "Panics and oopses on POWER",
        _OOPS_URL,
    ),
    Sample(
        "[ 77.100001] PANIC: double fault, error_code: 0x0\n",
        (expect("node_events", kind="panic", severity="fatal"),),
        _PANICS,
        _TRAP_URL,
    ),
    # What is indented below a record without stamps tells about it.
    Sample(
        "INFO: task pt_main_thread:40001 blocked for more than 122 seconds.\n"
        "      Not tainted 6.8.0-45-generic #45\n"
        '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.\n',
        (
            expect(
                "node_events",
                kind="hung_task",
                pid=40001,
                message="INFO: task pt_main_thread:40001 blocked for more than 122 seconds.",
            ),
        ),
        _HANGS,
        _HUNG_URL,
    ),
    Sample(
        "[ 77.100001] INFO: rcu_tasks detected stalls on tasks:\n",
        (expect("node_events", kind="rcu_stall", device="rcu_tasks"),),
        _STALLS,
        _RCU_URL,
    ),
)

NON_SAMPLES: Final = (
    "[ 77.100001] Code: 48 8b 05 Oops\n",
    '[ 77.100001]       "echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.\n',
    "[ 77.100001] INFO: task a:1 is blocked by task b:2\n",
    "[ 77.100001] rcu: rcu_sched kthread starved for 5250 jiffies! g12345 f0x0 RCU_GP_WAIT_FQS(5)\n",
    "[ 77.100001] ---[ end Kernel panic - not syncing: Fatal exception ]---\n",
    "[ 77.100001] Rebooting in 10 seconds..\n",
    "[ 77.100001] WARNING: CPU: 3 PID: 4242 at drivers/gpu/drm/drm_drv.c:12 drm_dev_put\n",
    "[  1.100001] Kernel command line: BOOT_IMAGE=/vmlinuz panic=10 softlockup_panic=1\n",
    "Kernel panic - not syncing is what the screen says\n",
    "Unable to handle kernel paging request at the moment, says the manual\n",
    "[ 77.100001] Oops: something else, sig: 11\n",
    "Mar  3 07:15:42 gpu021 trainer[7]: INFO: task python3:4242 blocked for more than 120 seconds.\n",
    "Our job had watchdog: BUG: soft lockup - CPU#12 stuck for 22s! [python3:4242] in it\n",
    "Fatal Python error: Segmentation fault\n",
    "the program has a segfault at 7f79 ip 00007f7c\n",
    'kernel_panic: regex = "Kernel panic - not syncing: (.*)"\n',
)
