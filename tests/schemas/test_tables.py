"""The tables themselves: names, docs, defaults, Arrow schemas, and the printed reference."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pytest

from aftershock.schemas import columns
from aftershock.schemas.columns import Table
from aftershock.schemas.incidents import FAULT_CLASSES
from aftershock.schemas.tables import TABLE_OF_ROW, TABLES
from aftershock.table_docs import describe_tables, main, page_text

EVENT = (
    "event_id cluster host host_raw time last_time time_local time_basis time_error_s count source byte_offset "
    "sources message "
)

# Names that queries outside this project rely on. Columns may be added; none may be renamed or lost, and those
# named here keep their order.
CONTRACT = {
    "gpu_errors": EVENT + "family code pci pci_raw gpu_uuid gpu_index gpu_serial mig_gi mig_ci pid process severity "
    "action fault_class mnemonic link unit caused_by recovery_from recovery_to trust burst_id episode_id role",
    "node_events": EVENT + "kind device pid process value unit",
    "health_checks": EVENT + "checker check result gpu_uuid pci value unit detail",
    "scheduler_events": EVENT + "kind job_id array_task raw_job_id session_id hosts user reason state exit_code "
    "exit_signal",
    "training_events": EVENT + "session_id rank local_rank kind step path duration_s error_class error_role error "
    "ranks",
    "training_steps": "session_id time time_basis step total_steps loss grad_norm learning_rate step_time_s "
    "tflops_per_gpu samples tokens skipped nan copies source byte_offset",
    "sessions": "session_id cluster scheduler job_id raw_job_id attempt name user work_dir partition hosts n_hosts "
    "n_gpus submit_time start_time end_time duration_s state exit_code exit_signal end_reason cancelled_by planned "
    "excluded_hosts cause_class cause_event_id cause_confidence first_step last_step last_saved_step gpu_seconds "
    "gpu_seconds_lost sources",
    "retries": "chain_id from_session_id to_session_id attempt trigger mode interval_s requeue_interval_s "
    "hosts_kept hosts_dropped hosts_added rule confidence",
    "chains": "chain_id cluster name user n_attempts first_session_id last_session_id start_time end_time mode "
    "outcome median_interval_s hosts_dropped gpu_seconds_lost",
    "exclusions": "exclusion_id cluster host start_time end_time how by planned session_id chain_id reason "
    "evidence_event_ids evidenced",
    "incidents": "incident_id start_time end_time fault_class error_class root_event_id event_ids hosts gpus "
    "session_ids chain_ids exclusion_ids suspects victims n_events first_metric_time lead_s missing_evidence "
    "verdict verdict_by",
    "checkpoints": "session_id kind step path start_time scheduled_time end_time duration_s bytes origin complete "
    "mean_bytes_per_s peak_bytes_per_s ceiling_bytes_per_s utilisation rpc_queue_share rpc_backlog_mean "
    "retransmissions",
    "series": "series_id metric cluster host gpu_uuid gpu_index pci labels",
    "samples": "series_id time value stale",
    "evidence": "incident_id event_id series_id metric host gpu_uuid n_baseline baseline_median baseline_mad "
    "peak_value robust_z peer_z first_crossing_time lead_s p_value q_value",
    "alarms": "alarm_id host gpu_uuid start_time end_time score metrics families incident_id lead_s verdict",
    "hosts": "cluster host valid_from valid_to driver kernel firmware rack role",
    "gpus": "cluster host gpu_index pci gpu_uuid gpu_serial model valid_from valid_to how_known",
    "coverage": "cluster host kind start_time end_time state",
    "graph_nodes": "node_id kind label start_time end_time",
    "graph_edges": "src dst kind time weight evidence",
    "findings": "finding subject value unit numerator denominator ci_low ci_high method p_value window_start "
    "window_end exposure parameters note",
    "sources": "source format envelope timezone zone_basis bytes lines records events rejects first_time last_time "
    "note",
    "rejects": "source byte_offset length format reason excerpt",
}

# First words of the enumerations that are named in the contract; they are numbered on disk in this order.
WORDS = {
    (
        "gpu_errors",
        "time_basis",
    ): "zoned epoch assumed_zone inferred_zone inferred_year boot_offset neighbour none",
    (
        "training_steps",
        "time_basis",
    ): "zoned epoch assumed_zone inferred_zone inferred_year boot_offset neighbour none",
    ("gpu_errors", "family"): "xid sxid fabric_manager amdgpu",
    ("gpu_errors", "severity"): "fatal nonfatal correctable",
    ("gpu_errors", "fault_class"): "hardware fabric driver application thermal unknown",
    ("gpu_errors", "trust"): "kernel relayed user injected",
    ("gpu_errors", "role"): "root follow_on unknown",
    ("node_events", "kind"): "boot shutdown oom_kill machine_check memory_error pcie_error link_down link_up "
    "nfs_not_responding nfs_ok hung_task soft_lockup segfault panic gpu_lost driver_load",
    ("health_checks", "result"): "pass fail warn skip",
    ("scheduler_events", "kind"): "submitted started ended requeued time_limit cancelled node_down node_up "
    "node_drain node_resume node_state reservation epilog_error",
    (
        "training_events",
        "kind",
    ): "start resume save_begin save_end load_begin load_end validation error restart rendezvous exit",
    ("training_events", "error_role"): "root symptom teardown noise",
    (
        "sessions",
        "state",
    ): "PENDING RUNNING COMPLETED FAILED NODE_FAIL CANCELLED TIMEOUT OUT_OF_MEMORY PREEMPTED "
    "REQUEUED BOOT_FAIL DEADLINE UNKNOWN",
    ("retries", "trigger"): "requeue restart_in_place resubmit",
    ("retries", "mode"): "auto manual unknown",
    ("chains", "mode"): "auto manual unknown",
    ("chains", "outcome"): "succeeded failed cancelled running never_restarted",
    (
        "exclusions",
        "how",
    ): "drain down reservation exclude_list designated_complement cordon soft swapped_out",
    ("checkpoints", "kind"): "save load",
    ("checkpoints", "origin"): "log metrics both",
    ("alarms", "verdict"): "before within_scrape after false unscored",
    ("coverage", "kind"): "kernel scheduler training metrics health",
    ("coverage", "state"): "present silent absent",
    ("graph_nodes", "kind"): "session chain host gpu event incident exclusion",
    ("graph_edges", "kind"): "ran_on retried_as excluded hit caused_by part_of",
}

INT32_COLUMNS = {
    "code", "gpu_index", "mig_gi", "mig_ci", "link", "caused_by", "exit_code", "exit_signal", "rank", "local_rank",
    "attempt", "n_hosts", "n_gpus", "n_attempts", "copies",
}  # fmt: skip

each_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


def test_tables_are_those_of_the_contract_in_its_order() -> None:
    assert [name for name in TABLES if name in CONTRACT] == list(CONTRACT)


@pytest.mark.parametrize("name", CONTRACT)
def test_columns_are_those_of_the_contract_in_its_order(name: str) -> None:
    expected = CONTRACT[name].split()
    assert [column for column in TABLES[name].column_names if column in expected] == expected


@pytest.mark.parametrize(("table", "column"), WORDS)
def test_words_are_those_of_the_contract_in_its_order(table: str, column: str) -> None:
    expected = tuple(WORDS[table, column].split())
    words = next(c.values for c in TABLES[table].columns if c.name == column)
    assert words[: len(expected)] == expected


@each_table
def test_types_follow_from_names(table: Table) -> None:
    for column in table.columns:
        is_time = column.name in {"time", "valid_from", "valid_to"} or (
            column.name.endswith(("_time", "window_start", "window_end"))
        )
        assert (column.type == columns.TIMESTAMP) == is_time, column.name
        assert (column.type == pa.int32()) == (column.name in INT32_COLUMNS), column.name
        if column.name.endswith("_s") and not column.name.endswith("_per_s"):
            assert (column.type, column.unit) == (pa.float64(), "s"), column.name
        if column.name.endswith(("_id", "_uuid")):
            assert column.type == pa.string(), column.name
        if column.name.endswith("_ids"):
            assert column.type == pa.list_(pa.string()), column.name
        if column.values:
            assert column.type == pa.string(), column.name


def test_special_types() -> None:
    assert TABLES["training_events"].schema.field("ranks").type == pa.list_(pa.int32())
    assert TABLES["rejects"].schema.field("excerpt").type == pa.binary()
    assert TABLES["series"].schema.field("labels").type == pa.map_(pa.string(), pa.string())


@each_table
def test_everything_says_what_it_means(table: Table) -> None:
    assert table.doc.endswith(".")
    assert table.schema.metadata == {b"table": table.name.encode(), b"doc": table.doc.encode()}
    for column, field in zip(table.columns, table.schema, strict=True):
        assert column.doc.endswith("."), column.name
        assert column.doc[0].isupper(), column.name
        assert field.metadata[b"doc"] == column.doc.encode(), column.name
        assert field.metadata.get(b"unit") == (column.unit.encode() if column.unit else None)


@each_table
def test_names_are_unique(table: Table) -> None:
    assert len(set(table.column_names)) == len(table.column_names)
    for column in table.columns:
        assert len(set(column.values)) == len(column.values), column.name


@each_table
def test_an_empty_row_knows_nothing(table: Table) -> None:
    values = dataclasses.asdict(table.row())
    assert tuple(values) == table.column_names
    assert {name: value for name, value in values.items() if value is not None} == (
        {"count": 1} if "count" in values else {}
    )


@each_table
def test_rows_have_slots_only(table: Table) -> None:
    assert not hasattr(table.row(), "__dict__")
    assert not hasattr(table.row, "__post_init__"), "batch_to_rows fills slots without calling it"


@each_table
def test_key_and_order_are_columns_and_the_order_is_total(table: Table) -> None:
    assert set(table.key) | set(table.order) <= set(table.column_names)
    assert len(set(table.order)) == len(table.order)
    assert set(table.key) <= set(table.order), "rows with different keys must not tie"


@each_table
def test_written_schema_has_dictionaries_for_enumerations(table: Table) -> None:
    for column, plain, written in zip(table.columns, table.schema, table.written_schema, strict=True):
        assert plain.type == column.type
        assert written.type == (pa.dictionary(pa.int32(), pa.string()) if column.values else plain.type)
        assert plain.nullable
        assert written.nullable


def test_row_classes_lead_to_their_tables() -> None:
    assert list(TABLE_OF_ROW.values()) == list(TABLES.values())
    for row, table in TABLE_OF_ROW.items():
        assert table.row is row
        assert TABLES[row.table] is table


def test_incidents_and_gpu_errors_share_fault_classes() -> None:
    column = next(c for c in TABLES["gpu_errors"].columns if c.name == "fault_class")
    assert column.values == FAULT_CLASSES


def test_page_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "tables.md"
    assert page.read_text(encoding="utf-8") == page_text(), "run: python -m aftershock.table_docs"


def test_page_has_every_table_and_column_once() -> None:
    sections = page_text().split("\n## ")[1:]
    assert [section.splitlines()[0] for section in sections] == list(TABLES)
    for section, table in zip(sections, TABLES.values(), strict=True):
        rows = [line for line in section.splitlines() if line.startswith("| `")]
        assert [row.split("`")[1] for row in rows] == list(table.column_names)
        assert all(row.replace("\\|", "").count("|") == 5 for row in rows)


def test_module_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    main()
    assert (tmp_path / "docs" / "tables.md").read_bytes() == page_text().encode()


def test_list_for_the_terminal_names_every_table() -> None:
    text = describe_tables()
    starts = [line.split()[0] for line in text.splitlines() if not line.startswith(" ")]
    assert starts == list(TABLES)
    assert max(map(len, text.splitlines())) <= 80


@each_table
def test_text_for_the_terminal_has_every_column(table: Table) -> None:
    lines = describe_tables(table.name).splitlines()
    heads = [line.split(" (")[0] for line in lines if line and not line.startswith(" ")]
    assert heads == [table.name, *table.column_names]
    assert max(map(len, lines)) <= 80


def test_text_for_the_terminal_shows_type_unit_and_words() -> None:
    text = describe_tables("checkpoints")
    assert "mean_bytes_per_s (double, byte/s)\n    Mean throughput of the storage.\n" in text
    assert "kind (string)\n    Direction. Words: `save`, `load`.\n" in text
    assert "hosts (list<string>)" in describe_tables("incidents")
    assert "labels (map<string, string>)" in describe_tables("series")


def test_an_unknown_table_is_an_error() -> None:
    with pytest.raises(KeyError):
        describe_tables("no_such_table")


def test_a_field_must_say_what_it_means() -> None:
    @dataclasses.dataclass(slots=True, kw_only=True)
    class Bad(columns.Row):
        """A row."""

        table = "bad"
        key = ("x",)
        order = ("x",)
        x: int | None = None

    with pytest.raises(TypeError, match=r"Bad\.x has no Col"):
        columns.table_of(Bad)
