"""Kernel lines that are one thing together: lost GPUs, who sat where, errors of PCIe; and what else a kernel says."""

from __future__ import annotations

from typing import Any

import pytest

from aftershock.parsers.formats import Found
from aftershock.schemas.events import GpuError, NodeEvent
from aftershock.schemas.topology import Gpu
from tests.parsers.test_kernel import only, read_line, settled

LOST = "NVRM: GPU 0000:9d:00.0: GPU has fallen off the bus."


def test_a_lost_gpu_is_told_once() -> None:
    twin = f"[ 100.000001] NVRM: Xid (PCI:0000:9d:00): 79, GPU has fallen off the bus.\n[ 100.000009] {LOST}\n"
    only(twin, code=79)
    only(f"[ 100.000001] {LOST}\n", kind="gpu_lost", device="0000:9d:00.0")
    other_gpu = twin.replace("9d:00.0", "9e:00.0")
    assert [row.table for row in settled(other_gpu)] == ["gpu_errors", "node_events"]
    much_later = twin.replace("[ 100.000009]", "[ 900.000009]")
    assert [row.table for row in settled(much_later)] == ["gpu_errors", "node_events"]
    other_host = f"May  7 01:39:28 n-1 kernel: NVRM: Xid (PCI:0000:9d:00): 79, x\nMay  7 01:39:28 n-2 kernel: {LOST}\n"
    assert [row.table for row in settled(other_host)] == ["gpu_errors", "node_events"]
    only(twin.replace("[ 100.000001] ", "").replace("[ 100.000009] ", ""), code=79)


def test_a_gpu_lost_at_probe_time() -> None:
    only(
        "[ 5.1] NVRM: The NVIDIA GPU 0000:9d:00.0 (PCI ID: 10de:2330)\n"
        "[ 5.1] NVRM: installed in this system has fallen off the bus and is not\n"
        "[ 5.1] NVRM: responding to commands.\n",
        kind="gpu_lost",
        device="0000:9d:00.0",
    )


UUID_A, UUID_B = (f"GPU-00000000-1111-2222-3333-{n:012d}" for n in (1, 2))


def test_identities_hold_for_one_load_of_the_driver() -> None:
    rows = settled(
        "[ 10.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90.07\n"
        f"[ 20.0] NVRM: GPU at PCI:0000:9d:00: {UUID_A}\n"
        "[ 20.0] NVRM: GPU Board Serial Number: 1650001\n"
        "[ 20.0] NVRM: Xid (PCI:0000:9d:00): 31, Ch 2\n"
        "[ 20.5] NVRM: Xid (PCI:0000:9e:00): 31, Ch 2\n"
        f"[ 21.0] NVRM: GPU at PCI:0000:9d:00: {UUID_A}\n"
        "[ 30.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90.07\n"
        "[ 31.0] NVRM: Xid (PCI:0000:9d:00): 48, DBE\n"
        "[ 40.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90.07\n"
        f"[ 50.0] NVRM: GPU at PCI:0000:9d:00: {UUID_B}\n"
        "[ 50.0] NVRM: Xid (PCI:0000:9d:00): 94, Ch 2\n"
    )
    errors = [(row.code, row.gpu_uuid, row.gpu_serial) for row in rows if isinstance(row, GpuError)]
    assert errors == [(31, UUID_A, "1650001"), (31, None, None), (48, None, None), (94, UUID_B, None)]
    gpus = [(row.pci, row.gpu_uuid, row.gpu_serial) for row in rows if isinstance(row, Gpu)]
    assert gpus == [("0000:9d:00.0", UUID_A, "1650001"), ("0000:9d:00.0", UUID_B, None)]


