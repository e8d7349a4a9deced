"""Rows about the inputs themselves: what was read, and what looked like a record and could not be read."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from aftershock.schemas.columns import Col, Row, time_col

# Longest excerpt of a reject: enough to recognise a line, too little to copy a log.
EXCERPT_BYTES = 512


@dataclass(slots=True, kw_only=True)
class Source(Row):
    """One input as it was read: what it was taken for, how much of it there was and what came out."""

    table: ClassVar[str] = "sources"
    key: ClassVar[tuple[str, ...]] = ("source",)
    order: ClassVar[tuple[str, ...]] = ("source",)

    source: Annotated[str | None, Col("The path as given, joined with the path below it.", holds="path")] = None
    format: Annotated[str | None, Col("Format that it was read as.", holds="fixed")] = None
    envelope: Annotated[str | None, Col("Envelope that its lines stand in.", holds="fixed")] = None
    timezone: Annotated[str | None, Col("Zone that its local times were read in.", holds="fixed")] = None
    zone_basis: Annotated[str | None, Col("How that zone is known.", holds="fixed")] = None
    bytes: Annotated[int | None, Col("Size after decompression.", unit="byte")] = None
    digest: Annotated[
        str | None, Col("Digest of the decompressed content: equal content has an equal digest.", holds="id")
    ] = None
    lines: Annotated[int | None, Col("Lines in it.")] = None
    records: Annotated[int | None, Col("Records that were recognised.")] = None
    events: Annotated[int | None, Col("Rows that came of them, before repeats became counts.")] = None
    rejects: Annotated[int | None, Col("Records that could not be read.")] = None
    first_time: Annotated[int | None, time_col("Earliest time in it.")] = None
    last_time: Annotated[int | None, time_col("Latest time in it.")] = None
    note: Annotated[str | None, Col("What else should be known, such as why it was skipped.", holds="text")] = None


@dataclass(slots=True, kw_only=True)
class Reject(Row):
    """What looked like a record and could not be read, or an input that was refused as a whole."""

    table: ClassVar[str] = "rejects"
    key: ClassVar[tuple[str, ...]] = ("source", "byte_offset", "format", "reason")
    order: ClassVar[tuple[str, ...]] = ("source", "byte_offset", "format", "reason", "length")

    source: Annotated[str | None, Col("File that it stands in, or the refused input.", holds="path")] = None
    byte_offset: Annotated[
        int | None, Col("Where it starts in the decompressed file; null for a whole input.", unit="byte")
    ] = None
    length: Annotated[int | None, Col("How long it is.", unit="byte")] = None
    format: Annotated[str | None, Col("Format that its signature belongs to.", holds="fixed")] = None
    reason: Annotated[str | None, Col("Why it could not be read.", holds="text")] = None
    excerpt: Annotated[bytes | None, Col("Its first bytes, 512 at most, credentials masked.", holds="text")] = None
