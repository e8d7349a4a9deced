"""Errors of GPU runtimes wherever they are printed: CUDA, ROCm (HIP, HSA), Intel Gaudi (synapse), XLA.

    CUDA error: an illegal memory access was encountered
    Memory access fault by GPU node-4 (Agent handle: 0x55d) on address 0x7f. Reason: Unknown.
    :0:rocdevice.cpp :2724: 811 us: Callback: Queue 0x7f Aborting with error : HSA_STATUS_ERROR_EXCEPTION: ...
    synStatus=8 [Device not found] Device acquire failed.
    E0301 10:20:30.123456 811 coordination_service_agent.cc:283] ... UNAVAILABLE: Task /job:jax_worker/task:3 ...

https://docs.nvidia.com/cuda/cuda-runtime-api (error handling), https://rocm.docs.amd.com, https://docs.habana.ai,
https://github.com/openxla/xla. Processes print them in C++ as well as in Python, in every state of mind.
"""

from __future__ import annotations

from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.faults.classes import class_of_text
from aftershock.parsers.training.faults.talk import speaks_of
from aftershock.parsers.training.rules import Match, Rule, Said
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 62

# Before what a task of JAX hears of the others, once all of them had started.
_POLLED: Final = b"Polling an error from the coordination service"


def _read(found: Match, said: Said) -> TrainingEvent | None:
    if speaks_of(said, found.start("error")):
        return None
    known = class_of_text(found["error"])
    if known is None:
        return None
    if known[0] == "rendezvous_failure" and _POLLED in said.message[: found.start("error")]:
        known = ("peer_exit", "symptom")  # the service was there, and is gone
    row = TrainingEvent(kind="error", error_class=known[0], error_role=known[1])
    row.error = text_of(found["error"]).strip()
    return row


def _read_lost_task(found: Match, said: Said) -> TrainingEvent | None:
    """A process ends because others did."""
    if said.prefix.level in ("I", "W", "INFO", "WARNING"):
        return None
    return TrainingEvent(
        kind="error", error_class="peer_exit", error_role="symptom", error=text_of(found["error"]).strip()
    )


RULES: Final = (
    Rule(
        words=(
            *(b"CUDA error: ", b"CUDA failure", b"Cuda failure", b"CUDA Error", b"HIP error: ", b"CUDA out of memory"),
            *(
                b"HIP out of memory",
                b"CUDA_ERROR_",
                b"cudaError",
                b"CUDA driver error: ",
                b"CUDA error ",
                b"Cuda error ",
            ),
            *(b"CUDA runtime error", b"cuda runtime error", b"CUDA Runtime Error"),
        ),
        scan=(
            *(b"CUDA error: ", b"CUDA failure", b"Cuda failure", b"CUDA Error", b"HIP error: ", b"CUDA out of memory"),
            *(b"HIP out of memory", b"CUDA_ERROR_", b"cudaErrorECC", b"cudaErrorIllegal", b"cudaErrorLaunch"),
            *(b"CUDA error ", b"Cuda error ", b"CUDA runtime error", b"cuda runtime error", b"CUDA Runtime Error"),
            b"CUDA driver error: ",
        ),
        shape=later(
            rb"(?<![\w'\"`])(?P<error>(?:CUDA|HIP|Cuda|cuda) (?:driver |[Rr]untime )?"
            rb"(?:[Ee]rror(?=:| (?:\d|at\b|in\b|[(/]))|failure\b|out of memory\b)[^\r\n]{1,600}"
            rb"|CUDA_ERROR_[A-Z_]{4,40}\b[^\r\n]{0,400}|cudaError[A-Z]\w{3,40}\b(?!\.(?:\s|\Z))[^\r\n]{0,400})"
        ),
        row=_read,
        only="fault",
    ),
    Rule(
        words=(b": Assertion `", b"] Assertion `"),
        scan=(b"], thread: [",),
        shape=later(rb"(?P<error>block: \[[\d,]{5,40}\], thread: \[[\d,]{5,40}\] Assertion `[^\r\n]{1,300}failed)"),
        row=_read,
        only="fault",
    ),
    Rule(
        words=(b"Memory access fault by GPU", b"HSA_STATUS_ERROR", b"HW Exception by GPU node"),
        shape=later(
            rb"(?P<error>(?:Memory access fault by GPU|HW Exception by GPU node|HSA_STATUS_ERROR_)[^\r\n]{1,400})"
        ),
        row=_read,
        only="fault",
    ),
    Rule(
        words=(b"synStatus", b"Synapse detected a device critical error"),
        scan=(b"synStatus=", b"synStatus ", b"Synapse detected a device critical error"),
        shape=later(
            rb"(?P<error>(?:synStatus ?=?[^\r\n]{1,300}|Synapse detected a device critical error[^\r\n]{0,300}))"
        ),
        row=_read,
        only="fault",
    ),
    Rule(
        words=(b"RESOURCE_EXHAUSTED: ", b"INTERNAL: ", b"UNAVAILABLE: ", b"DEADLINE_EXCEEDED: "),
        shape=later(rb"(?P<error>(?:RESOURCE_EXHAUSTED|INTERNAL|UNAVAILABLE|DEADLINE_EXCEEDED): [^\r\n]{1,600})"),
        row=_read,
        only="fault",
        tells=False,
    ),
    Rule(
        words=(b"JAX distributed service detected fatal errors", b"another task died; see the other task logs"),
        shape=later(
            rb"(?P<error>Terminating process because the (?:JAX distributed|coordination) service [^\r\n]{1,400})"
        ),
        row=_read_lost_task,
        only="fault",
    ),
)

