"""What CUDA and HIP call their errors, in the words of cudaGetErrorString and hipGetErrorString, and what that means."""

from __future__ import annotations

import pytest

from tests.parsers.training.reading import events_of

CLASSES = {
    "cuda_kernel_fault": (
        *("invalid argument", "invalid configuration argument", "invalid resource handle", "invalid device context"),
        *("an illegal memory access was encountered", "unspecified launch failure", "misaligned address"),
        *(
            "operation not permitted when stream is capturing",
            "operation failed due to a previous error during capture",
        ),
        *(
            "OS call failed or operation not supported on this OS",
            "peer access is not supported between these two devices",
        ),
        *("context is destroyed", "device-side assert triggered", "hardware stack error", "operation not supported"),
        *("an async error has occured in external entity outside of CUDA", "file not found"),
    ),
    "gpu_memory_ecc": ("uncorrectable ECC error encountered",),
    "nvlink_fault": (
        "uncorrectable NVLink error detected during the execution",
        "Invalid access of peer GPU memory over nvlink or a hardware error",
    ),
    "gpu_fallen_off_bus": ("unknown error", "no CUDA-capable device is detected", "invalid device ordinal"),
    "gpu_unhealthy_suspect": (
        *("initialization error", "CUDA-capable device(s) is/are busy or unavailable", "system not yet initialized"),
        "exclusive-thread device already in use by a different thread",
    ),
    "user_gpu_oom": ("out of memory",),
    "user_environment": (
        *("device kernel image is invalid", "no kernel image is available for execution on the device"),
        *("a PTX JIT compilation failed", "PTX JIT compiler library not found", "invalid device function"),
        *("the provided PTX was compiled with an unsupported toolchain.", "CUDA driver is a stub library"),
        *("system has unsupported display driver / cuda driver combination", "named symbol not found"),
        *("forward compatibility was attempted on non supported HW", "shared object initialization failed"),
        "CUDA driver version is insufficient for CUDA runtime version",
        "MPS client failed to connect to the MPS control daemon or the MPS server",
    ),
}
WORDS = [(name, words) for name, several in CLASSES.items() for words in several]


@pytest.mark.parametrize(("error_class", "words"), WORDS)
@pytest.mark.parametrize("before", ["torch.AcceleratorError: CUDA error: ", "RuntimeError: HIP error: "])
def test_an_error_of_the_runtime_has_the_class_of_its_words(error_class: str, words: str, before: str) -> None:
    (event,) = events_of(f"{before}{words}\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n")
    assert (event.error_class, event.error_role) == (error_class, "root")


@pytest.mark.parametrize(("error_class", "words"), WORDS)
@pytest.mark.parametrize(
    "before", ["  what():  CUDA error: ", "CUDA driver error: ", "Failed: CUDA error /src/a.cu:8 '"]
)
def test_so_it_has_outside_of_python(error_class: str, words: str, before: str) -> None:
    (event,) = events_of(f"{before}{words}\n")
    assert event.error_class == error_class


def test_words_that_nobody_knows_are_an_error_of_the_gpu_all_the_same() -> None:
    (event,) = events_of("torch.AcceleratorError: CUDA error: words of a later release\n")
    assert (event.error_class, event.error_role) == ("cuda_kernel_fault", "root")


@pytest.mark.parametrize(
    ("line", "error_class"),
    [
        ("RuntimeError: Triton Error [CUDA]: invalid argument", "cuda_kernel_fault"),
        ("RuntimeError: Triton Error [CUDA]: device kernel image is invalid", "user_environment"),
        (
            "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorInvalidValue: invalid argument",
            "cuda_kernel_fault",
        ),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasGemmEx(...)`", "cuda_kernel_fault"),
    ],
)
def test_other_runtimes_on_the_gpu_say_it_in_their_way(line: str, error_class: str) -> None:
    (event,) = events_of(f"{line}\n")
    assert event.error_class == error_class


def test_a_process_that_ends_takes_its_driver_with_it() -> None:
    (event,) = events_of("RuntimeError: CUDA error: driver shutting down\n")
    assert (event.error_class, event.error_role) == ("teardown", "symptom")


@pytest.mark.parametrize(
    "line",
    [
        "CUDA error: codes are listed in the manual",
        "CUDA error checks for an invalid argument are on",
        "| `CUDA error: invalid argument` | a size that is too large |",
        "# CUDA error: invalid argument",
    ],
)
def test_who_speaks_of_an_error_has_none(line: str) -> None:
    assert not events_of(f"{line}\n")
