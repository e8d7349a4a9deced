"""Ray Train: results that workers report, each rank its own, and the checkpoints that go with them.

    (RayTrainWorker pid=811) Checkpoint successfully created at: Checkpoint(filesystem=local, path=/out/checkpoint_1)
    (RayTrainWorker pid=811) Reporting training result 10: TrainingReport(checkpoint=Checkpoint(filesystem=local, ...

https://docs.ray.io/en/latest/train: ray/train/v2/_internal/execution. The metrics are what the script reports: the step
is among them or it is not known (the number of the result goes on over restarts). A checkpoint is created when it has
been stored; the report behind it tells its step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.rules import Made, Match, Rule, Said, event, whole
from aftershock.parsers.training.values import has_loss, step_from
from aftershock.schemas.events import TrainingEvent

_PAIR: Final = re.compile(rb"'([^'\n]{1,80})': ([^,{}'\"\n]{1,60})")


def _read_report(found: Match, _said: Said) -> Iterator[Made]:
    values = {text_of(name).lower(): text_of(value).strip() for name, value in _PAIR.findall(found["metrics"])}
    row = step_from(values)
    if has_loss(values) or row.step is not None:
        yield row
    if found["path"] and row.step is not None:
        rank = whole(found["rank"])
        yield TrainingEvent(kind="save_end", step=row.step, path=text_of(found["path"]), rank=rank)


RULES: Final = (
    Rule(
        words=(b"Reporting training result ",),
        shape=later(
            rb"Reporting training result \d{1,12}: TrainingReport\(checkpoint="
            rb"(?:None|Checkpoint\([^)\n]{0,200}?path=(?P<path>[^),\s]{1,1000})\)), metrics=\{(?P<metrics>[^}\n]{0,40"
            rb"00})\}"
            rb"(?:[^\n]{0,60}? from rank (?P<rank>\d{1,7}))?"
        ),
        row=_read_report,
    ),
    Rule(
        words=(b"Checkpoint successfully created at: ",),
        shape=later(rb"Checkpoint successfully created at: Checkpoint\([^)\n]{0,200}?path=(?P<path>[^),\s]{1,1000})\)"),
        row=event("save_end"),
    ),
)

SAMPLES: Final = (
    Sample(
        "(RayTrainWorker pid=811, ip=10.0.0.7) Checkpoint successfully created at: Checkpoint(filesystem=local, "
        "path=/out/checkpoint_1)\n"
        "(RayTrainWorker pid=811, ip=10.0.0.7) Reporting training result 10: TrainingReport(checkpoint=Checkpoint("
        "filesystem=local, path=/out/checkpoint_1), metrics={'loss': 2.5, 'step': 10}, validation=False) from rank 0\n"
        "(RayTrainWorker pid=812, ip=10.0.0.8) Reporting training result 10: TrainingReport(checkpoint=None, "
        "metrics={'loss': 3.5, 'step': 10}, validation=False) from rank 1 [repeated 3x across cluster]\n",
        (
            expect("training_events", kind="save_end", step=10, path="/out/checkpoint_1"),
            expect("checkpoints", kind="save", step=10, path="/out/checkpoint_1", complete=True),
            expect("training_steps", step=10, loss=2.5, copies=2),
        ),
        title="Ray Train",
        url="https://docs.ray.io/en/latest/train/train.html",
    ),
)

NON_SAMPLES: Final = (
    "(TrainController pid=7) Requesting resources: {'GPU': 1} * 2\n",
    "Reporting training results is slow\n",
)
