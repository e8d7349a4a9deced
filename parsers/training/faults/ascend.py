"""Ascend: what CANN and HCCL say of an error, by its code, below the exception that PyTorch raises.

    EI0002: The wait execution of the Notify register times out. Reason: The Notify register has not received ...
    EI0006: [PID: 811] 2026-03-01-10:20:30.123.456 Getting socket times out. Reason: Remote Rank did not send ...
    EJ0001: 2026-03-01-10:20:30.123.456 Failed to initialize the HCCP process. Reason: Maybe the last training ...

https://www.hiascend.com/document (CANN, error codes), https://gitee.com/ascend/pytorch. What waits for another rank is
a victim. Codes that are not listed here say nothing that the exception does not say.
"""

from __future__ import annotations

from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.faults.talk import speaks_of
from aftershock.parsers.training.rules import Match, Rule, Said
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 63

_CODES: Final = {
    b"EI0001": ("user_config", "root"),
    b"EI0002": ("collective_timeout", "symptom"),
    b"EI0003": ("user_config", "root"),
    b"EI0004": ("user_config", "root"),
    b"EI0005": ("collective_desync", "root"),
    b"EI0006": ("collective_timeout", "symptom"),
    b"EI0008": ("user_environment", "root"),
    b"EI0013": ("nic_or_link", "root"),
    b"EJ0001": ("gpu_unhealthy_suspect", "root"),
    b"EL0004": ("user_gpu_oom", "root"),
    b"EE1002": ("collective_timeout", "symptom"),
}


def _read(found: Match, said: Said) -> TrainingEvent | None:
    known = _CODES.get(found["code"])
    if known is None or speaks_of(said, found.start("error")):
        return None
    row = TrainingEvent(kind="error", error_class=known[0], error_role=known[1])
    row.error = text_of(found["error"]).strip()
    return row


RULES: Final = (
    Rule(
        words=tuple(code + b": " for code in _CODES),
        shape=later(
            rb"\A(?P<error>(?P<code>E[A-Z]\d{4}): (?:\[PID: \d{1,9}\] )?(?:\d{4}-\d\d-\d\d-[\d:.]{8,20} )?[A-Z][a-z]"
            rb"[^\r\n]{1,600})"
        ),
        row=_read,
        only="fault",
    ),
)

SAMPLES: Final = (
    Sample(
        "[rank1]: RuntimeError: InnerRunOpApi:torch_npu/csrc/framework/OpParamMaker.cpp:281 OPS function error: "
        "HcclAllreduce, error code is 6\n"
        "[rank1]: [ERROR] 2026-03-01-10:20:30 (PID:811, Device:1, RankID:1) ERR01100 OPS call acl api failed.\n"
        "[rank1]: EI0006: [PID: 811] 2026-03-01-10:20:30.123.456 Getting socket times out. Reason: Remote Rank did not "
        "send the data in time. Please check the reason for the rank being stuck\n",
        (
            expect("training_events", error_class="peer_exit", error_role="symptom", rank=1),
            expect("training_events", error_class="collective_timeout", error_role="symptom", rank=1),
        ),
        title="Ascend: a rank that waits for another",
    ),
    Sample(
        "RuntimeError: [ERROR] HCCL error in: torch_npu/csrc/distributed/ProcessGroupHCCL.cpp:64\n"
        "EJ0001: 2026-03-01-10:20:30.123.456 Failed to initialize the HCCP process. Reason: Maybe the last training "
        "process is running.\n",
        (
            expect("training_events", error_class="peer_exit", error_role="symptom"),
            expect("training_events", error_class="gpu_unhealthy_suspect", error_role="root"),
        ),
        title="Ascend: a device that is still in use",
    ),
)

NON_SAMPLES: Final = (
    "Communication_Error_Get_Socket(EI0006)\n",
    "EI0002: see the list of codes\n",
    "EE9999: Inner Error!\n",
)
