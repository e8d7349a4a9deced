"""What each host read, wrote and waited for on shared storage, over all time.

From the client's own counters of NFS (node_exporter with ``--collector.mountstats``, which is off by default):
``total_`` bytes are those that went over the wire, the others those of system calls. The time of a request is its time
in the queue, on the wire and at the server. How busy GPUs were tells a load of a checkpoint from other reading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from aftershock.parsers.prometheus.columns import NAME, Labels, SeriesBatch
from aftershock.pipeline.metrics.cells import ADD, Cells
from aftershock.pipeline.metrics.gathered import Known
from aftershock.pipeline.metrics.stitched import Stitched
from aftershock.pipeline.metrics.window_join import Floats

SAVE: Final = "save"
LOAD: Final = "load"
BUSY: Final = "busy"
_SEEN: Final = "busy_seen"
BACKLOG: Final = "backlog"
SENDS: Final = "sends"
RETRANSMITTED: Final = "retransmitted"

_MOUNT: Final = "node_mountstats_nfs_"
_OPERATIONS: Final = {"WRITE": SAVE, "READ": LOAD}
# Quantity, and which is taken of several that say the same: the lowest.
_COUNTERS: Final[Mapping[str, tuple[str, int]]] = {
    f"{_MOUNT}total_write_bytes_total": (SAVE, 0),
    f"{_MOUNT}total_read_bytes_total": (LOAD, 0),
    f"{_MOUNT}write_bytes_total": (SAVE, 2),
    f"{_MOUNT}read_bytes_total": (LOAD, 2),
    f"{_MOUNT}transport_backlog_queue_total": (BACKLOG, 0),
    f"{_MOUNT}transport_sends_total": (SENDS, 0),
    "node_nfs_rpc_retransmissions_total": (RETRANSMITTED, 0),
}
# By the operation that a label names; bytes with the heads of the requests.
_BY_OPERATION: Final[Mapping[str, str]] = {
    f"{_MOUNT}operations_sent_bytes_total": "sent",
    f"{_MOUNT}operations_received_bytes_total": "received",
    f"{_MOUNT}operations_requests_total": "requests",
    f"{_MOUNT}operations_queue_time_seconds_total": "queue_s",
    f"{_MOUNT}operations_response_time_seconds_total": "response_s",
    f"{_MOUNT}operations_request_time_seconds_total": "request_s",
}
_BYTES: Final = {("sent", "WRITE"): SAVE, ("received", "READ"): LOAD}
# Metric, which of several is taken, and what a busy GPU shows.
_BUSY: Final[Mapping[str, tuple[int, float]]] = {
    "DCGM_FI_DEV_GPU_UTIL": (0, 100.0),
    "all_smi_gpu_utilization": (1, 100.0),
    "nvidia_smi_utilization_gpu_ratio": (2, 1.0),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": (3, 1.0),
}

METRICS: Final = frozenset({*_COUNTERS, *_BY_OPERATION, *_BUSY})
_PRIORITIES: Final = 4


@dataclass(frozen=True)
class _Told:
    """What a series says: a quantity, its rank among those that say the same, and the value that stands for 1."""

    quantity: str
    rank: int
    unit: float = 1.0


def _told(labels: Labels) -> _Told | None:
    by_name = dict(labels)
    metric = by_name.get(NAME, "")
    if metric in _COUNTERS:
        return _Told(*_COUNTERS[metric])
    if metric in _BUSY:
        rank, unit = _BUSY[metric]
        return _Told(BUSY, rank, unit)
    what, operation = _BY_OPERATION.get(metric), by_name.get("operation", "")
    if what is None or operation not in _OPERATIONS:
        return None
    if what in ("sent", "received"):
        moved = _BYTES.get((what, operation))
        return _Told(moved, 1) if moved else None
    return _Told(f"{what}:{_OPERATIONS[operation]}", 0)


class StorageCells:
    """Sums over the mounts and GPUs of each host, by cell of time."""

    def __init__(self, step_ms: int) -> None:
        self._cells = Cells(ADD, step_ms)
        self._stitched = Stitched()

    @property
    def step_ms(self) -> int:
        """Length of a cell."""
        return self._cells.step_ms

    def take(self, batch: SeriesBatch, known: Sequence[Known]) -> None:
        """Add the samples of a batch."""
        for at, one in enumerate(known):
            told = _told(one.labels) if one.metric in METRICS and one.subject.host else None
            if told is None:
                continue
            own = slice(int(batch.begins[at]), int(batch.begins[at + 1]))
            times, values = batch.times[own], batch.values[own]
            key = (told.quantity, str(told.rank), one.subject.host or "")
            if told.quantity != BUSY:
                for piece in self._stitched.counted(one.series_id, times, values):
                    self._cells.spread(key, piece.begin, piece.end, piece.by)
                continue
            for level_times, levels in self._stitched.levels(one.series_id, times, values):
                self._cells.put(key, level_times, levels / told.unit)
                self._cells.put((_SEEN, *key[1:]), level_times, np.ones(len(levels)))

    def hosts(self) -> list[str]:
        """Hosts of which it is known what they read or wrote, sorted."""
        return sorted({host for quantity, _, host in self._cells.held() if quantity in (SAVE, LOAD)})

    def span(self) -> tuple[int, int]:
        """First cell, and the one behind the last."""
        return self._cells.span()

    def of(self, quantity: str, host: str, first: int, end: int) -> Floats:
        """A quantity of a host in cells [first, end): sums within each, not a number where nothing is known.

        Of what several metrics say the first is taken that says anything at all of the host.
        """
        for rank in range(_PRIORITIES):
            values = self._cells.values((quantity, str(rank), host), first, end)
            if quantity == BUSY:
                values = values / self._cells.values((_SEEN, str(rank), host), first, end)
            if not np.isnan(values).all():
                return values
        return np.full(end - first, np.nan)
