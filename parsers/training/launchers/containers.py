"""Containers that do not start: pyxis and enroot, Docker and containerd, Kubernetes, as printed into the output.

    slurmstepd: error: pyxis: container start failed with error code: 1
    docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].
    Error: ImagePullBackOff
    Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error

https://github.com/NVIDIA/pyxis, https://github.com/NVIDIA/enroot, https://docs.docker.com. What nvidia-smi says at the
start of a job stands here too.
"""

from __future__ import annotations

from typing import Final

from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.faults.talk import speaks_of
from aftershock.parsers.training.marks import CONFIRMED
from aftershock.parsers.training.rules import Match, Rule, Said, error
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 24

_CONTAINER: Final = error("launcher_or_container")
_MEMORY: Final = error("host_oom")
_LOST: Final = error("gpu_fallen_off_bus")
_ENVIRONMENT: Final = error("user_environment")


def _read(found: Match, said: Said) -> TrainingEvent | None:
    return None if speaks_of(said, found.start("error")) else _CONTAINER(found, said)


def _read_memory(found: Match, said: Said) -> TrainingEvent | None:
    return None if speaks_of(said, found.start("error")) else _MEMORY(found, said)


def _read_lost(found: Match, said: Said) -> TrainingEvent | None:
    return None if speaks_of(said, found.start("error")) else _LOST(found, said)


def _read_mismatch(found: Match, said: Said) -> TrainingEvent | None:
    return None if speaks_of(said, found.start("error")) else _ENVIRONMENT(found, said)


RULES: Final = (
    Rule(
        words=(b"pyxis: ", b"[ERROR] ", b"enroot"),
        scan=(b"pyxis: ", b"enroot-"),
        shape=later(
            rb"(?P<error>pyxis: [^\r\n]{0,200}(?:failed|error|couldn't|[Ee]xit code|ERROR)[^\r\n]{0,200}"
            rb"|enroot-\w{1,20}: [^\r\n]{0,200}(?:failed|error|[Cc]ould not|No such)[^\r\n]{0,200})"
        ),
        row=_read,
        only="slurm",
    ),
    Rule(
        words=(
            *(b"Error response from daemon: ", b"ImagePullBackOff", b"ErrImagePull", b"nvidia-container-cli: "),
            *(b"OCI runtime create failed", b"failed to create containerd task", b"CreateContainerError"),
        ),
        shape=later(
            rb"(?P<error>(?:docker: |podman: )?Error response from daemon: [^\r\n]{1,300}|nvidia-container-cli: [a-z "
            rb"]{1,40} err"
            rb"or: [^\r\n]{1,200}|(?:failed to create containerd task|OCI runtime create failed)[^\r\n]{0,300}"
            rb"|(?:Err)?ImagePull(?:BackOff)?\b[^\r\n]{0,200}|CreateContainerError[^\r\n]{0,200})"
        ),
        row=_read,
        only="slurm",
    ),
    Rule(
        words=(b"OOMKilled",),
        shape=later(rb"(?P<error>\b(?:[Rr]eason|[Ss]tate|[Ss]tatus)\W{1,4}OOMKilled\b[^\r\n]{0,120})"),
        row=_read_memory,
        mark=CONFIRMED,
        only="slurm",
    ),
    Rule(
        words=(b" replica(s) failed",),
        shape=later(
            rb"(?P<error>\w{2,20}[Jj]ob \S{1,120} is (?:failed|restarting) because \d{1,6} \w{1,20} replica\(s\) "
            rb"failed)"
        ),
        row=error("unknown", "symptom", kind="exit"),
        only="slurm",
    ),
    Rule(
        words=(b"Unable to determine the device handle for", b"GPU is lost.  Reboot the system"),
        shape=later(
            rb"(?P<error>Unable to determine the device handle for[^\r\n]{0,200}|[^\r\n]{0,120}GPU is lost\.  Reboot "
            rb"the system)"
        ),
        row=_read_lost,
        only="slurm",
    ),
    Rule(
        words=(b"Failed to initialize NVML: Driver/library version mismatch",),
        shape=later(rb"\A(?P<error>Failed to initialize NVML: Driver/library version mismatch)"),
        row=_read_mismatch,
        only="slurm",
    ),
)

SAMPLES: Final = (
    Sample(
        "container trainer terminated: reason: OOMKilled, exit code: 137\n",
        (expect("training_events", error_class="host_oom", error_role="root"),),
        title="Kubernetes: memory",
    ),
    Sample(
        "PyTorchJob train-7b is failed because 1 Worker replica(s) failed.\n",
        (expect("training_events", kind="exit", error_class="unknown", error_role="symptom"),),
        title="Kubeflow",
    ),
    Sample(
        "slurmstepd: error: pyxis: container start failed with error code: 1\n",
        (expect("training_events", error_class="launcher_or_container", error_role="root"),),
        title="pyxis",
    ),
    Sample(
        "Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error\n",
        (expect("training_events", error_class="gpu_fallen_off_bus", error_role="root"),),
        title="nvidia-smi without a GPU",
    ),
)

NON_SAMPLES: Final = ("pyxis: imported docker image: docker://pytorch\n", "the pod waits in ImagePullBackOffice\n")
