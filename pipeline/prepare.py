"""Before anything runs: options are checked, inputs are found. Whatever is wrong here is wrong use. No Beam here."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aftershock.parsers.clock import SECOND
from aftershock.pipeline.config import Config, load_config
from aftershock.pipeline.options import RunOptions, UsageError
from aftershock.pipeline.plan import Inputs, expand

if TYPE_CHECKING:
    from aftershock.pipeline.pseudonyms.key import Key

MANIFEST: Final = "manifest.json"

# Equal records closer than this (in microseconds) are one burst.
BURST_GAP: Final = 60 * SECOND


@dataclass(frozen=True)
class Prepared:
    """A run that may begin.

    staging: folder for its parts, within that of the result. leaves_folder: whether the latter is to be there when the
    run has ended, even if it has no result.
    """

    options: RunOptions
    config: Config
    inputs: Inputs
    key: Key | None = field(default=None, repr=False)
    staging: Path = Path()
    leaves_folder: bool = True

    @property
    def aside(self) -> str:
        """Folder for steps of blocks that have many."""
        return str(self.staging / "@aside")


def prepare(options: RunOptions) -> Prepared:
    """Check the options and find the inputs. Nothing is written.

    Raises:
        UsageError, ConfigError, MissingInput: wrong use.
    """
    config = load_config(options.config) if options.config else Config()
    key = _key(options)
    if not options.out.strip():
        raise UsageError("--out is empty: name the folder of the result")
    if "://" in options.out:
        raise UsageError("--out takes a folder of this machine; copy the result to an object store afterwards")
    if options.since is not None and options.until is not None and options.since >= options.until:
        raise UsageError("--since is not before --until")
    out = Path(options.out)
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {options.out}: is a file, not a folder")
    if (out / MANIFEST).exists() and not (options.overwrite or options.dry_run):
        raise UsageError(f"--out {options.out}: holds a result already; give --overwrite to replace it")
    leave_out = [path for path in (options.out, options.config, options.pseudonymise) if path]
    leave_out += _live(options, config)
    inputs = expand(options.inputs, config, leave_out)
    staging = out / f".staging-{uuid.uuid4().hex[:12]}"
    return Prepared(options, config, inputs, key, staging, leaves_folder=out.exists() or not options.dry_run)


def _live(options: RunOptions, config: Config) -> list[str]:
    """Check what is needed to ask a live server. Returns what it leaves on the disk, which is no input."""
    if config.prometheus.url is None:
        if options.dry_run:
            raise UsageError("--dry-run shows what a server of metrics would be asked: give url in [prometheus]")
        return []
    from aftershock.pipeline.metrics.live_access import BadAccess, access_of  # noqa: PLC0415 - few runs need it
    from aftershock.pipeline.metrics.live_cache import cache_folder  # noqa: PLC0415

    folder = config.folder or config.started_in
    try:
        access_of(config.prometheus, folder)
    except BadAccess as error:
        raise UsageError(str(error)) from error
    secrets = config.prometheus.secret_files()
    return [
        str(cache_folder(config.prometheus.cache, folder, options.out)),
        *(os.path.join(folder, path) for path in secrets),
    ]


def _key(options: RunOptions) -> Key | None:
    if options.pseudonymise is None and not options.hide:
        return None
    from aftershock.pipeline.pseudonyms.key import BadKey, read_key  # noqa: PLC0415 - few runs need it
    from aftershock.pipeline.pseudonyms.names import HIDEABLE  # noqa: PLC0415

    for word in options.hide:
        if word not in HIDEABLE:
            raise UsageError(f"--hide {word}: unknown; what can be hidden are {', '.join(HIDEABLE)}")
    if options.pseudonymise is None:
        raise UsageError("--hide needs --pseudonymise KEYFILE: the pseudonyms are made with a key")
    try:
        return read_key(options.pseudonymise)
    except BadKey as error:
        raise UsageError(f"--pseudonymise {error}") from error
