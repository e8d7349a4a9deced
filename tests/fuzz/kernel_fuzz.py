"""Coverage-guided fuzzing of everything that reads lines, with atheris: an error or a hang is a finding.

    make fuzz                                       a minute, from the samples of all formats
    python tests/fuzz/kernel_fuzz.py CORPUS -max_total_time=3600

The first byte of an input chooses how it is read: as lines of any format, as a file whose format is detected, or as one
line with lines below it. Inputs are cut at a size at which even a slow machine needs milliseconds.
https://github.com/google/atheris
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["aftershock"]):
    from aftershock.parsers.blocks import Mark
    from aftershock.parsers.detect import Detected, detect
    from aftershock.parsers.envelopes import unwrap
    from aftershock.parsers.formats import Found, Head, Line
    from aftershock.parsers.registry import formats, line_formats
    from aftershock.parsers.resolve import ClockRules
    from aftershock.parsers.settle import SourceRules, settle_source
    from aftershock.parsers.source import read_stream

NAMED = {fmt.name: fmt for fmt in formats()}
RULES = SourceRules(source="s", clock=ClockRules("UTC", year=2026), burst_gap=60_000_000)
LINES = Detected("lines", None, formats=line_formats())

LONGEST = 16 << 10
SECONDS_FOR_ONE = 5


def read_one(data: bytes) -> None:
    """Read one input."""
    how, text = (data[0] % 3, data[1:]) if data else (0, b"")
    if how == 2:
        line, _, below = text.partition(b"\n")
        for fmt in line_formats():
            list(fmt.read(Line(0, line, unwrap(line), below[:8192])))
        return
    detected = LINES if how == 0 else detect(Head("input", text))
    if detected.how == "refused":
        return
    found: list[Found] = []
    marks: list[Mark] = []
    for block in read_stream(io.BytesIO(text), detected):
        found += block.found
        marks += block.marks
    settle_source(found, marks, RULES, NAMED.get)


def write_seeds(folder: Path) -> None:
    """The samples of all formats, and the texts that are none of them, as inputs to begin with."""
    folder.mkdir(parents=True, exist_ok=True)
    for fmt in formats():
        for number, text in enumerate([*(sample.text for sample in fmt.samples), *fmt.non_samples]):
            data = text.encode("utf-8", "surrogateescape")[: LONGEST - 1]
            for how in range(3):
                (folder / f"{fmt.name}-{number}-{how}").write_bytes(bytes([how]) + data)


def main() -> None:
    """Fuzz until the limits of libFuzzer's options, or until something is found."""
    arguments = sys.argv[1:] or ["build/fuzz"]
    folders = [argument for argument in arguments if not argument.startswith("-")] or ["build/fuzz"]
    options = [argument for argument in arguments if argument.startswith("-")]
    write_seeds(Path(folders[0]))
    limits = [f"-max_len={LONGEST}", f"-timeout={SECONDS_FOR_ONE}", "-rss_limit_mb=2048"]
    atheris.Setup([sys.argv[0], *limits, *options, *folders], read_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
