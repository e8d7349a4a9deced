"""Who is the cause: of the errors of one attempt one at most is the root, the others are symptoms of it, or noise.

Hardware that names itself goes before all else. Then the earliest counts, for whatever is raised later may come of it,
unless it is known to be nothing but a consequence. A run that came to its end has no root, and an error that a run
survived is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from aftershock.parsers.clock import micros_between
from aftershock.parsers.formats import Found
from aftershock.parsers.training.attempts import event_of
from aftershock.parsers.training.copies import TOLD, near
from aftershock.parsers.training.marks import CONFIRMED, FIRST_EXIT, LATER_EXIT, PARTLY, SUCCESS
from aftershock.parsers.training.progress import stood_still, went_on
from aftershock.parsers.training.writers import mark_of
from aftershock.schemas.events import TrainingEvent

# Classes that are roots wherever they are named, and before whatever came earlier.
_HARDWARE: Final = frozenset(
    {"gpu_memory_ecc", "nvlink_fault", "gpu_hang_or_gsp", "silent_data_corruption", "node_failure"}
)
# Somebody from outside ended the run.
_OUTSIDE: Final = frozenset({"scheduler_time_limit", "preemption", "user_or_admin_cancel"})
# Nobody goes on after these, whatever is printed below them.
_FATAL: Final = _HARDWARE | _OUTSIDE | {"cuda_kernel_fault", "numeric_divergence", "hang_no_error", "collective_desync"}
# Named by the process itself, where somebody outside knows better.
_WEAK: Final = frozenset({"user_code_exception", "process_crash", "rendezvous_failure", "external_service", "unknown"})
# Kinds of events that only a run has that was under way.
_UNDER_WAY: Final = frozenset({"start", "resume", "save_begin", "save_end", "validation"})


def give_roles(events: list[Found], steps: Sequence[Found], *, after_failure: bool) -> tuple[list[Found], bool]:
    """The events of one attempt with their roles, and whether it failed. ``after_failure``: an earlier one did."""
    if _came_to_its_end(events):
        for item in events:
            if event_of(item).error_role in ("root", "symptom"):
                event_of(item).error_role = "noise"
        return events, False
    _without_survived(events, steps)
    _without_consequences(events, steps, after_failure=after_failure)
    events = _with_hang(events, steps)
    _choose(events)
    return events, any(_fails(item) for item in events)


def _roots(events: Sequence[Found]) -> list[Found]:
    return [item for item in events if event_of(item).error_role == "root"]


def _fails(item: Found) -> bool:
    return event_of(item).error_role in ("root", "symptom", "teardown")


def _came_to_its_end(events: Sequence[Found]) -> bool:
    marks = {mark_of(item) for item in events}
    if SUCCESS in marks:
        return True
    return PARTLY in marks and not any(event_of(item).kind == "exit" and _fails(item) for item in events)


def _without_survived(events: Sequence[Found], steps: Sequence[Found]) -> None:
    last = max((number for number, item in enumerate(events) if _fails(item)), default=-1)
    for number, item in enumerate(events):
        event = event_of(item)
        if event.error_role not in ("root", "symptom") or event.kind != "error" or event.error_class in _FATAL:
            continue
        if went_on(item, steps, told=mark_of(item) == TOLD, failed=number < last):
            event.error_role = "noise"


def _with_hang(events: list[Found], steps: Sequence[Found]) -> list[Found]:
    """A run that stood still before somebody ended it: that is the failure, the end is a symptom."""
    roots = _roots(events)
    if not roots or any(_class(item) not in _OUTSIDE - {"preemption"} for item in roots):
        return events
    hang = stood_still(roots[0], steps)
    if hang is None:
        return events
    for item in roots:
        event_of(item).error_role = "symptom"
    return sorted([*events, hang], key=lambda item: item.offset)


def _without_consequences(events: Sequence[Found], steps: Sequence[Found], *, after_failure: bool) -> None:
    """Roots that can only be consequences, because of what else is there."""
    under_way = bool(steps) or any(event_of(item).kind in _UNDER_WAY for item in events)
    torn_down = next((item.offset for item in events if event_of(item).error_role == "teardown"), None)
    from_outside = any(event_of(item).error_class in _OUTSIDE | {"node_failure"} for item in _roots(events))
    classes = Counter(_class(item) for item in _roots(events))
    before = _Before()
    for item in events:
        event = event_of(item)
        if event.error_role == "root":
            if event.error_class == "rendezvous_failure":
                others = classes.total() - classes["rendezvous_failure"]
                follows = under_way or after_failure or others > 0
            elif event.error_class == "nic_or_link":
                follows = bool(before.classes - {"nic_or_link"})
            elif event.error_class == "user_or_admin_cancel":
                told = classes["scheduler_time_limit"] + classes["preemption"] > 0
                follows = told or bool(before.classes - {"user_or_admin_cancel", "requeue"})
            elif event.error_class == "scheduler_time_limit":
                follows = "collective_timeout" in before.classes
            else:
                late = torn_down is not None and item.offset > torn_down and _is_weak(event)
                follows = late and (from_outside or before.exits)
            if follows:
                classes[event.error_class] -= 1
                event.error_role = "symptom"
        before.add(item)


def _is_weak(event: TrainingEvent) -> bool:
    """Whether a process says something of itself that it may say because it was told to end."""
    return event.error_class in _WEAK and event.kind == "error"


class _Before:
    """What failed before a line, without what was only torn down: its classes, and whether a process ended."""

    def __init__(self) -> None:
        self.classes: set[str | None] = set()
        self.exits = False

    def add(self, item: Found) -> None:
        if _fails(item) and event_of(item).error_role != "teardown":
            self.classes.add(_class(item))
            self.exits = self.exits or event_of(item).kind == "exit"


def _class(item: Found) -> str | None:
    return event_of(item).error_class


def _choose(events: Sequence[Found]) -> None:
    roots = _roots(events)
    if not roots:
        return
    hardware = [item for item in roots if _class(item) in _HARDWARE]
    root = _earliest(hardware or roots)
    if _class(root) in _WEAK:
        known = [item for item in roots if mark_of(item) == CONFIRMED or _class(item) == "preemption"]
        root = _earliest(known) if known else root
    root = _with_place(root, roots)
    for item in roots:
        event_of(item).error_role = "root" if item is root else "symptom"
    if _is_of_one_host(event_of(root), events):
        event_of(root).error_class = "storage_io"


def _earliest(roots: Sequence[Found]) -> Found:
    """By their clocks where they have one in common, else by their places in the file.

    A launcher lists the later exits above the first; its clock may not tell them apart.
    """
    first = roots[0]
    for item in roots[1:]:
        apart = micros_between(first.reading, item.reading) or 0
        if apart < 0 or (apart == 0 and mark_of(first) == LATER_EXIT and mark_of(item) == FIRST_EXIT):
            first = item
    return first


def _with_place(root: Found, roots: Sequence[Found]) -> Found:
    """Of several prints of one fault that which says where it was: the node, or the rank."""
    event = event_of(root)
    if event.kind != "exit" and event.error_class != "node_failure":
        return root
    if event.kind == "exit" and event.rank is not None:
        return root
    for item in roots:
        other = event_of(item)
        same = other.error_class == event.error_class and near(root, item)
        if same and other.host_raw is not None and (event.kind != "exit" or mark_of(item) == FIRST_EXIT):
            return item
    return root


def _is_of_one_host(event: TrainingEvent, events: Sequence[Found]) -> bool:
    """Whether a path is missing, or closed, for several ranks of one host and for nobody elsewhere."""
    if event.error_class not in ("user_data_path", "user_permission") or event.host_raw is None or not event.ranks:
        return False
    return any(event_of(item).host_raw not in (None, event.host_raw) for item in events)
