"""The page about spikes and slow steps says what the defaults find."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[3]


def spikes() -> ModuleType:
    """The module that writes the page."""
    spec = importlib.util.spec_from_file_location("spikes_page", ROOT / "docs" / "spikes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULE: Any = spikes()


def test_the_page_is_what_is_found() -> None:
    assert MODULE.PAGE.read_text("utf-8") == MODULE.page()
