"""Orbax, which saves and loads for trainers on JAX: when a save begins and when all of it has come to its end.

    I0301 10:20:30.123456 1406 checkpoint_manager.py:1527] [process=0] Saving checkpoint at step 5000
    I0301 10:20:31.123456 1406 event_tracking.py:171] [process=0] [async] Finished blocking save in 0.81 seconds. ...
    I0301 10:20:42.123456 1406 event_tracking.py:186] [process=0] [async] Finished save (blocking + background) in
        12.35 seconds @ gs://bucket/run/checkpoints/5000

https://github.com/google/orbax: checkpoint_manager.py, _src/logging/event_tracking.py. Each process prints its own
lines. The end of the blocking part of an async save is none. Sizes are told per host, and so not of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.rules import Match, Rule, Said, event, number, whole
from aftershock.parsers.training.saves import NO_END
from aftershock.schemas.events import TrainingEvent

_BEGIN: Final = event("save_begin")


def _read_begin(found: Match, said: Said) -> Iterator[TrainingEvent]:
    yield _BEGIN(found, said)
    if found["preempted"]:
        yield TrainingEvent(
            kind="error", error_class="preemption", error_role="root", error=text_of(found["text"]).strip()
        )


def _read_end(found: Match, _said: Said) -> TrainingEvent:
    row = TrainingEvent(kind=f"{text_of(found['what'])}_end", step=whole(found["step"]))
    row.duration_s, row.path = number(found["duration"]), text_of(found["path"])
    return row


RULES: Final = (
    Rule(
        words=(b"Saving checkpoint at step ",),
        shape=later(
            rb"\A\[process=\d{1,6}\] (?P<text>Saving checkpoint at step (?P<step>\d{1,12})"
            rb"(?P<preempted> due to preemption)?)\.?\s*\Z"
        ),
        row=_read_begin,
        mark=NO_END,
    ),
    Rule(
        words=(b"Finished save", b"Finished load", b"Finished async_save"),
        shape=later(
            rb"\A\[process=\d{1,6}\] (?:\[a?sync\] )?Finished (?:async_)?(?P<what>save|load)"
            rb"(?: \(blocking \+ background\))?(?: in |\. Time taken: )(?P<duration>\d{1,9}(?:\.\d{1,9})?)"
            rb"(?: seconds @ |s\. directory=)(?P<path>\S{1,1000}?(?:/(?P<step>\d{1,12}))?)\.?\s*\Z"
        ),
        row=_read_end,
    ),
    Rule(
        words=(b"Finished saving checkpoint (finalized tmp dir) to `",),
        shape=later(
            rb"Finished saving checkpoint \(finalized tmp dir\) to `(?P<path>[^`\s]{1,1000}?(?:/(?P<step>\d{1,12}))?)`"
        ),
        row=event("save_end"),
    ),
    Rule(
        words=(b"Restoring checkpoint from ",),
        shape=later(rb"\ARestoring checkpoint from (?P<path>\S{1,1000}?(?:/(?P<step>\d{1,12}))?(?:/default)?)\.\s*\Z"),
        row=event("load_begin"),
    ),
)

SAMPLES: Final = (
    Sample(
        "I0301 10:20:30.123456 1406 checkpoint_manager.py:1527] [process=0] Saving checkpoint at step 5000\n"
        "I0301 10:20:31.123456 1406 event_tracking.py:171] [process=0] [async] Finished blocking save in 0.81 seconds. "
        "Continuing save @ gs://bucket/run/checkpoints/5000.\n"
        "I0301 10:20:42.473456 1406 event_tracking.py:186] [process=0] [async] Finished save (blocking + background) "
        "in 12.35 seconds @ gs://bucket/run/checkpoints/5000\n",
        (
            expect("training_events", kind="save_begin", step=5000),
            expect("checkpoints", kind="save", step=5000, complete=True, path="gs://bucket/run/checkpoints/5000"),
            expect("training_events", kind="save_end", step=5000, duration_s=12.35),
        ),
        title="Orbax",
        url="https://github.com/google/orbax",
    ),
    Sample(
        "I0301 10:20:42.473456 140641718562816 atomicity.py:845] [process=0][thread=async_save] Finished saving "
        "checkpoint (finalized tmp dir) to `gs://bucket/run/checkpoints/5000`.\n",
        (
            expect("training_events", kind="save_end", step=5000, path="gs://bucket/run/checkpoints/5000"),
            expect("checkpoints", kind="save", step=5000, complete=True),
        ),
        title="Orbax: the last rename",
        url="https://github.com/google/orbax",
    ),
    Sample(
        "I0301 10:20:30.123456 1406 checkpoint_manager.py:1433] [process=0] Saving checkpoint at step 5000 due to "
        "preemption.\n",
        (
            expect("training_events", kind="save_begin", step=5000),
            expect("training_events", kind="error", error_class="preemption", error_role="root"),
            expect("checkpoints", kind="save", step=5000),
        ),
        title="Orbax: preemption",
    ),
)

NON_SAMPLES: Final = (
    "I0301 10:20:31.123456 1406 event_tracking.py:171] [process=0] [async] Finished blocking save in 0.81 seconds. "
    "Continuing save @ gs://bucket/run/checkpoints/5000.\n",
    "Saving checkpoint at step ends is on\n",
)
