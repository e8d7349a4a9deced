"""Before anything runs: options are checked, inputs are found. Whatever is wrong here is wrong use. No Beam here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aftershock.parsers.clock import SECOND
from aftershock.pipeline.config import Config, load_config
from aftershock.pipeline.options import RunOptions, UsageError
from aftershock.pipeline.plan import Inputs, expand

MANIFEST: Final = "manifest.json"

# Equal records closer than this (in microseconds) are one burst.
BURST_GAP: Final = 60 * SECOND


@dataclass(frozen=True)
class Prepared:
    """A run that may begin."""

    options: RunOptions
    config: Config
    inputs: Inputs


def prepare(options: RunOptions) -> Prepared:
    """Check the options and find the inputs. Nothing is written.

    Raises:
        UsageError, ConfigError, MissingInput: wrong use.
    """
    config = load_config(options.config) if options.config else Config()
    if not options.out.strip():
        raise UsageError("--out is empty: name the folder of the result")
    if "://" in options.out:
        raise UsageError("--out takes a folder of this machine; copy the result to an object store afterwards")
    if options.since is not None and options.until is not None and options.since >= options.until:
        raise UsageError("--since is not before --until")
    out = Path(options.out)
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {options.out}: is a file, not a folder")
    if (out / MANIFEST).exists() and not options.overwrite:
        raise UsageError(f"--out {options.out}: holds a result already; give --overwrite to replace it")
    leave_out = [options.out, *([options.config] if options.config else [])]
    return Prepared(options, config, expand(options.inputs, config, leave_out))
