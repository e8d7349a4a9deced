"""Successful runs of training with much that looks like errors: no line of them is the cause of anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tests.parsers.training.labelled import Labelled
from tests.parsers.training.reading import megatron

_DONE: Final = "[after training is done] datetime: 2026-03-01 11:00:00 "


def _steps(first: int = 1, last: int = 12, stamped: bool = True) -> Iterator[str]:
    for step in range(first, last + 1):
        yield megatron(step, stamp=f"2026-03-01 10:{step:02}:00.000000" if stamped else "")


def _traceback(error: str, before: str = "") -> list[str]:
    frames = ["Traceback (most recent call last):", '  File "/app/train.py", line 12, in step', "    self.run()", error]
    return [before, *frames] if before else frames


NOISE: Final[dict[str, tuple[str, ...]]] = {
    "nccl": tuple(
        f"gpu017:811:{number} [4] misc/socket.cc:538 NCCL WARN Net : Connection closed by remote peer gpu018<{number}>"
        for number in range(1200)
    ),
    "async_event": ("gpu017:811:812 [0] transport/net_ib.cc:94 NCCL WARN NET/IB : Got async event : GID table change",),
    "srun_auxiliary": (
        "srun: error: node015: task 0: Exited with exit code 1",
        "slurmstepd: error: NVML: Unknown Error",
    ),
    "logged": tuple(
        _traceback(
            "ConnectionError: no route to the tracker", "2026-03-01 10:20:30,123 - tracker - ERROR - upload failed"
        )
    ),
    "warned": tuple(_traceback("KeyError: 'cache'", "2026-03-01 10:20:30,123 - cache - WARNING - cold cache")),
    "destructor": (
        "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f2a11b2c700>",
        *_traceback("AssertionError: can only test a child process"),
    ),
    "retries": (
        "OSError: [Errno 5] Input/output error: '/data/x', retrying in 5 s",
        "requests.exceptions.ConnectionError: ('Connection aborted.'), retry 1/5",
        "wandb: Network error (ConnectionError), entering retry loop.",
    ),
    "configuration": (
        "  on_error: RuntimeError",
        "  exceptions: ['CUDA out of memory', 'NCCL error']",
        "{'retry_on': 'torch.OutOfMemoryError: CUDA out of memory', 'oom_kill': False}",
        "Namespace(fault='RuntimeError: CUDA error: an illegal memory access was encountered', lr=0.1)",
    ),
    "arguments": (
        "+ python train.py --on-failure 'FileNotFoundError: skip' --simulate 'Segmentation fault (core dumped)'",
        "usage: train.py [-h] [--raise-on {ValueError,RuntimeError}]",
        "  --check-oom           fail with RuntimeError: CUDA out of memory when memory is short",
    ),
    "pip": (
        "  error: subprocess-exited-with-error",
        "  × python setup.py egg_info did not run successfully.",
        "  ╰─> [7 lines of output]",
        *(f"      {line}" for line in _traceback("ModuleNotFoundError: No module named 'torch'")),
        "      [end of output]",
        "ERROR: pip's dependency resolver does not currently take into account all the packages that are installed.",
    ),
    "prose": (
        "If you see CUDA error: out of memory, lower the batch size.",
        "Known issues: NCCL timeouts may be caused by Segmentation fault in old drivers.",
        "Docs: RuntimeError and FileNotFoundError are raised when the file is not there.",
    ),
    "overflows": tuple(
        f"[2026-03-01 10:20:{number:02},123] [INFO] [loss_scaler.py:188:update_scale] [deepspeed] OVERFLOW! Rank 0 "
        "Skipping step. Attempted loss scale: 64, reducing to 32"
        for number in range(12)
    ),
    "caught": tuple(_traceback("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.")),
    "cleaner": (
        "(PlacementGroupCleaner pid=9) Failed to query Ray Train Controller actor state. State API may be temporarily "
        "unavailable. Continuing to monitor.",
    ),
    "jax_wait": (
        "W0301 10:20:30.123456 811 rendezvous.cc:31] This thread has been waiting for `all-reduce` for 10 seconds and may "
        "be stuck.",
    ),
    "nan_step": (megatron(13, lm_loss="", grad_norm="nan"), megatron(14), megatron(15)),
    "teardown": (
        "W0301 11:00:01.210000 811 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 812 closing "
        "signal SIGTERM",
        "[rank0]:[W301 11:00:01.033625188 ProcessGroupNCCL.cpp:1538] Warning: WARNING: destroy_process_group() was not "
        "called before program exit, which can leak resources.",
    ),
    "languages": (
        "错误: 没有那个文件或目录 (已忽略)",
        "エラーではありません: 警告のみ",
        "Fehler: keiner; Datei nicht gefunden wird übergangen",
    ),
    "gpu_names": ("GPU 0: NVIDIA H100 80GB HBM3 (ECC error count: 0)", "Volatile Uncorr. ECC errors : 0"),
    "requeue_text": ("SLURM auto-requeueing enabled. Setting signal handlers.", "max_restarts : 3, restart on SIGKILL"),
    "spikes": (
        "2026-03-01 10:06:30,123: rank0[2000][MainThread]: INFO: llmfoundry.callbacks.kill_loss_spike_callback: Potential "
        "loss spike detected. Iteration: 1",
        "2026-03-01 10:06:31,123: rank0[2000][MainThread]: INFO: llmfoundry.callbacks.kill_loss_spike_callback: High "
        "losses detected: 60/100 losses above 10.",
        "Unexpected result 12.5 on rank 3 at iteration #7 invocation #1 (message='Spiky loss')",
        "Continuing normal execution because failed validation was not fatal",
        "Loss spike detected for 5 steps. Try lowering the learning rate.",
    ),
    "stragglers": (
        "STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected ranks: {StragglerId(rank=3, "
        "node='gpu017')}",
        "  Rank=3 Node=gpu017 Score=0.52",
        "[2026-03-01 10:06:30,123] [WARNING] [training.py:2199:run] This node is a straggler!",
        "INFO:megatron.core.utils:[2026-03-01 10:06:30] | MnRtt/Rnk: 110.20ms/2 | MxRtt/Rnk: 180.55ms/3 | MnEtpt/Rnk: "
        "98.20TF/3 | MxEtpt/Rnk: 160.95TF/2",
    ),
}

# How a run that succeeded says so: in the words of its trainer, or by going on to its last step.
_ENDS: Final[tuple[Callable[[list[str]], list[str]], ...]] = (
    lambda noise: [*_steps(1, 6), *noise, *_steps(7, 16), _DONE],
    lambda noise: [*noise, *_steps(1, 16), _DONE],
    lambda noise: [*_steps(1, 16), _DONE, *noise],
)


def successful_runs() -> list[Labelled]:
    """Every kind of noise before, amid or behind the steps of a run that ends well, as its kind may stand there."""
    logs = []
    for number, (name, noise) in enumerate(NOISE.items()):
        build = _ENDS[2 if name == "nccl" else number % 2]
        logs.append(Labelled(f"success-{name}", None, "\n".join(build(list(noise))) + "\n"))
    return logs


def unfinished_runs() -> list[Labelled]:
    """The same noise in logs that break off while the run goes well."""
    return [
        Labelled(f"running-{name}", None, "\n".join([*_steps(1, 6), *noise, *_steps(16, 25)]) + "\n")
        for name, noise in NOISE.items()
    ]
