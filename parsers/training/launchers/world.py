"""How many processes a run begins with, as frameworks say when they bring them together.

    Initializing distributed: GLOBAL_RANK: 3, MEMBER: 4/16
    distributed_backend=nccl
    All distributed processes registered. Starting with 16 processes
    using world size: 64, data-parallel size: 8, context-parallel size: 1, tensor-model-parallel size: 8
    [2026-03-01 10:20:30,123] [INFO] [launch.py:163:main] dist_world_size=16

https://github.com/Lightning-AI/pytorch-lightning: fabric/utilities/distributed.py. https://github.com/NVIDIA/Megatron-LM:
megatron/training/arguments.py. https://github.com/deepspeedai/DeepSpeed: deepspeed/launcher/launch.py. Each process
has a GPU of its own, unless they meet through gloo, as those without GPUs do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.rules import Match, Rule, Said, event, whole
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 34

_SAID: Final = re.compile(
    r"(?:[Ii]nitializing (?:distributed|ddp): GLOBAL_RANK: \d{1,6}, MEMBER: \d{1,6}/"
    r"|All distributed processes registered\. Starting with "
    r"|using world size: |dist_world_size=)(\d{1,6})"
)
_WITHOUT_GPUS: Final = "distributed_backend=gloo"


def gpus_said(messages: Iterable[str]) -> int | None:
    """The number of GPUs of a run, by the messages of its beginning; None if they do not tell."""
    said = [*messages]
    if any(message.startswith(_WITHOUT_GPUS) for message in said):
        return None
    return max((int(found[1]) for message in said if (found := _SAID.match(message))), default=None)


def _member(found: Match, _said: Said) -> TrainingEvent:
    return TrainingEvent(kind="init_start", rank=whole(found["rank"]))


RULES: Final = (
    Rule(
        words=(b"nitializing distributed: GLOBAL_RANK: ", b"nitializing ddp: GLOBAL_RANK: "),
        shape=later(
            rb"\A[Ii]nitializing (?:distributed|ddp): GLOBAL_RANK: (?P<rank>\d{1,6}), MEMBER: \d{1,6}/\d{1,6}\s*\Z"
        ),
        row=_member,
    ),
    Rule(
        words=(b"distributed_backend=",),
        shape=later(rb"\Adistributed_backend=\w{2,16}\s*\Z"),
        row=event("init_start"),
    ),
    Rule(
        words=(b"All distributed processes registered. Starting with ",),
        shape=later(rb"\AAll distributed processes registered\. Starting with \d{1,6} process(?:es)?\s*\Z"),
        row=event("init_start"),
    ),
    Rule(
        words=(b"using world size: ",),
        shape=later(rb"\Ausing world size: \d{1,6}, data-parallel[- ]size: \d"),
        row=event("init_start"),
    ),
    Rule(
        words=(b"dist_world_size=",),
        shape=later(rb"\Adist_world_size=\d{1,6}\s*\Z"),
        row=event("init_start"),
    ),
)

SAMPLES: Final = (
    Sample(
        "Initializing distributed: GLOBAL_RANK: 3, MEMBER: 4/16\n"
        "distributed_backend=nccl\n"
        "All distributed processes registered. Starting with 16 processes\n",
        (
            expect("training_events", kind="init_start", rank=3),
            expect("training_events", kind="init_start", rank=None),
            expect("training_events", kind="init_start", rank=None),
        ),
        title="Lightning and NeMo: processes that come together",
        url="https://github.com/Lightning-AI/pytorch-lightning",
    ),
    Sample(
        "using world size: 64, data-parallel size: 8, context-parallel size: 1, tensor-model-parallel size: 8\n"
        "using world size: 16, data-parallel-size: 2, tensor-model-parallel size: 8\n",
        (expect("training_events", kind="init_start"), expect("training_events", kind="init_start")),
        title="Megatron-LM: the size of the world",
    ),
    Sample(
        "[2026-03-01 10:20:30,123] [INFO] [launch.py:163:main] dist_world_size=16\n",
        (expect("training_events", kind="init_start", time_local="2026-03-01 10:20:30,123"),),
        title="DeepSpeed: the size of the world",
        url="https://github.com/deepspeedai/DeepSpeed",
    ),
)
NON_SAMPLES: Final = (
    "GLOBAL_RANK: 3, MEMBER: 4/16\n",
    "  distributed_backend: nccl\n",
    "we advise using world size: 64 or more\n",
    "--dist_world_size=16 is not known\n",
)
