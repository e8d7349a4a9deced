"""What container runtimes put around a line: the time at which they collected it, which is not the time of the event.

    {"log":"[  77.000001] NVRM: ...\\n","stream":"stderr","time":"2026-02-02T02:02:02.5Z"}     docker's json-file
    2026-03-01T12:00:00.987654321Z stdout F [  77.000001] NVRM: ...                           CRI: containerd, CRI-O

The collector's time stands in ``labels`` under ``collected``; ``partial`` says that the line goes on in the next one.
https://docs.docker.com/engine/logging/drivers/json-file/,
https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from aftershock.parsers.envelopes.journal import peel_entry
from aftershock.parsers.envelopes.layer import Layer

_CRI: Final = re.compile(
    rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) (stdout|stderr) ([PF])(?::\S*)?(?: |$)"
)

# Docker cuts longer lines into pieces of this size; only the last one has a line end.
_DOCKER_PIECE: Final = 16 << 10


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
    """A JSON object that is an envelope: of the journal or of docker. Other objects stay whole."""
    if not data.rstrip().endswith(b"}"):
        return None
    try:
        entry = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(entry, dict):
        return None
    return peel_entry(entry) or _peel_docker(entry)


def _peel_docker(entry: Mapping[str, Any]) -> Layer | None:
    text = entry.get("log")
    if not isinstance(text, str) or not ("stream" in entry or "time" in entry):
        return None
    labels = {}
    for key, label in (("time", "collected"), ("stream", "stream")):
        value = entry.get(key)
        if isinstance(value, str):
            labels[label] = value
    message = text.encode("utf-8", "surrogatepass")
    if len(message) >= _DOCKER_PIECE and not message.endswith(b"\n"):
        labels["partial"] = "P"
    return Layer("docker", message.rstrip(b"\r\n"), labels=labels, open=True)
