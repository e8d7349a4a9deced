"""Which GPUs a host has: nvidia-smi, lspci and the labels of DCGM."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.detect import detect
from aftershock.parsers.documents import dcgm_labels, lspci, nvidia_smi_l, nvidia_smi_q
from aftershock.parsers.documents.nvidia_smi_checks import MOST_GPUS, smi_clock
from aftershock.parsers.formats import Found, Head, Refused
from aftershock.schemas.events import HealthCheck
from aftershock.schemas.topology import Gpu, Host

UUID = "GPU-0a0a0a0a-1111-2222-3333-4444444444{:02d}"


def items(module: Any, text: str | bytes) -> list[Found | Refused]:
    return list(module.read(io.BytesIO(text.encode() if isinstance(text, str) else text)))


def rows(module: Any, text: str | bytes, kind: type) -> list[Any]:
    return [item.row for item in items(module, text) if isinstance(item, Found) and isinstance(item.row, kind)]


def report(*gpus: str, attached: int | None = None, stamp: str = "Mon Mar  2 07:08:09 2026") -> str:
    number = len(gpus) if attached is None else attached
    head = f"Timestamp      : {stamp}\nDriver Version : 570.86.15\n\nAttached GPUs  : {number}\n"
    return "\n==============NVSMI LOG==============\n\n" + head + "".join(gpus)


def block(n: int, body: str = "") -> str:
    return (
        f"GPU 00000000:{0x10 + n:02X}:00.0\n    Product Name : NVIDIA H100\n    GPU UUID     : {UUID.format(n)}\n{body}"
    )


def checks(text: str) -> dict[str, str | None]:
    return {check.check: check.result for check in rows(nvidia_smi_q, text, HealthCheck)}


def test_the_index_is_the_place_in_the_report_not_the_minor_number() -> None:
    text = report(block(0, "    Minor Number : 7\n"), block(1, "    Minor Number : 3\n"))
    assert [(g.gpu_index, g.pci, g.gpu_uuid) for g in rows(nvidia_smi_q, text, Gpu)] == [
        (0, "0000:10:00.0", UUID.format(0)),
        (1, "0000:11:00.0", UUID.format(1)),
    ]


def test_a_report_of_some_gpus_knows_no_index() -> None:
    assert [g.gpu_index for g in rows(nvidia_smi_q, report(block(3), attached=8), Gpu)] == [None]


def test_reports_one_after_the_other_have_their_own_clocks() -> None:
    text = report(block(0)) + report(block(0), stamp="Mon Mar  2 07:09:09 2026")
    found = [item for item in items(nvidia_smi_q, text) if isinstance(item, Found) and isinstance(item.row, Gpu)]
    assert [item.reading.text for item in found] == ["Mon Mar  2 07:08:09 2026", "Mon Mar  2 07:09:09 2026"]
    assert found[0].reading.kind == "local"


@pytest.mark.parametrize(
    ("body", "check", "result"),
    [
        ("    GPU Recovery Action : None\n", "gpu_recovery_action", "pass"),
        ("    GPU Recovery Action : Drain and Reset\n", "gpu_recovery_action", "fail"),
        ("    GPU Recovery Action : N/A\n", "gpu_recovery_action", "skip"),
        ("    GPU Recovery Action : [GPU is lost]\n", "gpu_recovery_action", "fail"),
        ("    GPU Reset Status\n        Reset Required : Yes\n", "reset_required", "fail"),
        ("    GPU Reset Status\n        Drain and Reset Recommended : Yes\n", "drain_and_reset_recommended", "warn"),
        ("    Remapped Rows : N/A\n", "remapped_rows_failure", "skip"),
        ("    Remapped Rows\n        Remapping Failure Occurred : Yes\n", "remapped_rows_failure", "fail"),
        ("    Remapped Rows\n        Uncorrectable Error : 2\n", "remapped_rows_uncorrectable", "warn"),
        ("    Retired Pages\n        Pending Page Blacklist : Yes\n", "pending_page_blacklist", "fail"),
        ("    Retired Pages\n        Pending : Yes\n", "retired_pages_pending", "fail"),
        ("    ECC Errors\n        Unrepairable Memory : Yes\n", "unrepairable_memory", "fail"),
        (
            "    ECC Errors\n        Aggregate\n            SRAM Threshold Exceeded : Yes\n",
            "sram_threshold_exceeded",
            "fail",
        ),
        (
            "    ECC Errors\n        Aggregate\n            DRAM Uncorrectable : 1\n",
            "ecc_uncorrectable_aggregate",
            "warn",
        ),
        ("    ECC Errors\n        Volatile\n            DRAM Correctable : 177\n", "ecc_correctable_volatile", "pass"),
        # Drivers before 450 count single and double bits.
        (
            "    ECC Errors\n        Volatile\n            Double Bit\n                Device Memory : 1\n"
            "                Total : 1\n",
            "ecc_uncorrectable_volatile",
            "fail",
        ),
        (
            "    Clocks Event Reasons\n        HW Slowdown : Active\n            HW Thermal Slowdown : Active\n",
            "hw_thermal_slowdown",
            "warn",
        ),
        ("    Fabric\n        State : Completed\n        Status : Success\n", "fabric_status", "pass"),
    ],
)
def test_checks(body: str, check: str, result: str) -> None:
    assert checks(report(block(0, body)))[check] == result


def test_counters_add_up_and_carry_their_number() -> None:
    body = "    ECC Errors\n        Volatile\n            SRAM Uncorrectable Parity : 1\n            DRAM Uncorrectable : N/A\n"
    (check,) = rows(nvidia_smi_q, report(block(0, body)), HealthCheck)
    assert (check.value, check.unit, check.gpu_uuid, check.pci) == (1.0, "errors", UUID.format(0), "0000:10:00.0")


def test_fields_of_mig_devices_and_processes_are_not_those_of_the_gpu() -> None:
    body = (
        "    MIG Device\n        Index : 0\n        ECC Errors\n            Volatile\n                SRAM Uncorrectable : 9\n"
        "    Processes\n        Process ID : 4242\n            Name : Pending : Yes\n"
    )
    assert checks(report(block(0, body))) == {}


def test_a_gpu_that_cannot_be_reached() -> None:
    text = (
        report(block(0))
        + "Unable to determine the device handle for GPU 0000:8A:00.0: GPU is lost.  Reboot the system\n"
    )
    (check,) = rows(nvidia_smi_q, text, HealthCheck)
    assert (check.check, check.result, check.pci) == ("gpu_lost", "fail", "0000:8a:00.0")


def xml(body: str, gpus: int = 1) -> str:
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
        "<timestamp>Mon Mar  2 07:08:09 2026</timestamp><driver_version>570.86.15</driver_version>"
        f"<attached_gpus>{gpus}</attached_gpus>" + body + "</nvidia_smi_log>\n"
    )


def xml_gpu(n: int, body: str = "") -> str:
    return f'<gpu id="00000000:{0x10 + n:02X}:00.0"><product_name>NVIDIA H100</product_name><uuid>{UUID.format(n)}</uuid>{body}</gpu>'


def test_text_and_xml_say_the_same() -> None:
    text = report(
        block(
            0,
            "    Serial Number : 1650000000101\n    GPU Recovery Action : Reset\n    ECC Errors\n        Volatile\n"
            "            SRAM Uncorrectable SEC-DED : 2\n    Retired Pages\n        Pending Page Blacklist : No\n"
            "    Remapped Rows\n        Pending : Yes\n        Remapping Failure Occurred : No\n",
        )
    )
    same = xml(
        xml_gpu(
            0,
            "<serial>1650000000101</serial><gpu_recovery_action>Reset</gpu_recovery_action><ecc_errors><volatile>"
            "<sram_uncorrectable_secded>2</sram_uncorrectable_secded></volatile></ecc_errors><retired_pages>"
            "<pending_blacklist>No</pending_blacklist></retired_pages><remapped_rows><remapped_row_pending>Yes"
            "</remapped_row_pending><remapped_row_failure>No</remapped_row_failure></remapped_rows>",
        )
    )
    assert [item.row for item in items(nvidia_smi_q, text)] == [item.row for item in items(nvidia_smi_q, same)]
    assert len(items(nvidia_smi_q, text)) == 7


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY a "b">]><nvidia_smi_log/>', "document type"),
        ('<?xml version="1.0"?><!DOCTYPE html SYSTEM "x.dtd"><html/>', "document type"),
        (
            '<?xml version="1.0"?><nvidia_smi_log><driver_version>&lol9;</driver_version></nvidia_smi_log>',
            "not well-formed",
        ),
        ("<nvidia_smi_log>" + "<a>" * 100, "too deeply"),
        ("<nvidia_smi_log><gpu id='x'>", "ends early"),
        ('<?xml version="1.0" encoding="klingon"?><nvidia_smi_log/>', "not well-formed"),
        ("<nvidia_smi_log>" + "<gpu/>" * (MOST_GPUS + 1), "more than"),
    ],
)
def test_xml_that_is_not_nvidias_is_refused(text: str, reason: str) -> None:
    refused = [item for item in items(nvidia_smi_q, text) if isinstance(item, Refused)]
    assert len(refused) == 1
    assert reason in refused[0].reason


class Trickle(io.BytesIO):
    """A stream that gives a few bytes at a time."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size, 7) if size and size > 0 else 7)


