"""A real Slurm on this machine: its own munge, MariaDB, slurmdbd, slurmctld and a slurmd for each pretended host.

Everything lies in one folder and listens on 127.0.0.1 with ports of its own; nothing of the system's configuration is
read or changed. It has to be started by root, because slurmd is. Each daemon is ended by its own process id.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

DAEMONS: Final = ("munged", "mungekey", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd")
TOOLS: Final = ("sbatch", "scancel", "scontrol", "sinfo", "squeue", "sacct", "sacctmgr")
PACKAGES: Final = "slurmctld slurmd slurmdbd slurm-client munge mariadb-server"

# A host that does not answer is down after this; the least that slurmctld's checks resolve.
SLURMD_TIMEOUT_S: Final = 10

_SLURM_CONF: Final = """\
ClusterName=solar
SlurmctldHost={hostname}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={top}/munge.sock
CryptoType=crypto/munge
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd_port}
AccountingStoragePass={top}/munge.sock
AccountingStoreFlags=job_comment,job_script
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc={top}/jobcomp.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=2,bf_interval=2
ReturnToService=1
JobRequeue=1
SlurmdTimeout={timeout}
InactiveLimit=0
KillWait=2
MinJobAge=3600
StateSaveLocation={top}/state
SlurmctldPidFile={top}/slurmctld.pid
SlurmctldLogFile={top}/logs/slurmctld.log
SlurmdPidFile={top}/slurmd.%n.pid
SlurmdLogFile={top}/logs/slurmd.%n.log
SlurmdSpoolDir={top}/spool.%n
NodeName={list} NodeHostname={hostname} NodeAddr=127.0.0.1 Port=[{ports}] CPUs=2 RealMemory=500
PartitionName=train Nodes={list} Default=YES MaxTime=INFINITE State=UP
"""

_SLURMDBD_CONF: Final = """\
AuthType=auth/munge
AuthInfo=socket={top}/munge.sock
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={dbd_port}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={sql_port}
StorageUser=root
StorageLoc=slurm_acct
PidFile={top}/slurmdbd.pid
LogFile={top}/slurmdbd.log
"""


class NotStarted(Exception):
    """A daemon that does not come up: what it said."""


def missing() -> str | None:
    """Why no Slurm can be started here; None if one can."""
    absent = [name for name in (*DAEMONS, *TOOLS) if which(name) is None]
    if absent:
        return f"no Slurm on this machine (no {', '.join(absent)}): apt-get install {PACKAGES}"
    return None if os.geteuid() == 0 else "slurmd has to be started by root"


def which(name: str) -> str | None:
    """Where a program is; daemons lie in folders that are not in the path of every user."""
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin")))


def until(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait for something.

    Raises:
        TimeoutError: it did not come.
    """
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.25)


