"""The metrics that alarms are made of, in families: metrics of one family tell of the same thing.

What is not scraped by default (ECC, violations, link errors) is here too: it counts where it is there. ``up`` and what
is missing are families of their own: silence is told by several signs together, as a target that was only taken out of
the configuration ends without a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ERRORS: Final = "gpu_errors"
UP: Final = "up"
ABSENCE: Final = "absence"
MARKERS: Final = "markers"
STRUCTURE: Final = frozenset({UP, ABSENCE, MARKERS})

_FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    ERRORS: (
        *("DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT", "DCGM_FI_DEV_ROW_REMAP_FAILURE"),
        *("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS"),
        *("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"),
        *("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "gpu_ecc_correct_total", "gpu_ecc_uncorrect_total", "gpu_afid_errors"),
        *("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL"),
        *("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL"),
    ),
    "gpu_load": (
        *("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),
        *("DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_DEV_MEM_COPY_UTIL"),
        *("all_smi_gpu_utilization", "nvidia_smi_utilization_gpu_ratio"),
    ),
    "gpu_memory": (*("DCGM_FI_DEV_FB_USED", "all_smi_gpu_memory_used_bytes", "nvidia_smi_memory_used_bytes"),),
    "gpu_power": (
        *("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_SM_CLOCK", "all_smi_gpu_power_consumption_watts"),
        *("gpu_package_power", "nvidia_smi_power_draw_watts", "all_smi_gpu_frequency_mhz"),
    ),
    "gpu_heat": (
        *("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_MEMORY_TEMP", "all_smi_gpu_temperature_celsius"),
        *("nvidia_smi_temperature_gpu",),
    ),
    "gpu_links": (
        *("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES"),
        *("DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES"),
    ),
    "system": (
        *("node_intr_total", "node_context_switches_total", "node_procs_running", "node_procs_blocked", "node_load1"),
        *("node_vmstat_pgpgout", "node_memory_MemAvailable_bytes"),
    ),
    "network": (
        *("node_infiniband_link_downed_total", "node_infiniband_symbol_error_total"),
        *("node_infiniband_port_transmit_wait_total", "node_infiniband_port_data_transmitted_bytes_total"),
        *("node_infiniband_port_data_received_bytes_total",),
    ),
    "storage": (
        *("node_nfs_rpc_retransmissions_total", "node_mountstats_nfs_transport_backlog_queue_total"),
        *("node_mountstats_nfs_total_read_bytes_total", "node_mountstats_nfs_total_write_bytes_total"),
    ),
    "host_errors": ("node_edac_correctable_errors_total", "node_edac_uncorrectable_errors_total"),
    UP: ("up",),
}
# Families in which one occurrence is a signal: it shows in one sample.
OCCURRENCES: Final = frozenset({ERRORS, "host_errors", MARKERS})

FAMILY_OF: Final[Mapping[str, str]] = {metric: family for family, metrics in _FAMILIES.items() for metric in metrics}
METRICS: Final = frozenset(FAMILY_OF)


def family_of(name: str) -> str:
    """The family of a metric, or of what is made of all of them."""
    return name if name in STRUCTURE else FAMILY_OF[name]
