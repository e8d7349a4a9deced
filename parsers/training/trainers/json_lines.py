"""Steps as JSON, one object a line, by whatever name: LLaMA-Factory, Swift, fairseq and metaseq, scripts of one's own.

    {"current_steps": 10, "total_steps": 1000, "loss": 1.25, "lr": 9.9e-05, "epoch": 0.1, "elapsed_time": "0:00:12"}
    2026-03-01 10:20:30 | INFO | train_inner | {"epoch": 1, "update": 0.05, "loss": "9.8", "num_updates": "100", ...}
    {"step": 100, "loss": 2.31, "timestamp": "2026-03-01T10:20:30Z"}

https://github.com/hiyouga/LLaMA-Factory: train/callbacks.py; https://github.com/facebookresearch/fairseq: logging/
progress_bar.py. An object is a step if it has a loss and a step; one without a step is nobody's, for other programs
have a loss too.
"""

from __future__ import annotations

import json
from typing import Any, Final

from aftershock.parsers.clock import Reading
from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.prefixes import reading_of
from aftershock.parsers.training.rules import Match, Rule, Said, Told
from aftershock.parsers.training.values import step_from
from aftershock.schemas.events import TrainingEvent

_TIMES: Final = ("timestamp", "@timestamp", "_timestamp", "time", "ts", "datetime", "asctime", "date", "wall_time")
_VALIDATION: Final = ("eval_loss", "valid_loss", "val_loss", "validation_loss", "eval/loss", "val/loss", "valid/loss")
# Seconds from 2000 to 2100: smaller numbers are times since the beginning of the run.
_EARLIEST, _LATEST = 946_684_800, 4_102_444_800


def _read(found: Match, _said: Said) -> Told | None:
    try:
        record: Any = json.loads(found["json"])
    except (ValueError, RecursionError):
        return None
    values: dict[str, str] = {}
    _flatten(record, values)
    row = step_from({**values, "step": values.get("step", values.get("valid_num_updates", ""))})
    if row.step is None:
        return None
    reading = _reading_of(values)
    if row.loss is not None:
        return Told(row, reading)
    if any(name in values for name in _VALIDATION):
        return Told(TrainingEvent(kind="validation", step=row.step), reading)
    return None


def _flatten(record: object, values: dict[str, str]) -> None:
    """Numbers and words by their names; those of an object within (``metrics``, ``data``) stand with the others."""
    if not isinstance(record, dict):
        return
    for name, value in record.items():
        if isinstance(value, dict):
            for inner, one in value.items():
                if isinstance(one, (int, float, str)) and not isinstance(one, bool):
                    values.setdefault(str(inner).lower(), _text(one))
        elif isinstance(value, (int, float, str)) and not isinstance(value, bool):
            values[str(name).lower()] = _text(value)


def _text(value: float | str) -> str:
    return value[:100] if isinstance(value, str) else repr(value)


def _reading_of(values: dict[str, str]) -> Reading | None:
    for name in _TIMES:
        printed = values.get(name)
        if printed is None:
            continue
        reading = reading_of(printed.encode("utf-8", "replace"))
        if reading is not None:
            return reading
        try:
            seconds = float(printed)
        except ValueError:
            continue
        if seconds >= _EARLIEST * 1000:
            seconds /= 1000
        if _EARLIEST <= seconds <= _LATEST:
            return Reading("epoch", round(seconds * 1e6), None, None, 1000, text_of(printed.encode()))
    return None


RULES: Final = (
    Rule(
        words=(b'loss":',),
        scan=(b'"loss":', b'"train_loss":', b'"train/loss":', b'"valid_loss":', b'"val_loss":', b'"eval_loss":'),
        shape=later(rb"\A[^{\r\n]{0,200}(?P<json>\{\"[^\r\n]{0,16384}\})\s*\Z"),
        row=_read,
    ),
)

SAMPLES: Final = (
    Sample(
        '{"current_steps": 10, "total_steps": 1000, "loss": 1.25, "lr": 9.9e-05, "epoch": 0.1, "elapsed_time": '
        '"0:00:12", "remaining_time": "0:20:00"}\n'
        '{"current_steps": 100, "total_steps": 1000, "eval_loss": 1.11, "epoch": 1.0}\n',
        (
            expect("training_steps", step=10, total_steps=1000, loss=1.25, learning_rate=9.9e-05),
            expect("training_events", kind="validation", step=100),
        ),
        title="LLaMA-Factory: trainer_log.jsonl",
        url="https://github.com/hiyouga/LLaMA-Factory",
    ),
    Sample(
        '2026-03-01 10:20:30 | INFO | train_inner | {"epoch": 1, "update": 0.05, "loss": "9.8", "num_updates": "100", '
        '"lr": "2.5e-05", "gnorm": "1.2", "train_wall": "12"}\n'
        '2026-03-01 11:20:30 | INFO | valid | {"epoch": 1, "valid_loss": "9.1", "valid_num_updates": "2000"}\n',
        (
            expect(
                "training_steps",
                step=100,
                loss=9.8,
                grad_norm=1.2,
                learning_rate=2.5e-05,
            ),
            expect("training_events", kind="validation", step=2000),
        ),
        title="fairseq and metaseq: JSON",
        url="https://github.com/facebookresearch/fairseq",
    ),
    Sample(
        '{"step": 100, "metrics": {"loss": 2.31, "grad_norm": 0.5}, "timestamp": "2026-03-01T10:20:30Z"}\n'
        '{"iteration": "10/100", "loss": 2.5, "_timestamp": 1772360430.5}\n',
        (
            expect("training_steps", step=100, loss=2.31, time=1772360430000000, time_basis="zoned"),
            expect("training_steps", step=10, total_steps=100, loss=2.5, time=1772360430500000, time_basis="epoch"),
        ),
        title="Scripts of one's own",
    ),
)

NON_SAMPLES: Final = (
    '{"loss": 0.02, "interface": "eth0", "direction": "rx"}\n',
    '{"step": 1, "loss": null}\n',
    '{"step": 1, "loss":\n',
    'config: {"loss": "cross_entropy", "steps": 1000}\n',
)
