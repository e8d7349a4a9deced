"""The configuration: facts about a cluster that none of its logs states. Read from ``aftershock.toml``.

A file with a mistake is refused as a whole, with one line that names the file, the line and what to write instead.
"""

from __future__ import annotations

import difflib
import importlib
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aftershock.parsers.column_map import ColumnMap
from aftershock.pipeline.config_maps import MAP_KEYS, WrongMap, column_map_of
from aftershock.pipeline.config_values import (
    Check,
    Wrong,
    count,
    format_name,
    host_list,
    number,
    path_rule,
    text_value,
    year,
    zone,
)
from aftershock.pipeline.exclusion_rules import CHECKS as _EXCLUSIONS
from aftershock.pipeline.exclusion_rules import ExclusionRules
from aftershock.pipeline.globs import glob_pattern
from aftershock.pipeline.metrics.alarm_rules import CHECKS as _ALARMS
from aftershock.pipeline.metrics.alarm_rules import AlarmRules
from aftershock.pipeline.metrics.live_rules import CHECKS as _PROMETHEUS
from aftershock.pipeline.metrics.live_rules import PrometheusConfig
from aftershock.pipeline.metrics.rules import CHECKS as _WINDOWS
from aftershock.pipeline.metrics.rules import WindowRules
from aftershock.pipeline.metrics.storage_rules import CHECKS as _STORAGE
from aftershock.pipeline.metrics.storage_rules import StorageConfig
from aftershock.pipeline.retry_rules import CHECKS as _CHAINS
from aftershock.pipeline.retry_rules import RetryRules
from aftershock.pipeline.toml_lines import KeyPath, key_lines
from aftershock.pipeline.training.number_rules import CHECKS as _TRAINING
from aftershock.pipeline.training.number_rules import TrainingRules

_SECTIONS: Final = (
    "cluster",
    "hosts",
    "storage",
    "chains",
    "exclusions",
    "training",
    "windows",
    "alarms",
    "sources",
    "prometheus",
)
_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


class ConfigError(Exception):
    """A configuration that cannot be used: one line, ``aftershock.toml:12: what is wrong``."""


@dataclass(frozen=True)
class ClusterConfig:
    """``[cluster]``. Host lists are expanded, in lower case, each host once; ``scrape_interval_s`` in seconds."""

    name: str | None = None
    timezone: str | None = None
    year: int | None = None
    hosts: tuple[str, ...] = ()
    train_hosts: tuple[str, ...] = ()
    spare_hosts: tuple[str, ...] = ()
    gpus_per_host: int | None = None
    scrape_interval_s: float | None = None


@dataclass(frozen=True)
class SourceConfig:
    """One ``[[sources]]``: what is known about the files that ``glob`` matches.

    host_from, job_id_from: ``file_name``, ``parent_folder``, or a regular expression that is searched in the path
        and has a group ``host`` or ``job_id``.
    column_map: how a table names what it holds: of ``preset``, ``[sources.columns]`` and the keys beside them.
    """

    glob: str
    format: str | None = None
    timezone: str | None = None
    year: int | None = None
    host_from: str | None = None
    job_id_from: str | None = None
    column_map: ColumnMap | None = None

    def host_of(self, path: str) -> str | None:
        """The host that wrote the file, as its path says it; None if it does not."""
        return _from_path(self.host_from, "host", path)

    def job_id_of(self, path: str) -> str | None:
        """The job that wrote the file, as its path says it; None if it does not."""
        return _from_path(self.job_id_from, "job_id", path)


