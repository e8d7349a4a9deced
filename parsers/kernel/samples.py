"""Samples of the kernel log with the rows that they give, and texts that give none."""

from __future__ import annotations

from typing import Final

from aftershock.parsers.formats import Sample, expect

_XID: Final = "https://docs.nvidia.com/deploy/xid-errors/"
_SXID: Final = "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/"
_DRIVER: Final = "https://github.com/NVIDIA/open-gpu-kernel-modules"
_UUID: Final = "GPU-6f1d2c3b-0a1b-4c5d-8e9f-a0b1c2d3e4f5"

SAMPLES: Final = (
    # A GPU falls off the bus: the second line tells the same fact.
    Sample(
        "[Tue Mar  3 07:15:42 2026] NVRM: Xid (PCI:0000:9d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen "
        "off the bus.\n"
        "[Tue Mar  3 07:15:42 2026] NVRM: GPU 0000:9d:00.0: GPU has fallen off the bus.\n",
        (
            expect(
                "gpu_errors",
                family="xid",
                code=79,
                pci="0000:9d:00.0",
                pci_raw="0000:9d:00",
                pid=None,
                process=None,
                trust="kernel",
                time_local="Tue Mar  3 07:15:42 2026",
                message="NVRM: Xid (PCI:0000:9d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            ),
        ),
        "Xid",
        _XID,
    ),
    # Identity lines come once per load of the driver, before the first error of a GPU.
    Sample(
        "Mar  3 07:00:01 gpu021 kernel: [  101.500000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90.07\n"
        f"Mar  3 07:20:00 gpu021 kernel: [ 1300.000001] NVRM: GPU at PCI:0000:4e:00: {_UUID}\n"
        "Mar  3 07:20:00 gpu021 kernel: [ 1300.000004] NVRM: GPU Board Serial Number: 1654321098765\n"
        "Mar  3 07:20:00 gpu021 kernel: [ 1300.000009] NVRM: Xid (PCI:0000:4e:00): 94, pid=31337, name=pt_main_thread, "
        "Ch 00000008\n",
        (
            expect("node_events", kind="driver_load", device="nvidia 550.90.07", host="gpu021"),
            expect("gpus", pci="0000:4e:00.0", gpu_uuid=_UUID, gpu_serial="1654321098765", host="gpu021"),
            expect(
                "gpu_errors",
                code=94,
                gpu_uuid=_UUID,
                gpu_serial="1654321098765",
                pid=31337,
                process="pt_main_thread",
                host="gpu021",
                time_local="Mar  3 07:20:00",
            ),
        ),
        "Identities of GPUs, and loads of the driver",
        _DRIVER,
    ),
    Sample(
        "[ 8812.000312] NVRM: Xid (PCI:0000:1b:00 GPU-I:03 GPU-CI:01): 43, pid=88, name=infer, worker, Ch 00000009\n",
        (expect("gpu_errors", code=43, pci="0000:1b:00.0", mig_gi=3, mig_ci=1, process="infer, worker", time=None),),
        "Xid on a MIG instance",
        _XID,
    ),
    Sample(
        "4,5120,77123456,-;NVRM: Xid (PCI:00000000:B7:00.0): 45, pid=512, name=python3, Ch 00000003 caused by previous "
        "Xid 31\n",
        (expect("gpu_errors", code=45, pci="0000:b7:00.0", pci_raw="00000000:B7:00.0", caused_by=31, trust="kernel"),),
        "Xid that names its cause",
        _XID,
    ),
    Sample(
        "2026-03-03T07:15:42.250000+09:00 gpu022 kernel: NVRM: Xid (PCI:0008:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 "
        "i0 Link 09 (0x02142605 0x00000000)\n"
        "2026-03-03T07:15:42.260000+09:00 gpu022 kernel: NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed "
        "from 0x0 (None) to 0x1 (GPU Reset Required)\n",
        (
            expect("gpu_errors", code=149, unit="NETIR_LINK_EVT", severity="fatal", link=9, time=1772489742250000),
            expect("gpu_errors", code=154, recovery_from="None", recovery_to="GPU Reset Required"),
        ),
        "NVLink 5 errors and recovery actions (Xid 144 to 150, 154)",
        _XID,
    ),
    # Severity and Data only spell out the line before them.
    Sample(
        "[  512.000100] nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Non-fatal, Link 31 egress non-posted error\n"
        "[  512.000180] nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Severity 0 Engine instance 31 Sub-engine 00\n"
        "[  512.000240] nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Data {0x0000001f, 0x00000000}\n",
        (expect("gpu_errors", family="sxid", code=12028, severity="nonfatal", link=31, pci="0000:84:00.0"),),
        "SXid: errors of NVSwitches",
        _SXID,
    ),
    # A pod that prints the kernel log: its runtime's clock is not the event's.
    Sample(
        "2026-03-03T07:15:42.987654321Z stdout F kern  :err   : [ 9001.250000] NVRM: Xid (PCI:0000:9d:00): 48, "
        "DBE (double bit error) ECC Error\n",
        (expect("gpu_errors", code=48, time=None, time_local="9001.250000", trust="relayed"),),
        "Xid in other people's logs",
        _XID,
    ),
    # A stamp in brackets, as Slurm has it and collectors too.
    Sample(
        "[2026-03-03T07:15:42.250Z] NVRM: Xid (PCI:0000:9d:00): 79, pid=42, name=a.out, GPU has fallen off the bus.\n",
        (expect("gpu_errors", code=79, time=1772522142250000, trust="relayed"),),
        "Xid in other people's logs",
        _XID,
    ),
    Sample(
        '{"detail":{"Reason":"XidError","Message":"NVRM: Xid (PCI:0000:9d:00): 74, pid=<unknown>, name=<unknown>, '
        'NVLink: fatal error detected on link 11(0x10000, 0x0)"},"node":"gpu023"}\n',
        (expect("gpu_errors", code=74, link=11, trust="relayed", host="gpu023", pid=None, time=None),),
        "Xid in other people's logs",
        _XID,
    ),
    Sample(
        "Mar  3 07:15:42 gpu021 kernel: NVRM: Xid (PCI:0000:9d:00): 31, pid=7, name=a.out, Ch 00000002\n"
        "Mar  3 07:15:50 gpu021 kernel: message repeated 4 times: [ NVRM: Xid (PCI:0000:9d:00): 31, pid=7, name=a.out, "
        "Ch 00000002]\n",
        (expect("gpu_errors", code=31, count=1), expect("gpu_errors", code=31, count=4)),
        "Repeats that syslog counted",
        _XID,
    ),
    # Two records that were written into each other.
    Sample(
        "[ 61.000001] NVRM: Xid (PCI:0000:9d:00): 31, pid=7, na[ 61.000002] NVRM: Xid (PCI:0000:9e:00): 13, pid=8, "
        "name=a.out, Graphics Exception\n",
        (
            expect("gpu_errors", code=31, pci="0000:9d:00.0", pid=7, process=None, time_local="61.000001"),
            expect("gpu_errors", code=13, pci="0000:9e:00.0", process="a.out", time_local="61.000002"),
        ),
        "Records torn into each other",
        _XID,
    ),
    Sample(
        "[  48.100001] NVRM: GPU at 0000:05:00.0 has fallen off the bus.\n",
        (expect("node_events", kind="gpu_lost", device="0000:05:00.0"),),
        "GPUs that are lost without an Xid",
        _DRIVER,
    ),
)

NON_SAMPLES: Final = (
    # People and documents
    "My node prints NVRM: Xid (PCI:0000:9d:00): 79, GPU has fallen off the bus. What should I do?\n",
    "NVRM: Xid (PCI:0000:9d:00): 79 means that the GPU is not reachable any more.\n",
    "We saw [ 9001.250000] NVRM: Xid (PCI:0000:9d:00): 48, DBE (double bit error) ECC Error\n",
    "XID 79: GPU has fallen off the bus\n",
    "NVRM: Xid 79\n",
    "- `NVRM: Xid (PCI:0000:9d:00): 31, pid=7` is an application fault\n",
    "NVRM: Xid (PCI:<address>): 79, example of the manual\n",
    # Rules, commands, programs
    '  expr: sum(count_over_time({job="kernel"} |= "NVRM: Xid (PCI:0000:9d:00): 79" [5m])) > 0\n',
    'pattern: "NVRM: Xid \\\\(PCI:(.*)\\\\): 79"\n',
    "NVRM: Xid (PCI:.*): 79, .*\n",
    'printf("NVRM: Xid (PCI:%04x:%02x:%02x): %d", a, b, c, d);\n',
    'dmesg | grep "NVRM: Xid (PCI:0000:9d:00): 79"\n',
    "Mar  3 07:15:42 gpu021 sudo:     ops : TTY=pts/0 ; COMMAND=/usr/bin/grep NVRM: Xid (PCI:0000:9d:00): 79, /tmp\n",
    "[2026-03-03T07:15:42.250Z] error: prolog: NVRM: Xid (PCI:0000:9d:00): 79, GPU has fallen off the bus.\n",
    "Mar  3 07:15:42 gpu021 python3[71]: NVRM: Xid (PCI:0000:9d:00): 79, GPU has fallen off the bus.\n",
    "Mar  3 07:15:42 gpu021 CRON[71]: (root) CMD (logger 'NVRM: Xid (PCI:0000:9d:00): 79, x')\n",
    '{"question":"what does NVRM: Xid (PCI:0000:9d:00): 79, mean?"}\n',
    # Other things of that name
    "Mar  3 07:15:42 gpu021 kernel: r8169 0000:07:00.0 eth0: RTL8168h/8111h, 00:00:5e:00:53:07, XID 541, IRQ 130\n",
    "2026-03-03 07:15:42 UTC [311] ERROR:  could not access status of transaction 79 (xid 79, oldest xid 31)\n",
    'DCGM_FI_DEV_XID_ERRORS{gpu="3",UUID="GPU-6f1d2c3b-0a1b-4c5d-8e9f-a0b1c2d3e4f5"} 79\n',
    # Details of other records
    "[  512.000240] nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Data {0x0000001f, 0x00000000}\n",
    "[ 77.100001] NVRM: GPU at PCI:0000:9d:00 is ready\n",
    # Torn: rejects, not rows
    "[ 77.100001] NVRM: Xid (PCI:0000:9d:00): \n",
    "[ 77.100001] NVRM: Xid (PCI:0000:9d\n",
    "[ 77.100001] NVRM: Xid (PCI:0000:9d:00): 99999999999, GPU has fallen off the bus.\n",
)
