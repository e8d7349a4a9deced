"""Process groups of PyTorch: collectives that time out, as watchdogs and barriers report them.

    [rank7]:[E301 10:48:25.033625188 ProcessGroupNCCL.cpp:632] [Rank 7] Watchdog caught collective operation ...
    [rank7]:[E301 10:48:25.033625188 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0 Rank 7] Exception (either an error or
        timeout) detected by watchdog at work: 811, last enqueued NCCL work: 815, last completed NCCL work: 810.
    [Rank 0]: Ranks 1, 5 failed to pass monitoredBarrier in 600000 ms

https://github.com/pytorch/pytorch: torch/csrc/distributed/c10d (ProcessGroupNCCL.cpp, ProcessGroupGloo.cpp, logger.cpp)
and what derives from it (HCCL, XCCL). Ranks that report a time-out are victims: they waited for one that says
nothing, or whose last enqueued work is lower than that of the others. They waited since the time of the report less
``duration_s``. The rank in brackets counts within its group; the label before the line counts over all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.faults.below import with_words_below
from aftershock.parsers.training.faults.classes import class_of_text
from aftershock.parsers.training.marks import ECHO
from aftershock.parsers.training.rules import Match, Rule, Said, Told, error, whole
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 40

_RANK: Final = re.compile(rb"\b[Rr]ank (?P<rank>\d{1,6})\]")
_TIMEOUT: Final = re.compile(
    rb"(?P<error>Watchdog caught collective operation timeout: Work\w{1,12}\([^\r\n]{0,600}?"
    rb"(?:ran for (?P<ran>\d{1,12}) milliseconds[^\r\n]{0,80})?)(?=\r|\n|\Z)"
)
_STATUS: Final = re.compile(
    rb"(?:Timeout at \w{1,8} work: (?P<at>\d{1,12})|(?:failure|Exception[^\r\n]{0,60}) detected by watchdog at work"
    rb"(?: sequence id)?: (?P<at2>\d{1,12})(?: PG status)?|collective timeout[^\r\n]{0,400}?|heartbeat[^\r\n]{0,400}?)"
    rb"[:,.]? ?[Ll]ast enqueued (?:\w{1,8} )?work: (?P<enqueued>-?\d{1,12}), last completed (?:\w{1,8} )?work: "
    rb"(?P<done>-?\d{1,12})"
)


def _rank(said: Said) -> int | None:
    """The rank over all ranks where the line has a label with it, else that of the group."""
    if said.prefix.rank is not None:
        return said.prefix.rank
    found = _RANK.search(said.message[:400])
    return whole(found["rank"]) if found else None


def _row(error_class: str, role: str, text: bytes, said: Said) -> TrainingEvent:
    row = TrainingEvent(kind="error", error_class=error_class, error_role=role, error=text_of(text).strip()[:4096])
    row.rank = _rank(said)
    return row


def _read_timeout(found: Match, said: Said) -> TrainingEvent:
    row = _row("collective_timeout", "symptom", found["error"], said)
    ran = whole(found["ran"])
    row.duration_s = None if ran is None else ran / 1000
    return row


def _read_terminated(found: Match, said: Said) -> TrainingEvent | None:
    """The watchdog ends its process: of a CUDA error, which is the cause, or of the time-out that it has reported."""
    known = class_of_text(found["error"]) or ("collective_timeout", "symptom")
    return _row(*known, found["error"], said)


def _read_async(found: Match, said: Said) -> TrainingEvent:
    """What NCCL said of work that was under way, as the process group tells it; why stands below, without its label."""
    text = with_words_below(found["error"], said)
    if said.rest.startswith(b"nccl"):
        text += b" " + b" ".join(said.rest[:1000].partition(b"Exception raised")[0].split(b"\n", 4)[:4])
    return _row(*(class_of_text(text) or ("peer_exit", "symptom")), found["error"], said)


def _read_status(found: Match, said: Said) -> TrainingEvent:
    text = b"last enqueued work: %b, last completed work: %b" % (found["enqueued"], found["done"])
    return _row("collective_timeout", "symptom", text, said)


def _read_any(error_class: str, role: str = "symptom") -> Callable[[Match, Said], TrainingEvent]:
    def read(found: Match, said: Said) -> TrainingEvent:
        return _row(error_class, role, found["error"], said)

    return read


def _read_socket(found: Match, said: Said) -> TrainingEvent | None:
    """A store that cannot be reached. What is tried again is a warning."""
    if said.prefix.level not in ("E", "F", "ERROR"):
        return None
    return _row("rendezvous_failure", "root", found["error"], said)


def _read_echo(found: Match, said: Said) -> Told:
    return Told(_row("collective_timeout", "symptom", found["error"], said), None, ECHO)


RULES: Final = (
    Rule(
        words=(b"watchdog thread terminated with exception",),
        shape=later(rb"watchdog thread terminated with exception: (?P<error>[^\r\n]{1,2000})"),
        row=_read_terminated,
        only="fault",
    ),
    Rule(
        words=(b" raised the following async exception: ",),
        shape=later(rb" raised the following async exception: (?P<error>[^\r\n]{1,2000})"),
        row=_read_async,
        only="fault",
    ),
    Rule(
        words=(b"Watchdog caught collective operation timeout",),
        shape=_TIMEOUT,
        row=_read_timeout,
        only="fault",
    ),
    Rule(
        words=(b"ast enqueued",),
        shape=_STATUS,
        row=_read_status,
        only="fault",
    ),
    Rule(
        words=(
            b"mismatch between collectives on ranks",
            b"never joined any collectives",
            b"that caused the desync are:",
        ),
        shape=later(
            rb"(?P<error>Detected mismatch between collectives on ranks[^\r\n]{0,1200}"
            rb"|- To our best knowledge, [^\r\n]{0,200}(?:never joined any collectives|caused the desync "
            rb"are)[^\r\n]{0,400})"
        ),
        row=_read_any("collective_desync", "root"),
        only="fault",
    ),
    Rule(
        words=(b"monitoredBarrier",),
        shape=later(
            rb"(?P<error>(?:\[Rank \d{1,6}\]: )?(?:Ranks? [\d, ]{1,400} failed to pass monitoredBarrier in \d{1,12} ms"
            rb"|Rank \d{1,6} successfully reached monitoredBarrier, but received errors[^\r\n]{0,300}))"
        ),
        row=_read_any("collective_timeout"),
        only="fault",
    ),
    Rule(
        words=(
            *(
                b"dump signal due to",
                b"flight recorder dump signal",
                b"watchdog got stuck for",
                b"Heartbeat monitor timed out",
            ),
            *(b"preparing to dump debug info", b"to signal dumping", b"Timeout at collective: "),
            *(b"to dump debug info, due to", b"detected no heartbeat of its watchdog"),
        ),
        shape=later(
            rb"(?P<error>(?:Received a (?:global timeout|dump signal) [^\r\n]{0,600}|Observed flight recorder dump "
            rb"signal"
            rb"|Could not acquire GIL|ProcessGroup\w{1,12}'s watchdog got stuck|Heartbeat monitor timed out|Timeout "
            rb"at collective: "
            rb"|\w{0,20} ?preparing to dump debug info|First PG on this rank|Terminating the process after "
            rb"attempting to dump)"
            rb"[^\r\n]{0,400})"
        ),
        row=_read_echo,
        only="fault",
    ),
    Rule(
        words=(b"The client socket has ", b"The server socket has failed", b"Gloo connectFullMesh failed with"),
        shape=later(
            rb"\A(?P<error>(?:\[c10d\] )?(?:The client socket has (?:timed out after|failed to connect to)"
            rb"|The server socket has failed to|Gloo connectFullMesh failed with)[^\r\n]{1,400})"
        ),
        row=_read_socket,
        only="fault",
    ),
    Rule(
        words=(b"taking the entire process down", b"we are taking the entire"),
        shape=later(rb"(?P<error>To avoid (?:data|this) inconsistency, we are taking the entire process down)"),
        row=error("teardown", "teardown", kind="exit"),
        only="fault",
    ),
)

SAMPLES: Final = (
    Sample(
        "[rank3]:[E301 10:48:25.033625188 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation "
        "timeout: "
        "WorkNCCL(SeqNum=811, OpType=ALLREDUCE, NumelIn=512, NumelOut=512, Timeout(ms)=600000) ran for 600012 "
        "milliseconds "
        "before timing out.\n"
        "[rank3]:[E301 10:48:25.034021001 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank 3] Exception "
        "(either an error or timeout) detected by watchdog at work: 811, last enqueued NCCL work: 815, last "
        "completed NCCL "
        "work: 810.\n"
        "[rank3]:[E301 10:48:25.035021001 ProcessGroupNCCL.cpp:681] [Rank 3] To avoid data inconsistency, we are "
        "taking the "
        "entire process down.\n",
        (
            expect(
                "training_events", error_class="collective_timeout", error_role="symptom", rank=3, duration_s=600.012
            ),
            expect(
                "training_events",
                error_class="collective_timeout",
                error="last enqueued work: 815, last completed work: 810",
                rank=3,
            ),
            expect("training_events", kind="exit", error_class="teardown", error_role="teardown", rank=3),
        ),
        title="Watchdog of a process group",
        url="https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
    ),
    Sample(
        "[rank17]:[E ProcessGroupNCCL.cpp:523] [Rank 2] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=4, "
        "OpType=BROADCAST, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600070 milliseconds before timing out.\n",
        (expect("training_events", error_class="collective_timeout", rank=17, duration_s=600.07),),
        title="Watchdog of a group that is a part of all",
    ),
    Sample(
        "[rank0]: RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=7, OpType=ALLREDUCE), but Rank 1 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=7, OpType=BROADCAST).\n",
        (expect("training_events", error_class="collective_desync", error_role="root", rank=0),),
        title="Ranks that do not do the same",
    ),
)

NON_SAMPLES: Final = (
    "[rank0]:[W301 10:20:30.123456789 ProcessGroupNCCL.cpp:4115] Warning: using GPU 0 to perform barrier as devices "
    "used by "
    "this process are currently unknown.\n",
    "the watchdog caught a collective operation in time\n",
)
