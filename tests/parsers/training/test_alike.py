"""Steps of lines that are alike, read together, are the steps line by line: for any trainer and any numbers."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.formats import LOOKAHEAD, Found, FoundLines, Line
from aftershock.parsers.training import alike, read
from aftershock.parsers.training.alike import alike_steps
from aftershock.parsers.training.learning import template_of
from tests.parsers.training.reading import megatron
from tests.parsers.training.test_dense import NAMES, cells, rows_of

# Lines of trainers; # is a whole number, ~ one with a fraction or an exponent, @ a stamp of a logger.
LINES = [
    "[titan] @ - root - INFO - step: #  loss: ~  grad_norm: ~  memory: 66.91GiB(37.51%)  tps: 9,423  tflops: ~  mfu: ~%",
    "[rank3]:[titan] @ - root - INFO - \x1b[31mstep: #  \x1b[32mloss: ~  \x1b[38;2;180;60;0mgrad_norm: ~  "
    "\x1b[36mmemory: 66.91GiB(37.51%)  \x1b[34mtps: 423  \x1b[35mtflops: ~  mfu: ~%\x1b[39m",
    "{'loss': ~, 'grad_norm': ~, 'learning_rate': ~, 'epoch': ~}",
    "{'loss': '~', 'grad_norm': '~', 'learning_rate': '~', 'epoch': '~'}",
    "{'loss': ~, 'learning_rate': ~, 'epoch': ~, 'global_step/max_steps': '#/#', 'train_speed(iter/s)': ~}",
    "[@] [INFO] [logging.py:96:log_dist] [Rank 0] step=#, skipped=#, lr=[~, ~], mom=[(0.9, 0.95), (0.9, 0.95)]",
    "steps: # loss: ~ iter time (s): ~ samples/sec: ~",
    "Training epoch #, iteration #/# | lr: ~ | global_batch_size: # | global_step: # | reduced_train_loss: ~ | "
    "train_step_timing in s: ~ | consumed_samples: #",
    "completed step: #, seconds: ~, TFLOP/s/device: ~, Tokens/s/device: ~, total_weights: #, loss: ~",
    '{"time": "@", "step": #, "loss": ~, "lr": ~, "grad_norm": ~, "step_time": ~}',
    '{"timestamp": #, "step": #, "loss": ~, "lr": ~}',
    "@ | INFO | train_inner | epoch 001:    # / # loss=~, ppl=~, wps=~, num_updates=#, lr=~, gnorm=~, train_wall=#",
    "iter #: loss ~, time ~ms, mfu ~%",
    "Epoch # | iter # step # | loss train: ~, val: n/a | iter time: ~ ms (step) remaining time: 1 day, 1:00:00",
    "@ - INFO - Step #: loss=~, lr=~",
    "@\tgpu017.example:0\tolmo.train:967\tINFO\t[step=#/#,epoch=#]",
    "Epoch #: :   5%|#         | #/# [00:42<06:18, reduced_train_loss=~, global_step=~, consumed_samples=~]",
    "E0301 10:20:30.123456 4021 train.py:12] step # loss ~",
    "gpu017: step # loss: ~",
    "(TaskRunner pid=77) step:# - actor/entropy:~ - actor/pg_loss:~ - actor/grad_norm:~ - actor/lr:~ - timing_s/step:~",
    '0: :::MLLOG {"namespace": "", "time_ms": 17723#, "event_type": "POINT_IN_TIME", "key": "tracked_stats", '
    '"value": {"train_loss": ~, "train_step_time": ~}, "metadata": {"file": "/w/calls.py", "samples_count": #}}',
    '{"step": #, "loss": ~, "lr": ~, "timestamp": "@"}',
    " samples/sec: ~ | iteration #/# | elapsed time per iteration (ms): ~ | learning rate: ~ | approx flops per GPU: "
    "110.7TFLOPS | lm_loss: ~ | number of skipped iterations: # | number of nan iterations: # |",
    "[@] [INFO] [timer.py:260:stop] epoch=0/micro_step=#/global_step=#, RunningAvgSamplesPerSec=~, CurrSamplesPerSec=~",
    "12: [@] iteration #/# | consumed samples: # | elapsed time per iteration (ms): ~ | learning rate: ~ | lm loss: ~ |",
    "[default3]:[rank1]: step #/# | loss ~ (+0.12z)| norm ~ (-0.10z)| lr ~ | 1234.56 ms | 45.6% bf16 MFU | # tok/s",
    "[batch=#/#]:\n\t Train time/batch: #\n\t Train loss/train/total: ~\n\t Train lr-DecoupledAdamW/group0: ~",
    "@\tgpu017.example:0\tolmo.train:967\tINFO\t[step=#/#,epoch=#]\n    optim/total_grad_norm=~\n"
    "    train/CrossEntropyLoss=~\n    throughput/total_tokens=1,04#,576",
    "[rank2]: [step=#/#]\n    train/CrossEntropyLoss=~",
    "Steps:  10%|\u2588         | #/# [00:04<00:38, 2.35it/s, step_loss=~, loss=~, lr=~]",
]
NOISE = [
    "",
    "saving checkpoint at iteration 3 to /c",
    " 14%|█▍        | 380/2724 [14:02:33<86:01:24, 132.12s/it]",
    "    train/CrossEntropyLoss=2.345",
    "RuntimeError: CUDA error: an illegal memory access was encountered",
    "step: 5  loss: none",
    "NVRM: Xid (PCI:0000:41:00): 79, pid=77, GPU has fallen off the bus.",
    "Traceback (most recent call last):",
    "step 20 [rank3]: step: 5  loss: 2.5",
    "{'loss': 2.5, 'epoch': 0.1}[rank3]:{'loss': 2.5, 'epoch': 0.1}",
    " 14%|#         | 380/2724 [14:02:33<86:01:24, 132.12s/it]\r 14%|#         | 381/2724 [14:02:34<86:01:22, 1.1s/it]",
    "\r          \r{'loss': 2.5, 'learning_rate': 9e-05, 'epoch': 0.1}",
    "\x1b[31mstep: 5\x1b[0m",
]
WHOLE = st.one_of(
    st.integers(0, 3).map(str),
    st.integers(0, 10**7).map(str),
    st.integers(10**8, 10**20).map(str),
    st.sampled_from(["007", "1772360430", "1772360430123", "00", "950000000", "1512"]),
)
BROKEN = st.one_of(
    st.floats(0, 20).map(lambda value: f"{value:.4f}"),
    st.floats(0, 20).map(repr),
    st.floats(0, 1e-3).map(lambda value: f"{value:.3e}"),
    st.floats(0, 9).map(lambda value: f"{value:.6E}"),
    st.sampled_from(
        ["0.0", "1.0", "1.00000", "-1.00000", "nan", "-1.0", "0", "5", "1e-05", "0.05", "1,234.56", "9.000"]
    ),
)
STAMPS = st.one_of(
    st.datetimes().map(lambda at: at.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0") + f",{at.microsecond // 1000:03}"),
    st.datetimes().map(lambda at: at.isoformat(sep=" ")),
    st.datetimes().map(lambda at: at.isoformat() + "Z"),
    st.sampled_from(
        ["2026-02-30 10:20:30,123", "2026-03-01 10:20:30", "2026-03-01T10:20:30+02:00", "2026-3-001 1:20:30"]
    ),
)


@pytest.fixture(autouse=True)
def every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Templates for lines that are alike to few others."""
    monkeypatch.setattr(alike, "_FEWEST", 2)
    monkeypatch.setattr(alike, "_MOST_OTHERS", 99)
    monkeypatch.setattr(alike, "_known", type(alike._known)())


