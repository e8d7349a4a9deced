"""Whose series it is: host and GPU of a set of labels, however its exporter spells them.

A GPU is known by its UUID, else by host and PCI address, else by host and index, which is less sure: indexes change
when a GPU drops out. The host is the first label that names a host which other records know; ``instance`` is the last
resort, and the name of an exporter's own pod is none. What stood in a place may change: identity holds at a time.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from aftershock.parsers.hosts import HostNames
from aftershock.parsers.prometheus.columns import NAME
from aftershock.schemas.topology import Gpu

# In this order: what names a machine before what names whoever was asked.
HOST_LABELS: Final = (
    *("Hostname", "hostname", "node", "nodename", "kubernetes_node", "node_name", "host", "exported_host"),
    *("exported_hostname", "exported_node", "exported_instance", "instance"),
)
UUID_LABELS: Final = ("UUID", "gpu_uuid", "uuid", "GPU_UUID", "gpuuuid")
PCI_LABELS: Final = ("pci_bus_id", "pci_bus", "pci", "bus_id", "pci_address", "gpu_pci_bus_id")
_INDEX_LABELS: Final = ("gpu_index", "gpu", "minor_number", "gpu_id", "GPU_I_ID", "index")
_PORT: Final = re.compile(r":\d{1,5}\Z")
_HEX: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
# Relabelling puts the model before it, or the number of a slice behind it.
_UUID: Final = re.compile(rf"(?:GPU|MIG)-{_HEX}")
_BARE_UUID: Final = re.compile(_HEX)
# Exporters that print what nvidia-smi does leave out the word before the digits.
_BARE_METRICS: Final = "nvidia_smi_"
# Labels that name nothing but a GPU: of other makers as they write it.
_OF_GPUS: Final = frozenset({"gpu_uuid", "GPU_UUID", "gpuuuid"})
_PCI: Final = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?\Z")
# An exporter in a cluster of Kubernetes calls its own pod a host.
_POD: Final = re.compile(r"(?:exporter|all-smi|dcgm|telegraf|agent)(?:-[a-z0-9]{5,10})?-[a-z0-9]{5}\Z")
_NO_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1", ""})


@dataclass(frozen=True)
class Subject:
    """What a series is about.

    how: what the GPU was told by; null for a series of the whole host. An index alone is not sure.
    matched: whether other records know the host.
    in_turn: the GPUs that stood in its place one after another, (from, until, UUID) in microseconds; empty if the same
        one always did.
    """

    host: str | None
    gpu_uuid: str | None = None
    gpu_index: int | None = None
    pci: str | None = None
    how: str | None = None
    matched: bool = False
    in_turn: tuple[tuple[int, int, str], ...] = ()

    def uuid_at(self, time: int) -> str | None:
        """The GPU that it was about at a time."""
        if self.gpu_uuid or not self.in_turn:
            return self.gpu_uuid
        return next((uuid for begin, end, uuid in self.in_turn if begin <= time < end), None)


class Subjects:
    """Finds the subject of labels, with what a run knows of its hosts and GPUs.

    named: host at an address, from series that name both (``node_uname_info``).
    """

    def __init__(
        self, names: HostNames, hosts: Iterable[str], gpus: Iterable[Gpu], named: Mapping[str, str] | None = None
    ) -> None:
        self._names = names
        self._known = frozenset(hosts)
        self._named = dict(named or {})
        self._by_uuid: dict[str, list[Gpu]] = defaultdict(list)
        self._by_pci: dict[tuple[str, str], list[Gpu]] = defaultdict(list)
        self._by_index: dict[tuple[str, int], list[Gpu]] = defaultdict(list)
        for gpu in gpus:
            if gpu.gpu_uuid:
                self._by_uuid[gpu.gpu_uuid.lower()].append(gpu)
            if gpu.host and gpu.pci:
                self._by_pci[gpu.host, gpu.pci].append(gpu)
            if gpu.host and gpu.gpu_index is not None:
                self._by_index[gpu.host, gpu.gpu_index].append(gpu)

    def of(self, labels: Mapping[str, str], time: int = 0) -> Subject:
        """Host and GPU of a series, which was seen at a time (microseconds)."""
        uuid = self._uuid(labels)
        pci = next((address for name in PCI_LABELS if (address := pci_of(labels.get(name, "")))), None)
        index = next((int(labels[name]) for name in _INDEX_LABELS if labels.get(name, "").isdecimal()), None)
        how = "uuid" if uuid else "pci" if pci else "index" if index is not None else None
        host = self._host(labels)
        slots: Sequence[Gpu] = ()
        if uuid:
            slots = self._by_uuid.get(uuid.lower(), ())
            # A GPU may have stood in two hosts: the label tells which, if it names one of them.
            places = [gpu for gpu in slots if gpu.host == host] or [gpu for gpu in slots if _holds(gpu, time)] or slots
            host = next((gpu.host for gpu in places if gpu.host), host)
            slots = [gpu for gpu in places if gpu.host == host]
        elif host and pci:
            slots = self._by_pci.get((host, pci), ())
        elif host and index is not None:
            slots = self._by_index.get((host, index), ())
        return _subject(Subject(host, uuid, index, pci, how, host in self._known), slots)

    def _uuid(self, labels: Mapping[str, str]) -> str | None:
        """The UUID of a GPU as its driver writes it."""
        for name in UUID_LABELS:
            text = labels.get(name, "")
            if not text:
                continue
            found = _UUID.search(text)
            uuid = found[0] if found else text if text.startswith(("GPU-", "MIG-")) else None
            if uuid is None and _BARE_UUID.fullmatch(text):
                whole = f"GPU-{text.lower()}"
                if whole.lower() in self._by_uuid or labels.get(NAME, "").startswith(_BARE_METRICS):
                    uuid = whole
                elif name in _OF_GPUS:
                    uuid = text
            if uuid:
                known = self._by_uuid.get(uuid.lower())
                return known[0].gpu_uuid if known else uuid
        return None

    def _host(self, labels: Mapping[str, str]) -> str | None:
        own = [self._names.of(without_port(labels[name])) for name in HOST_LABELS if labels.get(name)]
        # A machine that was scraped has a name, but whoever it tells of may be another.
        named = self._names.of(self._named.get(address_of(labels)))
        scraped = [own.pop()] if labels.get("instance") and own else []
        hosts = [host for host in (*own, named, *scraped) if host and host not in _NO_HOSTS and not _POD.search(host)]
        return next((host for host in hosts if host in self._known), named or (hosts[0] if hosts else None))

    def host_of(self, printed: str) -> str | None:
        """The host that a name means."""
        return self._names.of(printed)


def address_of(labels: Mapping[str, str]) -> str:
    """The machine that was scraped, as whoever scraped it calls it; empty if the labels do not say."""
    return without_port(labels.get("instance", ""))


def without_port(address: str) -> str:
    """A host or an address without the port behind it. Of an address with colons a port stands behind brackets."""
    return address if address.count(":") > 1 and "]" not in address else _PORT.sub("", address)


def named_by(labels: Mapping[str, str]) -> tuple[str, str] | None:
    """Address and host of a series that names both. What else is scraped at that address is of the same machine."""
    address = address_of(labels)
    if labels.get(NAME) != "node_uname_info" or address in _NO_HOSTS or not labels.get("nodename"):
        return None
    return address, labels["nodename"]


def _holds(gpu: Gpu, time: int) -> bool:
    return (gpu.valid_from is None or gpu.valid_from <= time) and (gpu.valid_to is None or time < gpu.valid_to)


def _subject(told: Subject, slots: Sequence[Gpu]) -> Subject:
    """What labels told, with what is known of the GPUs in that place."""
    if not slots:
        return told
    uuids = sorted({gpu.gpu_uuid for gpu in slots if gpu.gpu_uuid})
    addresses = {gpu.pci for gpu in slots if gpu.pci}
    indexes = {gpu.gpu_index for gpu in slots if gpu.gpu_index is not None}
    turns: tuple[tuple[int, int, str], ...] = ()
    if told.gpu_uuid is None and len(uuids) > 1:
        last = 1 << 62
        turns = tuple(
            sorted(
                (gpu.valid_from or 0, last if gpu.valid_to is None else gpu.valid_to, gpu.gpu_uuid)
                for gpu in slots
                if gpu.gpu_uuid
            )
        )
    return replace(
        told,
        gpu_uuid=told.gpu_uuid or (uuids[0] if len(uuids) == 1 else None),
        # After a GPU dropped out the others have new indexes: an address that is known beats none, not another.
        pci=told.pci or (next(iter(addresses)) if len(addresses) == 1 else None),
        gpu_index=told.gpu_index if told.gpu_index is not None else next(iter(indexes)) if len(indexes) == 1 else None,
        in_turn=turns,
    )


def pci_of(printed: str) -> str | None:
    """``dddd:bb:dd.f`` in lower case, however many digits the domain has; None if it is no PCI address."""
    found = _PCI.match(printed.strip())
    if found is None:
        return None
    domain = int(found[1] or "0", 16)
    return f"{domain:0{4 if domain <= 0xFFFF else 8}x}:{found[2].lower()}:{found[3].lower()}.{found[4] or '0'}"
