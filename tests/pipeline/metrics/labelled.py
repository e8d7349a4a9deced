"""A small cluster whose metrics show what was planted in them, and nothing else.

Two days of ten hosts that are scraped each minute, in blocks of twelve hours, as two servers saw them. Some hosts fail,
with signs before, after, in one metric only, or none at all; some show signs and do not fail. Beside them stands what
must look like nothing: phases of the job, a counter that begins anew, a time in which nobody scraped, a stretch of a
single sample.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from tests.parsers.prometheus.block_writer import WrittenChunk, WrittenSeries, write_block
from tests.parsers.prometheus.encoders import STALE, xor_chunk

BEGAN: Final = dt.datetime(2026, 3, 1, tzinfo=dt.timezone.utc)
HOSTS: Final = tuple(f"gpu{number:03d}" for number in range(1, 11))
MINUTES: Final = 48 * 60
PER_BLOCK: Final = 12 * 60
PER_CHUNK: Final = 120
TEMP, POWER, UTIL = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_UTIL"
INTR, PAGES = "node_intr_total", "node_vmstat_pgpgout"
# Level, noise, what a sign does to it.
METRICS: Final = {
    TEMP: (60.0, 0.8, 25.0),
    POWER: (500.0, 8.0, -350.0),
    UTIL: (95.0, 1.5, -80.0),
    INTR: (10_000.0, 80.0, -7_000.0),
    PAGES: (900.0, 20.0, 5_000.0),
}
COUNTERS: Final = (INTR, PAGES)
XID: Final = "%s %s kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=7, name=python3, GPU has fallen off the bus.\n"


@dataclass(frozen=True)
class Planted:
    """Signs on a host, in minutes: [first, until) in some metrics; the fault, if there is one; whether the GPU goes."""

    host: str
    metrics: tuple[str, ...]
    first: int
    until: int
    fault: int | None = None
    gone: bool = False


def hour(hours: float) -> int:
    return round(60 * hours)


PLANTED: Final = (
    Planted("gpu001", (TEMP, UTIL), hour(10) - 20, hour(10) + 5, hour(10)),
    Planted("gpu002", (INTR, POWER), hour(14) - 12, hour(14) + 5, hour(14)),
    Planted("gpu003", (), hour(20), hour(20), hour(20)),
    Planted("gpu004", (INTR,), hour(28) + 1, hour(28) + 60, hour(28), gone=True),
    Planted("gpu005", (TEMP,), hour(34) - 20, hour(34), hour(34)),
    Planted("gpu006", (PAGES, POWER), hour(40) - 25, hour(40), hour(40)),
    Planted("gpu007", (TEMP, UTIL), hour(16), hour(16) + 10),
    Planted("gpu008", (POWER, PAGES), hour(30), hour(30) + 15),
    # Two families, but for one scrape.
    Planted("gpu010", (TEMP, UTIL), hour(38), hour(38) + 1),
)
RESET: Final = ("gpu009", hour(18))
NOBODY_LOOKED: Final = range(hour(22), hour(22) + 12)
# A checkpoint each three hours, of all hosts.
CHECKPOINT: Final = (hour(3), 6)


def values_of(metric: str, host: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """What one server saw, with nan where it saw nothing."""
    draw = np.random.default_rng([HOSTS.index(host), sorted(METRICS).index(metric)])
    level, noise, sign = METRICS[metric]
    values = level + noise * draw.standard_normal(MINUTES)
    minute = np.arange(MINUTES)
    saving = minute % CHECKPOINT[0] >= CHECKPOINT[0] - CHECKPOINT[1]
    if metric in (UTIL, POWER, PAGES):
        values[saving] += sign
    for one in PLANTED:
        if one.host == host and metric in one.metrics:
            values[one.first : one.until] = level + sign + noise * draw.standard_normal(one.until - one.first)
    if metric in COUNTERS:
        values = np.cumsum(np.maximum(values, 0.0) * 60)
        if host == RESET[0]:
            values[RESET[1] :] -= values[RESET[1]] - 4000.0
    values = values.round(3)
    for one in PLANTED:
        if one.host == host and one.gone and one.fault is not None and metric not in COUNTERS:
            values[one.fault + 1] = STALE
            values[one.fault + 2 :] = np.nan
    return values


def _rows(metric: str, host: str, replica: str) -> list[tuple[int, float]]:
    values = np.ones(MINUTES) if metric == "up" else values_of(metric, host)
    # The second server looks twenty seconds later, and was away for a while.
    offset = 20_000 if replica == "b" else 0
    away = range(hour(5), hour(7)) if replica == "b" else range(0)
    first = round(BEGAN.timestamp() * 1000)
    bits = values.view(np.uint64)
    stale = np.uint64(0x7FF0_0000_0000_0002)
    return [
        (first + minute * 60_000 + offset, float(values[minute]))
        for minute in range(MINUTES)
        if minute not in NOBODY_LOOKED
        and minute not in away
        and (bits[minute] == stale or not np.isnan(values[minute]))
    ]


def _series() -> Iterator[tuple[dict[str, str], list[tuple[int, float]]]]:
    for host in HOSTS:
        for replica in "ab" if host in HOSTS[:2] else "a":
            for metric in (*METRICS, "up"):
                node = metric in (*COUNTERS, "up")
                labels = {
                    "__name__": metric,
                    "instance": f"{host}:{9100 if node else 9400}",
                    "prometheus_replica": replica,
                }
                if not node:
                    labels |= {"gpu": "0", "Hostname": host, "UUID": f"GPU-{host}-1111-2222-3333-444444444444"}
                yield labels, _rows(metric, host, replica)


def write(folder: Path) -> list[Path]:
    """Blocks, the kernel log, the accounting of the job, and the configuration; returns what is given to a run."""
    began = round(BEGAN.timestamp() * 1000)
    series = list(_series())
    blocks = []
    for number in range(MINUTES // PER_BLOCK):
        low, high = (began + (number + k) * PER_BLOCK * 60_000 for k in (0, 1))
        written = []
        for labels, rows in series:
            own = [row for row in rows if low <= row[0] < high]
            parts = [own[at : at + PER_CHUNK] for at in range(0, len(own), PER_CHUNK)]
            if parts:
                chunks = [WrittenChunk(part[0][0], part[-1][0], xor_chunk(part)) for part in parts]
                written.append(WrittenSeries(labels, chunks))
        blocks.append(write_block(folder / f"01KJTESTB10CK000000000000{number}", written))
    faults = sorted((one.fault, one.host) for one in PLANTED if one.fault is not None)
    log = folder / "kern.log"
    log.write_text("".join(XID % ((BEGAN + dt.timedelta(minutes=at)).isoformat(), host) for at, host in faults))
    job = folder / "sacct.txt"
    times = [f"{BEGAN + dt.timedelta(hours=hours):%Y-%m-%dT%H:%M:%S}" for hours in (0, 0, 48)]
    job.write_text(
        "JobID|JobName|Partition|State|ExitCode|Submit|Start|End|NNodes|NodeList\n"
        f"4711|pretrain|gpu|COMPLETED|0:0|{'|'.join(times)}|10|gpu[001-010]\n"
    )
    (folder / "aftershock.toml").write_text(
        '[cluster]\nhosts = "gpu[001-010]"\ntimezone = "UTC"\nscrape_interval_s = 60\n'
    )
    return [*blocks, log, job]
