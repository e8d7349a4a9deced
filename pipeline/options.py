"""What a run is asked to do, and the arguments that go on to Beam."""

from __future__ import annotations

import argparse
import datetime as dt
import difflib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

CONDITIONS: Final = ("rejects", "no-events", "assumed-zone")

# Options of Beam and its runners that may hold credentials: they stay out of the manifest.
_SECRET_WORDS: Final = ("key", "secret", "token", "password", "credential")


def shown(path: str) -> str:
    """A path as text of the tables: bytes that are no UTF-8 are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


class UsageError(Exception):
    """Wrong use: one line that says what to type."""


@dataclass(frozen=True)
class RunOptions:
    """The options of ``aftershock run``. Times are microseconds UTC."""

    inputs: tuple[str, ...]
    out: str
    config: str | None = None
    timezone: str | None = None
    year: int | None = None
    since: int | None = None
    until: int | None = None
    table_format: str = "parquet"
    all_samples: bool = False
    overwrite: bool = False
    fail_on: tuple[str, ...] = ()
    beam_args: tuple[str, ...] = ()
    verbose: bool = False
    quiet: bool = False
    dry_run: bool = False
    pseudonymise: str | None = None
    hide: tuple[str, ...] = ()

    def parameters(self) -> dict[str, Any]:
        """What shaped the result, for the manifest: no secrets, no paths but those given."""
        return {
            "inputs": [shown(path) for path in self.inputs],
            "config": shown(self.config) if self.config else None,
            "timezone": self.timezone,
            "year": self.year,
            "since": self.since,
            "until": self.until,
            "table_format": self.table_format,
            "all_samples": self.all_samples,
            "beam": [_without_secret(arg) for arg in self.beam_args],
        }


def _without_secret(arg: str) -> str:
    name, equals, _ = arg.partition("=")
    secret = any(word in name.lower() for word in _SECRET_WORDS)
    return f"{name}=***" if secret and equals else arg


def split_words(words: Sequence[str], ours: Sequence[str]) -> tuple[list[str], list[str]]:
    """Words that are no option of ours, as (inputs, arguments for Beam): only Beam knows which of its own take a word.

    Raises:
        UsageError: an option that Beam does not know either; ``ours`` are the options that might have been meant.
    """
    if not any(word.startswith("--") for word in words):
        return list(words), []
    parser = _beam_parser()
    try:
        _, inputs = parser.parse_known_args(list(words))
    except argparse.ArgumentError as error:
        raise UsageError(str(error)) from error
    unknown = next((word for word in inputs if word.startswith("-")), None)
    if unknown:
        known = [option for action in parser._actions for option in action.option_strings]
        raise UsageError(unknown_option(unknown, [*ours, *known]))
    left = list(inputs)
    arguments = []
    for word in words:
        if left and word == left[0]:
            left.pop(0)
        else:
            arguments.append(word)
    return inputs, arguments


def _beam_parser() -> argparse.ArgumentParser:
    from aftershock.pipeline.quick_beam import beam  # noqa: PLC0415

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for options in beam.options.pipeline_options.PipelineOptions.__subclasses__():
        options._add_argparse_args(parser)
    return parser


def unknown_option(given: str, known: Sequence[str]) -> str:
    """What to say to an option that nobody knows."""
    name = given.split("=", maxsplit=1)[0]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "see aftershock run --help"
    return f"unknown option {name}: {hint}"


def machine_zone() -> str:
    """The zone of this machine: an IANA name where the system says one, else its present offset."""
    stated = os.environ.get("TZ", "").lstrip(":")
    if stated and os.path.exists(os.path.join("/usr/share/zoneinfo", stated)):
        return stated
    target = os.path.realpath("/etc/localtime")
    if not stated and "/zoneinfo/" in target:
        return target.split("/zoneinfo/", 1)[1]
    offset = dt.timedelta(seconds=time.localtime().tm_gmtoff)
    minutes = int(offset.total_seconds()) // 60
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
