"""GPUs in other voices than the Xid of the kernel log: AMD's driver, hypervisors, the fabric manager, agents, Windows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aftershock.parsers import device_plugin, fabric_manager, gpfs, kernel, vgpu, windows_events
from aftershock.parsers.formats import LineFormat
from aftershock.parsers.selfcheck import SAMPLE_RULES, problems_of, rows_of_text
from aftershock.parsers.settle import SourceRules
from aftershock.schemas.columns import Row
from aftershock.schemas.events import GpuError, NodeEvent

GPU = "amdgpu 0000:83:00.0: amdgpu: "
DRM = "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* "
UUID = "GPU-7c1d2e3f-4a5b-4c6d-8e9f-0a1b2c3d4e5f"


def rows_of(text: str, fmt: LineFormat = kernel.FORMAT, rules: SourceRules = SAMPLE_RULES) -> list[Row]:
    return rows_of_text(text, fmt, rules)


def errors_of(text: str, fmt: LineFormat = kernel.FORMAT, rules: SourceRules = SAMPLE_RULES) -> list[GpuError]:
    return [row for row in rows_of(text, fmt, rules) if isinstance(row, GpuError)]


def stamped(*lines: str) -> str:
    return "".join(f"[{100 + number * 0.0001:12.6f}] {line}\n" for number, line in enumerate(lines))


def fields_of(row: Row, wanted: dict[str, Any]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in wanted}


@pytest.mark.parametrize("fmt", [device_plugin.FORMAT, gpfs.FORMAT], ids=lambda fmt: fmt.name)
def test_samples_prove_the_format(fmt: LineFormat) -> None:
    assert problems_of(fmt) == []
    assert len(fmt.non_samples) >= len(fmt.samples)


class TestAmd:
    @pytest.mark.parametrize(
        ("line", "fields"),
        [
            ("uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!", {"count": 1, "severity": None}),
            ("15 new uncorrectable hardware errors detected in gfx block", {"count": 15, "severity": None}),
            ("3 correctable hardware errors detected in umc block", {"count": 3, "severity": "correctable"}),
            ("{7}socket: 0, die: 1, 2 new correctable hardware errors detected in umc block", {"count": 2}),
            ("Fatal error during GPU init", {"severity": "fatal", "pci": "0000:83:00.0"}),
            ("Saved bad pages 5 reaches threshold value 5", {"pci": "0000:83:00.0", "trust": "kernel"}),
            ("GPU reset(2) failed", {"pci": "0000:83:00.0"}),
            ("GPU reset end with ret = -62", {"pci": "0000:83:00.0"}),
            ("ring sdma0 timeout, signaled seq=7, emitted seq=9", {"pid": None}),
        ],
    )
    def test_errors(self, line: str, fields: dict[str, Any]) -> None:
        rows = errors_of(stamped(GPU + line))
        assert [fields_of(row, fields) for row in rows] == [fields]
        assert [row.family for row in rows] == ["amdgpu"]

    @pytest.mark.parametrize(
        "line",
        [
            "0 uncorrectable hardware errors detected in gfx block",
            "0 new correctable hardware errors detected in umc block",
            "9 uncorrectable hardware errors detected in total in gfx block",
            "{7}socket: 0, die: 1, 9 correctable hardware errors detected in total in umc block",
            "GPU reset end with ret = 0",
            "{7}[Hardware Error]: ACA[01/01].STATUS=0xb0a0000000000137",
        ],
    )
    def test_lines_that_tell_no_error(self, line: str) -> None:
        assert rows_of(stamped(GPU + line)) == []

    def test_a_total_is_no_second_event(self) -> None:
        told = "uncorrectable hardware errors detected in"
        rows = errors_of(stamped(f"{GPU}2 new {told} gfx block", f"{GPU}6 {told} total in gfx block"))
        assert [row.count for row in rows] == [2]

    @pytest.mark.parametrize(
        ("status", "severity"), [("0x9c20000000000137", "correctable"), ("0xbea0000000000108", None), ("", None)]
    )
    def test_a_block_of_registers_is_one_row_at_its_first_line(self, status: str, severity: str | None) -> None:
        head = GPU + "{4}[Hardware Error]: "
        logged = head + "Accelerator Check Architecture events logged"
        banks = [
            [logged, f"{head}ACA[0{n}/02].CONTROL=0x00ff", *([f"{head}ACA[0{n}/02].STATUS={status}"] if status else [])]
            for n in (1, 2)
        ]
        rows = errors_of(stamped(*banks[0], *banks[1]))
        assert [(row.byte_offset, row.severity) for row in rows] == [(0, severity)]

    def test_a_failed_reset_is_one_row(self) -> None:
        failed, end = "GPU reset(2) failed", "GPU reset end with ret = -62"
        other = GPU.replace("83", "84")
        assert len(errors_of(stamped(GPU + failed, GPU + "SMU is resuming...", GPU + end))) == 1
        assert [row.pci for row in errors_of(stamped(GPU + failed, other + failed, GPU + end))] == [
            "0000:84:00.0",
            "0000:83:00.0",
        ]
        again = stamped(GPU + failed, GPU + "GPU reset begin!", GPU + end)
        assert [row.table for row in rows_of(again)] == ["gpu_errors", "node_events", "gpu_errors"]

    @pytest.mark.parametrize("who", ["Process information: process", "Process"])
    def test_who_ran_on_a_ring(self, who: str) -> None:
        ring = "ring comp_1.0.0 timeout, signaled seq=7, emitted seq=9"
        rows = errors_of(stamped(GPU + ring, f"{GPU}{who} python3 pid 1234 thread python3 pid 1235"))
        assert [(row.pci, row.process, row.pid) for row in rows] == [("0000:83:00.0", "python3", 1234)]

    @pytest.mark.parametrize("who", [(" ", 0), ("a b", 7)])
    def test_who_ran_without_a_device(self, who: tuple[str, int]) -> None:
        name, pid = who[0].strip(), who[1]
        said = f"{DRM}Process information: process {name} pid {pid} thread {name} pid {pid}"
        rows = errors_of(stamped(DRM + "ring gfx_0.0.0 timeout, signaled seq=7, emitted seq=9", said))
        assert [(row.pci, row.process, row.pid) for row in rows] == [(None, name or None, pid or None)]

    def test_the_victim_of_the_next_fault_or_of_another_gpu_is_not_its_own(self) -> None:
        ring = "ring gfx timeout, signaled seq=7, emitted seq=9"
        said = "Process information: process python3 pid 1234 thread python3 pid 1234"
        assert [row.pid for row in errors_of(stamped(GPU + ring, GPU + ring, GPU + said))] == [None, 1234]
        assert [row.pid for row in errors_of(stamped(GPU + ring, GPU.replace("83", "84") + said))] == [None]

    def test_who_missed_a_page(self) -> None:
        fault = GPU + "[gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:3 pasid:32777{})"
        here = fault.format(", for process python pid 4321 thread python pid 4322")
        below = (fault.format(""), GPU + " for process python pid 4321 thread python pid 4322")
        for lines in ((here,), below):
            assert [(row.process, row.pid) for row in errors_of(stamped(*lines))] == [("python", 4321)]


class TestFabricManager:
    @pytest.mark.parametrize(
        ("said", "fields"),
        [
            ("NVSwitch non-fatal error 12028 on fid 2 physical id 3 port 61", {"pci": None, "link": 61}),
            (
                "detected NVSwitch fatal error 20034 on fid 0 port 61 on NVSwitch pci bus id 00000000:86:00.0",
                {"pci": "0000:86:00.0", "link": 61, "severity": "fatal"},
            ),
            ("error 20034 on fid 0 port 61 on NVSwitch pci bus id 00000000:86:00.0", {"pci": "0000:86:00.0"}),
            ("error 20034 on fid 0 port 61 trunk is down", {"link": 61, "severity": None}),
        ],
    )
    @pytest.mark.parametrize("date", ["2026-03-03", "Mar 03 2026"])
    def test_where_it_was(self, said: str, fields: dict[str, Any], date: str) -> None:
        rows = errors_of(f"[{date} 04:05:06] [ERROR] [tid 7] {said}\n", fabric_manager.FORMAT)
        assert [fields_of(row, fields) for row in rows] == [fields]
        assert [row.time for row in rows] == [1772510706000000]
        assert rows[0].message == f"[ERROR] [tid 7] {said}"


class TestVgpu:
    SAID = "vmiop_log: (0x0): {} 31 detected on physical_chid:0x1c, guest_chid:0xa\n"

    @pytest.mark.parametrize("word", ["XID", "Xid"])
    @pytest.mark.parametrize(
        "stamp", ["2026-04-09T08:15:30.123Z| vthread-9| E110: ", "2026-04-09T08:15:30.123Z In(05) vthread-2101 - "]
    )
    def test_the_log_of_a_virtual_machine(self, stamp: str, word: str) -> None:
        rows = errors_of(stamp + self.SAID.format(word), vgpu.FORMAT)
        assert [(row.code, row.time, row.time_basis) for row in rows] == [(31, 1775722530123000, "zoned")]

    def test_the_host_of_syslog(self) -> None:
        rows = errors_of("Apr  9 08:15:30 hv03 nvidia-vgpu-mgr[22]: error: " + self.SAID.format("Xid"), vgpu.FORMAT)
        assert [(row.code, row.host) for row in rows] == [(31, "hv03")]


class TestDevicePlugin:
    SAID = "XidCriticalError: Xid=48 on Device={}; marking device as unhealthy."
    KLOG = "I0309 12:00:01.123456       1 health.go:172] "

    @pytest.mark.parametrize("around", ["", "2026-03-09T12:00:02.000000001Z stderr F "])
    def test_its_clock_has_no_year(self, around: str) -> None:
        text = around + self.KLOG + self.SAID.format(UUID) + "\n"
        (row,) = errors_of(text, device_plugin.FORMAT, SourceRules(source="x"))
        assert (row.code, row.gpu_uuid, row.pci, row.trust, row.time) == (48, UUID, None, "relayed", None)
        (row,) = errors_of(text, device_plugin.FORMAT)
        assert row.time == 1773057601123456

    @pytest.mark.parametrize(
        ("device", "place"),
        [(f"MIG-{UUID}/2/1", (UUID, 2, 1)), ("MIG-7c1d2e3f-4a5b-4c6d-8e9f-0a1b2c3d4e5f", (None, None, None))],
    )
    def test_slices(self, device: str, place: tuple[str | None, int | None, int | None]) -> None:
        (row,) = errors_of(self.KLOG + self.SAID.format(device) + "\n", device_plugin.FORMAT)
        assert (row.gpu_uuid, row.mig_gi, row.mig_ci) == place

    def test_a_date_that_cannot_be(self) -> None:
        (row,) = errors_of(self.KLOG.replace("0309", "0231") + self.SAID.format(UUID) + "\n", device_plugin.FORMAT)
        assert row.time is None


class TestWindows:
    LISTED = (
        "TimeCreated  : 3/4/2026 5:06:07 AM",
        "ProviderName : nvlddmkm",
        "Id           : 13",
        "Message      : gone",
    )

    @pytest.mark.parametrize("turn", range(4))
    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_a_list_in_any_order(self, turn: int, end: str) -> None:
        block = [*self.LISTED[turn:], *self.LISTED[:turn], ""]
        rows = errors_of(end.join([*block, *block, ""]), windows_events.FORMAT)
        told = [(row.code, row.time_local, row.message) for row in rows]
        assert told == [(13, "3/4/2026 5:06:07 AM", "gone")] * 2

    @pytest.mark.parametrize("turn", range(4))
    @pytest.mark.parametrize("when", ["/Date(1772600767123)/", {"value": "/Date(1772600767123)/", "DateTime": "Wed"}])
    @pytest.mark.parametrize("indent", [None, 2])
    @pytest.mark.parametrize("escaped", [True, False])
    def test_json_in_any_order(self, turn: int, when: Any, indent: int | None, escaped: bool) -> None:
        members = [("ProviderName", "nvlddmkm"), ("Id", 13), ("TimeCreated", when), ("Message", "gone\r\nfor good")]
        record = dict([*members[turn:], *members[:turn]])
        text = json.dumps([record, record, {**record, "ProviderName": "Display"}], indent=indent)
        rows = errors_of((text.replace("/", "\\/") if escaped else text) + "\n", windows_events.FORMAT)
        told = [(row.code, row.time, row.time_basis, row.message) for row in rows]
        assert told == [(13, 1772600767123000, "epoch", "gone for good")] * 2

    @pytest.mark.parametrize("said", [',"one ""two"" three"', ',"one ""two""\r\nthree"', ',one "two" three', ""])
    def test_csv(self, said: str) -> None:
        rows = errors_of(f"Error,04.03.2026 05:06:07,nvlddmkm,14,None{said}\r\n", windows_events.FORMAT)
        wanted = 'one "two" three' if said else ""
        assert [(row.code, row.time_local, row.message) for row in rows] == [(14, "04.03.2026 05:06:07", wanted)]


class TestHosts:
    def events_of(self, text: str, fmt: LineFormat = kernel.FORMAT) -> list[NodeEvent]:
        return [row for row in rows_of(text, fmt) if isinstance(row, NodeEvent)]

    def test_what_systemd_says_of_a_kill_is_told_once(self) -> None:
        said = (
            "Mar  3 07:17:0{} gpu021 systemd[1]: a.service: A process of this unit has been killed by the OOM killer.\n"
        )
        kill = "Mar  3 07:17:03 gpu021 kernel: Out of memory: Killed process 7 (x) total-vm:9kB, anon-rss:8kB\n"
        for text in (said.format(2) + kill, kill + said.format(4), said.format(2) + kill + said.format(4)):
            assert [row.pid for row in self.events_of(text)] == [7]
        assert [row.device for row in self.events_of(said.format(2))] == ["a.service"]
        assert [row.pid for row in self.events_of(kill + said.format(4).replace("07:17", "07:18"))] == [7, None]
        assert [row.pid for row in self.events_of(kill + said.format(4).replace("gpu021", "gpu022"))] == [7, None]

    def test_a_syndrome_is_told_with_the_rest_of_its_adapter(self) -> None:
        syndrome = "mlx5_core 0000:5f:00.0: print_health_info:424:(pid 0): synd 0x1: firmware internal error"
        health = "mlx5_core 0000:5f:00.0: poll_health:825:(pid 0): device's health compromised - reached miss count"
        for lines in ((syndrome,), (health, syndrome), (syndrome, health)):
            assert [(row.kind, row.device) for row in self.events_of(stamped(*lines))] == [
                ("nic_error", "0000:5f:00.0")
            ]

    @pytest.mark.parametrize(
        "line",
        ["BUG: unable to handle page fault for address: ffffa0c1", "BUG: kernel NULL pointer dereference, address: 10"],
    )
    def test_an_oops_alone(self, line: str) -> None:
        assert [(row.kind, row.severity) for row in self.events_of(stamped(line))] == [("panic", "nonfatal")]

    @pytest.mark.parametrize(
        ("stamp", "time"),
        [("Tue Mar  3 07:15:42.123 2026", 1772522142123000), ("2026-03-03_07:15:42.123+0900", 1772489742123000)],
    )
    @pytest.mark.parametrize(
        "said",
        ["[N] Node 10.0.0.5 (n-5) lease renewal is overdue. Pinging", "[E] Node 10.0.0.5 (n-5) is being expelled"],
    )
    def test_the_log_of_gpfs(self, stamp: str, time: int, said: str) -> None:
        (row,) = self.events_of(f"{stamp}: {said}\n", gpfs.FORMAT)
        assert (row.kind, row.device, row.time, row.trust) == ("fs_timeout", "gpfs 10.0.0.5", time, None)
        assert row.message == said
