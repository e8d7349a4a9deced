"""NVLink 5 errors (Xid 144 to 150): from the hexadecimal words on the line to what to do.

    NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000 ...)

The first word names the part of the unit and the reason, in bits that moved with driver R575; the second is the error
status. Some units count up reasons there, others set a flag for each.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from aftershock.schemas.catalogs.table import read_table, words

# From this major version of the driver on the first word has the newer layout.
NEW_LAYOUT_SINCE: Final = 575


@dataclass(frozen=True, slots=True)
class Nvlink5Rule:
    """One rule of the table.

    units: the names that the line may print. before_r575, from_r575: (mask, value) of the first word.
    severity, origin, secondary: as printed in the source; the line itself says how severe it is.
    """

    xid: int
    units: tuple[str, ...]
    before_r575: tuple[int, int]
    from_r575: tuple[int, int]
    status: int
    action: str
    investigate: str
    severity: str
    origin: str
    secondary: str | None

    def fits(self, intrinfo: int, *, new_layout: bool) -> bool:
        """Whether the first word has the bits of this rule."""
        mask, value = self.from_r575 if new_layout else self.before_r575
        return intrinfo & mask == value

    def same_verdict(self, other: Nvlink5Rule) -> bool:
        """Whether both rules say to do the same."""
        return (self.action, self.investigate, self.origin) == (other.action, other.investigate, other.origin)


def nvlink5_rule(xid: int, unit: str, intrinfo: int, status: int, driver: int | None) -> Nvlink5Rule | None:
    """The rule for an error, or None where the table has none or its rules contradict each other.

    driver: major version. If it is not known, the rules of both layouts are tried: a word that only one layout knows
    under the printed unit, or both with the same verdict, tells enough.

    >>> nvlink5_rule(149, "NETIR_LINK_EVT", 0x021425C6, 0, None).investigate
    'INVESTIGATE_PEER_DEVICE'
    """
    layouts = (False, True) if driver is None else (driver >= NEW_LAYOUT_SINCE,)
    candidates = _rules().get((xid, unit.upper()), [])
    fitting = [rule for rule in candidates if any(rule.fits(intrinfo, new_layout=layout) for layout in layouts)]
    rules = [rule for rule in fitting if rule.status == status] or _of_flags(fitting, status)
    if not rules or not all(rule.same_verdict(rules[0]) for rule in rules):
        return None
    return rules[0]


def _of_flags(fitting: list[Nvlink5Rule], status: int) -> list[Nvlink5Rule]:
    """The rules of all flags that are set in the status; nothing if one of them is not in the table."""
    flags = [1 << bit for bit in range(32) if status >> bit & 1]
    rules = [[rule for rule in fitting if rule.status == flag] for flag in flags]
    if len(flags) < 2 or not all(rules):
        return []
    return [rule for of_flag in rules for rule in of_flag]


@lru_cache(maxsize=1)
def _rules() -> dict[tuple[int, str], list[Nvlink5Rule]]:
    """All rules by Xid and by every name of their unit."""
    by_name: dict[tuple[int, str], list[Nvlink5Rule]] = defaultdict(list)
    for xid, units, before, since, status, action, investigate, severity, origin, secondary in read_table(
        "nvlink5.tsv"
    ):
        rule = Nvlink5Rule(
            xid=int(xid),
            units=words(units),
            before_r575=_bits(before),
            from_r575=_bits(since),
            status=int(status, 16),
            action=action,
            investigate=investigate,
            severity=severity,
            origin=origin,
            secondary=secondary or None,
        )
        for unit in rule.units:
            by_name[rule.xid, unit].append(rule)
    return dict(by_name)


def _bits(pattern: str) -> tuple[int, int]:
    """``--01`` as (mask, value)."""
    mask = int("".join("0" if bit == "-" else "1" for bit in pattern), 2)
    return mask, int(pattern.replace("-", "0"), 2)
