"""Which hosts there were, and the exclusions that a list of allowed hosts makes of all others.

Backend.AI has no list of hosts to leave out: a request names the hosts that it may have, and every other host of its
resource group is left out. Who the others were is a matter of time: hosts join, leave and are down. Slurm has such a
list (``--exclude``), so that there a list of wanted hosts says nothing against the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from aftershock.pipeline.attempts import SLURM
from aftershock.schemas.ids import stable_id
from aftershock.schemas.sessions import Exclusion, Session
from aftershock.schemas.topology import Host

_Span = tuple[int | None, int | None]
_ALWAYS: Final[Sequence[_Span]] = ((None, None),)


class Roster:
    """Hosts by cluster and resource group, and when each was there.

    rows: of the table of hosts. configured: hosts that the configuration lists, of any cluster. seen: hosts that were
    seen at work, by cluster and resource group; they count where nothing else names hosts of the group. down: hosts
    that were out as a whole.
    """

    def __init__(
        self,
        rows: Iterable[Host],
        configured: Sequence[str] = (),
        seen: Iterable[tuple[str | None, str | None, str]] = (),
        down: Iterable[Exclusion] = (),
    ) -> None:
        self._groups: dict[tuple[str | None, str], dict[str, list[_Span]]] = defaultdict(lambda: defaultdict(list))
        self._all: dict[str | None, dict[str, list[_Span]]] = defaultdict(lambda: defaultdict(list))
        for row in rows:
            if row.host is None:
                continue
            span = row.valid_from, row.valid_to
            self._all[row.cluster][row.host].append(span)
            for pool in (row.partition or "").split(","):
                if pool:
                    self._groups[row.cluster, pool][row.host].append(span)
        self._configured = sorted(set(configured))
        self._seen: dict[tuple[str | None, str | None], set[str]] = defaultdict(set)
        for cluster, group, name in seen:
            self._seen[cluster, group].add(name)
        self._down: dict[str, list[_Span]] = defaultdict(list)
        for exclusion in down:
            if exclusion.host and exclusion.how == "down":
                self._down[exclusion.host].append((exclusion.start_time, exclusion.end_time))

    def alive(self, cluster: str | None, group: str | None, time: int) -> list[str]:
        """The hosts of a resource group at a time, in order; without any that are known, those seen at work."""
        hosts = [host for host, spans in self._named(cluster, group).items() if _covers(spans, time)]
        return sorted(host for host in hosts if not _covers(self._down.get(host, ()), time))

    def _named(self, cluster: str | None, group: str | None) -> Mapping[str, Sequence[_Span]]:
        if group is not None and (cluster, group) in self._groups:
            return self._groups[cluster, group]
        # Where groups are known, but not this one, a list of all hosts would name those of others.
        if self._configured:
            return dict.fromkeys(self._configured, _ALWAYS)
        if cluster in self._all and not any(name == cluster for name, _ in self._groups):
            return self._all[cluster]
        return dict.fromkeys(self._seen.get((cluster, group), ()), _ALWAYS)


def _covers(spans: Iterable[_Span], time: int) -> bool:
    return any((since is None or since <= time) and (until is None or time < until) for since, until in spans)


def complements(sessions: Iterable[Session], roster: Roster) -> list[Exclusion]:
    """A row for each host that a session with designated hosts left out, from its submit to its end."""
    found = []
    for session in sessions:
        start = session.submit_time if session.submit_time is not None else session.start_time
        if not session.designated_hosts or start is None or session.scheduler == SLURM:
            continue
        moment = session.start_time if session.start_time is not None else start
        # What it ran on it did not leave out, whatever its request says.
        kept = {*session.designated_hosts, *(session.hosts or ())}
        alive = roster.alive(session.cluster, session.partition, moment)
        found += [_left_out(session, host, start) for host in alive if host not in kept]
    return found


def _left_out(session: Session, host: str, start: int) -> Exclusion:
    how = "designated_complement"
    return Exclusion(
        exclusion_id=stable_id("x", session.cluster, host, how, start, session.session_id),
        cluster=session.cluster,
        host=host,
        start_time=start,
        end_time=session.end_time,
        how=how,
        by=session.user,
        session_id=session.session_id,
    )
