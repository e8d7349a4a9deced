"""Steps as trainers print them: for each trainer a function that writes one, with numbers as real ones change."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from typing import Final

BATCH: Final = 256
TOTAL: Final = 5_000_000

Line = Callable[[random.Random, int, dt.datetime, float], str]
"""The text of a step: of its number, when it was printed, and how many milliseconds it took."""


def _loss(rng: random.Random) -> float:
    return 2 + rng.random() / 3


def _norm(rng: random.Random) -> float:
    return 0.3 + rng.random() / 3


def _rate(step: int) -> float:
    return 1.5e-4 * (1 - step / TOTAL)


def megatron(rng: random.Random, step: int, moment: dt.datetime, ms: float) -> str:
    """Megatron-LM."""
    return (
        f" [{moment:%Y-%m-%d %H:%M:%S.%f}] iteration {step:8d}/ {TOTAL} | consumed samples: {step * BATCH:12d} | "
        f"elapsed time per iteration (ms): {ms:.1f} | throughput per GPU (TFLOP/s/GPU): {480000 / ms:.1f} | "
        f"learning rate: {_rate(step):.6E} | global batch size: {BATCH:5d} | "
        f"lm loss: {_loss(rng):.6E} | loss scale: 1.0 | grad norm: {_norm(rng):.3f} | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )


def megatron_deepspeed(rng: random.Random, step: int, _moment: dt.datetime, ms: float) -> str:
    """Megatron-DeepSpeed of BLOOM."""
    return (
        f" iteration {step:8d}/ {TOTAL:7d} | consumed samples: {step * BATCH:12d} | consumed tokens: "
        f"{step * BATCH * 2048:12d} | elapsed time per iteration (s): {ms / 1000:.2f} | learning rate: "
        f"{_rate(step):.3E} | global batch size: {BATCH:5d} | lm loss: {_loss(rng):.6E} | grad norm: {_norm(rng):.3f} "
        f"| num zeros: 0.0 | number of skipped iterations:   0 | number of nan iterations:   0 | samples per second: "
        f"{BATCH * 1000 / ms:.3f} | TFLOPs: {180000 / ms:.2f} |\n"
    )


def neox(rng: random.Random, step: int, _moment: dt.datetime, ms: float) -> str:
    """gpt-neox."""
    return (
        f" samples/sec: {BATCH * 1000 / ms:.3f} | iteration {step:8d}/{TOTAL:8d} | elapsed time per iteration (ms): "
        f"{ms:.1f} | learning rate: {_rate(step):.3E} | approx flops per GPU: {130000 / ms:.1f}TFLOPS | lm_loss: "
        f"{_loss(rng):.6E} | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )


def torchtitan(rng: random.Random, step: int, moment: dt.datetime, ms: float) -> str:
    """torchtitan."""
    return (
        f"[rank0]:[titan] {_comma(moment)} - root - INFO - step: {step:2d}  loss: {_loss(rng):8.5f}  grad_norm: "
        f"{_norm(rng):7.4f}  memory: 66.91GiB(37.51%)  tps: {round(12e6 / ms):,}  tflops: {380000 / ms:.2f}  mfu: "
        f"{17000 / ms:.2f}%\n"
    )


def torchtitan_colours(rng: random.Random, step: int, moment: dt.datetime, ms: float) -> str:
    """torchtitan on a terminal."""
    return (
        f"[rank0]:[titan] {_comma(moment)} - root - INFO - \x1b[31mstep: {step:2d}  \x1b[32mloss: {_loss(rng):8.5f}  "
        f"\x1b[38;2;180;60;0mgrad_norm: {_norm(rng):7.4f}  \x1b[36mmemory: 66.91GiB(37.51%)  \x1b[34mtps: "
        f"{round(12e6 / ms):,}  \x1b[35mtflops: {380000 / ms:.2f}  mfu: {17000 / ms:.2f}%\x1b[39m\n"
    )


def hugging_face(rng: random.Random, step: int, _moment: dt.datetime, _ms: float) -> str:
    """Hugging Face Trainer, without bars."""
    return (
        f"{{'loss': {_loss(rng):.4f}, 'grad_norm': {_norm(rng)!r}, 'learning_rate': {_rate(step)!r}, "
        f"'epoch': {step / 40_000:.2f}}}\n"
    )


def nemo(rng: random.Random, step: int, _moment: dt.datetime, ms: float) -> str:
    """NeMo."""
    return (
        f"Training epoch 0, iteration {step}/{TOTAL - 1} | lr: {_rate(step):.4g} | global_batch_size: {BATCH} | "
        f"global_step: {step} | reduced_train_loss: {_loss(rng):.4g} | train_step_timing in s: {ms / 1000:.4g} | "
        f"consumed_samples: {step * BATCH}\n"
    )


def maxtext(rng: random.Random, step: int, _moment: dt.datetime, ms: float) -> str:
    """MaxText."""
    return (
        f"completed step: {step}, seconds: {ms / 1000:.3f}, TFLOP/s/device: {180000 / ms:.3f}, Tokens/s/device: "
        f"{5e6 / ms:.3f}, total_weights: 65536, loss: {_loss(rng):.3f}\n"
    )


def deepspeed(rng: random.Random, step: int, moment: dt.datetime, ms: float) -> str:
    """DeepSpeed, three lines a step."""
    rate = _rate(step)
    return (
        f"[{_comma(moment)}] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped=0, lr=[{rate}, {rate}], "
        f"mom=[(0.9, 0.95), (0.9, 0.95)]\n"
        f"[{_comma(moment)}] [INFO] [timer.py:260:stop] epoch=0/micro_step={step}/global_step={step}, "
        f"RunningAvgSamplesPerSec={BATCH * 1000 / ms}, CurrSamplesPerSec={BATCH * 1001 / ms}, MemAllocated=10.1GB, "
        f"MaxMemAllocated=20.2GB\n"
        f"steps: {step} loss: {_loss(rng):.4f} iter time (s): {ms / 1000:.3f} samples/sec: {BATCH * 1000 / ms:.3f}\n"
    )


def json_lines(rng: random.Random, step: int, moment: dt.datetime, ms: float) -> str:
    """A script of one's own."""
    return (
        f'{{"step": {step}, "loss": {_loss(rng)}, "lr": {_rate(step)}, "grad_norm": {_norm(rng)}, "step_time": '
        f'{ms / 1000:.4f}, "timestamp": "{moment:%Y-%m-%dT%H:%M:%S}Z"}}\n'
    )


