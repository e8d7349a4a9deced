"""Ends of a boot, and drivers that come and go (see also :mod:`aftershock.parsers.kernel.gpu`).

    systemd-logind[1187]: System is rebooting.
    systemd-shutdown[1]: Syncing filesystems and block devices.
    reboot: Restarting system
    nvidia-nvlink: Unregistered Nvlink Core, major device number 236
    [drm] [nvidia-drm] [GPU ID 0x00003b00] Unloading driver

A shutdown is told by several programs and at last by the kernel: ``settle`` makes one row of them. What systemd and its
helpers say counts only in their own voice.
https://github.com/torvalds/linux/blob/master/kernel/reboot.c,
https://www.freedesktop.org/software/systemd/man/latest/systemd-shutdown.html
"""

from __future__ import annotations

from typing import Final

from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.kernel.rules import ECHO, Rule, event
from aftershock.parsers.patterns import later

SHUTDOWN, UNLOAD, AMD_LOAD = "shutdown", "unload", "amd_load"

_REBOOT: Final = "https://github.com/torvalds/linux/blob/master/kernel/reboot.c"
_SYSTEMD: Final = "https://www.freedesktop.org/software/systemd/man/latest/systemd-shutdown.html"
_MODULES: Final = "https://github.com/NVIDIA/open-gpu-kernel-modules/tree/main/kernel-open"

RULES: Final = (
    Rule(
        words=(
            *(b"reboot: Restarting system", b"reboot: Power", b"reboot: System halted", b"reboot: machine restart"),
            *(b"reboot: HARDWARE PROTECTION shutdown", b"Starting new kernel"),
            *(b"sysrq: Resetting", b"ysRq : Resetting", b"system sleep state S5"),
        ),
        shape=later(
            rb"reboot: (?:(?:Restarting system|Power(?:ing)? (?:down|off)|System halted|machine restart)\.?\s*\Z"
            rb"|Restarting system with command '|HARDWARE PROTECTION shutdown \([A-Z][^()]{1,80}\)\s*\Z)"
            rb"|kexec(?:_core)?: Starting new kernel\s*\Z"
            rb"|(?:sysrq: )?(?:SysRq : )?Resetting\s*\Z"
            rb"|ACPI: (?:PM: )?Preparing to enter system sleep state S5\s*\Z"
        ),
        row=event("shutdown"),
        mark=SHUTDOWN,
    ),
    Rule(
        words=(
            *(b"Sending SIGTERM to remaining processes", b"Sending SIGKILL to remaining processes"),
            *(b"Syncing filesystems", b"Unmounting file systems", b"All filesystems unmounted"),
            *(b"Powering off.", b"Rebooting.", b"Rebooting with kexec", b"Halting system."),
        ),
        shape=later(
            rb"(?:Sending SIG(?:TERM|KILL) to remaining processes|Syncing filesystems|Unmounting file systems"
            rb"|All filesystems unmounted|Powering off|Rebooting|Halting system)\b"
        ),
        row=event("shutdown"),
        mark=SHUTDOWN,
        writers=frozenset({"systemd-shutdown"}),
    ),
    Rule(
        words=(b"System is rebooting", b"System is powering down", b"System is halting"),
        shape=later(rb"System is (?:rebooting|powering down|halting)\b"),
        row=event("shutdown"),
        mark=SHUTDOWN,
        writers=frozenset({"systemd-logind"}),
    ),
    Rule(
        words=(b"Power key pressed", b"button/power"),
        shape=later(rb'Power key pressed\b|received event "button/power'),
        row=event("shutdown", device="power button"),
        mark=SHUTDOWN,
        writers=frozenset({"systemd-logind", "acpid"}),
    ),
    Rule(
        # The managers of users reach targets of the same names when a user logs out: only the system's are asked for.
        words=(
            *(b"System Shutdown", b"System Reboot", b"System Power Off", b"System Power-Off", b"System Halt"),
            *(b"arget Reboot", b"arget Power-Off", b"arget Halt"),
        ),
        shape=later(
            rb"Reached target (?:[a-z]{4,9}\.target - )?"
            rb"(?:System (?:Shutdown|Reboot|Power[ -]Off|Halt)|Reboot|Power-Off|Halt)\.?\s*\Z"
        ),
        row=event("shutdown"),
        mark=SHUTDOWN,
        writers=frozenset({"systemd"}),
    ),
    Rule(
        words=(b"shutting down for system ",),
        shape=later(rb"shutting down for system (?:reboot|halt|power-?off)\b"),
        row=event("shutdown"),
        mark=SHUTDOWN,
        writers=frozenset({"shutdown"}),
    ),
    Rule(
        words=(b"nvidia-nvlink: Unregistered",),
        shape=later(rb"nvidia-nvlink: Unregistered (?:the )?Nvlink Core\b"),
        row=event("driver_unload", device="nvidia"),
        mark=UNLOAD,
    ),
    Rule(
        words=(b"] Unloading driver", b"nvidia-modeset: Unloading", b"nvidia-uvm: Unloaded"),
        shape=later(
            rb"(?:\[drm\] )?\[(?P<device>nvidia-drm)\] \[GPU ID 0x[0-9a-f]{1,16}\] Unloading driver\s*\Z"
            rb"|nvidia-modeset: Unloading\s*\Z|nvidia-uvm: Unloaded the UVM driver"
        ),
        row=event("driver_unload", device="nvidia"),
        mark=UNLOAD + ECHO,
    ),
    Rule(
        words=(b"[drm] amdgpu version: ",),
        shape=later(rb"\[drm\] (?P<device>amdgpu) version: \d[\w.-]{0,40}\s*\Z"),
        row=event("driver_load"),
        mark=AMD_LOAD,
    ),
    Rule(
        words=(b"amdgpu kernel modesetting enabled",),
        shape=later(rb"\[drm\] (?P<device>amdgpu) kernel modesetting enabled\.?\s*\Z"),
        row=event("driver_load"),
        mark=AMD_LOAD + ECHO,
    ),
)

