"""How a site's own table names what a table of ours holds: columns, words, clocks. Comes from the configuration.

The names of a map are those of the columns of ``sessions`` (format ``job_table``), of ``changes``, of
``training_steps`` (format ``step_table``), and of a table of samples (``samples_table``). What a map does not name is
looked for under our own name. Published layouts have maps of their own, the presets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

JOB_COLUMNS: Final = (
    "job_id",
    "raw_job_id",
    "attempt",
    "cluster",
    "scheduler",
    "name",
    "user",
    "work_dir",
    "partition",
    "hosts",
    "n_hosts",
    "n_gpus",
    "submit_time",
    "start_time",
    "end_time",
    "duration_s",
    "state",
    "exit_code",
    "exit_signal",
    "end_reason",
    "cancelled_by",
    "planned",
    "excluded_hosts",
    "designated_hosts",
    "command",
    "retry_of",
)
"""What a table of jobs may state: columns of ``sessions``."""

CHANGE_COLUMNS: Final = (
    "change_id",
    "cluster",
    "host",
    "start_time",
    "end_time",
    "kind",
    "planned",
    "verdict",
    "by",
    "text",
)
"""What a table of changes may state: columns of ``changes``."""

STEP_COLUMNS: Final = (
    "step",
    "time",
    "total_steps",
    "loss",
    "grad_norm",
    "learning_rate",
    "step_time_s",
    "tflops_per_gpu",
    "samples",
    "tokens",
    "skipped",
    "nan",
)
"""What a table of steps may state: columns of ``training_steps``."""

SAMPLE_COLUMNS: Final = ("time", "value", "metric", "labels")
"""What a table of samples of metrics may state: ``labels`` are all columns that are labels."""

TIME_UNITS: Final = ("s", "ms", "us", "ns")
"""What numbers that are times may count since 1970."""

# The spellings of nothing, as databases and data frames write it.
NOTHING: Final = frozenset({"", "none", "null", "(null)", "nan", "nat", "n/a", "\\n", "nil"})

Value = str | int | float | bool


@dataclass(frozen=True)
class ColumnMap:
    """A table of a site, in our names. Everything is hashable: a map travels with the file it belongs to.

    columns: our column, and the columns of the table (or paths into JSON objects, ``labels.node``) that may hold it:
        the first that is not empty counts.
    values: our column, and what it is in every row.
    words: a word of the table in lower case, and the state (or the kind of change) that it means.
    time_unit: what numbers count that are times; without it their size tells.
    time_format: as ``strptime`` has it, for times that are not ISO 8601.
    host_separator: what stands between hosts, where that is neither comma, semicolon, bar nor blank.
    """

    columns: tuple[tuple[str, tuple[str, ...]], ...] = ()
    values: tuple[tuple[str, Value], ...] = ()
    words: tuple[tuple[str, str], ...] = ()
    time_unit: str | None = None
    time_format: str | None = None
    host_separator: str | None = None

    def names_of(self, column: str) -> tuple[str, ...]:
        """Where a column of ours stands in the table."""
        return dict(self.columns).get(column, (column,))

    def over(self, other: ColumnMap) -> ColumnMap:
        """This map, and for what it does not say the other."""
        return ColumnMap(
            tuple((dict(other.columns) | dict(self.columns)).items()),
            tuple((dict(other.values) | dict(self.values)).items()),
            tuple((dict(other.words) | dict(self.words)).items()),
            self.time_unit or other.time_unit,
            self.time_format or other.time_format,
            self.host_separator or other.host_separator,
        )


def column_map(columns: Mapping[str, str], words: Mapping[str, str] | None = None, **values: Value) -> ColumnMap:
    """A map from plain names: ``column_map({"n_gpus": "gpu_num"}, scheduler="slurm")``."""
    return ColumnMap(
        tuple((ours, (theirs,) if theirs else ()) for ours, theirs in columns.items()),
        tuple(values.items()),
        tuple((words or {}).items()),
    )


@dataclass(frozen=True)
class Preset:
    """A published layout: the format that reads it, and its map."""

    format: str
    map: ColumnMap = ColumnMap()


# AcmeTrace: https://github.com/InternLM/AcmeTrace. Its `duration` is counted from the start in some rows and from the
# submission in others, and its `queue` is a time: neither is taken.
ACME: Final = column_map({"n_gpus": "gpu_num", "n_hosts": "node_num", "duration_s": ""})

# Helios: https://github.com/S-Lab-System-Group/HeliosData. Times are local, of Asia/Shanghai; `queue` is a time.
HELIOS: Final = column_map(
    {"n_gpus": "gpu_num", "n_hosts": "node_num", "partition": "vc", "duration_s": "duration"}, scheduler="slurm"
)

PRESETS: Final[Mapping[str, Preset]] = {
    "acme": Preset("job_table", ACME),
    "helios": Preset("job_table", HELIOS),
    "philly": Preset("philly"),
    "alertmanager": Preset("alertmanager"),
    "grafana_annotations": Preset("grafana_annotations"),
}
"""Names that ``preset`` in the configuration takes."""
