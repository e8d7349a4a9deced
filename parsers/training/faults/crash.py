"""What a process says as it dies, or what is said of it: signals, C++ stacks, errors of the GPU runtime outside Python.

    Fatal Python error: Segmentation fault
    terminate called after throwing an instance of 'c10::Error'
    RuntimeError: DataLoader worker (pid 8114) is killed by signal: Bus error.
    Memory access fault by GPU node-4 (Agent handle: 0x55d) on address 0x7f. Reason: Unknown.

https://docs.python.org/3/library/faulthandler.html and the runtimes of CUDA, ROCm and Gaudi.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.training.faults.classes import class_of
from aftershock.parsers.training.rules import Match, Rule, Said, error
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 60


def _read_runtime(found: Match, said: Said) -> TrainingEvent | None:
    if said.prefix.level in ("DEBUG", "INFO", "WARNING", "WARN", "I", "W"):
        return None
    error_class, role = class_of(b"RuntimeError", found["error"])
    if error_class == "user_code_exception":
        return None
    row = TrainingEvent(kind="error", error_class=error_class, error_role=role)
    row.error = text_of(found["error"]).strip()
    return row


RULES: Final = (
    Rule(
        words=(b"Fatal Python error: ", b"Caught signal "),
        shape=re.compile(
            rb"(?P<error>Fatal Python error: (?:Segmentation fault|Bus error|Illegal instruction|Floating point exception|none_dealloc)"
            rb"[^\r\n]{0,200}|Caught signal (?:11|4|7|8) \([^\r\n]{1,200})"
        ),
        row=error("process_crash"),
        only="fault",
    ),
    Rule(
        words=(b"Fatal Python error: Aborted",),
        shape=re.compile(rb"(?P<error>Fatal Python error: Aborted)"),
        row=error("teardown", "symptom"),
        only="fault",
    ),
    Rule(
        words=(b"Segmentation fault (core dumped)", b"Illegal instruction (core dumped)"),
        shape=re.compile(rb"(?P<error>(?:Segmentation fault|Illegal instruction) \(core dumped\))"),
        row=error("process_crash"),
        only="fault",
    ),
    Rule(
        words=(b"is killed by signal: ",),
        shape=re.compile(rb"(?P<error>DataLoader worker \(pid[^)]{0,40}\) is killed by signal: [^\r\n]{1,400})"),
        row=_read_runtime,
        only="fault",
    ),
    Rule(
        words=(b"Memory access fault by GPU", b"HSA_STATUS_ERROR", b"HW Exception by GPU node"),
        shape=re.compile(
            rb"(?P<error>(?:Memory access fault by GPU|HW Exception by GPU node|[^\r\n]{0,80}HSA_STATUS_ERROR_)[^\r\n]{1,400})"
        ),
        row=_read_runtime,
        only="fault",
    ),
    Rule(
        words=(b"CUDA error: ", b"CUDA failure", b"Cuda error", b"CUDA Error", b"HIP error: ", b"CUDA out of memory"),
        shape=re.compile(rb"(?P<error>(?:CUDA|HIP|Cuda) (?:[Ee]rror|failure|out of memory)\b[^\r\n]{1,600})"),
        row=_read_runtime,
        only="fault",
    ),
    Rule(
        words=(b"RESOURCE_EXHAUSTED: ",),
        shape=re.compile(rb"(?P<error>RESOURCE_EXHAUSTED: [^\r\n]{1,600})"),
        row=_read_runtime,
        only="fault",
    ),
    Rule(
        words=(b"No space left on device", b"Disk quota exceeded", b"Stale file handle"),
        shape=re.compile(
            rb"(?P<error>[^\r\n]{0,300}(?:No space left on device|Disk quota exceeded|Stale file handle))"
        ),
        row=_read_runtime,
        only="fault",
    ),
)

SAMPLES: Final = (
    Sample(
        "RuntimeError: DataLoader worker (pid 8114) is killed by signal: Bus error. It is possible that dataloader's "
        "workers are out of shared memory.\n",
        (expect("training_events", error_class="host_shm", error_role="root"),),
        title="Crash",
    ),
    Sample(
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f2a11b2c700 (most recent call first):\n",
        (expect("training_events", error_class="process_crash", error_role="root"),),
    ),
)

NON_SAMPLES: Final = ("Segmentation faults are caught by the tests\n", "see CUDA error: codes in the manual\n")
