"""Bursts and episodes: what belongs together on one host, and what came first."""

from __future__ import annotations

import io
import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.clock import Reading
from aftershock.parsers.detect import Detected
from aftershock.parsers.fold import fold
from aftershock.parsers.formats import Found
from aftershock.parsers.registry import line_formats
from aftershock.parsers.settle import SourceRules, settle_source
from aftershock.parsers.source import read_stream
from aftershock.pipeline.episodes import EpisodeRules, link_episodes, link_source
from aftershock.pipeline.occurrences import give_ids, merge_occurrences
from aftershock.schemas.columns import Row
from aftershock.schemas.events import EventRow, GpuError, NodeEvent

S = 1_000_000
A, B, C = "0000:3b:00.0", "0000:4c:00.0", "0000:5d:00.0"
SWITCH = "0000:8a:00.0"


def error(second: float, code: int | None, pci: str | None = A, pid: int | None = None, **fields: Any) -> GpuError:
    at = round(second * S)
    row = GpuError(
        host="gpu001", family="xid", code=code, pci=pci, pid=pid, time=at, last_time=at, message=f"Xid {code}"
    )
    row.time_basis, row.trust = "zoned", "kernel"
    for name, value in fields.items():
        setattr(row, name, value)
    return row


def linked(*rows: GpuError, **rules: int) -> list[GpuError]:
    link_episodes(rows, EpisodeRules(**rules))
    return list(rows)


def roles(*rows: GpuError) -> list[str | None]:
    return [row.role for row in linked(*rows)]


def episodes(*rows: GpuError) -> list[int]:
    """The number of the episode of each row, in the order in which they first appear."""
    ids = [row.episode_id for row in linked(*rows)]
    return [list(dict.fromkeys(ids)).index(name) for name in ids]


def test_lines_of_one_burst_differ_in_wording_and_place() -> None:
    rows = linked(
        error(1, 13, message="Graphics SM Warp Exception on (GPC 7, TPC 7, SM 0)"),
        error(1, 13, message="Graphics SM Global Exception on (GPC 7, TPC 7, SM 0)"),
        error(50, 13, message="Graphics Exception: ESR 0x57c730"),
        error(111, 13, message="Graphics SM Warp Exception on (GPC 0, TPC 1, SM 0)"),
    )
    assert len({row.burst_id for row in rows[:3]}) == 1
    assert rows[3].burst_id != rows[0].burst_id


@pytest.mark.parametrize(
    "other",
    [{"pci": B}, {"code": 31}, {"pid": 7}, {"process": "b"}, {"host": "gpu002"}, {"mig_gi": 1}, {"trust": "injected"}],
)
def test_another_gpu_code_process_or_host_is_another_burst(other: dict[str, Any]) -> None:
    first, second = linked(error(1, 13), error(1, **{"code": 13, **other}))
    assert first.burst_id != second.burst_id


def test_the_gap_is_between_neighbours_and_can_be_set() -> None:
    times = (0, 50, 100, 150)
    assert len({row.burst_id for row in linked(*(error(t, 31) for t in times))}) == 1
    assert len({row.burst_id for row in linked(*(error(t, 31) for t in times), burst_gap=40 * S)}) == 4
    folded = error(0, 31, last_time=500 * S, count=9)
    assert len({row.burst_id for row in linked(folded, error(540, 31))}) == 1