class Cluster:
    """``with Cluster(folder, hosts=4) as cluster:``: hosts gpu001 to gpu004 in one partition."""

    def __init__(self, top: Path, hosts: int) -> None:
        self.top = top
        self.hosts = [f"gpu{number:03d}" for number in range(1, hosts + 1)]
        self._started: list[subprocess.Popen[bytes]] = []
        self._slurmds: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {**os.environ, "SLURM_CONF": str(top / "slurm.conf"), "TZ": "UTC", "LC_ALL": "C.UTF-8"}

    def __enter__(self) -> Cluster:
        try:
            self._configure()
            self._start_all()
        except BaseException:
            self._stop_all()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stop_all()

    def tell(self, *command: object) -> str:
        """Run one of Slurm's tools. Returns what it prints.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        words = [which(str(command[0])) or str(command[0]), *map(str, command[1:])]
        done = subprocess.run(
            words, capture_output=True, text=True, env=self.environment, cwd=self.top / "work", timeout=60, check=False
        )
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, words, done.stdout, done.stderr)
        return done.stdout

    def submit(self, name: str, script: str, *options: str) -> str:
        """Submit a batch script. Returns the job id."""
        path = self.top / "work" / f"{name}.sh"
        path.write_text(f"#!/bin/sh\n{script}\n")
        return self.tell("sbatch", "--parsable", f"--job-name={name}", *options, path).strip()

    def state_of(self, job: str) -> str:
        """State of a job as the controller has it now."""
        return self.fields_of(job).get("JobState", "")

    def fields_of(self, job: str) -> Mapping[str, str]:
        """What ``scontrol show job`` says of a job."""
        words = self.tell("scontrol", "show", "job", job, "--oneliner").split()
        return dict(word.partition("=")[::2] for word in words if "=" in word)

    def wait_for(self, job: str, *states: str, seconds: float = 60) -> None:
        """Wait until a job is in one of the states."""
        until(lambda: self.state_of(job) in states, f"job {job} {' or '.join(states)}", seconds)

    def kill_slurmd(self, host: str) -> None:
        """A host dies: its slurmd is killed, without a word to the controller."""
        process = self._slurmds.pop(host)
        process.kill()
        process.wait()

    def start_slurmd(self, host: str) -> None:
        """A host comes up."""
        self._slurmds[host] = self._start("slurmd", "-D", "-N", host, "-f", self.top / "slurm.conf")

    def _configure(self) -> None:
        for name in ("logs", "state", "work", "db"):
            (self.top / name).mkdir(parents=True)
        os.chmod(self.top, 0o755)  # munge wants its socket to be reachable
        ports = free_ports(3 + len(self.hosts))
        first, last = ports[3], ports[3] + len(self.hosts) - 1
        words = {
            "top": self.top,
            "hostname": socket.gethostname(),
            "ctld_port": ports[0],
            "dbd_port": ports[1],
            "sql_port": ports[2],
            "ports": f"{first}-{last}",
            "list": f"gpu[001-{len(self.hosts):03d}]",
            "timeout": SLURMD_TIMEOUT_S,
        }
        self._sql_port = ports[2]
        (self.top / "slurm.conf").write_text(_SLURM_CONF.format(**words))
        dbd = self.top / "slurmdbd.conf"
        dbd.write_text(_SLURMDBD_CONF.format(**words))
        dbd.chmod(0o600)

    def _start_all(self) -> None:
        top = self.top
        self._run("mungekey", "--create", f"--keyfile={top}/munge.key")
        self._start(
            "munged", "--foreground", "--force", f"--key-file={top}/munge.key", f"--socket={top}/munge.sock",
            f"--pid-file={top}/munged.pid", f"--log-file={top}/munged.log", f"--seed-file={top}/munge.seed",
        )  # fmt: skip
        self._run(
            "mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={top}/db", "--skip-test-db",
            "--auth-root-authentication-method=normal",
        )  # fmt: skip
        self._start(
            "mariadbd", "--no-defaults", "--user=root", f"--datadir={top}/db", f"--socket={top}/db.sock",
            f"--port={self._sql_port}", "--bind-address=127.0.0.1", f"--pid-file={top}/mariadbd.pid",
        )  # fmt: skip
        until(lambda: (top / "munge.sock").exists() and (top / "db.sock").exists(), "munge and MariaDB")
        self._start("slurmdbd", "-D")
        self._until_works("sacctmgr", "--noheader", "show", "cluster")
        self._start("slurmctld", "-D", "-f", top / "slurm.conf")
        self._until_works("scontrol", "ping")
        for host in self.hosts:
            self.start_slurmd(host)
        until(lambda: self.tell("sinfo", "-h", "-N", "-o", "%t").split() == ["idle"] * len(self.hosts), "idle hosts")
        # The controller makes itself known to the accounting; jobs that start before it has are not recorded.
        until(lambda: "solar" in self.tell("sacctmgr", "--noheader", "--parsable2", "show", "cluster"), "accounting")

    def _until_works(self, *command: str) -> None:
        def works() -> bool:
            ended = next((process for process in self._started if process.poll() is not None), None)
            if ended is not None:
                raise NotStarted(f"{ended.args}: ended at once; see {self.top}/*.said")
            try:
                return "DOWN" not in self.tell(*command)
            except subprocess.CalledProcessError:
                return False

        until(works, " ".join(command))

    def _run(self, name: str, *arguments: object) -> None:
        command = [which(name) or name, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment, timeout=120, check=False)
        if done.returncode:
            raise NotStarted(f"{name}: {done.stdout}{done.stderr}")

    def _start(self, name: str, *arguments: object) -> subprocess.Popen[bytes]:
        command = [which(name) or name, *map(str, arguments)]
        with open(self.top / f"{name}.said", "ab") as said:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=self.environment
            )
        self._started.append(process)
        return process

    def _stop_all(self) -> None:
        """End the daemons in the opposite order, each by its own process, and what killed slurmds left behind."""
        for process in reversed(self._started):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        for pid in self._job_processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _job_processes(self) -> list[int]:
        """Processes that run with the configuration of this cluster: job steps whose slurmd is dead, and their jobs."""
        mine = f"SLURM_CONF={self.top}/slurm.conf".encode()
        found = []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            pid = int(environ.parent.name)
            try:
                if pid != os.getpid() and mine in environ.read_bytes().split(b"\0"):
                    found.append(pid)
            except OSError:
                continue
        return found


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 in a row that nobody listens on; below those that the kernel gives to clients."""
    for first in range(17_000 + os.getpid() % 1000 * 10, 30_000, count):
        held = []
        try:
            for port in range(first, first + count):
                listener = socket.socket()
                held.append(listener)
                listener.bind(("127.0.0.1", port))
            return list(range(first, first + count))
        except OSError:
            continue
        finally:
            for listener in held:
                listener.close()
    raise NotStarted("no free ports")
