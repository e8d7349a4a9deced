"""Free text: what is shown of it, and what stands for the rest.

A word is shown if it is in the vocabulary, or is a short number, a time, a version or the like. Nothing is shown
because it does not look like a name. Words are cut at spaces and punctuation; letters, digits, ``_``, ``-``, ``.`` and
``/`` hold a word together, so that ``train-07`` is one word, which is not in the vocabulary although ``train`` is.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from importlib.resources import files
from typing import Final

from aftershock.parsers.hostlist import HostListError, expand_hosts
from aftershock.pipeline.pseudonyms.names import Kind, Names

# A list in a text that stands for more hosts than this is replaced as one word.
_MOST_HOSTS: Final = 1024

# Words that are remembered with what stands for them: their number, and so the memory, has a bound.
_MOST_REMEMBERED: Final = 1 << 18

# Controls and what is no ASCII belong to a word: a name in UTF-16 or with a combining accent is one word then.
_CHAR: Final = r"(?:[\w./~-]|[^\x00-\x7f]|[\x00-\x08\x0e-\x1f\x7f])"

_TOKEN: Final = re.compile(
    rf"""
    (?={_CHAR}) (?:
      # Most words stand between spaces. A word before a number may say what the number is, as may these.
      (?P<plain> (?!(?i:serial|asset|user)) [A-Za-z]+ (?= [,)]? (?: \s [A-Za-z(] | \Z ) ) )
      # A number that is said to be of a board, a device or a user: Serial Number : 132, uid=1002
    | (?P<label> (?:[A-Za-z_.]{{0,24}}[_.])?
                 (?i: serial (?:[ _-]?(?:number|num|no))? | s/?n | asset[ _-]?tag | [a-z]?uid | gid
                 | user (?:[ _-]?(?:id|name))? | account | owner | guid ) \s{{0,64}} [:=\#]? \s{{0,4}} ["']? )
      (?P<labelled> \d [\w.-]* )
    | (?P<url>  [A-Za-z][A-Za-z0-9+.-]* :// [^\s"'<>]+ )
    | (?P<uuid> (?:MIG-)?(?:GPU-)? [0-9A-Fa-f]{{8}} - (?:[0-9A-Fa-f]{{4}}-){{3}} [0-9A-Fa-f]{{12}} (?!\w) )
    | (?P<mac>  (?:[0-9A-Fa-f]{{2}}[:-]){{5,19}} [0-9A-Fa-f]{{2}} (?![\w:]) )
    | (?P<time> \d{{4}}-\d\d-\d\d (?: [T ] \d\d:\d\d (?: :\d\d (?: [.,]\d{{1,9}} )? )? (?: Z | [+-]\d\d:?\d\d )? )?
                (?!{_CHAR})
              | \d{{1,2}}:\d\d:\d\d (?: [.,]\d{{1,9}} )? (?![\w:]) )
    | (?P<pci>  (?:PCI[:-])? (?:[0-9A-Fa-f]{{4,8}}:)? [0-9A-Fa-f]{{2}}:[0-9A-Fa-f]{{2}} (?:\.[0-7])? (?![\w:]) )
    | (?P<ip6>  (?:[0-9A-Fa-f]{{1,4}}:){{7}} [0-9A-Fa-f]{{1,4}} (?!\w)
              | [0-9A-Fa-f]{{1,4}} (?::[0-9A-Fa-f]{{1,4}}){{0,6}} ::
                (?:[0-9A-Fa-f]{{1,4}} (?::[0-9A-Fa-f]{{1,4}}){{0,6}})? (?!\w) )
    | (?P<list> [A-Za-z][\w.-]* \[ \d+ (?:[,-]\d+)* \] (?: [\w.-]* \[ \d+ (?:[,-]\d+)* \] )* [\w.-]* )
    | (?P<word> {_CHAR}+ )
    )
    """,
    re.VERBOSE,
)

_EDGES: Final = "-._~"
_ATOMS: Final = re.compile(r"[._-]+")
_ADDRESS: Final = re.compile(r"(?<!\d)(\d{1,3})([._-])(\d{1,3})\2(\d{1,3})\2(\d{1,3})(?!\d)")
_MOST_DIGITS: Final = 9

# Numbers with a unit or an exponent, addresses of 32 bits, epochs, job steps, devices that every host numbers alike.
_SAFE_SHAPE: Final = re.compile(
    r"""
      \d{1,9} (?:\.\d{1,9})? (?: e[+-]?\d{1,3} | %? )
    | \d{1,6} (?:\.\d{1,6})?
      (?i: [num]?s(?:ec)? | min | [hdw] | [kmgtp]?i?b(?:ps)? | [kmg]?hz | [mk]?w | m?v | c | x | rd | th | st | nd )
    | 0x[0-9A-Fa-f]{1,8} | 0{4,12}[0-9A-Fa-f]{1,4}
    | 1\d{9}\.\d{1,9} | \d{1,9} (?:_\d{1,6})? \. (?:batch|extern|interactive)
    | nvme\d{1,2}n\d{1,2} (?:p\d{1,2})? | mlx[45]_\d{1,2} | sd[a-z]\d{0,2} | md\d{1,3} | eth\d | ib\d{1,2}
    | nvidia\d{1,2}
    """,
    re.VERBOSE,
)
_VERSION: Final = re.compile(r"(?P<numbers>\d{1,4}(?:\.\d{1,4})+)(?P<rest>(?:[._+~-][A-Za-z0-9]+)*)\Z")
_MOST_VERSION_DIGITS: Final = 16


@lru_cache(maxsize=1)
def vocabulary() -> frozenset[str]:
    """The words that text may show, in lower case."""
    text = files("aftershock.pipeline.pseudonyms").joinpath("vocabulary.txt").read_text("utf-8")
    return frozenset(word for line in text.splitlines() if not line.startswith("#") for word in line.split())


def is_harmless(word: str) -> bool:
    """Whether a word may be shown when nothing else is known about it.

    >>> [is_harmless(word) for word in ("NVRM", "79", "535.104.05", "train-07", "10.1.2.3")]
    [True, True, True, False, False]
    """
    if word.isascii() and (word.lower() in vocabulary() or (len(word) == 1 and word.isalnum())):
        return True
    if not word.isascii() or (_ADDRESS.search(word) and not _is_version(word)):
        return False
    if _SAFE_SHAPE.fullmatch(word) or _is_version(word):
        return True
    atoms = _ATOMS.split(word)
    if all(atom.isdigit() for atom in atoms):
        return sum(map(len, atoms)) <= _MOST_DIGITS
    return len(atoms) > 1 and all(len(atom) > 1 and atom.isalpha() and atom.lower() in vocabulary() for atom in atoms)


def _is_version(word: str) -> bool:
    """``5.15.0-1053-aws``, ``96.00.61.00.01``: not an address, nor anything with a word that is not known."""
    found = _VERSION.match(word)
    if found is None or sum(map(str.isdigit, word)) > _MOST_VERSION_DIGITS:
        return False
    groups = found["numbers"].split(".")
    # Four groups are an address; more are one with a port, unless a group is written as no number is.
    if len(groups) > 3 and not (len(groups) > 4 and any(len(group) > 1 and group[0] == "0" for group in groups)):
        return False
    rest = [atom for atom in re.split(r"[._+~-]", found["rest"]) if atom]
    return all(atom.isdigit() or atom.lower() in vocabulary() for atom in rest)


class TextRule:
    """Rewrites free text with what is known about names."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._words: dict[str, str] = {}
        # Names of several words, by their first word: they are looked for before single words.
        self._long: dict[str, list[str]] = defaultdict(list)
        for name in sorted(names.known_with_spaces(), key=len, reverse=True):
            first = _TOKEN.search(name)
            if first:
                self._long[first.group()].append(name)

    def __call__(self, text: str) -> str:
        """The text with every word that is not known to be harmless replaced."""
        if not self._long:
            return _TOKEN.sub(self._token, text)
        shown, at = [], 0
        while found := _TOKEN.search(text, at):
            name = next((n for n in self._long.get(found.group(), ()) if text.startswith(n, found.start())), None)
            shown.append(text[at : found.start()])
            at = found.start() + len(name) if name else found.end()
            shown.append(self._names.shown(self._names.kind_of(name) or "word", name) if name else self._token(found))
        return "".join([*shown, text[at:]])

    def labelled(self, label: str, text: str) -> str:
        """The value of a label, read with the name of the label."""
        found = _TOKEN.match(f"{label}={text}")
        if found and found["labelled"] == text:
            return self._named(text, "user" if _says_user(label) else "serial")
        return self(text)

    def _token(self, found: re.Match[str]) -> str:
        text, group = found.group(), found.lastgroup
        if group == "labelled":
            label, number = found["label"], found["labelled"]
            return _TOKEN.sub(self._token, label) + self._named(number, "user" if _says_user(label) else "serial")
        if group == "url":
            return self._named(text, "path")
        if group in ("uuid", "mac"):
            return self._named(text, "serial")
        if group == "ip6":
            return self._named(text, "host")
        if group == "list":
            return self._host_list(text)
        if group in ("plain", "word"):
            if text not in self._words:
                if len(self._words) >= _MOST_REMEMBERED:
                    self._words.clear()
                self._words[text] = self._word(text)
            return self._words[text]
        return text

    def _named(self, text: str, kind: Kind) -> str:
        """A word whose shape or label says what it is."""
        return self._names.shown(self._names.kind_of(text) or kind, text)

    def _word(self, text: str) -> str:
        if "/" in text:
            return self._path(text)
        core = text.strip(_EDGES)
        if not core:
            return text
        if not self._names.kind_of(core) and (kind := self._names.kind_of(text)):
            return self._names.shown(kind, text)
        begin = text.index(core)
        return text[:begin] + self._core(core) + text[begin + len(core) :]

    def _core(self, word: str) -> str:
        if kind := self._names.kind_of(word):
            return self._names.shown(kind, word)
        if re.fullmatch(r"\d{1,3}(?:\.\d{1,3}){3}", word):
            return self._names.shown("host", word)
        if is_harmless(word):
            return word
        return self._compound(word) or self._names.pseudonym("word", word)

    def _compound(self, word: str) -> str | None:
        """Names and words joined, ``slurmstepd-gpu004``; None if any part is neither."""
        parts = re.split(r"([._-]+)", word)
        if len(parts) == 1 or not any(self._names.kind_of(part) for part in parts[::2]):
            return None
        shown = [self._part(part) for part in parts[::2]]
        if None in shown:
            return None
        return "".join(part or "" for pair in zip(shown, [*parts[1::2], ""], strict=True) for part in pair)

    def _part(self, part: str) -> str | None:
        if kind := self._names.kind_of(part):
            return self._names.shown(kind, part)
        return part if len(part) > 1 and part.lower() in vocabulary() else None

    def _path(self, text: str) -> str:
        core = text.rstrip("-.")
        if kind := self._names.kind_of(core):
            return self._names.shown(kind, core) + text[len(core) :]
        # Two words with a stroke between them: read/write, 3/8, a relative path.
        if core.count("/") == 1 and core[0] not in "/.~" and core[-1] != "/":
            return (
                "/".join(self._core(part) if part.strip(_EDGES) else part for part in core.split("/"))
                + text[len(core) :]
            )
        if not core.strip("/.~-"):
            return text
        return self._names.shown("path", core) + text[len(core) :]

    def _host_list(self, text: str) -> str:
        head, bracket, rest = text.partition("[")
        try:
            hosts = expand_hosts(text, _MOST_HOSTS)
        except HostListError:
            return self._names.pseudonym("word", text)
        if len(hosts) == 1 and self._names.kind_of(hosts[0]) != "host":
            # slurmd[1234]: the number of a process.
            return _TOKEN.sub(self._token, head) + bracket + _TOKEN.sub(self._token, rest)
        if not self._names.hides("host") and all(self._names.kind_of(host) == "host" for host in hosts):
            return self._names.without_hidden(text)
        return ",".join(sorted(self._names.pseudonym("host", host) for host in hosts))


def _says_user(label: str) -> bool:
    return re.search(r"(?i)uid|gid|user|account|owner", label) is not None and "guid" not in label.lower()
