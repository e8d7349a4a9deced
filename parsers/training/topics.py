"""All grammars of training output: the modules of ``trainers``, ``launchers`` and ``faults``.

A module there that names ``RULES`` is found; nothing else has to be edited. It also has ``SAMPLES`` and
``NON_SAMPLES``, as a format has.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache
from types import ModuleType
from typing import Final

from aftershock.parsers.formats import Sample
from aftershock.parsers.training import faults, launchers, trainers
from aftershock.parsers.training.rules import Rule

_PACKAGES: Final = (trainers, launchers, faults)


@lru_cache(maxsize=1)
def topics() -> tuple[ModuleType, ...]:
    """The modules, in the order in which their rules are asked: trainers, launchers, faults, each by name."""
    found = []
    for package in _PACKAGES:
        for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
            module = importlib.import_module(f"{package.__name__}.{info.name}")
            if hasattr(module, "RULES"):
                found.append(module)
    return tuple(found)


@lru_cache(maxsize=1)
def all_rules() -> tuple[Rule, ...]:
    """The rules of all topics. A topic may state ``ORDER``: lower goes before higher (50 if it does not)."""
    ordered = sorted(topics(), key=lambda module: getattr(module, "ORDER", 50))
    return tuple(rule for module in ordered for rule in module.RULES)


def all_samples() -> tuple[Sample, ...]:
    """The samples of all topics."""
    return tuple(sample for module in topics() for sample in module.SAMPLES)


def all_non_samples() -> tuple[str, ...]:
    """The texts of all topics that must not match."""
    return tuple(text for module in topics() for text in module.NON_SAMPLES)