def test_two_hosts_in_one_file_keep_their_own_gpus() -> None:
    rows = settled(
        f"May  7 01:39:28 n-1 kernel: NVRM: GPU at PCI:0000:9d:00: {UUID_A}\n"
        f"May  7 01:39:28 n-2 kernel: NVRM: GPU at PCI:0000:9d:00: {UUID_B}\n"
        "May  7 01:39:28 n-1 kernel: NVRM: GPU Board Serial Number: 1650001\n"
        "May  7 01:39:29 n-1 kernel: NVRM: Xid (PCI:0000:9d:00): 31, Ch 2\n"
        "May  7 01:39:29 n-2 kernel: NVRM: Xid (PCI:0000:9d:00): 31, Ch 2\n"
    )
    errors = [(row.host_raw, row.gpu_uuid, row.gpu_serial) for row in rows if isinstance(row, GpuError)]
    assert errors == [("n-1", UUID_A, "1650001"), ("n-2", UUID_B, None)]


@pytest.mark.parametrize(
    ("line", "kind", "fields"),
    [
        ("Linux version 5.15.0-91-generic (builder@n) (gcc)", "boot", {}),
        ("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15", "driver_load", {"device": "nvidia 570.86.15"}),
        ("NVRM: GPU 0000:9d:00.0: RmInitAdapter failed! (0x22:0x65:1540)", "gpu_init_failed", {"device": "0000:9d:00.0"}),
        ("nfs: server nas-3 not responding, timed out", "nfs_not_responding", {"device": "nas-3"}),
        ("nfs: server nas-3 OK", "nfs_ok", {"device": "nas-3"}),
        ("a.out[71]: segfault at 0 ip 00007f7c sp 00007f7d error 4 in libc.so.6[7f+1]", "segfault", {"pid": 71, "process": "a.out"}),
        ("Out of memory: Killed process 71 (a.out) total-vm:9kB, anon-rss:8kB", "oom_kill", {"pid": 71, "value": 8.0}),
        ("Killed process 71 (a.out) total-vm:9kB, anon-rss:8kB", "oom_kill", {"pid": 71}),
        ("watchdog: BUG: soft lockup - CPU#12 stuck for 22s! [a.out:71]", "soft_lockup", {"pid": 71, "value": 22.0}),
        ("mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: 8c00004000010090", "machine_check", {"device": "CPU 12 bank 7"}),
        ("Kernel panic - not syncing: Fatal exception", "panic", {}),
        ("reboot: Restarting system", "shutdown", {}),
        ("mlx5_core 0000:5e:00.0 ibp94s0: Link down", "link_down", {"device": "0000:5e:00.0 ibp94s0"}),
        ("mlx5_core 0000:5e:00.0 ibp94s0: Link up", "link_up", {"device": "0000:5e:00.0 ibp94s0"}),
        ("nvidia 0000:9d:00.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=x", "pcie_error", {"device": "0000:9d:00.0"}),
    ],
)  # fmt: skip
def test_other_evidence(line: str, kind: str, fields: dict[str, Any]) -> None:
    only(f"[ 12.300000] {line}", kind=kind, **fields)


def test_the_time_of_a_machine_check_is_an_epoch() -> None:
    text = b"[ 10.0] mce: [Hardware Error]: CPU 1: Machine Check: 0 Bank 7: 8c00"
    items = read_line(text, b"[ 10.0] mce: [Hardware Error]: PROCESSOR 2:a0652 TIME 1790000000 SOCKET 0\n")
    assert isinstance(items[0], Found)
    assert (items[0].reading.kind, items[0].reading.wall) == ("epoch", 1_790_000_000_000_000)


def test_a_storm_of_pcie_errors_pairs_each_report_with_its_error() -> None:
    block = (
        "[ {0}.0] pcieport 0000:9c:01.0: AER: Corrected error received: 0000:9d:00.0\n"
        "[ {0}.1] nvidia 0000:9d:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer\n"
    )
    rows = settled(
        "".join(block.format(n) for n in range(10, 20))
        + "[ 30.0] pcieport 0000:9c:01.0: AER: Corrected error received: 0000:00:00.0\n"
    )
    assert [row.device for row in rows if isinstance(row, NodeEvent)] == ["0000:9d:00.0 via 0000:9c:01.0"] * 10 + [
        "0000:9c:01.0"
    ]