def test_documents_and_lines_may_be_cut_anywhere() -> None:
    for text in (xml(xml_gpu(0)) + "\n" + xml(xml_gpu(1)), report(block(0)) + report(block(1))):
        whole = [(item.row, item.offset) for item in items(nvidia_smi_q, text)]
        pieces = [(item.row, item.offset) for item in nvidia_smi_q.read(Trickle(text.encode()))]
        assert pieces == whole
        assert len(whole) == 4


def test_crlf_and_a_byte_order_mark() -> None:
    text = "\ufeff" + report(block(0, "    GPU Recovery Action : None\n")).replace("\n", "\r\n")
    assert detect(Head("x", text.encode())).format == "nvidia_smi_q"
    assert checks(text) == {"gpu_recovery_action": "pass"}


@pytest.mark.parametrize("printed", ["Mon Mar  2 07:08:09 2026", "Mon Mar 2 07:08:09 2026"])
def test_the_clock(printed: str) -> None:
    assert smi_clock(printed).wall == 1772435289000000


@pytest.mark.parametrize("printed", ["", "N/A", "Mon Feb 30 07:08:09 2026", "2026-03-02"])
def test_what_is_no_clock(printed: str) -> None:
    assert smi_clock(printed).kind == "none"


LIST = "".join(f"GPU {n}: NVIDIA H100 80GB HBM3 (UUID: {UUID.format(n)})\n" for n in range(2))


