"""Samples in windows, beside DuckDB's range join on the same samples: 10 million samples, 1,000 events, 250 metrics.

    .venv/bin/python benchmarks/window_join.py

Prints both times, their ratio, and whether counts and means agree to six decimals.
"""

from __future__ import annotations

import time

import duckdb
import numpy as np
import pyarrow as pa

from aftershock.pipeline.metrics.window_join import Grid, summarise

SERIES, SAMPLES, EVENTS, STEP_MS, HALF_MS = 250, 40_000, 1_000, 30_000, 600_000


def main() -> None:
    """Make the samples, join them both ways."""
    random = np.random.default_rng(7)
    times = (np.arange(SAMPLES) * STEP_MS)[None, :] + random.integers(0, 2_000, (SERIES, SAMPLES))
    values = random.normal(60.0, 5.0, (SERIES, SAMPLES))
    events = np.sort(random.integers(HALF_MS, SAMPLES * STEP_MS - HALF_MS, EVENTS))
    grid = Grid(np.arange(SERIES + 1, dtype=np.int64) * SAMPLES, times.ravel(), values.ravel())

    began = time.perf_counter()
    series = np.repeat(np.arange(SERIES, dtype=np.int64), EVENTS)
    moments = np.tile(events, SERIES)
    ours = summarise(grid, *grid.slices(series, moments - HALF_MS, moments + HALF_MS))
    mine = time.perf_counter() - began

    samples = pa.table({"series": np.repeat(np.arange(SERIES), SAMPLES), "t": grid.times, "v": grid.values})
    asked = pa.table({"event": np.arange(EVENTS), "moment": events})
    connection = duckdb.connect()
    connection.register("samples", samples)
    connection.register("asked", asked)
    began = time.perf_counter()
    theirs = connection.execute(
        f"""select series, event, count(*) as n, avg(v) as mean, min(v) as low, max(v) as high
        from samples join asked on t >= moment - {HALF_MS} and t < moment + {HALF_MS}
        group by series, event order by series, event"""
    ).fetchnumpy()
    peer = time.perf_counter() - began

    same = bool(
        np.array_equal(ours.count, theirs["n"])
        and np.allclose(ours.mean, theirs["mean"], atol=5e-7, rtol=0)
        and np.array_equal(ours.low, theirs["low"])
        and np.array_equal(ours.high, theirs["high"])
    )
    size = SERIES * SAMPLES / 1e6
    print(f"{size:.0f} M samples, {EVENTS} events, {SERIES} series: {SERIES * EVENTS} windows")
    print(f"ours    {mine:6.2f} s  {size / mine:6.0f} M samples/s")
    print(f"duckdb  {peer:6.2f} s  ours is {peer / mine:.1f} times as fast; same answers: {same}")


if __name__ == "__main__":
    main()