CHAINS: list[tuple[list[GpuError], list[str]]] = [
    (
        [error(0, 48), error(0.02, 63), error(0.03, 94), error(0.5, 45, pid=9), error(2, 154)],
        ["root", "follow_on", "follow_on", "follow_on", "follow_on"],
    ),
    ([error(0, 48), error(0.1, 171), error(0.2, 95), error(3, 45)], ["root", "follow_on", "follow_on", "follow_on"]),
    # The record of the repair may be printed first: the cause goes by what it is.
    ([error(0, 63), error(0.01, 48)], ["follow_on", "root"]),
    ([error(0, 79), error(1, 154), error(2, 45, pid=5)], ["root", "follow_on", "follow_on"]),
    ([error(0, 119), error(40, 79), error(41, 154)], ["follow_on", "root", "follow_on"]),
    ([error(0, 149), error(1, 145), error(1, 45), error(1.5, 154)], ["root", "follow_on", "follow_on", "follow_on"]),
    ([error(0, 120), error(5, 154)], ["root", "follow_on"]),
    ([error(0, 31, pid=7), error(0, 43, pid=7), error(0, 45, pid=7)], ["root", "follow_on", "follow_on"]),
    ([error(0, 13), error(0, 43, pid=7)], ["root", "follow_on"]),
    # Nothing came before these: what they follow is not in the log.
    ([error(0, 45)], ["unknown"]),
    ([error(0, 43)], ["unknown"]),
    ([error(0, 94)], ["unknown"]),
    ([error(0, 154)], ["unknown"]),
    ([error(0, 45, pid=3), error(0, 45, B, pid=3), error(1, 154)], ["unknown", "unknown", "unknown"]),
    ([error(0, 94, pid=3), error(1, 45, pid=3)], ["unknown", "follow_on"]),
    ([error(0, 45, caused_by=31)], ["follow_on"]),
    ([error(0, 63)], ["root"]),
    ([error(0, 14)], ["unknown"]),
    ([error(0, 9999)], ["root"]),
]


@pytest.mark.parametrize(
    ("rows", "expected"), CHAINS, ids=lambda value: "-".join(str(getattr(v, "code", v)) for v in value)
)
def test_chains_are_one_episode_with_the_cause_as_root(rows: list[GpuError], expected: list[str]) -> None:
    assert roles(*rows) == expected
    assert len({row.episode_id for row in rows}) == 1


@pytest.mark.parametrize(
    "rows",
    [
        # two programs that fail by themselves
        [error(0, 31, pid=7), error(1, 31, pid=8)],
        [error(0, 13, pid=7), error(1, 45, pid=8)],
        # two GPUs
        [error(0, 48), error(1, 48, B)],
        [error(0, 79), error(1, 63, B)],
        # too late, and too early
        [error(0, 79), error(61, 154)],
        [error(0, 45, pid=7), error(20, 79)],
        # another process than the one that the fault names
        [error(0, 119, pid=7, process="nccl"), error(1, 45, B, pid=9, process="python3")],
        # a switch that only notes an error takes nothing down
        [error(0, 20001, SWITCH, family="sxid", severity="nonfatal"), error(1, 45)],
        # what a user wrote to the kernel log explains nothing
        [error(0, 79, trust="user"), error(1, 45)],
        [error(0, 79, time_basis="assumed_zone"), error(1, 45)],
    ],
)
def test_what_does_not_belong_together(rows: list[GpuError]) -> None:
    assert episodes(*rows) == [0, 1]


def test_links_are_shared_by_the_host() -> None:
    rows = [
        error(0, 20034, SWITCH, family="sxid", severity="fatal", link=7),
        error(0, 20034, SWITCH, family="fabric_manager", severity="fatal", link=7),
        error(1, 74, A),
        error(1, 74, B),
        error(2, 45, C, pid=1),
        error(3, 154, C),
    ]
    assert episodes(*rows) == [0] * 6
    assert sorted(roles(*rows)) == ["follow_on"] * 5 + ["root"]


def test_a_lost_gpu_takes_down_the_job_on_the_other_gpus() -> None:
    rows = [error(0, 79), *(error(1 + n, 45, pci, pid=100 + n, process="python3") for n, pci in enumerate((B, C)))]
    assert episodes(*rows) == [0, 0, 0]
    assert roles(*rows) == ["root", "follow_on", "follow_on"]


def test_teardown_of_one_process_goes_together() -> None:
    fault = error(0, 31, pid=7, process="python3")
    rows = [fault, error(1, 45, pid=7, process="python3"), error(2, 45, B, pid=8, process="python3")]
    assert episodes(*rows) == [0, 0, 0]
    assert roles(*rows) == ["root", "follow_on", "follow_on"]