def test_the_list() -> None:
    assert [(g.gpu_index, g.gpu_uuid, g.pci) for g in rows(nvidia_smi_l, LIST, Gpu)] == [
        (0, UUID.format(0), None),
        (1, UUID.format(1), None),
    ]


def test_the_list_in_a_log_stays_a_log() -> None:
    assert detect(Head("x", LIST.encode())).format == "nvidia_smi_l"
    assert detect(Head("x", ("+ nvidia-smi -L\n" + LIST + "[rank0] step 10 loss 2.3\n").encode())).how == "lines"
    kernel = "[  1.0] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
    assert detect(Head("x", (kernel + report(block(0))).encode())).how == "lines"


def test_slots() -> None:
    text = (
        "0000:3b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n"
        "0000:3c:00.0 VGA compatible controller: NVIDIA Corporation Device 2b85 (rev a1) (prog-if 00 [VGA controller])\n"
        "0000:3d:00.0 Display controller: Advanced Micro Devices, Inc. [AMD/ATI] Arcturus GL-XL [Instinct MI100]\n"
        "0000:3e:00.0 Ethernet controller: Mellanox Technologies MT2892 Family [ConnectX-6 Dx]\n"
        "0000:3f:00.0 Bridge: NVIDIA Corporation GH100 [H100 NVSwitch] (rev a1)\n"
    )
    assert [(g.pci, g.model) for g in rows(lspci, text, Gpu)] == [
        ("0000:3b:00.0", "H100 SXM5 80GB"),
        ("0000:3c:00.0", None),
        ("0000:3d:00.0", "Instinct MI100"),
    ]


def test_labels_are_told_once_and_the_device_is_no_index() -> None:
    labels = f'gpu="2",UUID="{UUID.format(1)}",pci_bus_id="00000000:5D:00.0",device="nvidia7",Hostname="dgx07"'
    text = "".join(f"DCGM_FI_DEV_{name}{{{labels}}} 1 1772435289000\n" for name in ("GPU_TEMP", "POWER_USAGE"))
    found = items(dcgm_labels, text)
    assert len(found) == 1
    assert isinstance(found[0], Found)
    assert isinstance(found[0].row, Gpu)
    assert (found[0].row.gpu_index, found[0].row.host, found[0].reading.wall) == (2, "dgx07", 1772435289000000)
    assert (
        rows(dcgm_labels, text.replace("Hostname", 'DCGM_FI_DRIVER_VERSION="570.1",Hostname'), Host)[0].driver
        == "570.1"
    )


@settings(max_examples=150, deadline=None)
@given(
    data=st.binary(max_size=300),
    start=st.sampled_from([b"", b"<?xml", b"<nvidia_smi_log><gpu id='", report(block(0)).encode()]),
)
def test_arbitrary_bytes_never_raise(data: bytes, start: bytes) -> None:
    for module in (nvidia_smi_q, nvidia_smi_l, lspci, dcgm_labels):
        items(module, start + data)


def test_a_line_without_end_costs_no_memory() -> None:
    class Endless(io.BytesIO):
        left = 64 << 20
        most = 0

        def read(self, size: int | None = -1) -> bytes:
            taken = min(self.left, size or 0)
            self.left -= taken
            return b"x" * taken

    assert all(isinstance(item, Refused) for item in nvidia_smi_l.read(Endless()))
