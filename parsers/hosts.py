"""Host names: one spelling for each host."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,252}\Z")


@dataclass(frozen=True)
class HostNames:
    """Turns printed host names into the names of the tables. ``aliases``: as printed (lower case) to the true name."""

    aliases: Mapping[str, str] = field(default_factory=dict)

    def of(self, printed: str | None) -> str | None:
        """Lower case, domain cut off, aliases applied; an IP address stays whole; None for what is no host name."""
        if not printed:
            return None
        name = printed.strip().strip("[]").lower()
        return self.aliases.get(name) or self.aliases.get(short := _short(name) or "") or (short or None)


@lru_cache(maxsize=65536)
def _short(name: str) -> str | None:
    if not _NAME.match(name):
        return None
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.split(".", 1)[0] or None


def domain_of(printed: str | None) -> str | None:
    """The domain of a long name, lower case; None for a short name or an address."""
    if not printed or "." not in printed:
        return None
    name = printed.strip().lower()
    short = _short(name)
    return name.split(".", 1)[1] if short and short != name and "." not in short else None
