"""PyTorch Lightning and others that catch signals: requeues, graceful ends.

    Handling auto-requeue signal: 10
    Requeued SLURM job: 811
    [rank: 3] Received SIGTERM: 15
    Detected KeyboardInterrupt, attempting graceful shutdown ...

https://github.com/Lightning-AI/pytorch-lightning: trainer/connectors/signal_connector.py. A signal before the time
limit is how a job asks to go on later: the requeue is a link to the next attempt, and no failure.
"""

from __future__ import annotations

from typing import Final

from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.rules import Rule, error

ORDER: Final = 33

RULES: Final = (
    Rule(
        words=(b"Handling auto-requeue signal: ", b"Requeued SLURM job: "),
        shape=later(rb"\A(?P<error>(?:Handling auto-requeue signal: \d{1,3}|Requeued SLURM job: [\w.+]{1,40}))"),
        row=error("requeue", "symptom"),
    ),
    Rule(
        words=(b"Received SIGTERM: ", b"Bypassing SIGTERM: ", b"exiting program after receiving SIGTERM"),
        shape=later(rb"\A(?P<error>(?:Received|Bypassing) SIGTERM: \d{1,3})"),
        row=error("teardown", "teardown", kind="exit"),
    ),
    Rule(
        words=(b"Detected KeyboardInterrupt, attempting graceful shutdown",),
        shape=later(rb"\A(?P<error>Detected KeyboardInterrupt, attempting graceful shutdown)"),
        row=error("user_or_admin_cancel"),
        only="fault",
    ),
    Rule(
        words=(b"is preempted", b"has been preempted", b"interruption notice", b"preemption notice"),
        shape=later(
            rb"\A(?P<error>(?:(?:The |This )?(?:[Ww]orker group|[Nn]ode|[Jj]ob|[Ii]nstance)[^\r\n]{0,40} (?:is|has "
            rb"been)"
            rb" preempted|Received (?:an? )?(?:spot (?:instance )?interruption|preemption) notice)[^\r\n]{0,120})"
        ),
        row=error("preemption"),
        only="fault",
    ),
)

SAMPLES: Final = (
    Sample(
        "Handling auto-requeue signal: 10\nRequeued SLURM job: 811\n",
        (
            expect("training_events", error_class="requeue", error_role="symptom"),
            expect("training_events", error_class="requeue", error_role="symptom"),
        ),
        title="Lightning: a requeue",
    ),
    Sample(
        "[rank: 3] Received SIGTERM: 15\n",
        (expect("training_events", kind="exit", error_class="teardown", error_role="teardown", rank=3),),
        title="Lightning: a signal",
    ),
)

NON_SAMPLES: Final = ("SLURM auto-requeueing enabled. Setting signal handlers.\n",)
