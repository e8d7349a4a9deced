"""Bytes that remember how much of them was looked at: what a rule makes of a line may hang on those below it."""

from __future__ import annotations

from typing import Any


class Watched(bytes):
    """What follows a line, and how many bytes of it were looked at; all of them where that is not known."""

    reach = 0

    def _looked(self, until: int | None) -> None:
        self.reach = max(self.reach, len(self) + 1 if until is None or until < 0 else until + 1)

    def __getitem__(self, key: Any) -> Any:
        self._looked(key.stop if isinstance(key, slice) else None)
        return super().__getitem__(key)

    def find(self, *args: Any) -> int:
        place = super().find(*args)
        self._looked(place)
        return place

    def split(self, *args: Any) -> list[bytes]:
        self._looked(None)
        return super().split(*args)

    def startswith(self, *args: Any) -> bool:
        self._looked(None)
        return super().startswith(*args)

    def __contains__(self, key: Any) -> bool:
        self._looked(None)
        return super().__contains__(key)
