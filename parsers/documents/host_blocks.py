"""The output of one command on many hosts, gathered under a line that names the host.

    ---------------
    gpu[021-022]                         clush -b, dshbak: hosts with the same output together
    ---------------
    [  77.000001] NVRM: ...

    gpu021 | CHANGED | rc=0 >>           ansible, ad hoc
    [  77.000001] NVRM: ...

    ok: [gpu021] => {                    ansible, a task of a playbook
        "out.stdout_lines": [
            "[  77.000001] NVRM: ..."

    [1] 07:15:42 [SUCCESS] gpu021        parallel-ssh
    [  77.000001] NVRM: ...

    gpu021:                              salt: four blanks before every line
        [  77.000001] NVRM: ...

The output of each host is read as the file that it is, and its rows are on that host; where hosts are listed together,
each of them printed it. Labels before every line (``gpu021: ...``) are envelopes of lines.
https://clustershell.readthedocs.io/en/latest/tools/clush.html, https://linux.die.net/man/1/dshbak,
https://docs.ansible.com/ansible/latest/command_guide/intro_adhoc.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from aftershock.parsers.documents.sections import Item, Section, read_sections
from aftershock.parsers.documents.stream_head import with_head
from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.envelopes.plain import counts_lines
from aftershock.parsers.formats import DocumentFormat, Head, Sample, expect
from aftershock.parsers.hostlist import HostListError, expand_hosts

_DASHES: Final = re.compile(rb"-{8,80}\s*")
# One word with a number in it, brackets of a host list, maybe how many there are.
_HOSTS: Final = re.compile(
    rb"(?=[^\s]*\d)([A-Za-z][\w.-]*(?:\[[\d,-]{1,400}\][\w.-]*)*(?:,[A-Za-z][\w.,\[\]-]*)?)(?: \(\d{1,6}\))?\s*"
)
_ANSIBLE: Final = re.compile(
    rb"([A-Za-z0-9][A-Za-z0-9._-]{0,252}) \| (?:CHANGED|SUCCESS|FAILED|UNREACHABLE!?)"
    rb"(?: \| rc=-?\d{1,3} >>| => \{.*)\s*"
)
# A task of a playbook: what follows is JSON over several lines.
_TASK: Final = re.compile(
    rb"(?:ok|changed|fatal|failed|skipping|unreachable): \[([A-Za-z0-9][A-Za-z0-9._-]{0,252})(?: -> [^\]\s]{1,253})?\]"
    rb"(?:: [A-Z]{3,16}!)?(?: => \(item=.{0,400}\))? => \{\s*"
)
_OUTPUT: Final = re.compile(rb' +"(stdout|stderr|msg)": "(?!")')
_OUTPUT_LINES: Final = re.compile(rb' +"(stdout|stderr|msg)_lines": \[\s*')
_MINION: Final = re.compile(rb"(?=[^\s]*[\d.-])([A-Za-z0-9][A-Za-z0-9._-]{0,252}):\s*")
_INDENT: Final = b"    "
_PSSH: Final = re.compile(
    rb"\[\d{1,6}\] \d\d:\d\d:\d\d \[(?:SUCCESS|FAILURE)\] ([A-Za-z0-9][A-Za-z0-9._@-]{0,252})(?: Exited with .*)?\s*"
)
# What no log line is, and settings are.
_SETTING: Final = re.compile(rb" +(?:- )?[\w.-]{1,64}:(?: [\w./'\"-]*)?\s*")
_MOST_LOOKED_AT: Final = 40
_MOST_OF_PLAY: Final = 2000
# More hosts than any cluster has under one line are a mistake.
_MOST_HOSTS: Final = 10_000


class _Cutter:
    """Finds the lines that name hosts. The frame of dshbak has three of them."""

    def __init__(self) -> None:
        self._above: list[bytes] = []
        self._task: tuple[str, ...] = ()
        self._output = b""  # of a task that was printed as one text: its lines come once more

    def cut(self, line: bytes, behind: int) -> Section | None:
        """The section that begins behind this line."""
        single = _ANSIBLE.fullmatch(line) or _PSSH.fullmatch(line) or _TASK.fullmatch(line)
        if single is not None:
            self._above, self._output = [], b""
            self._task = (_text(single[1]).rsplit("@", 1)[-1],)
            return Section(behind, hosts=self._task)
        if self._task and line[:1] == b" ":
            return self._cut_output(line, behind)
        framed = _DASHES.fullmatch(line) is not None
        if framed and len(self._above) == 2 and len(self._above[0].rstrip()) == len(line.rstrip()):
            named = _HOSTS.fullmatch(self._above[1])
            hosts = _expanded(_text(named[1])) if named is not None else ()
            self._above, self._task = [line], ()
            return Section(behind, hosts=hosts) if hosts else None
        self._above = [line] if framed else ([*self._above, line] if len(self._above) == 1 else [])
        return None

    def _cut_output(self, line: bytes, behind: int) -> Section | None:
        """Pass over the lines of an output that was told as one text before."""
        output = _OUTPUT.match(line)
        if output is not None:
            self._output = output[1]
            return None
        lines = _OUTPUT_LINES.fullmatch(line)
        if lines is not None and lines[1] == self._output:
            return Section(behind, hosts=self._task, said_before=True)
        if self._output and line.strip() in (b"]", b"],"):
            return Section(behind, hosts=self._task)
        return None


def _text(printed: bytes) -> str:
    return printed.decode("utf-8", "backslashreplace")


def _expanded(printed: str) -> tuple[str, ...]:
    try:
        return tuple(expand_hosts(printed, _MOST_HOSTS))
    except HostListError:
        return ()


def read(stream: BinaryIO) -> Iterator[Item]:
    """The rows of every host's output."""
    start, stream = with_head(stream)
    if _is_of_salt(start):
        yield from read_sections(stream, _cut_minion, indent=_INDENT)
    else:
        yield from read_sections(stream, _Cutter().cut)


