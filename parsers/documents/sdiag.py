"""sdiag: statistics of Slurm's scheduler. They tell of no host and no job, so the file gives no rows.

    *******************************************************
    sdiag output at Mon Feb 03 08:00:05 2025 (1738569605)
    Data since      Mon Feb 03 00:00:00 2025 (1738540800)
    *******************************************************
    Server thread count:  3

Documented at https://slurm.schedmd.com/sdiag.html. The format is here so that the file is known for what it is; the
time at its head is kept as the first and last time of the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from aftershock.parsers.clock import SECOND, Reading
from aftershock.parsers.documents.text_lines import chunks_of, lines_of
from aftershock.parsers.formats import DocumentFormat, Found, Head, Mark, Refused, Sample

_HEAD: Final = re.compile(rb"(?:sdiag output at|Data since)\s+(?P<time>[A-Za-z0-9: ]{5,40}) \((?P<epoch>[0-9]{9,10})\)")


def detects(head: Head) -> float:
    """Sure where one of the first lines says so."""
    return 0.9 if any(line.startswith(b"sdiag output at ") for line in head.lines(6)) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused | Mark]:
    """The clocks at the head of each output."""
    for offset, line in lines_of(chunks_of(stream)):
        match = _HEAD.match(line)
        if match is not None:
            text = match["time"].decode("ascii")
            yield Mark(offset, Reading("epoch", int(match["epoch"]) * SECOND, resolution=SECOND, text=text), "plain")


FORMAT: Final = DocumentFormat(
    name="sdiag",
    doc="Statistics of Slurm's scheduler as `sdiag` prints them: known, but no row is made of them.",
    url="https://slurm.schedmd.com/sdiag.html",
    tables=("sources",),
    detects=detects,
    read=read,
    samples=(
        Sample(
            "*******************************************************\n"
            "sdiag output at Mon Feb 03 08:00:05 2025 (1738569605)\n"
            "Data since      Mon Feb 03 00:00:00 2025 (1738540800)\n"
            "*******************************************************\n"
            "Server thread count:  3\nAgent queue size:     0\n\nJobs submitted: 12\nJobs failed:    1\n",
            (),
        ),
    ),
    non_samples=("we looked at the sdiag output at noon\n", "Jobs failed:    1\n"),
)