def mlperf(rng: random.Random, step: int, moment: dt.datetime, ms: float) -> str:
    """MLPerf."""
    millis = int(moment.replace(tzinfo=dt.timezone.utc).timestamp() * 1000)
    return (
        f'0: :::MLLOG {{"namespace": "", "time_ms": {millis}, "event_type": "POINT_IN_TIME", "key": "tracked_stats", '
        f'"value": {{"train_loss": {_loss(rng)}, "train_step_time": {ms / 1000}}}, "metadata": {{"file": '
        f'"/w/calls.py", "lineno": 161, "samples_count": {step * BATCH}}}}}\n'
    )


def fairseq(rng: random.Random, step: int, moment: dt.datetime, ms: float) -> str:
    """fairseq."""
    loss = _loss(rng)
    return (
        f"{moment:%Y-%m-%d %H:%M:%S} | INFO | train_inner | epoch 001: {step:6d} / {TOTAL} loss={loss:.3f}, "
        f"nll_loss={loss - 0.1:.3f}, ppl={2**loss:.2f}, wps={8e7 / ms:.1f}, ups={1000 / ms:.2f}, wpb=65536, bsz=128, "
        f"num_updates={step}, lr={_rate(step):.6g}, gnorm={_norm(rng):.3f}, loss_scale=128, train_wall=80, "
        f"gb_free=20.1, wall={step}\n"
    )


def nanogpt(rng: random.Random, step: int, _moment: dt.datetime, ms: float) -> str:
    """nanoGPT."""
    return f"iter {step}: loss {_loss(rng):.4f}, time {ms:.2f}ms, mfu {40000 / ms:.2f}%\n"


def verl(rng: random.Random, step: int, _moment: dt.datetime, ms: float) -> str:
    """verl, under Ray."""
    return (
        f"(TaskRunner pid=77) step:{step} - actor/entropy:{_norm(rng)} - actor/pg_loss:{_loss(rng)} - "
        f"actor/grad_norm:{_norm(rng)} - actor/lr:{_rate(step)} - timing_s/step:{ms / 1000} - "
        f"perf/throughput:{1e6 / ms}\n"
    )


def composer(rng: random.Random, step: int, _moment: dt.datetime, ms: float) -> str:
    """Composer, a line for each value."""
    return (
        f"[batch={step}/{TOTAL}]:\n\t Train time/batch: {step - 1}\n\t Train time/sample: {step * BATCH}\n"
        f"\t Train loss/train/total: {_loss(rng):.4f}\n\t Train throughput/batches_per_sec: {1000 / ms:.4f}\n"
        f"\t Train lr-DecoupledAdamW/group0: {_rate(step):.4e}\n"
    )


def olmo(rng: random.Random, step: int, moment: dt.datetime, ms: float) -> str:
    """OLMo, a line for each value."""
    loss = _loss(rng)
    return (
        f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}\thost-1:0\tolmo.train:908\tINFO\t"
        f"[step={step}/{TOTAL},epoch=0]\n    optim/total_grad_norm={_norm(rng):.4f}\n    train/CrossEntropyLoss="
        f"{loss:.3f}\n    train/Perplexity={2**loss:.3f}\n    throughput/total_tokens={step * BATCH * 2048:,}\n"
        f"    throughput/device/tokens_per_second={round(9e6 / ms):,}\n"
    )


def _comma(moment: dt.datetime) -> str:
    """A date and time as Python's logging prints it."""
    return f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}"


TRAINERS: Final[dict[str, Line]] = {
    line.__name__: line
    for line in (
        *(megatron, megatron_deepspeed, neox, torchtitan, torchtitan_colours, hugging_face, nemo, maxtext, deepspeed),
        *(json_lines, mlperf, fairseq, nanogpt, verl, composer, olmo),
    )
}
