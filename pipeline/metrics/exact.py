"""Exact intervals of rates."""

from __future__ import annotations

_HALF: float = 0.025


def poisson(count: int) -> tuple[float, float]:
    """Limits of the mean of a count with 95 % confidence, by Garwood. Over an exposure: divide both by it."""
    from scipy.special import gammaincinv  # noqa: PLC0415 - only runs with metrics need it

    low = float(gammaincinv(count, _HALF)) if count else 0.0
    return low, float(gammaincinv(count + 1, 1 - _HALF))
