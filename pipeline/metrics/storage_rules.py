"""What the storage can give and what counts as a checkpoint on it: ``[storage]`` of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aftershock.pipeline.config_values import Check, number, seconds, share


@dataclass(frozen=True)
class StorageConfig:
    """Bytes per second and seconds; sums over the hosts of the cluster.

    read_bytes_per_s, write_bytes_per_s: what the storage can give; null if nobody says.
    save_above_bytes_per_s: more than this is written only by a save.
    load_above_bytes_per_s: more than this is read only by a load, if the GPUs of the hosts that read are busy for less
        than ``load_gpu_below``, a share of 1.
    merge_gap_s: two intervals with less between them are one. least_s: shorter ones are none.
    """

    read_bytes_per_s: float | None = None
    write_bytes_per_s: float | None = None
    save_above_bytes_per_s: float = 20e9
    load_above_bytes_per_s: float = 2e9
    load_gpu_below: float = 0.5
    merge_gap_s: float = 60.0
    least_s: float = 0.0


CHECKS: Final[Mapping[str, Check]] = {
    "read_bytes_per_s": number,
    "write_bytes_per_s": number,
    "save_above_bytes_per_s": number,
    "load_above_bytes_per_s": number,
    "load_gpu_below": share,
    "merge_gap_s": seconds,
    "least_s": seconds,
}