def test_a_printed_cause_goes_before_nearness() -> None:
    rows = [error(0, 31, pid=7), error(100, 79), error(101, 45, pid=7, caused_by=31)]
    assert episodes(*rows) == [0, 1, 0]
    assert roles(*rows) == ["root", "root", "follow_on"]


def test_two_faults_are_not_tied_together_by_what_follows_both() -> None:
    rows = [error(0, 79), error(1, 48, B), error(2, 45, A), error(2, 45, B), error(3, 154, C)]
    assert episodes(*rows)[:4] == [0, 1, 0, 1]


def test_an_error_that_is_only_noted_does_not_tie_the_day_together() -> None:
    noted = error(0, 92, last_time=80_000 * S, count=4000)
    rows = [noted, error(1000, 48), error(50_000, 79)]
    assert episodes(*rows) == [0, 1, 2]


def test_an_agent_names_by_uuid_the_gpu_that_the_kernel_names_by_address() -> None:
    kernel = error(0, 48, gpu_uuid="GPU-1")
    assert episodes(kernel, error(1, 63, None, gpu_uuid="GPU-1", trust="relayed")) == [0, 0]


def test_without_a_time_there_is_neither_burst_nor_episode() -> None:
    row = error(0, 79, time=None, last_time=None, burst_id="old", episode_id="old", role="root")
    linked(row)
    assert (row.burst_id, row.episode_id, row.role) == (None, None, "unknown")


ROWS = st.builds(
    lambda second, code, pci, pid, name, cause: error(second, code, pci, pid, process=name, caused_by=cause),
    st.integers(0, 400),
    st.sampled_from([13, 31, 43, 45, 48, 63, 74, 79, 94, 95, 119, 149, 154, 9999]),
    st.sampled_from([A, B, C, None]),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, "python3", "nccl"]),
    st.sampled_from([None, None, None, 31, 79]),
)


@settings(max_examples=300)
@given(rows=st.lists(ROWS, max_size=25), order=st.randoms(use_true_random=False))
def test_order_does_not_matter(rows: list[GpuError], order: random.Random) -> None:
    def said() -> list[tuple[str | None, ...]]:
        return [(row.burst_id, row.episode_id, row.role) for row in rows]

    link_episodes(rows)
    first = said()
    shuffled = list(rows)
    order.shuffle(shuffled)
    link_episodes(shuffled)
    assert said() == first
    for row in rows:
        together = [other for other in rows if other.episode_id == row.episode_id]
        assert len({other.burst_id for other in together if other.role == "root"}) <= 1
        assert {other.episode_id for other in rows if other.burst_id == row.burst_id} == {row.episode_id}


def parsed(text: str) -> list[GpuError]:
    """The errors of a text as ``parse`` gives them: with the clocks that it prints alone."""
    kernel = next(fmt for fmt in line_formats() if fmt.name == "kernel")
    blocks = list(read_stream(io.BytesIO(text.encode()), Detected("lines", "kernel", formats=(kernel,))))
    found = [item for block in blocks for item in block.found]
    settled = settle_source(found, [], SourceRules(source="dmesg"), {"kernel": kernel}.get)
    link_source(settled.rows, settled.clocks)
    return [row for row in settled.rows if isinstance(row, GpuError)]


def test_boot_clocks_are_enough() -> None:
    rows = parsed(
        "[430954.509105] NVRM: Xid (PCI:0000:52:00): 48, pid='<unknown>', name=<unknown>, DBE\n"
        "[430954.532443] NVRM: Xid (PCI:0000:52:00): 63, pid='<unknown>', name=<unknown>, Row Remapper\n"
        "[430954.533994] NVRM: Xid (PCI:0000:52:00): 94, pid='<unknown>', name=<unknown>, Contained: SM (0x1).\n"
        "[431954.533994] NVRM: Xid (PCI:0000:52:00): 48, pid='<unknown>', name=<unknown>, DBE\n"
    )
    assert [row.time for row in rows] == [None] * 4
    assert [row.role for row in rows] == ["root", "follow_on", "follow_on", "root"]
    assert len({row.episode_id for row in rows}) == 2


