"""Disks and the file systems on them: errors of ext4, XFS and Btrfs, of the block layer, of NVMe drives, of RAID.

    EXT4-fs error (device nvme0n1p1): ext4_find_entry:1455: inode #2: comm python3: reading directory lblock 0
    XFS (dm-0): metadata I/O error in "xfs_trans_read_buf_map" at daddr 0x1 len 1 error 5
    blk_update_request: I/O error, dev nvme0n1, sector 2048 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 0
    Buffer I/O error on dev nvme0n1p1, logical block 0, async page read
    nvme nvme0: I/O 12 QID 3 timeout, aborting

What a file system or a buffer says after the error below it is an echo: ``settle`` keeps it only where it stands alone.
https://docs.kernel.org/admin-guide/ext4.html, https://docs.kernel.org/admin-guide/xfs.html,
https://github.com/torvalds/linux/tree/master/drivers/nvme/host, https://github.com/torvalds/linux/tree/master/block
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.kernel.rules import ECHO, Rule, event
from aftershock.parsers.patterns import later

FILE_SYSTEM, DISK = "file_system", "disk"

_EXT4: Final = "https://docs.kernel.org/admin-guide/ext4.html"
_XFS: Final = "https://docs.kernel.org/admin-guide/xfs.html"
_BTRFS: Final = "https://btrfs.readthedocs.io/en/latest/trouble-index.html"
_BLOCK: Final = "https://github.com/torvalds/linux/blob/master/block/blk-mq.c"
_NVME: Final = "https://github.com/torvalds/linux/tree/master/drivers/nvme/host"
_MD: Final = "https://docs.kernel.org/admin-guide/md.html"

_DEVICE: Final = rb"(?P<device>[\w./!:-]{1,64}?)"
_DISK: Final = re.compile(r"(nvme\d+n\d+|mmcblk\d+)p\d+|(/?(?:dev/)?[a-z]{2,4}[a-z])\d+")


def disk_of(device: str | None) -> str | None:
    """The disk of a partition: nvme0n1p1 and sda1 stand on nvme0n1 and sda. Other names are disks already."""
    found = _DISK.fullmatch(device or "")
    return device if found is None else found[1] or found[2]


RULES: Final = (
    Rule(
        words=(b"-fs error (device ",),
        shape=later(
            rb"EXT[234]-fs error \(device " + _DEVICE + rb"\)(?:: | in )"
            rb"(?:.{0,160}? ?comm (?P<process>.{1,16}?): )?"
        ),
        row=event("fs_error"),
        mark=FILE_SYSTEM,
    ),
    Rule(
        words=(
            b"I/O error while writing superblock",
            b"Aborting journal on device ",
            b"Detected IO errors while flushing",
        ),
        shape=later(
            rb"(?:EXT[234]-fs \(" + _DEVICE + rb"\): I/O error while writing superblock"
            rb"|(?:JBD2?: )?Aborting journal on device (?P<journal>[\w./!:]{1,64}?)(?:-\d{1,10})?\."
            rb"|JBD2: Detected IO errors while flushing file data on (?P<flushed>[\w./!:]{1,64}?)(?:-\d{1,10})?\s*\Z)"
        ),
        row=lambda found, line: event(
            "fs_error", device=(found["journal"] or found["flushed"] or b"").decode("utf-8", "backslashreplace")
        )(found, line),
        mark=FILE_SYSTEM + ECHO,
    ),
    Rule(
        words=(b"emounting filesystem read-only", b"forced readonly", b"remounting read-only"),
        shape=later(
            rb"(?:EXT[234]-fs|F2FS-fs|BTRFS(?: info)?:?) \((?:device )?" + _DEVICE + rb"\)(?:: | .{0,100}?)"
            rb"(?:[Rr]emounting filesystem read-only|forced readonly|remounting read-only)"
        ),
        row=event("remount_ro"),
    ),
    Rule(
        words=(b"): Metadata ", b"): Corruption ", b"etadata I/O error", b"): I/O ", b"): Internal error "),
        shape=later(
            rb"XFS \("
            + _DEVICE
            + rb"\): (?:Metadata (?:corruption|CRC error) detected|Corruption (?:detected|of in-memory|"
            rb"warning)|(?:[Mm]etadata )?I/O [Ee]rror|Internal error )"
        ),
        row=event("fs_error"),
        mark=FILE_SYSTEM,
    ),
    Rule(
        words=(b"xfs_do_force_shutdown", b"hutting down filesystem", b"has been shut down due to", b"og I/O "),
        shape=later(
            rb"XFS \(" + _DEVICE + rb"\): (?:xfs_do_force_shutdown\(|Filesystem has been shut down due to"
            rb"|[lL]og I/O [Ee]rror|[\w /-]{0,60}\.? {0,4}Shutting down filesystem)"
        ),
        row=event("fs_error"),
        mark=FILE_SYSTEM + ECHO,
    ),
    Rule(
        words=(b"BTRFS error (device ", b"BTRFS critical (device ", b"BTRFS: error (device "),
        shape=later(rb"BTRFS:? (?:error|critical) \(device " + _DEVICE + rb"(?:: state \w{1,8})?\)"),
        row=event("fs_error"),
        mark=FILE_SYSTEM,
    ),
    Rule(
        words=(b" error, dev ",),
        shape=later(
            rb"(?:blk_update_request: |print_req_error: |end_request: |blk_print_req_error: )?"
            rb"(?:critical [\w ]{2,20} error|I/O error|[a-z][\w ]{2,30} error), dev "
            + _DEVICE
            + rb", sector \d{1,20}\b"
        ),
        row=event("io_error"),
        mark=DISK,
    ),
    Rule(
        words=(b"Buffer I/O error on dev",),
        shape=later(rb"Buffer I/O error on dev(?:ice)? " + _DEVICE + rb", logical block \d{1,20}\b"),
        row=event("io_error"),
        mark=DISK + ECHO,
    ),
    Rule(
        words=(b" @ LBA ",),
        shape=later(
            rb"(?P<device>nvme\d{1,4}(?:c\d{1,4})?n\d{1,4}): [\w /]{1,40}\(0x[0-9a-f]{1,4}\) @ LBA \d{1,20}, "
            rb"\d{1,10} blocks, "
        ),
        row=event("io_error"),
        mark=DISK + ECHO,
    ),
    Rule(
        words=(b"nvme nvme",),
        shape=later(
            rb"nvme (?P<device>nvme\d{1,4}(?:n\d{1,4})?): (?:I/O (?:tag )?\d{1,6} .{0,80}?timeout, "
            rb"|controller is down; will reset|Device not ready; aborting|Removing after probe failure"
            rb"|Disabling device after reset failure|frozen state error detected|starting error recovery"
            rb"|failed nvme_keep_alive_end_io|keep-alive failed|Identify Controller failed"
            rb"|request 0x[0-9a-f]{1,8} genctr mismatch|resetting controller due to)"
        ),
        row=event("nvme_error"),
    ),
    Rule(
        words=(b"Disk failure on ",),
        shape=later(rb"md/raid[\w:]{0,12}:(?P<device>md\w{1,12}): Disk failure on [\w./!-]{1,64}, disabling device"),
        row=event("raid_degraded"),
    ),
)

_FS: Final = "File systems on disks"
_IO: Final = "Errors of the block layer; what a buffer says after one is its echo"

SAMPLES: Final = (
    Sample(
        "[ 77.100001] EXT4-fs error (device nvme0n1p1): ext4_find_entry:1455: inode #2: comm python3: reading "
        "directory lblock 0\n"
        "[ 77.100101] Aborting journal on device nvme0n1p1-8.\n"
        "[ 77.100201] EXT4-fs (nvme0n1p1): Remounting filesystem read-only\n",
        (
            expect("node_events", kind="fs_error", device="nvme0n1p1", process="python3", trust="kernel"),
            expect("node_events", kind="remount_ro", device="nvme0n1p1"),
        ),
        _FS,
        _EXT4,
    ),
    Sample(
        '[ 77.100001] XFS (dm-0): metadata I/O error in "xfs_trans_read_buf_map" at daddr 0x1 len 1 error 5\n'
        "[ 77.100101] XFS (dm-0): xfs_do_force_shutdown(0x2) called from line 1297 of file fs/xfs/xfs_log.c.\n"
        "[ 77.100201] XFS (dm-0): Log I/O Error Detected.  Shutting down filesystem\n"
        "[ 77.100301] XFS (dm-0): Please unmount the filesystem and rectify the problem(s)\n"
        "[ 99.100001] XFS (nvme1n1): Corruption of in-memory data detected.  Shutting down filesystem\n",
        (
            expect("node_events", kind="fs_error", device="dm-0"),
            expect("node_events", kind="fs_error", device="nvme1n1"),
        ),
        _FS,
        _XFS,
    ),
    Sample(
        "[ 77.100001] BTRFS error (device sdb1): bdev /dev/sdb1 errs: wr 1, rd 0, flush 0, corrupt 0, gen 0\n",
        (expect("node_events", kind="fs_error", device="sdb1"),),
        _FS,
        _BTRFS,
    ),
    Sample(
        "[ 77.100001] blk_update_request: I/O error, dev nvme0n1, sector 2048 op 0x0:(READ) flags 0x80700 phys_seg 1 "
        "prio class 0\n"
        "[ 77.100101] Buffer I/O error on dev nvme0n1p1, logical block 0, async page read\n"
        "[ 88.100001] critical medium error, dev sda, sector 1953525 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2\n"
        "[ 99.100001] Buffer I/O error on device sdc1, logical block 17\n",
        (
            expect("node_events", kind="io_error", device="nvme0n1"),
            expect("node_events", kind="io_error", device="sda"),
            expect("node_events", kind="io_error", device="sdc1"),
        ),
        _IO,
        _BLOCK,
    ),
    Sample(
        "[ 77.100001] nvme0n1: Read(0x2) @ LBA 123456, 8 blocks, Unrecovered Read Error (sct 0x2 / sc 0x81) DNR\n"
        "[ 77.100101] critical medium error, dev nvme0n1, sector 987648 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2"
        "\n",
        (expect("node_events", kind="io_error", device="nvme0n1", time_local="77.100101"),),
        _IO,
        _NVME,
    ),
    Sample(
        "[ 77.100001] nvme nvme0: I/O 12 QID 3 timeout, aborting\n"
        "[107.100001] nvme nvme0: I/O tag 13 (100d) opcode 0x2 (I/O Cmd) QID 3 timeout, reset controller\n"
        "[108.100001] nvme nvme1: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10\n"
        "[109.100001] nvme nvme1: Removing after probe failure status: -19\n",
        (
            expect("node_events", kind="nvme_error", device="nvme0"),
            expect("node_events", kind="nvme_error", device="nvme0"),
            expect("node_events", kind="nvme_error", device="nvme1"),
            expect("node_events", kind="nvme_error", device="nvme1"),
        ),
        "NVMe drives",
        _NVME,
    ),
    Sample(
        "[ 77.100001] md/raid1:md0: Disk failure on nvme1n1p2, disabling device.\n"
        "              md/raid1:md0: Operation continuing on 1 devices.\n",
        (expect("node_events", kind="raid_degraded", device="md0"),),
        "Software RAID",
        _MD,
    ),
)

NON_SAMPLES: Final = (
    "[  1.100001] EXT4-fs (sda1): mounted filesystem with ordered data mode. Opts: errors=remount-ro\n",
    "[  1.100001] EXT4-fs (sda1): re-mounted. Opts: errors=remount-ro. Quota mode: none.\n",
    "[  1.100001] XFS (dm-0): Mounting V5 Filesystem\n",
    "[  1.100001] XFS (dm-0): Ending clean mount\n",
    "[  1.100001] XFS (dm-0): Please unmount the filesystem and rectify the problem(s)\n",
    "[  1.100001] nvme nvme0: 16/0/0 default/read/poll queues\n",
    "[  1.100001] nvme nvme0: Shutdown timeout set to 10 seconds\n",
    "[  1.100001] nvme nvme0: Abort status: 0x0\n",
    "[  1.100001] sd 0:0:0:0: [sda] tag#0 Sense Key : Medium Error [current]\n",
    "Mar  3 07:15:42 gpu021 smartd[7]: I/O error, dev sda, sector 1953525\n",
    "Mar  3 07:15:42 gpu021 audit[7]: EXT4-fs error (device nvme0n1p1): ext4_find_entry\n",
    "awk '/Buffer I/O error on dev nvme0n1p1, logical block 0/ {print $1}' kern.log\n",
)
