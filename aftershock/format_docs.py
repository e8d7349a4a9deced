"""What the formats say of themselves: the list, one in full with its samples, and the check of all samples."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable
from typing import TextIO

import click

from aftershock.cli import DONE, FAILED
from aftershock.parsers.formats import Format, LineFormat, Sample
from aftershock.parsers.registry import formats, formats_named, known_names
from aftershock.parsers.selfcheck import problems_of
from aftershock.terminal import printable

WIDTH = 100


def overview() -> str:
    """One paragraph for each format."""
    parts = []
    for fmt in formats():
        kind = "lines" if isinstance(fmt, LineFormat) else "document"
        body = textwrap.fill(" ".join(fmt.doc.split()), WIDTH, initial_indent="    ", subsequent_indent="    ")
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
    yield textwrap.fill(" ".join(fmt.doc.split()), WIDTH, initial_indent="    ", subsequent_indent="    ")
    yield f"    documented at {fmt.url}"
    yield f"    feeds {', '.join(fmt.tables)}"
    if isinstance(fmt, LineFormat):
        words = "  ".join(f'"{signature.decode("ascii", "replace")}"' for signature in fmt.signatures)
        yield from textwrap.wrap(
            "looks for " + words, WIDTH, initial_indent="    ", subsequent_indent="      ", break_on_hyphens=False
        )
    for title, urls, samples in _grammars(fmt):
        yield ""
        if title:
            yield textwrap.fill(title, WIDTH, initial_indent="  ", subsequent_indent="  ")
        yield from (f"    {url}" for url in urls)
        for number, sample in enumerate(samples):
            if number:
                yield ""
            yield from _shown(sample)
    yield ""
    yield "  Gives no row"
    yield from ("    | " + printable(line) for text in fmt.non_samples for line in text.splitlines())


def _grammars(fmt: Format) -> list[tuple[str, list[str], list[Sample]]]:
    """The samples of a format by grammar: title, links, samples; in the order in which the titles come first."""
    titles: dict[str, tuple[str, list[str], list[Sample]]] = {}
    for sample in fmt.samples:
        _, urls, samples = titles.setdefault(sample.title, (sample.title, [], []))
        samples.append(sample)
        if sample.url and sample.url not in urls:
            urls.append(sample.url)
    return list(titles.values())


def _shown(sample: Sample) -> Iterable[str]:
    """A sample line by line, and the rows that it gives."""
    if sample.name:
        yield f"    {sample.name}"
    yield from ("    | " + printable(line) for line in sample.text.splitlines())
    for row in sample.rows:
        fields = ", ".join(f"{key}={value!r}" for key, value in row.fields.items())
        yield f"      {row.table}: {fields}"


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
