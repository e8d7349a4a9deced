"""Logs with one planted fault each have that cause and no other; runs that succeed have none."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from aftershock.parsers.selfcheck import rows_of_text
from aftershock.parsers.training import FORMAT
from tests.parsers.training.labelled import failed_runs, faults
from tests.parsers.training.noisy_success import NOISE, successful_runs, unfinished_runs

ROOT = Path(__file__).parents[3]


def confusion() -> ModuleType:
    spec = importlib.util.spec_from_file_location("confusion", ROOT / "docs" / "confusion.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULE: Any = confusion()


def test_every_class_has_five_faults_of_its_own() -> None:
    planted = [fault.label for fault in faults()]
    assert len(set(planted)) == 38
    assert [label for label in set(planted) if planted.count(label) < 5] == []
    assert len(NOISE) >= 20


def test_the_page_is_what_the_parser_does() -> None:
    assert MODULE.PAGE.read_text("utf-8") == MODULE.page()


@pytest.mark.parametrize("log", failed_runs(), ids=lambda log: log.name)
def test_a_planted_fault_is_the_cause(log: Any) -> None:
    assert MODULE.named(log) == MODULE.wanted(log.label)


@pytest.mark.parametrize("log", [*successful_runs(), *unfinished_runs()], ids=lambda log: log.name)
def test_runs_that_go_well_have_no_cause(log: Any) -> None:
    assert MODULE.roots_of(log) == []


@pytest.mark.parametrize("log", failed_runs()[::7], ids=lambda log: log.name)
def test_a_log_that_is_torn_anywhere_has_one_cause_at_most(log: Any) -> None:
    data = log.text.encode()
    for cut in range(0, len(data), max(1, len(data) // 20)):
        assert len([row for row in rows_of_text(data[:cut], FORMAT) if getattr(row, "error_role", None) == "root"]) <= 1


@pytest.mark.parametrize("log", failed_runs()[::5], ids=lambda log: log.name)
def test_carriage_returns_change_nothing(log: Any) -> None:
    crlf = log._replace(text=log.text.replace("\n", "\r\n"))
    assert MODULE.roots_of(crlf) == MODULE.roots_of(log)


def test_the_lost_ranks_are_the_ones_that_do_not_report() -> None:
    timeouts = [log for log in failed_runs() if log.label == "collective_timeout"]
    for log in timeouts:
        rows: list[Any] = rows_of_text(log.text, FORMAT)
        said = [row for row in rows if getattr(row, "error_class", None) == "collective_timeout"]
        assert len(said) == 1
        assert len(said[0].ranks) == 7
        assert said[0].duration_s == pytest.approx(600.01, abs=0.01)
