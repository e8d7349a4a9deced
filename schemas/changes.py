"""Rows about what a site did and said itself: maintenance, repairs, tickets, verdicts about incidents."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from aftershock.schemas.columns import Col, Row, seconds_col, time_col
from aftershock.schemas.events import TIME_BASES

CHANGE_KINDS = ("maintenance", "repair", "driver_change", "ticket", "verdict", "alert", "other")


@dataclass(slots=True, kw_only=True)
class Change(Row):
    """A change of a host or of a whole cluster, or what a person found out about it; one row for each host."""

    table: ClassVar[str] = "changes"
    key: ClassVar[tuple[str, ...]] = ("change_id", "host")
    order: ClassVar[tuple[str, ...]] = ("start_time", "host", "change_id")

    change_id: Annotated[
        str | None, Col("The site's own number of it, such as a ticket; else made from its place.", holds="text")
    ] = None
    cluster: Annotated[str | None, Col("Cluster name.", holds="cluster")] = None
    host: Annotated[
        str | None, Col("Host that it is about; null: it names none, and is about all of the cluster.", holds="host")
    ] = None
    start_time: Annotated[int | None, time_col("From when.")] = None
    end_time: Annotated[int | None, time_col("Until when; null for a moment, or where nobody recorded it.")] = None
    kind: Annotated[str | None, Col("What it is.", values=CHANGE_KINDS)] = None
    planned: Annotated[bool | None, Col("Whether it was planned, where the table says so.")] = None
    verdict: Annotated[str | None, Col("What a person found to be the cause.", holds="text")] = None
    by: Annotated[str | None, Col("Who did it or said it.", holds="user")] = None
    text: Annotated[str | None, Col("What it is about, in the site's words, credentials masked.", holds="text")] = None
    source: Annotated[str | None, Col("File that it stands in.", holds="path")] = None
    byte_offset: Annotated[int | None, Col("Where it starts in the decompressed file, or the number of its row.")] = (
        None
    )
    time_basis: Annotated[str | None, Col("How the times are known.", values=TIME_BASES)] = None
    time_error_s: Annotated[float | None, seconds_col("How wrong the times can be, either way.")] = None
