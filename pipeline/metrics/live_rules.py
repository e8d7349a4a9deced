"""The server of metrics that a run may ask: the section ``[prometheus]`` of the configuration.

Secrets never stand in the configuration: it names a file or a variable of the environment that holds them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from aftershock.pipeline.config_values import Wrong, count, kind_of, number, seconds, text_value

# What tells most of a GPU host for a few dozen series of each GPU, by the names of DCGM, all-smi, AMD's exporter and
# node_exporter. What an exporter does not have costs nothing.
DEFAULT_METRICS: Final = (
    "up",
    "scrape_duration_seconds",
    "DCGM_FI_DEV_XID_ERRORS",
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_MEMORY_TEMP",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE",
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "DCGM_FI_PROF_DRAM_ACTIVE",
    "all_smi_gpu_utilization",
    "all_smi_gpu_memory_used_bytes",
    "all_smi_gpu_temperature_celsius",
    "all_smi_gpu_power_consumption_watts",
    "gpu_package_power",
    "gpu_junction_temperature",
    "gpu_ecc_uncorrect_total",
    "node_load1",
    "node_memory_MemAvailable_bytes",
    "node_boot_time_seconds",
    "node_procs_blocked",
    "node_vmstat_oom_kill",
    "node_edac_uncorrectable_errors_total",
    "node_infiniband_link_downed_total",
    "node_infiniband_symbol_error_total",
    "node_infiniband_port_transmit_wait_total",
    "node_nfs_rpc_retransmissions_total",
)
# Labels that may name a host. All of them are tried that the server has; a series is asked for once.
HOST_LABELS: Final = (
    *("instance", "Hostname", "hostname", "node", "nodename", "kubernetes_node", "node_name"),
    *("host", "exported_instance"),
)
APIS: Final = ("auto", "remote_read", "query")

_METRIC: Final = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*\Z")
_LABEL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True)
class PrometheusConfig:
    """``[prometheus]``: where the history of metrics can be asked for, and how much of it.

    url: of the server, without ``/api/v1``. Paths in this section start from the folder of the configuration.
    metrics: names of what is asked for; host_labels: labels that may hold the name of a host.
    api: ``remote_read``, ``query`` (range selectors), or ``auto``: the first where the server offers it.
    peers: hosts of the same session that are asked about for each event, besides its own.
    max_samples, max_queries: what a run may ask for; the rest of the windows is named in ``rejects``.
    concurrency: requests at one time. timeout_s: of a request. retries, backoff_s: after how long it is tried again,
        twice as long each time.
    bearer_token_file, bearer_token_env, basic_auth_file (``user:password``), headers_file (``Name: value`` lines):
        where secrets stand. ca_file: authorities that are trusted instead of those of the system.
    cache: folder of answers that came; beside ``--out`` if it is not given.
    """

    url: str | None = None
    metrics: tuple[str, ...] = DEFAULT_METRICS
    host_labels: tuple[str, ...] = HOST_LABELS
    api: str = "auto"
    peers: int = 16
    max_samples: int = 50_000_000
    max_queries: int = 2_000
    concurrency: int = 2
    timeout_s: float = 60.0
    retries: int = 3
    backoff_s: float = 1.0
    bearer_token_file: str | None = None
    bearer_token_env: str | None = None
    basic_auth_file: str | None = None
    headers_file: str | None = None
    ca_file: str | None = None
    cache: str | None = None

    def secret_files(self) -> tuple[str, ...]:
        """The files that hold secrets: they are no inputs, wherever they lie."""
        return tuple(path for path in (self.bearer_token_file, self.basic_auth_file, self.headers_file) if path)


def server_url(value: Any) -> str:
    """The address of a server. What may hold a secret has no place in it."""
    given = text_value(value)
    if not re.match(r"https?://[^/\s]", given):
        # The address is not repeated: it may hold a password.
        raise Wrong("must begin with http:// or https://")
    try:
        parts = urlsplit(given)
        _ = parts.port
    except ValueError as error:
        raise Wrong("is no address of a server") from error
    if "@" in parts.netloc:
        raise Wrong("must not hold a user or a password: write user:password into a file and name it: basic_auth_file")
    if parts.query or parts.fragment or "?" in given or re.search(r"\s", given):
        raise Wrong("must end with the path of the server: no ?, # or space")
    if "/api/v1" in parts.path:
        raise Wrong("must be the address before /api/v1")
    return given.rstrip("/")


def names(pattern: re.Pattern[str], what: str) -> Callable[[Any], tuple[str, ...]]:
    """A check for a list of names."""

    def check(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not value:
            raise Wrong(f"must be a list of {what}s in quotes, not {'empty' if value == [] else kind_of(value)}")
        for name in value:
            if not isinstance(name, str) or not pattern.match(name):
                raise Wrong(f"holds what is no name of a {what}: {name!r}")
        return tuple(dict.fromkeys(value))

    return check


def api(value: Any) -> str:
    given = text_value(value)
    if given not in APIS:
        raise Wrong(f'must be one of {", ".join(APIS)}, not "{given}"')
    return given


def variable(value: Any) -> str:
    given = text_value(value)
    if not _VARIABLE.match(given):
        # Most likely the secret itself: it is not repeated.
        raise Wrong("must be the name of a variable of the environment, not what it holds")
    return given


def whole(value: Any) -> int:
    """A whole number that may be none."""
    return 0 if value == 0 and not isinstance(value, bool) else count(value)


CHECKS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "url": server_url,
    "metrics": names(_METRIC, "metric"),
    "host_labels": names(_LABEL, "label"),
    "api": api,
    "peers": whole,
    "max_samples": count,
    "max_queries": count,
    "concurrency": count,
    "timeout_s": number,
    "retries": whole,
    "backoff_s": seconds,
    "bearer_token_file": text_value,
    "bearer_token_env": variable,
    "basic_auth_file": text_value,
    "headers_file": text_value,
    "ca_file": text_value,
    "cache": text_value,
}