SAMPLES: Final = (
    Sample(
        "Mar  3 07:15:40 gpu021 systemd-logind[1187]: System is rebooting.\n"
        "Mar  3 07:15:41 gpu021 systemd[1]: Reached target reboot.target - System Reboot.\n"
        "Mar  3 07:15:42 gpu021 systemd-shutdown[1]: Syncing filesystems and block devices.\n"
        "Mar  3 07:15:43 gpu021 kernel: reboot: Restarting system\n"
        "Mar  3 07:17:10 gpu021 kernel: Linux version 6.8.0-45-generic (buildd@host) (gcc 13.2.0) #45-Ubuntu SMP\n",
        (
            expect("node_events", kind="shutdown", host="gpu021", time_local="Mar  3 07:15:40", trust=None),
            expect("node_events", kind="boot", device="Linux 6.8.0-45-generic", value=None, trust="kernel"),
        ),
        "Shutdown: one row, however many programs tell it",
        _SYSTEMD,
    ),
    Sample(
        "[ 9001.250000] systemd-shutdown[1]: Sending SIGTERM to remaining processes...\n"
        "[ 9011.250000] reboot: Power down\n",
        (expect("node_events", kind="shutdown", time_local="9001.250000"),),
        "Shutdown: one row, however many programs tell it",
        _SYSTEMD,
    ),
    Sample(
        "[ 9001.250000] reboot: HARDWARE PROTECTION shutdown (Temperature too high)\n",
        (expect("node_events", kind="shutdown"),),
        "Shutdown by the kernel",
        _REBOOT,
    ),
    Sample(
        "Mar  3 07:15:40 gpu021 systemd-logind[1187]: Power key pressed short.\n",
        (expect("node_events", kind="shutdown", device="power button"),),
        "Shutdown by hand",
        _SYSTEMD,
    ),
    Sample(
        "Mar  3 07:15:40 gpu021 shutdown[4242]: shutting down for system reboot\n",
        (expect("node_events", kind="shutdown", device=None),),
        "Shutdown by hand",
        _SYSTEMD,
    ),
    Sample(
        "[ 9001.250000] [drm] [nvidia-drm] [GPU ID 0x00003b00] Unloading driver\n"
        "[ 9001.260000] [drm] [nvidia-drm] [GPU ID 0x00009d00] Unloading driver\n"
        "[ 9001.900000] nvidia-modeset: Unloading\n"
        "[ 9002.000000] nvidia-uvm: Unloaded the UVM driver.\n"
        "[ 9002.100000] nvidia-nvlink: Unregistered Nvlink Core, major device number 236\n",
        (expect("node_events", kind="driver_unload", device="nvidia", time_local="9002.100000"),),
        "Unload of the NVIDIA driver: one row for all of its modules",
        _MODULES,
    ),
    Sample(
        "[    9.250000] [drm] amdgpu kernel modesetting enabled.\n[    9.260000] [drm] amdgpu version: 6.8.5\n",
        (expect("node_events", kind="driver_load", device="amdgpu"),),
        "Load of the AMD driver",
        "https://github.com/ROCm/amdgpu",
    ),
)

NON_SAMPLES: Final = (
    "Mar  3 07:15:41 gpu021 systemd[2345]: Reached target Shutdown.\n",
    "Mar  3 07:15:41 gpu021 systemd[1]: Reached target Basic System.\n",
    "Mar  3 07:15:41 gpu021 ansible-reboot[77]: reboot: Restarting system\n",
    "Mar  3 07:15:41 gpu021 python3[77]: System is rebooting.\n",
    "Mar  3 07:15:41 gpu021 sudo[77]: ops : TTY=pts/0 ; COMMAND=/usr/bin/echo reboot: Restarting system\n",
    "reboot: Restarting system services is safe, says the manual\n",
    "[    1.250000] ACPI: button: Power Button [PWRF]\n",
    "[    1.250000] [drm] [nvidia-drm] [GPU ID 0x00003b00] Loading driver\n",
    "[    1.250000] nvidia-nvlink: Nvlink Core is being initialized, major device number 236\n",
    "[    1.250000] nvidia: loading out-of-tree module taints kernel.\n",
    "[    1.250000] nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver for UNIX platforms  550.90.07\n",
)
