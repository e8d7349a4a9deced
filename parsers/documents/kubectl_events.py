"""kubectl get events, kubectl events: the table of events, whose times only say how long ago it was.

    LAST SEEN            TYPE      REASON             OBJECT            MESSAGE
    12m                  Normal    NodeNotReady       node/gpu-012      Node gpu-012 status is now: NodeNotReady
    3m (x5 over 40m)     Warning   FailedScheduling   pod/train-0       0/9 nodes are available

Documented at https://kubernetes.io/docs/reference/kubectl/generated/kubectl_events/. With ``-A`` a column NAMESPACE
goes before, with ``-o wide`` there are SUBOBJECT, SOURCE, FIRST SEEN, COUNT and NAME too. Nobody knows when the table
was printed, so its rows have no time; ``kubectl get events -o json`` gives the same events with theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from aftershock.parsers.documents.kubernetes.event_words import JOB_KINDS
from aftershock.parsers.documents.kubernetes.events import event_rows
from aftershock.parsers.documents.kubernetes.settling import settle
from aftershock.parsers.documents.text_lines import chunks_of, lines_of
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect

_NAMES: Final = re.compile(
    r"\b(?:NAMESPACE|LAST SEEN|FIRST SEEN|COUNT|NAME|KIND|TYPE|REASON|OBJECT|SUBOBJECT|SOURCE|MESSAGE)\b"
)
_HEADER: Final = re.compile(rb"(?:NAMESPACE {2,})?LAST SEEN {2,}(?:[A-Z ]+ {2,})?TYPE {2,}REASON {2,}")
_NEEDED: Final = frozenset({"REASON", "OBJECT", "MESSAGE"})
_GAP: Final = re.compile(r" {2,}")
_FOLDED: Final = re.compile(r"\(x(\d{1,9}) over ")
_KINDS: Final = {kind.lower(): kind for kind in ("Node", "Pod", *JOB_KINDS)}
_RELATIVE: Final = "times are relative to when the table was printed; kubectl get events -o json states them"


class Column(NamedTuple):
    """A column of the table and where it begins."""

    name: str
    begin: int


def detects(head: Head) -> float:
    """Sure of the header."""
    return 0.9 if any(_HEADER.match(line) for line in head.lines(3)) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The events of a table, without their times."""
    columns: list[Column] = []
    for offset, raw in lines_of(chunks_of(stream)):
        line = raw.decode("utf-8", "replace").rstrip()
        if _HEADER.match(raw):
            first, columns = not columns, _columns(line)
            if first:
                yield Refused(offset, len(raw), f"kubectl_events: {_RELATIVE}", raw[:512])
        elif line and columns:
            cells = _cells(line, columns)
            if cells is None:
                yield Refused(offset, len(raw), "kubectl_events: a row without object and reason", raw[:512])
            else:
                yield from _rows(cells, offset)


def _columns(header: str) -> list[Column]:
    found = [Column(name[0], name.start()) for name in _NAMES.finditer(header)]
    return found if _NEEDED.issubset(column.name for column in found) else []


def _cells(line: str, columns: list[Column]) -> dict[str, str] | None:
    """The cells of a row: by the places of the header, or by the gaps where a row does not keep to them."""
    begins = [column.begin for column in columns]
    if all(line[begin - 1 : begin] in ("", " ") for begin in begins[1:]):
        words = [line[begin:end].strip() for begin, end in zip(begins, [*begins[1:], None], strict=True)]
    else:
        words = _GAP.split(line, len(columns) - 1)
    cells = {column.name: word for column, word in zip(columns, words, strict=False)}
    return cells if cells.get("REASON") and "/" in cells.get("OBJECT", "") else None


def _rows(cells: dict[str, str], offset: int) -> Iterator[Found]:
    kind, _, name = cells["OBJECT"].partition("/")
    component, _, host = cells.get("SOURCE", "").partition(", ")
    folded = _FOLDED.search(cells.get("LAST SEEN", ""))
    event = {
        "involvedObject": {
            "kind": _KINDS.get(kind.split(".", 1)[0].lower(), kind),
            "name": name,
            "namespace": cells.get("NAMESPACE"),
        },
        "reason": cells["REASON"],
        "message": cells.get("MESSAGE", ""),
        "type": cells.get("TYPE"),
        "source": {"component": component, "host": host},
        "count": folded[1] if folded else cells.get("COUNT"),
    }
    yield from event_rows(event, offset)


FORMAT: Final = DocumentFormat(
    name="kubectl_events",
    doc="The table that `kubectl get events` and `kubectl events` print. It only says how long ago an event was, so "
    "its rows have no time.",
    url="https://kubernetes.io/docs/reference/kubectl/generated/kubectl_events/",
    tables=("scheduler_events", "health_checks", "gpu_errors", "node_events"),
    detects=detects,
    read=read,
    settle=settle,
    samples=(
        Sample(
            "LAST SEEN          TYPE      REASON             OBJECT       MESSAGE\n"
            "12m                Normal    NodeNotReady       node/dgx07   Node dgx07 status is now: NodeNotReady\n"
            "3m (x5 over 40m)   Warning   FailedScheduling   Pod/bert-0   0/9 nodes are available\n",
            (
                expect("scheduler_events", kind="node_down", hosts=["dgx07"], time=None, count=1),
                expect("scheduler_events", kind="pending", job_id="bert-0", state="PENDING", time=None, count=5),
            ),
        ),
        Sample(
            "NAMESPACE   LAST SEEN   TYPE      REASON       OBJECT       SUBOBJECT           SOURCE                  "
            "MESSAGE         FIRST SEEN   COUNT   NAME\n"
            "default     2m          Warning   OOMKilling   node/dgx07                       kernel-monitor, dgx07   "
            "Killed process  5m           3       dgx07.17a\n"
            "ml          2m          Warning   BackOff      pod/bert-0   spec.containers{t}  kubelet, dgx08          "
            "back-off        5m           7       bert-0.17b\n",
            (
                expect("health_checks", checker="npd", check="OOMKilling", host="dgx07", count=3, time=None),
                expect("scheduler_events", kind="pod_backoff", job_id="bert-0", hosts=["dgx08"], count=7),
            ),
        ),
    ),
    non_samples=(
        "NAME     READY   STATUS    RESTARTS   AGE\nbert-0   1/1     Running   0          3h\n",
        "LAST SEEN   TYPE     REASON         OBJECT   MESSAGE\n12m         Normal   NodeNotReady   dgx07    gone\n",
        "12m         Normal    NodeNotReady       node/dgx07   Node dgx07 status is now: NodeNotReady\n",
        "LAST SEEN   TYPE     REASON   OBJECT           MESSAGE\n",
    ),
)
