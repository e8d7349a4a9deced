"""Job tables: what a site's own scheduler or database knows of its jobs, as CSV, JSON lines, Parquet or Arrow.

    job_id,user,hosts,n_gpus,submit_time,start_time,end_time,state,exit_code
    4711,mira,"gpu[001-002]",16,2026-03-02T07:00:00Z,2026-03-02T07:00:10Z,2026-03-02T09:00:00Z,FAILED,1

The columns are those of the table ``sessions``, a row for each placement of a job; ``job_id`` and one of the times are
needed, all others are welcome. A table with other names is read with a map:

    [[sources]]
    glob = "jobs/*.csv"
    format = "job_table"
    timezone = "Asia/Seoul"            # of times without a zone
    time_unit = "ms"                   # of times that are numbers; their size tells it as a rule
    time_format = "%d/%m/%Y %H:%M"     # of times that are not ISO 8601
    host_separator = "+"               # comma, semicolon, bar, blank, JSON lists and gpu[001-004] are known
    [sources.columns]
    job_id = "JobNumber"
    hosts = ["nodes", "first_node"]    # the first that is not empty; in JSON "placement.nodes" goes down
    [sources.states]
    Aborted = "CANCELLED"
    [sources.values]                   # the same in every row
    cluster = "solar"

``preset = "acme"`` or ``"helios"`` instead of the columns reads the published traces (AcmeTrace and Helios; Philly has
attempts within its jobs and is a format of its own). These two are recognised without any configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import BinaryIO, Final

from aftershock.parsers.column_map import ACME, HELIOS, JOB_COLUMNS, ColumnMap
from aftershock.parsers.documents.job_row import JobRows
from aftershock.parsers.documents.stream_head import with_head
from aftershock.parsers.documents.table_layout import Layout
from aftershock.parsers.documents.table_records import MAGICS, TABLE_HEAD, looks_like, table_records
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect

_TIMES: Final = ("submit_time", "start_time", "end_time")
# Without a map a table has to have this many of our names: a file with an id and a time may be anything.
_LEAST: Final = 4
_NO_MAP: Final = ColumnMap()

# Columns that only these layouts have.
_OF_ACME: Final = ("job_id", "node_num", "gpu_num", "mem_per_pod_GB", "fail_time", "stop_time")
_OF_HELIOS: Final = ("job_id", "vc", "gpu_num", "cpu_num", "node_num", "submit_time")


def _layout(mapped: ColumnMap, least: int) -> Layout:
    return Layout(JOB_COLUMNS, (("job_id",), _TIMES), mapped, least)


@lru_cache(maxsize=1)
def _known() -> tuple[tuple[ColumnMap, Layout], ...]:
    """The layouts that are recognised, and the map that each is read with."""
    return (
        *((mapped, _marked(columns)) for mapped, columns in ((ACME, _OF_ACME), (HELIOS, _OF_HELIOS))),
        (_NO_MAP, _layout(_NO_MAP, _LEAST)),
    )


def _marked(columns: tuple[str, ...]) -> Layout:
    return Layout(columns, (), _NO_MAP, len(columns))


def detects(head: Head) -> float:
    """Sure of a header that has our names or those of a published trace; of Parquet for lack of others."""
    if _recognised(head) is not None:
        return 0.8
    return 0.6 if head.data.startswith(MAGICS) else 0.0


def _recognised(head: Head) -> ColumnMap | None:
    return next((mapped for mapped, layout in _known() if looks_like(head, layout)), None)


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The sessions of a table with our names, or of a published trace."""
    start, stream = with_head(stream, TABLE_HEAD)
    mapped = _recognised(Head("", start))
    yield from _read(stream, mapped if mapped is not None else _NO_MAP)


def read_mapped(stream: BinaryIO, column_map: ColumnMap) -> Iterator[Found | Refused]:
    """The sessions of a table with the names of a map."""
    yield from _read(stream, column_map)


def _read(stream: BinaryIO, mapped: ColumnMap) -> Iterator[Found | Refused]:
    rows = JobRows(mapped)
    for record in table_records(stream, _layout(mapped, 2), "job_table"):
        if isinstance(record, Refused):
            yield record
        else:
            yield from rows.of(record)


