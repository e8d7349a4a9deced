"""Files read by the block are what they are line by line: with faults among steps, torn lines, labels, at any cut."""

from __future__ import annotations

import io
import random
import re
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.blocks import Window, read_block
from aftershock.parsers.formats import Found
from aftershock.parsers.registry import line_formats
from aftershock.parsers.scan import Scanner
from aftershock.parsers.training import FORMAT, alike
from aftershock.parsers.training.step_columns import plain
from aftershock.parsers.transit import found_of, pack_columns
from tests.parsers.training.reading import megatron

SCANNER = Scanner(line_formats())
# What trainers and launchers print; lines that belong together stay together.
TEXTS = [sample.text.rstrip("\n") for sample in FORMAT.samples]
STEPS = [
    text
    for text, sample in zip(TEXTS, FORMAT.samples, strict=True)
    if any(row.table == "training_steps" for row in sample.rows)
]
FAULTS = [
    "[ 7131.102] NVRM: Xid (PCI:0000:41:00): 79, pid=77, GPU has fallen off the bus.",
    "RuntimeError: CUDA error: an illegal memory access was encountered",
    "[rank3]:[E301 10:20:30.123456789 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=15173, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds "
    "before timing out.",
    'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    main()\nValueError: no such shard',
    "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.",
    " 14%|#         | 380/2724 [14:02:33<86:01:24, 132.12s/it]\r 14%|#         | 381/2724 [14:02:34<86:01:22, 1.1s/it]",
    "",
]
LABELS = ["", "", "", "[rank#]:", "[default#]:", "12: ", " #: ", "gpu017: ", "\x1b[36m", "[default#]:[rank#]: "]


@pytest.fixture(autouse=True)
def every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Templates for lines that are alike to few others."""
    monkeypatch.setattr(alike, "_FEWEST", 2)
    monkeypatch.setattr(alike, "_MOST_OTHERS", 99)
    monkeypatch.setattr(alike, "_known", type(alike._known)())


def changed(text: str, rng: random.Random, how: float) -> str:
    """A text with other digits; some numbers are as long as they were, others are not."""

    def other(found: re.Match[str]) -> str:
        if rng.random() > how:
            return found[0]
        if rng.random() < 0.1:
            return str(rng.randrange(10 ** rng.randrange(1, 20)))
        return "".join(rng.choice("0123456789") for _ in found[0])

    return re.sub(r"\d+", other, text)


def labelled(text: str, label: str, rng: random.Random) -> str:
    own = label.replace("#", str(rng.randrange(4)))
    return "\n".join(own + line for line in text.split("\n"))


@st.composite
def files(draw: Any) -> bytes:
    """Steps of a few trainers, many of each alike, with other lines among them."""
    rng = random.Random(draw(st.integers(0, 1 << 30)))
    lines: list[str] = []
    for text in draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=2)):
        label = draw(st.sampled_from(LABELS))
        how = draw(st.sampled_from([0.3, 1.0]))
        lines += [labelled(changed(text, rng, how), label, rng) for _ in range(draw(st.integers(2, 12)))]
    for text in draw(st.lists(st.sampled_from([*FAULTS, *TEXTS]), max_size=3)):
        lines.insert(draw(st.integers(0, len(lines))), labelled(text, draw(st.sampled_from(LABELS)), rng))
    glued = draw(st.sampled_from([None, "[rank3]:", "", " | ", "\r"]))
    if glued is not None:
        at = draw(st.integers(0, len(lines) - 1))
        lines[at : at + 2] = [glued.join(lines[at : at + 2])]
    if draw(st.booleans()):
        at = draw(st.integers(0, len(lines) - 1))
        lines[at] = lines[at][: draw(st.integers(0, len(lines[at])))]
    end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    text = end.join("\n".join(lines).split("\n"))
    return (text + draw(st.sampled_from([end, ""]))).encode()


def seen(data: bytes, size: int, *, columns: bool) -> tuple[list[str], list[str]]:
    """All rows of a file that is cut into blocks, and what was refused."""
    rows: list[str] = []
    refused: list[str] = []
    for begin in range(0, len(data), size):
        stream = io.BytesIO(data)
        stream.seek(max(0, begin - 1))
        block = read_block(Window(stream, max(0, begin - 1)), begin, begin + size, SCANNER, columns=columns)
        found = block.found + [
            item for name, many in block.columns for item in found_of(plain(pack_columns(name, many)))
        ]
        rows += sorted(map(shown, found))
        rows.append(f"{block.records} records, {block.lines} lines")
        refused += [str(item) for item in block.refused]
    return rows, refused


def shown(item: Found) -> str:
    return f"{item.offset:9} {asdict(item.row)} {item.reading} {item.mark} {item.format} {item.last} {item.until}"


@settings(max_examples=120, deadline=None)
@given(files(), st.integers(1, 5))
def test_any_file(data: bytes, parts: int) -> None:
    size = max(1, len(data) // parts)
    assert seen(data, size, columns=True) == seen(data, size, columns=False)


@pytest.mark.parametrize("fault", FAULTS[:5])
def test_faults_among_steps_are_found(fault: str) -> None:
    lines = [megatron(number) for number in range(1, 401)]
    lines.insert(217, fault)
    data = ("\n".join(lines) + "\n").encode()
    got = seen(data, len(data), columns=True)
    assert got == seen(data, len(data), columns=False)
    assert len(got[0]) > 400


TAKEN = {
    *(
        "Megatron-LM: step",
        "Megatron-DeepSpeed: step",
        "gpt-neox: step",
        "DeepSpeed: step",
        "torchtitan: step and save",
    ),
    *(
        "NeMo: printed progress",
        "MaxText",
        "fairseq",
        "fairseq and metaseq: JSON",
        "nanoGPT",
        "verl",
        "ModelScope Swift",
    ),
    *("LLaMA-Factory: trainer_log.jsonl", "OLMo: step of an early version", "MLPerf: a torn record before a good one"),
}


def test_steps_of_other_trainers_are_taken_by_the_block() -> None:
    taken = set()
    for sample in FORMAT.samples:
        data = sample.text.encode() * 100
        block = read_block(Window(io.BytesIO(data), 0), 0, len(data), SCANNER, columns=True)
        if block.columns:
            taken.add(sample.title)
    assert taken >= TAKEN
