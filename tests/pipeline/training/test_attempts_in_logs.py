"""Where attempts begin, which logs are of one run, and that the order of inputs changes nothing."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.pipeline.training.attempts import FILE_END, LogAttempt, attempts_of
from aftershock.pipeline.training.logs import Log, Said, Save
from aftershock.pipeline.training.stretches import Stretch
from aftershock.pipeline.training.ties import ids_in_name
from aftershock.pipeline.training.units import run_of, runs_of, side_by_side
from tests.pipeline.conftest import RunJob
from tests.pipeline.training.made import SACCT, begin, job, rows, steps


def said(offset: int, kind: str, **more: object) -> Said:
    return Said(offset, kind)._replace(**more)  # type: ignore[arg-type]


def stretch(offset: int, first: int, last: int, time: int | None = None) -> Stretch:
    return Stretch(offset, offset + last - first, first, last, time, time, last - first + 1)


def begins(*items: Said | Stretch | Save) -> list[int]:
    """Where the attempts of a log with these begin."""
    log = Log("a.log")
    for item in items:
        if isinstance(item, Said):
            log.said.append(item)
        elif isinstance(item, Save):
            log.saves.append(item)
        else:
            log.stretches.append(item)
    return [attempt.begin for attempt in attempts_of(log)]


FAILED = {"error_class": "unknown", "role": "symptom"}


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([said(0, "start"), stretch(10, 1, 9), said(50, "start"), stretch(60, 10, 20)], [0, 50]),
        ([said(0, "start"), stretch(10, 1, 9), stretch(60, 5, 20)], [0, 60]),
        ([stretch(10, 1, 9), said(50, "load_begin", step=5), said(55, "start"), stretch(60, 6, 20)], [0, 50]),
        ([stretch(10, 1, 9), said(50, "restart"), stretch(60, 10, 20)], [0, 60]),
        ([stretch(10, 1, 9), said(50, "exit", **FAILED), said(55, "rendezvous")], [0, 55]),
        ([stretch(10, 1, 9), said(50, "exit", **FAILED), said(60, "error", error_class="rendezvous_failure")], [0, 60]),
        ([said(0, "load_missing"), said(5, "start"), stretch(10, 1, 9)], [0]),
    ],
    ids=["start", "steps_go_back", "load", "restart", "failed_and_rendezvous", "failed_to_meet", "one"],
)
def test_what_opens_an_attempt(items: list[Said | Stretch], expected: list[int]) -> None:
    assert begins(*items) == expected


@pytest.mark.parametrize(
    "items",
    [
        [said(0, "start", rank=0), stretch(10, 1, 2), said(20, "start", rank=1), stretch(30, 3, 9)],
        [stretch(10, 1, 9), stretch(30, 8, 8), stretch(40, 10, 12)],
        [
            stretch(10, 1, 9),
            said(20, "error", error_class="peer_exit", role="symptom"),
            said(30, "exit", role="teardown"),
        ],
        [stretch(10, 1, 9), said(20, "exit"), said(30, "exit")],
        [stretch(10, 1, 9), Save(15, "save", 9, "/ckpt", None, None, True), stretch(20, 10, 19)],
    ],
    ids=["late_rank", "late_print", "error_alone", "ended_twice", "save"],
)
def test_what_opens_none(items: list[Said | Stretch | Save]) -> None:
    assert begins(*items) == [0]


def test_a_step_that_is_printed_late_belongs_to_the_attempt_before() -> None:
    assert begins(
        stretch(10, 1, 24), said(50, "restart"), stretch(55, 25, 25), said(60, "start"), stretch(70, 21, 30)
    ) == [
        0,
        60,
    ]


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 20)), min_size=1, max_size=8))
def test_every_restart_is_an_attempt_and_no_line_is_lost(planted: list[tuple[int, int]]) -> None:
    log = Log("a.log")
    offset = 0
    for first, count in planted:
        log.said.append(said(offset, "start"))
        log.stretches.append(stretch(offset + 10, first, first + count))
        offset += 1000
    found = attempts_of(log)
    assert [attempt.begin for attempt in found] == [n * 1000 for n in range(len(planted))]
    assert [attempt.end for attempt in found] == [*(n * 1000 for n in range(1, len(planted))), FILE_END]
    assert [s for attempt in found for s in attempt.stretches] == log.stretches
    assert [s for attempt in found for s in attempt.said] == log.said


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("slurm-812.out", ["812"]),
        ("logs/slurm-812_4.out", ["812_4"]),
        ("slurm-812-gpu001.err", ["812"]),
        ("train-4001.log", ["4001"]),
        ("llama70b-2026.log", ["2026"]),
        ("gpu017.log", []),
        ("run7.log", []),
    ],
)
def test_job_ids_in_names_of_files(name: str, expected: list[str]) -> None:
    assert sorted({job_id for job_id, _ in ids_in_name(name)}) == expected


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("logs/rank0.log", "logs/rank17.log", True),
        ("logs/gpu001_rank_3.out", "logs/gpu001_rank_4.out", True),
        ("out/none_x1/attempt_0/3/stderr.log", "out/none_x1/attempt_1/0/stdout.log", True),
        ("train.out", "train.err", True),
        ("run1.log", "run2.log", False),
        ("a/rank0.log", "b/rank0.log", False),
    ],
)
def test_files_of_one_run_by_their_names(one: str, other: str, same: bool) -> None:
    assert (run_of(one) == run_of(other)) is same


def log_of(source: str, *times: int) -> list[LogAttempt]:
    log = Log(source)
    for number, time in enumerate(times):
        log.said.append(said(number * 100, "start"))
        log.stretches.append(stretch(number * 100 + 10, 1, 9, time))
    return attempts_of(log)


@given(st.randoms(), st.integers(1, 6))
def test_logs_of_one_run_meet_in_any_order(chance: random.Random, ranks: int) -> None:
    logs = [log_of(f"rank{n}.log", 1_000 + n, 900_000 + n) for n in range(ranks)]
    whole = side_by_side(logs)
    shuffled = list(logs)
    chance.shuffle(shuffled)
    assert side_by_side(shuffled) == whole
    attempts = [attempt for log in logs for attempt in log]
    chance.shuffle(attempts)
    assert runs_of(attempts) == [whole]


def test_any_order_of_inputs_gives_the_same_tables(run_job: RunJob, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    texts = {
        "sacct.psv": SACCT + job(4001, 0, 400) + job(4002, 0, 400, hosts="gpu002"),
        "slurm-4001.out": begin(5) + steps(1, 30, 15),
        "rank0.log": begin(5) + steps(1, 30, 15) + begin(400) + steps(20, 40, 410),
        "rank1.log": begin(6) + steps(1, 30, 16) + begin(401) + steps(20, 40, 411),
        "4002.log": begin(5) + steps(1, 30, 15),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    inputs = [folder / name for name in texts]
    first = run_job(*inputs)
    tables = ("sessions", "retries", "chains", "training_steps", "training_events", "checkpoints")
    expected = {name: rows(first, name) for name in tables}
    assert len(expected["sessions"]) == 4, "two of Slurm, and two attempts of the ranks"
    for seed in range(3):
        random.Random(seed).shuffle(inputs)
        again = run_job(*inputs)
        assert {name: rows(again, name) for name in tables} == expected
