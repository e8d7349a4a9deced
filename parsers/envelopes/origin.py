"""Where a record of a store comes from: its members by dotted names, and whether they name the kernel log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

Members = Mapping[str, Any]

LONGEST_STREAM: Final = 512
# What tells where a stream comes from, and the names of the kernel log there: a word, or the last one of a path.
_ORIGIN: Final = (
    *("unit", "systemd_unit", "job", "facility", "source", "sourcetype", "filename", "file", "path", "log.file.path"),
    *(
        "log_file",
        "log_name",
        "identifier",
        "app",
        "service_name",
        "logStreamName",
        "logStream",
        "@logStream",
        "logGroup",
    ),
)
_KERNEL_LOG: Final = re.compile(r"(?:.*[/.])?(?:kern|kernel|kmsg|dmesg)(?:\.log)?(?:\.\d{1,3})?")


def member(members: Members, name: str) -> Any:
    """A member by its dotted name, flat (``"host.name"``) or nested; lists of one are taken apart."""
    value = members.get(name)
    if value is None and "." in name:
        head, rest = name.split(".", 1)
        deeper = members.get(head)
        value = member(deeper, rest) if isinstance(deeper, Mapping) else None
    if isinstance(value, list) and len(value) == 1:
        return value[0]
    return value


def says_kernel(facts: Iterable[Members]) -> bool:
    """Whether labels say that a stream is the kernel log: unit, facility, the file or stream that it comes from."""
    values = (member(members, name) for members in facts for name in _ORIGIN)
    return any(isinstance(value, str) and _is_kernel_log(value) for value in values)


def _is_kernel_log(name: str) -> bool:
    return len(name) <= LONGEST_STREAM and _KERNEL_LOG.fullmatch(name) is not None
