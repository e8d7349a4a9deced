"""Megatron-LM around its steps: checkpoints of all generations, clocks, and the progress file.

    [2026-03-01 10:20:30.123456] saving checkpoint at iteration      20 to /ckpt in torch_dist format
      [2026-03-01 10:20:31.023456] scheduled an async checkpoint save at iteration      20 to /ckpt
      successfully saved checkpoint from iteration      20 to /ckpt [ t 1/8, p 1/4 ]
    (min, max) time across ranks (ms):
        save-checkpoint ................................: (405.00, 405.02)
    [before the start of training step] datetime: 2026-03-01 10:20:30.123456
    2026-03-01 10:20:30<tab>Job ID: 4001<tab># GPUs: 64<tab>Starting job

https://github.com/NVIDIA/Megatron-LM: megatron/training/checkpointing.py, training.py, core/timers.py. Rank 0 prints
checkpoints, the last rank timers: their order is not certain. The timer of an async save stops when it is scheduled.
Several logs have no other clocks than those of the stages. The progress file lies in the folder of the checkpoints.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.marks import SUCCESS
from aftershock.parsers.training.prefixes import reading_of
from aftershock.parsers.training.rules import Match, Rule, Said, Told, event, number, whole
from aftershock.parsers.training.saves import TIMER
from aftershock.schemas.events import TrainingEvent

# Where a timer of a save may still stand below it, and what ends the search: the next save.
_TIMER_BYTES: Final = 4096
_NEXT: Final = re.compile(
    rb"saving checkpoint at iteration|scheduled an async checkpoint|uccessfully (?:saved|loaded)|loading [\w ]{0,24}c"
    rb"heckpoint from"
)


def _timer(name: bytes) -> re.Pattern[bytes]:
    """One timer in any of its shapes: of minimum and maximum, of the maximum, or in a row of many. Milliseconds."""
    value = rb"\d[\d.]{0,15}"
    return re.compile(
        name + rb"(?: \.{2,60})?: *(?:\(" + value + rb", *(?P<most>" + value + rb")\)|(?P<one>" + value + rb"))"
    )


_TIMERS: Final = {"save_end": _timer(rb"save-checkpoint"), "load_end": _timer(rb"load-checkpoint")}


def _ended(kind: str) -> Callable[[Match, Said], TrainingEvent]:
    """The end of a save or load; how long it took stands in a block of timers below it, or glued to it."""

    def read(found: Match, said: Said) -> TrainingEvent:
        groups = found.groupdict()
        row = TrainingEvent(kind=kind, step=whole(groups.get("step")))
        row.path = text_of(groups["path"]) if groups.get("path") else None
        below = said.message[found.end() :] + b"\n" + said.rest[:_TIMER_BYTES]
        other = _NEXT.search(below)
        timer = _TIMERS[kind].search(below, 0, other.start() if other else len(below))
        millis = number(timer["most"] or timer["one"]) if timer is not None else None
        row.duration_s = None if millis is None else round(millis / 1000, 6)
        return row

    return read


def _read_clock(found: Match, _said: Said) -> Told:
    label = found["label"]
    kind = "clock"
    if label == b"before the start of training step":
        kind = "start"
    elif label == b"after training is done" or label.startswith((b"exiting program", b"Detected kill switch")):
        kind = "exit"
    at = re.search(rb"at iteration (\d{1,12})", label)
    row = TrainingEvent(kind=kind, step=whole(at[1]) if at else None)
    return Told(row, reading_of(found["time"]), SUCCESS if label == b"after training is done" else None)


_PROGRESS: Final = {
    b"Starting job": "start",
    b"Saved checkpoint": "save_end",
    b"Saving async checkpoint": "save_scheduled",
    b"Saved async checkpoint": "save_end",
    b"Saved async local checkpoint": "save_end",
    b"Deleted checkpoint": "checkpoint_deleted",
}


def _read_progress(found: Match, _said: Said) -> TrainingEvent:
    return TrainingEvent(kind=_PROGRESS[found["what"]], step=whole(found["step"]))


RULES: Final = (
    Rule(
        words=(b"saving checkpoint at iteration",),
        shape=later(rb"\bsaving checkpoint at iteration\s+(?P<step>\d{1,12}) to (?P<path>\S+)"),
        row=event("save_begin"),
    ),
    Rule(
        words=(b"scheduled an async checkpoint save at iteration",),
        shape=later(rb"scheduled an async checkpoint save at iteration\s+(?P<step>\d{1,12}) to (?P<path>\S+)"),
        row=event("save_scheduled"),
    ),
    Rule(
        words=(b"uccessfully saved checkpoint", b"uccessfully saved local checkpoint"),
        shape=later(
            rb"[Ss]uccessfully saved (?:local )?checkpoint (?:from|at) iteration\s+(?P<step>\d{1,12})"
            rb"(?: to (?P<path>\S+))?"
        ),
        row=_ended("save_end"),
        mark=TIMER,
    ),
    Rule(
        words=(b"checkpoint from ",),
        scan=(b"loading checkpoint from ", b"loading release ", b"loading distributed checkpoint "),
        shape=later(
            rb"\bloading (?:release )?(?:distributed )?checkpoint from (?P<path>\S+)"
            rb"(?: at iteration\s+(?P<step>\d{1,12}))?"
        ),
        row=event("load_begin"),
    ),
    Rule(
        words=(b"successfully loaded checkpoint from",),
        shape=later(
            rb"successfully loaded checkpoint from (?P<path>\S+)(?: +\[[^\]]{0,120}\])?"
            rb"(?: at iteration\s+(?P<step>\d{1,12}))?"
        ),
        row=_ended("load_end"),
        mark=TIMER,
    ),
    Rule(
        words=(b"will not load any checkpoints and will start from random",),
        shape=later(rb"will not load any checkpoints and will start from random"),
        row=event("load_missing", step=0),
    ),
    Rule(
        words=(b"successfully deleted checkpoint from iteration",),
        shape=later(rb"successfully deleted checkpoint from iteration\s+(?P<step>\d{1,12})(?: at (?P<path>\S+))?"),
        row=event("checkpoint_deleted"),
    ),
    Rule(
        words=(b"] datetime: ",),
        shape=later(
            rb"\[(?P<label>[A-Za-z][^\[\]\n]{2,120})\] datetime: "
            rb"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?)"
        ),
        row=_read_clock,
    ),
    Rule(
        words=(b"\t# GPUs: ",),
        shape=later(
            rb"\AJob ID: [^\t]{0,80}\t# GPUs: \d{1,7}\t(?P<what>Starting job|Sav(?:ed|ing) (?:async )?(?:local )?"
            rb"checkpoint|Deleted checkpoint)(?:\tIteration: (?P<step>\d{1,12}))?(?=\t|\s*\Z)"
        ),
        row=lambda found, said: _read_progress(found, said) if found["what"] in _PROGRESS else None,
    ),
)

SAMPLES: Final = (
    Sample(
        "saving checkpoint at iteration      20 to /ckpt in torch format\n"
        "  successfully saved checkpoint from iteration      20 to /ckpt [ t 1/1, p 1/1 ]\n"
        "(min, max) time across ranks (ms):\n    save-checkpoint ................................: (405.00, 405.02)\n",
        (
            expect("training_events", kind="save_begin", step=20, path="/ckpt"),
            expect("checkpoints", kind="save", step=20, path="/ckpt", complete=True, duration_s=0.40502),
            expect("training_events", kind="save_end", step=20, path="/ckpt", duration_s=0.40502),
        ),
        title="Megatron-LM: save and its timer",
    ),
    Sample(
        "[2026-03-01 10:20:30.000000] saving checkpoint at iteration    1000 to /ckpt in torch_dist format\n"
        "  [2026-03-01 10:20:31.500000] scheduled an async checkpoint save at iteration    1000 to /ckpt\n"
        "(min, max) time across ranks (ms):\n    save-checkpoint ................................: (1499.00, 1500.02)\n"
        "  [2026-03-01 10:21:00.000000] successfully saved checkpoint from iteration    1000 to /ckpt [ t 1/8, p 1/4 "
        "]\n",
        (
            expect("training_events", kind="save_begin", step=1000),
            expect("checkpoints", kind="save", step=1000, complete=True, duration_s=30.0),
            expect("training_events", kind="save_scheduled", step=1000),
            expect("training_events", kind="save_end", step=1000, duration_s=None),
        ),
        title="Megatron-LM: async save",
    ),
    Sample(
        " loading distributed checkpoint from /ckpt at iteration 1000\n"
        "  successfully loaded checkpoint from /ckpt [ t 1/8, p 1/4 ] at iteration 1000\n",
        (
            expect("training_events", kind="load_begin", step=1000, path="/ckpt"),
            expect("checkpoints", kind="load", step=1000, complete=True),
            expect("training_events", kind="load_end", step=1000, path="/ckpt", duration_s=None),
        ),
        title="Megatron-LM: load",
    ),
    Sample(
        "WARNING: could not find the metadata file /ckpt/latest_checkpointed_iteration.txt\n"
        "    will not load any checkpoints and will start from random\n"
        "[before the start of training step] datetime: 2026-03-01 10:20:30.123456 \n"
        "[after training is done] datetime: 2026-03-01 11:20:30 \n",
        (
            expect("training_events", kind="load_missing", step=0),
            expect("training_events", kind="start", time_local="2026-03-01 10:20:30.123456"),
            expect("training_events", kind="exit", time_local="2026-03-01 11:20:30"),
        ),
        title="Megatron-LM: begin and end",
    ),
    Sample(
        "2026-03-01 10:20:30\tJob ID: 4001\t# GPUs: 64\tStarting job\n"
        "2026-03-01 12:20:30\tJob ID: 4001\t# GPUs: 64\tSaved checkpoint\tIteration: 500\tJob throughput: 401.2 "
        "TFLOP/s/GPU\tCumulative throughput: 400.1 TFLOP/s/GPU\tFloating-point operations: 1.20e+21\tTokens (in "
        "billions): 2.10\n",
        (
            expect("training_events", kind="start", time_local="2026-03-01 10:20:30"),
            expect("training_events", kind="save_end", step=500),
            expect("checkpoints", kind="save", step=500, start_time=None, complete=True),
        ),
        title="Megatron-LM: progress.txt",
    ),
)

NON_SAMPLES: Final = (
    "WARNING: Starting a checkpoint save before previous has finished. Consider increasing the checkpoint interval.\n",
    "saving dataloader checkpoint at iteration 20 to /ckpt\n",
    "WARNING: could not find the metadata file /ckpt/latest_checkpointed_iteration.txt\n",
    "> setting save-checkpoint ................................: on\n",
)
