"""A real Slurm of Debian's packages on this machine: munge, one controller, and node daemons that all run here.

Everything is under one folder and ends with `stop`. It needs root (slurmd starts jobs as their users) and the packages of
`REQUIRED`; `missing()` says what is not there. Nodes have GPUs that are device nodes without a driver, so that Slurm counts them
and sets CUDA_VISIBLE_DEVICES. Jobs are tracked by process group and not by cgroup, which a container seldom lets a test write.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

REQUIRED = ("slurmctld", "slurmd", "sbatch", "munged")


def missing() -> str | None:
    """Why no cluster can be started here; None if one can."""
    absent = [name for name in REQUIRED if _program(name) is None]
    if absent:
        return f"{', '.join(absent)} not found: apt-get install slurm-wlm"
    return None if os.geteuid() == 0 else "a Slurm of one's own needs root"


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@dataclass
class SlurmCluster:
    """`nodes` have the names n0, n1, ...; each has `cpus` and `gpus`. Ports are chosen from `port` on."""

    folder: Path
    nodes: int = 2
    cpus: int = 8
    gpus: int = 4
    port: int = 26817
    _daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """What a command of Slurm needs to reach this cluster."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": os.environ["PATH"] + ":/usr/sbin"}

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
        self._daemon("slurmctld", "slurmctld", "-D")
        for name in self.names:
            (self.folder / "spool" / name).mkdir(exist_ok=True)
            self._daemon(f"slurmd-{name}", "slurmd", "-D", "-N", name)
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

    def kill_node(self, name: str) -> None:
        """End the daemon of a node at once, as if the node had lost its power: its steps are killed too."""
        daemon = self._daemons[2 + self.names.index(name)]
        children = subprocess.run(["pgrep", "-f", f"slurmstepd: .*{name}"], stdout=subprocess.PIPE, check=False)
        for pid in [daemon.pid, *map(int, children.stdout.split())]:
            subprocess.run(["kill", "-9", str(pid)], check=False)
        daemon.wait()

    def stop(self) -> None:
        """End all jobs and daemons."""
        self.run("scancel", "--state=RUNNING,PENDING", "--quiet", check=False)
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()

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

    def _write_settings(self) -> None:
        gres = []
        for name in self.names:
            for number in range(self.gpus):
                device = self.folder / name / f"nvidia{number}"
                device.parent.mkdir(exist_ok=True)
                if not device.exists():  # the major number of NVIDIA's driver, which is not here: nothing can open it
                    os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(195, number))
                gres.append(f"NodeName={name} Name=gpu Type=h100 File={device}\n")
        nodes = "".join(
            f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={self.port + 1 + number} CPUs={self.cpus} "
            f"RealMemory=4000 Gres=gpu:h100:{self.gpus} State=UNKNOWN\n"
            for number, name in enumerate(self.names)
        )
        (self.folder / "gres.conf").write_text("".join(gres))
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
GresTypes=gpu
SlurmdTimeout=20
KillWait=5
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
{nodes}PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
        )

    def _daemon(self, log: str, program: str, *arguments: str) -> None:
        path = _program(program)
        assert path is not None
        with (self.folder / "log" / log).open("wb") as out:
            self._daemons.append(
                subprocess.Popen(
                    [path, *arguments],
                    env={**os.environ, **self.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                )
            )

    def _wait_for_nodes(self, within_s: float) -> None:
        def idle() -> bool:
            states = self.run("sinfo", "--noheader", "--Node", "--format=%T", check=False).split()
            return len(states) == self.nodes and set(states) == {"idle"}

        _until(idle, within_s, f"the nodes of Slurm did not become idle; see {self.folder / 'log'}")


def _until(condition: object, within_s: float, problem: str) -> None:
    deadline = time.monotonic() + within_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, problem
        time.sleep(0.05)