@dataclass(frozen=True)
class Config:
    """The whole configuration. ``Config()`` is that of a run without a file.

    aliases: host names as printed, in lower case, to the true name.
    folder: folder of the file, absolute; globs start there.
    started_in: the folder that relative paths start from. A worker may stand in another one.
    """

    cluster: ClusterConfig = ClusterConfig()
    aliases: Mapping[str, str] = field(default_factory=dict)
    storage: StorageConfig = field(default_factory=StorageConfig)
    chains: RetryRules = field(default_factory=RetryRules)
    exclusions: ExclusionRules = field(default_factory=ExclusionRules)
    training: TrainingRules = field(default_factory=TrainingRules)
    windows: WindowRules = field(default_factory=WindowRules)
    alarms: AlarmRules = field(default_factory=AlarmRules)
    sources: tuple[SourceConfig, ...] = ()
    prometheus: PrometheusConfig = field(default_factory=PrometheusConfig)
    folder: str | None = None
    started_in: str = field(default_factory=os.getcwd)

    def source_for(self, path: str) -> SourceConfig | None:
        """The first ``[[sources]]`` whose glob matches a path: relative, absolute, or an object-store address."""
        if not self.sources:
            return None
        if _URL.match(path):
            addresses = (source for source in self.sources if _URL.match(source.glob))
            return next((source for source in addresses if glob_pattern("", source.glob).fullmatch(path)), None)
        folder = os.path.abspath(self.folder or self.started_in)
        absolute = os.path.normpath(os.path.join(self.started_in, path))
        # The same file may be reached through a link (/tmp on some systems), in the path or in the folder.
        ways = [(folder, absolute), (os.path.realpath(folder), os.path.realpath(absolute))]
        for source in self.sources:
            if not _URL.match(source.glob) and any(glob_pattern(top, source.glob).fullmatch(at) for top, at in ways):
                return source
        return None


def _from_path(how: str | None, group: str, path: str) -> str | None:
    if how is None:
        return None
    if how == "file_name":
        return path.rsplit("/", 1)[-1].split(".", 1)[0] or None
    if how == "parent_folder":
        whole = path if _URL.match(path) else os.path.abspath(path)
        return os.path.basename(os.path.dirname(whole)) or None
    found = re.search(how, path)
    return found.group(group) if found else None


def load_config(path: str) -> Config:
    """Read a configuration file.

    Raises:
        ConfigError: it cannot be read, is no TOML, has an unknown key, or a value of a wrong type or kind.
    """
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: the file is not UTF-8 text") from error
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    # TOML allows line ends of Windows, and counts them as one.
    text = text.replace("\r\n", "\n")
    try:
        document = toml.loads(text)
    except toml.TOMLDecodeError as error:
        said = str(error)
        where = re.search(r"\(at line (\d+), column \d+\)", said)
        line = int(where.group(1)) if where else text.rstrip("\n").count("\n") + 1
        reason = re.sub(r"\s*\(at [^)]*\)$", "", said)
        raise ConfigError(f"{path}:{line}: this is no TOML: {reason}") from error
    return _Reader(path, key_lines(text)).config(document)


