"""dcgmi diag: the results of the diagnostics of DCGM, as JSON (``-j``) of all generations and as the table it draws.

    {"DCGM GPU Diagnostic": {"test_categories": [{"category": "Integration", "tests": [{"name": "PCIe",
        "results": [{"gpu_id": "0", "status": "Fail", "warnings": [{"warning": "...", "error_id": 33}]}]}]}]}}

Documented at https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/dcgm-diagnostics.html. Up to 3.x the document is
named "DCGM GPU Diagnostic" and a result names its GPUs as ``gpu_ids``, ``gpu_id`` or not at all; from 4.0 on it is
"DCGM Diagnostic" and a result names an entity of a group. The numbers are DCGM's own, not the indices of nvidia-smi,
and no time is in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK
from aftershock.parsers.documents.dcgmi_table import RESULTS, TableRow, table_rows
from aftershock.parsers.documents.json_elements import Element
from aftershock.parsers.documents.json_records import load_record, member, records_of, text_member
from aftershock.parsers.documents.stream_head import with_head
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.schemas.events import HealthCheck
from aftershock.schemas.topology import Host

_ROOTS: Final = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
_ROOT: Final = re.compile(rb'"DCGM (?:GPU )?Diagnostic"\s*:')
_TITLE: Final = re.compile(rb"\| Diagnostic +\| Result +\|")
_SUCCESS: Final = re.compile(rb"Successfully ran diagnostic")
_DRIVER: Final = ("Driver Version Detected", "driver_version_detected")
# A table result: "Pass", "Fail - All", "Warn - GPU: 0, 2", "GPU3: Pass".
_RESULT: Final = re.compile(r"(?P<word>Pass|Fail|Warn|Skip|Not Run)(?: - (?:All|GPUs?: ?(?P<ids>[\d, ]{1,80})))?\Z")
_ENTITY: Final = re.compile(r"(?P<entity>[A-Za-z]{2,16} ?\d{1,4}): (?P<word>Pass|Fail|Warn|Skip|Not Run)\Z")
_DETAIL: Final = re.compile(r"(?P<kind>Warning|Info|Error)(?:: (?P<entity>[A-Za-z]{2,16} ?\d{1,4}))?\Z")
_LONGEST_DETAIL: Final = 4096


def detects(head: Head) -> float:
    """Sure of the name of the document, or of the title of the table, near the beginning."""
    start = head.data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith((b"{", b"Successfully ran")) and _ROOT.search(head.data):
        return 0.95
    lines = head.lines(6)
    titled = any(_TITLE.match(line) for line in lines)
    return 0.9 if titled and all(line.startswith((b"|", b"+")) or _SUCCESS.match(line) for line in lines) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """A row for each test and each device that it ran on."""
    head, whole = with_head(stream)
    if _TITLE.search(head):
        yield from _read_table(whole)
        return
    for element in records_of(whole):
        if isinstance(element, Refused):
            yield element._replace(reason=f"dcgmi_diag: {element.reason}")
            continue
        record = load_record(element)
        if record is None:
            yield Refused(element.offset, len(element.data), "dcgmi_diag: not JSON", element.data[:512])
            continue
        # Several runs (--iterations) stand in one document.
        runs = record.get("iterations")
        for run in runs if isinstance(runs, list) else [record]:
            yield from _read_run(run, element)


def _read_run(run: Any, element: Element) -> Iterator[Found | Refused]:
    body = next((run[root] for root in _ROOTS if isinstance(run, dict) and isinstance(run.get(root), dict)), None)
    if body is None:
        yield Refused(element.offset, len(element.data), "dcgmi_diag: no diagnostic in it", element.data[:512])
        return
    driver = next(
        (text for key in _DRIVER for at in (run, body, run.get("metadata")) if (text := text_member(at, key))), None
    )
    if driver is not None:
        yield Found(Host(driver=driver), NO_CLOCK, element.offset)
    error = text_member(body, "runtime_error")
    if error is not None:
        yield _found("run", "fail", None, error, element.offset)
    for test in _tests(body):
        yield from _read_test(test, element.offset)


def _tests(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for category in _list(body.get("test_categories")):
        yield from (test for test in _list(member(category, "tests")) if isinstance(test, dict))


def _read_test(test: dict[str, Any], offset: int) -> Iterator[Found]:
    name = text_member(test, "name")
    if name is None:
        return
    results = [result for result in _list(test.get("results")) if isinstance(result, dict)]
    # A summary repeats the results; it stands alone where the test ran on nothing.
    for result in results or _list([test.get("test_summary")]):
        word = (text_member(result, "status") or "").lower()
        if word not in RESULTS:
            continue
        for device in _devices(result):
            yield _found(name, RESULTS[word], device, _detail(result), offset)


def _devices(result: Any) -> list[str | None]:
    group, number = text_member(result, "entity_group"), member(result, "entity_id")
    if group is not None and isinstance(number, int):
        return [f"{group} {number}"]
    ids = member(result, "gpu_id")
    if ids is None:
        ids = member(result, "gpu_ids")
    if isinstance(ids, int):
        return [f"GPU {ids}"]
    numbers = [word.strip() for word in ids.split(",")] if isinstance(ids, str) else []
    return [f"GPU {word}" for word in numbers[:1024] if word.isdigit()] or [None]


def _detail(result: Any) -> str | None:
    """The warnings, or else what there is to know; older generations have texts where newer ones have objects."""
    said: list[str] = []
    for key in ("warnings", "warning", "info"):
        value = member(result, key)
        for entry in value if isinstance(value, list) else [value]:
            text = entry if isinstance(entry, str) else text_member(entry, "warning")
            if text:
                said.append(text.strip())
        if said:
            break
    return "; ".join(said)[:_LONGEST_DETAIL] or None


def _found(check: str, result: str, device: str | None, detail: str | None, offset: int) -> Found:
    place = f" {device}" if device else ""
    row = HealthCheck(
        checker="dcgmi_diag",
        check=check,
        result=result,
        device=device,
        detail=detail,
        message=f"{check}{place}: {detail or result}",
    )
    return Found(row, NO_CLOCK, offset)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _read_table(stream: BinaryIO) -> Iterator[Found]:
    """The rows of the table; of a test whose devices are listed below it only those."""
    test: list[Found] = []
    name = ""
    for row in table_rows(stream):
        result, entity, detail = _RESULT.match(row.value), _ENTITY.match(row.value), _DETAIL.match(row.label)
        if row.label in _DRIVER and row.value:
            yield Found(Host(driver=row.value), NO_CLOCK, row.offset)
        elif detail is not None:
            _explain(test, detail["entity"], row.value)
        elif entity is not None and not row.label and test:
            _put_entity(test, name, entity, row)
        elif result is not None:
            if row.label:
                yield from test
                test, name = [], row.label
            test += _table_results(name, result, row)
        elif not row.label and row.value:
            _continue(test, row.value)
    yield from test


def _table_results(name: str, result: re.Match[str], row: TableRow) -> Iterator[Found]:
    word = RESULTS[result["word"].lower()]
    ids = [part.strip() for part in (result["ids"] or "").split(",") if part.strip()]
    devices: list[str | None] = [f"GPU {number}" for number in ids]
    for device in devices or [None]:
        yield _found(name, word, device, None, row.offset)


def _put_entity(test: list[Found], name: str, entity: re.Match[str], row: TableRow) -> None:
    group = entity["entity"].rstrip("0123456789").strip()
    device = f"{group} {entity['entity'][len(entity['entity'].rstrip('0123456789')) :]}"
    if any(isinstance(item.row, HealthCheck) and item.row.device is None for item in test):
        test.clear()
    test.append(_found(name, RESULTS[entity["word"].lower()], device, None, row.offset))


def _explain(test: list[Found], entity: str | None, text: str) -> None:
    wanted = entity.replace(" ", "") if entity else None
    for item in reversed(test):
        row = item.row
        if isinstance(row, HealthCheck) and wanted in (None, (row.device or "").replace(" ", "")):
            row.detail = text if row.detail is None else f"{row.detail} {text}"[:_LONGEST_DETAIL]
            return


def _continue(test: list[Found], text: str) -> None:
    """The next line of a text that did not fit into its cell."""
    last = next((item.row for item in reversed(test) if isinstance(item.row, HealthCheck) and item.row.detail), None)
    if last is not None:
        last.detail = f"{last.detail} {text}"[:_LONGEST_DETAIL]


_SAMPLES: Final = (
    # 3.x
    Sample(
        '{"DCGM GPU Diagnostic": {"test_categories": [{"category": "Deployment", "tests": [{"name": "Denylist", '
        '"results": [{"status": "Pass"}]}]}, {"category": "Integration", "tests": [{"name": "PCIe", "results": '
        '[{"gpu_id": "0", "status": "Pass"}, {"gpu_id": "1", "status": "Fail", "warnings": [{"error_category": 7, '
        '"error_id": 33, "error_severity": 2, "warning": "PCIe replay count of GPU 1 is 21"}]}]}]}], '
        '"version": "3.3.5"}, "Driver Version Detected": "550.54.15", "GPU Device IDs": ["2330", "2330"]}\n',
        (
            expect("hosts", driver="550.54.15"),
            expect("health_checks", checker="dcgmi_diag", check="Denylist", result="pass", device=None, time=None),
            expect("health_checks", check="PCIe", result="pass", device="GPU 0"),
            expect(
                "health_checks", check="PCIe", result="fail", device="GPU 1", detail="PCIe replay count of GPU 1 is 21"
            ),
        ),
    ),
    # 2.x: lists of GPUs, texts for warnings; 4.x: entities and summaries.
    Sample(
        'Successfully ran diagnostic for group.\n{"DCGM GPU Diagnostic": {"test_categories": [{"tests": [null, '
        '{"name": "Memory Bandwidth", "results": [{"gpu_ids": "0,3", "status": "SKIPPED", "warnings": "not enabled"}]}'
        "]}]}}\n"
        '{"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [{"name": "memory", "results": '
        '[{"entity_group": "GPU", "entity_group_id": 1, "entity_id": 2, "status": "Pass", "info": ["98% used"]}], '
        '"test_summary": {"status": "Pass"}}, {"name": "cpu_eud", "results": [], "test_summary": {"status": "Not Run"}}'
        ']}]}, "metadata": {"Driver Version Detected": "570.86.15", "version": "4.2.3"}}\n',
        (
            expect("health_checks", check="Memory Bandwidth", result="skip", device="GPU 0", detail="not enabled"),
            expect("health_checks", check="Memory Bandwidth", result="skip", device="GPU 3"),
            expect("hosts", driver="570.86.15"),
            expect("health_checks", check="memory", result="pass", device="GPU 2", detail="98% used"),
            expect("health_checks", check="cpu_eud", result="skip", device=None),
        ),
    ),
    Sample(
        "Successfully ran diagnostic for group.\n"
        "+---------------------------+------------------------------------------------+\n"
        "| Diagnostic                | Result                                         |\n"
        "+===========================+================================================+\n"
        "|-----  Metadata  ----------+------------------------------------------------|\n"
        "| Driver Version Detected   | 570.86.15                                      |\n"
        "|-----  Deployment  --------+------------------------------------------------|\n"
        "| Inforom                   | Pass                                           |\n"
        "+-----  Integration  -------+------------------------------------------------+\n"
        "| PCIe                      | Fail - GPU: 1                                  |\n"
        "| Warning                   | GPU 1 runs at PCIe generation 3, although it   |\n"
        "|                           | can do 5                                       |\n"
        "+-----  Hardware  ----------+------------------------------------------------+\n"
        "| memory                    | Fail                                           |\n"
        "|                           | GPU0: Pass                                     |\n"
        "|                           | GPU1: Fail                                     |\n"
        "| Warning: GPU1             | Page pending                                   |\n"
        "+---------------------------+------------------------------------------------+\n",
        (
            expect("hosts", driver="570.86.15"),
            expect("health_checks", check="Inforom", result="pass", device=None),
            expect(
                "health_checks",
                check="PCIe",
                result="fail",
                device="GPU 1",
                detail="GPU 1 runs at PCIe generation 3, although it can do 5",
            ),
            expect("health_checks", check="memory", result="pass", device="GPU 0", detail=None),
            expect("health_checks", check="memory", result="fail", device="GPU 1", detail="Page pending"),
        ),
    ),
)

FORMAT: Final = DocumentFormat(
    name="dcgmi_diag",
    doc="What `dcgmi diag` found, as the JSON of `-j` in DCGM 2 to 4 or as the table: a row for each test and device, "
    "passes too.",
    url="https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/dcgm-diagnostics.html",
    tables=("health_checks", "hosts"),
    detects=detects,
    read=read,
    samples=_SAMPLES,
    non_samples=(
        '{"diagnostic": {"test_categories": [{"tests": [{"name": "PCIe", "results": [{"status": "Pass"}]}]}]}}\n',
        '{"DCGM GPU Diagnostic": {"version": "3.3.5"}}\n',
        "Error: Unable to complete diagnostic for group 2147483647. Return: (-21) Host engine is not running\n",
        "| PCIe | Passed with distinction |\n",
    ),
)
