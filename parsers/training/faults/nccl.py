"""NCCL and RCCL: warnings of their own and the watchdog of PyTorch's process groups.

    [2026-03-01 10:20:30] gpu017:811:1203 [4] transport/net_ib.cc:1640 NCCL WARN NET/IB : Got completion from peer ...
    [rank7]:[E301 10:48:25.033625188 ProcessGroupNCCL.cpp:632] [Rank 7] Watchdog caught collective operation timeout: ...

https://github.com/NVIDIA/nccl (src/transport/net_ib), https://github.com/pytorch/pytorch (ProcessGroupNCCL.cpp). Ranks that
report a time-out are victims: they waited for one that says nothing. A completion with status 5 (vendor error 249) is
a request that was flushed after the failure of another one, and its other numbers mean nothing.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.training.faults.classes import class_of
from aftershock.parsers.training.marks import REPRINT
from aftershock.parsers.training.rules import Match, Rule, Said, whole
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 40

# ``host:pid:tid [device] `` before every line of NCCL.
_WRITER: Final = re.compile(rb"(?P<host>[\w.-]{1,64}):\d{1,9}:\d{1,9} (?:\[\d{1,3}\] )?")
_WARN: Final = re.compile(
    rb"(?:(?P<host>[\w.-]{1,64}):\d{1,9}:\d{1,9} (?:\[\d{1,3}\] )?)?(?:\S{1,80}:\d{1,6}(?: \(\w{1,80}\))? )?"
    rb"(?:NCCL|RCCL|MSCCL\+\+) WARN (?P<text>[^\r\n]{1,2000})"
)
_FLUSHED: Final = re.compile(rb"status=(?:IBV_WC_WR_FLUSH_ERR\()?5\b|vendor[ _]err[= ]249|with error 5,")
_LINK: Final = re.compile(
    rb"Got completion (?:from peer|with error)|Got async event : |NET/IB : .{0,80}(?:Port .{0,20}down|port error|fatal error)"
    rb"|ibv_poll_cq|ibv_modify_qp failed|Call to ibv_\w{1,40} failed|No route to host|unhandled system error"
)
_PEER: Final = re.compile(
    rb"Connection closed by (?:remote )?peer|Connection reset by peer|Broken pipe|retcode 6|remote process exited"
    rb"|Failed to execute operation|Proxy .{0,60}(?:error|closed|abort)|Error encountered progressing operation"
    rb"|socketProgress|Net : Call to (?:recv|send|connect) .{0,80}failed|peer closed|Received error"
)
_BOOTSTRAP: Final = re.compile(
    rb"Bootstrap : no socket interface|Connection refused|bootstrap.{0,60}(?:failed|timed? ?out)|Name or service not known"
    rb"|Could not resolve"
)
_NOISE: Final = re.compile(
    rb"MSCCL|Could not (?:find|load|open)|is (?:not|un)supported|NCCL_\w+ .{0,40}(?:deprecated|ignored|invalid)|Ignoring|Failed to find"
    rb"|not found|falling back|No plugin|Cuda failure 'out of memory'.{0,0}X"
)
_CUDA: Final = re.compile(rb"Cuda failure (?:\d+ )?'(?P<what>[^']{1,200})'|HIP failure '(?P<hip>[^']{1,200})'")


def _read_warning(found: Match, said: Said) -> TrainingEvent | None:
    text = found["text"]
    error_class, role = _class_of_warning(text)
    if error_class is None:
        return None
    row = TrainingEvent(kind="error", error_class=error_class, error_role=role, error=text_of(text).strip())
    if found["host"]:
        row.host_raw = text_of(found["host"])
    return row


def _class_of_warning(text: bytes) -> tuple[str | None, str]:
    cuda = _CUDA.search(text)
    if cuda is not None:
        return class_of(b"RuntimeError", b"CUDA error: " + (cuda["what"] or cuda["hip"]))
    if _LINK.search(text):
        return "nic_or_link", "symptom" if _FLUSHED.search(text) else "root"
    if _PEER.search(text):
        return "peer_exit", "symptom"
    if _BOOTSTRAP.search(text):
        return "rendezvous_failure", "root"
    if _NOISE.search(text):
        return None, "noise"
    return "unknown", "noise"


_TIMEOUT: Final = re.compile(
    rb"(?:\[Rank (?P<rank>\d{1,6})\] )?(?P<error>Watchdog caught collective operation timeout: WorkNCCL\("
    rb"[^\r\n]{0,400}?(?:ran for (?P<ran>\d{1,12}) milliseconds[^\r\n]{0,80})?)(?=\r|\n|\Z)"
)
_RANK: Final = re.compile(rb"Rank (?P<rank>\d{1,6})\]")


def _read_timeout(found: Match, said: Said) -> TrainingEvent:
    rank = found["rank"] or next((one["rank"] for one in _RANK.finditer(said.message)), None)
    ran = whole(found["ran"])
    return TrainingEvent(
        kind="error",
        error_class="collective_timeout",
        error_role="symptom",
        rank=whole(rank),
        duration_s=None if ran is None else ran / 1000,
        error=text_of(found["error"]),
    )


def _read_watchdog(found: Match, said: Said) -> TrainingEvent | None:
    """The watchdog ends its process: of a CUDA error, which is the cause, or of the time-out that it reported."""
    error_class, role = class_of(b"RuntimeError", found["error"])
    if error_class == "user_code_exception":
        error_class, role = "collective_timeout", "symptom"
    rank = next((one["rank"] for one in _RANK.finditer(said.message)), None)
    row = TrainingEvent(kind="error", error_class=error_class, error_role=role, rank=whole(rank))
    row.error = text_of(found["error"]).strip()
    return row


def _read_status(found: Match, said: Said) -> TrainingEvent:
    rank = found["rank"] or next((one["rank"] for one in _RANK.finditer(said.message)), None)
    return TrainingEvent(
        kind="error",
        error_class="collective_timeout",
        error_role="symptom",
        rank=whole(rank),
        error=text_of(found["error"]).strip(),
    )


RULES: Final = (
    Rule(
        words=(b"Watchdog caught collective operation timeout",),
        shape=_TIMEOUT,
        row=_read_timeout,
        only="fault",
    ),
    Rule(
        words=(b"watchdog thread terminated with exception",),
        shape=re.compile(
            rb"(?:Process group|NCCL) watchdog thread terminated with exception: (?P<error>[^\r\n]{1,2000})"
        ),
        row=_read_watchdog,
        only="fault",
    ),
    Rule(
        words=(b"Timeout at NCCL work:", b"failure detected by watchdog at work sequence id", b"entire process down"),
        scan=(b"Timeout at NCCL work:", b"failure detected by watchdog", b"entire process down"),
        shape=re.compile(
            rb"(?:\[Rank (?P<rank>\d{1,6})\] )?(?P<error>(?:failure detected by watchdog at work sequence id"
            rb"|Timeout at NCCL work: |(?:To avoid data inconsistency, we are|To avoid this inconsistency, we are) taking the entire"
            rb" process down)[^\r\n]{0,400})"
        ),
        row=_read_status,
        mark=REPRINT,
        only="fault",
    ),
    Rule(
        words=(b"CCL WARN ", b"CCL++ WARN "),
        shape=_WARN,
        row=_read_warning,
        only="fault",
    ),
)

SAMPLES: Final = (
    Sample(
        "[rank3]:[E301 10:48:25.033625188 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=811, OpType=ALLREDUCE, NumelIn=512, NumelOut=512, Timeout(ms)=600000) ran for 600012 milliseconds "
        "before timing out.\n",
        (
            expect(
                "training_events",
                error_class="collective_timeout",
                error_role="symptom",
                rank=3,
                duration_s=600.012,
            ),
        ),
        title="Watchdog of a process group",
        url="https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
    ),
    Sample(
        "gpu017:811:1203 [4] transport/net_ib.cc:1640 NCCL WARN NET/IB : Got completion from peer 10.0.0.9<44206> with "
        "status=12 opcode=129 len=65536 vendor err 129 (Recv)\n"
        "gpu017:811:1203 [4] misc/socket.cc:538 NCCL WARN Net : Connection closed by remote peer gpu018<47861>\n",
        (
            expect("training_events", error_class="nic_or_link", error_role="root", host_raw="gpu017"),
            expect("training_events", error_class="peer_exit", error_role="symptom"),
        ),
        title="NCCL",
    ),
)

NON_SAMPLES: Final = (
    "gpu017:811:1203 [4] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so), using internal implementation\n",
    "NCCL_DEBUG=WARN is the level that we use\n",
)
