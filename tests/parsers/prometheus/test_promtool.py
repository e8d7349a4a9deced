"""Blocks that Prometheus itself wrote, and blocks that it reads: promtool says the same as the reader."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from aftershock.parsers.prometheus.columns import Labels
from tests.parsers.prometheus.block_writer import write_block
from tests.parsers.prometheus.blocks import BEGAN, STEP, Samples, read, samples_of, series
from tests.parsers.prometheus.encoders import NAN

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")

LINE = re.compile(r"\{(?P<labels>.*)\} (?P<value>\S+) (?P<time>\d+)\Z")
LABEL = re.compile(r'(\w+)="([^"]*)"')

EXPOSED = "".join(
    f'temp_celsius{{gpu="{gpu}",Hostname="gpu001"}} {40 + (i * 7 + gpu) % 30} {(BEGAN + STEP * i) / 1000}\n'
    for gpu in range(3)
    for i in range(400)
)


def dumped(folder: Path) -> dict[Labels, Samples]:
    """What promtool prints of a data folder."""
    (folder / "wal").mkdir(exist_ok=True)
    assert PROMTOOL is not None
    out = subprocess.run([PROMTOOL, "tsdb", "dump", str(folder)], capture_output=True, text=True, check=True)
    found: dict[Labels, Samples] = {}
    for line in out.stdout.splitlines():
        match = LINE.match(line)
        assert match is not None, line
        labels = tuple(LABEL.findall(match["labels"]))
        found.setdefault(tuple(sorted(labels)), []).append((int(match["time"]), float(match["value"])))
    return found


def blocks_in(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob("*/index"))


def test_blocks_that_promtool_wrote_are_read(tmp_path: Path) -> None:
    text = "# HELP temp_celsius T.\n# TYPE temp_celsius gauge\n" + EXPOSED + "# EOF\n"
    (tmp_path / "in.txt").write_text(text)
    assert PROMTOOL is not None
    command = [PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", str(tmp_path / "in.txt"), str(tmp_path / "data")]
    subprocess.run(command, check=True, capture_output=True)
    found: dict[Labels, Samples] = {}
    for block in blocks_in(tmp_path / "data"):
        batches, refused = read(block)
        assert refused == []
        for labels, samples in samples_of(batches).items():
            found.setdefault(labels, []).extend(samples)
    theirs = dumped(tmp_path / "data")
    assert {labels: sorted(own) for labels, own in found.items()} == {k: sorted(v) for k, v in theirs.items()}
    assert sum(map(len, found.values())) == 1200


def test_blocks_of_the_tests_are_blocks(tmp_path: Path) -> None:
    samples = [(BEGAN + STEP * i + i % 3, math.sin(i) if i % 5 else float(i)) for i in range(500)]
    written = [series(f"m{i}", samples[i * 10 :], gpu=str(i)) for i in range(5)]
    stones = [(3, BEGAN, BEGAN + 100 * STEP)]
    block = write_block(tmp_path / "data" / "01KJTESTB10CK0000000000000", written, stones=stones)
    batches, refused = read(block)
    assert refused == []
    assert samples_of(batches) == dumped(tmp_path / "data")


def test_a_nan_stays_one(tmp_path: Path) -> None:
    written = [series("m", [(BEGAN, 1.0), (BEGAN + STEP, NAN)])]
    write_block(tmp_path / "data" / "01KJTESTB10CK0000000000000", written)
    ((_, samples),) = dumped(tmp_path / "data").items()
    assert math.isnan(samples[1][1])