def test_local_clocks_without_a_zone_are_enough() -> None:
    rows = parsed(
        "[Fri Aug 30 11:43:09 2024] NVRM: Xid (PCI:0000:cb:00): 13, pid='<unknown>', name=<unknown>, Warp Exception\n"
        "[Fri Aug 30 11:43:10 2024] NVRM: Xid (PCI:0000:cb:00): 13, pid='<unknown>', name=<unknown>, ESR 0x57c730\n"
    )
    assert [row.time for row in rows] == [None] * 2
    assert len({row.burst_id for row in rows}) == 1


@pytest.mark.parametrize("boot", ["[    0.000000] Linux version 6.8.0 (a@b) #1 SMP\n", ""])
def test_the_next_boot_counts_from_zero_again(boot: str) -> None:
    xid = "[  {at}.000001] NVRM: Xid (PCI:0000:52:00): 79, pid=1, name=a, GPU has fallen off the bus.\n"
    rows = parsed(xid.format(at=100) + boot + xid.format(at=90))
    assert len({row.episode_id for row in rows}) == 2


def test_lines_without_any_clock_stay_alone() -> None:
    rows = parsed("NVRM: Xid (PCI:0000:52:00): 79, pid=1, name=a, GPU has fallen off the bus.\n" * 2)
    assert [(row.burst_id, row.episode_id, row.role) for row in rows] == [(None, None, "unknown")] * 2


def test_a_flood_of_lines_stays_a_handful_of_rows() -> None:
    """800,000 printed lines with 29 distinct messages, one every 10 ms: 29 rows, one burst, every line counted."""

    def flood(begin: int) -> list[Found]:
        found = []
        for n in range(begin, begin + 20_000):
            row = error(0, 95, message=f"Uncontained: LTC TAG (0x{n % 29:x},0x0)", host=None, time=None, last_time=None)
            found.append(Found(row, Reading("zoned", n * 10_000), n * 80, format="kernel"))
        return fold(found, 60 * S)

    folded: list[Found] = []
    block = flood(0)
    for number in range(40):
        # Blocks are alike but for their place: moving one costs less than making it.
        for item in block:
            assert item.last is not None
            shift = number * 20_300 * 10_000
            reading = item.reading._replace(wall=(item.reading.wall or 0) + shift)
            last = item.last._replace(wall=(item.last.wall or 0) + shift)
            row = error(0, 95, message=item.row.message, host=None, time=None, last_time=None, count=item.row.count)  # type: ignore[attr-defined]
            folded.append(Found(row, reading, item.offset + number * 1_624_000, last=last, format="kernel"))
    rules = SourceRules(source="kmsg", host="gpu001", burst_gap=60 * S)
    settled: list[Row] = settle_source(folded, [], rules, lambda name: None).rows
    merged = merge_occurrences([row for row in settled if isinstance(row, EventRow)], 60 * S)
    give_ids(merged)
    link_episodes(merged)
    errors = [row for row in merged if isinstance(row, GpuError)]
    assert len(errors) == 29
    assert sum(row.count or 0 for row in errors) == 800_000
    assert len({row.burst_id for row in errors}) == 1
    assert {row.role for row in errors} == {"root"}


def test_a_storm_of_processes_costs_linear_time() -> None:
    rows = [error(n * 0.01, (31, 45, 119)[n % 3], (A, B, C)[n % 7 % 3], pid=n) for n in range(30_000)]
    begin = time.perf_counter()
    link_episodes(rows)
    assert time.perf_counter() - begin < 20


def test_other_rows_pass() -> None:
    rows: list[Row] = [NodeEvent(kind="boot", host="gpu001", time=1), error(1, 79)]
    link_episodes(rows)
    assert isinstance(rows[1], GpuError)
    assert rows[1].role == "root"
