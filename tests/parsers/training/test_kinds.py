"""The schema lists every kind of event that is written: who reads the tables knows what to ask for."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import aftershock.parsers
import aftershock.pipeline
from aftershock.parsers.registry import formats
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.schemas.events import TRAINING_EVENT_KINDS, TrainingEvent

# What makes an event of training output; the kind is the first argument of the first one.
_MAKERS = ("event", "error", "TrainingEvent")


def written() -> Iterator[tuple[str, str]]:
    """Kinds that stand in the code, each with its place."""
    for package in (aftershock.parsers, aftershock.pipeline):
        for path in sorted(Path(package.__path__[0]).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _MAKERS):
                    continue
                kinds = [word.value for word in node.keywords if word.arg == "kind"]
                # Kernel formats have an ``event`` of their own.
                if node.func.id == "event" and "training" in path.parts:
                    kinds += node.args[:1]
                for kind in kinds:
                    if isinstance(kind, ast.Constant) and isinstance(kind.value, str):
                        yield kind.value, f"{path.name}:{node.lineno}"


def looked_up() -> Iterator[tuple[str, str]]:
    """Kinds in tables of modules of trainers and launchers: what a word of theirs is called here."""
    for name in ("trainers", "launchers"):
        package = importlib.import_module(f"aftershock.parsers.training.{name}")
        for info in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{info.name}")
            for table, values in vars(module).items():
                if "KINDS" in table and isinstance(values, dict):
                    yield from ((value, f"{info.name}.{table}") for value in values.values())


def test_every_kind_in_the_code_is_listed() -> None:
    found = [*written(), *looked_up()]
    assert len({kind for kind, _ in found}) > 15, "the walk finds what there is"
    assert [(kind, place) for kind, place in found if kind not in TRAINING_EVENT_KINDS] == []


def test_every_kind_of_every_sample_is_listed() -> None:
    kinds = {
        row.kind
        for fmt in formats()
        if TrainingEvent.table in fmt.tables
        for sample in fmt.samples
        for row in rows_of_text(sample.text, fmt)
        if isinstance(row, TrainingEvent)
    }
    assert kinds - set(TRAINING_EVENT_KINDS) == set()


def test_no_kind_is_listed_that_nothing_writes() -> None:
    words = {
        node.value
        for package in (aftershock.parsers, aftershock.pipeline)
        for path in Path(package.__path__[0]).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(TRAINING_EVENT_KINDS) - words == set()