def _cut_minion(line: bytes, behind: int) -> Section | None:
    minion = _MINION.fullmatch(line)
    return None if minion is None else Section(behind, hosts=(_text(minion[1]),))


def _is_of_salt(head: bytes) -> bool:
    """Whether every line that is not indented names a host, and what stands below each has salt's indent.

    A file of settings looks alike, but has other names in it, and a bare word below none of them.
    """
    lines = [line for line in head.split(b"\n")[:-1] if line.strip()][:_MOST_LOOKED_AT]
    named = [number for number, line in enumerate(lines) if not line.startswith(b" ")]
    if not named or named[0] != 0 or not all(_MINION.fullmatch(lines[number]) for number in named):
        return False
    below = [line for line in lines if line.startswith(b" ")]
    if any(counts_lines(lines[number].split(b":")[0]) for number in named):
        return False
    texts = [line[len(_INDENT) :] for line in below]
    is_log = any(text.startswith(b"NVRM: ") or unwrap(text).names[0] not in ("plain", "label") for text in texts)
    return is_log and all(line.startswith(_INDENT) and not _SETTING.fullmatch(line) for line in below)


def detects(head: Head) -> float:
    """A line that names hosts stands at the beginning."""
    if _is_of_salt(head.data):
        return 0.8
    cutter = _Cutter()
    lines = head.lines(5)
    if any(line.startswith((b"PLAY [", b"TASK [")) for line in lines):
        lines = head.lines(_MOST_OF_PLAY)  # facts of many hosts are gathered first
    for line in lines:
        if cutter.cut(line + b"\n", 1) is not None:
            return 0.8
    return 0.0


_XID: Final = "NVRM: Xid (PCI:0000:9d:00): 48, pid=7, name=a.out, DBE (double bit error) ECC Error"

_SAMPLES: Final = (
    Sample(
        f"----------------\ngpu[021-022]\n----------------\n[   77.000001] {_XID}\n"
        f"----------------\ngpu023\n----------------\n[   12.000001] usb 1-1: new device\n[  88.000001] {_XID}\n",
        (
            expect("gpu_errors", code=48, host="gpu021", time_local="77.000001"),
            expect("gpu_errors", code=48, host="gpu022", time_local="77.000001"),
            expect("gpu_errors", code=48, host="gpu023", time_local="88.000001"),
        ),
    ),
    Sample(
        f"gpu021 | CHANGED | rc=0 >>\n[Tue Mar  3 07:15:42 2026] {_XID}\ngpu022 | UNREACHABLE! => {{\n"
        '    "changed": false,\n    "msg": "Failed to connect",\n    "unreachable": true\n}\n'
        f"gpu023.cluster | SUCCESS | rc=0 >>\n[Tue Mar  3 07:20:00 2026] {_XID}\n",
        (
            expect("gpu_errors", code=48, host="gpu021", time_local="Tue Mar  3 07:15:42 2026"),
            expect("gpu_errors", code=48, host="gpu023", time_local="Tue Mar  3 07:20:00 2026"),
        ),
    ),
    Sample(
        f"[1] 07:30:00 [SUCCESS] root@gpu021\n[   77.000001] {_XID}\n"
        "[2] 07:30:01 [FAILURE] gpu022 Exited with error code 1\n",
        (expect("gpu_errors", code=48, host="gpu021"),),
    ),
    Sample(
        f'TASK [kernel log] ****\nok: [gpu021] => {{\n    "out.stdout_lines": [\n        "[   77.000001] {_XID}"\n'
        "    ]\n}\nchanged: [gpu022 -> localhost] => {\n"
        f'    "msg": "[   78.000001] {_XID}\\n[   79.000001] usb"\n}}\n',
        (
            expect("gpu_errors", code=48, host="gpu021", time_local="77.000001"),
            expect("gpu_errors", code=48, host="gpu022", time_local="78.000001"),
        ),
    ),
    Sample(
        f"gpu021:\n    [   77.000001] {_XID}\n    [   78.000001] usb 1-1: x\n"
        f"gpu022.cluster:\n    [   79.000001] {_XID}\n",
        (
            expect("gpu_errors", code=48, host="gpu021", time_local="77.000001", byte_offset=8),
            expect("gpu_errors", code=48, host="gpu022", time_local="79.000001"),
        ),
    ),
)

FORMAT: Final = DocumentFormat(
    name="host_blocks",
    doc="""The output of one command on many hosts under lines that name them: clush -b, dshbak, ansible, parallel-ssh,
    salt.""",
    url="https://clustershell.readthedocs.io/en/latest/tools/clush.html",
    tables=("gpu_errors", "node_events", "gpus", "health_checks"),
    detects=detects,
    read=read,
    samples=_SAMPLES,
    non_samples=(
        "----------------\ngpu021\n----------------\nNVRM: Xid (PCI:0000:9d:00): 79 is what we look for.\n",
        "gpu021 | CHANGED | rc=0 >>\nNVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07\n",
        "----------------\nresults\n----------------\nloss 2.5\n",
        "[1] 07:30:00 [SUCCESS] gpu021\nuptime 9001\n",
        "rule-1:\n    pattern: NVRM: Xid (PCI:0000:9d:00): 79, x\n    level: error\n",
        "gpu021:\n    True\ngpu022:\n    Minion did not return. [No response]\n",
        'ok: [gpu021] => {\n    "msg": "looked for NVRM: Xid (PCI:0000:9d:00): 79, found none"\n}\n',
    ),
    holds_files=True,
)
