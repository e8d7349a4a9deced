"""The trainer that CONTRIBUTING shows is a whole one: its samples give the rows that they state."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

from aftershock.parsers.formats import Line
from aftershock.parsers.training.prefixes import peel_all
from aftershock.parsers.training.rules import Said

CONTRIBUTING = Path(__file__).parents[3] / "CONTRIBUTING.md"


def shown() -> dict[str, Any]:
    """The names that the example defines."""
    section = CONTRIBUTING.read_text(encoding="utf-8").split("## Add a trainer")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("    ") or not line]
    names: dict[str, Any] = {}
    exec(textwrap.dedent("\n".join(lines)), names)
    return names


def rows_of(text: bytes, rules: Any) -> list[Any]:
    """What the rules make of a line."""
    prefix = peel_all(text)
    said = Said(Line(0, text, None), prefix, b"")  # type: ignore[arg-type]
    said_rules = [rule for rule in rules if any(word in text for word in rule.words)]
    return [rule.row(found, said) for rule in said_rules for found in rule.shape.finditer(prefix.message)]


def test_the_example_reads_its_samples() -> None:
    names = shown()
    for sample in names["SAMPLES"]:
        rows = rows_of(sample.text.strip().encode(), names["RULES"])
        assert len(rows) == len(sample.rows)
        for row, want in zip(rows, sample.rows, strict=True):
            assert {name: getattr(row, name) for name in want.fields} == dict(want.fields)
    for text in names["NON_SAMPLES"]:
        assert rows_of(text.strip().encode(), names["RULES"]) == []


def test_the_example_is_short() -> None:
    section = CONTRIBUTING.read_text(encoding="utf-8").split("## Add a trainer")[1].split("\n## ")[0]
    assert len(re.findall(r"(?m)^    \S", section)) <= 14
