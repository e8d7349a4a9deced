"""Steps by the block are the steps line by line."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.formats import Found, FoundLines, Line
from aftershock.parsers.training import read
from aftershock.parsers.training.dense import dense_steps
from tests.parsers.training.reading import megatron


def slow(block: bytes, base: int) -> list[tuple[Any, ...]]:
    """What the rules read of all lines that begin behind the first newline and end before the last one."""
    rows = []
    at = block.find(b"\n") + 1
    while (end := block.find(b"\n", at)) >= 0:
        text = block[at:end].rstrip(b"\r")
        for item in read(Line(base + at, text, unwrap(text), block[end + 1 :])):
            assert isinstance(item, Found)
            rows.append((at, item))
        at = end + 1
    return rows


def cells(found: Found) -> dict[str, Any]:
    row = found.row
    return {
        **{name: getattr(row, name) for name in NAMES},
        "@offset": found.offset,
        "@kind": found.reading.kind,
        "@wall": found.reading.wall,
        "@resolution": found.reading.resolution,
        "@text": found.reading.text,
        "@mark": found.mark,
    }


NAMES = (
    *("step", "total_steps", "samples", "tokens", "step_time_s", "tflops_per_gpu", "learning_rate", "loss"),
    *("grad_norm", "skipped", "nan", "copies", "local_rank"),
)


def rows_of(dense: FoundLines | None) -> list[dict[str, Any]]:
    if dense is None:
        return []
    columns = {name: column.to_pylist() for name, column in dense.rows.columns.items()}
    assert all(len(column) == dense.rows.count for column in columns.values())
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def same(one: Any, other: Any) -> bool:
    return one == other or (
        isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other)
    )


def check(block: bytes, base: int = 7) -> FoundLines | None:
    """The rows of the block path are those of the rules, for the lines that it takes; it takes whole lines only."""
    dense = dense_steps(block, block.find(b"\n") + 1, block.rfind(b"\n") + 1, base)
    rows = {row["@offset"]: row for row in rows_of(dense)}
    spans = [] if dense is None else dense.spans
    for begin, end in spans:
        assert block[begin - 1 : begin] == b"\n"
        assert block[end : end + 1] in (b"\n", b"\r")
    for at, item in slow(block, base):
        taken = any(begin <= at < end for begin, end in spans)
        assert taken == (item.offset in rows)
        if taken:
            wanted, got = cells(item), rows.pop(item.offset)
            assert {name for name in wanted if not same(wanted[name], got.get(name))} == set()
    assert rows == {}
    return dense


def deepspeed(step: int) -> str:
    return (
        f"[default7]: iteration {step:8d}/  115311 | consumed samples: {step * 2048:12d} | consumed tokens: "
        f"{step * 4194304:12d} | elapsed time per iteration (s): 105.22 | learning rate: 5.969E-05 | global batch siz"
        f"e:  "
        "2048 | lm loss: 2.463556E+00 | grad norm: 0.174 | num zeros: 0.0 | number of skipped iterations:   0 | "
        "number of"
        " nan iterations:   0 | samples per second: 19.463 | TFLOPs: 149.02 |"
    )


def test_whole_blocks() -> None:
    lines = [megatron(step, stamp="2026-03-01 10:20:30.123456") for step in range(1, 5000)]
    dense = check(("x\n" + "\n".join(lines) + "\n").encode())
    assert dense is not None
    assert dense.rows.count == 4999
    assert len(dense.spans) == 1


@pytest.mark.parametrize(
    "line",
    [
        megatron(1),
        megatron(1) + " ",
        megatron(1) + "\r",
        megatron(1, stamp="2026-03-01 10:20:30"),
        megatron(1, stamp="2026-03-01 10:20:30.123456"),
        megatron(1, lm_loss=""),
        megatron(1, grad_norm="nan"),
        megatron(1, loss_scale="-1.0", number_of_skipped_iterations=" 10"),
        megatron(123456789, 999999999),
        "3: " + megatron(1),
        " 3:" + megatron(1),
        "12: [default3]:" + megatron(1),
        deepspeed(1),
        "7: " + deepspeed(12),
    ],
)
def test_shapes_that_are_taken(line: str) -> None:
    dense = check(f"\n{line}\n".encode())
    assert dense is not None
    assert dense.rows.count == 1


@pytest.mark.parametrize(
    "line",
    [
        megatron(1) + " time (ms)",
        "hello" + megatron(1),
        megatron(1) + megatron(2),
        megatron(1, z_loss="1.0E+00"),
        megatron(1, lm_loss="nan"),
        megatron(1, stamp="2026-02-30 10:20:30"),
        megatron(1)[:200],
        "[rank3]: " + megatron(1),
        "2026-03-01T10:20:30Z " + megatron(1),
    ],
)
def test_other_shapes_are_left_to_the_rules(line: str) -> None:
    assert check(f"\n{line}\n".encode()) is None


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.integers(1, 10**8).map(megatron),
            st.integers(1, 10**8).map(deepspeed),
            st.builds(
                lambda step, millis, loss, label: (
                    label
                    + megatron(step, elapsed_time_per_iteration_="", lm_loss=f"{loss:.6E}").replace(
                        "1234.5", f"{millis:.1f}"
                    )
                ),
                st.integers(1, 10**6),
                st.floats(0, 10**7),
                st.floats(0, 100),
                st.sampled_from(["", "3: ", "[default1]:", " 11: [default2]: "]),
            ),
            st.sampled_from(
                ["", "time (ms)", "saving checkpoint at iteration 3 to /c", "(min, max) time across ranks (ms):"]
            ),
            st.text(st.characters(codec="ascii", exclude_characters="\n\r"), max_size=30),
        ),
        max_size=8,
    ),
    st.sampled_from(["\n", "\r\n"]),
)
def test_any_mix_of_lines(lines: list[str], end: str) -> None:
    check(("\n" + "".join(line + end for line in lines)).encode())


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_lines(data: Any) -> None:
    text = bytearray(f"\n{megatron(17, stamp='2026-03-01 10:20:30.123456')}\n{deepspeed(18)}\n".encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(1, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 6))] = data.draw(st.binary(max_size=4))
    if not text.endswith(b"\n"):
        text += b"\n"
    check(bytes(text))