def slow(block: bytes, base: int) -> list[tuple[int, list[Found]]]:
    """What the rules read of each line, by its place."""
    rows = []
    at = 0
    while (end := block.find(b"\n", at)) >= 0:
        text = block[at:end].rstrip(b"\r")
        items = list(read(Line(base + at, text, unwrap(text), block[end + 1 : end + 1 + LOOKAHEAD])))
        if text:  # an empty line belongs to nobody
            rows.append((at, [item for item in items if isinstance(item, Found)]))
        at = end + 1
    return rows


def same(one: Any, other: Any) -> bool:
    return one == other or (
        isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other)
    )


def check(block: bytes, base: int = 7) -> FoundLines | None:
    """Lines that were taken give the rows of the rules, and nothing else."""
    got = alike_steps(block, 0, len(block), base, read)
    rows = {row["@offset"]: row for row in rows_of(got)}
    spans = [] if got is None else got.spans
    for at, items in slow(block, base):
        taken = any(begin <= at < end for begin, end in spans)
        # Further lines of a record say nothing by themselves.
        assert (taken and bool(items)) == (base + at in rows)
        if taken and items:
            (item,) = items
            wanted, row = {**cells(item), "rank": item.row.rank}, rows.pop(item.offset)  # type: ignore[attr-defined]
            assert {n: (wanted[n], row.get(n)) for n in wanted if not same(wanted[n], row.get(n))} == {}
            assert set(row) <= {*wanted, *NAMES}
    assert rows == {}
    return got