class _Reader:
    """Turns a TOML document into a configuration, or says where it is wrong."""

    def __init__(self, path: str, lines: Mapping[KeyPath, int]) -> None:
        self._path = path
        self._lines = lines

    def config(self, document: Mapping[str, Any]) -> Config:
        """The whole configuration."""
        self._known(document, _SECTIONS, (), "")
        return Config(
            cluster=ClusterConfig(**self._section(document, "cluster", _CLUSTER)),
            aliases=self._aliases(document),
            storage=StorageConfig(**self._section(document, "storage", _STORAGE)),
            chains=RetryRules(**self._section(document, "chains", _CHAINS)),
            exclusions=ExclusionRules(**self._section(document, "exclusions", _EXCLUSIONS)),
            training=TrainingRules(**self._section(document, "training", _TRAINING)),
            windows=WindowRules(**self._section(document, "windows", _WINDOWS)),
            alarms=AlarmRules(**self._section(document, "alarms", _ALARMS)),
            sources=tuple(self._sources(document)),
            prometheus=PrometheusConfig(**self._section(document, "prometheus", _PROMETHEUS)),
            folder=os.path.dirname(os.path.abspath(self._path)),
        )

    def _section(self, document: Mapping[str, Any], name: str, checks: Mapping[str, Check]) -> dict[str, Any]:
        value = document.get(name, {})
        if not isinstance(value, dict):
            raise self._error((name,), f"{name} must be a table: write [{name}] above its keys")
        return self._values(value, (name,), f"[{name}]", checks)

    def _values(
        self,
        table: Mapping[str, Any],
        path: KeyPath,
        title: str,
        checks: Mapping[str, Check],
        also: Iterable[str] = (),
    ) -> dict[str, Any]:
        """The checked values of a table. ``also``: keys that it may have besides, which are read elsewhere."""
        self._known(table, (*checks, *also), path, f" in {title}")
        return {
            key: self._checked(checks[key], value, (*path, key), f"{key} in {title}") for key, value in table.items()
        }

    def _checked(self, check: Check, value: Any, path: KeyPath, title: str) -> Any:
        try:
            return check(value)
        except Wrong as wrong:
            raise self._error(path, f"{title} {wrong}") from None

    def _aliases(self, document: Mapping[str, Any]) -> dict[str, str]:
        hosts = document.get("hosts", {})
        if not isinstance(hosts, dict):
            raise self._error(("hosts",), "hosts must be a table: the roster is `hosts` in [cluster]")
        self._known(hosts, ("aliases",), ("hosts",), " in [hosts]")
        table = hosts.get("aliases", {})
        if not isinstance(table, dict):
            raise self._error(("hosts", "aliases"), "aliases in [hosts] must be a table of names")
        aliases: dict[str, str] = {}
        for printed, name in table.items():
            path = ("hosts", "aliases", printed)
            if isinstance(name, dict):
                raise self._error(path, f'"{printed}" in [hosts.aliases]: a name with dots must stand in quotes')
            if not isinstance(name, str) or not name.strip():
                raise self._error(path, f'"{printed}" in [hosts.aliases] must be the name of a host')
            known = aliases.setdefault(printed.strip().lower(), name.strip().lower())
            if known != name.strip().lower():
                raise self._error(path, f'"{printed}" in [hosts.aliases] is already "{known}"')
        return aliases

    def _sources(self, document: Mapping[str, Any]) -> Iterable[SourceConfig]:
        tables = document.get("sources", [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise self._error(("sources",), "sources must be tables: write [[sources]] above each")
        for position, table in enumerate(tables):
            path: KeyPath = ("sources", position)
            plain = {key: value for key, value in table.items() if key not in MAP_KEYS}
            values = self._values(plain, path, "[[sources]]", _SOURCE, also=MAP_KEYS)
            if "glob" not in values:
                raise self._error(path, "[[sources]] without a glob: which files is it about?")
            try:
                values["format"], values["column_map"] = column_map_of(table, values.get("format"))
            except WrongMap as wrong:
                raise self._error((*path, *wrong.path), str(wrong)) from None
            yield SourceConfig(**values)

    def _known(self, table: Iterable[str], known: Iterable[str], path: KeyPath, where: str) -> None:
        names = list(known)
        for key in table:
            if key not in names:
                near = difflib.get_close_matches(key.lower(), names, n=1)
                hint = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(names)}"
                raise self._error((*path, key), f'unknown key "{key}"{where}; {hint}')

    def _error(self, path: KeyPath, text: str) -> ConfigError:
        """The error with the line of the key, or of the nearest thing around it."""
        while path and path not in self._lines:
            path = path[:-1]
        one_line = " ".join(text.split())  # a key in quotes may hold line ends
        return ConfigError(f"{self._path}:{self._lines.get(path, 1)}: {one_line}")


_CLUSTER: Final[Mapping[str, Check]] = {
    "name": text_value,
    "timezone": zone,
    "year": year,
    "hosts": host_list,
    "train_hosts": host_list,
    "spare_hosts": host_list,
    "gpus_per_host": count,
    "scrape_interval_s": number,
}
_SOURCE: Final[Mapping[str, Check]] = {
    "glob": text_value,
    "format": format_name,
    "timezone": zone,
    "year": year,
    "host_from": path_rule("host"),
    "job_id_from": path_rule("job_id"),
}
