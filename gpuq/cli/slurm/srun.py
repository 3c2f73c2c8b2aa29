"""`srun COMMAND`: in a job, the tasks of a step on this host; elsewhere a job of its own, as `gpuq run`.

In gpuq a script runs on each host of its job. So each host starts its own tasks of a step, with Slurm's numbers for them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping

from gpuq.cli import console
from gpuq.cli.quantities import whole
from gpuq.cli.slurm.arguments import SlurmParser
from gpuq.errors import BadInput

_MOST_TASKS = 1024
# What Slurm divides among the steps of a job; a job of gpuq has its devices for all of them.
# fmt: off
_NO_MATTER = (
    "-c", "--cpus-per-task", "--gres", "-G", "--gpus", "--gpus-per-node", "--gpus-per-task", "--mem", "--mem-per-cpu",
    "--cpu-bind", "--gpu-bind", "--mpi", "-J", "--job-name", "--export", "-p", "--partition", "-t", "--time",
)
# fmt: on
_NO_MATTER_SWITCHES = ("--exclusive", "--overlap", "--exact", "-u", "--unbuffered", "-K", "--kill-on-bad-exit", "-s")


def run(words: list[str]) -> int:
    """Run the step. Returns the highest exit code of its tasks here. Raises BadInput."""
    parser = SlurmParser("srun")
    add = parser.add_argument
    add("-n", "--ntasks")
    add("-N", "--nodes")
    add("--ntasks-per-node")
    add("-w", "--nodelist")
    for option in _NO_MATTER:
        add(option, dest="no_matter")
    for switch in _NO_MATTER_SWITCHES:
        add(switch, dest="no_matter", action="store_true")
    own, command = _split(parser, words)
    options = parser.parse_args(own)
    if not command:
        raise BadInput("there is no command to run.", fix="Write it after the options: srun python train.py")
    if not os.environ.get("SLURM_JOB_ID"):
        from gpuq.cli.verbs import run as job

        if own:
            console.note(f"srun: without effect in gpuq: {shlex.join(own)}")
        return job.run(["--slurm-env", "--", *command])
    placed = tasks(
        os.environ,
        whole("--ntasks", options.ntasks, 1, _MOST_TASKS),
        whole("--ntasks-per-node", options.ntasks_per_node, 1, _MOST_TASKS),
        whole("--nodes", options.nodes, 1, _MOST_TASKS),
        options.nodelist.split(",") if options.nodelist else None,
    )
    return _run(command, placed)


def _split(parser: SlurmParser, words: list[str]) -> tuple[list[str], list[str]]:
    with_value = {option for action in parser._actions if action.nargs != 0 for option in action.option_strings}
    index = 0
    while index < len(words) and words[index].startswith("-"):
        index += 2 if words[index] in with_value else 1
    return words[:index], words[index:]


def tasks(
    environ: Mapping[str, str], count: int | None, per_host: int | None, hosts: int | None, names: list[str] | None
) -> list[dict[str, str]]:
    """The variables of each task that this host runs of the step; none where it has no part in it. Raises BadInput.

    The step is on the named hosts of the job, else on the first `hosts` of them, else on all; ranks go host by host.
    """
    all_hosts = environ["SLURM_JOB_NODELIST"].split(",")
    strange = [name for name in names or () if name not in all_hosts]
    if strange:
        raise BadInput(f"{strange[0]} is no host of this job.", fix=f"It has {', '.join(all_hosts)}.")
    chosen = [name for name in all_hosts if names is None or name in names][:hosts]
    if hosts is not None and hosts > len(chosen):
        raise BadInput(f"the step wants {hosts} hosts, and the job has {len(chosen)}.", fix="Ask for fewer.")
    if count is None:
        count = len(chosen) * (per_host or int(environ.get("SLURM_NTASKS_PER_NODE", "1")))
    here = environ["SLURMD_NODENAME"]
    if here not in chosen:
        return []
    each, more = divmod(count, len(chosen))
    place = chosen.index(here)
    first = place * each + min(place, more)
    step = {"SLURM_NNODES": len(chosen), "SLURM_NTASKS": count, "SLURM_NPROCS": count, "SLURM_NODEID": place}
    return [
        {name: str(value) for name, value in {**step, "SLURM_PROCID": first + local, "SLURM_LOCALID": local}.items()}
        for local in range(each + (place < more))
    ]


def _run(command: list[str], placed: list[dict[str, str]]) -> int:
    if shutil.which(command[0]) is None:
        raise BadInput(f"there is no command `{command[0]}` on PATH.", fix="Check its name, or give its path.")
    started = [subprocess.Popen(command, env={**os.environ, **variables}) for variables in placed]
    codes = [process.wait() for process in started]
    return max((128 - code if code < 0 else code for code in codes), default=0)
