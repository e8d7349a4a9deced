"""Write docs/confusion.md anew: which class of failure the parser names in logs with one planted fault.

    python docs/confusion.py

``tests/parsers/training/test_confusion.py`` fails where the page is not current.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from aftershock.parsers.selfcheck import rows_of_text  # noqa: E402
from aftershock.parsers.training import FORMAT  # noqa: E402
from aftershock.schemas.events import TrainingEvent  # noqa: E402
from tests.parsers.training.labelled import Labelled, failed_runs  # noqa: E402
from tests.parsers.training.noisy_success import successful_runs, unfinished_runs  # noqa: E402

PAGE: Final = ROOT / "docs" / "confusion.md"
# Classes of which the text of one log names no root: they follow from something else, or are no failure.
WITHOUT_ROOT: Final = frozenset(
    {"collective_timeout", "peer_exit", "teardown", "requeue", "loss_scale_overflow", "slowdown", "unknown"}
)
NONE: Final = "no root"


def roots_of(log: Labelled) -> list[str]:
    """The classes of the roots that the parser names in a log."""
    events = [row for row in rows_of_text(log.text, FORMAT) if isinstance(row, TrainingEvent)]
    return [row.error_class or "" for row in events if row.error_role == "root"]


def named(log: Labelled) -> str:
    """What the parser names as the cause."""
    roots = roots_of(log)
    return NONE if not roots else roots[0] if len(roots) == 1 else "several roots"


def wanted(label: str | None) -> str:
    """What it should name."""
    return NONE if label is None or label in WITHOUT_ROOT else label


def page() -> str:
    """The text of the page."""
    failed, well = failed_runs(), [*successful_runs(), *unfinished_runs()]
    counts = Counter((log.label or "", named(log)) for log in failed)
    right = sum(count for (label, got), count in counts.items() if got == wanted(label))
    false = sum(1 for log in well if named(log) != NONE)
    text = f"""\
# Causes that the parser of training output names

Written by `docs/confusion.py`; do not edit. The logs are made by `tests/parsers/training/labelled.py`: each has one
planted fault (`tests/samples/training_faults`, in the words of the programs that print it) amid the output of a run
of eight ranks, with what victims and launchers say of it, under two of five launchers. They were written beside the
parser by the same people: the numbers show what it tells apart, not how often it errs on logs of other clusters.

{right} of {len(failed)} logs with a fault have the cause that was planted, and no other.
{false} of {len(well)} logs of runs that succeeded, or were going well, have a cause.

Some classes are told by no single log: a time-out of collectives, an exit that others only see, a teardown, a requeue
and a slow run have no root in the text, and neither has an exit without a word. `no root` is right there.
"""
    lines = [
        text,
        "| planted | logs | named right | named otherwise |",
        "|---|---|---|---|",
    ]
    for label in sorted({log.label or "" for log in failed}):
        row = {got: count for (planted, got), count in counts.items() if planted == label}
        other = ", ".join(f"{got} {count}" for got, count in sorted(row.items()) if got != wanted(label))
        said = f"{row.get(wanted(label), 0)} ({NONE})" if label in WITHOUT_ROOT else str(row.get(label, 0))
        lines.append(f"| {label} | {sum(row.values())} | {said} | {other} |")
    lines += [f"| none: the run went well | {len(well)} | {len(well) - false} ({NONE}) | {false or ''} |", ""]
    return "\n".join(lines)


def main() -> None:
    """Rewrite the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
