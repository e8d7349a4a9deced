"""What shells say of the commands that they ran: signals, commands that are not there, exit statuses.

    bash: line 12:   811 Killed                  python train.py
    /app/run.sh: line 12: 811 Segmentation fault      (core dumped) python train.py
    bash: torchrun: command not found
    exit 137

https://www.gnu.org/software/bash/manual. A process that was killed (137, -9) may have been killed for its memory, or by
anybody: nothing is known from it alone.
"""

from __future__ import annotations

from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.faults.talk import speaks_of
from aftershock.parsers.training.launchers.exits import role_of_exit
from aftershock.parsers.training.marks import ENDED
from aftershock.parsers.training.rules import Match, Rule, Said, Told, error, whole
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 34

_CODES: Final = {
    b"Killed": 137,
    b"Segmentation fault": 139,
    b"Bus error": 135,
    b"Illegal instruction": 132,
    b"Floating point exception": 136,
    b"Aborted": 134,
    b"Terminated": 143,
}


def _read_signal(found: Match, said: Said) -> Told | None:
    if speaks_of(said, found.start("error")):
        return None
    error_class, role = role_of_exit(_CODES[found["how"]])
    row = TrainingEvent(kind="exit", error_class=error_class, error_role=role, error=text_of(found["error"]).strip())
    return Told(row, None, ENDED)


def _read_status(found: Match, said: Said) -> Told | None:
    code = whole(found["code"])
    if not code:
        return None
    # A script that shows itself, or is taken for a log: its ``exit 1`` is a command, mostly within a branch.
    if found["error"].startswith(b"exit ") and (code < 128 or said.line.text[:1].isspace()):
        return None
    error_class, role = role_of_exit(code)
    row = TrainingEvent(kind="exit", error_class=error_class, error_role=role, error=text_of(found["error"]))
    return Told(row, None, ENDED)


def _read_command(found: Match, said: Said) -> TrainingEvent | None:
    if speaks_of(said):
        return None
    names = ("user_environment", "user_data_path", "user_permission", "user_config")
    groups = (found["command"], found["path"], found["closed"], found["unset"])
    return error(next(name for name, group in zip(names, groups, strict=True) if group))(found, said)


_HOW: Final = (
    rb"(?P<how>Killed|Segmentation fault|Bus error|Illegal instruction|Floating point exception|Aborted|Terminated)"
)

RULES: Final = (
    Rule(
        words=tuple(_CODES),
        scan=(b": line ", b"(core dumped)", b"Killed\n"),
        shape=later(
            rb"\A(?P<error>(?:[\w./-]{1,200}: line \d{1,7}:\s{0,8}\d{1,9}\s{1,8}" + _HOW + rb"\b[^\r\n]{0,300}))"
        ),
        row=_read_signal,
        only="slurm",
        tells=False,
    ),
    Rule(
        words=(b"Killed", b"(core dumped)"),
        scan=(b"Killed\n", b"(core dumped)"),
        shape=later(
            rb"\A(?P<error>" + _HOW + rb"(?:\s{1,8}\(core dumped\))?)(?:\s{2,}[\w./-]{1,100}[^\r\n]{0,200})?\s*\Z"
        ),
        row=_read_signal,
        only="slurm",
        tells=False,
    ),
    Rule(
        words=(b"exit ", b"exit code", b"exited with"),
        scan=(b"exit 1", b"exit code 1", b"exit code: 1", b"exit status 1", b"exited with code 1"),
        shape=later(
            rb"\A(?P<error>(?:[Ee]xit|(?:[Cc]ommand |[Pp]rocess |[Tt]raining )?[Ee]xited with(?: exit)? (?:code|status)"
            rb"|command terminated with exit code|[Ee]xit (?:code|status)):?\s(?P<code>1\d\d|\d{1,2}))\s*\Z"
        ),
        row=_read_status,
        only="slurm",
        tells=False,
    ),
    Rule(
        words=(
            b": command not found",
            b": No such file or directory",
            b": Permission denied",
            b": unbound variable",
            b": not found",
        ),
        scan=(
            b": command not found",
            b": No such file or dir",
            b": Permission denied",
            b": unbound variable",
            b": not found\n",
        ),
        shape=later(
            rb"\A(?P<error>(?:slurmstepd: error: execve\(\): [^\r\n:]{1,300}|(?:[\w./-]{0,60}\b(?:ba|z|da)?sh"
            rb"|/[\w./-]{1,200})(?: ?: line"
            rb" \d{1,7}|: \d{1,7})?: [^\r\n:]{1,300}): (?:(?P<command>(?:command )?not found)"
            rb"|(?P<path>No such file or directory)|(?P<closed>Permission denied)|(?P<unset>unbound variable)))"
        ),
        row=_read_command,
        only="slurm",
        tells=False,
    ),
)


SAMPLES: Final = (
    Sample(
        "bash: line 12:   811 Killed                  python train.py\n",
        (expect("training_events", kind="exit", error_class="unknown", error_role="symptom"),),
        title="A shell whose command was killed",
    ),
    Sample(
        "/app/run.sh: line 12: 811 Segmentation fault      (core dumped) python train.py\n",
        (expect("training_events", kind="exit", error_class="process_crash", error_role="root"),),
        title="A shell whose command crashed",
    ),
    Sample(
        "bash: line 3: torchrun: command not found\n",
        (expect("training_events", error_class="user_environment", error_role="root"),),
        title="A command that is not there",
    ),
)

NON_SAMPLES: Final = (
    "Killed processes are restarted by the pool\n",
    "echo: the line 12: 811 Killed\n",
    "exit 0\n",
    "exit 1\n",
    "    exit 137\n",
)
