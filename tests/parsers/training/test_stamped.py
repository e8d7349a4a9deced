"""Stamps that collectors and syslog put before lines of training output change nothing in what the lines say."""

from __future__ import annotations

from collections import Counter

import pytest

from aftershock.parsers.formats import Sample
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.parsers.training import FORMAT
from tests.parsers.training.reading import events_of, steps_of

STAMPS = {
    "kubectl logs --timestamps": "2026-03-01T10:20:30.123456789Z ",
    "a collector that counts microseconds": "2026-03-01T10:20:30.123456Z ",
    "CRI": "2026-03-01T10:20:30.123456789Z stdout F ",
    "kubectl logs --prefix": "[pod/train-worker-0/pytorch] ",
}


def _told(text: str) -> Counter[tuple[object, ...]]:
    names = ("kind", "error_class", "error_role", "rank", "local_rank", "path")
    return Counter(
        (type(row).__name__, *(getattr(row, name, None) for name in names)) for row in rows_of_text(text, FORMAT)
    )


# A bar that is drawn again begins its lines itself; a stamp stands before the first of them only. Slurm's end of a step
# and the wait of a requeue are joined by their times.
_TIMED = ("Lightning: a requeue",)
_STAMPED = [sample for sample in FORMAT.samples if sample.title not in _TIMED and "\r" not in str(sample.text)]


@pytest.mark.parametrize("stamp", STAMPS.values(), ids=STAMPS.keys())
@pytest.mark.parametrize("sample", _STAMPED, ids=lambda sample: sample.title)
def test_a_stamp_of_a_collector_takes_no_word_from_a_message(sample: Sample, stamp: str) -> None:
    text = sample.text if isinstance(sample.text, str) else sample.text.decode()
    stamped = "".join(stamp + line for line in text.splitlines(keepends=True))
    assert _told(stamped) == _told(text)


@pytest.mark.parametrize(
    ("line", "host"),
    [
        ("Mar  1 10:20:30 gpu017 train[811]: ValueError: too many values to unpack", "gpu017"),
        ("2026-03-01T10:20:30.123456+00:00 gpu017 train: ValueError: too many values to unpack", "gpu017"),
        ("2026-03-01T10:20:30.123456+00:00 gpu017 ValueError: too many values to unpack", "gpu017"),
        ("Mar  1 10:20:30 ValueError: too many values to unpack", None),
    ],
)
def test_an_exception_is_no_program_and_a_program_is_no_word(line: str, host: str | None) -> None:
    (event,) = events_of(line + "\n", "error")
    assert (event.error, event.host_raw) == ("ValueError: too many values to unpack", host)


def test_a_word_and_a_number_are_no_host_and_program() -> None:
    (step,) = steps_of("2026-03-01T10:20:30.123456789Z iter 100: loss 3.2012, time 120.10ms, mfu 30.00%\n")
    assert (step.step, step.loss) == (100, 3.2012)


def test_a_program_with_its_pid_keeps_it() -> None:
    assert not events_of("Mar  1 10:20:30 gpu017 bash[811]: line 12:   811 Killed                  python train.py\n")
