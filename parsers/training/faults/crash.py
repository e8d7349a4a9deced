"""What a process says as it dies, or what is said of it: signals, C++ stacks, damage that the C library finds.

    Fatal Python error: Segmentation fault
    [gpu017:00811] Signal: Segmentation fault (11)
    RuntimeError: DataLoader worker (pid 8114) is killed by signal: Bus error.
    *** SIGSEGV (@0x10) received by PID 811 (TID 0x7f) from PID 16; stack trace: ***
    *** SIGSEGV received at time=1772360430 on cpu 25 ***

https://docs.python.org/3/library/faulthandler.html, https://github.com/openucx/ucx, https://www.open-mpi.org,
https://github.com/google/glog, https://github.com/abseil/abseil-cpp. An abort (SIGABRT) follows an error that was
reported before.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.faults.classes import class_of
from aftershock.parsers.training.faults.talk import speaks_of
from aftershock.parsers.training.marks import CONFIRMED
from aftershock.parsers.training.rules import Match, Rule, Said, error
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 60

_BUS: Final = re.compile(rb"(?i)bus error|signal 7\b|SIGBUS")
_MEMORY: Final = error("host_oom")
_ABORT: Final = re.compile(rb"(?i)abort|signal 6\b|SIGABRT|signal 15\b|SIGTERM|Terminated")


def _read_signal(found: Match, said: Said) -> TrainingEvent | None:
    """A signal of which the process itself tells; shared memory that ends too early is a bus error."""
    text = found["error"]
    if speaks_of(said, found.start("error")):
        return None
    error_class, role = "process_crash", "root"
    if _BUS.search(text):
        error_class = "host_shm"
    elif _ABORT.search(text):
        error_class, role = "teardown", "symptom"
    row = TrainingEvent(kind="error", error_class=error_class, error_role=role, error=text_of(text).strip())
    host = found.groupdict().get("host")
    row.host_raw = text_of(host) if host else None
    return row


def _read_memory(found: Match, said: Said) -> TrainingEvent | None:
    """What the kernel says in the output, or in the end of its log that somebody shows there."""
    return None if speaks_of(said, found.start("error")) else _MEMORY(found, said)


def _read_worker(found: Match, said: Said) -> TrainingEvent | None:
    if speaks_of(said, found.start("error")):
        return None
    error_class, role = class_of(b"RuntimeError", found["error"])
    if b"SIGTERM" in found["error"] or b"signal: Terminated" in found["error"]:
        error_class, role = "teardown", "symptom"
    elif error_class == "user_code_exception":
        error_class = "process_crash"
    return TrainingEvent(kind="error", error_class=error_class, error_role=role, error=text_of(found["error"]).strip())


RULES: Final = (
    Rule(
        words=(
            *(b"Fatal Python error: ", b"Caught signal ", b"Segfault encountered", b"; stack trace: ***"),
            b" received at time=",
        ),
        shape=later(
            rb"(?P<error>Fatal Python error: [A-Za-z_][^\r\n]{0,200}|Caught signal \d{1,2} \([^\r\n]{1,200}"
            rb"|!{3,} ?Segfault encountered|\*\*\* SIG[A-Z]{2,6} (?:\(|received by PID )[^\r\n]{1,120}; stack trace: "
            rb"\*\*\*|\*\*\* SIG[A-Z]{2,6} received at time=\d{1,12} [^\r\n]{0,80}\*\*\*)"
        ),
        row=_read_signal,
        only="fault",
    ),
    Rule(
        words=(b"] Signal: ",),
        shape=later(rb"\[(?P<host>[\w.-]{1,64}):\d{1,9}\] (?P<error>Signal: [A-Z][\w ]{1,40} \(\d{1,2}\))"),
        row=_read_signal,
        only="fault",
    ),
    Rule(
        words=(
            b"double free or corruption",
            b"corrupted size vs. prev_size",
            b"malloc(): ",
            b"free(): invalid",
            b"smashing detected",
        ),
        shape=later(
            rb"\A(?P<error>(?:\*\*\* Error in `[^'\r\n]{1,200}': )?(?:double free or corruption"
            rb"|corrupted (?:size vs\. prev_size|double-linked list)"
            rb"|malloc\(\): [a-z]"
            rb"|free\(\): invalid|munmap_chunk\(\): |\*\*\* stack smashing detected \*\*\*))[^\r\n]{0,120}"
        ),
        row=error("process_crash"),
        only="fault",
    ),
    Rule(
        words=(b"mce: [Hardware Error]: ", b" UE memory read error on ", b" UE memory scrubbing error on "),
        shape=later(
            rb"(?P<error>mce: \[Hardware Error\]: (?:CPU \d{1,4}: Machine Check|Machine check events "
            rb"logged)[^\r\n]{0,200}"
            rb"|EDAC MC\d{1,3}: \d{1,9} UE [^\r\n]{1,200})"
        ),
        row=error("host_hardware"),
        only="fault",
    ),
    Rule(
        words=(b" invoked oom-killer: ", b"ut of memory: Kill"),
        shape=later(
            rb"(?P<error>\A[^\s:][^\r\n\"'`]{0,40} invoked oom-killer: gfp_mask=[^\r\n]{1,200}"
            rb"|\b(?:Memory cgroup o|O)ut of memory: Kill(?:ed)? process \d{1,10}[, ][^\r\n]{0,300})"
        ),
        row=_read_memory,
        mark=CONFIRMED,
        only="fault",
    ),
    Rule(
        words=(b"Timeout (",),
        shape=later(rb"\A(?P<error>Timeout \(\d{1,3}:\d\d:\d\d(?:\.\d{1,6})?\)!)"),
        row=error("hang_no_error", "symptom"),
        only="fault",
    ),
    Rule(
        words=(
            b"Unexpected segmentation fault encountered in worker",
            b"Unexpected floating-point exception encountered",
        ),
        shape=later(
            rb"(?P<error>Unexpected (?:segmentation fault|floating-point exception) encountered in worker"
            rb"[^\r\n]{0,120})"
        ),
        row=error("process_crash"),
        only="fault",
    ),
    Rule(
        words=(b"Unexpected bus error encountered in worker",),
        shape=later(rb"(?P<error>Unexpected bus error encountered in worker[^\r\n]{0,120})"),
        row=error("host_shm"),
        only="fault",
    ),
    Rule(
        words=(b"is killed by signal: ", b" exited unexpectedly with exit code "),
        shape=later(
            rb"(?P<error>DataLoader worker \(pid[^)]{0,40}\) (?:is killed by signal: |exited unexpectedly with exit "
            rb"code )[^\r\n]{1,400})"
        ),
        row=_read_worker,
        only="fault",
    ),
)

SAMPLES: Final = (
    Sample(
        "Timeout (0:10:00)!\nThread 0x00007f2a11b2c700 (most recent call first):\n",
        (expect("training_events", error_class="hang_no_error", error_role="symptom"),),
        title="A dump of all threads after a time without an end",
    ),
    Sample(
        " kernel:[811324.109] mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 7: be00000000800400\n",
        (expect("training_events", error_class="host_hardware", error_role="root"),),
        title="A machine check that syslog shows to everybody",
    ),
    Sample(
        "[811324.109221] python3 invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, "
        "oom_score_adj=0\n",
        (expect("training_events", error_class="host_oom", error_role="root"),),
        title="The kernel looks for memory",
    ),
    Sample(
        "RuntimeError: DataLoader worker (pid 8114) is killed by signal: Bus error. It is possible that dataloader's "
        "workers are out of shared memory.\n",
        (expect("training_events", error_class="host_shm", error_role="root"),),
        title="Crash of a worker",
    ),
    Sample(
        "RuntimeError: DataLoader worker (pid 8114) exited unexpectedly with exit code 1. Details are lost due to "
        "multiprocessing. Rerunning with num_workers=0 may give better error trace.\n",
        (expect("training_events", error_class="process_crash", error_role="root"),),
        title="A worker that is gone",
    ),
    Sample(
        "*** SIGSEGV received at time=1772360430 on cpu 25 ***\nPC: @     0x7f8c11223344  (unknown)  run()\n",
        (expect("training_events", error_class="process_crash", error_role="root"),),
        title="Crash of JAX",
    ),
    Sample(
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f2a11b2c700 (most recent call first):\n",
        (expect("training_events", error_class="process_crash", error_role="root"),),
        title="Crash",
    ),
    Sample(
        "[gpu017:00811] *** Process received signal ***\n[gpu017:00811] Signal: Segmentation fault (11)\n",
        (expect("training_events", error_class="process_crash", error_role="root", host_raw="gpu017"),),
        title="Crash under Open MPI",
    ),
)

NON_SAMPLES: Final = (
    "Timeout (seconds): 600\n",
    "Segmentation faults are caught by the tests\n",
    "free(): the method of the pool\n",
    "The kernel logs `<task> invoked oom-killer: gfp_mask=...` when it looks for memory\n",
)
