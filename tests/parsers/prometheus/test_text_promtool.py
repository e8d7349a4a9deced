"""What promtool prints of a block that it made is what the reader of blocks finds in it."""

from __future__ import annotations

import math
import shutil
import subprocess
from pathlib import Path

import pytest

from aftershock.parsers.documents import openmetrics, promtool_dump
from aftershock.parsers.prometheus.columns import Labels
from tests.parsers.prometheus.blocks import Samples, read
from tests.parsers.prometheus.texts import samples_of, series_in

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")

BEGAN = 1_772_366_400_000
VALUES = ("NaN", "+Inf", "-Inf", "1e-300", "9007199254740993", "0.1", "-0", "1e+06", "123456789.123456789", "17")
LABELS = r'gpu="3",odd="quote\"back\\slash\nnewline é} # {x=1} 2 3",empty=""'


def plain(found: dict[Labels, Samples]) -> dict[Labels, Samples]:
    """Bounds of buckets as they are exposed: whether ``1`` is kept as ``1.0`` hangs on the version of promtool."""
    return {
        tuple((name, value.removesuffix(".0") if name == "le" else value) for name, value in labels): samples
        for labels, samples in found.items()
    }


def test_dumps_are_read_as_the_blocks_are(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    exposed = "# TYPE temp gauge\n" + "".join(
        f"temp{{{LABELS}}} {value} {(BEGAN + 15_000 * i + i) / 1000}\n" for i, value in enumerate(VALUES)
    )
    exposed += "# TYPE rpc histogram\n" + "".join(
        f'rpc_bucket{{le="{bound}"}} {i} {BEGAN / 1000} # {{trace="a"}} 0.5\n' for i, bound in enumerate(("1", "+Inf"))
    )
    (tmp_path / "in.txt").write_text(exposed + "# EOF\n")
    command = [PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", str(tmp_path / "in.txt"), str(tmp_path / "data")]
    subprocess.run(command, check=True, capture_output=True)
    (tmp_path / "data" / "wal").mkdir()
    dump = [PROMTOOL, "tsdb", "dump", str(tmp_path / "data")]
    printed = subprocess.run(dump, check=True, capture_output=True).stdout
    found = plain(series_in(promtool_dump.read_metrics, printed))
    batches = [batch for block in sorted((tmp_path / "data").glob("*/index")) for batch in read(block.parent)[0]]
    stored = plain(samples_of(batches))
    given = plain(series_in(openmetrics.read_metrics, exposed))
    assert len(found) == 3
    for other in (stored, given):
        assert found.keys() == other.keys()
        for labels, samples in found.items():
            assert [time for time, _ in samples] == [time for time, _ in other[labels]]
            pairs = zip(samples, other[labels], strict=True)
            assert all(one == two or (math.isnan(one) and math.isnan(two)) for (_, one), (_, two) in pairs)