_SAMPLES: Final = (
    Sample(
        "job_id,name,user,hosts,n_gpus,submit_time,start_time,end_time,state,exit_code\n"
        '4711,bert,mira,"gpu[001-002]",16,2026-03-02T07:00:00Z,2026-03-02T07:00:10Z,2026-03-02T09:00:10Z,FAILED,1\n'
        "4712,eval,ines,,8,2026-03-02T07:00:00Z,,,PENDING,\n",
        (
            expect(
                "sessions",
                job_id="4711",
                hosts=["gpu001", "gpu002"],
                n_hosts=2,
                n_gpus=16,
                start_time=1772434810000000,
                duration_s=7200.0,
                state="FAILED",
                exit_code=1,
                time_basis="zoned",
            ),
            expect("sessions", job_id="4712", state="PENDING", start_time=None, hosts=[]),
        ),
        title="CSV; the delimiter may be a comma, a semicolon, a tab or a bar",
    ),
    Sample(
        '{"job_id": 4713, "user": "tom", "hosts": ["gpu003"], "start_time": 1772434810, "end_time": 1772434870, '
        '"state": "succeeded"}\n',
        (expect("sessions", job_id="4713", hosts=["gpu003"], duration_s=60.0, state="COMPLETED", time_basis="epoch"),),
        title="JSON: an object a line, or an array of them",
    ),
    Sample(
        "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,"
        "end_time,fail_time,stop_time,duration,queue,gpu_time\n"
        "dlc0aaaa1111bbbb,u0001,2,16,240,1000,100.0,Other,FAILED,2023-04-01 10:00:00+00:00,2023-04-01 10:00:30+00:00,"
        "2023-04-01 10:10:30+00:00,2023-04-01 10:10:30+00:00,,630,30.0,10080.0\n",
        (
            expect(
                "sessions",
                job_id="dlc0aaaa1111bbbb",
                user="u0001",
                hosts=None,
                n_hosts=2,
                n_gpus=16,
                start_time=1680343230000000,
                duration_s=600.0,
                state="FAILED",
            ),
        ),
        title="AcmeTrace: durations are counted anew, for its column has two meanings",
        url="https://github.com/InternLM/AcmeTrace",
    ),
    Sample(
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "900001,u0aaaa,vcbbb,8,48,1,TIMEOUT,2020-04-01 10:00:00,2020-04-01 10:00:30,2020-04-01 11:00:30,3600,30\n",
        (
            expect(
                "sessions",
                job_id="900001",
                partition="vcbbb",
                scheduler="slurm",
                hosts=None,
                n_hosts=1,
                n_gpus=8,
                duration_s=3600.0,
                state="TIMEOUT",
            ),
        ),
        title="Helios: local times of Asia/Shanghai",
        url="https://github.com/S-Lab-System-Group/HeliosData",
    ),
)

FORMAT: Final = DocumentFormat(
    name="job_table",
    doc="Jobs of a site's own scheduler as CSV, JSON lines, Parquet or Arrow IPC: a session for each row. Its columns "
    f"are those of the table `sessions`: {', '.join(JOB_COLUMNS)}; `job_id` and one of the times are needed. Other "
    'names are told in the configuration, below a `[[sources]]` with `format = "job_table"`: `[sources.columns]` (our '
    "name = theirs), `[sources.states]` (their word = our state), `[sources.values]` (the same in every row); beside "
    "`glob` `time_unit` (s, ms, us, ns), `time_format` (as strptime has it), `host_separator`. The published layouts "
    'of AcmeTrace and Helios are known, and are presets to build on: `preset = "acme"` or `"helios"`.',
    url="https://www.rfc-editor.org/rfc/rfc4180",
    tables=("sessions",),
    detects=detects,
    read=read,
    read_mapped=read_mapped,
    magics=MAGICS,
    binary=True,
    samples=_SAMPLES,
    non_samples=(
        "JobID|JobIDRaw|State|Start|End|NodeList\n812|812|FAILED|None|None|gpu001\n",
        "job_id,colour\n4711,red\n",
        "id,user,start_time,end_time,state\n4711,mira,2026-03-02T07:00:00Z,2026-03-02T08:00:00Z,FAILED\n",
        '{"job_id": 4711, "message": "started"}\n',
    ),
)
