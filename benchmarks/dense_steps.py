"""Training logs: speed and memory of ``aftershock run`` where every line is a step, and where next to none is.

    python benchmarks/dense_steps.py [--megabytes 300 1000] [--kind dense sparse] [--keep FOLDER]

Dense: lines of Megatron-LM, every one a step. Sparse: what a data loader and a collective library chat, with a step in
every thousand lines. Every figure is wall time of a whole process, start-up included, with the file in the page cache;
the best of three runs counts. The peers find the same lines: grep, and a pattern in a loop of Python that takes three
fields of each.
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from clocked import best_of, check

BATCH = 256


def step_line(rng: random.Random, step: int, moment: dt.datetime, ms: float) -> str:
    """A step as Megatron-LM prints it."""
    return (
        f" [{moment:%Y-%m-%d %H:%M:%S.%f}] iteration {step:8d}/ 5000000 | consumed samples: {step * BATCH:12d} | "
        f"elapsed time per iteration (ms): {ms:.1f} | throughput per GPU (TFLOP/s/GPU): {480000 / ms:.1f} | "
        f"learning rate: {1.5e-4 * (1 - step / 5e6):.6E} | global batch size: {BATCH:5d} | "
        f"lm loss: {2 + rng.random() / 3:.6E} | loss scale: 1.0 | grad norm: {0.3 + rng.random() / 3:.3f} | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )


def chatter(rng: random.Random, line: int, moment: dt.datetime) -> str:
    """A line that says nothing of what is looked for."""
    if line % 3:
        said = f"worker {line % 16} fetched shard {rng.randrange(10**6)}"
        return f"{moment:%Y-%m-%d %H:%M:%S} | INFO | data.loader | {said}\n"
    rank = line % 8
    return f"gpu{line % 63:03d}:{2000 + rank}:{3000 + rank} [{rank}] NCCL INFO Channel {line % 32:02d} : ring\n"


def write_log(path: Path, megabytes: int, kind: str) -> int:
    """Write a log of about that size; returns the number of its steps."""
    rng = random.Random(7)
    moment = dt.datetime(2026, 3, 1, 10, 20, 30, 123456)
    step = line = 0
    with open(path, "wb") as out:
        while out.tell() < megabytes * 1_000_000:
            lines = []
            for _ in range(20_000):
                line += 1
                ms = 1200 + rng.random() * 80
                moment += dt.timedelta(milliseconds=ms if kind == "dense" else ms / 1000)
                if kind == "dense" or line % 1000 == 0:
                    step += 1
                    lines.append(step_line(rng, step, moment, ms))
                else:
                    lines.append(chatter(rng, line, moment))
            out.write("".join(lines).encode())
    return step


PYTHON = r"""
import re, sys
shape = re.compile(rb"\[([^]]+)\] iteration +(\d+)/.*?lm loss: (\S+)")
found = [(m[1], int(m[2]), float(m[3])) for m in map(shape.search, open(sys.argv[1], "rb")) if m]
print(len(found))
"""


def measure(log: Path, steps: int, out: Path) -> None:
    """All tools on one file."""
    size = log.stat().st_size / 1e6
    log.read_bytes()
    command = [sys.executable, "-m", "aftershock", "run", str(log), "--out", str(out), "--overwrite", "--quiet"]
    command += ["--timezone", "UTC"]
    ours = best_of(3, lambda: check(command))
    script = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
    script += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)"
    done = subprocess.run([sys.executable, "-c", script, *command], check=True, capture_output=True, text=True)
    print(
        f"{size:.0f} MB, {steps} steps: aftershock run {ours:.2f} s, {size / ours:.0f} MB/s, "
        f"{int(done.stdout)} MB resident in its largest process",
        flush=True,
    )
    peers = {
        "grep -c (finds lines only)": ["grep", "-c", "lm loss:", str(log)],
        "python re, three fields": [sys.executable, "-c", PYTHON, str(log)],
    }
    for name, peer in peers.items():
        seconds = best_of(3, partial(check, peer))
        print(
            f"{'':10}{name}: {seconds:.2f} s, {size / seconds:.0f} MB/s; ours is {seconds / ours:.2f} times as fast",
            flush=True,
        )


def main() -> None:
    """Print a few lines for each kind and size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[300, 1000])
    parser.add_argument("--kind", nargs="+", choices=("dense", "sparse"), default=["dense", "sparse"])
    parser.add_argument("--keep", type=Path, help="folder for the files, which are then left there")
    args = parser.parse_args()
    folder = args.keep or Path(tempfile.mkdtemp(prefix="aftershock-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for kind in args.kind:
            for megabytes in args.megabytes:
                log = folder / f"{kind}-{megabytes}.log"
                steps = write_log(log, megabytes, kind)
                print(kind, end=": ")
                measure(log, steps, folder / "out")
    finally:
        if not args.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
