"""dcgmi health --check: what DCGM's background watches have found, as the tree that it draws or as JSON (``-j``).

    | Health Monitor Report                                                                 |
    +===========================+==========================================================+
    | Overall Health            | Warning                                                  |
    | GPU                       |                                                          |
    | -> 0                      | Warning                                                  |
    |    -> Errors              |                                                          |
    |       -> PCIe system      | Warning                                                  |
    |                           | Detected 13 PCIe replays per minute ...                  |

    {"body": {"Overall Health": {"value": "Healthy"}}, "header": ["Health Monitor Report"]}

Documented at https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html (health and diagnostics).
Only what is not healthy is listed below the overall result, which is a row of its own: it is the evidence that somebody
looked. The numbers are DCGM's own; no time is in it. Releases before 2 draw two plain columns, read as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK
from aftershock.parsers.documents.dcgmi_table import RESULTS, table_rows
from aftershock.parsers.documents.json_records import load_record, member, records_of, text_member
from aftershock.parsers.documents.stream_head import with_head
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.schemas.events import HealthCheck

_REPORT: Final = b"Health Monitor Report"
_OVERALL: Final = "overall health"
# Older releases: "| GPU ID : 0       | Warning |" and "|  | PCIe system: Warning - Detected more than ..."
_OLD_ENTITY: Final = re.compile(r"(?P<group>[A-Za-z]{2,16}) ID ?: ?(?P<number>\d{1,4})\Z")
_OLD_SYSTEM: Final = re.compile(
    r"(?P<system>[A-Za-z][A-Za-z ]{1,30}): (?P<word>Warning|Failure|Healthy)(?: - (?P<text>.*))?\Z"
)
_GROUP: Final = re.compile(r"[A-Za-z][A-Za-z ]{1,30}\Z")
_LONGEST_DETAIL: Final = 4096


def detects(head: Head) -> float:
    """Sure of the title of the report near the beginning."""
    start = head.data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if _REPORT not in start:
        return 0.0
    if start.startswith(b"{"):
        return 0.9 if b'"body"' in start and b'"header"' in start else 0.0
    lines = head.lines(3)
    return 0.9 if lines and all(line.startswith((b"|", b"+")) for line in lines) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The overall result and a row for each system of each device that is not healthy."""
    head, whole = with_head(stream)
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        yield from _read_json(whole)
    else:
        yield from _read_tree(whole)


def _read_json(stream: BinaryIO) -> Iterator[Found | Refused]:
    for element in records_of(stream):
        if isinstance(element, Refused):
            yield element._replace(reason=f"dcgmi_health: {element.reason}")
            continue
        body = member(load_record(element), "body")
        if not isinstance(body, dict):
            yield Refused(element.offset, len(element.data), "dcgmi_health: no report in it", element.data[:512])
            continue
        for group, entry in body.items():
            word = RESULTS.get((text_member(entry, "value") or "").lower())
            if group.lower() == _OVERALL and word is not None:
                yield _found("overall", word, None, None, element.offset)
            yield from _read_group(group, entry, element.offset)


def _read_group(group: str, entry: Any, offset: int) -> Iterator[Found]:
    for number, device in _children(entry):
        for system, error in _children(member(device, "children", "Errors")):
            word = RESULTS.get((text_member(error, "value") or "").lower())
            if word is None:
                continue
            lines = member(error, "overflow")
            said = [line for line in lines if isinstance(line, str)] if isinstance(lines, list) else []
            detail = " ".join(said)[:_LONGEST_DETAIL] or None
            yield _found(system, word, f"{group} {number}", detail, offset)


def _children(entry: Any) -> list[tuple[str, Any]]:
    below = member(entry, "children")
    return list(below.items()) if isinstance(below, dict) else []


def _read_tree(stream: BinaryIO) -> Iterator[Found]:
    group, device = "", None
    last: Found | None = None
    for row in table_rows(stream):
        word = RESULTS.get(row.value.lower())
        old_entity, old_system = _OLD_ENTITY.match(row.label), _OLD_SYSTEM.match(row.value)
        if not row.label:
            if old_system is None:
                _continue(last, row.value)
                continue
            if last is not None:
                yield last
            text = old_system["text"]
            last = _found(old_system["system"], RESULTS[old_system["word"].lower()], device, text, row.offset)
            continue
        if last is not None:
            yield last
            last = None
        label = row.label.rstrip(":").lower()
        if label.startswith(_OVERALL):
            said = RESULTS.get((row.value or row.label[len(_OVERALL) + 1 :].strip()).lower())
            if said is not None:
                yield _found("overall", said, None, None, row.offset)
        elif old_entity is not None:
            device = f"{old_entity['group']} {old_entity['number']}"
        elif row.label.isdigit():
            device = f"{group} {row.label}"
        elif word is not None:
            last = _found(row.label, word, device, None, row.offset)
        elif not row.value and row.indent == 0 and _GROUP.match(row.label):
            group, device = row.label, None
    if last is not None:
        yield last


