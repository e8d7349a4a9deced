"""MLPerf Training: JSON behind ``:::MLLOG``, with a time in milliseconds since 1970.

    0: :::MLLOG {"namespace": "", "time_ms": 1715065028111, "event_type": "INTERVAL_START", "key": "run_start", ...

https://github.com/mlcommons/logging: mlperf_logging/mllog. ``run_start`` and ``run_stop`` (with a status) enclose the
timed run, ``eval_accuracy`` is an evaluation. ``step`` among the metadata counts samples or tokens with some
submitters, and so no step is taken from it; ``samples_count`` says what it is. Records are cut and glued: each begins
anew at its word.
"""

from __future__ import annotations

import json
from typing import Any, Final

from aftershock.parsers.clock import Reading
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.evaluations import BESIDE
from aftershock.parsers.training.marks import SUCCESS
from aftershock.parsers.training.rules import Match, Rule, Said, Told
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import TrainingStep

_KINDS: Final = {
    "run_start": "start",
    "run_stop": "exit",
    "eval_accuracy": "validation",
    "eval_error": "validation",
    "eval_loss": "validation",
}
# Told as they are: the intervals in which a run spends its time.
_INTERVALS: Final = frozenset(
    {
        *("init_start", "init_stop", "epoch_start", "epoch_stop", "block_start", "block_stop", "eval_start"),
        *("eval_stop", "staging_start", "staging_stop", "cache_clear_start", "cache_clear_stop"),
    }
)
_LOSSES: Final = ("train_loss", "reduced_train_loss", "loss")
_GOOD_TIME: Final = range(946_684_800_000, 4_102_444_800_000)  # the years 2000 to 2099


def _read(found: Match, _said: Said) -> Told | None:
    try:
        record: Any = json.loads(found["json"])
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("key"), str):
        return None
    millis = record.get("time_ms")
    if not isinstance(millis, int) or isinstance(millis, bool) or millis not in _GOOD_TIME:
        return None
    reading = Reading("epoch", millis * 1000, None, None, 1000, str(millis))
    metadata = record.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return _row(record["key"], record.get("value"), metadata, reading)


def _row(key: str, value: Any, metadata: dict[str, Any], reading: Reading) -> Told | None:
    if key == "tracked_stats" or key in ("train_loss", "loss"):
        stats = value if isinstance(value, dict) else {key: value}
        loss = next((_float(stats[name]) for name in _LOSSES if name in stats), None)
        if loss is None:
            return None
        step = TrainingStep(loss=loss, samples=_int(metadata.get("samples_count")))
        step.step_time_s = _float(stats.get("train_step_time"))
        return Told(step, reading)
    kind = _KINDS.get(key) or (key if key in _INTERVALS else None)
    if kind is None:
        return None
    event = TrainingEvent(kind=kind)
    status = metadata.get("status")
    if key == "run_stop" and isinstance(status, str) and status != "success":
        event.error = f"status {status}"[:200]
    mark = BESIDE if kind == "validation" else SUCCESS if key == "run_stop" and status == "success" else None
    return Told(event, reading, mark)


def _float(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


RULES: Final = (
    Rule(
        words=(b":::MLLOG {", b":::MLL {"),
        shape=later(rb":::MLL(?:OG)? (?P<json>\{(?:(?!:::MLL)[^\r\n])*\})"),
        row=_read,
    ),
)

SAMPLES: Final = (
    Sample(
        '0: :::MLLOG {"namespace": "", "time_ms": 1772360430111, "event_type": "INTERVAL_START", "key": "run_start", "v'
        'alue": null, "metadata": {"file": "/w/calls.py", "lineno": 145}}\n'
        '0: :::MLLOG {"namespace": "", "time_ms": 1772360500000, "event_type": "POINT_IN_TIME", "key": '
        '"eval_accuracy", '
        '"value": 0.93, "metadata": {"file": "/w/calls.py", "lineno": 181, "samples_count": 1536}}\n'
        '0: :::MLLOG {"namespace": "", "time_ms": 1772360600000, "event_type": "INTERVAL_END", "key": "run_stop", '
        '"value"'
        ': 0.92, "metadata": {"file": "/w/calls.py", "lineno": 184, "samples_count": 3072, "status": "success"}}\n',
        (
            expect("training_events", kind="start", time_basis="epoch", time=1772360430111000),
            expect("training_events", kind="validation", step=None),
            expect("training_events", kind="exit", error_role=None, error=None),
        ),
        title="MLPerf",
        url="https://github.com/mlcommons/logging",
    ),
    Sample(
        ':::MLLOG {"namespace": "", "time_ms": 1772360430111, "event_type": "POINT_IN_TIME", "key": "tracked_stats", '
        '"value": {"train_step_ti:::MLLOG {"namespace": "", "time_ms": 1772360431000, "event_type": "POINT_IN_TIME", '
        '"key": "tracked_stats", "value": {"train_loss": 2.5}, "metadata": {"samples_count": 768, "step": 768}}\n',
        (expect("training_steps", step=None, loss=2.5, samples=768),),
        title="MLPerf: a torn record before a good one",
    ),
)

NON_SAMPLES: Final = (
    ':::MLLOG {"namespace": "", "time_ms": 1772360430111, "event_type": "POINT_IN_TIME", "key": "tracked_stats", '
    '"value": {"throughput": 0.97}, "metadata": {"file": "/w/calls.py", "lineno": 161, "step": 1536}}\n',
    ':::MLLOG {"namespace": "", "time_ms": 17723604, "event_type": "POINT_IN_TIME", "key": "seed", "value": 1}\n',
    ":::MLLOG {\n",
)
