"""Mnemonic, class and action of errors: evidence on the line before the catalogue, and nothing where neither knows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.kernel.catalog import decode_nvlink5, describe, driver_of
from aftershock.parsers.registry import formats
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.schemas.events import GpuError

KERNEL = next(fmt for fmt in formats() if fmt.name == "kernel")


def described(family: str, code: int | None, message: str = "", form: str = "kernel", **more: Any) -> GpuError:
    row = GpuError(family=family, code=code, message=message, **more)
    describe(row, form)
    return row


def facts(row: GpuError) -> tuple[str | None, str | None, str | None]:
    return row.mnemonic, row.fault_class, row.action


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (described("xid", 119), ("GSP_RPC_TIMEOUT", "driver", "RESET_GPU")),
        (described("sxid", 20034), ("LTSSM Fault Up", "fabric", None)),
        (described("fabric_manager", 12028), ("egress nonposted PRIV error", "fabric", None)),
        (described("xid", 9999), (None, None, None)),
        (described("sxid", 79), (None, None, None)),
        (described("amdgpu", None), (None, None, None)),
        (described("xid", 14, form="windows_events"), (None, None, None)),
    ],
)
def test_the_catalogue_speaks_for_codes_that_it_knows(row: GpuError, expected: tuple[str | None, ...]) -> None:
    assert facts(row) == expected


def test_windows_numbers_only_graphics_exceptions_like_xids() -> None:
    assert described("xid", 13, form="windows_events").mnemonic == "ROBUST_CHANNEL_GR_EXCEPTION"
    assert described("xid", 153, form="windows_events").mnemonic is None


@pytest.mark.parametrize(
    ("code", "message", "action"),
    [
        (94, "Contained: SM (0x1). RST: No, D-RST: No", "RESTART_APP"),
        (94, "Contained: SM (0x1). RST: Yes, D-RST: No", "RESET_GPU"),
        (95, "Uncontained: LTC TAG (0x2,0x0). RST: No, D-RST: Yes", "DRAIN_AND_RESET"),
        (95, "Uncontained: LTC TAG (0x2,0x0). RST: No, D-RST: No", "RESTART_APP"),
        (95, "Uncontained: FBHUB", "RESET_GPU"),
        (48, "RST: Yes, D-RST: Yes", "WORKFLOW_XID_48"),
        (154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "RESET_GPU"),
        (154, "GPU recovery action changed from 0x4 (Drain and Reset) to 0x0 (None)", "IGNORE"),
        (154, "GPU recovery action changed from 0x0 to 0x2", "RESTART_BM"),
        (154, "GPU recovery action changed from 0x0 (None) to 0x77 (Something New)", "XID_154"),
        (154, "recovery", "XID_154"),
    ],
)
def test_evidence_on_the_line_goes_before_the_table(code: int, message: str, action: str) -> None:
    assert described("xid", code, message).action == action


@pytest.mark.parametrize(
    ("words", "action"),
    [
        ("Drain P2P", "DRAIN_P2P"),
        ("Drain and Reset", "DRAIN_AND_RESET"),
        ("Node Reboot Required", "RESTART_BM"),
        ("Recover IMEX Domain", "RECOVER_IMEX_DOMAIN"),
        ("None", "IGNORE"),
    ],
)
def test_recovery_in_words_where_an_agent_left_the_number_out(words: str, action: str) -> None:
    assert described("xid", 154, "changed", recovery_to=words).action == action


def test_what_a_row_has_already_stays() -> None:
    row = described("xid", 79, action="CORDON", fault_class="unknown", mnemonic="GONE")
    assert facts(row) == ("GONE", "unknown", "CORDON")


@pytest.mark.parametrize(
    ("line", "major"),
    [
        ("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.161.07  Sat Feb 17 22:55:48 UTC 2024", 535),
        ("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder@U22)", 580),
        ("NVRM: loading NVIDIA UNIX aarch64 Kernel Module  575.51", 575),
        ("NVRM: loading NVIDIA UNIX x86_64 Kernel Module", None),
        (None, None),
    ],
)
def test_driver_version(line: str | None, major: int | None) -> None:
    assert driver_of(line) == major


LOAD = "[{at}] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {version}.10.01  Wed Jan  1 00:00:00 UTC 2025\n"
BOOT = "[    0.000000] Linux version 6.8.0 (a@b) #1 SMP\n"
OLD = "[{at}] NVRM: Xid (PCI:0009:01:00): 145, RLW_REMAP  Nonfatal XC0 i0 Link 01 (0x00000082 0x00000100 0x0 0x0 0x0 0x0)\n"
NEW = OLD.replace("0x00000082", "0x00000004")
TABLE, DECODED = "WORKFLOW_NVLINK5_ERR", "IGNORE"


def actions(*lines: str) -> list[str | None]:
    return [row.action for row in rows_of_text("".join(lines), KERNEL) if isinstance(row, GpuError)]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((LOAD.format(at=" 5.0", version=570), OLD.format(at=" 6.0"), NEW.format(at=" 7.0")), [DECODED, TABLE]),
        ((LOAD.format(at=" 5.0", version=580), OLD.format(at=" 6.0"), NEW.format(at=" 7.0")), [TABLE, DECODED]),
        # No driver is known: the unit on the line fits the word in one layout only.
        ((OLD.format(at=" 6.0"), NEW.format(at=" 7.0")), [DECODED, DECODED]),
        # A later load, and a boot, end what was known.
        ((LOAD.format(at=" 5.0", version=570), LOAD.format(at=" 6.0", version=580), OLD.format(at=" 7.0")), [TABLE]),
        ((LOAD.format(at=" 5.0", version=580), BOOT, OLD.format(at=" 6.0")), [DECODED]),
    ],
)
def test_the_driver_of_the_boot_decides_how_links_are_read(lines: tuple[str, ...], expected: list[str]) -> None:
    assert actions(*lines) == expected


def test_severity_comes_from_the_line_alone() -> None:
    rows = rows_of_text(OLD.format(at=" 6.0"), KERNEL)
    assert [row.severity for row in rows if isinstance(row, GpuError)] == ["nonfatal"]
    assert described("xid", 79).severity is None


@given(
    code=st.one_of(st.none(), st.integers(0, 2**31 - 1)),
    family=st.sampled_from(["xid", "sxid", "fabric_manager", "amdgpu", None]),
    message=st.one_of(st.none(), st.text(max_size=200)),
    unit=st.one_of(st.none(), st.text(max_size=20)),
)
def test_no_row_is_too_odd(code: int | None, family: str | None, message: str | None, unit: str | None) -> None:
    row = GpuError(code=code, family=family, message=message, unit=unit)
    decode_nvlink5(row, None)
    describe(row)
    assert row.fault_class in {None, "hardware", "fabric", "driver", "application", "thermal", "unknown"}
