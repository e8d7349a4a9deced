"""Training logs: speed and memory of ``aftershock run`` where every line is a step, and where next to none is.

    python benchmarks/dense_steps.py [--megabytes 300 1000] [--kind dense sparse] [--trainer megatron] [--keep FOLDER]

Dense: lines of a trainer, all of which are steps or belong to one (``step_lines.py``; ``--trainer all``). Sparse: what
a data loader and a collective library chat, with a step in every thousand lines. Every figure is wall time of a whole
process, start-up included, with the file in the page cache; the best of three runs counts. The peers find the lines of
Megatron-LM: grep, and a pattern in a loop of Python that takes three fields of each.
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from clocked import best_of, check
from step_lines import TRAINERS, Line, megatron


def chatter(rng: random.Random, line: int, moment: dt.datetime) -> str:
    """A line that says nothing of what is looked for."""
    if line % 3:
        said = f"worker {line % 16} fetched shard {rng.randrange(10**6)}"
        return f"{moment:%Y-%m-%d %H:%M:%S} | INFO | data.loader | {said}\n"
    rank = line % 8
    return f"gpu{line % 63:03d}:{2000 + rank}:{3000 + rank} [{rank}] NCCL INFO Channel {line % 32:02d} : ring\n"


def write_log(path: Path, megabytes: int, line_of: Line | None) -> int:
    """Write a log of about that size, every line a step if it is said of which trainer; returns the number of steps."""
    rng = random.Random(7)
    moment = dt.datetime(2026, 3, 1, 10, 20, 30, 123456)
    step = line = 0
    with open(path, "wb") as out:
        while out.tell() < megabytes * 1_000_000:
            lines = []
            for _ in range(20_000):
                line += 1
                ms = 1200 + rng.random() * 80
                moment += dt.timedelta(milliseconds=ms if line_of else ms / 1000)
                if line_of or line % 1000 == 0:
                    step += 1
                    lines.append((line_of or megatron)(rng, step, moment, ms))
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


PEERS = {
    "grep -c (finds lines only)": ["grep", "-c", "lm loss:"],
    "python re, three fields": [sys.executable, "-c", PYTHON],
}


def measure(log: Path, steps: int, out: Path, peers: Mapping[str, list[str]]) -> None:
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
    for name, peer in peers.items():
        seconds = best_of(3, partial(check, [*peer, str(log)]))
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
    parser.add_argument("--trainer", nargs="+", choices=("all", *TRAINERS), default=["megatron"])
    args = parser.parse_args()
    trainers = list(TRAINERS) if "all" in args.trainer else args.trainer
    logs = [("sparse", None)] if "sparse" in args.kind else []
    if "dense" in args.kind:
        logs = [*((trainer, TRAINERS[trainer]) for trainer in trainers), *logs]
    folder = args.keep or Path(tempfile.mkdtemp(prefix="aftershock-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for name, line_of in logs:
            for megabytes in args.megabytes:
                log = folder / f"{name}-{megabytes}.log"
                steps = write_log(log, megabytes, line_of)
                print(name, end=": ")
                measure(log, steps, folder / "out", PEERS if line_of in (None, megatron) else {})
                if not args.keep:
                    log.unlink()
    finally:
        if not args.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
