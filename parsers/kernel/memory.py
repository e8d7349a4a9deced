"""Kills by the kernel when memory runs out: the victim, not whoever asked for memory.

    python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=999
    oom-kill:constraint=CONSTRAINT_MEMCG,...,task_memcg=/kubepods/burstable/pod<uid>/<id>,task=python3,pid=4242,uid=0
    Memory cgroup out of memory: Killed process 4242 (python3) total-vm:91022336kB, anon-rss:60123456kB, ...
    oom_reaper: reaped process 4242 (python3), now anon-rss:0kB, ...

Older kernels print ``Task in /cgroup killed as a result of limit of ...`` and ``Kill process 4242 (python3) score 900
or sacrifice child`` before ``Killed process``. The row is that of the kill, with the resident anonymous memory in kB
as its value; ``settle`` adds the cgroup, and the pod that stands in its name, from the lines before. What systemd says
of a kill is a row only where the words of the kernel are not there.
https://github.com/torvalds/linux/blob/master/mm/oom_kill.c
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.formats import Line, Sample, expect
from aftershock.parsers.kernel.rules import ECHO, TASK, Match, Rule, event, text_of
from aftershock.parsers.patterns import later
from aftershock.schemas.events import NodeEvent

# Marks by which ``settle`` knows the parts of a kill.
KILLED, CHOSEN, LIMITED = "oom_killed", "oom_chosen", "oom_limited"

_URL: Final = "https://github.com/torvalds/linux/blob/master/mm/oom_kill.c"

# In the name of a slice the dashes of a pod's uid are written as underscores; static pods have a hash instead.
_POD: Final = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?![0-9a-f])")


def _place(cgroup: bytes) -> str | None:
    """A cgroup, and the uid of the pod that it belongs to."""
    name = text_of(cgroup)
    pod = _POD.search(name) if name else None
    return name if pod is None else f"{name} pod {pod[1].replace('_', '-')}"


def _chosen(found: Match, _line: Line) -> NodeEvent | None:
    """The fields are cut at their names from behind: a task may hold commas."""
    rest = found["rest"]
    before, has_pid, pid = rest.rpartition(b",pid=")
    head, has_task, task = before.rpartition(b",task=")
    _, has_cgroup, cgroup = head.partition(b",task_memcg=")
    number = pid.partition(b",")[0]
    if not (has_pid and has_task and has_cgroup and number.isdigit() and len(number) <= 10):
        return None
    return NodeEvent(kind="oom_kill", device=_place(cgroup), pid=int(number), process=text_of(task))


def _limited(found: Match, _line: Line) -> NodeEvent:
    return NodeEvent(kind="oom_kill", device=_place(found["cgroup"]))


RULES: Final = (
    Rule(
        words=(b"Killed process ",),
        shape=later(
            rb"(?:(?:Memory cgroup )?[Oo]ut of memory(?: \(oom_kill_allocating_task\))?: )?"
            rb"Killed process (?P<pid>\d{1,10}),?(?: UID \d{1,10},)? \("
            + TASK
            + rb"\),?(?: UID \d{1,10},)? total-vm:\d{1,15}kB(?:, anon-rss:(?P<value>\d{1,15})kB)?"
        ),
        row=event("oom_kill", unit="kB"),
        mark=KILLED,
    ),
    Rule(
        words=(b"Killed process ",),
        shape=later(
            rb"(?:Memory cgroup )?[Oo]ut of memory: Killed process (?P<pid>\d{1,10}),? \(" + TASK + rb"\)\.?\s*\Z"
        ),
        row=event("oom_kill"),
        mark=KILLED,
    ),
    Rule(
        words=(b"oom-kill:constraint=",),
        shape=later(rb"oom-kill:constraint=CONSTRAINT_\w{1,20}(?P<rest>,.*,uid=\d{1,10})\s*\Z", re.DOTALL),
        row=_chosen,
        mark=CHOSEN,
    ),
    Rule(
        words=(b" killed as a result of limit of ",),
        shape=later(rb"(?:Memory cgroup out of memory: )?Task in (?P<cgroup>/\S*) killed as a result of limit of "),
        row=_limited,
        mark=LIMITED,
    ),
    Rule(
        words=(b" due to memory pressure", b" due to memory used"),
        shape=later(rb"Killed (?P<device>/\S{1,1000}) due to memory (?:pressure|used)\b"),
        row=event("oom_kill"),
        writers=frozenset({"systemd-oomd"}),
    ),
    Rule(
        words=(b"A process of this unit has been killed by the OOM killer",),
        shape=later(
            rb"(?P<device>[\w@.\\:-]{1,255}\.(?:service|scope|slice)): "
            rb"A process of this unit has been killed by the OOM killer\.?\s*\Z"
        ),
        row=event("oom_kill"),
        mark=KILLED + ECHO,
        writers=frozenset({"systemd"}),
    ),
)

_TITLE: Final = "Out of memory: the victim of a kill and its cgroup"
_UID: Final = "0b8d2a3c-1f6e-4c55-9a70-5d1e2f3a4b5c"

SAMPLES: Final = (
    Sample(
        "Mar  3 07:17:00 gpu021 kernel: python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, "
        "oom_score_adj=999\n"
        "Mar  3 07:17:00 gpu021 kernel: oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=cri-8d.scope,"
        f"mems_allowed=0-1,oom_memcg=/kubepods.slice,task_memcg=/kubepods.slice/kubepods-pod{_UID.replace('-', '_')}"
        ".slice/cri-8d.scope,task=pt_data_worker,pid=40112,uid=1000\n"
        "Mar  3 07:17:00 gpu021 kernel: Memory cgroup out of memory: Killed process 40112 (pt_data_worker) "
        "total-vm:91022336kB, anon-rss:60123456kB, file-rss:1024kB, shmem-rss:0kB, UID:1000 pgtables:160kB "
        "oom_score_adj:999\n"
        "Mar  3 07:17:02 gpu021 kernel: oom_reaper: reaped process 40112 (pt_data_worker), now anon-rss:0kB\n",
        (
            expect(
                "node_events",
                kind="oom_kill",
                pid=40112,
                process="pt_data_worker",
                value=60123456.0,
                unit="kB",
                device=f"/kubepods.slice/kubepods-pod{_UID.replace('-', '_')}.slice/cri-8d.scope pod {_UID}",
                trust="kernel",
            ),
        ),
        _TITLE,
        _URL,
    ),
    Sample(
        f"[ 77.100001] Task in /kubepods/burstable/pod{_UID}/4f killed as a result of limit of /kubepods\n"
        "[ 77.100009] Memory cgroup out of memory: Kill process 4011 (java) score 1912 or sacrifice child\n"
        "[ 77.100019] Killed process 4012 (java), UID 991, total-vm:5324256kB, anon-rss:2143388kB, file-rss:0kB\n",
        (
            expect(
                "node_events",
                kind="oom_kill",
                pid=4012,
                process="java",
                value=2143388.0,
                device=f"/kubepods/burstable/pod{_UID}/4f pod {_UID}",
            ),
        ),
        _TITLE,
        _URL,
    ),
    Sample(
        "[ 77.100001] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
        "task_memcg=/user.slice,task=a,b,pid=71,uid=0\n",
        (expect("node_events", kind="oom_kill", pid=71, process="a,b", device="/user.slice", value=None),),
        _TITLE,
        _URL,
    ),
    Sample(
        "Mar  3 07:17:00 gpu021 kernel: Out of memory: Killed process 4011 (httpd).\n",
        (expect("node_events", kind="oom_kill", pid=4011, process="httpd", value=None, unit=None),),
        _TITLE,
        _URL,
    ),
    Sample(
        "Mar  3 07:17:00 gpu021 systemd-oomd[900]: Killed /system.slice/train.service due to memory pressure for "
        "/system.slice being 71.22% > 60.00% for > 20s with reclaim activity\n",
        (expect("node_events", kind="oom_kill", device="/system.slice/train.service", trust=None),),
        "Out of memory: a kill by systemd-oomd",
        "https://www.freedesktop.org/software/systemd/man/latest/systemd-oomd.service.html",
    ),
    Sample(
        "Mar  3 07:17:00 gpu021 systemd[1]: slurmd.service: A process of this unit has been killed by the OOM "
        "killer.\n",
        (expect("node_events", kind="oom_kill", device="slurmd.service", pid=None, host="gpu021", trust=None),),
        "Out of memory: what systemd says, where the kernel's words are not there",
        "https://www.freedesktop.org/software/systemd/man/latest/systemd.service.html#OOMPolicy=",
    ),
)

NON_SAMPLES: Final = (
    "[ 77.100001] python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n",
    "[ 77.100001] Out of memory: Kill process 4011 (python3) score 912 or sacrifice child\n",
    "[ 77.100001] oom_reaper: reaped process 4011 (python3), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB\n",
    "[ 77.100001] Tasks in /slurm/uid_1000 are going to be killed due to memory.oom.group set\n",
    "[ 77.100001] Task in /docker/4f killed as a result of limit of /docker/4f\n",
    "Mar  3 07:17:00 gpu021 launcher[7]: Killed process 4011 (python3) total-vm:1kB, anon-rss:1kB\n",
    "Killed process 4011 (python3) because it was idle\n",
    "The kernel says Out of memory: Killed process 4011 (python3) total-vm:1kB, what now?\n",
    "  - match: 'Killed process 4011 (python3) total-vm:1kB'\n",
    "Mar  3 07:17:00 gpu021 systemd[1]: train.service: Failed with result 'oom-kill'.\n",
    "Mar  3 07:17:00 gpu021 trainer[7]: x.service: A process of this unit has been killed by the OOM killer.\n",
    "[ 77.100001] [  4011]  1000  4011 22755584 15030864 180355072        0           999 python3\n",
)
