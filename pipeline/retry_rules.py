"""What makes a session a retry of another one, as numbers: the section ``[chains]`` of the configuration.

How sure it is that a session takes up the work of an earlier one that failed is put together from what the two share.
Each thing that speaks for it (the name, the folder, the command) has a weight, the chance that it alone is right:
independent signs are wrong together with the product of their doubts, 1 - (1 - a)(1 - b). Each thing that speaks
against it (another size, none of the hosts, a long gap) is a factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from aftershock.pipeline.config_values import Wrong, count, kind_of, number, seconds


@dataclass(frozen=True)
class RetryRules:
    """When a later session counts as a retry, what is automatic about it, and when a chain counts as a success.

    success_min_runtime_s: a chain whose last session ran this long with progress has succeeded (a day).
    max_gap_s: a session that starts later than this after another ended does not continue it (two hours).
    min_confidence: a pair that is less sure than this is no retry.
    early_submit_s: a launcher that sees its job die may submit this long before accounting has closed it.
    names_per_folder: a folder that more differently named jobs of one user share is no sign by itself.
    weight_name, weight_stem, weight_folder, weight_command, weight_command_shape: how far an equal name, a name that is
        equal but for the mark of a further try, the same folder, the same command, and a command that is the same but
        for numbers speak for it.
    factor_size, factor_hosts, factor_command: another number of hosts or GPUs, none of the hosts, another command.
    near_gap_s, factor_late: a gap up to the first takes nothing away, one of max_gap_s takes it down by the second.
    factor_cancelled, factor_completed: an earlier session that was cancelled or completed; 0: is not retried.
    factor_no_user: nobody knows whose the two are.
    auto_submit_s: what is submitted this soon after the end was submitted by a machine.
    regular_retries, regular_spread, regular_spread_s: so many retries of a chain whose gaps lie within the share of
        their median, or within the seconds, were made by a machine.
    irregular_spread: as many, whose gaps lie this share of their median apart, were made by a person.
    """

    success_min_runtime_s: float = 86400.0
    max_gap_s: float = 7200.0
    min_confidence: float = 0.5
    early_submit_s: float = 5.0
    names_per_folder: int = 2
    weight_name: float = 0.8
    weight_stem: float = 0.4
    weight_folder: float = 0.5
    weight_command: float = 0.4
    weight_command_shape: float = 0.2
    factor_size: float = 0.9
    factor_hosts: float = 0.95
    factor_command: float = 0.8
    near_gap_s: float = 1800.0
    factor_late: float = 0.8
    factor_cancelled: float = 0.0
    factor_completed: float = 0.0
    factor_no_user: float = 0.7
    auto_submit_s: float = 5.0
    regular_retries: int = 3
    regular_spread: float = 0.1
    regular_spread_s: float = 5.0
    irregular_spread: float = 0.5


def share(value: Any) -> float:
    """A number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Wrong(f"must be a number, not {kind_of(value)}")
    if not 0 <= value <= 1:
        raise Wrong(f"must be between 0 and 1, not {value}")
    return float(value)


def _check_of(name: str, kind: str) -> Callable[[Any], Any]:
    if kind == "int":
        return count
    if name.endswith("_s"):
        return seconds
    return number if name.endswith("spread") else share


CHECKS: Final[Mapping[str, Callable[[Any], Any]]] = {
    field.name: _check_of(field.name, str(field.type)) for field in fields(RetryRules)
}

# How far a share is moved to see what depends on it.
_STEP: Final = 0.1


def variants(rules: RetryRules) -> Iterator[tuple[str, RetryRules]]:
    """The rules with one threshold moved: half and double, or a tenth down and up; each with its name."""
    for name in ("max_gap_s", "success_min_runtime_s", "early_submit_s", "names_per_folder", "min_confidence"):
        value = getattr(rules, name)
        if name == "min_confidence":
            moved = [round(value - _STEP, 6), round(value + _STEP, 6)]
        elif isinstance(value, int):
            moved = [value // 2, value * 2]
        else:
            moved = [value / 2, value * 2]
        for other in moved:
            if other != value and other >= 0 and (name != "min_confidence" or other <= 1):
                changes: dict[str, Any] = {name: other}
                yield f"{name}={other:g}", replace(rules, **changes)


def widest(rules: RetryRules) -> RetryRules:
    """Rules that let through every pair that the rules or one of their variants let through."""
    every = [rules, *(moved for _, moved in variants(rules))]
    return replace(
        rules,
        max_gap_s=max(each.max_gap_s for each in every),
        early_submit_s=max(each.early_submit_s for each in every),
        names_per_folder=max(each.names_per_folder for each in every),
        min_confidence=min(each.min_confidence for each in every),
    )
