"""How Slurm's JSON writes jobs: numbers, states, exit codes and resources, in the releases since 21.08.

Releases before 23.02 print plain numbers and words; later ones print a number as ``{"set": true, "infinite": false,
"number": 8}``, and states and statuses as lists of words. See https://slurm.schedmd.com/rest_api.html.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import orjson

from aftershock.parsers.documents.json_elements import Element, elements_of
from aftershock.parsers.documents.json_records import records_of
from aftershock.parsers.documents.slurm_job import JobText, session_of
from aftershock.parsers.formats import Found, Refused
from aftershock.parsers.slurm_words import job_state


def sessions_of(
    stream: BinaryIO, tool: str, job_text: Callable[[dict[str, Any]], JobText | None]
) -> Iterator[Found | Refused]:
    """The sessions of ``{"jobs": [...]}``, job by job. ``tool``: who printed it. ``job_text``: None without an id."""
    for element in elements_of(stream, "jobs"):
        if isinstance(element, Refused):
            yield element._replace(reason=f"{tool}: {element.reason}")
            continue
        offset, data = element.offset, element.data
        job = load_object(data)
        text = None if job is None else job_text(job)
        if text is None:
            what = "is not JSON" if job is None else "has no job_id"
            yield Refused(offset, len(data), f"{tool}: record {what}", data[:512])
        else:
            yield from session_of(text, offset, data)


def load_object(data: bytes) -> dict[str, Any] | None:
    """An object; None if it is not JSON. Names of jobs are bytes to Slurm: it may print what is no UTF-8."""
    for text in (data, data.decode("utf-8", "replace")):
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            continue
        return value if isinstance(value, dict) else None
    return None


def objects_of(
    stream: BinaryIO, keys: tuple[str, ...], tool: str
) -> Iterator[tuple[Element, dict[str, Any]] | Refused]:
    """The records of a document under one of these keys. ``tool``: who printed it."""
    for element in records_of(stream, keys):
        if isinstance(element, Refused):
            yield element._replace(reason=f"{tool}: {element.reason}")
        elif (record := load_object(element.data)) is None:
            yield Refused(element.offset, len(element.data), f"{tool}: record is not JSON", element.data[:512])
        else:
            yield element, record


def shown_id(raw: int, array: dict[str, Any], het: dict[str, Any]) -> str:
    """The id as sacct shows it in its tables: ``9_2``, ``9_[0-3]``, ``123+1`` or the plain number.

    ``array``: job_id, task_id and task (a set of them); ``het``: job_id and job_offset.
    """
    array_id, task = number_of(array.get("job_id")), number_of(array.get("task_id"))
    if array_id and task is not None:
        return f"{array_id}_{task}"
    tasks = text_of(array.get("task"))
    if array_id and tasks:
        return f"{array_id}_[{tasks.strip('[]')}]"
    het_id, offset = number_of(het.get("job_id")), number_of(het.get("job_offset"))
    return f"{het_id}+{offset}" if het_id and offset is not None else str(raw)


def state_word(current: Any) -> str | None:
    """The base state of a list that may hold flags too; a word alone as it is."""
    words = [word for word in current if isinstance(word, str)] if isinstance(current, list) else [text_of(current)]
    known = [word for word in words if word and job_state(word)[0] == word.upper()]
    ended = [word for word in known if word.upper() not in ("PENDING", "RUNNING")]
    return next(iter(ended or known or [word for word in words if word]), None)


def exit_pair_of(code: dict[str, Any]) -> str | None:
    """``code:signal`` out of {status, return_code, signal}."""
    signal = object_of(code.get("signal"))
    number = number_of(signal.get("id"))
    if number is None:
        number = number_of(signal.get("signal_id"))
    status = number_of(code.get("return_code"))
    return f"{status or 0}:{number or 0}" if status is not None or number is not None else None


def gpus_of(entries: Any) -> str | None:
    """The GPUs of a list of {type, name, count}, as the tables print them."""
    if not isinstance(entries, list):
        return None
    counts = []
    for entry in entries:
        one = object_of(entry)
        name, count = text_of(one.get("name")) or "", number_of(one.get("count"))
        if one.get("type") == "gres" and name.split(":", 1)[0] == "gpu" and count is not None:
            counts.append(f"gres/{name}={count}")
    return ",".join(counts)


def object_of(value: Any) -> dict[str, Any]:
    """The value, or an empty object."""
    return value if isinstance(value, dict) else {}


def text_of(value: Any) -> str:
    """The value, or an empty text."""
    return value if isinstance(value, str) else ""


def number_of(value: Any) -> int | None:
    """A whole number, plain or as {set, infinite, number}; None for one that is not set."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") is not False and not value.get("infinite") else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def digits_of(value: Any) -> str:
    """The same as text. Slurm writes 0 for a time that there is not; a word that is no number stays, to be refused."""
    number = number_of(value)
    if number is None:
        return value if isinstance(value, str) else ""
    return str(number)
