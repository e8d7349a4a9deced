"""Folders that are one input: a block of Prometheus, a shard of Parquet. They are told by the names that stand in them.

Prometheus, Thanos, Mimir and Cortex keep blocks as folders, by themselves or below others (a data folder, a tenant of a
bucket). The head of a Prometheus, which is not yet a block, is named, so that the person knows what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

TSDB: Final = "tsdb"
PARQUET: Final = "parquet_common"

_SEGMENT: Final = re.compile(r"\d{6}\Z")
_SHARD: Final = re.compile(r"(\d+)\.(labels|chunks)\.parquet\Z")
_HEAD_NAMES: Final = frozenset({"wal", "wbl", "chunks_head"})
_HEAD_FILE: Final = re.compile(r"(?:\d{6,8}|(?:\w+\.)?checkpoint\.\d+|chunk_snapshot\..*)\Z")

HEAD_REASON: Final = (
    "the newest samples of a Prometheus, not yet a block: take a snapshot (POST /api/v1/admin/tsdb/snapshot, with "
    "--web.enable-admin-api), or print them with `promtool tsdb dump FOLDER`, and give that"
)


def folder_format(names: Iterable[str]) -> str | None:
    """The format of a folder that is one input, by the paths of the files below it; None if it is no such folder."""
    found = frozenset(names)
    segments = any(name.startswith("chunks/") and _SEGMENT.match(name[7:]) for name in found)
    if segments and ("index" in found or "meta.json" in found):
        return TSDB
    shards = [match for name in found if (match := _SHARD.match(name))]
    if {"labels", "chunks"} <= {match[2] for match in shards}:
        return PARQUET
    return None


def is_head(name: str, entries: Iterable[str]) -> bool:
    """Whether a folder of this name, with these entries, holds what a Prometheus has not yet written to a block."""
    listed = list(entries)
    return name in _HEAD_NAMES and bool(listed) and all(_HEAD_FILE.match(entry) for entry in listed)
