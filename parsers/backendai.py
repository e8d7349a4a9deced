"""Backend.AI: the logs of its manager and its agents, on the console and as JSON in a file.

    2026-03-02 07:08:09.123 WARNING ai.backend.manager.registry [2211] agent i-gpu012 heartbeat timeout detected.
    {"timestamp":"2026-03-01T22:08:09.123456Z","level":"INFO","name":"ai.backend.manager...","processName":"...",
     "message":"handle_session_started: ev:session_started s:5f0c..."}

The console prints local time without a zone, in colours on a terminal; with the format ``simple`` it prints only level
and message. The file has UTC. A traceback follows on lines of its own. The formats are in src/ai/backend/logging of
https://github.com/lablup/backend.ai, read here for releases 24.03 to 26.8. What is read:

- agents that joined, were lost, terminated, or restart for maintenance;
- sessions that the manager started, cancelled, or failed to start, and the agents on which it failed: the scheduler
  avoids those for that session for an hour (``hosts_failed``);
- kernels, the containers of a session, one on each agent: ``kernel_state``. One of them is no start or end of its
  session. They are named by their own id; only ``create_kernel(kernel:..., session:...)`` of the agent ties them to a
  session, within one log. Where nothing does, ``job_id`` is null and ``raw_job_id`` is the kernel.

Lines that only count (``Retried 3 stuck CREATING sessions``) name nobody and are not read. Lines of one start are put
together by :mod:`aftershock.parsers.backendai_joins`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import orjson

from aftershock.parsers.backendai_joins import settle
from aftershock.parsers.backendai_lines import ACCESS_KEY, BEGINNINGS, SHAPES
from aftershock.parsers.clock import NO_CLOCK, Reading, fraction_micros, wall_micros
from aftershock.parsers.documents.iso_clock import stated_time
from aftershock.parsers.envelopes.layer import clocks_together
from aftershock.parsers.formats import Found, Head, Line, LineFormat, Refused, Sample, expect

# Before the message. Compose puts the name of the service before that.
_CONSOLE: Final = re.compile(
    rb"""
    (?: [\w.-]{1,80} [ ]{0,40} \| [ ] )?
    (?P<stamp> (?P<year>\d{4}) - (?P<month>\d\d) - (?P<day>\d\d) [ ]
               (?P<hour>\d\d) : (?P<minute>\d\d) : (?P<second>\d\d) (?: [.,] (?P<fraction>\d{1,6}) )? )
    [ ] [A-Z]{4,8} [ ] ai\.backend\.[\w.]{1,200} [ ] \[ \d{1,10} \] [ ]
    """,
    re.VERBOSE,
)
_SIMPLE: Final = re.compile(rb"(?:TRACE|DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL) ")
_JSON_NAME: Final = re.compile(r"ai\.backend\.[\w.]{1,200}\Z")


def read(line: Line) -> Iterator[Found | Refused]:
    """The row of a line, if it is one of Backend.AI's own."""
    message, reading, certain = _unwrapped(line)
    if message is None:
        return
    for shape in SHAPES:
        match = shape.pattern.match(message)
        if match is None:
            continue
        if not certain and not (shape.own or _simple_agent(match)):
            return
        row = shape.make(match)
        if shape.mark == "start_failed":
            row.reason = _raised(line.following)
        row.message = ACCESS_KEY.sub("***", message)
        yield Found(row, reading, line.offset, shape.mark)
        return
    if certain and BEGINNINGS.match(message):
        excerpt = ACCESS_KEY.sub("***", message).encode("utf-8", "replace")[:512]
        yield Refused(line.offset, len(line.text), "backendai: the line breaks off, or is worded otherwise", excerpt)


def _simple_agent(match: re.Match[str]) -> bool:
    """Whether an agent has an id as they are by default: elsewhere, too, agents terminate."""
    return "agent" in match.re.groupindex and match["agent"].startswith("i-")


def _unwrapped(line: Line) -> tuple[str | None, Reading, bool]:
    """The message, its clock, and whether what stands before it names a logger of Backend.AI."""
    envelope = line.envelope
    # What is indented belongs to the line above it: a traceback quotes the code that printed a line like this.
    data = envelope.message.rstrip()
    if data.startswith(b"{"):
        return _from_json(data, envelope.reading)
    console = _CONSOLE.match(data)
    if console is not None:
        message = data[console.end() :].decode("utf-8", "backslashreplace")
        return message, clocks_together(envelope.reading, _console_reading(console)), True
    simple = _SIMPLE.match(data)
    if simple is None and envelope.names == ("plain",):
        return None, NO_CLOCK, False
    message = (data[simple.end() :] if simple else data).decode("utf-8", "backslashreplace")
    return message, envelope.reading, False