SAMPLES: Final = (
    Sample(
        "terminate called after throwing an instance of 'c10::Error'\n"
        "  what():  CUDA error: an illegal memory access was encountered\n",
        (expect("training_events", error_class="cuda_kernel_fault", error_role="root"),),
        title="CUDA, of C++",
    ),
    Sample(
        "RuntimeError: cuda runtime error (59) : device-side assert triggered at /pytorch/aten/src/THC/Tensor.cu:26\n",
        (expect("training_events", error_class="cuda_kernel_fault", error_role="root"),),
        title="CUDA, of early PyTorch",
    ),
    Sample(
        "Failed: Cuda error /src/common.cu:890 'an illegal memory access was encountered'\n",
        (expect("training_events", error_class="cuda_kernel_fault", error_role="root"),),
        title="CUDA, of a test of NCCL",
    ),
    Sample(
        "Memory access fault by GPU node-4 (Agent handle: 0x55d0c7) on address 0x7f0000. Reason: Unknown.\n",
        (expect("training_events", error_class="cuda_kernel_fault", error_role="root"),),
        title="ROCm",
    ),
    Sample(
        "jaxlib.xla_extension.XlaRuntimeError: UNAVAILABLE: Task /job:jax_worker/replica:0/task:3 heartbeat timeout. "
        "This "
        "indicates that the remote task has failed, got preempted, or crashed unexpectedly.\n",
        (expect("training_events", error_class="peer_exit", error_role="symptom"),),
        title="JAX",
    ),
    Sample(
        "RuntimeError: synStatus=8 [Device not found] Device acquire failed. No devices found.\n",
        (expect("training_events", error_class="gpu_fallen_off_bus", error_role="root"),),
        title="Gaudi",
    ),
)

NON_SAMPLES: Final = (
    "CUDA error checks are on; an illegal memory access is fatal\n",
    "a line that is too long -> a write out of bounds -> cudaErrorIllegalAddress.\n",
    "2. **CUDA out of memory**: take less data\n",
    "see CUDA error: codes in the manual\n",
    "    raise RuntimeError('CUDA error: out of memory')\n",
    "retry on CUDA_ERROR_OUT_OF_MEMORY: yes\n",
)
