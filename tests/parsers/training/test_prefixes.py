"""What stands before a message, in any nesting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.clock import NO_CLOCK
from aftershock.parsers.training.prefixes import glog_reading, peel_all, reading_of


@pytest.mark.parametrize(
    ("line", "message", "facts"),
    [
        (" 3: [default7]: iteration 1", "iteration 1", {"task": 3, "local_rank": 7, "rank": None}),
        ("[rank1]:[E410 01:50:33.889423318 ProcessGroupNCCL.cpp:1895] boom", "boom", {"rank": 1, "level": "E"}),
        ("[1,12]<stdout>: hello", "hello", {"rank": 12}),
        ("(RayTrainWorker pid=811, ip=10.0.0.7) hello", "hello", {"host": "10.0.0.7"}),
        ("\x1b[36m(RayTrainWorker pid=811)\x1b[0m hello", "hello", {"host": None}),
        (
            "2026-03-01 10:20:30.181\thost-1:3\tolmo.train:908\tINFO\thello",
            "hello",
            {"host": "host-1", "local_rank": 3},
        ),
        ("[NeMo I 2026-03-01 10:20:30 exp_manager:400] hello", "hello", {"level": "I"}),
        ("[2026-03-01 10:20:30,123] [INFO] [logging.py:96:log_dist] [Rank 4] hello", "hello", {"rank": 4}),
        ("[INFO|trainer.py:2134] 2026-03-01 10:20:30,123 >> hello", "hello", {"level": "INFO"}),
        ("2026-03-01:10:20:30,123 INFO     [evaluator.py:246] hello", "hello", {"level": "INFO"}),
        ("2026-03-01 10:20:30 | INFO | hello", "hello", {"level": "INFO"}),
        ("2026-03-01 10:20:30.123 | INFO     | __main__:train:45 - hello", "hello", {"level": "INFO"}),
        ("[2026-03-01 10:20:30,123][__main__][INFO] - hello", "hello", {"level": "INFO"}),
        (
            "3: 2026-03-01 10:20:30,123 [INFO] [gpu017] [workload:7(3) infra:0(0)] train.py:12 hello",
            "hello",
            {"task": 3, "host": "gpu017", "rank": 7, "local_rank": 3},
        ),
        ("2026-03-01T10:20:30Z 4: [rank2]: hello", "hello", {"task": 4, "rank": 2}),
        ("2026-03-01 10:20:30,123 4: hello", "4: hello", {"task": None}),
        ("10:20:30.123 [rank2]: hello", "hello", {"task": None, "rank": 2}),
        ("[10:20:30] [rank2]: hello", "hello", {"rank": 2}),
        ("10:20:30 hello", "10:20:30 hello", {"task": None}),
        ("(worker1, rank=1, pid=811, ip=10.0.0.7) [rank9]: hello", "hello", {"rank": 9, "host": "10.0.0.7"}),
        ("(train, pid=811) hello", "hello", {"rank": None}),
        ("10: 10:20:30 [rank2]: hello", "hello", {"task": 10, "rank": 2}),
        ("(raylet) hello", "hello", {"rank": None}),
        ("(raylet, ip=10.0.0.7) hello", "hello", {"host": "10.0.0.7"}),
        ("trainer/0 [default3]:[rank11]: hello", "hello", {"local_rank": 3, "rank": 11}),
        ("ERROR 03-01 10:20:30 [core.py:718] hello", "hello", {"level": "ERROR"}),
        ("(EngineCore_0 pid=811) ERROR 03-01 10:20:30 async_llm_engine.py:52] hello", "hello", {"level": "ERROR"}),
        ("I0301 10:20:30.123456 140641718562816 trainer.py:501] hello", "hello", {"level": "I"}),
        ("no prefix: at all", "no prefix: at all", {"rank": None, "task": None}),
        ("", "", {}),
    ],
)
def test_layers(line: str, message: str, facts: dict[str, object]) -> None:
    found = peel_all(line.encode())
    assert found.message.decode() == message
    assert {name: getattr(found, name) for name in facts} == facts


@pytest.mark.parametrize(
    ("line", "kind", "text"),
    [
        ("2026-03-01T10:20:30Z hello", "zoned", "2026-03-01T10:20:30Z"),
        ("2026-03-01 10:20:30,123 - root - INFO - hello", "local", "2026-03-01 10:20:30,123"),
        ("[E129 01:50:33.889423318 a.cpp:1] hello", "yearless", "E129 01:50:33.889423318"),
        ("[03/01 10:20:30 d2.utils.events]:  eta: 1", "yearless", "03/01 10:20:30"),
        ("03/01 10:20:30 - mmengine - INFO - hello", "yearless", "03/01 10:20:30"),
        ("iteration 7", "none", None),
    ],
)
def test_clocks(line: str, kind: str, text: str | None) -> None:
    found = peel_all(line.encode())
    assert (found.reading.kind, found.reading.text) == (kind, text)


@pytest.mark.parametrize(("printed", "month", "day"), [(b"129", 1, 29), (b"810", 8, 10), (b"1105", 11, 5)])
def test_a_month_of_one_digit_in_a_stamp_of_google_loggers(printed: bytes, month: int, day: int) -> None:
    padded = f"{month:02d}{day:02d}".encode()
    assert glog_reading(printed, b"01:02:03", None, b"x") == glog_reading(padded, b"01:02:03", None, b"x") != NO_CLOCK


def test_an_impossible_date_is_no_clock() -> None:
    assert reading_of(b"2026-02-30 10:20:30") is None
    assert peel_all(b"2026-02-30 10:20:30 hello").reading is NO_CLOCK


def test_ray_says_how_many_lines_it_folded() -> None:
    found = peel_all(b"(W pid=1) it broke [repeated 8x across cluster] (Ray deduplicates logs by default.)")
    assert (found.message, found.repeated) == (b"it broke", 8)


@given(st.binary(max_size=200))
def test_nothing_is_invented(data: bytes) -> None:
    """The message is a part of the line, whatever that is."""
    found = peel_all(data)
    if b"\x1b" not in data:
        assert found.message in data


@given(st.lists(st.sampled_from([b"3: ", b"[rank1]: ", b"[default7]:", b"[2026-03-01 10:20:30,123] "]), max_size=5))
def test_layers_in_any_order_leave_the_message(layers: list[bytes]) -> None:
    if layers.count(b"3: ") > 1 or (
        b"3: " in layers and b"[2026-03-01 10:20:30,123] " in layers[: layers.index(b"3: ")]
    ):
        return  # a number behind a clock is no label
    assert peel_all(b"".join(layers) + b"iteration 7 of it").message == b"iteration 7 of it"
