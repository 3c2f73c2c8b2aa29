"""A real Slurm of Debian's packages on this machine: munge, one controller, and node daemons that all run here.

Everything is under one folder and ends with `stop`. It needs root (slurmd starts jobs as their users) and the packages of
`REQUIRED`; `missing()` says what is not there. Nodes have GPUs that are device nodes without a driver, so that Slurm counts them
and sets CUDA_VISIBLE_DEVICES. Jobs are tracked by process group and not by cgroup, which a container seldom lets a test write.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

REQUIRED = ("slurmctld", "slurmd", "sbatch", "munged")
_JOBS_END_WITHIN_S = 30.0
FOR_ACCOUNTS = ("slurmdbd", "mariadbd", "mariadb-install-db")


def missing(*, accounts: bool = False) -> str | None:
    """Why no cluster can be started here; None if one can. With `accounts` it needs a database too."""
    for names, packages in ((REQUIRED, "slurm-wlm"), (FOR_ACCOUNTS if accounts else (), "slurmdbd mariadb-server")):
        if absent := [name for name in names if _program(name) is None]:
            return f"{', '.join(absent)} not found: apt-get install {packages}"
    return None if os.geteuid() == 0 else "a Slurm of one's own needs root"


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _claimed() -> socket.socket:
    """A bound socket, behind whose port a hundred are one cluster's as long as it is open."""
    for port in range(28016, 32000, 100):
        claim = socket.socket()
        with suppress(OSError):
            claim.bind(("127.0.0.1", port))
            return claim
        claim.close()
    raise AssertionError("there are forty clusters here")


