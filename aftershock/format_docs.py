"""What the formats say of themselves: the list, one in full with its samples, and the check of all samples."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable
from typing import TextIO

import click

from aftershock.cli import DONE, FAILED
from aftershock.parsers.formats import Format, LineFormat
from aftershock.parsers.registry import formats, formats_named, known_names
from aftershock.parsers.selfcheck import problems_of
from aftershock.terminal import printable

WIDTH = 100


def overview() -> str:
    """One paragraph for each format."""
    parts = []
    for fmt in formats():
        kind = "lines" if isinstance(fmt, LineFormat) else "document"
        body = textwrap.fill(fmt.doc, WIDTH, initial_indent="    ", subsequent_indent="    ")
        parts.append(f"{fmt.name}  ({kind}; {', '.join(fmt.tables)})\n{body}\n")
    return "\n".join(parts)


def explain(name: str) -> str:
    """A format in full: what it is, where it is documented, what it looks for, and each sample with its rows.

    Raises:
        click.UsageError: there is no such format.
    """
    named = formats_named(name)
    if not named:
        raise click.UsageError(f"no format {name!r}; the formats are {', '.join(known_names())}")
    return "\n".join("\n".join(_explained(fmt)) + "\n" for fmt in named)


def _explained(fmt: Format) -> Iterable[str]:
    yield fmt.name
    yield textwrap.fill(fmt.doc, WIDTH, initial_indent="    ", subsequent_indent="    ")
    yield f"    documented at {fmt.url}"
    yield f"    feeds {', '.join(fmt.tables)}"
    if isinstance(fmt, LineFormat):
        yield "    looks for " + "  ".join(signature.decode("ascii", "replace") for signature in fmt.signatures)
    for sample in fmt.samples:
        yield ""
        yield from ("    | " + printable(line) for line in sample.text.splitlines())
        for row in sample.rows:
            fields = ", ".join(f"{key}={value!r}" for key, value in row.fields.items())
            yield f"      {row.table}: {fields}"
    yield ""
    yield "    gives no row:"
    yield from ("    | " + printable(line) for text in fmt.non_samples for line in text.splitlines())


def check_formats(out: TextIO, name: str | None = None) -> int:
    """Run the samples of all formats, or of one. Returns the exit status.

    Raises:
        click.UsageError: there is no such format.
    """
    chosen = formats_named(name) if name else formats()
    if not chosen:
        raise click.UsageError(f"no format {name!r}; the formats are {', '.join(known_names())}")
    problems = [problem for fmt in chosen for problem in problems_of(fmt)]
    for problem in problems:
        print(problem, file=sys.stderr)
    samples = sum(len(fmt.samples) + len(fmt.non_samples) for fmt in chosen)
    print(f"{len(chosen)} formats, {samples} samples, {len(problems)} problems", file=out)
    return FAILED if problems else DONE
