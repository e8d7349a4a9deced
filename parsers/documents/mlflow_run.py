"""What MLflow notes of a run, ``mlruns/EXPERIMENT/RUN/meta.yaml``: when it started, when and how it ended.

    end_time: 1772364030000
    lifecycle_stage: active
    run_id: 4f1c0a5e
    start_time: 1772360430000
    status: 4

Times are milliseconds since 1970. States are RunStatus of ``mlflow/protos/service.proto``, as number or as word; a run
that was killed with its host stays RUNNING.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK, Reading
from aftershock.parsers.documents.text_lines import chunks_of, lines_of
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.schemas.events import TrainingEvent

_LINE: Final = re.compile(rb"(?P<key>[a-z_]{2,32}): ?(?P<value>.{0,1024}?)\s*\Z", re.DOTALL)
_MILLIS: Final = re.compile(r"[0-9]{13}\Z")
_NEEDED: Final = frozenset({"lifecycle_stage", "status", "start_time"})
_STATES: Final = {"1": "RUNNING", "2": "SCHEDULED", "3": "FINISHED", "4": "FAILED", "5": "KILLED"}
_ENDED: Final = frozenset({"FINISHED", "FAILED", "KILLED"})
# Keys that a file may have: a few more than MLflow writes.
_MOST_KEYS: Final = 64


def detects(head: Head) -> float:
    """Sure of the keys that only a run has."""
    keys = {found["key"].decode("ascii") for line in head.lines() if (found := _LINE.match(line))}
    return 0.9 if keys >= _NEEDED and not keys.isdisjoint({"run_id", "run_uuid"}) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The start and the end of the run."""
    values: dict[str, str] = {}
    for _, line in lines_of(chunks_of(stream)):
        found = _LINE.match(line)
        if found is not None and len(values) < _MOST_KEYS:
            values.setdefault(found["key"].decode("ascii"), found["value"].decode("utf-8", "replace").strip("'\""))
    if not values.keys() >= _NEEDED:
        yield Refused(0, 0, "mlflow_run: not the notes of a run")
        return
    run = ", ".join(text for key in ("run_id", "run_name") if (text := values.get(key)))
    started, ended = _clock(values["start_time"]), _clock(values.get("end_time", ""))
    status = _STATES.get(values["status"], values["status"])
    if started is not NO_CLOCK:
        yield Found(TrainingEvent(kind="start", message=f"run of MLflow: {run}"), started, 0)
    if ended is not NO_CLOCK or status in _ENDED:
        event = TrainingEvent(kind="exit", message=f"run of MLflow: {run}: {status}")
        if started.wall is not None and ended.wall is not None and ended.wall >= started.wall:
            event.duration_s = (ended.wall - started.wall) / 1e6
        if status in ("FAILED", "KILLED"):
            event.error_class, event.error_role, event.error = "unknown", "symptom", f"status {status}"
        yield Found(event, ended, 0)


def _clock(printed: str) -> Reading:
    if not _MILLIS.match(printed):
        return NO_CLOCK
    return Reading("epoch", int(printed) * 1000, resolution=1000, text=printed)


FORMAT: Final = DocumentFormat(
    name="mlflow_run",
    doc="What MLflow notes of a run in `meta.yaml`: its start and its end, and whether it failed or was killed.",
    url="https://mlflow.org/docs/latest/ml/tracking/backend-stores/",
    tables=("training_events",),
    detects=detects,
    read=read,
    samples=(
        Sample(
            "artifact_uri: file:///data/mlruns/0/4f1c0a5e/artifacts\nend_time: 1772364030000\nentry_point_name: ''\n"
            "experiment_id: '0'\nlifecycle_stage: active\nrun_id: 4f1c0a5e\nrun_name: bold-crane-17\n"
            "run_uuid: 4f1c0a5e\nsource_name: ''\nsource_type: 4\nstart_time: 1772360430000\nstatus: 4\ntags: []\n"
            "user_id: mira\n",
            (
                expect("training_events", kind="start", time=1772360430000000, time_basis="epoch"),
                expect("training_events", kind="exit", error="status FAILED", duration_s=3600.0, error_role="symptom"),
            ),
        ),
        Sample(
            "end_time: null\nlifecycle_stage: active\nrun_id: 4f1c0a5f\nstart_time: 1772360430000\nstatus: 1\n",
            (expect("training_events", kind="start", time=1772360430000000),),
            title="Still running, or killed with its host",
        ),
    ),
    non_samples=(
        "artifact_location: file:///data/mlruns/0\nexperiment_id: '0'\nlifecycle_stage: active\nname: Default\n",
        "status: ok\nstart_time: 1772360430000\n",
    ),
)
