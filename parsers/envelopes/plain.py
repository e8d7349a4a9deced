"""The small things that stand before a line: labels of parallel shells, a field name, a count of repeats.

    gpu017: [  77.000001] NVRM: ...                                   pdsh, clush
    3: [  77.000001] NVRM: ...                                        srun --label
    gpu017 | CHANGED | rc=0 | (stdout) [  77.000001] NVRM: ...        ansible -o
    ok: [gpu017] => {"stdout": "[  77.000001] NVRM: ..."}             ansible, a task of a playbook on one line
    MESSAGE=NVRM: ...                                                 the journal's export format
    message repeated 5 times: [ [  77.000001] NVRM: ...]              rsyslog
    Last message 'NVRM: ...' repeated 5 times, suppressed by ...      syslog-ng

None of them has a clock.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.envelopes.layer import Layer, text_of

# A label is one only before something that is a record of its own: a stamp, the kernel's tag, the driver's words.
RECORD: Final = (
    rb"(?=\[ ?[ \d+A-Z]|<\d{1,3}>|kern |kernel:|NVRM:|nvidia-nvswitch\d"
    rb"|[A-Z][a-z]{2} [ \d]\d \d\d:|\d{4}-\d\d-\d\d[T ]\d|\{\"|[a-z0-9][a-z0-9._-]{1,60}: +(?:\[ *\d|NVRM:))"
)
_TASK: Final = re.compile(rb" *(\d{1,6}): " + RECORD)
_NODE: Final = re.compile(rb"(?=[a-z0-9.]*[\d.-])([a-z0-9][a-z0-9._-]{0,252}[a-z0-9]): +" + RECORD, re.IGNORECASE)
# A label of a host as it is printed, whatever stands behind it.
_LABELLED: Final = re.compile(rb" {0,4}([A-Za-z0-9][A-Za-z0-9._-]{0,252}): +(?=\S)")
# Words that number the lines, entries and examples of a text are no names of hosts.
_COUNTED: Final = frozenset(
    b"line row entry item example sample fig figure step case msg message event xid error note answer question quote "
    b"reply comment post q a ex".split()
)
_REPEATED: Final = re.compile(rb"message repeated (\d{1,9}) times: \[ ?")
_ANSIBLE: Final = re.compile(
    rb"([A-Za-z0-9][A-Za-z0-9._-]{0,252}) \| (?:CHANGED|SUCCESS|FAILED) \| rc=\d{1,3} \| \((?:stdout|stderr)\) "
)
_LOGIN: Final = re.compile(rb"([A-Za-z0-9][A-Za-z0-9._-]{0,252}) login: *(?=\[ *\d|NVRM:|<\d)")
# A path, or the name of a log; what grep finds in code and prose are quotations.
_FILE: Final = re.compile(
    rb"(?=[^\s:]*(?:/|\.(?:log|gz|xz|zst|txt|out|err|\d)\b|messages|syslog|kern|dmesg|journal))"
    rb"(?![^\s:]*\.(?:c|cc|cpp|h|go|rs|py|md|rst|adoc|html?|ya?ml|json|toml|js|ts|sh):)"
    rb"[\w./@+~-]{1,512}:(?:\d{1,9}:)? ?" + RECORD
)
# grep -n without the name of a file, before what can only be a record with its stamp.
_LINE_NUMBER: Final = re.compile(
    rb"\d{1,9}:(?=\[ *\d{1,8}\.\d{6}\] |\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\] "
    rb"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)"
)
_TASK_OF_PLAY: Final = re.compile(
    rb"(?:ok|changed|fatal|failed): \[([A-Za-z0-9][A-Za-z0-9._-]{0,252})(?: -> [^\]\s]{1,253})?\](?:: [A-Z]{3,16}!)?"
    rb"(?: => \(item=[^\n]{0,400}?\))? => (?=\{)"
)
_NUMBERS: Final = re.compile(rb"\d+")
_SUPPRESSED: Final = re.compile(rb"Last message '(.*)' repeated (\d{1,9}) times?, suppressed by syslog-ng")


def label_of(data: bytes) -> tuple[bytes, bytes] | None:
    """The label that a line seems to have, and what stands behind it."""
    found = _LABELLED.match(data)
    return None if found is None else (found[1], data[found.end() :])


def stem_of(label: bytes) -> bytes:
    """What the names of hosts have in common that differ in their numbers."""
    return _NUMBERS.sub(b"0", label.lower())


def counts_lines(label: bytes) -> bool:
    """Whether a label is a word with a number that counts what is listed: ``line1``, ``example 2``."""
    return label.lower().rstrip(b"0123456789").rstrip(b"-_.") in _COUNTED


def peel_label(data: bytes) -> Layer | None:
    """The label of a task (srun) or of a host (pdsh)."""
    task = _TASK.match(data)
    if task is not None:
        return Layer("label", data[task.end() :], labels={"task": task[1].decode("ascii")}, open=True)
    node = _NODE.match(data) or _ANSIBLE.match(data) or _TASK_OF_PLAY.match(data)
    if node is None:
        return None
    # A record inside that names a host stood in a log of many.
    return Layer("label", data[node.end() :], host=text_of(node[1]), open=True, weak=True)


def peel_login(data: bytes) -> Layer | None:
    """The prompt of a serial console, behind which the kernel goes on talking."""
    prompt = _LOGIN.match(data)
    return None if prompt is None else Layer("console", data[prompt.end() :], host=text_of(prompt[1]), open=True)


def peel_file(data: bytes) -> Layer | None:
    """The file, and maybe the number of the line, that grep found a record in; the number alone."""
    found = _FILE.match(data) or _LINE_NUMBER.match(data)
    return None if found is None else Layer("grep", data[found.end() :], open=True)


def peel_field(data: bytes) -> Layer | None:
    """``MESSAGE=`` of the journal's export format, whose other fields stand on lines of their own."""
    return Layer("export", data[8:], open=True) if data.startswith(b"MESSAGE=") else None


def peel_repeated(data: bytes) -> Layer | None:
    """The summary of equal lines: a count, and the line with the clock of its first occurrence."""
    found = _REPEATED.match(data)
    if found is not None:
        inner, times = data[found.end() :].rstrip().removesuffix(b"]"), found[1]
    else:
        found = _SUPPRESSED.match(data)
        if found is None:
            return None
        inner, times = found[1], found[2]
    return Layer("repeated", inner, labels={"repeated": times.decode("ascii")}, open=True, stale=True)
