"""Accounting: speed and memory of ``aftershock run`` on a table of sacct, beside readers of CSV on the same file.

    python benchmarks/sacct_rows.py [--rows 2000000] [--kind steps allocations] [--keep FOLDER]

The file is what ``sacct --parsable2`` prints in twenty columns: with the steps of each job (batch, extern, 0), or with
``--allocations`` jobs only. Three jobs in ten do not end well and some are requeued, so that sessions, retries and
chains are made of it; the readers of CSV only give the cells. Every figure is the wall time of a whole process,
start-up included, with the file in the page cache; the memory is the most that the process and those it started had at
one time (pages that several share count once), sampled twenty times a second.
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

HEADER = (
    "JobID|JobIDRaw|JobName|User|Account|Partition|State|ExitCode|DerivedExitCode|Submit|Eligible|Start|End|ElapsedRaw"
    "|NNodes|NodeList|Reason|Timelimit|AllocTRES|WorkDir\n"
)
STEPS = ("batch", "extern", "0")
STATES = ("COMPLETED",) * 7 + ("FAILED", "CANCELLED by 1004", "TIMEOUT")
NAMES = ("pretrain", "eval", "sft", "bash", "sweep", "interactive")
SAMPLE_S = 0.05


def write_table(path: Path, rows: int, *, steps: bool) -> int:
    """Write a table of at least so many rows, a year of a busy cluster; returns the number of rows."""
    rng = random.Random(7)
    written, job = 0, 100_000
    moment = dt.datetime(2026, 1, 1)
    pause = 31_000_000 / max(1, rows // (1 + steps * len(STEPS)))
    with open(path, "w", encoding="ascii") as out:
        out.write(HEADER)
        while written < rows:
            job += 1
            moment += dt.timedelta(seconds=rng.expovariate(1 / pause))
            for line in _job(rng, job, moment, steps=steps):
                out.write(line)
                written += 1
    return written


def _job(rng: random.Random, job: int, moment: dt.datetime, *, steps: bool) -> list[str]:
    """The lines of one job; of a job that lost a host two placements."""
    nodes = rng.choice((1, 1, 1, 1, 2, 4, 8, 16))
    first = rng.randrange(1, 240)
    hosts = f"gpu{first:03d}" if nodes == 1 else f"gpu[{first:03d}-{first + nodes - 1:03d}]"
    user = f"user{rng.randrange(400):03d}"
    name = f"{rng.choice(NAMES)}-{rng.randrange(40)}"
    tres = f"billing={nodes * 16},cpu={nodes * 16},gres/gpu={nodes * 8},mem={nodes * 900}G,node={nodes}"
    lines = []
    submit = moment
    for state in ("NODE_FAIL", rng.choice(STATES)) if rng.random() < 0.01 else (rng.choice(STATES),):
        start = submit + dt.timedelta(seconds=rng.randrange(3600))
        elapsed = rng.randrange(5, 90_000)
        end = start + dt.timedelta(seconds=elapsed)
        code = "0:0" if state == "COMPLETED" else "1:0"
        times = (
            f"{submit:%Y-%m-%dT%H:%M:%S}|{submit:%Y-%m-%dT%H:%M:%S}|{start:%Y-%m-%dT%H:%M:%S}|{end:%Y-%m-%dT%H:%M:%S}"
        )
        lines.append(
            f"{job}|{job}|{name}|{user}|ml|long|{state}|{code}|{code}|{times}|{elapsed}|{nodes}|{hosts}|None|2-00:00:00"
            f"|{tres}|/home/{user}/runs/{name}\n"
        )
        for step in STEPS if steps else ():
            begun = f"{start:%Y-%m-%dT%H:%M:%S}"
            lines.append(
                f"{job}.{step}|{job}.{step}|{step}||ml||{state.split()[0]}|{code}||{begun}|{begun}|{begun}"
                f"|{end:%Y-%m-%dT%H:%M:%S}|{elapsed}|{nodes}|{hosts}|||{tres}|\n"
            )
        submit = end
    return lines


class Measured:
    """A command that was run: seconds, and the largest sum of resident memory of its processes in MB."""

    def __init__(self, command: Sequence[str]) -> None:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.megabytes = 0
        watcher = threading.Thread(target=self._watch, args=(process.pid,), daemon=True)
        watcher.start()
        code = process.wait()
        self.seconds = time.perf_counter() - began
        watcher.join()
        if code:
            raise subprocess.CalledProcessError(code, list(command))

    def _watch(self, root: int) -> None:
        while (resident := sum(map(_resident_kb, _tree(root)))) > 0:
            self.megabytes = max(self.megabytes, resident // 1024)
            time.sleep(SAMPLE_S)


def _tree(root: int) -> list[int]:
    """A process and all that it started."""
    found = [root]
    for pid in found:
        found += _children(pid)
    return found


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:  # it has ended
        return []


def _resident_kb(pid: int) -> int:
    """Resident memory, that which is shared with others divided by their number."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


PEERS = {
    "pandas.read_csv": "import pandas, sys; print(len(pandas.read_csv(sys.argv[1], sep='|', dtype=str)))",
    "pyarrow.csv": "import sys\nfrom pyarrow import csv\n"
    "print(csv.read_csv(sys.argv[1], parse_options=csv.ParseOptions(delimiter='|', quote_char=False)).num_rows)",
    "csv.reader": "import csv, sys\nprint(sum(1 for _ in csv.reader(open(sys.argv[1]), delimiter='|', quoting=3)))",
}


def measure(table: Path, rows: int, out: Path) -> None:
    """All tools on one file."""
    table.read_bytes()
    command = [sys.executable, "-m", "aftershock", "run", str(table), "--out", str(out), "--overwrite", "--quiet"]
    ours = Measured([*command, "--timezone", "UTC"])
    print(
        f"{rows} rows, {table.stat().st_size / 1e6:.0f} MB: aftershock run {ours.seconds:.1f} s, "
        f"{rows / ours.seconds:,.0f} rows/s, {ours.megabytes} MB resident",
        flush=True,
    )
    for name, script in PEERS.items():
        try:
            peer = Measured([sys.executable, "-c", script, str(table)])
        except (subprocess.CalledProcessError, OSError):
            print(f"{'':10}{name}: not measured")
            continue
        longer, more = ours.seconds / peer.seconds, ours.megabytes / max(1, peer.megabytes)
        print(
            f"{'':10}{name} (cells only): {peer.seconds:.1f} s, {peer.megabytes} MB; ours takes {longer:.1f} times as "
            f"long and {more:.1f} times the memory",
            flush=True,
        )


def main() -> None:
    """Print a few lines for each kind of table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--kind", nargs="+", choices=("steps", "allocations"), default=["steps", "allocations"])
    parser.add_argument("--keep", type=Path, help="folder for the files, which are then left there")
    args = parser.parse_args()
    folder = args.keep or Path(tempfile.mkdtemp(prefix="aftershock-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for kind in args.kind:
            table = folder / f"sacct-{kind}-{args.rows}.psv"
            rows = write_table(table, args.rows, steps=kind == "steps")
            print(kind, end=": ")
            measure(table, rows, folder / "out")
    finally:
        if not args.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
