"""What container runtimes put around a line, and lines that are JSON altogether.

    {"log":"[  77.000001] NVRM: ...\\n","stream":"stderr","time":"2026-02-02T02:02:02.5Z"}     docker's json-file
    2026-03-01T12:00:00.987654321Z stdout F [  77.000001] NVRM: ...                           CRI: containerd, CRI-O

The runtime's time is when it collected the line, not the time of the event: it stands in ``labels`` under
``collected``; ``partial`` says that the line goes on in the next one of its stream.
https://docs.docker.com/engine/logging/drivers/json-file/,
https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from aftershock.parsers.envelopes.journal import peel_entry
from aftershock.parsers.envelopes.layer import Layer, clocks_together
from aftershock.parsers.envelopes.records import host_in, peel_record, time_of
from aftershock.parsers.envelopes.slurm import peel_json

_CRI: Final = re.compile(
    rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) (stdout|stderr) ([PF])(?::\S*)?(?: |$)"
)
# What docker writes itself; with anything else beside it, a shipper has made it a record of its own.
_OF_DOCKER: Final = frozenset({"log", "stream", "time", "attrs"})


def peel_cri(data: bytes) -> Layer | None:
    """A line of a pod's log file."""
    found = _CRI.match(data)
    if found is None:
        return None
    labels = {"collected": found[1].decode("ascii"), "stream": found[2].decode("ascii")}
    if found[3] == b"P":
        labels["partial"] = "P"
    return Layer("cri", data[found.end() :], labels=labels, open=True)


def peel_object(data: bytes) -> Layer | None:
    """A JSON object that is an envelope: of the journal, of docker, of a log store. Other objects stay whole."""
    if not data.rstrip().endswith(b"}"):
        return None
    try:
        entry = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return peel_members(entry) if isinstance(entry, dict) else None


def peel_members(entry: Mapping[str, Any]) -> Layer | None:
    """The layer of an object that is an envelope; None if it is none."""
    layer = peel_entry(entry)
    if layer is None:
        return peel_json(entry) or _peel_docker(entry) or peel_record(entry)
    if layer.reading.wall is None:  # a shipper has put its own time in the place of the journal's
        layer = layer._replace(reading=clocks_together(time_of(entry), layer.reading))
    return layer if layer.host is not None else layer._replace(host=host_in(entry))


def peel_pair(data: bytes) -> Layer | None:
    """``[1772366400.5,{"log":"..."}]``: a record of Fluent Bit, its time first."""
    if not data.rstrip().endswith(b"}]"):
        return None
    try:
        pair = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return peel_record(pair)


def peel_server_sent(data: bytes) -> Layer | None:
    """``data: {...}`` of ``journalctl -o json-sse``."""
    return peel_object(data[6:]) if data.startswith(b"data: {") else None


def _peel_docker(entry: Mapping[str, Any]) -> Layer | None:
    text = entry.get("log")
    if not isinstance(text, str) or not ("stream" in entry or "time" in entry):
        return None
    labels = {"collected": ""}
    for key, label in (("time", "collected"), ("stream", "stream")):
        value = entry.get(key)
        if isinstance(value, str):
            labels[label] = value
    message = text.encode("utf-8", "surrogatepass")
    if _OF_DOCKER.issuperset(entry) and "stream" in labels and not message.endswith(b"\n"):
        labels["partial"] = "P"
    return Layer("docker", message.rstrip(b"\r\n"), host=host_in(entry), labels=labels, open=True, weak=True)
