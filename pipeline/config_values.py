"""What a value in the configuration may be: a check gives it as the program uses it, or says what is wrong."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable
from typing import Any, Final

from aftershock.parsers.hostlist import expand_hosts
from aftershock.parsers.resolve import BadZone, zone_of

# Format names that stay the same whatever formats there are; most stand for several formats.
FIXED_FORMATS: Final = (
    "kernel",
    "slurmctld",
    "slurmd",
    "sacct",
    "scontrol_job",
    "scontrol_node",
    "training",
    "openmetrics",
    "tsdb",
)


class Wrong(Exception):
    """What is wrong with a value, without its place."""


Check = Callable[[Any], Any]


def text_value(value: Any) -> str:
    if not isinstance(value, str):
        raise Wrong(f"must be text in quotes, not {kind_of(value)}")
    if not value.strip():
        raise Wrong("must not be empty")
    return value.strip()


def number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Wrong(f"must be a number, not {kind_of(value)}")
    if not math.isfinite(value) or value <= 0:
        raise Wrong(f"must be more than 0, not {value}")
    return float(value)


def seconds(value: Any) -> float:
    """A span of time, which may be none at all."""
    return 0.0 if value == 0 and not isinstance(value, bool) else number(value)


def share(value: Any) -> float:
    """A part of a whole."""
    if number(value) > 1:
        raise Wrong(f"must be a share, at most 1, not {value}")
    return float(value)


def count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Wrong(f"must be a whole number, not {kind_of(value)}")
    if value <= 0:
        raise Wrong(f"must be more than 0, not {value}")
    return value


def year(value: Any) -> int:
    # Nothing that is read here was logged before the epoch, and a year of two digits is a slip.
    if not 1970 <= count(value) <= 9998:
        raise Wrong(f"must be a year such as 2026, not {value}")
    return int(value)


def zone(value: Any) -> str:
    try:
        zone_of(text_value(value))
    except BadZone as error:
        raise Wrong(f"is an {error}") from error
    return text_value(value)


def host_list(value: Any) -> tuple[str, ...]:
    try:
        hosts = expand_hosts(text_value(value))
    except ValueError as error:
        raise Wrong(f"is no list of hosts: {error}") from error
    return tuple(dict.fromkeys(host.lower() for host in hosts))


def format_name(value: Any) -> str:
    given = text_value(value)
    if given in FIXED_FORMATS:
        return given
    from aftershock.parsers import registry  # noqa: PLC0415 - loads every format, which few configurations need

    known = sorted({*registry.known_names(), *FIXED_FORMATS})
    if given not in known and not registry.formats_named(given):
        near = difflib.get_close_matches(given.lower(), known, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(known)}"
        raise Wrong(f'is an unknown format "{given}"; {hint}')
    return given


def path_rule(group: str) -> Check:
    words = ("file_name", "parent_folder")

    def check(value: Any) -> str:
        given = text_value(value)
        if given in words:
            return given
        try:
            pattern = re.compile(given)
        except re.error as error:
            raise Wrong(f"is a bad regular expression: {error}") from error
        if group not in pattern.groupindex:
            raise Wrong(f'must be "file_name", "parent_folder" or a regular expression with a group (?P<{group}>...)')
        return given

    return check


def kind_of(value: Any) -> str:
    """What a value of TOML is called."""
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (bool, "true or false"),
        (str, "text"),
        (int, "a whole number"),
        (float, "a number with a fraction"),
        (list, "a list"),
        (dict, "a table"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), "a date or time")