def _from_json(data: bytes, around: Reading) -> tuple[str | None, Reading, bool]:
    if b"ai.backend." not in data:
        return None, NO_CLOCK, False
    for text in (data, data.decode("utf-8", "replace")):
        try:
            entry = orjson.loads(text)
        except orjson.JSONDecodeError:
            continue
        name, message = entry.get("name"), entry.get("message")
        if not (isinstance(name, str) and isinstance(message, str) and _JSON_NAME.match(name)):
            return None, NO_CLOCK, False
        # A site's own configuration of the logger may print the local time of the console instead.
        stated = stated_time(entry.get("timestamp") or entry.get("asctime"))
        return message.strip(), clocks_together(around, stated), True
    return None, NO_CLOCK, False


def _console_reading(match: re.Match[bytes]) -> Reading:
    text = match["stamp"].decode("ascii")
    wall = wall_micros(*(int(match[part]) for part in ("year", "month", "day", "hour", "minute", "second")))
    if wall is None:
        return Reading(text=text)
    micros, resolution = fraction_micros(match["fraction"])
    return Reading("local", wall + micros, None, None, resolution, text)


_TRACEBACK: Final = b"Traceback (most recent call last):"
_RAISED: Final = re.compile(rb"[A-Za-z_][\w.]{0,200}(?:: .{0,400})?")


def _raised(following: bytes) -> str | None:
    """The exception at the end of the traceback that follows a line; of several that were chained the last."""
    if not following.lstrip(b"\r\n").startswith(_TRACEBACK):
        return None
    raised: bytes | None = None
    inside = True
    for text in following.strip(b"\r\n").split(b"\n"):
        said = text.rstrip(b"\r")
        if said.startswith(_TRACEBACK):
            inside = True
        elif inside and said[:1] not in (b" ", b"\t", b""):
            found = _RAISED.match(said)
            if found is None:
                break
            raised, inside = found.group(), False
        elif not inside and said.strip() and not said.startswith((b"During handling", b"The above exception")):
            break
    return None if raised is None else raised.decode("utf-8", "backslashreplace")


def detects(head: Head) -> float:
    """How much of the head was printed by a logger of Backend.AI."""
    lines = head.lines()
    own = sum(_CONSOLE.match(line) is not None or b'"name": "ai.backend.' in line for line in lines)
    own += sum(line.startswith(b"{") and b'"name":"ai.backend.' in line for line in lines)
    return 0.8 if lines and 2 * own >= len(lines) else 0.4 * bool(own)


def _entry(time: str, message: str) -> str:
    return (
        f'{{"timestamp": "2026-03-01T{time}Z", "level": "INFO", "name": "ai.backend.agent.agent", '
        f'"processName": "agent-0", "message": "{message}"}}\n'
    )


def _log(*lines: str) -> str:
    return "".join(f"2026-03-02 {line}\n" for line in lines)


_S1: Final = "6b1f0a52-93c4-4e6d-8a17-0f2d9c55e101"
_S2: Final = "6b1f0a52-93c4-4e6d-8a17-0f2d9c55e102"
_K1: Final = "d04c7e9a-1b2f-4f0e-9d61-7700aa31c201"
_OF_S1: Final = f"start-session(s:{_S1}, type:batch, name:llm-7b, ak:AKIAQ2WVX7NEXAMPLE00, cluster_mode:multi-node): "