@dataclass
class SlurmCluster:
    """`nodes` have the names n0, n1, ...; each has `cpus` and `gpus`, each of which is `shards` for jobs that ask for a part.

    Slurm writes ended jobs to jobcomp.log, and the GPUs of each job to gpus.log. With `accounts` jobs need one: there are `lab`,
    which is root's, and `spent`, which has no GPU-minutes left.
    """

    folder: Path
    nodes: int = 2
    cpus: int = 8
    gpus: int = 4
    shards: int = 0
    accounts: bool = False
    _claim: socket.socket = field(default_factory=_claimed)
    _daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """What a command of Slurm needs to reach this cluster."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": os.environ["PATH"] + ":/usr/sbin"}

    @property
    def port(self) -> int:
        """The controller's; those of the nodes follow."""
        return int(self._claim.getsockname()[1]) + 1

    @property
    def names(self) -> list[str]:
        """The names of the nodes."""
        return [f"n{number}" for number in range(self.nodes)]

    def start(self, within_s: float = 30.0) -> None:
        """Start all daemons and wait until every node is idle."""
        for name in ("state", "spool", "log", "munge"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        self._start_munge()
        self._write_settings()
        if self.accounts:
            self._start_slurmdbd()
        self._daemon("slurmctld", "slurmctld", "-D")
        if self.accounts:
            self._add_accounts()
        for name in self.names:
            (self.folder / "spool" / name).mkdir(exist_ok=True)
            self._start_slurmd(name)
        self._wait_for_nodes(within_s)

    def run(self, *command: str, check: bool = True, **options: object) -> str:
        """The standard output of a command of Slurm, such as `squeue`."""
        done = subprocess.run(
            command,
            env={**os.environ, **self.environment},
            text=True,
            capture_output=True,
            check=False,
            **options,  # type: ignore[call-overload]
        )
        assert not check or done.returncode == 0, f"{command}: {done.stderr}"
        return str(done.stdout)

    def kill_node(self, name: str, also: Collection[str] = ()) -> None:
        """End a node at once, as if it had lost its power: its daemon and steps, and all processes whose environment or command
        names one of `also`, such as the folder of a pilot that runs there."""
        daemon = self._daemons.pop(f"slurmd-{name}")
        pids = [daemon.pid, *_naming([self._mark(name), *also])]
        # All stop before the first ends: none of them sees another one end.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        daemon.wait()

    def start_node(self, name: str, within_s: float = 60.0) -> None:
        """Start the daemon of a node, and wait until Slurm gives it jobs again."""
        self._start_slurmd(name)
        self._wait_for_node(name, within_s)

    def hide(self, name: str, *folders: Path) -> None:
        """Let a node not see these folders from now on, as one that does not share them."""
        self.kill_node(name)
        mounts = "".join(f"mount -t tmpfs none {folder} && " for folder in folders)
        self._start_slurmd(name, "unshare", "--mount", "sh", "-c", f'{mounts}exec "$@"', "sh")
        self._wait_for_node(name)

    def restart_controller(self, away_s: float) -> None:
        """Kill the controller, and start it again after a while."""
        daemon = self._daemons.pop("slurmctld")
        daemon.kill()
        daemon.wait()
        time.sleep(away_s)
        self._daemon("slurmctld", "slurmctld", "-D")
        _until(lambda: self.run("scontrol", "ping", check=False).count(" UP"), 60, "the controller did not come back")

    def stop(self) -> None:
        """End all jobs and daemons."""
        self.run("scancel", f"--user={pwd.getpwuid(os.geteuid()).pw_name}", "--quiet", check=False)
        # A node whose daemon ends first leaves the processes of its jobs running.
        until = time.monotonic() + _JOBS_END_WITHIN_S
        while self.run("squeue", "--noheader", check=False).strip() and time.monotonic() < until:
            time.sleep(0.2)
        for daemon in reversed(self._daemons.values()):
            daemon.terminate()
        for daemon in self._daemons.values():
            try:
                daemon.wait(60)
            except subprocess.TimeoutExpired:
                daemon.kill()
        self._claim.close()

    def _start_munge(self) -> None:
        folder = self.folder / "munge"
        key = folder / "key"
        if not key.exists():
            key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        folder.chmod(0o755)
        socket, files = folder / "socket", [f"--{name}-file={folder / name}" for name in ("pid", "seed", "log")]
        self._daemon("munged", "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={socket}", *files)
        _until(socket.exists, 10, "munged made no socket")

    def _start_slurmdbd(self) -> None:
        data, socket, conf = (self.folder / name for name in ("database", "database.sock", "slurmdbd.conf"))
        own = [f"--datadir={data}", "--user=root"]
        subprocess.run(["mariadb-install-db", "--no-defaults", *own], check=True, capture_output=True)
        self._daemon("mariadbd", "mariadbd", "--no-defaults", *own, f"--socket={socket}", "--skip-networking")
        _until(socket.exists, 60, "mariadbd made no socket")
        conf.write_text(
            f"""AuthType=auth/munge
AuthInfo=socket={self.folder}/munge/socket
DbdHost=localhost
DbdPort={self.port + 90}
SlurmUser=root
PidFile={self.folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageUser=root
"""
        )
        conf.chmod(0o600)
        self._daemon("slurmdbd", "slurmdbd", "-D", MYSQL_UNIX_PORT=str(socket))
        problem = f"slurmdbd does not answer; see {self.folder / 'log'}"
        _until(lambda: self._added("cluster", "test"), 60, problem)

    def _add_accounts(self) -> None:
        # The controller makes its GPUs known first.
        problem = f"slurmdbd does not take an account; see {self.folder / 'log'}"
        _until(lambda: self._added("account", "spent", "GrpTRESMins=gres/gpu=0"), 60, problem)
        assert self._added("account", "lab")
        assert self._added("user", "root", "Account=lab,spent", "DefaultAccount=lab")

    def _added(self, *words: str) -> bool:
        """Whether Slurm's records did not have that yet, and have it now."""
        said = self.run("sacctmgr", "--immediate", "add", *words, check=False)
        return " Adding " in said or " Associations" in said

    def _write_settings(self) -> None:
        gres = []
        for name in self.names:
            for number in range(self.gpus):
                device = self.folder / name / f"nvidia{number}"
                device.parent.mkdir(exist_ok=True)
                if not device.exists():  # the major number of NVIDIA's driver, which is not here: nothing can open it
                    os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(195, number))
                gres.append(f"NodeName={name} Name=gpu Type=h100 File={device}\n")
            if self.shards:
                gres.append(f"NodeName={name} Name=shard Count={self.gpus * self.shards}\n")
        shards = f",shard:{self.gpus * self.shards}" if self.shards else ""
        nodes = "".join(
            f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={self.port + 1 + number} CPUs={self.cpus} "
            f"RealMemory=4000 Gres=gpu:h100:{self.gpus}{shards} State=UNKNOWN\n"
            for number, name in enumerate(self.names)
        )
        (self.folder / "gres.conf").write_text("".join(gres))
        storage = {
            "Type": "accounting_storage/slurmdbd",
            "Host": "localhost",
            "Port": str(self.port + 90),
            "Pass": f"{self.folder}/munge/socket",
            "TRES": "gres/gpu",
            "Enforce": "associations,limits",
        }
        accounting = (
            "".join(f"AccountingStorage{key}={value}\n" for key, value in storage.items()) if self.accounts else ""
        )
        # Slurm numbers the GPUs of each node from 0 on. Here all nodes are one machine, whose emulated GPUs have one number each.
        shift = f"awk -v RS=, -v ORS=, -v first=$((${{SLURMD_NODENAME#n}} * {self.gpus})) '{{ print $1 + first }}' | sed 's/,$//'"
        scripts = {
            "prolog": f'echo "$SLURM_JOB_ID $SLURM_JOB_GPUS" >> {self.folder}/gpus.log',
            "task_prolog": 'test -z "$CUDA_VISIBLE_DEVICES" || '
            f'echo "export CUDA_VISIBLE_DEVICES=$(echo "$CUDA_VISIBLE_DEVICES" | {shift})"',
        }
        for name, text in scripts.items():
            (self.folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (self.folder / name).chmod(0o755)
        (self.folder / "slurm.conf").write_text(
            f"""ClusterName=test
SlurmctldHost=localhost
SlurmctldPort={self.port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge/socket
CredType=cred/munge
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool/%n
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd-%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
GresTypes=gpu,shard
JobCompType=jobcomp/filetxt
JobCompLoc={self.folder}/jobcomp.log
Prolog={self.folder}/prolog
TaskProlog={self.folder}/task_prolog
SlurmdTimeout=20
KillWait=5
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
{accounting}{nodes}PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
        )

    def _start_slurmd(self, name: str, *within: str) -> None:
        """Start the daemon of a node; `within`: a command that runs it."""
        mark, _, value = self._mark(name).partition("=")
        command = [*within, str(_program("slurmd")), "-D", "-N", name]
        self._daemon(f"slurmd-{name}", *command, **{mark: value.rstrip("\0")})

    def _mark(self, name: str) -> str:
        """What the daemon of a node and its steps, which leave its process group, have in their environment."""
        return f"NODE_OF_TEST={self.folder}/{name}\0"

    def _daemon(self, log: str, program: str, *arguments: str, **environment: str) -> None:
        path = _program(program)
        assert path is not None
        with (self.folder / "log" / log).open("ab") as out:
            self._daemons[log] = subprocess.Popen(
                [path, *arguments],
                env={**os.environ, **self.environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def _wait_for_node(self, name: str, within_s: float = 60.0) -> None:
        def up() -> bool:
            state = self.run("sinfo", "--noheader", f"--nodes={name}", "--format=%T", check=False).strip()
            return state in {"idle", "mixed", "allocated"}

        _until(up, within_s, f"Slurm does not give node {name} jobs; see {self.folder / 'log'}")

    def _wait_for_nodes(self, within_s: float) -> None:
        def idle() -> bool:
            states = self.run("sinfo", "--noheader", "--Node", "--format=%T", check=False).split()
            return len(states) == self.nodes and set(states) == {"idle"}

        _until(idle, within_s, f"the nodes of Slurm did not become idle; see {self.folder / 'log'}")


def _naming(words: Collection[str]) -> Iterator[int]:
    """The processes whose environment or command contains one of these words."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
                if any(word.encode() in text for word in words):
                    yield int(entry.name)


def _until(condition: object, within_s: float, problem: str) -> None:
    deadline = time.monotonic() + within_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, problem
        time.sleep(0.05)
