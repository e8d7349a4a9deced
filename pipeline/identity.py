"""Which GPU sat where and when: sightings from many sources become one row for each GPU and validity.

A sighting says that a GPU was in a slot at a time (kernel log, nvidia-smi, DCGM labels) or at some time (lspci, a list
without a date). GPUs are not swapped while a host runs, so a sighting holds back to the boot before it; without a boot
that is known, its beginning is unknown. It holds until another GPU is seen in the slot, or the same one elsewhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from aftershock.schemas.events import GpuError, HealthCheck, NodeEvent
from aftershock.schemas.topology import Gpu

# Whose word for the model counts first: nvidia-smi and DCGM print product names, lspci those of its own list.
_SOURCES: Final = ("nvidia-smi", "dcgm labels", "kernel log")
_BETWEEN: Final = ", "


@dataclass
class _Stretch:
    """A GPU in a slot for some time. ``last``: the last sighting; ``start``, ``end``: None where they are unknown."""

    pci: str | None
    uuid: str | None = None
    serial: str | None = None
    index: int | None = None
    model: tuple[int, str] | None = None
    words: set[str] = field(default_factory=set)
    start: int | None = None
    end: int | None = None
    last: int | None = None

    def fits(self, row: Gpu) -> bool:
        """Whether nothing that a sighting says contradicts what is known."""
        pairs = ((self.uuid, row.gpu_uuid), (self.serial, row.gpu_serial), (self.index, row.gpu_index))
        return all(mine is None or theirs is None or mine == theirs for mine, theirs in pairs)

    def absorb(self, row: Gpu, *, index: bool = True) -> None:
        """Take over what a sighting says."""
        self.uuid = self.uuid or row.gpu_uuid
        self.serial = self.serial or row.gpu_serial
        if index and self.index is None:
            self.index = row.gpu_index
        if row.model is not None:
            named = (_rank(row), row.model)
            self.model = named if self.model is None else min(self.model, named)
        self.words.update(_words(row))
        if row.valid_from is not None:
            self.last = row.valid_from if self.last is None else max(self.last, row.valid_from)


def _words(row: Gpu) -> list[str]:
    return [word for word in (row.how_known or "").split(_BETWEEN) if word]


def _rank(row: Gpu) -> int:
    return min((_SOURCES.index(word) for word in _words(row) if word in _SOURCES), default=len(_SOURCES))


def _order(row: Gpu) -> tuple[object, ...]:
    """A total order of sightings, so that the order in which they come does not matter."""
    place = (row.pci or "", row.gpu_uuid or "", row.gpu_serial or "", -1 if row.gpu_index is None else row.gpu_index)
    # Those that say who the GPU is come before those that only say that there is one.
    return row.valid_from or 0, row.gpu_uuid is None, *place, row.model or "", row.how_known or ""


def merge_gpus(rows: Iterable[Gpu], node_events: Iterable[NodeEvent] = ()) -> list[Gpu]:
    """The table of GPUs from sightings (``valid_from``: when it was seen) and the boots among events of the same hosts.

    The order of the input does not matter. Rows whose host is not known are joined by UUID alone.
    """
    boots: dict[str | None, list[int]] = defaultdict(list)
    for event in node_events:
        if event.kind == "boot" and event.time is not None:
            boots[event.host].append(event.time)
    by_host: dict[tuple[str | None, str | None], list[Gpu]] = defaultdict(list)
    for row in rows:
        by_host[row.cluster, row.host].append(row)
    merged: list[Gpu] = []
    for (cluster, host), seen in by_host.items():
        stretches = _stretches(seen, sorted(boots.get(host, ()))) if host else _without_host(seen)
        merged += [_row(cluster, host, stretch) for stretch in stretches]
    merged.sort(key=lambda row: (row.cluster or "", row.host or "", *_order(row)))
    return merged


def _row(cluster: str | None, host: str | None, stretch: _Stretch) -> Gpu:
    return Gpu(
        cluster=cluster,
        host=host,
        gpu_index=stretch.index,
        pci=stretch.pci,
        gpu_uuid=stretch.uuid,
        gpu_serial=stretch.serial,
        model=stretch.model[1] if stretch.model else None,
        valid_from=stretch.start,
        valid_to=stretch.end,
        how_known=_BETWEEN.join(sorted(stretch.words)) or None,
    )


def _stretches(rows: Sequence[Gpu], boots: Sequence[int]) -> list[_Stretch]:
    rows = sorted(_joined_by_number(rows), key=_order)
    slots = _Slots(boots)
    for row in rows:
        if row.valid_from is not None and row.pci is not None:
            slots.see(row)
    undated = [row for row in rows if row.valid_from is None and row.pci is not None]
    for row in undated:
        slots.add_undated(row)
    for row in rows:
        if row.pci is None:
            slots.add_without_slot(row)
    return slots.stretches


def _joined_by_number(rows: Sequence[Gpu]) -> list[Gpu]:
    """Sightings with the serial number filled in by the UUID, and the UUID by the serial number, where that is clear.

    GPUs of one board may share its serial number: then it says nothing.
    """
    uuids: dict[str, set[str]] = defaultdict(set)
    serials: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.gpu_uuid is not None and row.gpu_serial is not None:
            uuids[row.gpu_serial].add(row.gpu_uuid)
            serials[row.gpu_uuid].add(row.gpu_serial)
    joined = []
    for row in rows:
        uuid, serial = row.gpu_uuid, row.gpu_serial
        if uuid is None and serial is not None and len(uuids[serial]) == 1:
            (uuid,) = uuids[serial]
        elif serial is None and uuid is not None and len(serials[uuid]) == 1:
            (serial,) = serials[uuid]
        joined.append(
            Gpu(
                gpu_index=row.gpu_index,
                pci=row.pci,
                gpu_uuid=uuid,
                gpu_serial=serial,
                model=row.model,
                valid_from=row.valid_from,
                how_known=row.how_known,
            )
        )
    return joined


class _Slots:
    """The slots of one host while its sightings are gone through in the order of their times."""

    def __init__(self, boots: Sequence[int]) -> None:
        self.stretches: list[_Stretch] = []
        self._boots = boots
        self._in_slot: dict[str, _Stretch] = {}
        self._of_uuid: dict[str, _Stretch] = {}
        self._left: dict[str, int] = {}  # when the last GPU of a slot that is empty now was seen

    def see(self, row: Gpu) -> None:
        """A GPU in a slot at a time."""
        slot, when = row.pci, row.valid_from
        assert slot is not None
        assert when is not None
        current = self._in_slot.get(slot)
        if current is None or not current.fits(row) or self._may_be_another(current, row):
            before = [self._left.pop(slot, None)]
            elsewhere = self._of_uuid.get(row.gpu_uuid) if row.gpu_uuid else None
            for ended in (current, elsewhere):
                if ended is not None and ended.end is None:
                    before.append(ended.last)
                    self._close(ended, when)
            self._left.pop(slot, None)
            known = [time for time in before if time is not None]
            current = _Stretch(slot, start=self._begin(max(known) if known else None, when))
            self.stretches.append(current)
            self._in_slot[slot] = current
        current.absorb(row)
        if current.uuid is not None:
            self._of_uuid[current.uuid] = current

    def _may_be_another(self, current: _Stretch, row: Gpu) -> bool:
        """Whether the GPU got its name only after a boot: the one before it need not have been the same."""
        unnamed = current.uuid is None and current.serial is None
        assert row.valid_from is not None
        return unnamed and row.gpu_uuid is not None and bool(self._boots_in(current.last, row.valid_from))

    def _boots_in(self, after: int | None, until: int) -> Sequence[int]:
        """The boots in (after, until]."""
        first = 0 if after is None else bisect_right(self._boots, after)
        return self._boots[first : bisect_right(self._boots, until)]

    def _begin(self, last_before: int | None, when: int) -> int | None:
        """Since when a new sighting holds: since the boot before it, or, after another GPU, since it was seen."""
        boots = self._boots_in(last_before, when)
        if boots:
            return boots[-1]
        return None if last_before is None else when

    def _close(self, stretch: _Stretch, when: int) -> None:
        boots = self._boots_in(stretch.last, when)
        stretch.end = boots[0] if boots else when
        if stretch.pci is not None and self._in_slot.get(stretch.pci) is stretch:
            del self._in_slot[stretch.pci]
            if stretch.last is not None:
                self._left[stretch.pci] = stretch.last

    def add_undated(self, row: Gpu) -> None:
        """A GPU in a slot at some time: it adds to what it agrees with."""
        here = [stretch for stretch in self.stretches if stretch.pci == row.pci]
        fitting = [stretch for stretch in here if stretch.fits(row)]
        if row.gpu_uuid is not None:
            same = [stretch for stretch in fitting if stretch.uuid == row.gpu_uuid]
            # A slot whose only GPU has no name yet is given this one.
            fitting = same or (fitting if len(here) == 1 else [])
        elif row.gpu_serial is not None:
            same = [stretch for stretch in fitting if stretch.serial == row.gpu_serial]
            fitting = same or (fitting if len(here) == 1 else [])
        if not fitting:
            fitting = [_Stretch(row.pci)]
            self.stretches += fitting
        for stretch in fitting:
            stretch.absorb(row, index=len(fitting) == 1)

    def add_without_slot(self, row: Gpu) -> None:
        """A GPU that is named, but not where it sits (nvidia-smi -L)."""
        if row.gpu_uuid is not None:
            same = [stretch for stretch in self.stretches if stretch.uuid == row.gpu_uuid]
        else:
            same = [s for s in self.stretches if row.gpu_serial is not None and s.serial == row.gpu_serial]
        if not same:
            same = [_Stretch(None)]
            self.stretches += same
        for stretch in same:
            when = row.valid_from
            row.valid_from = None  # when it was seen says nothing about a slot
            stretch.absorb(row, index=len(same) == 1)
            row.valid_from = when


def _without_host(rows: Sequence[Gpu]) -> list[_Stretch]:
    """Sightings on hosts that are not known: only the UUID says that two are the same GPU."""
    stretches: dict[object, _Stretch] = {}
    for row in sorted(_joined_by_number(rows), key=_order):
        key = row.gpu_uuid or (row.gpu_serial, row.pci, row.gpu_index, row.model)
        stretch = stretches.setdefault(key, _Stretch(row.pci))
        stretch.pci = stretch.pci or row.pci
        stretch.absorb(row)
    return list(stretches.values())


def identify(rows: Iterable[GpuError | HealthCheck], gpus: Iterable[Gpu]) -> None:
    """Fill in which GPU an error or a check is about, by its slot (or its UUID) on its host at its time.

    What the line itself or its own source said stays; where two GPUs come into question nothing is filled in, and a GPU
    that is not known stays under its PCI address.
    """
    by_slot: dict[tuple[str, str], list[Gpu]] = defaultdict(list)
    by_uuid: dict[tuple[str, str], list[Gpu]] = defaultdict(list)
    for gpu in gpus:
        if gpu.host is not None and gpu.pci is not None:
            by_slot[gpu.host, gpu.pci].append(gpu)
        if gpu.host is not None and gpu.gpu_uuid is not None:
            by_uuid[gpu.host, gpu.gpu_uuid].append(gpu)
    for row in rows:
        if row.host is None:
            continue
        if row.pci is not None:
            _fill(row, by_slot.get((row.host, row.pci), ()))
        elif row.gpu_uuid is not None:
            _fill(row, by_uuid.get((row.host, row.gpu_uuid), ()))


def _fill(row: GpuError | HealthCheck, gpus: Sequence[Gpu]) -> None:
    if not gpus:
        return
    serial = row.gpu_serial if isinstance(row, GpuError) else None
    fitting = [
        gpu
        for gpu in gpus
        if _valid_at(gpu, row, alone=len(gpus) == 1)
        and (row.gpu_uuid is None or gpu.gpu_uuid in (None, row.gpu_uuid))
        and (serial is None or gpu.gpu_serial in (None, serial))
    ]
    if len({gpu.gpu_uuid for gpu in fitting}) > 1:
        return
    names = ("gpu_uuid", "pci", "gpu_serial", "gpu_index") if isinstance(row, GpuError) else ("gpu_uuid", "pci")
    for name in names:
        known = {value for gpu in fitting if (value := getattr(gpu, name)) is not None}
        if getattr(row, name) is None and len(known) == 1:
            setattr(row, name, known.pop())


def _valid_at(gpu: Gpu, row: GpuError | HealthCheck, *, alone: bool) -> bool:
    if row.time is None:
        return alone  # the only GPU that this slot is known to have had
    slack = round((row.time_error_s or 0.0) * 1_000_000)
    early = gpu.valid_from is not None and row.time + slack < gpu.valid_from
    late = gpu.valid_to is not None and row.time - slack >= gpu.valid_to
    return not (early or late)