def _continue(item: Found | None, text: str) -> None:
    """The text of an error stands in the lines below its system."""
    if item is not None and isinstance(item.row, HealthCheck) and text:
        row = item.row
        row.detail = text if row.detail is None else f"{row.detail} {text}"[:_LONGEST_DETAIL]


def _found(check: str, result: str, device: str | None, detail: str | None, offset: int) -> Found:
    place = f" {device}" if device else ""
    row = HealthCheck(
        checker="dcgmi_health",
        check=check,
        result=result,
        device=device,
        detail=detail,
        message=f"{check}{place}: {result}",
    )
    return Found(row, NO_CLOCK, offset)


_SAMPLES: Final = (
    Sample(
        "+---------------------------+----------------------------------------------------------+\n"
        "| Health Monitor Report                                                                |\n"
        "+===========================+==========================================================+\n"
        "| Overall Health            | Failure                                                  |\n"
        "| GPU                       |                                                          |\n"
        "| -> 0                      | Warning                                                  |\n"
        "|    -> Errors              |                                                          |\n"
        "|       -> PCIe system      | Warning                                                  |\n"
        "|                           | GPU 0 replays 13 times a minute, more than the 8 that    |\n"
        "|                           | are allowed                                              |\n"
        "| -> 5                      | Failure                                                  |\n"
        "|    -> Errors              |                                                          |\n"
        "|       -> Memory system    | Failure                                                  |\n"
        "|                           | A row waits to be remapped                               |\n"
        "+---------------------------+----------------------------------------------------------+\n",
        (
            expect("health_checks", checker="dcgmi_health", check="overall", result="fail"),
            expect(
                "health_checks",
                check="PCIe system",
                result="warn",
                device="GPU 0",
                detail="GPU 0 replays 13 times a minute, more than the 8 that are allowed",
            ),
            expect("health_checks", check="Memory system", result="fail", device="GPU 5"),
        ),
    ),
    Sample(
        '{\n\t"body" : \n\t{\n\t\t"GPU" : {"children" : {"1" : {"children" : {"Errors" : {"children" : {"NVLINK '
        'system" : '
        '{"overflow" : ["NVLink 3 is", "down"], "value" : "Failure"}}}}, "value" : "Failure"}}, "value" : ""},\n'
        '\t\t"Overall Health" : {"value" : "Failure"}\n\t},\n\t"header" : ["Health Monitor Report"]\n}\n',
        (
            expect("health_checks", check="NVLINK system", result="fail", device="GPU 1", detail="NVLink 3 is down"),
            expect("health_checks", check="overall", result="fail"),
        ),
    ),
    # Before 2.0.
    Sample(
        "+------------------+---------------------------------------------------------+\n"
        "| Health Monitor Report                                                      |\n"
        "+==================+=========================================================+\n"
        "| Overall Health   | Warning                                                 |\n"
        "| GPU ID : 2       | Warning                                                 |\n"
        "|                  | Thermal system: Warning - GPU 2 was throttled for 5 s   |\n"
        "+------------------+---------------------------------------------------------+\n",
        (
            expect("health_checks", check="overall", result="warn"),
            expect(
                "health_checks",
                check="Thermal system",
                result="warn",
                device="GPU 2",
                detail="GPU 2 was throttled for 5 s",
            ),
        ),
    ),
)

FORMAT: Final = DocumentFormat(
    name="dcgmi_health",
    doc="What the health watches of DCGM found, as `dcgmi health --check` prints it: the overall result, and each "
    "system "
    "of a device that is not healthy.",
    url="https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html",
    tables=("health_checks",),
    detects=detects,
    read=read,
    samples=_SAMPLES,
    non_samples=(
        "Error: Health watches not enabled. Please enable watches.\n",
        "| PCIe             | On                                                                 |\n",
        "The Health Monitor Report says: Overall Health | Healthy\n",
        '{"body": {"Link 0": {"children": {"CRC Data Error": {"value": "0"}}}}, "header": ["NVLINK Error Counts"]}\n',
    ),
)
