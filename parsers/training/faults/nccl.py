"""NCCL, and RCCL after it: warnings, and error codes that are handed up through its calls.

    [2026-03-01 10:20:30] gpu017:811:1203 [4] transport/net_ib.cc:1640 NCCL WARN NET/IB : Got completion from peer ...
    gpu017:811:1203 [4] NCCL INFO transport/net.cc:1298 -> 6

https://github.com/NVIDIA/nccl: src/transport/net_ib, src/misc/socket.cc, src/proxy.cc; https://github.com/ROCm/rccl. A
completion with an error (status 12: no answer after all retries) tells of the link, unless the peer had died. One with
status 5 (vendor error 249 or 244) is a request that was flushed after another one had failed; its other numbers mean
nothing. Codes: 1 CUDA, 2 system, 3 internal, 4 and 5 wrong use, 6 the other side.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.faults.below import with_words_below
from aftershock.parsers.training.faults.classes import class_of_text
from aftershock.parsers.training.faults.talk import speaks_of
from aftershock.parsers.training.marks import ECHO
from aftershock.parsers.training.rules import Match, Rule, Said, Told
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 40

# ``host:pid:tid [device] `` before every line of NCCL.
_WRITER: Final = rb"(?:(?P<host>[\w.-]{1,64}):\d{1,9}:\d{1,9} (?:\[\d{1,3}\] )?)?"
_WARN: Final = re.compile(
    _WRITER + rb"(?:[\w./+-]{1,80}:\d{1,6}(?: \(\w{1,80}\))? )?(?:NCCL|RCCL|MSCCL\+\+) WARN (?P<text>[^\r\n]{1,2000})"
)
_RETURN: Final = re.compile(
    _WRITER
    + rb"(?:NCCL|RCCL) INFO (?P<error>(?:[\w./+-]{1,80}:\d{1,6} -> (?P<code>[1-7])|[\w./+-]{1,80}:\d{1,6}:\w{1,60}"
    rb" -> (?P<code2>[1-7])))\b"
)
# In order; what none of them says is told by the words of all errors.
_WORDS: Final = (
    (
        "nic_or_link",
        "symptom",
        re.compile(rb"status=(?:IBV_WC_WR_FLUSH_ERR\()?5\b|vendor[ _]err[= ]2(?:44|49)\b|with error 5,"),
    ),
    (
        "nic_or_link",
        "root",
        re.compile(
            rb"Got completion (?:from peer|with error)|Got CQE with error|Got async (?:fatal )?event|async fatal "
            rb"event|marked as failed\. Initiating recovery|failed devices out of|NET/IB : .{0,80}(?:Port .{0,20}down"
            rb"|port error)|Call to ibv_\w{1,40} failed(?!.{0,60}(?:Cannot allocate|No such file|Function not))"
        ),
    ),
    ("host_shm", "root", re.compile(rb"/dev/shm|shared memory (?:segment|file)|failed to (?:extend|create shared)")),
    (
        "collective_desync",
        "root",
        re.compile(rb"[Mm]essage truncated : receiv|[Mm]ismatch in info from procs|Coll \w{1,40} size .{0,80}mismatch"),
    ),
    (
        "user_config",
        "root",
        re.compile(
            rb"Duplicate GPU detected|Multiple Ranks are using the same GPU|has already checked in|Bootstrap : no "
            rb"socket interface found|Invalid (?:config|NCCL_COMM_ID)|invalid (?:reduction|root|type|device count)"
            rb"|is not a valid pointer"
        ),
    ),
    ("user_environment", "root", re.compile(rb"Mismatched NCCL version|NCCL version mismatch")),
    (
        "rendezvous_failure",
        "root",
        re.compile(
            rb"(?i)connect to .{0,120}(?:refused|timed out|unreachable|no route|exceeded)|bootstrap.{0,80}(?:failed"
            rb"|timed? ?out)|could not resolve|getting address info|PollConnect to .{0,120}(?:refused|timed out"
            rb"|unreachable|no route)"
        ),
    ),
    (
        "peer_exit",
        "symptom",
        re.compile(
            rb"[Cc]onnection (?:was )?closed by (?:remote )?peer|Connection reset by peer|Broken pipe|retcode \d"
            rb"|remote process exited|Failed to execute operation|\[(?:Proxy|Service) (?:Service|thread|Progress)"
            rb"|socketProgress|socket progress error|Call to (?:recv|send|connect) .{0,120}failed|Error encountered "
            rb"progressing|Socket recv failed|peer closed|communicator encountered a fatal error|is in abort state"
            rb"|unexpected socket state"
        ),
    ),
)
_BY_CODE: Final = {b"1": ("cuda_kernel_fault", "symptom"), b"6": ("peer_exit", "symptom")}


def _read_warning(found: Match, said: Said) -> TrainingEvent | None:
    text = found["text"]
    if speaks_of(said, found.start()):
        return None
    error_class, role = _class_of_warning(text)
    row = TrainingEvent(kind="error", error_class=error_class, error_role=role, error=text_of(text).strip())
    row.host_raw = text_of(found["host"]) if found["host"] else None
    return row


def _class_of_warning(text: bytes) -> tuple[str, str]:
    """Warnings of which nobody knows that they end a run are noise."""
    for error_class, role, pattern in _WORDS:
        if pattern.search(text):
            return error_class, role
    if text.startswith((b"Cuda failure", b"CUDA failure", b"HIP failure", b"Cuda error", b"HIP error")):
        return class_of_text(text) or ("cuda_kernel_fault", "root")
    return "unknown", "noise"


def _read_return(found: Match, _said: Said) -> Told:
    error_class, role = _BY_CODE.get(found["code"] or found["code2"], ("unknown", "symptom"))
    row = TrainingEvent(kind="error", error_class=error_class, error_role=role, error=text_of(found["error"]))
    row.host_raw = text_of(found["host"]) if found["host"] else None
    return Told(row, None, ECHO)


def _read_error(found: Match, said: Said) -> TrainingEvent | None:
    """An error that NCCL returned, as PyTorch tells of it: what it was stands below."""
    if speaks_of(said, found.start("error")):
        return None
    known = class_of_text(with_words_below(found["error"], said)) or ("peer_exit", "symptom")
    row = TrainingEvent(kind="error", error_class=known[0], error_role=known[1])
    row.error = text_of(found["error"]).strip()
    return row


RULES: Final = (
    Rule(
        words=(b"NCCL error in: ", b"NCCL Error "),
        shape=later(rb"(?P<error>NCCL [Ee]rror (?:in: |\d:)[^\r\n]{1,600})"),
        row=_read_error,
        only="fault",
    ),
    Rule(
        words=(b"CCL WARN ", b"CCL++ WARN "),
        shape=_WARN,
        row=_read_warning,
        only="fault",
    ),
    Rule(
        words=(b"CCL INFO ",),
        scan=tuple(b" -> %d%b" % (code, end) for code in range(1, 8) for end in (b"\n", b" [")),
        shape=_RETURN,
        row=_read_return,
        only="fault",
    ),
)

SAMPLES: Final = (
    Sample(
        "gpu017:811:1203 [4] transport/net_ib.cc:1640 NCCL WARN NET/IB : Got completion from peer 10.0.0.9<44206> with "
        "status=12 opcode=129 len=65536 vendor err 129 (Recv)\n"
        "gpu017:811:1203 [4] NCCL INFO transport/net.cc:1298 -> 6\n"
        "gpu017:811:1203 [4] misc/socket.cc:538 NCCL WARN Net : Connection closed by remote peer gpu018<47861>\n",
        (
            expect("training_events", error_class="nic_or_link", error_role="root", host_raw="gpu017"),
            expect("training_events", error_class="peer_exit", error_role="symptom"),
        ),
        title="NCCL",
    ),
    Sample(
        "\n[2026-03-01 10:20:30] gpu017:811:1203 [4] transport/net_ib/p2p.cc:712 (ncclIbTest) NCCL WARN NET/IB: Got "
        "completion "
        "from peer 10.0.0.9<44206> with status=IBV_WC_WR_FLUSH_ERR(5) opcode=IBV_WC_RECV(128) vendor_err=249 hca "
        "mlx5_2\n",
        (
            expect(
                "training_events",
                error_class="nic_or_link",
                error_role="symptom",
                host_raw="gpu017",
                time_local="2026-03-01 10:20:30",
            ),
        ),
        title="NCCL: a flushed request",
    ),
    Sample(
        "gpu017:811:1203 [4] NCCL INFO init.cc:1358 -> 2\ngpu017:811:1203 [4] NCCL INFO init.cc:1640 -> 2\n",
        (expect("training_events", error_class="unknown", error_role="symptom", host_raw="gpu017"),),
        title="NCCL: an error code",
    ),
)

NON_SAMPLES: Final = (
    "gpu017:811:1203 [4] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so), using internal implementation\n",
    "gpu017:811:1203 [4] NCCL INFO Channel 00/0 : 1[1] -> 2[2] via P2P/CUMEM\n",
    "NCCL_DEBUG=WARN is the level that we use\n",
)
