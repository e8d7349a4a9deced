"""What the tests of training output share: a text as its settled rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aftershock.parsers.selfcheck import rows_of_text
from aftershock.parsers.training import FORMAT
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import Checkpoint, TrainingStep

SAMPLES = Path(__file__).parents[2] / "samples" / "training"


def rows_of(text: str | bytes) -> list[Any]:
    """All rows, as if local times were UTC."""
    return list(rows_of_text(text, FORMAT))


def steps_of(text: str | bytes) -> list[TrainingStep]:
    return [row for row in rows_of(text) if isinstance(row, TrainingStep)]


def events_of(text: str | bytes, kind: str | None = None) -> list[TrainingEvent]:
    return [row for row in rows_of(text) if isinstance(row, TrainingEvent) and kind in (None, row.kind)]


def checkpoints_of(text: str | bytes) -> list[Checkpoint]:
    return [row for row in rows_of(text) if isinstance(row, Checkpoint)]


def megatron(step: int, total: int = 1000, stamp: str = "", **changed: str) -> str:
    """A step line of Megatron-LM without its newline; a segment is left out where its value is empty."""
    segments = {
        "consumed samples": f"{step * 256:12d}",
        "elapsed time per iteration (ms)": "1234.5",
        "learning rate": "1.500000E-04",
        "global batch size": "  256",
        "lm loss": f"{2 + 1 / step:.6E}",
        "loss scale": "1.0",
        "grad norm": "0.512",
        "number of skipped iterations": "  0",
        "number of nan iterations": "  0",
    } | {key.replace("_", " "): value for key, value in changed.items()}
    head = f" [{stamp}] iteration" if stamp else " iteration"
    return f"{head} {step:8d}/{total:8d} |" + "".join(f" {key}: {v} |" for key, v in segments.items() if v)
