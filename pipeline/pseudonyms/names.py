"""Names and their pseudonyms: what is known to be a name, of which kind, and what stands for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, get_args

from aftershock.parsers.hosts import HostNames
from aftershock.pipeline.pseudonyms.key import Key

Kind = Literal["path", "host", "serial", "user", "cluster", "job", "word"]

# What ``--hide`` takes, and the kinds of names that each stands for. Jobs with a name for an id and words that are not
# known to be harmless are hidden in any case: they may hold a name of any kind.
HIDEABLE: Final[Mapping[str, tuple[Kind, ...]]] = {
    "users": ("user",),
    "hosts": ("host", "cluster"),
    "paths": ("path",),
    "serials": ("serial",),
}
_ALWAYS: Final[tuple[Kind, ...]] = ("job", "word")

# A name of several kinds is taken for the first of these.
_PRECEDENCE: Final[tuple[Kind, ...]] = get_args(Kind)

# Accounts and addresses that every cluster has: they name nobody, and tell an administrator from a user.
_EVERYBODY: Final = frozenset(
    {"root", "slurm", "slurmctld", "slurmd", "nobody", "system", "munge", "daemon", "kubelet"}
)
_ANYWHERE: Final = frozenset({"localhost", "127.0.0.1", "0.0.0.0", "::1", "::"})

_USER_WITH_ID: Final = re.compile(r"(?P<name>[^()]+)\((?P<id>[^()]+)\)\Z")
_MEMBER: Final = re.compile(r"(?P<host>.+?)(?P<gpu>/gpu[0-9]{1,3})?\Z")
_RANK: Final = re.compile(r"rank:[0-9]+\Z")
_JOB: Final = re.compile(r"[0-9]{1,18}(?:[_+.][0-9]{1,9})*(?:_?\[[0-9,%:-]*\])?\Z|\[[0-9,%:-]+\]\Z")
_PLACE: Final = re.compile(r"(?P<path>.*)(?P<offset>:[0-9]+)\Z", re.DOTALL)
_ID: Final = re.compile(r"(?P<kind>[a-z]{1,12}-)?(?P<digest>[0-9a-f]{16,64})\Z")
_ATOM: Final = re.compile(r"[^\W_]+")
_HOME: Final = re.compile(r"(?i)/(?:home|users)/(?P<owner>[^/:\s]+)")

# A name that is a part of another one has few parts itself; more would make long paths slow.
_MOST_ATOMS: Final = 8


class Names:
    """Everything that is known about names. Learn all of them first: text is read with what is known."""

    def __init__(self, key: Key, hide: tuple[str, ...], aliases: Mapping[str, str]) -> None:
        self._key = key
        self._hidden: frozenset[Kind] = frozenset((*_ALWAYS, *(kind for word in hide for kind in HIDEABLE[word])))
        self._hosts = HostNames(aliases)
        self._known: dict[str, Kind] = {}

    def hides(self, kind: Kind) -> bool:
        """Whether names of this kind are replaced."""
        return kind in self._hidden

    def learn(self, kind: Kind, printed: str) -> None:
        """Note a name of which a column or the configuration says what it is."""
        if kind == "user" and (both := _USER_WITH_ID.match(printed)):
            self.learn(kind, both["name"])
            self.learn(kind, both["id"])
            return
        if kind == "job" and _JOB.match(printed):
            return
        canonical = self._canonical(kind, printed)
        if canonical and not _is_common(kind, canonical):
            known = self._known.setdefault(canonical, kind)
            if _PRECEDENCE.index(kind) < _PRECEDENCE.index(known):
                self._known[canonical] = kind

    def kind_of(self, printed: str) -> Kind | None:
        """What a word of a text is known to be."""
        found = self._known.get(printed) or self._known.get(printed.strip().casefold())
        if found is None and ("." in printed or self._hosts.aliases):
            found = self._known.get(self._canonical("host", printed))
            # Only a host has a domain that may be left out.
            found = found if found == "host" else None
        return found

    def known_with_spaces(self) -> list[str]:
        """Names that are more than one word, as they were learned."""
        return [name for name in self._known if not re.fullmatch(r"[\w./~-]+", name)]

    def pseudonym(self, kind: Kind, printed: str) -> str:
        """What stands for a name. The digest does not depend on the kind: one name has one digest everywhere."""
        return f"{kind}-{self._key.digest(self._canonical(kind, printed))}"

    def shown(self, kind: Kind, printed: str) -> str:
        """A name as the result shows it."""
        if not printed or _is_common(kind, self._canonical(kind, printed)):
            return printed
        if kind == "user" and (both := _USER_WITH_ID.match(printed)):
            return f"{self.shown(kind, both['name'])}({self.shown(kind, both['id'])})"
        return self.pseudonym(kind, printed) if self.hides(kind) else self.without_hidden(printed)

    def member(self, printed: str) -> str:
        """A host, a GPU of a host, or a rank."""
        if _RANK.match(printed):
            return printed
        found = _MEMBER.match(printed)
        return self.shown("host", found["host"]) + (found["gpu"] or "") if found else printed

    def place(self, printed: str) -> str:
        """A path with an offset behind it."""
        found = _PLACE.match(printed)
        return self.shown("path", found["path"]) + found["offset"] if found else self.shown("path", printed)

    def job(self, printed: str) -> str:
        """A scheduler's id of a job: numbers stay."""
        return printed if _JOB.match(printed) else self.shown("job", printed)

    def id(self, printed: str) -> str | None:
        """An id or a digest, made anew with the key; None for what is none."""
        found = _ID.match(printed)
        if found is None:
            return None
        return (found["kind"] or "") + self._key.digest(f"id {printed}", len(found["digest"]))

    def without_hidden(self, printed: str) -> str:
        """A name that is shown, with hidden names within it replaced: a path with the name of a user."""
        if not self.hides("user"):
            return self._without_known(printed)
        shown, at = [], 0
        for home in _HOME.finditer(printed):
            shown += [self._without_known(printed[at : home.start("owner")]), self.shown("user", home["owner"])]
            at = home.end()
        return "".join([*shown, self._without_known(printed[at:])])

    def _without_known(self, printed: str) -> str:
        atoms = list(_ATOM.finditer(printed))
        shown, at, first = [], 0, 0
        while first < len(atoms):
            for last in range(min(first + _MOST_ATOMS, len(atoms)) - 1, first - 1, -1):
                begin, end = atoms[first].start(), atoms[last].end()
                kind = self.kind_of(printed[begin:end])
                if kind and self.hides(kind):
                    shown += [printed[at:begin], self.pseudonym(kind, printed[begin:end])]
                    at, first = end, last
                    break
            first += 1
        return "".join([*shown, printed[at:]])

    def _canonical(self, kind: Kind, printed: str) -> str:
        """One spelling for each name. Paths differ by case, nothing else does."""
        if kind == "path":
            return printed
        if kind == "host":
            return self._hosts.of(printed) or printed.casefold()
        return printed.strip().casefold()


def _is_common(kind: Kind, canonical: str) -> bool:
    if kind == "user":
        return canonical in _EVERYBODY or canonical == "0"
    return kind == "host" and canonical in _ANYWHERE
