"""DCGM policies: an agent that registered for Xid errors logs that one came, and only its number.

    {"msg":"DCGM Policy Violation found ","condition: ":"XID Error","data: ":{"ErrNum":63}}

https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html#policy
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson

from aftershock.parsers.formats import Found, Head, Line, LineFormat, Refused, Sample, expect
from aftershock.parsers.kernel.xid import INT32_MAX
from aftershock.schemas.events import GpuError

_DEEPEST: Final = 12
_HOST_KEYS: Final = ("host", "hostname", "node", "nodeName", "node_name")


def read(line: Line) -> Iterator[Found | Refused]:
    """The row of a policy violation. The time of its record is the agent's, not the event's."""
    message = line.envelope.message
    if not message.lstrip().startswith(b"{"):
        return
    try:
        record = orjson.loads(message)
    except orjson.JSONDecodeError:
        return
    if not isinstance(record, dict) or not _names_xid(record):
        return
    code = _error_number(record, 0)
    if code is None:
        return
    host = next((record[key] for key in _HOST_KEYS if isinstance(record.get(key), str)), None)
    row = GpuError(
        family="xid",
        code=code,
        trust="relayed",
        host_raw=line.envelope.host or host,
        message=message.decode("utf-8", "backslashreplace"),
    )
    yield Found(row, line.envelope.reading, line.offset)


def _names_xid(record: dict[str, Any]) -> bool:
    return any(isinstance(value, str) and value.strip().lower() == "xid error" for value in record.values())


def _error_number(value: Any, depth: int) -> int | None:
    if not isinstance(value, dict) or depth > _DEEPEST:
        return None
    number = value.get("ErrNum")
    if type(number) is int and 0 < number <= INT32_MAX:
        return number
    return next((n for member in value.values() if (n := _error_number(member, depth + 1)) is not None), None)


def detects(head: Head) -> float:
    """Its records stand among those of the agent."""
    return 0.4 if b"DCGM Policy Violation" in head.data else 0.0


FORMAT = LineFormat(
    name="dcgm_policy",
    doc="Policy violations that DCGM told an agent: the Xid number alone, without device or time.",
    url="https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html",
    tables=("gpu_errors",),
    detects=detects,
    signatures=(rb'"ErrNum"',),
    read=read,
    samples=(
        Sample(
            '{"level":"warning","msg":"DCGM Policy Violation found ","condition: ":"XID Error",'
            '"data: ":{"ErrNum":63},"time":"2026-03-04T05:06:07Z"}\n',
            (expect("gpu_errors", family="xid", code=63, pci=None, time=None, trust="relayed"),),
        ),
    ),
    non_samples=(
        '{"msg":"DCGM Policy Violation found ","condition: ":"Thermal Limit","data: ":{"ErrNum":95}}\n',
        '{"msg":"DCGM Policy Violation found ","condition: ":"XID Error","data: ":{"ErrNum":"none"}}\n',
        'The record holds "condition: ":"XID Error" and "ErrNum": 63.\n',
    ),
)
