"""Progress bars of tqdm: how far it is, how long a step takes, and the values behind it.

     14%|█▍        | 378/2724 [13:58:09<86:18:35, 132.44s/it]
    Epoch 0:   1%|          | 795/77225 [9:07:58<878:01:48, 41.36s/it, loss=3.1, v_num=, global_step=794.0]
    Epoch 0: :  10%|█         | 10/100 [00:42<06:18, reduced_train_loss=9.81, global_step=9.000]

https://github.com/tqdm/tqdm: ``tqdm/std.py``, ``format_meter``.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.training.rules import number

# A bar whose counts are whole numbers. What stands before it tells what it counts.
BAR: Final = re.compile(
    rb"(?:(?P<about>[A-Za-z][^|\r\n%]{0,80}?)[: ]{1,4})?\b(?P<percent>\d{1,3})%\|[^|\r\n]{0,400}\| *"
    rb"(?P<n>\d{1,12})/(?P<total>\d{1,12}) \[(?P<spent>[\d:.]{1,16})<(?P<left>[\d:.?]{1,16})"
    rb"(?:, *(?P<rate>[\d.]{1,12}|\?)(?P<unit>s/it|it/s|s/step|step/s|steps/s|s/batch|batch/s))?"
    # a bar whose end was lost ends where the next one begins
    rb"(?:, (?P<values>(?:(?!\b\d{1,3}%\|)[^\]\r\n]){0,2000}))?\]?"
)
_VALUE: Final = re.compile(rb"([A-Za-z_][^=,\]]{0,80})=([^,\]]{0,60})")


class Bar(NamedTuple):
    """One print of a bar. about: what it counts, as printed; seconds: of one step; values: names in lower case."""

    about: str
    done: int
    total: int
    seconds: float | None
    values: dict[str, str]


def bar_of(found: re.Match[bytes]) -> Bar:
    """What a match of ``BAR`` says."""
    rate = number(found["rate"]) if found["rate"] and found["rate"] != b"?" else None
    unit = found["unit"] or b""
    seconds = rate if unit.startswith(b"s/") else 1 / rate if rate else None
    values = {
        text_of(name).strip().lower(): text_of(value).strip() for name, value in _VALUE.findall(found["values"] or b"")
    }
    about = text_of(found["about"] or b"").strip(" :")
    return Bar(about, int(found["n"]), int(found["total"]), seconds, values)
