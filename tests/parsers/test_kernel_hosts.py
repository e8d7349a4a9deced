"""What the kernel says of its host: every kind with its fields, told once however many lines tell it."""

from __future__ import annotations

from typing import Any

import pytest

from aftershock.parsers import kernel
from aftershock.parsers.formats import Sample
from aftershock.parsers.kernel.storage import disk_of
from aftershock.parsers.selfcheck import SAMPLE_RULES, rows_of_text
from aftershock.schemas.columns import Row
from aftershock.schemas.events import NODE_EVENT_KINDS, NodeEvent

UID = "0b8d2a3c-1f6e-4c55-9a70-5d1e2f3a4b5c"


def rows_of(text: str) -> list[Row]:
    return rows_of_text(text, kernel.FORMAT, SAMPLE_RULES)


def events_of(text: str) -> list[NodeEvent]:
    return [row for row in rows_of(text) if isinstance(row, NodeEvent)]


def stamped(*lines: str, step: float = 0.0001, head: str = "[{:12.6f}] ") -> str:
    return "".join(head.format(100 + number * step) + line + "\n" for number, line in enumerate(lines))


@pytest.mark.parametrize(
    ("line", "kind", "fields"),
    [
        ("Linux version 5.15.0-91-generic (builder@n) (gcc)", "boot", {"device": "Linux 5.15.0-91-generic", "value": None}),
        ("NVRM: loading NVIDIA UNIX aarch64 Kernel Module  535.161.07  Sat Feb 17", "driver_load", {"device": "nvidia 535.161.07"}),
        ("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build", "driver_load", {"device": "nvidia 570.86.15"}),
        ("NVRM: loading NVIDIA UNIX x86_64 Kernel Mod", "driver_load", {"device": "nvidia"}),
        ("nvidia-nvlink: Unregistered the Nvlink Core, major device number 236", "driver_unload", {"device": "nvidia"}),
        ("reboot: Power down", "shutdown", {"device": None}),
        ("reboot: System halted", "shutdown", {}),
        ("sysrq: Resetting", "shutdown", {}),
        ("sysrq: SysRq : Resetting", "shutdown", {}),
        ("kexec_core: Starting new kernel", "shutdown", {}),
        ("ACPI: PM: Preparing to enter system sleep state S5", "shutdown", {}),
        ("systemd-shutdown[1]: Rebooting.", "shutdown", {"trust": None}),
        ("Out of memory: Killed process 7 ((sd-pam)) total-vm:9kB, anon-rss:8kB", "oom_kill", {"process": "(sd-pam)", "value": 8.0}),
        ("Killed process 7, UID 503, (java) total-vm:9kB, anon-rss:8kB, file-rss:1kB", "oom_kill", {"pid": 7, "process": "java"}),
        ("Out of memory (oom_kill_allocating_task): Killed process 7 (x) total-vm:9kB, anon-rss:8kB", "oom_kill", {"unit": "kB"}),
        ("Out of memory: Killed process 7 (httpd).", "oom_kill", {"process": "httpd", "value": None, "unit": None}),
        ("[Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 4: be00000000800400", "machine_check", {"device": "CPU 3 bank 4", "severity": "fatal"}),
        ("mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 4: bc00000000800400", "machine_check", {"severity": "uncorrectable"}),
        ("mce: [Hardware Error]: Machine check events logged", "machine_check", {"device": None}),
        ("EDAC MC0: 3 CE Cannot decode normalized address on mc#0csrow#3channel#0 (csrow:3)", "memory_error", {"value": 3.0, "count": 3, "device": "MC0 mc#0csrow#3channel#0"}),
        ("EDAC MC2: 1 UE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0)", "memory_error", {"severity": "uncorrectable"}),
        ("EDAC skx MC3: 1 CE memory read error on CPU_SrcID#1_MC#1_Chan#0_DIMM#0 (x)", "memory_error", {"device": "MC3 CPU_SrcID#1_MC#1_Chan#0_DIMM#0"}),
        ("EDAC amd64 MC0: CE ERROR_ADDRESS= 0x7f8e2c0", "memory_error", {"device": "MC0", "count": 1}),
        ("EDAC MC1: UE page 0x0, offset 0x0, grain 4096, row 1, labels \":\": i3000 UE", "memory_error", {"device": "MC1"}),
        ("EDAC i10nm MC6: HANDLING MCE MEMORY ERROR", "memory_error", {"device": "MC6"}),
        ("nvidia 0000:9d:00.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=x", "pcie_error", {"device": "0000:9d:00.0", "severity": "fatal"}),
        ("pcieport 0000:9c:01.0: AER: Uncorrected (Non-Fatal) error received: 0000:9d:00.0", "pcie_error", {"device": "0000:9d:00.0 via 0000:9c:01.0", "severity": "nonfatal"}),
        ("pcieport 0000:9c:01.0: AER: Multiple Correctable error message received from 0000:9d:00.0", "pcie_error", {"severity": "correctable"}),
        ("pcieport 0000:9c:01.0: AER: Corrected error received: id=9d08", "pcie_error", {"device": "0000:9d:01.0 via 0000:9c:01.0"}),
        ("pcieport 0015:00:00.0: DPC: containment event, status:0x200d, ERR_FATAL received from 0015:01:00.0", "pcie_error", {"device": "0015:01:00.0 via 0015:00:00.0", "severity": "fatal"}),
        ("dpc 0000:00:03.2:pcie008: DPC containment event, status:0x1f01 source:0x0000", "pcie_error", {"device": "0000:00:03.2", "severity": None}),
        ("mlx5_core 0000:5e:00.0 ibp94s0: Link down", "link_down", {"device": "0000:5e:00.0 ibp94s0"}),
        ("mlx5_core 0000:5e:00.0: port_module:247:(pid 0): Port module event: module 1, Cable unplugged", "link_down", {"device": "0000:5e:00.0 module 1"}),
        ("ice 0000:31:00.0 ens2f0: NIC Link is up 100 Gbps Full Duplex, Requested FEC: RS-FEC", "link_up", {"device": "0000:31:00.0 ens2f0"}),
        ("i40e 0000:3d:00.0 eno1: NIC Link is Down", "link_down", {"device": "0000:3d:00.0 eno1"}),
        ("bnxt_en 0000:19:00.0 ens1f0np0: NIC Link is Down", "link_down", {}),
        ("ixgbe 0000:3b:00.0 eth0: NIC Link is Up 10 Gbps, Flow Control: RX/TX", "link_up", {}),
        ("r8169 0000:06:00.0 eth0: Link is Down", "link_down", {}),
        ("mlx4_en: ens1: Link Down", "link_down", {"device": "ens1"}),
        ("mlx5_0: Port: 1 Link DOWN", "link_down", {"device": "mlx5_0 port 1"}),
        ("infiniband rocep94s0: Port: 2 Link ACTIVE", "link_up", {"device": "rocep94s0 port 2"}),
        ("bonding: bond0: link status definitely down for interface eth0, disabling it", "link_down", {"device": "eth0 in bond0"}),
        ("mlx5_core 0000:5e:00.0: mlx5_health_try_recover:331:(pid 71): handling bad device here", "nic_error", {"device": "0000:5e:00.0"}),
        ("mlx5_core 0000:5e:00.0: wait_func:1156:(pid 967): MANAGE_PAGES(0x108) timeout. Will cause a leak of a command resource", "nic_error", {}),
        ("mlx5_core 0000:5e:00.0 ens1: TX timeout detected", "nic_error", {"device": "0000:5e:00.0 ens1"}),
        ("infiniband efa_0: Failed to process command MODIFY_QP (opcode 2) comp_status 5 err -22", "nic_error", {"device": "efa_0"}),
        ("efa 0000:00:1d.0: Wait for completion (polling) timeout", "nic_error", {"device": "0000:00:1d.0"}),
        ("mlx5_core 0000:5e:00.0 ens1: NETDEV WATCHDOG: CPU: 6: transmit queue 0 timed out 5012 ms", "nic_error", {"device": "0000:5e:00.0 ens1"}),
        ("nfs: server nas-3 not responding, timed out", "nfs_not_responding", {"device": "nas-3"}),
        ("nfs: server nas-3 not responding, still trying", "nfs_not_responding", {}),
        ("lockd: server nas-3 OK", "nfs_ok", {"device": "nas-3", "value": None}),
        ("NFS: state manager failed on NFSv4 server 10.0.0.7 with error 13", "fs_error", {"device": "10.0.0.7", "value": 13.0}),
        ("Lustre: x-MDT0000-mdc-ffff: Connection to x-MDT0000 (at 10.0.47.232@tcp) was lost; in progress operations using", "fs_timeout", {"device": "x-MDT0000 10.0.47.232@tcp"}),
        ("Lustre: MGC10.0.0.5@o2ib: Connection restored to 10.0.0.5@o2ib (at 10.0.0.5@o2ib)", "fs_restored", {"device": "10.0.0.5@o2ib"}),
        ("LNet: 2431:0:(o2iblnd_cb.c:3174:kiblnd_check_conns()) Timed out tx for 172.31.126.87@o2ib: 403055 seconds", "fs_timeout", {"device": "172.31.126.87@o2ib"}),
        ("Lustre: 2449:0:(client.c:2141:ptlrpc_expire_one_request()) @@@ Request sent has failed due to network error: [sent 1/real 2]  req@f x1/t0(0) o250->MGC10.0.0.7@o2ib@10.0.0.7@o2ib:26/25 lens 520/544", "fs_timeout", {"device": "MGC10.0.0.7@o2ib 10.0.0.7@o2ib"}),
        ("ceph: [0b8d2a3c-1f6e 4242]: mds0 hung", "fs_timeout", {"device": "mds0"}),
        ("INFO: task kworker/u256:3:991 blocked for more than 241 seconds.", "hung_task", {"pid": 991, "process": "kworker/u256:3", "value": 241.0, "unit": "s"}),
        ("NMI watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [a.out:71]", "soft_lockup", {"device": "CPU#3", "pid": 71, "value": 22.0}),
        ("BUG: soft lockup - CPU#3 stuck for 67s! [migration/3:71]", "soft_lockup", {"process": "migration/3", "value": 67.0}),
        ("watchdog: Watchdog detected hard LOCKUP on cpu 14", "hard_lockup", {"device": "cpu 14"}),
        ("watchdog: CPU 3 Hard LOCKUP", "hard_lockup", {"device": "CPU 3"}),
        ("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "rcu_stall", {"device": "rcu_preempt"}),
        ("a.out[71]: segfault at 0 ip 00007f7c sp 00007f7d error 4 in libc.so.6[7f+1]", "segfault", {"device": "libc.so.6", "pid": 71}),
        ("Web Content[71]: segfault at 0 ip 00007f7c sp 00007f7d error 6 in memfd:jit (deleted)[7f+1]", "segfault", {"process": "Web Content"}),
        ("traps: a.out[71] general protection ip:7f sp:7f error:0 in libtorch.so[7f+1]", "segfault", {"device": "libtorch.so"}),
        ("traps: a.out[71] trap divide error ip:7f sp:7f error:0 in a.out[7f+1]", "trap", {"process": "a.out"}),
        ("Kernel panic - not syncing: Fatal machine check", "panic", {"severity": "fatal"}),
        ("BUG: unable to handle kernel NULL pointer dereference at 0000000000000010", "panic", {"severity": "nonfatal"}),
        ("BUG: kernel NULL pointer dereference, address: 0000000000000010", "panic", {}),
        ("Oops: 0002 [#1] PREEMPT SMP NOPTI", "panic", {}),
        ("Internal error: Oops: 96000004 [#1] SMP", "panic", {}),
        ("Unable to handle kernel paging request at virtual address ffff0000", "panic", {}),
        ("general protection fault, probably for non-canonical address 0xdead: 0000 [#1] SMP", "panic", {}),
        ("CPU3: Core temperature above threshold, cpu clock throttled (total events = 7)", "thermal", {"device": "CPU3 core", "value": 7.0}),
        ("mce: CPU3: Package power limit notification (total events = 7)", "power", {"device": "CPU3 package"}),
        ("NVRM: GPU 0000:3b:00.0: GPU does not have the necessary power cables connected.", "power", {"device": "0000:3b:00.0"}),
        ("EXT4-fs error (device sda1) in ext4_reserve_inode_write:5680: Journal has aborted", "fs_error", {"device": "sda1"}),
        ("EXT4-fs (sda1): Remounting filesystem read-only", "remount_ro", {"device": "sda1"}),
        ("BTRFS info (device sdb): forced readonly", "remount_ro", {"device": "sdb"}),
        ("XFS (dm-0): Internal error XFS_WANT_CORRUPTED_GOTO at line 1234 of file x.c", "fs_error", {"device": "dm-0"}),
        ("XFS (dm-0): Metadata corruption detected at xfs_agi_read_verify+0x12/0x34", "fs_error", {}),
        ("XFS (dm-0): Filesystem has been shut down due to log error (0x2).", "fs_error", {}),
        ("print_req_error: I/O error, dev nvme0n1, sector 2048", "io_error", {"device": "nvme0n1"}),
        ("I/O error, dev nvme0n1, sector 0 op 0x1:(WRITE) flags 0x0", "io_error", {}),
        ("Buffer I/O error on dev dm-3, logical block 12, lost async page write", "io_error", {"device": "dm-3"}),
        ("nvme nvme0: I/O 12 QID 3 timeout, reset controller", "nvme_error", {"device": "nvme0"}),
        ("nvme nvme0: Device not ready; aborting reset, CSTS=0x1", "nvme_error", {}),
        ("nvme nvme2: Removing after probe failure status: -19", "nvme_error", {"device": "nvme2"}),
    ],
)  # fmt: skip
def test_every_spelling_gives_its_row(line: str, kind: str, fields: dict[str, Any]) -> None:
    rows = rows_of(stamped(line))
    assert len(rows) == 1, rows
    row = rows[0]
    assert isinstance(row, NodeEvent)
    assert {"kind": row.kind, **{name: getattr(row, name) for name in fields}} == {"kind": kind, **fields}
    assert row.kind in NODE_EVENT_KINDS
    assert row.time_local == "100.000000"


@pytest.mark.parametrize("sample", kernel.FORMAT.samples, ids=range(len(kernel.FORMAT.samples)))
def test_every_sample_says_what_it_shows_and_where_that_is_documented(sample: Sample) -> None:
    assert sample.title
    assert sample.url.startswith("https://")


def test_every_topic_has_more_texts_that_are_none_than_samples() -> None:
    for topic in kernel._TOPICS:
        assert len(topic.NON_SAMPLES) >= len(topic.SAMPLES), topic.__name__


PROGRAMS = ["trainer", "sudo", "CRON", "ansible-command", "bash", "audit", "systemd-coredump", "kubelet", "dockerd"]


@pytest.mark.parametrize("rule", kernel.RULES, ids=lambda rule: rule.words[0].decode())
def test_another_program_says_nothing(rule: Any) -> None:
    for sample in kernel.FORMAT.samples:
        for line in sample.text.splitlines():
            if any(words in line.encode() for words in rule.words) and line.startswith("[ "):
                message = line.partition("] ")[2]
                for program in PROGRAMS:
                    assert rows_of(f"Mar  3 07:15:42 gpu021 {program}[7]: {message}\n") == []


def test_a_user_who_writes_to_the_kernel_log_is_marked() -> None:
    said = "nfs: server nas-3 not responding, timed out"
    for head, trust in (("4,7,1500000,-;", "kernel"), ("12,7,1500000,-;", "user"), ("user  :notice: [ 1.5] ", "user")):
        assert [row.trust for row in events_of(head + said + "\n")] == [trust]
    assert [row.trust for row in events_of(f"2026-03-01T12:00:00Z stdout F [ 1.5] {said}\n")] == ["relayed"]


class TestOutOfMemory:
    KILL = "Memory cgroup out of memory: Killed process {} (python3) total-vm:9kB, anon-rss:{}kB"
    CHOSEN = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task_memcg={},task=python3,pid={},uid=0"

    def test_each_kill_has_the_cgroup_of_its_own_task(self) -> None:
        text = stamped(
            self.CHOSEN.format(f"/kubepods/burstable/pod{UID}/1", 1),
            self.KILL.format(1, 10),
            self.CHOSEN.format("/slurm/uid_7/job_9", 2),
            self.KILL.format(2, 20),
        )
        rows = [(row.pid, row.value, row.device) for row in events_of(text)]
        assert rows == [(1, 10.0, f"/kubepods/burstable/pod{UID}/1 pod {UID}"), (2, 20.0, "/slurm/uid_7/job_9")]

    def test_a_cgroup_that_is_killed_as_a_whole(self) -> None:
        text = stamped(self.CHOSEN.format("/slurm/uid_7/job_9", 1), *(self.KILL.format(n, n) for n in (1, 2, 3)))
        assert [(row.pid, row.device) for row in events_of(text)] == [(n, "/slurm/uid_7/job_9") for n in (1, 2, 3)]

    def test_a_kill_without_a_limit_does_not_take_one_of_long_ago(self) -> None:
        text = stamped("Task in /a killed as a result of limit of /a", "Killed process 1 (x) total-vm:1kB", step=60)
        assert [row.device for row in events_of(text)] == [None]

    def test_two_hosts_keep_their_own(self) -> None:
        head = "Mar  3 07:15:42 {} kernel: "
        text = (
            head.format("n-1") + self.CHOSEN.format("/a", 1) + "\n" + head.format("n-2") + self.KILL.format(1, 5) + "\n"
        )
        assert [(row.host, row.device) for row in events_of(text)] == [("n-1", "/a"), ("n-2", None)]


class TestTwins:
    def test_two_shutdowns_with_a_boot_between_them_are_two(self) -> None:
        down, boot = "reboot: Restarting system", "Linux version 6.8.0 (b@h) (gcc)"
        head = "Mar  3 07:15:42 gpu021 kernel: "
        kinds = [row.kind for row in events_of("".join(f"{head}{line}\n" for line in (down, down, boot, down)))]
        assert kinds == ["shutdown", "boot", "shutdown"]

    def test_two_shutdowns_far_from_each_other_are_two(self) -> None:
        assert len(events_of(stamped("reboot: Power down", "reboot: Power down", step=3600))) == 2

    def test_an_echo_without_a_lead_stays(self) -> None:
        assert len(events_of(stamped("Buffer I/O error on dev sda1, logical block 1"))) == 1
        assert len(events_of(stamped(*["mce: [Hardware Error]: Machine check events logged"] * 3, step=300))) == 3

    def test_each_error_of_a_disk_is_its_own(self) -> None:
        lines = [f"I/O error, dev sda, sector {n}" for n in range(4)]
        assert len(events_of(stamped(*lines, "Buffer I/O error on dev sda3, logical block 1"))) == 4
        assert len(events_of(stamped(*lines, "Buffer I/O error on dev sdb3, logical block 1"))) == 5

    def test_a_link_that_flaps_is_told_each_time(self) -> None:
        line = "mlx5_core 0000:5e:00.0 ens1: Link {}"
        kinds = [row.kind for row in events_of(stamped(*(line.format(s) for s in ("down", "up", "down")), step=1))]
        assert kinds == ["link_down", "link_up", "link_down"]

    def test_health_of_two_adapters(self) -> None:
        said = "mlx5_core 0000:{}:00.0: poll_health:825:(pid 0): device's health compromised - reached miss count"
        rows = events_of(stamped(said.format("5e"), said.format("5f"), said.format("5e")))
        assert [row.device for row in rows] == ["0000:5e:00.0", "0000:5f:00.0"]

    def test_lines_without_clocks_are_near_by_their_place(self) -> None:
        twins = (
            "kernel: Oops: 0000 [#1] SMP\n" + "kernel: {}\n" + "kernel: Kernel panic - not syncing: Fatal exception\n"
        )
        assert len(events_of(twins.format("x"))) == 1
        assert len(events_of(twins.format("\nkernel: x" * 5000))) == 2


class TestOutages:
    def lines(self, *said: tuple[int, str]) -> list[tuple[str | None, float | None]]:
        text = "".join(f"[{100 + at}.000000] nfs: server {words}\n" for at, words in said)
        return [(row.kind, row.value) for row in events_of(text)]

    def test_it_lasts_from_the_first_complaint_to_each_answer(self) -> None:
        down, up = "nas not responding, still trying", "nas OK"
        assert self.lines((0, down), (30, down), (60, up), (61, up)) == [
            ("nfs_not_responding", None),
            ("nfs_not_responding", None),
            ("nfs_ok", 60.0),
            ("nfs_ok", 61.0),
        ]

    def test_servers_have_their_own(self) -> None:
        said = self.lines((0, "a not responding, still trying"), (5, "b not responding, timed out"), (9, "a OK"))
        assert said[-1] == ("nfs_ok", 9.0)
        assert self.lines((0, "a not responding, still trying"), (9, "b OK"))[-1] == ("nfs_ok", None)

    def test_a_new_outage_after_an_answer_or_a_long_silence(self) -> None:
        down, up = "nas not responding, still trying", "nas OK"
        assert self.lines((0, down), (9, up), (100, down), (104, up))[-1] == ("nfs_ok", 4.0)
        assert self.lines((0, down), (5000, down), (5004, up))[-1] == ("nfs_ok", 4.0)

    def test_without_a_clock_in_common_nobody_knows(self) -> None:
        rows = events_of("kernel: nfs: server nas not responding, timed out\nkernel: nfs: server nas OK\n")
        assert [row.value for row in rows] == [None, None]


class TestBlocks:
    MCE = (
        "mce: [Hardware Error]: CPU 1: Machine Check: 0 Bank 7: 8c00004000010090",
        "mce: [Hardware Error]: TSC 0 ADDR 6d3d483240",
        "mce: [Hardware Error]: PROCESSOR 0:50654 TIME {} SOCKET 0 APIC 0",
    )

    def test_the_time_of_a_machine_check_dates_the_lines_around_it(self) -> None:
        text = stamped(*self.MCE, "INFO: task a:1 blocked for more than 120 seconds.").replace("{}", "1772522142")
        check, hung = events_of(text)
        assert (check.time, check.time_basis) == (1772522142000000, "epoch")
        assert (hung.time, hung.time_basis) == (1772522142000300, "boot_offset")

    def test_the_time_of_the_next_block_is_not_its_own(self) -> None:
        text = stamped(self.MCE[0], self.MCE[0].replace("CPU 1", "CPU 2"), *self.MCE[1:]).replace("{}", "1772522142")
        first, second = events_of(text)
        assert (first.time_basis, second.time_basis) == ("boot_offset", "epoch")

    def test_a_clock_that_was_never_set_says_nothing(self) -> None:
        assert [row.time for row in events_of(stamped(*self.MCE).replace("{}", "947185249"))] == [None]

    def test_the_lines_of_another_host_do_not_belong_to_a_block(self) -> None:
        heads = ("Mar  3 07:15:42 n-1 kernel: ", "Mar  3 07:15:42 n-2 kernel: ")
        text = f"{heads[0]}{self.MCE[0]}\n{heads[1]}{self.MCE[2].format(1772522142)}\n"
        rows = rows_of_text(text, kernel.FORMAT)
        assert [row.time for row in rows if isinstance(row, NodeEvent)] == [
            1772522142000000
        ]  # only the second it is in

    def test_a_storm_of_firmware_records(self) -> None:
        block = (
            "{{{0}}}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 4",
            "{{{0}}}[Hardware Error]: event severity: corrected",
            "{{{0}}}[Hardware Error]:   section_type: memory error",
            "{{{0}}}[Hardware Error]:   DIMM location: not present. DMI handle: 0x{0:04d}",
        )
        lines = [line.format(n) for n in range(1, 6) for line in block]
        assert len(events_of(stamped(*lines, step=10))) == 5


def test_disks_of_partitions() -> None:
    names = {"nvme0n1p12": "nvme0n1", "sda1": "sda", "dm-0": "dm-0", "nvme0n1": "nvme0n1", "vdb3": "vdb", "md0": "md0"}
    assert {name: disk_of(name) for name in names} == names
    assert disk_of(None) is None
