"""The catalogues are whole, quick to load and say what their sources say."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from typing import Any, get_args

import pytest

from aftershock.schemas.catalogs import FaultClass, nvlink5_rule, sxid, xid
from aftershock.schemas.catalogs.table import read_table

CLASSES = get_args(FaultClass)


def test_every_published_xid_is_there() -> None:
    entries = [xid(code) for code in range(1, 178)]
    for entry in entries:
        assert entry is not None
        assert entry.mnemonic.isupper()
        assert entry.fault_class in CLASSES
        assert entry.description
        assert set(entry.origin) <= set("CHN")
    assert sum(1 for entry in entries if entry and entry.action) == 161


@pytest.mark.parametrize(
    ("code", "fault_class", "action"),
    [
        (13, "application", "RESTART_APP"),
        (31, "application", "RESTART_APP"),
        (45, "unknown", "WORKFLOW_XID_45"),
        (48, "hardware", "WORKFLOW_XID_48"),
        (74, "fabric", "WORKFLOW_NVLINK_ERR"),
        (79, "hardware", "RESTART_BM"),
        (94, "hardware", "RESTART_APP"),
        (95, "hardware", "RESET_GPU"),
        (119, "driver", "RESET_GPU"),
        (149, "fabric", "WORKFLOW_NVLINK5_ERR"),
        (171, "hardware", None),
    ],
)
def test_codes_that_matter(code: int, fault_class: str, action: str | None) -> None:
    entry = xid(code)
    assert entry is not None
    assert (entry.fault_class, entry.action) == (fault_class, action)


@pytest.mark.parametrize("code", [0, 178, 641, 2**31 - 1])
def test_codes_that_no_source_names(code: int) -> None:
    assert xid(code) is None
    assert sxid(code) is None


@pytest.mark.parametrize("code", [30, 63, 64, 152, 153, 162, 163, 164, 165, 166, 170])
def test_both_names_are_kept_where_catalogue_and_header_differ(code: int) -> None:
    entry = xid(code)
    assert entry is not None
    assert len(entry.other_names) == 1
    assert entry.other_names[0] != entry.mnemonic
    assert entry.disagreement is not None
    assert entry.other_names[0] in entry.disagreement


def test_both_verdicts_are_kept_where_sources_differ() -> None:
    reset = xid(43)
    assert reset is not None
    assert reset.action == "IGNORE"
    assert "arxiv2605.09370=RESTART_APP" in reset.others
    assert "RESTART_APP" in (reset.disagreement or "")
    gone = xid(79)
    assert gone is not None
    assert gone.disagreement is None


def test_switch_codes() -> None:
    fault, heat = sxid(20034), sxid(10004)
    assert fault is not None
    assert heat is not None
    assert (fault.mnemonic, fault.fault_class, fault.fatal, fault.action) == (
        "LTSSM Fault Up",
        "fabric",
        "potential",
        None,
    )
    assert heat.fault_class == "thermal"
    assert len(read_table("sxid.tsv")) == 92


# Unit, first word in the layout before R575 and from R575 on, status, and what to do then.
DECODED = [
    (149, "NETIR_LINK_EVT", 0x021425C6, 0x02142591, 0, "RESET_GPU", "INVESTIGATE_PEER_DEVICE"),
    (144, "SAW_MVB", 0x00000021, 0x00000001, 2, "RESET_GPU", "CONTACT_SUPPORT"),
    (145, "RLW_REMAP", 0x00000082, 0x00000004, 0x100, "IGNORE", "IGNORE"),
    (146, "TLW_RX", 0x00000143, 0x0000000A, 4, "RESET_GPU", "CONTACT_SUPPORT"),
]


@pytest.mark.parametrize(("code", "unit", "old", "new", "status", "action", "investigate"), DECODED)
def test_the_layout_follows_the_driver(
    code: int, unit: str, old: int, new: int, status: int, action: str, investigate: str
) -> None:
    for word, driver in ((old, 570), (new, 575), (old, None), (new, None)):
        rule = nvlink5_rule(code, unit, word, status, driver)
        assert rule is not None
        assert (rule.action, rule.investigate) == (action, investigate)
    assert nvlink5_rule(code, unit, old, status, 580) is None
    assert nvlink5_rule(code, unit, new, status, 565) is None


@pytest.mark.parametrize(
    "what",
    [
        (149, "NETIR_LINK_EVT", 0x03F425C6, 0),  # a reason that is not in the table
        (149, "NETIR_LINK_EVT", 0x021425C6, 7),  # a status that is not in the table
        (149, "RLW_REMAP", 0x021425C6, 0),  # a unit of another code
        (148, "SOMETHING", 0, 0),
        (79, "SAW_MVB", 0x21, 2),
    ],
)
def test_what_the_table_does_not_have_is_not_guessed(what: Any) -> None:
    assert nvlink5_rule(*what, None) is None


def test_several_flags_count_if_all_say_the_same() -> None:
    same = nvlink5_rule(145, "RLW_REMAP", 0x82, 0x300, 570)
    assert same is not None
    assert same.action == "IGNORE"
    assert nvlink5_rule(145, "RLW_REMAP", 0x82, 0x140, 570) is None


def test_the_tables_name_source_and_date() -> None:
    for name in ("xid.tsv", "sxid.tsv", "nvlink5.tsv"):
        data = pkgutil.get_data("aftershock.schemas.catalogs", name)
        assert data is not None
        head = data.decode().split("\n# ", 12)
        assert any("https://" in line for line in head)
        assert any("2025-10-29" in line for line in head)


def test_nothing_is_read_before_it_is_asked_for() -> None:
    code = (
        "import sys, time, aftershock.schemas.events, aftershock.schemas.catalogs as c\n"
        "assert not c._xids.cache_info().currsize\n"
        "best = 9.0\n"
        "for _ in range(5):\n"
        "    c._xids.cache_clear(); begin = time.perf_counter(); c.xid(79); best = min(best, time.perf_counter() - begin)\n"
        "assert best < 0.005, best\n"
        "names = [m for m in sys.modules if m.startswith('aftershock.')]\n"
        "assert all(m.startswith('aftershock.schemas') for m in names), names\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
