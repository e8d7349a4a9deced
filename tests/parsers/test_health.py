"""Results of health checks: DCGM, node-health-check, management controllers, and the agents that watch nodes."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers import nhc
from aftershock.parsers.detect import detect
from aftershock.parsers.documents import dcgmi_diag, dcgmi_health, gpud, ipmi_sel, kubernetes, nvsentinel, redfish_log
from aftershock.parsers.documents.bmc_words import fault_of
from aftershock.parsers.documents.iso_clock import stated_time
from aftershock.parsers.documents.relayed_xid import relayed_error
from aftershock.parsers.formats import Found, Head, Refused
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.schemas.events import GpuError, HealthCheck, NodeEvent

DOCUMENTS = (dcgmi_diag, dcgmi_health, ipmi_sel, redfish_log, gpud, nvsentinel, kubernetes)
JSON_DOCUMENTS = (dcgmi_diag, dcgmi_health, redfish_log, gpud, nvsentinel, kubernetes)


def items(module: Any, text: str | bytes) -> list[Found | Refused]:
    return list(module.read(io.BytesIO(text.encode() if isinstance(text, str) else text)))


def rows(module: Any, text: str, kind: type = HealthCheck) -> list[Any]:
    return [item.row for item in items(module, text) if isinstance(item, Found) and isinstance(item.row, kind)]


@pytest.mark.parametrize("module", JSON_DOCUMENTS, ids=lambda module: module.FORMAT.name)
def test_deep_and_torn_documents_are_refused(module: Any) -> None:
    sample = next(s.text for s in module.FORMAT.samples if s.text.lstrip().startswith(("{", "[")))
    deep = '{"a":' * 3000 + "1" + "}" * 3000
    for text in (deep, sample[: len(sample) // 2], "[" * 5000, '{"events": [' + deep + "]}"):
        found = items(module, text)
        assert all(isinstance(item, (Found, Refused)) for item in found)
    assert any(isinstance(item, Refused) for item in items(module, deep))


MEMBER_WORDS = """
    test_categories tests name results status gpu_id gpu_ids warnings metadata body children value overflow GPU
    Errors Members Severity Message Created SensorType MessageArgs Links component states events health time
    type message extra_info data healthevent checkName isHealthy errorCode entitiesImpacted kind items
    generatedTimestamp conditions involvedObject source count $date
