"""A day of a cluster's metrics scanned in the windows of its events: samples a second, memory, and what 55 days cost.

    python benchmarks/metrics_scan.py [--metrics 100] [--hosts 8] [--hours 4 12] [--events 4] [--all-samples]
    python benchmarks/metrics_scan.py --billion            (751 metrics of 504 GPUs every 30 s, of 6 and of 24 hours)

Makes blocks of two hours, a kernel log with events spread over all hosts and times, and a job on all hosts, and lets
``aftershock run`` join them: once for each number of hours. Time and peak memory are those of that process, with the
files in the page cache as they were written. What a day costs is told from both sizes, so that the start is not
counted for each hour; 55 days are 55 of these days, with as many events in each. ``--keep`` leaves the blocks.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from metrics_read import values_of  # the same shapes of values

from aftershock.pipeline.metrics.families import METRICS
from tests.parsers.prometheus.block_writer import WrittenChunk, WrittenSeries, write_block
from tests.parsers.prometheus.encoders import xor_chunk

BEGAN = dt.datetime(2026, 3, 1, tzinfo=dt.timezone.utc)
STEP_MS = 30_000
SAMPLES = 120
BLOCK_HOURS = 2
GPUS = 8
KINDS = ("counter", "temperature", "power", "constant", "ratio")
SHAPES = 40
DAYS = 55
XID = "%s %s kernel: NVRM: Xid (PCI:0000:%02x:00): 79, pid=7, name=python3, GPU has fallen off the bus.\n"
SACCT = "JobID|JobName|Partition|State|ExitCode|Submit|Start|End|NNodes|NodeList\n"


@dataclass(frozen=True)
class Size:
    """What is made."""

    metrics: int
    hosts: int
    hours: int
    events: int

    @property
    def samples(self) -> int:
        """Samples in all blocks."""
        return self.metrics * self.hosts * GPUS * self.hours * 3_600_000 // STEP_MS


def labels_of(size: Size) -> Iterator[tuple[Mapping[str, str], str]]:
    """The labels of all series, and of what kind their values are."""
    known = sorted(name for name in METRICS if name.startswith("DCGM_"))
    names = [*known, *(f"DCGM_FI_DEV_FIELD_{i}" for i in range(size.metrics))][: size.metrics]
    for i, name in enumerate(names):
        for gpu in range(size.hosts * GPUS):
            host, index = divmod(gpu, GPUS)
            yield (
                {
                    "__name__": name,
                    "Hostname": f"gpu{host + 1:03d}",
                    "UUID": f"GPU-{gpu:08x}-1111-2222-3333-444444444444",
                    "pci_bus_id": f"00000000:{0x10 + index:02X}:00.0",
                    "gpu": str(index),
                    "device": f"nvidia{index}",
                    "instance": f"10.20.0.{host + 1}:9400",
                    "job": "dcgm",
                    "modelName": "NVIDIA B200",
                },
                KINDS[i % len(KINDS)],
            )


def write(folder: Path, size: Size) -> None:
    """Write all blocks that are not there yet; chunks of a kind and time have a few shapes, for coding takes long."""
    rng = random.Random(5)
    series = list(labels_of(size))
    per_block = BLOCK_HOURS * 3_600_000 // STEP_MS // SAMPLES
    for number in range(size.hours // BLOCK_HOURS):
        shapes: dict[tuple[str, int], list[WrittenChunk]] = {}
        for kind in KINDS:
            for shape in range(SHAPES):
                shapes[kind, shape] = []
                for k in range(per_block):
                    first = round(BEGAN.timestamp() * 1000) + (number * per_block + k) * SAMPLES * STEP_MS
                    times = [first + i * STEP_MS for i in range(SAMPLES)]
                    data = xor_chunk(list(zip(times, values_of(kind, rng), strict=True)))
                    shapes[kind, shape].append(WrittenChunk(first, times[-1], data))
        block = folder / f"01KJTESTB10CK0000000000{number:03d}"
        if not block.exists():
            written = [WrittenSeries(labels, shapes[kind, rng.randrange(SHAPES)]) for labels, kind in series]
            write_block(block.with_suffix(".part"), written)
            block.with_suffix(".part").rename(block)


def write_logs(folder: Path, size: Size) -> None:
    """A kernel log with the events, and a job on all hosts for the whole time."""
    rng = random.Random(9)
    lines = []
    for k in range(size.events):
        at = BEGAN + dt.timedelta(hours=size.hours * (k + 0.5) / size.events)
        lines.append(XID % (at.isoformat(), f"gpu{rng.randrange(size.hosts) + 1:03d}", 0x10 + rng.randrange(GPUS)))
    (folder / "kern.log").write_text("".join(lines))
    end = BEGAN + dt.timedelta(hours=size.hours)
    times = [f"{moment:%Y-%m-%dT%H:%M:%S}" for moment in (BEGAN, BEGAN, end)]
    hosts = f"gpu[001-{size.hosts:03d}]"
    (folder / "sacct.txt").write_text(
        SACCT + "|".join(("4711", "pretrain", "gpu", "COMPLETED", "0:0", *times, str(size.hosts), hosts)) + "\n"
    )
    (folder / "aftershock.toml").write_text(
        f'[cluster]\nhosts = "{hosts}"\ntimezone = "UTC"\nscrape_interval_s = 30\ngpus_per_host = {GPUS}\n'
    )


@dataclass(frozen=True)
class Cost:
    """What one run took, and what it read and wrote."""

    wall: float
    cpu: float
    peak: int
    read: int
    evidence: int
    bytes: int
    written: int


def run(blocks: Path, home: Path, size: Size, more: list[str]) -> Cost:
    """Let ``aftershock run`` join the first blocks with the events."""
    folder, out = home / "in", home / "out"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    used = sorted(blocks.glob("01*"))[: size.hours // BLOCK_HOURS]
    for block in used:
        (folder / block.name).symlink_to(block)
    write_logs(folder, size)
    inputs = [str(folder / name) for name in ("kern.log", "sacct.txt", *(block.name for block in used))]
    command = [str(Path(sys.executable).with_name("aftershock")), "run", *inputs, "--out", str(out), "--overwrite"]
    command += ["--config", str(folder / "aftershock.toml"), "--quiet", *more]
    began = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ)
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - began
    if status:
        raise SystemExit(f"aftershock ended with {os.waitstatus_to_exitcode(status)}")
    sources = pq.read_table(out / "sources.parquet").to_pylist()
    found = Cost(
        wall,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss * 1024,
        sum(row["records"] or 0 for row in sources if row["format"] == "tsdb"),
        pq.read_table(out / "evidence.parquet", columns=["event_id"]).num_rows,
        sum(path.stat().st_size for block in used for path in block.rglob("*") if path.is_file()),
        sum(path.stat().st_size for path in out.rglob("*") if path.is_file()),
    )
    shutil.rmtree(out)
    return found


def tell(size: Size, cost: Cost) -> None:
    """Print what one run took."""
    print(
        f"{size.hours:4d} h  {size.samples / 1e6:8.1f} M samples  {cost.bytes / size.samples:.2f} B each  "
        f"{cost.read / size.samples:6.1%} decoded  {cost.evidence:,} rows of evidence\n"
        f"        {cost.wall:7.1f} s wall  {cost.cpu:7.1f} s CPU  {size.samples / cost.cpu / 1e6:6.2f} M samples/s a "
        f"core  ({cost.read / cost.cpu / 1e6:.2f} M decoded/s)  peak {cost.peak / 2**20:,.0f} MiB"
        f"  {cost.written / 2**20:,.1f} MiB written",
        flush=True,
    )


def main() -> None:
    """Make, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metrics", type=int, default=100)
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--hours", type=int, nargs="+", help="4 and 12; of the billion 6 and 24")
    parser.add_argument("--events", type=int, default=4, help="in a day")
    parser.add_argument("--billion", action="store_true", help="751 metrics of 504 GPUs: 6 and 24 hours")
    parser.add_argument("--all-samples", action="store_true", help="keep every sample, as the run does with it")
    parser.add_argument("--keep", type=Path, help="where the blocks are kept for the next time")
    parser.add_argument("--write-only", action="store_true", help="make the blocks and stop")
    given = parser.parse_args()
    if given.billion:
        given.metrics, given.hosts = 751, 63
    sizes = [
        Size(given.metrics, given.hosts, hours, max(1, round(given.events * hours / 24)))
        for hours in sorted(given.hours or ([6, 24] if given.billion else [4, 12]))
    ]
    home = Path(tempfile.mkdtemp(dir=given.keep and given.keep.parent))
    blocks = given.keep or home / "blocks"
    blocks.mkdir(parents=True, exist_ok=True)
    try:
        began = time.perf_counter()
        write(blocks, sizes[-1])
        print(
            f"{sizes[-1].metrics} metrics of {sizes[-1].hosts * GPUS} GPUs; made in {time.perf_counter() - began:.0f} s"
        )
        if given.write_only:
            return
        costs = []
        for size in sizes:
            costs.append(run(blocks, home, size, ["--all-samples"] if given.all_samples else []))
            tell(size, costs[-1])
        if len(sizes) > 1:
            hours = sizes[-1].hours - sizes[0].hours
            for name, first, last in (("CPU", costs[0].cpu, costs[-1].cpu), ("wall", costs[0].wall, costs[-1].wall)):
                days = DAYS * 24 * (last - first) / hours / 3600
                print(f"{DAYS} days: {days:.2f} h of {name}", end="; ")
            print(
                f"{DAYS * 24 / sizes[-1].hours * costs[-1].bytes / 1e9:,.0f} GB of blocks; "
                f"peak of the longer run {costs[-1].peak / costs[0].peak:.2f} times that of the shorter"
            )
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
