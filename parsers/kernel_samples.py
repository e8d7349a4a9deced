"""Samples of the kernel log with the rows that they give, and texts that give none."""

from __future__ import annotations

from typing import Final

from aftershock.parsers.formats import Sample, expect

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
    ),
    # Identity lines come once per load of the driver, before the first error of a GPU.
    Sample(
        "Mar  3 07:00:01 gpu021 kernel: [  101.500000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90.07\n"
        f"Mar  3 07:20:00 gpu021 kernel: [ 1300.000001] NVRM: GPU at PCI:0000:4e:00: {_UUID}\n"
        "Mar  3 07:20:00 gpu021 kernel: [ 1300.000004] NVRM: GPU Board Serial Number: 1654321098765\n"
        "Mar  3 07:20:00 gpu021 kernel: [ 1300.000009] NVRM: Xid (PCI:0000:4e:00): 94, pid=31337, name=pt_main_thread, "
        "Ch 00000008\n",
        (
            expect("node_events", kind="driver_load", device="nvidia", host="gpu021"),
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
    ),
    Sample(
        "[ 8812.000312] NVRM: Xid (PCI:0000:1b:00 GPU-I:03 GPU-CI:01): 43, pid=88, name=infer, worker, Ch 00000009\n",
        (expect("gpu_errors", code=43, pci="0000:1b:00.0", mig_gi=3, mig_ci=1, process="infer, worker", time=None),),
    ),
    Sample(
        "4,5120,77123456,-;NVRM: Xid (PCI:00000000:B7:00.0): 45, pid=512, name=python3, Ch 00000003 caused by previous "
        "Xid 31\n",
        (expect("gpu_errors", code=45, pci="0000:b7:00.0", pci_raw="00000000:B7:00.0", caused_by=31, trust="kernel"),),
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
    ),
    # Severity and Data only spell out the line before them.
    Sample(
        "[  512.000100] nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Non-fatal, Link 31 egress non-posted error\n"
        "[  512.000180] nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Severity 0 Engine instance 31 Sub-engine 00\n"
        "[  512.000240] nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Data {0x0000001f, 0x00000000}\n",
        (expect("gpu_errors", family="sxid", code=12028, severity="nonfatal", link=31, pci="0000:84:00.0"),),
    ),
    # A pod that prints the kernel log: its runtime's clock is not the event's.
    Sample(
        "2026-03-03T07:15:42.987654321Z stdout F kern  :err   : [ 9001.250000] NVRM: Xid (PCI:0000:9d:00): 48, "
        "DBE (double bit error) ECC Error\n",
        (expect("gpu_errors", code=48, time=None, time_local="9001.250000", trust="relayed"),),
    ),
    Sample(
        '{"detail":{"Reason":"XidError","Message":"NVRM: Xid (PCI:0000:9d:00): 74, pid=<unknown>, name=<unknown>, '
        'NVLink: fatal error detected on link 11(0x10000, 0x0)"},"node":"gpu023"}\n',
        (expect("gpu_errors", code=74, link=11, trust="relayed", host="gpu023", pid=None, time=None),),
    ),
    Sample(
        "Mar  3 07:15:42 gpu021 kernel: NVRM: Xid (PCI:0000:9d:00): 31, pid=7, name=a.out, Ch 00000002\n"
        "Mar  3 07:15:50 gpu021 kernel: message repeated 4 times: [ NVRM: Xid (PCI:0000:9d:00): 31, pid=7, name=a.out, "
        "Ch 00000002]\n",
        (expect("gpu_errors", code=31, count=1), expect("gpu_errors", code=31, count=4)),
    ),
    # Two records that were written into each other.
    Sample(
        "[ 61.000001] NVRM: Xid (PCI:0000:9d:00): 31, pid=7, na[ 61.000002] NVRM: Xid (PCI:0000:9e:00): 13, pid=8, "
        "name=a.out, Graphics Exception\n",
        (
            expect("gpu_errors", code=31, pci="0000:9d:00.0", pid=7, process=None, time_local="61.000001"),
            expect("gpu_errors", code=13, pci="0000:9e:00.0", process="a.out", time_local="61.000002"),
        ),
    ),
    # A port reports what a device below it met: one occurrence.
    Sample(
        "Mar  3 07:15:42 gpu021 kernel: pcieport 0000:9c:01.0: AER: Corrected error received: 0000:9d:00.0\n"
        "Mar  3 07:15:42 gpu021 kernel: nvidia 0000:9d:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, "
        "(Transmitter ID)\n"
        "Mar  3 07:15:42 gpu021 kernel: nvidia 0000:9d:00.0:   device [10de:2330] status/mask=00001000/0000a000\n",
        (expect("node_events", kind="pcie_error", device="0000:9d:00.0"),),
    ),
    Sample(
        "[Tue Mar  3 07:15:42 2026] nfs: server 10.11.0.9 not responding, still trying\n"
        "[Tue Mar  3 07:16:12 2026] nfs: server 10.11.0.9 OK\n"
        "[Tue Mar  3 07:17:00 2026] Memory cgroup out of memory: Killed process 40112 (pt_data_worker) "
        "total-vm:91022336kB, anon-rss:60123456kB, file-rss:0kB\n"
        "[Tue Mar  3 07:17:30 2026] INFO: task pt_main_thread:40001 blocked for more than 120 seconds.\n"
        "[Tue Mar  3 07:18:00 2026] EDAC MC1: 3 CE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0)\n",
        (
            expect("node_events", kind="nfs_not_responding", device="10.11.0.9"),
            expect("node_events", kind="nfs_ok", device="10.11.0.9"),
            expect("node_events", kind="oom_kill", pid=40112, process="pt_data_worker", value=60123456.0, unit="kB"),
            expect("node_events", kind="hung_task", pid=40001, process="pt_main_thread", value=120.0, unit="s"),
            expect("node_events", kind="memory_error", device="MC1 CPU_SrcID#0_MC#1_Chan#0_DIMM#0", count=3),
        ),
    ),
    Sample(
        "[  48.100001] NVRM: GPU at 0000:05:00.0 has fallen off the bus.\n",
        (expect("node_events", kind="gpu_lost", device="0000:05:00.0"),),
    ),
    Sample(
        "[ 77.100001] amdgpu 0000:83:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!\n"
        "[ 77.200001] amdgpu 0000:83:00.0: amdgpu: GPU reset begin!\n",
        (
            expect("gpu_errors", family="amdgpu", code=None, pci="0000:83:00.0"),
            expect("node_events", kind="gpu_reset", device="0000:83:00.0"),
        ),
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
    "Mar  3 07:15:42 gpu021 python3[71]: NVRM: Xid (PCI:0000:9d:00): 79, GPU has fallen off the bus.\n",
    "Mar  3 07:15:42 gpu021 CRON[71]: (root) CMD (logger 'NVRM: Xid (PCI:0000:9d:00): 79, x')\n",
    '{"question":"what does NVRM: Xid (PCI:0000:9d:00): 79, mean?"}\n',
    # Other things of that name
    "Mar  3 07:15:42 gpu021 kernel: r8169 0000:07:00.0 eth0: RTL8168h/8111h, 00:00:5e:00:53:07, XID 541, IRQ 130\n",
    "2026-03-03 07:15:42 UTC [311] ERROR:  could not access status of transaction 79 (xid 79, oldest xid 31)\n",
    'DCGM_FI_DEV_XID_ERRORS{gpu="3",UUID="GPU-6f1d2c3b-0a1b-4c5d-8e9f-a0b1c2d3e4f5"} 79\n',
    # Details of other records
    "[  512.000240] nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Data {0x0000001f, 0x00000000}\n",
    "[ 77.100001] python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n",
    "[ 77.100001] Out of memory: Kill process 4011 (python3) score 912 or sacrifice child\n",
    "[ 77.100001] nvidia 0000:9d:00.0:   device [10de:2330] error status/mask=00001000/0000a000\n",
    "[ 77.100001] NVRM: GPU at PCI:0000:9d:00 is ready\n",
    "[ 77.100001] [drm] ring buffers are ready\n",
    # Torn: rejects, not rows
    "[ 77.100001] NVRM: Xid (PCI:0000:9d:00): \n",
    "[ 77.100001] NVRM: Xid (PCI:0000:9d\n",
    "[ 77.100001] NVRM: Xid (PCI:0000:9d:00): 99999999999, GPU has fallen off the bus.\n",
)