_SAMPLES: Final = (
    Sample(
        _log(
            "07:08:09.123 INFO ai.backend.manager.event_dispatcher.handlers.agent [2211] instance_lifecycle: "
            "ag:i-gpu012 joined (via event, self-started)",
            f"07:10:00.000 INFO ai.backend.manager.sokovan.scheduler.launcher.launcher [2211] {_OF_S1}started",
            "07:11:30.500 INFO ai.backend.manager.event_dispatcher.handlers.session [2211] handle_session_started: "
            f"ev:session_started s:{_S1}",
            "08:00:00.250 WARNING ai.backend.manager.repositories.agent.db_source.db_source [2211] agent i-gpu012 "
            "heartbeat timeout detected.",
            "08:30:00.250 INFO ai.backend.manager.event_dispatcher.handlers.agent [2211] agent@i-gpu031 restarting for "
            "maintenance.",
        ),
        (
            expect("scheduler_events", kind="node_up", host="i-gpu012", reason="self-started", state="ALIVE"),
            expect("scheduler_events", kind="launching", job_id=_S1),
            expect("scheduler_events", kind="started", job_id=_S1, raw_job_id=_S1, scheduler="backendai"),
            expect("scheduler_events", kind="node_down", host="i-gpu012", hosts=["i-gpu012"], state="LOST"),
            expect("scheduler_events", kind="node_state", host="i-gpu031", state="RESTARTING"),
        ),
    ),
    # A start that failed on one agent, and one that failed altogether.
    Sample(
        _log(
            "07:10:00.000 WARNING ai.backend.manager.sokovan.scheduler.launcher.launcher [2211] "
            f"{_OF_S1}recording failed agents: ['i-gpu012', 'i-gpu031']",
            f"07:10:00.002 INFO ai.backend.manager.sokovan.scheduler.launcher.launcher [2211] {_OF_S1}started",
            "07:12:00.000 WARNING ai.backend.manager.sokovan.scheduler.launcher.launcher [2211] "
            f"{_OF_S1.replace(_S1, _S2)}failed-starting",
        )
        + "Traceback (most recent call last):\n"
        '  File "/opt/backend.ai/launcher.py", line 421, in _start_single_session\n'
        "    raise ValueError(image)\n"
        "ValueError: image not found\n",
        (
            expect("scheduler_events", kind="hosts_failed", job_id=_S1, hosts=["i-gpu012", "i-gpu031"]),
            expect("scheduler_events", kind="launching", job_id=_S1),
            expect("scheduler_events", kind="start_failed", job_id=_S2, reason="ValueError: image not found"),
        ),
    ),
    # JSON of an agent; of two kernels one is known to belong to a session.
    Sample(
        '{"asctime": "2026-03-02 08:00:00,250", "levelname": "WARNING", "name": "ai.backend.manager.registry", '
        '"message": "agent i-gpu012 heartbeat timeout detected."}\n',
        (expect("scheduler_events", kind="node_down", hosts=["i-gpu012"], time_local="2026-03-02 08:00:00,250"),),
    ),
    Sample(
        _entry("22:08:09.123456", f"create_kernel(kernel:{_K1}, session:{_S1}) starting container")
        + _entry("22:09:09.123456", f"Handling start event for kernel {_K1} with container 0a1b2c3d")
        + _entry("22:10:09.123456", f"Handling clean event for kernel {_S2} with container None"),
        (
            expect(
                "scheduler_events",
                kind="kernel_state",
                job_id=_S1,
                raw_job_id=_S1,
                state="RUNNING",
                time=1772402949123456,
            ),
            expect("scheduler_events", kind="kernel_state", job_id=None, raw_job_id=_S2, state="TERMINATED"),
        ),
    ),
)

FORMAT: Final = LineFormat(
    name="backendai",
    doc="The logs of Backend.AI's manager and agents, on the console and as JSON: agents that come and go, sessions "
    "that start, are cancelled or fail to start and on which agents, and the kernels of sessions.",
    url="https://github.com/lablup/backend.ai/tree/main/src/ai/backend/logging",
    tables=("scheduler_events",),
    detects=detects,
    signatures=(
        rb"instance_lifecycle: (?:ag:|agent )",
        rb" heartbeat timeout detected",
        rb" has terminated\.",
        rb" restarting for maintenance",
        rb"handle_session_(?:started|cancelled|creation_lifecycle): ev:",
        rb"handle_kernel_(?:preparing|pulling|creating|started|cancelled|creation_lifecycle): ev:",
        rb"start-session\(s:",
        rb"Handling termination of kernel ",
        rb"Handling (?:start|destroy|clean) event for kernel ",
        rb"detected dead container (?:during|while)",
        rb"create_kernel\(kernel:",
        rb" \(machine-type: ",
    ),
    read=read,
    settle=settle,
    samples=_SAMPLES,
    non_samples=(
        "2026-03-02 07:08:09.123 INFO com.example.monitor [77] agent smith has terminated.\n",
        "INFO agent smith has terminated.\n",
        "2026-03-02 07:08:09.123 INFO ai.backend.manager.sokovan.scheduler [2211] Retried 3 stuck CREATING sessions\n",
        "2026-03-02 07:08:09.123 INFO ai.backend.manager.sokovan.scheduler [2211] Swept 2 sessions with lost agent "
        "kernels\n",
        f"2026-03-02 07:08:09.123 DEBUG ai.backend.manager.sokovan.scheduler [2211] {_OF_S1}try-starting\n",
        f"2026-03-02 07:08:09.123 INFO ai.backend.agent.agent [2211] Handled clean event for kernel {_K1} with "
        "container None\n",
        '    log.warning("agent {0} heartbeat timeout detected.", agent_id)\n',
        "what does handle_session_started: ev:session_started mean?\n",
        f'{{"name": "notes", "message": "handle_session_started: ev:session_started s:{_S1}"}}\n',
    ),
)
