"""Whose series it is: host and GPU of a set of labels, however its exporter spells them.

A GPU is known by its UUID, else by host and PCI address, else by host and index, which is less sure: indexes change
when a GPU drops out. The host is the first label that names a host which other records know; ``instance`` is the last
resort, and the name of an exporter's own pod is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from aftershock.parsers.hosts import HostNames
from aftershock.schemas.topology import Gpu

# In this order: what names a machine before what names whoever was asked.
_HOST_LABELS: Final = (
    *("Hostname", "hostname", "node", "nodename", "kubernetes_node", "node_name", "host", "exported_host"),
    *("exported_hostname", "exported_node", "exported_instance", "instance"),
)
_UUID_LABELS: Final = ("UUID", "gpu_uuid", "uuid", "GPU_UUID", "gpuuuid")
_PCI_LABELS: Final = ("pci_bus_id", "pci_bus", "pci", "bus_id", "pci_address", "gpu_pci_bus_id")
_INDEX_LABELS: Final = ("gpu_index", "gpu", "minor_number", "gpu_id", "GPU_I_ID", "index")
_PORT: Final = re.compile(r":\d{1,5}\Z")
_PCI: Final = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?\Z")
_NO_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1", ""})


@dataclass(frozen=True)
class Subject:
    """What a series is about. ``how``: what the GPU was told by; null for a series of the whole host."""

    host: str | None
    gpu_uuid: str | None = None
    gpu_index: int | None = None
    pci: str | None = None
    how: str | None = None


class Subjects:
    """Finds the subject of labels, with what a run knows of its hosts and GPUs."""

    def __init__(self, names: HostNames, hosts: Iterable[str], gpus: Iterable[Gpu]) -> None:
        self._names = names
        self._known = frozenset(hosts)
        self._by_uuid: dict[str, Gpu] = {}
        self._by_pci: dict[tuple[str, str], Gpu] = {}
        self._by_index: dict[tuple[str, int], Gpu] = {}
        for gpu in gpus:
            if gpu.gpu_uuid:
                self._by_uuid[gpu.gpu_uuid] = gpu
            if gpu.host and gpu.pci:
                self._by_pci[gpu.host, gpu.pci] = gpu
            if gpu.host and gpu.gpu_index is not None:
                self._by_index[gpu.host, gpu.gpu_index] = gpu

    def of(self, labels: Mapping[str, str]) -> Subject:
        """Host and GPU of a series."""
        uuid = next((labels[name] for name in _UUID_LABELS if labels.get(name, "").startswith(("GPU-", "MIG-"))), None)
        pci = next((address for name in _PCI_LABELS if (address := pci_of(labels.get(name, "")))), None)
        index = next((int(labels[name]) for name in _INDEX_LABELS if labels.get(name, "").isdigit()), None)
        known = self._by_uuid.get(uuid or "")
        host = known.host if known is not None and known.host else self._host(labels)
        how = "uuid" if uuid else "pci" if pci else "index" if index is not None else None
        gpu = known
        if gpu is None and host and not uuid:
            gpu = (
                self._by_pci.get((host, pci or ""))
                if pci
                else self._by_index.get((host, -1 if index is None else index))
            )
        if gpu is not None:
            uuid, pci = uuid or gpu.gpu_uuid, pci or gpu.pci
            index = gpu.gpu_index if index is None else index
        return Subject(host, uuid, index, pci, how)

    def _host(self, labels: Mapping[str, str]) -> str | None:
        named = [self._names.of(_PORT.sub("", labels[name])) for name in _HOST_LABELS if labels.get(name)]
        hosts = [host for host in named if host and host not in _NO_HOSTS]
        return next((host for host in hosts if host in self._known), hosts[0] if hosts else None)


def pci_of(printed: str) -> str | None:
    """``dddd:bb:dd.f`` in lower case, however many digits the domain has; None if it is no PCI address."""
    found = _PCI.match(printed.strip())
    if found is None:
        return None
    domain = int(found[1] or "0", 16)
    return f"{domain:0{4 if domain <= 0xFFFF else 8}x}:{found[2].lower()}:{found[3].lower()}.{found[4] or '0'}"
