"""Sparse kernel logs: speed and memory of ``aftershock run`` and its reader, beside grep and DuckDB on the same file.

    python benchmarks/kernel_scan.py [--megabytes 300 2000] [--share 0.0005] [--keep FOLDER]

The file is a syslog without years of 63 hosts, of which the given share of lines is an Xid. Every figure is wall time
of a whole process, start-up included, with the file in the page cache; the best of three runs counts.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from clocked import best_of, check

CODES = (13, 31, 43, 45, 48, 63, 74, 79, 94, 95, 119, 145)
BUSES = ("0f", "2d", "44", "5b", "89", "a8", "c0", "d8")


def write_syslog(path: Path, megabytes: int, share: float) -> int:
    """Write a syslog of about that size; returns the number of Xid lines."""
    rng = random.Random(7)
    xids = line = 0
    wanted = megabytes * 1_000_000
    with open(path, "wb") as out:
        while out.tell() < wanted:
            lines = []
            for _ in range(20_000):
                line += 1
                second = line // 40
                day, clock = divmod(second, 86400)
                stamp = f"Mar {1 + day % 28:2d} {clock // 3600:02d}:{clock // 60 % 60:02d}:{clock % 60:02d}"
                head = f"{stamp} gpu{1 + line % 63:03d} "
                if rng.random() < share:
                    xids += 1
                    lines.append(
                        f"{head}kernel: [{second}.{line % 1000000:06d}] NVRM: Xid (PCI:0000:{rng.choice(BUSES)}:00): "
                        f"{rng.choice(CODES)}, pid={rng.randrange(1000, 99999)}, name=python3, "
                        f"Ch {rng.randrange(64):08x}\n"
                    )
                else:
                    lines.append(
                        f"{head}systemd[1]: Started session-{line}.scope - Session {line} of User trainer, "
                        f"unit {rng.randrange(10**9)} loaded active running.\n"
                    )
            out.write("".join(lines).encode())
    return xids


def aftershock(log: Path, out: Path) -> tuple[float, int]:
    """Seconds of ``aftershock run`` and its largest resident set in MB."""
    command = [sys.executable, "-m", "aftershock", "run", str(log), "--out", str(out), "--overwrite", "--quiet"]
    command += ["--timezone", "UTC", "--year", "2026"]
    seconds = best_of(3, lambda: check(command))
    script = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
    script += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)"
    done = subprocess.run([sys.executable, "-c", script, *command], check=True, capture_output=True, text=True)
    return seconds, int(done.stdout)


READER = """
import sys, time
from aftershock.parsers.registry import line_formats
from aftershock.parsers.scan import scanner_for
from aftershock.parsers.source import SourceFile
from aftershock.pipeline.chunks import read_chunk_at_once
from aftershock.pipeline.plan import chunks_of
scanner_for(line_formats()).warm()
path, size = sys.argv[1], int(sys.argv[2])
chunks = chunks_of(SourceFile(path, path, size))
began = time.perf_counter()
rows = sum(len(read_chunk_at_once(chunk, 60_000_000).found) for chunk in chunks)
print(time.perf_counter() - began)
"""


def reader(log: Path) -> float:
    """Seconds of one processor for finding, unwrapping and reading all records, without start-up and tables."""
    command = [sys.executable, "-c", READER, str(log), str(log.stat().st_size)]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(3)]
    return min(float(done.stdout) for done in runs)


DUCKDB = """
import duckdb, sys
print(duckdb.connect().execute(f'''
  select count(*) from (
    select regexp_extract(line, '^(\\w+ +\\d+ [0-9:]+) (\\S+) kernel: .*NVRM: Xid '
                                '\\(PCI:([0-9a-f:.]+)\\): (\\d+), pid=(\\d+)',
                          ['time', 'host', 'pci', 'code', 'pid']) as f
    from read_csv('{sys.argv[1]}', columns={{'line': 'varchar'}}, delim='\\x01', quote='', header=false)
    where contains(line, 'NVRM: Xid')) where f.code <> '' ''').fetchone()[0])
"""


def main() -> None:
    """Print one line for each size and tool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[300, 2000])
    parser.add_argument("--share", type=float, default=0.0005)
    parser.add_argument("--keep", type=Path, help="folder for the files, which are then left there")
    args = parser.parse_args()
    folder = args.keep or Path(tempfile.mkdtemp(prefix="aftershock-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for megabytes in args.megabytes:
            measure(folder, megabytes, args.share)
    finally:
        if not args.keep:
            shutil.rmtree(folder)


def measure(folder: Path, megabytes: int, share: float) -> None:
    """All tools on one file."""
    log = folder / f"syslog-{megabytes}.log"
    xids = write_syslog(log, megabytes, share)
    size = log.stat().st_size / 1e6
    log.read_bytes()
    ours, memory = aftershock(log, folder / "out")
    print(
        f"{size:6.0f} MB, {xids} Xid lines: aftershock run {ours:.2f} s, {size / ours:.0f} MB/s, {memory} MB resident"
    )
    alone = reader(log)
    print(
        f"{'':10}its reader on one processor: {alone:.2f} s, {size / alone:.0f} MB/s with the signatures of all formats"
    )
    grep = best_of(3, lambda: check(["grep", "-cE", r"NVRM: Xid \(PCI:[0-9a-f:.]+\): [0-9]+", str(log)]))
    print(
        f"{'':10}grep -cE (finds lines only): {grep:.2f} s, {size / grep:.0f} MB/s, "
        f"ours is {grep / ours:.2f} times as fast"
    )
    try:
        duck = best_of(3, lambda: check([sys.executable, "-c", DUCKDB, str(log)]))
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"{'':10}duckdb: not measured ({error})")
        return
    print(f"{'':10}duckdb, five fields: {duck:.2f} s, {size / duck:.0f} MB/s, ours is {duck / ours:.2f} times as fast")


if __name__ == "__main__":
    main()
