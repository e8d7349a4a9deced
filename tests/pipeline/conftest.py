"""Running the main job from tests: in process, on FnApiRunner, into a folder of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import aftershock
from aftershock.pipeline.options import RunOptions
from aftershock.pipeline.prepare import prepare
from aftershock.pipeline.run import run
from aftershock.results import Results

RunJob = Callable[..., Results]


@pytest.fixture
def run_job(tmp_path: Path) -> RunJob:
    """``run_job(*inputs, **options)``: the result of a run."""

    def job(*inputs: object, **options: Any) -> Results:
        out = options.pop("out", tmp_path / "out")
        given = {"timezone": "UTC", "year": 2026, "overwrite": True, **options}
        run(prepare(RunOptions(inputs=tuple(map(str, inputs)), out=str(out), **given)))
        return aftershock.open(out)

    return job
