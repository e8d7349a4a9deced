"""mpirun, mpiexec and prterun: which process ended first, and how.

    mpirun noticed that process rank 3 with PID 811 on node gpu017 exited on signal 9 (Killed).
    prterun noticed that process rank 3 with PID 811 on node gpu017 exited on signal 11 (Segmentation fault).
      Process name: [[26019,1],3]
      Exit code:    1
    =   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES

https://github.com/open-mpi/ompi, https://github.com/openpmix/prrte (help files of the runtime), https://www.mpich.org
(Hydra). The process that is named first may have been killed because of another one, like any first exit.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.launchers.exits import role_of_exit
from aftershock.parsers.training.marks import ENDED, FIRST_EXIT
from aftershock.parsers.training.rules import Match, Rule, Said, Told, error, whole
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 26

_NOTICED: Final = re.compile(
    rb"(?P<error>(?:mpi(?:run|exec)|prterun|orterun|prun) (?:noticed that process rank (?P<rank>\d{1,6}) with PID "
    rb"(?P<pid>\d{1,"
    rb"9}) on node (?P<node>[\w.-]{1,64}) exited on signal (?P<signal>\d{1,3})[^\r\n]{0,60}"
    rb"|has exited due to process rank (?P<rank2>\d{1,6}) with PID \d{1,10} on node (?P<node2>[\w.-]{1,64}) "
    rb"(?:exiting|calling)\b[^\r\n]{0,60}"
    rb"|detected that one or more processes exited with non-zero status))"
)
_NAME: Final = re.compile(rb"Process name: \[(?:\[\d{1,6},\d{1,6}\]|[\w.@-]{1,64}),\s?(?P<rank>\d{1,6})\]")
_CODE: Final = re.compile(rb"Exit code:\s{1,8}(?P<code>\d{1,3})")
_DAEMON: Final = re.compile(
    rb"Remote daemon ?: \[[^\]\n]{1,80}\] on node (?P<node>[\w.-]{1,64})|hostname: {1,4}(?P<node2>[\w.-]{1,64})"
)
_LOST: Final = error("node_failure", "symptom")
_HYDRA: Final = re.compile(
    rb"PID (?P<pid>\d{1,9}) RUNNING AT (?P<node>[\w.-]{1,64})|EXIT CODE: (?P<code>\d{1,3})|SIGNAL: (?P<signal>\d{1,3})"
)


def _read(found: Match, said: Said) -> Told:
    row = TrainingEvent(kind="exit", error=text_of(found["error"]))
    code: int | None
    if found["signal"]:
        code = -int(found["signal"])
        row.rank, row.host_raw = whole(found["rank"]), text_of(found["node"])
    elif found["rank2"]:  # it ended without a word to the others, or by a call
        code = None
        row.rank, row.host_raw = whole(found["rank2"]), text_of(found["node2"])
    else:
        below = said.rest[:1024]
        name, printed = _NAME.search(below), _CODE.search(below)
        row.rank = whole(name["rank"]) if name else None
        code = whole(printed["code"]) if printed else None
        row.error = f"{row.error}: exit code {code}" if code is not None else row.error
    row.error_class, row.error_role = role_of_exit(code)
    return Told(row, None, FIRST_EXIT)


def _read_hydra(_found: Match, said: Said) -> Told:
    values: dict[str, bytes] = {}
    for found in _HYDRA.finditer(said.rest[:1024]):
        values.update({name: value for name, value in found.groupdict().items() if value})
    code = -int(values["signal"]) if "signal" in values else whole(values.get("code"))
    row = TrainingEvent(kind="exit")
    # Hydra prints the number of a signal as an exit code below 32.
    row.error_class, row.error_role = role_of_exit(-code if code is not None and 2 < code < 32 else code)
    row.host_raw = text_of(values["node"]) if "node" in values else None
    row.error = f"bad termination of a process: exit code {code}"
    return Told(row, None, FIRST_EXIT)


def _read_lost(found: Match, said: Said) -> TrainingEvent:
    """A node whose daemon does not answer any more: its name stands below."""
    row = _LOST(found, said)
    node = _DAEMON.search(b"\n".join(text for text, _ in zip(said.below(), range(6), strict=False)))
    row.host_raw = text_of(node["node"] or node["node2"]) if node else None
    return row


RULES: Final = (
    Rule(
        words=(
            b" noticed that process rank ",
            b" has exited due to process rank ",
            b" detected that one or more processes exited with non-zero status",
        ),
        shape=_NOTICED,
        row=_read,
    ),
    Rule(
        words=(b"BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",),
        shape=later(rb"BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES"),
        row=_read_hydra,
    ),
    Rule(
        words=(b"MPI_ABORT was invoked on rank ",),
        shape=later(rb"(?P<error>MPI_ABORT was invoked on rank (?P<rank>\d{1,6}) in communicator[^\r\n]{0,200})"),
        row=error("unknown", "symptom", kind="exit"),
    ),
    Rule(
        words=(
            b"has lost communication with a remote daemon",
            b"has lost communication with its daemon",
            b"daemon failed to launch",
            b"lost communication with the",
        ),
        shape=later(
            rb"(?P<error>(?:ORTE|PRTE|[\w ]{1,40}) has lost communication with (?:a remote daemon|its daemon|the "
            rb"process)[^\r\n]{0,120})"
        ),
        row=_read_lost,
    ),
    Rule(
        words=(b"There are not enough slots available", b"built with SLURM's PMI support", b"was unable to launch"),
        shape=later(
            rb"(?P<error>There are not enough slots available in the system[^\r\n]{0,120}|OMPI was not built with "
            rb"SLURM's PMI sup"
            rb"port[^\r\n]{0,60}|(?:mpi(?:run|exec)|prterun) was unable to (?:find|launch) the specified[^\r\n]{0,120})"
        ),
        row=error("user_config"),
    ),
    Rule(
        words=(b"Primary job  terminated normally", b"Primary job terminated normally"),
        shape=later(
            rb"(?P<error>Primary job {1,2}terminated normally, but \d{1,6} process(?:es)? returned[^\r\n]{0,60})"
        ),
        row=error("teardown", "teardown", kind="exit"),
        mark=ENDED,
    ),
)

SAMPLES: Final = (
    Sample(
        "mpirun noticed that process rank 3 with PID 811 on node gpu017 exited on signal 9 (Killed).\n",
        (expect("training_events", kind="exit", rank=3, host="gpu017", error_class="unknown", error_role="symptom"),),
        title="mpirun",
    ),
    Sample(
        "prterun noticed that process rank 3 with PID 811 on node gpu017 exited on signal 11 (Segmentation fault).\n",
        (
            expect(
                "training_events", kind="exit", rank=3, host="gpu017", error_class="process_crash", error_role="root"
            ),
        ),
        title="prterun",
    ),
    Sample(
        "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
        "the job to be terminated. The first process to do so was:\n\n  Process name: [[26019,1],3]\n  Exit code:    "
        "1\n",
        (expect("training_events", kind="exit", rank=3, error_class="unknown", error_role="symptom"),),
        title="mpirun: an exit code",
    ),
    Sample(
        "prterun has exited due to process rank 2 with PID 811 on node gpu017 exiting\nimproperly. There are three "
        "reasons this could occur:\n",
        (expect("training_events", kind="exit", rank=2, host="gpu017", error_class="unknown", error_role="symptom"),),
        title="prterun: a process that ended without a word",
    ),
    Sample(
        "PRTE has lost communication with a remote daemon.\n\n  HNP daemon   : [prterun-gpu016-8@0,0] on node gpu016\n"
        "  Remote daemon: [prterun-gpu016-8@0,1] on node gpu017\n",
        (expect("training_events", error_class="node_failure", error_role="symptom", host="gpu017"),),
        title="A node that mpirun has lost",
    ),
)

NON_SAMPLES: Final = ("mpirun noticed nothing\n",)
