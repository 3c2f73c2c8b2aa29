"""`python -m gpuq.pools.change`: add a pool or remove one, for `gpuq pool`. Its one argument is the pool as JSON, or a name."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import msgspec

from gpuq.adapters import kubernetes, slurm
from gpuq.cli.client import is_held
from gpuq.cli.verbs import up
from gpuq.errors import BadInput, GpuqError
from gpuq.home import Home, write_private
from gpuq.logs import report
from gpuq.pools import pool, sbatch_options
from gpuq.pools.pilots import PilotFolders
from gpuq.pools.pod import manifest, where
from gpuq.pools.pool import Pool
from gpuq.pools.slurm_job import options, script
from gpuq.settings import load


def main() -> int:
    """Carry out `add POOL` or `remove NAME`; returns the exit code."""
    action, word = sys.argv[1:]
    home = Home.from_environment()
    try:
        if action == "remove":
            remove(home, word)
            return 0
        return add(home, msgspec.json.decode(word, type=Pool))
    except msgspec.ValidationError as error:
        return report(BadInput(f"This is no pool: {error}.", fix="`gpuq pool --help` has the options."))
    except GpuqError as error:
        return report(error)


def add(home: Home, new: Pool) -> int:
    """Check with Slurm or Kubernetes that such a pilot may be requested, add the pool, and start gpuq if it does not run. Raises
    GpuqError."""
    # A folder that exists on this host, because Slurm may look; nothing is submitted.
    folder = Path("/tmp")  # noqa: S108
    if new.pod is None:
        slurm.check()
        sbatch_options.check(new.sbatch)
        wanted = options(new, new.gpus, folder)
        slurm.test(script(folder), wanted)
        if slurm.ignores_the_script(wanted):
            raise BadInput(
                "With what is behind `--`, sbatch would run something else than a pilot.",
                fix="Leave only options there, no script: `gpuq submit SCRIPT` runs it in a pilot.",
            )
    else:
        kubernetes.check()
        kubernetes.Pods(where(new.pod)).test(manifest(new, new.pod, new.gpus, folder, 0))
    home.create()
    _let_hosts_join(home)
    pool.add(home, new)
    jobs = f"{new.most} {'Slurm job' if new.pod is None else 'pod'}{'s' * (new.most > 1)}"
    gpus = f"{new.gpus} GPU{'s' * (new.gpus != 1)}"
    print(f"Pool {new.name}: up to {jobs} with up to {gpus} each.")
    return 0 if _runs(home) else up.run(["-d"])


def remove(home: Home, name: str) -> None:
    """Remove a pool; its pilots are ended by the process that keeps pools. Raises NotFound."""
    pool.remove(home, name)
    folders = PilotFolders(home)
    folders.note(name, None)
    left = [pilot for pilot in folders.read() if pilot.pool == name]
    if left and not _runs(home):
        pilots = "its pilot" if len(left) == 1 else f"its {len(left)} pilots"
        print(f"Pool {name} is removed. gpuq does not run: the next `gpuq up` ends {pilots}.")
    else:
        print(f"Pool {name} is removed; its pilots end within seconds.")


def _runs(home: Home) -> bool:
    return is_held(home.run / "up.lock") or home.main_job_file.exists()


def _let_hosts_join(home: Home) -> None:
    """Settings with which pilots can join, if there are none yet. Raises BadInput where a file of settings lacks them."""
    if (
        load(dict(os.environ)).api.hosts_at or home.main_job_file.exists()
    ):  # in a Slurm job it chooses them at each start
        return
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    hosts_at = f'hosts_at = ["{socket.gethostname()}:{port}"]'
    if home.settings_file.exists():
        raise BadInput(
            f"Pilots cannot join: {home.settings_file} does not say where they reach this host.",
            fix=f'Write under [api]: {hosts_at}. And `backend = "none"` under [devices], unless jobs may run here too.',
        )
    # On a login node, another user's gpuq may have the usual port of the page.
    lines = ["[api]", "port = 0", hosts_at, "", "[devices]", 'backend = "none"', ""]
    write_private(home.settings_file, "\n".join(lines).encode())


if __name__ == "__main__":
    sys.exit(main())
