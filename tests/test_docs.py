"""What the documents say is what the code does."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from aftershock.cli import cli
from aftershock.schemas.tables import TABLES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def refresh() -> ModuleType:
    spec = importlib.util.spec_from_file_location("refresh", ROOT / "docs" / "refresh.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) < 150


def test_the_readme_shows_the_summary_that_the_demo_prints(tmp_path: Path) -> None:
    module = refresh()
    out = str(tmp_path / "demo")
    summary = module.demo_summary(out).replace(out, "build/demo")
    assert module.with_summary(README, summary) == README


def test_the_readme_lists_every_table() -> None:
    named = {
        name for cell in re.findall(r"^\| (`.*?`) \|", README, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)
    }
    assert set(TABLES) <= named


@pytest.mark.parametrize("command", ["run", "parse", "formats", "tables"])
def test_every_command_is_in_the_readme(command: str) -> None:
    assert f"aftershock {command}" in README
    assert command in cli.commands


def test_no_command_is_missing_from_this_list() -> None:
    assert set(cli.commands) == {"run", "parse", "formats", "tables"}


def test_options_in_the_documents_exist() -> None:
    text = README + (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    ours = {option for command in cli.commands.values() for parameter in command.params for option in parameter.opts}
    beam = {"--direct_num_workers", "--direct_running_mode", "--runner"}
    others = {"--time-format", "--parsable2", "--json", "--duplicates", "--exclude-editable", "--check"}
    named = set(re.findall(r"(?<![\w-])--[a-z0-9][\w-]*", text))
    assert named <= ours | beam | others
