"""Series of losses and of times of steps, made for these tests and for ``docs/spikes.md``: of runs that go well, in the
ways in which their numbers vary, and of runs in which something was planted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Random = np.random.Generator


def autoregressive(rng: Random, count: int, rho: float, spread: float) -> Floats:
    """Noise in which each value remembers the one before; its spread as a whole."""
    own = rng.standard_normal(count) * spread * np.sqrt(1 - rho * rho)
    out = np.empty(count)
    held = rng.standard_normal() * spread
    for at, value in enumerate(own.tolist()):
        held = rho * held + value
        out[at] = held
    return out


def falling(count: int) -> Floats:
    """The loss of a language model without its noise."""
    return np.asarray(1.8 + 9.0 * np.arange(1, count + 1) ** -0.45)


def _noisy(rho: float, spread: float) -> Callable[[Random, int], Floats]:
    def made(rng: Random, count: int) -> Floats:
        return falling(count) * np.exp(autoregressive(rng, count, rho, spread))

    return made


def _heavy(rng: Random, count: int) -> Floats:
    return falling(count) * (1 + 0.02 * rng.standard_t(3, count)).clip(0.2)


def _bad_batches(rng: Random, count: int) -> Floats:
    loss = _noisy(0.3, 0.02)(rng, count)
    bad = rng.random(count) < 0.005
    return np.where(bad, loss * rng.uniform(1.5, 4.0, count), loss)


def _epochs(rng: Random, count: int) -> Floats:
    """Fine-tuning with small batches: the loss falls where an epoch begins, and rises a little within it."""
    place = np.arange(count)
    epoch = place // 400
    level = 1.2 * 0.6 ** np.minimum(epoch, 6) * (1 + 0.1 * (place % 400) / 400)
    return np.asarray(level * np.exp(rng.standard_normal(count) * 0.3))


def _near_zero(rng: Random, count: int) -> Floats:
    level = 1e-3 + 1.5 * np.exp(-np.arange(count) / 60)
    return np.asarray(level * np.exp(autoregressive(rng, count, 0.5, 0.6)))


def _constant(_rng: Random, count: int) -> Floats:
    return np.full(count, 0.6931)


def _other_data(rng: Random, count: int) -> Floats:
    """Another mixture from some step on, and back: the level changes at once and stays."""
    loss = _noisy(0.3, 0.01)(rng, count)
    begin, end = count // 3, 2 * count // 3
    loss[begin:end] *= rng.uniform(1.12, 1.4)
    return loss


def _bump(rng: Random, count: int) -> Floats:
    """The learning rate is warmed up once more: some per cent, over hundreds of steps."""
    place = np.arange(count) - count // 2
    return _noisy(0.5, 0.01)(rng, count) * (1 + 0.07 * np.exp(-((place / 250.0) ** 2)))


def _early(rng: Random, count: int) -> Floats:
    """A loss that jumps about while the learning rate is warmed up."""
    place = np.arange(count)
    return _noisy(0.3, 0.02)(rng, count) * (1 + 2 * np.exp(-(((place - 60) / 15.0) ** 2)))


def _signed(rng: Random, count: int) -> Floats:
    return autoregressive(rng, count, 0.8, 0.05)


# Losses of runs that go well, by what is special about them.
LOSSES: Final[Mapping[str, Callable[[Random, int], Floats]]] = {
    "noise of 1 %": _noisy(0.3, 0.01),
    "noise of 3 %, remembers 10 steps": _noisy(0.9, 0.03),
    "noise of 10 % (small batches)": _noisy(0.2, 0.1),
    "noise of 5 %, remembers 50 steps": _noisy(0.98, 0.05),
    "heavy tails (three degrees of freedom)": _heavy,
    "bad batches, one in 200, up to four times": _bad_batches,
    "fine-tuning, noise of 30 %, falls at epochs": _epochs,
    "falls to 0.001, noise of 60 %": _near_zero,
    "constant": _constant,
    "other data, up to 40 % higher": _other_data,
    "bump of 7 % over 500 steps": _bump,
    "threefold at step 60, in the warm-up": _early,
    "about zero (policy loss)": _signed,
}


def _jitter(rho: float, spread: float) -> Callable[[Random, int], Floats]:
    def made(rng: Random, count: int) -> Floats:
        return 1.2 * np.exp(autoregressive(rng, count, rho, spread))

    return made


def _stops(rng: Random, count: int) -> Floats:
    """Saves every 100 steps, evaluations of eight slow steps every 250, and a collection of garbage every 10."""
    place = np.arange(count)
    took = _jitter(0.2, 0.01)(rng, count)
    took[place % 100 == 99] *= 20
    took[place % 250 < 8] *= 2
    took[place % 10 == 5] *= 1.4
    return took


def _two_sizes(rng: Random, count: int) -> Floats:
    """Batches of two lengths, as chance has it."""
    return np.where(rng.random(count) < 0.5, 1.0, 1.6) * _jitter(0.0, 0.01)(rng, count)


def _day(rng: Random, count: int) -> Floats:
    return _jitter(0.3, 0.01)(rng, count) * (1 + 0.03 * np.sin(np.arange(count) / 300))


def _compiled(rng: Random, count: int) -> Floats:
    took = _jitter(0.2, 0.01)(rng, count)
    took[:40] *= np.linspace(20, 1.05, 40)
    return took


def _tails(rng: Random, count: int) -> Floats:
    return 1.2 * np.exp(0.01 * np.abs(rng.standard_t(1.5, count)).clip(0, 300))


# Times of steps of runs that go well.
TIMES: Final[Mapping[str, Callable[[Random, int], Floats]]] = {
    "varies by 1 %": _jitter(0.2, 0.01),
    "varies by 5 %": _jitter(0.2, 0.05),
    "varies by 20 %": _jitter(0.2, 0.2),
    "varies by 3 %, remembers 10 steps": _jitter(0.9, 0.03),
    "varies by 3 %, remembers 50 steps": _jitter(0.98, 0.03),
    "heavy tails, up to twentyfold": _tails,
    "saves, evaluations, collections of garbage": _stops,
    "batches of two lengths": _two_sizes,
    "up and down by 3 % over 2000 steps": _day,
    "slow while it is compiled": _compiled,
}


def with_spike(loss: Floats, at: int, length: int, times: float) -> Floats:
    """A spike that comes at once and goes slowly: up to so many times the loss, gone after so many steps."""
    out = loss.copy()
    fade = np.exp(-3.0 * np.arange(length) / length)
    out[at : at + length] *= 1 + (times - 1) * fade
    return out


def with_slow(took: Floats, at: int, length: int, times: float) -> Floats:
    """Steps that take longer for a while."""
    out = took.copy()
    out[at : at + length] *= times
    return out