"""
MEMBERS = ["DCGM Diagnostic", *MEMBER_WORDS.split()]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None)
@given(TREES)
def test_members_of_other_kinds_never_raise(value: Any) -> None:
    text = json.dumps(value)
    for module in JSON_DOCUMENTS:
        items(module, text)


# --- dcgmi ------------------------------------------------------------------------------------------------------------


def diag(test: dict[str, Any], root: str = "DCGM GPU Diagnostic") -> str:
    return json.dumps({root: {"test_categories": [{"category": "Hardware", "tests": [test]}]}})


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"status": "PASS"}, [("pass", None, None)]),
        ({"gpu_ids": "0,1", "status": "Pass"}, [("pass", "GPU 0", None), ("pass", "GPU 1", None)]),
        ({"gpu_id": "2", "status": "Warn", "warnings": "old"}, [("warn", "GPU 2", "old")]),
        ({"gpu_id": 3, "status": "Fail", "warnings": ["a", {"warning": "b"}]}, [("fail", "GPU 3", "a; b")]),
        ({"entity_group": "CPU", "entity_id": 1, "status": "Not Run"}, [("skip", "CPU 1", None)]),
        ({"status": "perfect"}, []),
        ({"status": 7}, []),
    ],
)
def test_results_of_the_diagnostics(result: dict[str, Any], expected: list[Any]) -> None:
    found = rows(dcgmi_diag, diag({"name": "memory", "results": [result]}))
    assert [(row.result, row.device, row.detail) for row in found] == expected


def test_runs_that_are_repeated_and_runs_that_failed() -> None:
    one = json.loads(diag({"name": "pcie", "results": [{"status": "Pass"}]}, "DCGM Diagnostic"))
    assert len(rows(dcgmi_diag, json.dumps({"iterations": [one, one], "Overall Result": "Pass"}))) == 2
    broken = json.dumps({"DCGM Diagnostic": {"runtime_error": "the host engine is gone", "version": "4.2.3"}})
    (row,) = rows(dcgmi_diag, broken)
    assert (row.check, row.result, row.detail) == ("run", "fail", "the host engine is gone")


# --- NHC --------------------------------------------------------------------------------------------------------------


def nhc_rows(text: str) -> list[tuple[Any, ...]]:
    return [(row.check, row.result, row.detail) for row in rows_of_text(text, nhc.FORMAT)]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "line",
    [
        "ERROR:  nhc:  Health check failed:  check_fs_mount:  /scratch not mounted",
        "[1772435289] - ERROR:  nhc:  Health check failed:  check_fs_mount:  /scratch not mounted",
        "Mar  2 07:08:09 dgx07 nhc[42]: Health check failed:  check_fs_mount:  /scratch not mounted",
        "Health check failed:  check_fs_mount:  /scratch not mounted",
        "[2026-03-02T07:08:09.123] error: health_check failed: rc:1 output:ERROR:  nhc:  Health check failed:  "
        "check_fs_mount:  /scratch not mounted",
    ],
)
def test_failures_in_all_the_places_they_are_told(line: str) -> None:
    assert nhc_rows(line + "\n") == [("check_fs_mount", "fail", "/scratch not mounted")]


def test_a_check_that_names_itself_not_is_the_one_that_ran() -> None:
    text = 'Running check:  "check_hw_ib 400"\nERROR:  nhc:  Health check failed:  No IB port is active\n'
    assert nhc_rows(text) == [("check_hw_ib", "fail", "No IB port is active")]


def test_all_checks_may_go_on_after_a_failure() -> None:
    text = 'Running check:  "check_a"\nERROR:  nhc:  Health check failed:  check_a:  bad\nRunning check:  "check_b"\n'
    assert nhc_rows(text + "Node Health Check completed successfully (2s).\n") == [
        ("check_a", "fail", "bad"),
        ("check_b", "pass", None),
        ("node_health_check", "pass", None),
    ]


def test_a_log_of_nhc_stays_lines() -> None:
    text = nhc.FORMAT.samples[0].text
    found = detect(Head("nhc.log", text.encode()))
    assert (found.how, found.format) == ("lines", "nhc")


# --- management controllers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sensor", "words", "kind", "result"),
    [
        ("Memory #0x53", "Uncorrectable ECC", "memory_error", "fail"),
        ("Memory #0x53", "Correctable ECC", "memory_error", "warn"),
        ("Memory #0x53", "Correctable ECC logging limit reached", "memory_error", "warn"),
        ("Memory #0x53", "Critical Overtemperature", "thermal", "fail"),
        ("Processor #0x08", "IERR", "machine_check", "fail"),
        ("Processor #0x08", "Correctable machine check error", "machine_check", "warn"),
        ("Processor #0x08", "Thermal Trip", "thermal", "fail"),
        ("Critical Interrupt #0x2e", "Bus Uncorrectable error", "pcie_error", "fail"),
        ("Critical Interrupt #0x2e", "Bus Correctable error", "pcie_error", "warn"),
        ("Power Supply #0x51", "Failure detected", "power", "fail"),
        ("Power Supply #0x51", "Predictive failure", "power", "warn"),
        ("Power Unit #0x52", "Power off/down", "power", "fail"),
        ("Fan FAN3", "Lower Critical going low ", "thermal", "fail"),
        ("Temperature GPU3_Temp", "Upper Non-critical going high", "thermal", "warn"),
        ("Voltage P12V", "Lower Critical going low ", "power", "fail"),
        ("OS Critical Stop #0x46", "Run-time critical stop", "panic", "fail"),
    ],
)
def test_faults(sensor: str, words: str, kind: str, result: str) -> None:
    assert fault_of(sensor, words) == (kind, result)


@pytest.mark.parametrize(
    ("sensor", "words"),
    [
        ("Power Supply #0x51", "Presence detected"),
        ("Memory #0x53", "Presence Detected"),
        ("Power Unit #0x52", "Fully Redundant"),
        ("Event Logging Disabled #0x07", "Log area reset/cleared"),
        ("System Boot Initiated #0x9c", "Initiated by power up"),
        ("Temperature", "Transition to OK"),
        ("", ""),
    ],
)
def test_what_is_no_fault(sensor: str, words: str) -> None:
    assert fault_of(sensor, words) is None


@pytest.mark.parametrize(
    ("stamp", "time", "basis"),
    [
        ("03/02/2026 | 07:08:09", 1772435289000000, "zoned"),
        ("03/02/26 | 07:08:09 UTC", 1772435289000000, "zoned"),
        ("2026-03-02 | 07:08:09", 1772435289000000, "zoned"),
        ("13/02/2026 | 07:08:09", None, "none"),
        ("Pre-Init | 0000000012", None, "none"),
    ],
)
def test_clocks_of_controllers(stamp: str, time: int | None, basis: str) -> None:
    (check, event) = rows_of_text(f"   1 | {stamp} | Memory #0x53 | Uncorrectable ECC | Asserted\n", ipmi_sel.FORMAT)
    assert isinstance(check, HealthCheck)
    assert isinstance(event, NodeEvent)
    assert (check.time, check.time_basis, event.time) == (time, basis, time)


def test_a_label_names_the_host_and_a_panic_is_a_panic() -> None:
    text = (
        "dgx07: 1 | 03/02/2026 | 07:08:09 | Memory #0x53 | Parity | Asserted\n   2 | Linux kernel panic: Fatal excep\n"
    )
    assert [row.host_raw for row in rows(ipmi_sel, text)] == ["dgx07"]
    assert [row.kind for row in rows(ipmi_sel, text, NodeEvent)] == ["memory_error", "panic"]


def entry(**fields: Any) -> str:
    base = {"@odata.type": "#LogEntry.v1_9_0.LogEntry", "EntryType": "Event", "Created": "2026-03-02T07:08:09Z"}
    return json.dumps(base | fields)


@pytest.mark.parametrize(
    ("fields", "result", "kind"),
    [
        ({"Severity": "Critical", "Message": "A fatal error was detected on PCIe slot 4."}, "fail", "pcie_error"),
        (
            {"Severity": "Warning", "MessageId": "Vendor.1.0.MEM0702", "Message": "Too many errors."},
            "warn",
            "memory_error",
        ),
        ({"Severity": "Critical", "Message": "CPU 1 has an internal error (IERR)."}, "fail", "machine_check"),
        ({"Severity": "Warning", "Message": "Fan 3 is slow."}, "warn", "thermal"),
        ({"Severity": "Critical", "Message": "Something new."}, "fail", None),
        ({"Severity": "OK", "Message": "The input of power supply 2 is back."}, "pass", None),
        (
            {"Severity": "OK", "SensorType": "Memory", "EntryCode": "Deassert", "Message": "Uncorrectable ECC"},
            "pass",
            None,
        ),
        (
            {"EntryType": "SEL", "SensorType": "Processor", "EntryCode": "Assert", "Message": "Thermal Trip"},
            "fail",
            "thermal",
        ),
    ],
)
def test_redfish_entries(fields: dict[str, Any], result: str, kind: str | None) -> None:
    (check,) = rows(redfish_log, entry(**fields))
    assert check.result == result
    assert [event.kind for event in rows(redfish_log, entry(**fields), NodeEvent)] == ([kind] if kind else [])


# --- agents -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "family", "code", "pci"),
    [
        ("NVRM: Xid (PCI:0000:5d:00): 79, pid=1, name=a, GPU has fallen off the bus.", "xid", 79, "0000:5d:00.0"),
        ("XID 48 (DBE) detected on GPU PCI:0000:5d:00", "xid", 48, "0000:5d:00.0"),
        ("XID 145.0 (err status 0x00000001) RLW detected on GPU PCI:0000:5d:00", "xid", 145, "0000:5d:00.0"),
        ("XID error 79: GPU has fallen off the bus", "xid", 79, None),
        ("SXid 22013 on link 44", "sxid", 22013, None),
        ("nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Non-fatal, Link 44 x", "sxid", 22013, "0000:04:00.0"),
    ],
)
def test_errors_that_agents_tell(message: str, family: str, code: int, pci: str | None) -> None:
    error = relayed_error(message)
    assert error is not None
    assert (error.family, error.code, error.pci, error.trust) == (family, code, pci, "relayed")


@pytest.mark.parametrize(
    "message", ["", "matched 0 xid errors from 4 kmsg(s)", "XIDComponent is healthy", "r8169: XID 641"[:10]]
)
def test_words_about_xids_are_none(message: str) -> None:
    assert relayed_error(message) is None


def test_states_of_gpud_before_they_had_words() -> None:
    text = '[{"component":"disk","states":[{"name":"disk","healthy":true,"health":"Healthy"},{"name":"disk","healthy":false}]}]'
    assert [row.result for row in rows(gpud, text)] == ["pass", "fail"]


def test_the_data_that_an_event_of_gpud_carries() -> None:
    data = json.dumps({"xid": 63, "deviceUUID": "PCI:0000:5d:00"})
    event = {"name": "error_xid", "type": "Warning", "time": "2026-03-02T07:08:09Z", "extra_info": {"data": data}}
    (error,) = rows(gpud, json.dumps([{"component": "accelerator-nvidia-error-xid", "events": [event]}]), GpuError)
    assert (error.code, error.pci, error.trust) == (63, "0000:5d:00.0", "relayed")


def sentinel(**fields: Any) -> str:
    base = {
        "agent": "syslog-health-monitor",
        "componentClass": "GPU",
        "checkName": "SysLogsXIDError",
        "nodeName": "dgx07",
    }
    return json.dumps(base | {"isHealthy": False, "isFatal": True} | fields)


def test_codes_of_nvsentinel() -> None:
    event = sentinel(
        errorCode=["79", "145.RLW_REMAP", "DCGM_FR_X"],
        message="two",
        entitiesImpacted=[{"entityType": "GPU", "entityValue": "0"}],
    )
    assert [(e.code, e.gpu_index, e.host_raw) for e in rows(nvsentinel, event, GpuError)] == [
        (79, None, "dgx07"),
        (145, None, "dgx07"),
    ]
    assert rows(nvsentinel, sentinel(isHealthy=True, errorCode=["79"]), GpuError) == []
    assert rows(nvsentinel, sentinel(checkName="GpuMemWatch", errorCode=["79"]), GpuError) == []


@pytest.mark.parametrize(
    "wrap", ["{}", '{{"events":[{}]}}', "[{}]", '{{"specversion":"1.0","data":{{"healthEvent":{}}}}}']
)
def test_wrappings_of_nvsentinel(wrap: str) -> None:
    assert [row.result for row in rows(nvsentinel, wrap.format(sentinel()))] == ["fail"]


def test_events_of_others_count_only_with_a_line_of_the_kernel() -> None:
    def event(message: str) -> str:
        return json.dumps({"kind": "Event", "type": "Warning", "reason": "Xid", "message": message, "reportingComponent": "my-agent",
                           "regarding": {"kind": "Node", "name": "dgx07"}, "eventTime": "2026-03-02T07:08:09.000000Z"})  # fmt: skip

    assert rows(kubernetes, event("XID 79 seen"), GpuError) == []
    found, _ = items(kubernetes, event("NVRM: Xid (PCI:0000:5d:00): 79, x"))
    assert isinstance(found, Found)
    assert isinstance(found.row, GpuError)
    assert (found.row.host_raw, found.reading.wall) == ("dgx07", 1772435289000000)


@pytest.mark.parametrize(
    ("value", "wall"),
    [
        ("2026-03-02T07:08:09Z", 1772435289000000),
        ("2026-03-02T16:08:09+09:00", 1772435289000000),
        (1772435289, 1772435289000000),
        (1772435289000, 1772435289000000),
        ("1772435289000000000", 1772435289000000),
        ({"seconds": "1772435289", "nanos": 5000}, 1772435289000005),
        ({"$date": {"$numberLong": "1772435289000"}}, 1772435289000000),
        ("0001-01-01T00:00:00Z", None),
        ("yesterday", None),
        (True, None),
        (-5, None),
        (1e300, None),
        ({"seconds": None}, None),
        (None, None),
    ],
)
def test_times_that_documents_state(value: Any, wall: int | None) -> None:
    assert stated_time(value).wall == wall


# --- what is not taken ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", DOCUMENTS, ids=lambda module: module.FORMAT.name)
def test_a_log_that_quotes_a_document_stays_a_log(module: Any) -> None:
    for sample in module.FORMAT.samples:
        quoted = "[  1.0] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n" + sample.text
        assert detect(Head("messages", quoted.encode())).format != module.FORMAT.name
        escaped = json.dumps({"log": sample.text, "stream": "stdout", "time": "2026-03-02T07:08:09.000000001Z"})
        assert detect(Head("x.log", escaped.encode())).format != module.FORMAT.name


@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=200), start=st.sampled_from([b"", b"{", b"[", b"| ", b"   1 | 03/02/2026 | "]))
def test_arbitrary_bytes_never_raise(data: bytes, start: bytes) -> None:
    for module in DOCUMENTS:
        items(module, start + data)
