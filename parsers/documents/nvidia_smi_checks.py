"""What one report of nvidia-smi says about a GPU: who it is, and the checks that its fields stand for.

The text and the XML of ``nvidia-smi -q`` have the same fields under different names, and the names changed with the
driver; here they meet. A check passes on the good answer, fails on one that needs an operator, warns on one that only
has to be known, and is skipped where the GPU has no such thing.

https://docs.nvidia.com/deploy/nvidia-smi/index.html, https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/index.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aftershock.parsers.clock import NO_CLOCK, SECOND, Reading, wall_micros
from aftershock.parsers.envelopes.months import month_number
from aftershock.parsers.formats import Found
from aftershock.parsers.kernel.xid import pci_of
from aftershock.schemas.events import HealthCheck
from aftershock.schemas.topology import Gpu, Host

Path = tuple[str, ...]

# More GPUs than any host has; a report that claims more is not kept.
MOST_GPUS: Final = 1024

_STAMP: Final = re.compile(r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})\Z")
_NUMBER: Final = re.compile(r"\d{1,18}")
# nvidia-smi prints these where it cannot ask the GPU any more.
_LOST: Final = re.compile(r"GPU is lost|Unknown Error|\bERR!|requires reset|Insufficient Power", re.IGNORECASE)
_ABSENT: Final = re.compile(r"\[?N/A\]?|.{0,60}(?:deprecated|not supported).*|", re.IGNORECASE)

# Identity: field to the paths that it has been printed under.
_IDENTITY: Final[dict[Path, str]] = {
    ("product_name",): "model",
    ("gpu_uuid",): "uuid",
    ("uuid",): "uuid",
    ("serial_number",): "serial",
    ("serial",): "serial",
    ("pci", "bus_id"): "pci",
    ("pci", "pci_bus_id"): "pci",
}


class _Answer(NamedTuple):
    """A check that is a question: its name, the answers that pass, and what any other answer means."""

    check: str
    good: frozenset[str]
    otherwise: str


def _ask(check: str, *good: str, otherwise: str = "fail") -> _Answer:
    return _Answer(check, frozenset(good), otherwise)


_RECOVERY = _ask("gpu_recovery_action", "none")
_RESET = _ask("reset_required", "no")
_DRAIN = _ask("drain_and_reset_recommended", "no", otherwise="warn")
_PENDING = _ask("remapped_rows_pending", "no")
_FAILURE = _ask("remapped_rows_failure", "no")
_BLACKLIST = _ask("pending_page_blacklist", "no")
_RETIRED = _ask("retired_pages_pending", "no")
_HOT = _ask("hw_thermal_slowdown", "not active", otherwise="warn")
_BRAKE = _ask("hw_power_brake_slowdown", "not active", otherwise="warn")

_ANSWERS: Final[dict[Path, _Answer]] = {
    ("gpu_recovery_action",): _RECOVERY,
    ("gpu_reset_status", "reset_required"): _RESET,
    ("gpu_reset_status", "drain_and_reset_recommended"): _DRAIN,
    ("remapped_rows", "pending"): _PENDING,
    ("remapped_rows", "remapped_row_pending"): _PENDING,
    ("remapped_rows", "remapping_failure_occurred"): _FAILURE,
    ("remapped_rows", "remapped_row_failure"): _FAILURE,
    ("retired_pages", "pending_page_blacklist"): _BLACKLIST,
    ("retired_pages", "pending_blacklist"): _BLACKLIST,
    ("retired_pages", "pending"): _RETIRED,
    ("retired_pages", "pending_retirement"): _RETIRED,
    ("ecc_errors", "aggregate", "sram_threshold_exceeded"): _ask("sram_threshold_exceeded", "no"),
    ("ecc_errors", "channel_repair_pending"): _ask("channel_repair_pending", "no"),
    ("ecc_errors", "tpc_repair_pending"): _ask("tpc_repair_pending", "no"),
    ("ecc_errors", "unrepairable_memory"): _ask("unrepairable_memory", "no"),
    ("clocks_event_reasons", "hw_slowdown", "hw_thermal_slowdown"): _HOT,
    ("clocks_throttle_reasons", "hw_slowdown", "hw_thermal_slowdown"): _HOT,
    ("clocks_event_reasons", "clocks_event_reason_hw_thermal_slowdown"): _HOT,
    ("clocks_throttle_reasons", "clocks_throttle_reason_hw_thermal_slowdown"): _HOT,
    ("clocks_event_reasons", "hw_slowdown", "hw_power_brake_slowdown"): _BRAKE,
    ("clocks_throttle_reasons", "hw_slowdown", "hw_power_brake_slowdown"): _BRAKE,
    ("clocks_event_reasons", "clocks_event_reason_hw_power_brake_slowdown"): _BRAKE,
    ("clocks_throttle_reasons", "clocks_throttle_reason_hw_power_brake_slowdown"): _BRAKE,
    ("fabric", "state"): _ask("fabric_state", "completed", otherwise="warn"),
    ("fabric", "status"): _ask("fabric_status", "success"),
}

# Checks that count: every counter under these paths adds to the check; any at all means the second word.
_UNCORRECTABLE: Final = (
    *("sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_sec_ded", "sram_uncorrectable_secded"),
    *("dram_uncorrectable", "double_bit/total"),
)
_CORRECTABLE: Final = ("sram_correctable", "dram_correctable", "single_bit/total")
_COUNTS: Final[dict[Path, tuple[str, str]]] = {
    **{
        ("ecc_errors", span, *name.split("/")): (f"ecc_{kind}_{span}", bad)
        for span, kind, names, bad in (
            # Since the driver was loaded: these hit whoever runs now.
            ("volatile", "uncorrectable", _UNCORRECTABLE, "fail"),
            # Errors that were corrected did no harm: their number is the evidence.
            ("volatile", "correctable", _CORRECTABLE, "pass"),
            # Of the GPU's whole life: history, to be known.
            ("aggregate", "uncorrectable", _UNCORRECTABLE, "warn"),
            ("aggregate", "correctable", _CORRECTABLE, "pass"),
        )
        for name in names
    },
    ("remapped_rows", "correctable_error"): ("remapped_rows_correctable", "pass"),
    ("remapped_rows", "remapped_row_corr"): ("remapped_rows_correctable", "pass"),
    ("remapped_rows", "uncorrectable_error"): ("remapped_rows_uncorrectable", "warn"),
    ("remapped_rows", "remapped_row_unc"): ("remapped_rows_uncorrectable", "warn"),
}
# Sections that are one word where the GPU has no such thing, and the checks that are skipped then.
_SECTIONS: Final[dict[Path, tuple[_Answer, ...]]] = {("remapped_rows",): (_PENDING, _FAILURE)}

WANTED: Final = frozenset({*_IDENTITY, *_ANSWERS, *_COUNTS, *_SECTIONS})
"""Paths of the fields that matter."""


@dataclass
class GpuReport:
    """One GPU of a report. ``slot``: the address in its heading; ``fields``: path to (value, offset)."""

    offset: int
    slot: str
    fields: dict[Path, tuple[str, int]] = field(default_factory=dict)

    def put(self, path: Path, value: str, offset: int) -> None:
        """Keep a field if it matters; the first of its name counts."""
        if path in WANTED:
            self.fields.setdefault(path, (value.strip(), offset))


@dataclass
class Report:
    """One run of ``nvidia-smi -q``. ``attached``: how many GPUs it says the host has."""

    offset: int
    reading: Reading = NO_CLOCK
    driver: tuple[str, int] | None = None
    attached: int | None = None
    gpus: list[GpuReport] = field(default_factory=list)
    lost: list[tuple[str, int]] = field(default_factory=list)

    def rows(self) -> Iterator[Found]:
        """The host, its GPUs and their checks."""
        if self.driver is not None and not _ABSENT.fullmatch(self.driver[0]):
            yield Found(Host(driver=self.driver[0]), self.reading, self.driver[1])
        # With -i only some GPUs are shown, and which ones the report does not say.
        all_shown = self.attached == len(self.gpus)
        for index, gpu in enumerate(self.gpus):
            yield from _gpu_rows(gpu, index if all_shown else None, self.reading)
        for slot, offset in self.lost:
            yield lost_gpu(slot, self.reading, offset)


def smi_clock(printed: str) -> Reading:
    """The clock of a report, ``Tue Nov 12 09:48:31 2024``: the wall clock of the host, without a zone."""
    found = _STAMP.match(printed)
    month = month_number(found[1].encode("ascii")) if found else None
    if found is None or month is None:
        return NO_CLOCK
    wall = wall_micros(int(found[6]), month, *(int(found[i]) for i in (2, 3, 4, 5)))
    return Reading(text=printed) if wall is None else Reading("local", wall, None, None, SECOND, printed)


def lost_gpu(slot: str, reading: Reading, offset: int) -> Found:
    """The check that fails where nvidia-smi cannot reach a GPU."""
    row = HealthCheck(
        checker="nvidia_smi",
        check="gpu_lost",
        result="fail",
        pci=pci_of(slot.encode("utf-8", "replace")),
        detail="unable to determine the device handle",
        message=f"Unable to determine the device handle for GPU {slot}",
    )
    return Found(row, reading, offset)


def _gpu_rows(gpu: GpuReport, index: int | None, reading: Reading) -> Iterator[Found]:
    known = {name: value for path, name in _IDENTITY.items() if (value := _said(gpu, path)) is not None}
    pci = pci_of((known.get("pci") or gpu.slot).encode("utf-8", "replace")) or pci_of(
        gpu.slot.encode("utf-8", "replace")
    )
    uuid = known.get("uuid")
    identity = Gpu(
        gpu_index=index,
        pci=pci,
        gpu_uuid=uuid,
        gpu_serial=known.get("serial"),
        model=known.get("model"),
        how_known="nvidia-smi",
    )
    yield Found(identity, reading, gpu.offset)
    for row, offset in _checks(gpu):
        row.gpu_uuid, row.pci = uuid, pci
        row.device = None if index is None else f"GPU {index}"
        yield Found(row, reading, offset)


def _said(gpu: GpuReport, path: Path) -> str | None:
    value = gpu.fields.get(path, ("", 0))[0]
    return None if _ABSENT.fullmatch(value) or _LOST.search(value) else value


def _checks(gpu: GpuReport) -> Iterator[tuple[HealthCheck, int]]:
    counters: dict[str, list[tuple[str, int]]] = {}
    bad_word: dict[str, str] = {}
    done: set[str] = set()
    for path, (value, offset) in gpu.fields.items():
        asked = (_ANSWERS[path],) if path in _ANSWERS else _SECTIONS.get(path, ())
        for answer in asked:
            if answer.check not in done:
                done.add(answer.check)
                yield _check(answer.check, _result(value, answer), value), offset
        if path in _COUNTS:
            name, bad = _COUNTS[path]
            bad_word[name] = bad
            counters.setdefault(name, []).append((value, offset))
    for name, values in counters.items():
        yield _counted(name, bad_word[name], values), values[0][1]


def _result(value: str, answer: _Answer) -> str:
    if _ABSENT.fullmatch(value):
        return "skip"
    if _LOST.search(value):
        return "fail"
    return "pass" if value.lower() in answer.good else answer.otherwise


def _counted(name: str, bad: str, values: list[tuple[str, int]]) -> HealthCheck:
    numbers = [int(value) for value, _ in values if _NUMBER.fullmatch(value)]
    if numbers:
        total = sum(numbers)
        row = _check(name, bad if total else "pass", str(total))
        row.value, row.unit = float(total), "rows" if name.startswith("remapped") else "errors"
        return row
    lost = next((value for value, _ in values if _LOST.search(value)), None)
    return _check(name, "skip" if lost is None else "fail", lost or values[0][0])


def _check(name: str, result: str, value: str) -> HealthCheck:
    return HealthCheck(checker="nvidia_smi", check=name, result=result, detail=value, message=f"{name}: {value}")
