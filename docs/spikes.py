"""Write docs/spikes.md anew: how often the numbers of steps tell of a spike or of slow steps, where there are none and
where some were planted.

    python docs/spikes.py

``tests/pipeline/training/test_spikes_page.py`` fails where the page is not current.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from aftershock.pipeline.training.step_series import LOSS, TIME  # noqa: E402
from tests.pipeline.training.made_numbers import LOSSES, TIMES, Floats, Random, with_slow, with_spike  # noqa: E402
from tests.pipeline.training.series import found, points  # noqa: E402

PAGE: Final = ROOT / "docs" / "spikes.md"
RUNS: Final = 20
STEPS: Final = 5000
PLANTED_AT: Final = 3110
# How far from where it was planted something may be found.
NEAR: Final = 3

Makers = Mapping[str, Callable[[Random, int], Floats]]
NOISES: Final = {
    LOSS: ("noise of 1 %", "noise of 3 %, remembers 10 steps", "noise of 10 % (small batches)"),
    TIME: ("varies by 1 %", "varies by 5 %", "saves, evaluations, collections of garbage"),
}
PLANTED: Final = {
    LOSS: [(times, length) for times in (1.2, 1.5, 2.0, 3.0) for length in (10, 100)],
    TIME: [(times, length) for times in (1.04, 1.1, 1.2, 1.5) for length in (25, 500)],
}


def false_events(what: str, make: Callable[[Random, int], Floats]) -> int:
    """Events in runs that go well."""
    return sum(len(found(what, points(make(np.random.default_rng(seed), STEPS)))) for seed in range(RUNS))


def right(what: str, make: Callable[[Random, int], Floats], times: float, length: int) -> int:
    """Runs in which what was planted is found at its steps, and nothing else."""
    plant = with_spike if what == LOSS else with_slow
    count = 0
    for seed in range(RUNS):
        rises = found(what, points(plant(make(np.random.default_rng(seed), STEPS), PLANTED_AT, length, times)))
        if len(rises) != 1 or abs(rises[0].first_step - PLANTED_AT) > NEAR:
            continue
        back = rises[0].back_step
        # The end of a spike that fades is where it is halfway down, which depends on the noise.
        count += what == LOSS or (back is not None and abs(back - PLANTED_AT - length) <= NEAR)
    return count


def false_table(what: str, makers: Makers) -> list[str]:
    """Rates of false events."""
    lines = ["| numbers | events | of steps |", "|---|---|---|"]
    lines += [f"| {name} | {false_events(what, make)} | {RUNS * STEPS} |" for name, make in makers.items()]
    return lines


def planted_table(what: str, makers: Makers) -> list[str]:
    """What is found of what was planted."""
    names = NOISES[what]
    lines = [f"| times | steps | {' | '.join(names)} |", "|---|---|" + "---|" * len(names)]
    for times, length in PLANTED[what]:
        counts = " | ".join(str(right(what, makers[name], times, length)) for name in names)
        lines.append(f"| {times:g} | {length} | {counts} |")
    return lines


def page() -> str:
    """The text of the page."""
    lines = [
        f"""\
# Spikes and slow steps that numbers tell of

Written by `docs/spikes.py`; do not edit. `aftershock run` looks at the losses and the times of the steps of each
attempt, with the thresholds of `[training]` in the configuration; `pipeline/training/number_rules.py` says what each
is for. The runs here are made by `tests/pipeline/training/made_numbers.py`: {RUNS} runs of {STEPS} printed steps for
each line. They show what the defaults take for noise, not how your runs behave.

Of real runs: the records of https://github.com/KellerJordan/modded-nanogpt (as of commit f411b3d) have 1,163 logs
of runs that ended well, with 2,239,683 times of steps and, in 78 of them, 315,874 losses. Nothing in them is called a
spike or slow. Yet 668 times one of them changes its batch or its window on the way, and is slower by more than half
from then on: their logs do not say what a step does, and then steps that stay slow are no event.

## Losses of runs that go well
""",
        *false_table(LOSS, LOSSES),
        """
## Times of steps of runs that go well

Where the pace of a run goes up and down by itself, some of its slow spells are called slow. They are.
""",
        *false_table(TIME, TIMES),
        f"""
## Planted spikes

A spike of so many times the loss, which fades over so many steps: of {RUNS} runs those in which it is found at its
first step, and nothing else is.
""",
        *planted_table(LOSS, LOSSES),
        f"""
## Planted slow steps

So many steps that take so many times as long: of {RUNS} runs those in which they are found from their first step to
their last one, each within {NEAR} steps, and nothing else is.
""",
        *planted_table(TIME, TIMES),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Rewrite the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
