"""What travels between the steps of a run."""

from __future__ import annotations

import copyreg
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.pipeline.conftest import RunJob
from tests.pipeline.test_run import SLURM


def test_no_batch_travels_as_what_pickle_makes_of_it(
    run_job: RunJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(batch: Any) -> Any:
        raise AssertionError(f"a batch of {batch.schema.metadata} is pickled")

    monkeypatch.setitem(copyreg.dispatch_table, pa.RecordBatch, refuse)
    run_job(SLURM, out=tmp_path / "out")
