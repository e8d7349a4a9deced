"""File systems behind the network: servers that do not answer, and when they answer again.

    nfs: server 10.11.0.9 not responding, still trying
    nfs: server 10.11.0.9 OK
    Lustre: scratch-OST0004-osc-ffff: Connection to scratch-OST0004 (at 10.0.0.5@o2ib) was lost; in progress ...
    Lustre: scratch-OST0004-osc-ffff: Connection restored to scratch-OST0004 (at 10.0.0.5@o2ib)
    mmfs: [E] Node 172.17.0.101 (nsd01) is being expelled ...

``settle`` puts the duration of an outage, in seconds, on the row of its end. The VAST client is a Linux NFS client and
says the same words. GPFS (Storage Scale) speaks through its own daemon.
https://github.com/torvalds/linux/blob/master/net/sunrpc/clnt.c, https://wiki.lustre.org/Main_Page,
https://www.ibm.com/docs/en/storage-scale
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.formats import Line, Sample, expect
from aftershock.parsers.kernel.rules import ECHO, Match, Rule, event, text_of
from aftershock.parsers.patterns import later
from aftershock.schemas.events import NodeEvent

# An outage begins or ends here; Lustre's requests time out when a connection is lost.
BEGINS, ENDS, REQUEST = "outage", "outage_over", "outage~"

_NFS: Final = "https://github.com/torvalds/linux/blob/master/net/sunrpc/clnt.c"
_NFS4: Final = "https://github.com/torvalds/linux/blob/master/fs/nfs/nfs4state.c"
_LUSTRE: Final = "https://doc.lustre.org/lustre_manual.xhtml"
_SCALE: Final = "https://www.ibm.com/docs/en/storage-scale/5.2.0?topic=logs-gpfs-log"
_CEPH: Final = "https://github.com/torvalds/linux/tree/master/fs/ceph"

# The daemon of GPFS. Its own log has another clock and is a format of its own.
SCALE: Final = frozenset({"mmfs", "mmfsd", "mmfs64"})

assert REQUEST == BEGINS + ECHO

_SERVER: Final = rb"(?:nfs|NFS|nfs4|nfsv4|lockd|mount): server (?P<device>\S{1,255}) "
_SERVERS: Final = (
    b"nfs: server ",
    b"NFS: server ",
    b"nfs4: server ",
    b"nfsv4: server ",
    b"lockd: server ",
    b"mount: server ",
)
# Lustre: 2449:0:(client.c:2141:ptlrpc_expire_one_request()) ..., LustreError: 11-0: ...
_LUSTRE_HEAD: Final = (
    rb"(?:Lustre|LNet)(?:Error)?: "
    rb"(?:\d{1,10}:\d{1,10}:\([\w.-]{1,64}:\d{1,6}:\w{1,64}\(\)\) |[0-9a-f]{1,4}-[0-9a-f]{1,2}: )?"
)
_NID: Final = re.compile(rb"[^@\s]{1,64}@[^@\s:;]{1,32}\Z")
_LOST_WORDS: Final = re.compile(
    rb"(?i)expel|lease|\blost\b|lost membership|time[d ]{0,2}-?out|connect|unreachable|not respond|deadman|quorum"
)
_ADDRESS: Final = re.compile(rb"\b\d{1,3}(?:\.\d{1,3}){3}\b")


def _target(found: Match, kind: str) -> NodeEvent:
    nid = found["nid"] or found["via"]
    device = found["target"] if nid is None or nid == found["target"] else found["target"] + b" " + nid
    return NodeEvent(kind=kind, device=text_of(device))


def _request(found: Match, _line: Line) -> NodeEvent:
    """``o250->MGC10.0.0.5@o2ib@10.0.0.5@o2ib``: the target and the address of its server."""
    whole = found["target"] or found["peer"]
    nid = _NID.search(whole) if whole else None
    target = whole[: nid.start()].rstrip(b"@") if nid else whole
    device = target + b" " + nid.group() if nid and target else whole
    return NodeEvent(kind="fs_timeout", device=text_of(device))


def _scale(found: Match, _line: Line) -> NodeEvent:
    said = found["said"]
    address = _ADDRESS.search(said[:1000])
    return NodeEvent(
        kind="fs_timeout" if _LOST_WORDS.search(said[:1000]) else "fs_error",
        device=text_of(b"gpfs " + address.group() if address else b"gpfs"),
        severity="fatal" if found["level"] == b"X" else None,
    )


RULES: Final = (
    Rule(
        words=(b" not responding",),
        shape=later(_SERVER + rb"not responding(?:, (?:timed out|still trying))?\.?\s*\Z"),
        row=event("nfs_not_responding"),
        mark=BEGINS,
        scan=_SERVERS,
    ),
    Rule(
        words=(b" OK",),
        shape=later(_SERVER + rb"OK\s*\Z"),
        row=event("nfs_ok"),
        mark=ENDS,
        scan=_SERVERS,
    ),
    Rule(
        words=(b" on NFSv4 server ",),
        shape=later(
            rb"NFS: state manager(?:: .{1,80}?| [\w ]{1,80}?)? failed on NFSv4 server (?P<device>\S{1,255}) "
            rb"with error (?P<value>\d{1,6})"
        ),
        row=event("fs_error", unit="errno"),
    ),
    Rule(
        words=(b" was lost; in progress operations",),
        shape=later(
            _LUSTRE_HEAD + rb"\S{1,200}: Connection to (?:service )?(?P<target>\S{1,128}) "
            rb"(?:\(at (?P<nid>[^\s)]{1,80})\)|via nid (?P<via>\S{1,80})) was lost; in progress operations"
        ),
        row=lambda found, _line: _target(found, "fs_timeout"),
        mark=BEGINS,
    ),
    Rule(
        words=(b": Connection restored to ",),
        shape=later(
            _LUSTRE_HEAD + rb"\S{1,200}: Connection restored to (?:service )?(?P<target>\S{1,128}?)"
            rb"(?: \(at (?P<nid>[^\s)]{1,80})\)| using nid (?P<via>\S{1,80}))?\.?\s*\Z"
        ),
        row=lambda found, _line: _target(found, "fs_restored"),
        mark=ENDS,
    ),
    Rule(
        words=(b"@@@ Request sent has ",),
        shape=later(
            _LUSTRE_HEAD + rb"@@@ Request sent has (?:timed out|failed due to network error)"
            rb"(?:.{0,400}?->(?P<target>\S{1,200}?):\d{1,6}/\d)?(?P<peer>)"
        ),
        row=_request,
        mark=REQUEST,
    ),
    Rule(
        words=(b"Timed out tx", b"Timed out RDMA"),
        shape=later(
            _LUSTRE_HEAD + rb"Timed out (?:tx|RDMA)\b(?:[^@]{0,80}?(?P<peer>[^\s@]{1,64}@[^\s:;]{1,32}))?(?P<target>)"
        ),
        row=_request,
        mark=REQUEST,
    ),
    Rule(
        words=(b"This client was evicted by ",),
        shape=later(_LUSTRE_HEAD + rb"\S{1,200}: This client was evicted by (?P<device>[^\s;]{1,128}); in progress"),
        row=event("fs_error"),
    ),
    # The names are misspelt in some releases.
    Rule(
        words=(b"guration from log ",),
        shape=later(
            _LUSTRE_HEAD + rb"(?P<device>\S{1,128}): (?:The c|C)onfi?guration from log '?[^\s']{1,128}'? failed "
            rb"(?:from MGS )?\(?-(?P<value>\d{1,4})\b"
        ),
        row=event("fs_error", unit="errno"),
        scan=(b"LustreError: ",),
    ),
    Rule(
        words=(b"nable to mount ",),
        shape=later(
            _LUSTRE_HEAD
            + rb"(?:llite: )?[Uu]nable to mount (?:<unknown>|(?P<device>\S{1,128})): rc = -(?P<value>\d{1,4})\b"
        ),
        row=event("fs_error", unit="errno"),
        scan=(b"LustreError: ",),
    ),
    Rule(
        words=(b" to node ",),
        shape=later(
            _LUSTRE_HEAD
            + rb"\S{1,200}: operation \w{1,40} to node (?P<device>\S{1,80}) failed: rc = -(?P<value>\d{1,4})\b"
        ),
        row=event("fs_error", unit="errno"),
        scan=(b"LustreError: ",),
    ),
    Rule(
        words=(b"GPFS Deadman Switch timer",),
        shape=later(rb"(?:mmfs: )?GPFS Deadman Switch timer(?: \[\d{1,6}\])? has expired"),
        row=event("fs_timeout", device="gpfs"),
    ),
    Rule(
        words=(b"[E] ", b"[X] "),
        shape=later(rb"\[(?P<level>[EX])\] (?P<said>.*)", re.DOTALL),
        row=_scale,
        writers=SCALE,
        scan=(b"mmfs: [", b"mmfs[", b"mmfsd[", b"mmfs64[", b'"mmfs"', b'"mmfsd"', b'"mmfs64"'),
    ),
    Rule(
        words=(b"lease renewal is overdue",),
        shape=later(rb"\[[A-Z]\] Node (?P<address>\S{1,64}) \([^)\s]{1,255}\) lease renewal is overdue\b"),
        row=lambda found, _line: NodeEvent(kind="fs_timeout", device=text_of(b"gpfs " + found["address"])),
        writers=SCALE,
    ),
    Rule(
        words=(b" hung", b"session lost, hunting for new "),
        shape=later(
            rb"ceph: (?:\[[0-9a-f -]{1,60}\]: )?(?P<device>mds\d{1,4}) hung\s*\Z"
            rb"|libceph: (?P<monitor>(?:mon|mds)\d{1,4}) \S{1,100} session lost, hunting for new "
        ),
        row=lambda found, _line: NodeEvent(kind="fs_timeout", device=text_of(found["device"] or found["monitor"])),
        mark=BEGINS,
    ),
    Rule(
        words=(b" came back",),
        shape=later(rb"ceph: (?:\[[0-9a-f -]{1,60}\]: )?(?P<device>mds\d{1,4}) came back\s*\Z"),
        row=event("fs_restored"),
        mark=ENDS,
    ),
)

_OUTAGE: Final = "NFS servers (also of VAST): the end of an outage has its duration"
_LUSTRE_TITLE: Final = "Lustre clients"

SAMPLES: Final = (
    Sample(
        "[Tue Mar  3 07:15:42 2026] nfs: server 10.11.0.9 not responding, still trying\n"
        "[Tue Mar  3 07:16:12 2026] nfs: server 10.11.0.9 OK\n"
        "[Tue Mar  3 07:17:00 2026] nfs: server 10.11.0.7 not responding, timed out\n",
        (
            expect("node_events", kind="nfs_not_responding", device="10.11.0.9", value=None),
            expect("node_events", kind="nfs_ok", device="10.11.0.9", value=30.0, unit="s"),
            expect("node_events", kind="nfs_not_responding", device="10.11.0.7"),
        ),
        _OUTAGE,
        _NFS,
    ),
    Sample(
        "[ 77.100001] NFS: state manager: lease expired failed on NFSv4 server vast-1 with error 10021\n",
        (expect("node_events", kind="fs_error", device="vast-1", value=10021.0, unit="errno"),),
        "NFS 4 state managers",
        _NFS4,
    ),
    Sample(
        "Mar  3 07:15:36 gpu021 kernel: Lustre: 3315:0:(client.c:2116:ptlrpc_expire_one_request()) @@@ Request sent "
        "has timed out for slow reply: [sent 1772522100/real 1772522100]  req@ffff880e x1698/t0(0) "
        "o400->scratch-OST0004-osc-ffff880e@10.0.0.5@o2ib:28/4 lens 224/224 e 0 to 1 dl 1 ref 1\n"
        "Mar  3 07:15:36 gpu021 kernel: Lustre: scratch-OST0004-osc-ffff880e: Connection to scratch-OST0004 (at "
        "10.0.0.5@o2ib) was lost; in progress operations using this service will wait for recovery to complete\n"
        "Mar  3 07:16:36 gpu021 kernel: Lustre: scratch-OST0004-osc-ffff880e: Connection restored to scratch-OST0004 "
        "(at 10.0.0.5@o2ib)\n",
        (
            expect("node_events", kind="fs_timeout", device="scratch-OST0004 10.0.0.5@o2ib"),
            expect("node_events", kind="fs_restored", device="scratch-OST0004 10.0.0.5@o2ib", value=60.0, unit="s"),
        ),
        _LUSTRE_TITLE,
        _LUSTRE,
    ),
    Sample(
        "[ 77.100001] LustreError: 167-0: scratch-MDT0000-mdc-ffff880e: This client was evicted by scratch-MDT0000; in "
        "progress operations using this service will fail.\n"
        "[ 88.100001] LustreError: 11-0: scratch-MDT0000-mdc-ffff880e: operation obd_ping to node 10.0.0.6@o2ib "
        "failed: rc = -107\n"
        "[ 99.100001] LNetError: 2431:0:(o2iblnd_cb.c:3174:kiblnd_check_conns()) Timed out tx for 10.0.0.7@o2ib: 12 "
        "seconds\n",
        (
            expect("node_events", kind="fs_error", device="scratch-MDT0000"),
            expect("node_events", kind="fs_error", device="10.0.0.6@o2ib", value=107.0, unit="errno"),
            expect("node_events", kind="fs_timeout", device="10.0.0.7@o2ib"),
        ),
        _LUSTRE_TITLE,
        _LUSTRE,
    ),
    Sample(
        "[ 77.100001] LustreError: 15c-8: MGC10.0.0.5@o2ib: The configuration from log 'scratch-client' failed (-5). "
        "This may be the result of communication errors between this node and the MGS, a bad configuration.\n"
        "[ 88.100001] LustreError: 26155:0:(super25.c:187:lustre_fill_super()) llite: Unable to mount scratch-client: "
        "rc = -5\n",
        (
            expect("node_events", kind="fs_error", device="MGC10.0.0.5@o2ib", value=5.0, unit="errno"),
            expect("node_events", kind="fs_error", device="scratch-client", value=5.0),
        ),
        _LUSTRE_TITLE,
        _LUSTRE,
    ),
    Sample(
        "Mar  3 07:15:42 gpu021 mmfs: [E] Node 172.17.0.101 (nsd01) is being expelled because of an expired lease.\n"
        "Mar  3 07:15:44 gpu021 mmfs[4242]: [X] File System scratch unmounted by the system with return code 5\n"
        "Mar  3 07:15:49 gpu021 kernel: GPFS Deadman Switch timer [0] has expired; IOs in progress.\n",
        (
            expect("node_events", kind="fs_timeout", device="gpfs 172.17.0.101", trust=None),
            expect("node_events", kind="fs_error", device="gpfs", severity="fatal"),
            expect("node_events", kind="fs_timeout", device="gpfs", trust="kernel"),
        ),
        "GPFS (Storage Scale)",
        _SCALE,
    ),
    Sample(
        "Mar  3 07:15:42 gpu021 mmfs: [N] Node 172.17.0.102 (gpu021) lease renewal is overdue.\n",
        (expect("node_events", kind="fs_timeout", device="gpfs 172.17.0.102", trust=None, host="gpu021"),),
        "GPFS (Storage Scale)",
        _SCALE,
    ),
    Sample(
        "[ 77.100001] ceph: mds0 hung\n[ 99.600001] ceph: mds0 came back\n",
        (
            expect("node_events", kind="fs_timeout", device="mds0"),
            expect("node_events", kind="fs_restored", device="mds0", value=22.5, unit="s"),
        ),
        "CephFS clients",
        _CEPH,
    ),
)

NON_SAMPLES: Final = (
    "[ 77.100001] Lustre: 2449:0:(client.c:2141:ptlrpc_expire_one_request()) Skipped 24 previous similar messages\n",
    "[ 77.100001] Lustre: scratch-OST0004: Client 0c5e (at 10.0.0.9@o2ib) reconnecting\n",
    "[ 77.100001] nfs: server 10.11.0.9 not responding to our questions, says the manual\n",
    "[ 77.100001] FS-Cache: Netfs 'nfs' registered for caching\n",
    "[ 77.100001] NFS: Registering the id_resolver key type\n",
    "Mar  3 07:15:42 gpu021 automount[7]: nfs: server 10.11.0.9 not responding, timed out\n",
    "Mar  3 07:15:42 gpu021 haproxy[7]: server web-1 OK\n",
    "backend: server web-1 OK\n",
    "Mar  3 07:15:42 gpu021 mmfs: [N] Node 172.17.0.101 (nsd01) lease renewal is in time.\n",
    "Mar  3 07:15:42 gpu021 trainer[7]: [N] Node 172.17.0.101 (nsd01) lease renewal is overdue.\n",
    "Mar  3 07:15:42 gpu021 trainer[7]: [E] the lease has expired\n",
    "grep 'nfs: server 10.11.0.9 not responding' /var/log/messages\n",
    "[ 77.100001] libceph: mon0 (1)10.0.0.1:6789 session established\n",
)
