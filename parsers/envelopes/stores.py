"""What commands that print logs of many hosts and pods put before a line, where they do not print JSON.

    2026-03-01T12:00:00Z {host="gpu017", job="kern"} NVRM: ...        logcli: time, labels, line
    2026-03-01T12:00:00Z<tab>NVRM: ...                                Grafana's download; fluentd writes a tag between
    2026-03-01T12:00:00.123000+00:00 gpu017/kern NVRM: ...            aws logs tail
    [pod/dmesg-7xk2p/main] [  77.000001] NVRM: ...                    kubectl logs --prefix
    dmesg-7xk2p main [  77.000001] NVRM: ...                          stern
    [0] kmsg.0: [1772366400.5, {"sec"=>77, "usec"=>1, "msg"=>"..."}]  Fluent Bit on its own output

The time that logcli and Grafana print is the one that Loki keeps; see :mod:`aftershock.parsers.envelopes.records` for
whose it is. https://grafana.com/docs/loki/latest/query/logcli/, https://github.com/stern/stern,
https://docs.fluentbit.io/manual/data-pipeline/outputs/standard-output
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

from aftershock.parsers.clock import NO_CLOCK
from aftershock.parsers.envelopes.layer import Layer, text_of
from aftershock.parsers.envelopes.plain import RECORD
from aftershock.parsers.envelopes.records import host_in, is_output_of_container, peel_record
from aftershock.parsers.envelopes.syslog import iso_reading

_STAMP: Final = rb"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d))"
_LOGCLI: Final = re.compile(_STAMP + rb'[ \t]+\{((?:[A-Za-z_]\w{0,99}="(?:[^"\\]|\\.)*"(?:, ?)?)*)\}[ \t]*')
_LABEL: Final = re.compile(rb'([A-Za-z_]\w{0,99})=("(?:[^"\\]|\\.)*")')
_TABBED: Final = re.compile(_STAMP + rb"\t(?:[\w.*-]{1,128}\t(?=\{))?")
_TAILED: Final = re.compile(_STAMP + rb" (?=\S*/)([\w./:-]{3,255}) (?=NVRM:|nvidia-nvswitch\d|kernel: |\[ *\d)")
_POD: Final = re.compile(rb"\[pod/([^/\]\s]{1,253})/([^\]\s]{1,253})\] ?")
# The names of pods end in letters and digits that nobody chose; words of a sentence do not.
_STERN: Final = re.compile(
    rb"(?=[a-z0-9.-]*-[a-z]*\d)([a-z0-9][a-z0-9.-]{2,252}) ([a-z][a-z0-9-]{0,62}) (?:" + _STAMP + rb" )?" + RECORD
)
_FLUENT: Final = re.compile(rb"\[\d{1,9}\] [\w.*-]{1,128}: (?=\[\[?\d{9,10}\.\d{1,9}, )")
_FLUENT_PAIR: Final = re.compile(rb"(?s)\[(\[?)(\d{9,10}\.\d{1,9}), (\{\}\], )?(\{.*\})\]\s*\Z")
_ARROW: Final = re.compile(rb'("(?:[^"\\]|\\.)*")=>')


def peel_stamped(data: bytes) -> Layer | None:
    """A line of logcli in its default mode, or a time and a line with a tab between them."""
    second = data[19:41]
    if b"\t" not in second and b" {" not in second:
        return _peel_tailed(data)
    found = _LOGCLI.match(data)
    if found is None:
        tabbed = _TABBED.match(data)
        if tabbed is None:
            return None
        reading = iso_reading(tabbed[1]) or NO_CLOCK
        return Layer("loki", data[tabbed.end() :], reading, open=True, weak=True)
    labels = _labels(found[2])
    rest = data[found.end() :]
    if not rest:
        return None
    if is_output_of_container((labels,)):
        return Layer("loki", rest, host=host_in(labels), labels={"collected": text_of(found[1])}, open=True, weak=True)
    layer = peel_record([str(0), text_of(rest), labels])
    assert layer is not None
    return layer._replace(rest=rest, reading=iso_reading(found[1]) or NO_CLOCK)


def _peel_tailed(data: bytes) -> Layer | None:
    """A line of ``aws logs tail``: time, name of the log stream, line."""
    found = _TAILED.match(data) if b"/" in data[20:300] else None
    if found is None:
        return None
    rest = data[found.end() :]
    layer = peel_record({"message": text_of(rest), "logStreamName": text_of(found[2])})
    assert layer is not None
    return layer._replace(rest=rest, reading=iso_reading(found[1]) or NO_CLOCK)


def _labels(printed: bytes) -> dict[str, Any]:
    return {name.decode("ascii"): _unquoted(value) for name, value in _LABEL.findall(printed)}


def _unquoted(value: bytes) -> Any:
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return text_of(value[1:-1])


def peel_pod(data: bytes) -> Layer | None:
    """``kubectl logs --prefix``."""
    found = _POD.match(data) if data.startswith(b"[pod/") else None
    if found is None:
        return None
    return Layer("pod", data[found.end() :], labels={"collected": "", "pod": text_of(found[1])}, open=True)


def peel_stern(data: bytes) -> Layer | None:
    """The pod and its container before a record."""
    found = _STERN.match(data)
    if found is None:
        return None
    collected = text_of(found[3]) if found[3] else ""
    return Layer("pod", data[found.end() :], labels={"collected": collected, "pod": text_of(found[1])}, open=True)


def peel_fluent_text(data: bytes) -> Layer | None:
    """A record as Fluent Bit prints it: its arrows are turned into colons, and it is read as JSON."""
    found = _FLUENT.match(data)
    pair = _FLUENT_PAIR.match(data, found.end()) if found is not None else None
    if pair is None:
        return None
    try:
        members = orjson.loads(_ARROW.sub(rb"\1:", pair[4]))
    except orjson.JSONDecodeError:
        return None
    return peel_record([pair[2].decode("ascii"), members])
