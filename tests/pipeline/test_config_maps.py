"""Maps of columns in the configuration: what is read, and what is said about each mistake."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from aftershock.parsers.column_map import ColumnMap
from aftershock.pipeline.config import ConfigError, SourceConfig, load_config


@pytest.fixture
def load(tmp_path: Path):
    def read(text: str) -> SourceConfig:
        path = tmp_path / "aftershock.toml"
        path.write_text(f'[[sources]]\nglob = "*"\n{text}\n', encoding="utf-8")
        return load_config(str(path)).sources[0]

    return read


def test_a_whole_map(load):
    source = load(
        """
format = "job_table"
time_unit = "ms"
time_format = "%d.%m.%Y"
host_separator = "+"
[sources.columns]
job_id = "JobNr"
hosts = ["nodes", "node"]
[sources.states]
"Time Out" = "TIMEOUT"
[sources.values]
cluster = "solar"
planned = true
"""
    )
    assert source.column_map == ColumnMap(
        columns=(("job_id", ("JobNr",)), ("hosts", ("nodes", "node"))),
        values=(("cluster", "solar"), ("planned", True)),
        words=(("time out", "TIMEOUT"),),
        time_unit="ms",
        time_format="%d.%m.%Y",
        host_separator="+",
    )
    assert pickle.loads(pickle.dumps(source)) == source
    assert len({source.column_map}) == 1


def test_a_preset_names_its_format_and_can_be_built_on(load):
    source = load('preset = "helios"\n[sources.columns]\npartition = "queue_name"')
    assert source.format == "job_table"
    assert source.column_map is not None
    assert source.column_map.names_of("partition") == ("queue_name",)
    assert source.column_map.names_of("n_gpus") == ("gpu_num",)
    assert dict(source.column_map.values) == {"scheduler": "slurm"}
    assert (load('preset = "philly"').format, load('preset = "philly"').column_map) == ("philly", None)
    assert load('preset = "alertmanager"').format == "alertmanager"


def test_kinds_of_changes(load):
    source = load('format = "changes"\n[sources.kinds]\n"Planned work" = "maintenance"')
    assert source.column_map is not None
    assert source.column_map.words == (("planned work", "maintenance"),)


def test_without_a_map_nothing_changes(load):
    assert load('format = "job_table"').column_map is None
    assert load("").format is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('preset = "helio"', '3: preset in [[sources]]: unknown "helio"; did you mean "helios"?'),
        (
            'format = "kernel"\npreset = "acme"',
            '4: preset "acme" is for format "job_table", not for "kernel"',
        ),
        ("preset = 1", "3: preset in [[sources]] must be text in quotes, not a whole number"),
        (
            '[sources.columns]\njob_id = "x"',
            "3: columns in [[sources]] goes with the formats job_table, step_table, samples_table, changes, alertmanager, "
            "grafana_annotations; "
            "and none is stated",
        ),
        (
            'format = "kernel"\ntime_unit = "s"',
            "4: time_unit in [[sources]] goes with the formats job_table, step_table, samples_table, changes, alertmanager, "
            "grafana_annotations; "
            'not with "kernel"',
        ),
        ('format = "job_table"\ncolumns = 1', "4: columns in [[sources]] must be a table: write [sources.columns]"),
        (
            'format = "job_table"\n[sources.columns]\njobid = "x"',
            '5: [sources.columns]: unknown "jobid"; did you mean "job_id"?',
        ),
        (
            'format = "job_table"\n[sources.columns]\njob_id = 7',
            "5: job_id in [sources.columns] must be text in quotes, not a whole number",
        ),
        (
            'format = "job_table"\n[sources.states]\ndone = "DONE"',
            '5: done in [sources.states]: unknown "DONE"; known are PENDING',
        ),
        (
            'format = "job_table"\n[sources.states]\ndone = "completed"',
            '5: done in [sources.states]: unknown "completed"; did you mean "COMPLETED"?',
        ),
        (
            'format = "job_table"\n[sources.kinds]\nx = "repair"',
            '4: kinds in [[sources]] do not go with "job_table": it has states',
        ),
        (
            'format = "changes"\n[sources.states]\nx = "FAILED"',
            '4: states in [[sources]] do not go with "changes": it has kinds',
        ),
        (
            'format = "changes"\n[sources.values]\nplanned = []',
            "5: planned in [sources.values] must be text, a number, true or false, not a list",
        ),
        ('format = "job_table"\ntime_unit = "h"', '4: time_unit in [[sources]]: unknown "h"; known are s, ms, us, ns'),
        (
            'format = "changes"\n[sources.values]\nhosts = "a"',
            '5: [sources.values]: unknown "hosts"; did you mean "host"?',
        ),
        (
            'format = "job_table"\n[sources.column]\njob_id = "x"',
            '4: unknown key "column" in [[sources]]; did you mean',
        ),
    ],
)
def test_mistakes_name_their_line(load, text, said):
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert str(caught.value).split("aftershock.toml:")[1].startswith(said)