def filled(line: str, draw: Any) -> str:
    """A line with numbers and stamps."""
    draws = {"#": WHOLE, "~": BROKEN, "@": STAMPS}
    return re.sub("[#~@]", lambda found: draw(draws[found[0]]), line)


@st.composite
def blocks(draw: Any) -> bytes:
    """Lines of some trainers, many of them with numbers of the same kind, and other lines between them."""
    lines = []
    for line in draw(st.lists(st.sampled_from(LINES), min_size=1, max_size=3)):
        like = filled(line, draw)
        for _ in range(draw(st.integers(1, 5))):
            changed = re.sub(
                r"(?<=[ =])\d+(?=[ ,.])", lambda found: str(draw(st.integers(0, 10 ** len(found[0])))), like
            )
            lines += [changed, *draw(st.lists(st.just(filled(line, draw)), max_size=2))]
        lines += draw(st.lists(st.sampled_from(NOISE), max_size=1))
    lines = draw(st.permutations(lines)) if draw(st.booleans()) else lines
    end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    return "".join(line + end for line in [*lines, *([lines[-1]] * draw(st.sampled_from([0, 0, 120])))]).encode()


@settings(max_examples=150, deadline=None)
@given(blocks())
def test_any_lines(block: bytes) -> None:
    check(block)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(LINES), st.data())
def test_numbers_of_one_line(line: str, data: Any) -> None:
    like = filled(line, data.draw)
    lines = [re.sub(r"\d+", lambda found: other_digits(found[0], data.draw), like) for _ in range(12)]
    check("".join(text + "\n" for text in [*lines, like, like]).encode())


def other_digits(digits: str, draw: Any) -> str:
    if draw(st.integers(0, 3)):
        return digits
    return draw(st.one_of(st.integers(0, 10 ** len(digits) - 1).map(lambda n: str(n).zfill(len(digits))), WHOLE))


@settings(max_examples=60, deadline=None)
@given(blocks(), st.data())
def test_damaged_lines(block: bytes, data: Any) -> None:
    text = bytearray(block)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 6))] = data.draw(st.binary(max_size=4))
    if not text.endswith(b"\n"):
        text += b"\n"
    check(bytes(text))


# What stands for each of the marks above in a line as it is printed.
USUAL = {"#": ["1512", "1513", "15140"], "~": ["2.3456", "2.4", "0.31"], "@": ["2026-03-01 10:20:30,123"]}


def usual(line: str, number: int) -> str:
    """A line as it is printed."""
    return re.sub("[#~@]", lambda found: USUAL[found[0]][number % len(USUAL[found[0]])], line)


@pytest.mark.parametrize("line", LINES[:16])
def test_lines_of_trainers_are_taken(line: str) -> None:
    lines = [usual(line, number) for number in range(600)]
    got = check("".join(text + "\n" for text in lines).encode())
    if "train_speed" in line:
        assert got is None, "what is printed is not what the column holds"
        return
    assert got is not None
    # Rules that look at what follows read the last lines of a block by themselves.
    assert got.rows.count >= 600 - LOOKAHEAD // min(map(len, lines)) - 1


def test_a_number_that_rules_take_for_something_else_makes_no_template() -> None:
    line = (
        "[titan] 2026-03-01 10:20:30,123 - root - INFO - step: 12  loss: {}  grad_norm: 1.25  memory: 66.91GiB(37.51%)"
    )
    assert template_of(line.format("2.34567").encode(), read) is not None
    assert template_of(line.format("-2.34567").encode(), read) is None, "-1 is no loss"
    assert template_of(b"the step of a loss", read) is None


@pytest.mark.parametrize(
    "label", ["[rank{}]: ", "[default{}]:", "{}: ", " {}: ", "[default{0}]:[rank{0}]: ", "[rank0{}]: "]
)
def test_ranks_share_a_template(label: str) -> None:
    lines = [label.format(number % 100) + megatron(100 + number // 100) for number in range(1000)]
    got = check("".join(text + "\n" for text in lines).encode())
    assert got is not None
    assert got.rows.count >= 998
    assert len(set(got.rows.columns["@mark"].to_pylist())) == 100


def test_a_block_of_other_lines_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "_MOST_OTHERS", 8)
    chat = "2026-03-01 10:20:30 loader: shard 17 is read\n"
    lines = (chat * 30 + megatron(7) + "\n") * 40
    assert alike_steps(lines.encode(), 0, len(lines), 0, read) is None
