"""Blocks of Prometheus: samples a second, beside ``promtool tsdb dump`` on the same block.

    python benchmarks/metrics_read.py [--series 20000] [--chunks 2] [--keep FOLDER]

The block holds GPU metrics scraped every 15 seconds: counters, readings of whole numbers, readings with three decimals,
constants and ratios with all their bits. Wall time with the files in the page cache; the best of three runs counts. The
first figure is the columns in this process, the second the index alone, the third what one metric of all costs.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from clocked import best_of

from aftershock.parsers.formats import Refused
from aftershock.parsers.prometheus.columns import EVERYTHING, MetricsSource, Wanted
from aftershock.parsers.prometheus.file_ranges import FileRanges
from aftershock.parsers.prometheus.tsdb_block import read_block
from aftershock.parsers.prometheus.tsdb_index import SeriesWindow, open_index
from tests.parsers.prometheus.block_writer import WrittenChunk, WrittenSeries, write_block
from tests.parsers.prometheus.encoders import xor_chunk

BEGAN = 1_772_366_400_000
STEP = 15_000
SAMPLES = 120
METRICS = ("counter", "temperature", "power", "constant", "ratio")
SHAPES = 50


def values_of(metric: str, rng: random.Random) -> list[float]:
    """The values of one chunk."""
    now = float(rng.randrange(10**6))
    out = []
    for _ in range(SAMPLES):
        now = {
            "counter": now + rng.randrange(5000),
            "temperature": float(rng.randrange(40, 85)),
            "power": round(rng.gauss(500, 60), 3),
            "constant": now,
            "ratio": rng.random(),
        }[metric]
        out.append(now)
    return out


def write(folder: Path, series: int, chunks: int) -> None:
    """Write a block; chunks of one metric and time are of a few shapes, for writing them takes long."""
    rng = random.Random(5)
    shapes = {}
    for metric in METRICS:
        for k in range(chunks):
            first = BEGAN + k * SAMPLES * STEP
            times = [first + i * STEP for i in range(SAMPLES)]
            for shape in range(SHAPES):
                data = xor_chunk(list(zip(times, values_of(metric, rng), strict=True)))
                shapes[metric, k, shape] = WrittenChunk(first, times[-1], data)
    written = []
    for i in range(series):
        metric = METRICS[i % len(METRICS)]
        gpu = i // 200
        labels = {
            "__name__": f"DCGM_FI_DEV_{metric.upper()}_{i // len(METRICS) % 40}",
            "Hostname": f"gpu{gpu // 8:03d}",
            "UUID": f"GPU-{gpu:08x}-1111-2222-3333-444444444444",
            "gpu": str(gpu % 8),
            "device": f"nvidia{gpu % 8}",
            "instance": f"10.20.{gpu // 8 // 250}.{gpu // 8 % 250}:9400",
            "job": "dcgm",
            "modelName": "NVIDIA H100 80GB HBM3",
            "DCGM_FI_DRIVER_VERSION": "550.90.07",
        }
        written.append(WrittenSeries(labels, [shapes[metric, k, i % SHAPES] for k in range(chunks)]))
    write_block(folder, written)


def source_of(folder: Path) -> MetricsSource:
    """A block as a reader takes it."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return MetricsSource(str(folder), lambda name: open(folder / name, "rb", buffering=0), tuple(names))


def read(folder: Path, wanted: Wanted = EVERYTHING) -> int:
    """Read all columns; returns the number of samples."""
    samples = 0
    for batch in read_block(source_of(folder), wanted):
        if isinstance(batch, Refused):
            raise SystemExit(batch.reason)
        samples += len(batch.times)
    return samples


def read_index(folder: Path) -> int:
    """Read the index alone; returns the number of series."""
    with open(folder / "index", "rb", buffering=0) as stream:
        windows = open_index(FileRanges(stream)).windows()
        return sum(len(window.refs) for window in windows if isinstance(window, SeriesWindow))


def dump(promtool: str, folder: Path) -> None:
    """What promtool takes to print the block."""
    # It wants the folder of a server: the block below it, and a log of writes.
    with tempfile.TemporaryDirectory(dir=folder.parent) as data:
        (Path(data) / "wal").mkdir()
        shutil.copytree(folder, Path(data) / folder.name, copy_function=os.link)
        subprocess.run([promtool, "tsdb", "dump", data], stdout=subprocess.DEVNULL, check=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=20_000)
    parser.add_argument("--chunks", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="where the block is kept for the next time")
    given = parser.parse_args()
    home = given.keep or Path(tempfile.mkdtemp())
    folder = home / "01KJTESTB10CK0000000000000"
    if not folder.exists():
        write(folder, given.series, given.chunks)
    samples = read(folder)
    seconds = best_of(3, lambda: read(folder))
    size = sum(path.stat().st_size for path in (folder / "chunks").iterdir())
    print(f"{samples:,} samples of {size / samples:.1f} bytes")
    print(f"columns:       {seconds:6.2f} s  {samples / seconds / 1e6:6.2f} M samples/s")
    series = read_index(folder)
    index = best_of(3, lambda: read_index(folder))
    print(f"index alone:   {index:6.2f} s  {series / index / 1e6:6.2f} M series/s")
    one = Wanted(metrics=frozenset({"DCGM_FI_DEV_RATIO_0"}))
    some = best_of(3, lambda: read(folder, one))
    print(f"one metric:    {some:6.2f} s  {read(folder, one):,} samples")
    promtool = shutil.which("promtool")
    if promtool is None:
        print("promtool is not installed: nothing to compare with")
    else:
        theirs = best_of(2, lambda: dump(promtool, folder))
        print(
            f"promtool dump: {theirs:6.2f} s  {samples / theirs / 1e6:6.2f} M samples/s: {theirs / seconds:.1f} times"
        )
    if given.keep is None:
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
