"""Slurm's commands: request a job, look at jobs, end them. What Slurm says goes into the errors, because only it knows why.

Blocks. No shell sees a word of this; a batch script goes to `sbatch` on its standard input.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpuq.errors import BadInput, Unreachable
from gpuq.messages.slurm_commands import MARK

_ANSWER_WITHIN_S = 60.0
# What a user's environment may say to Slurm's commands that holds for people, and not here: it would make many jobs of one,
# or sbatch wait for its end; hide jobs from squeue; keep scancel from ending some, or let it ask first. How many GPUs a job has
# is in the options.
_NOT_HERE = re.compile(r"SBATCH_(ARRAY_INX|CLUSTERS|WAIT|GRES|GPUS\w*)|(SQUEUE|SCANCEL|SCONTROL)_\w+")
# What sbatch says when the controller is away, in words that have not changed since 2010.
_AWAY = re.compile(
    r"Unable to contact slurm controller|Connection (refused|timed out|reset)|Socket timed out|Communication connection failure"
    r"|Zero Bytes were transmitted|Transport endpoint is not connected|standby mode|temporarily unable|Could not establish"
    r"|munge|Protocol authentication error",
    re.IGNORECASE,
)
# Refusals whose fix is another than other options for sbatch: what Slurm says in any version, and the fix.
_FIXES = (
    (
        r"accounting/QOS policy|MaxSubmit|MaxJobs|QOSMax|QOSGrp|AssocMax|AssocGrp",
        "Your site allows you no more: ask for less (`--max`, `--gpus`, `--time`), or name another account or QOS.",
    ),
    (r"time limit|MaxWall|WallDuration", "Give less `--time`: `sinfo -o '%P %l'` shows the limits of partitions."),
    (
        r"node configuration is not available|generic resource|\bgres\b",
        "No node has that: give less `--gpus`, or a partition whose nodes have it (`sinfo -o '%P %G %c %m'`).",
    ),
)
_NUMBER = re.compile(r"(?:Submitted batch job )?(\d+)(?:;\S*)?")


@dataclass(frozen=True)
class SlurmJob:
    """A job that waits, runs, or is being ended. `reason`: Slurm's own, why it waits. `folder`: in which its script runs."""

    id: int
    state: str
    reason: str
    folder: str = ""


def check() -> None:
    """Raises BadInput where Slurm's commands are not installed."""
    for name in ("sbatch", "squeue", "scancel"):
        _program(name)


def _program(name: str) -> str:
    """Where Slurm's program of this name is, behind those on PATH that are gpuq's own. Raises BadInput."""
    for folder in os.get_exec_path():
        found = shutil.which(name, path=folder)
        if found is not None and not _is_ours(Path(found)):
            return found
    problem = "The only `{}` on your PATH is gpuq's own." if shutil.which(name) else "`{}` is not on your PATH."
    raise BadInput(problem.format(name), fix="Log in to a host from which you can submit Slurm jobs.")


def _is_ours(program: Path) -> bool:
    with suppress(OSError), program.open("rb") as file:
        return MARK.encode() in file.read(1000)
    return False


def submit(script: str, options: Sequence[str]) -> int:
    """The number of the new job. Raises BadInput with what Slurm says against it, and Unreachable where it is not known whether
    there is a new job: Slurm gave no answer in time, or one without a number."""
    said = _run(["sbatch", "--parsable", *options], script)
    # At some sites `sbatch` is a program of their own, which prints more.
    for line in reversed(said.splitlines()):
        if number := _NUMBER.fullmatch(line.strip()):
            return int(number[1])
    raise Unreachable(
        f"`sbatch` printed no number of a job, but: {' '.join(said.split())[:200] or 'nothing'}",
        fix="Is `sbatch` on your PATH that of Slurm? `squeue --me` shows whether it submitted a job.",
    )


def test(script: str, options: Sequence[str]) -> None:
    """Raises as `submit` would, and submits nothing."""
    _run(["sbatch", "--test-only", *options], script)


def ignores_the_script(options: Sequence[str]) -> bool:
    """Whether with these options sbatch runs something else than the script on its standard input, such as a script that they
    name or `--wrap`. Submits nothing."""
    with suppress(BadInput):  # an empty script is refused wherever it is read
        _run(["sbatch", "--test-only", *options], "")
        return True
    return False


def jobs(ids: Collection[int]) -> dict[int, SlurmJob]:
    """Those of these jobs that have not ended. Raises Unreachable."""
    return {one.id: one for one in (_not_ended() if ids else ()) if one.id in ids}


def jobs_in(folders: Collection[str]) -> dict[str, SlurmJob]:
    """The jobs that have not ended with one of these folders as theirs, by folder. Raises Unreachable."""
    return {one.folder: one for one in (_not_ended() if folders else ()) if one.folder in folders}


def _not_ended() -> Iterator[SlurmJob]:
    """This user's. Raises Unreachable."""
    # Without --jobs: an id that Slurm has forgotten would make it fail for all of them. Slurm 19 has no --me.
    said = _run(["squeue", f"--user={os.getuid()}", "--noheader", "--states=all", "--format=%i|%T|%r|%Z"])
    for line in said.splitlines():
        # Not those of arrays, and not what a site's own `squeue` prints besides.
        number, state, reason, folder = (*line.strip().split("|", 3), "", "", "")[:4]
        if number.isdecimal() and state and state not in _ENDED:
            yield SlurmJob(int(number), state, reason, folder)


# Not COMPLETING: until then processes of the job may run, for as long as the site's KillWait.
_ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
    "REVOKED", "SPECIAL_EXIT", "TIMEOUT",
}  # fmt: skip


def ended(job: int) -> str:
    """How this job ended, in Slurm's words; Slurm forgets that after a while. Raises Unreachable and BadInput."""
    said = dict(word.partition("=")[::2] for word in _run(["scontrol", "--oneliner", "show", "job", str(job)]).split())
    words = [said.get("JobState", ""), said.get("Reason", ""), f"exit code {said.get('ExitCode', '')}"]
    return ", ".join([*words, *([f"on {node}"] if (node := said.get("NodeList")) and node != "(null)" else [])])


def ends_at(job: int) -> float | None:
    """When Slurm will end this running job (Unix seconds); None where it sets no limit. Raises Unreachable and BadInput."""
    said = _run(["squeue", "--noheader", f"--jobs={job}", "--format=%e"], times="%s")
    # With SLURM_CLUSTERS a line before it names the cluster.
    return next((float(word) for word in reversed(said.split()) if word.isdecimal()), None)


def cancel(ids: Collection[int]) -> None:
    """End these jobs; those that have ended are left alone. Raises Unreachable."""
    if ids:
        _run(["scancel", "--quiet", *map(str, sorted(ids))])


def signal(job: int, name: str) -> None:
    """Send a signal to the batch script of this running job. Raises Unreachable and BadInput."""
    _run(["scancel", "--quiet", "--batch", f"--signal={name}", str(job)])


def requeue(job: int) -> None:
    """End this running job, and let it wait in the queue again. Raises Unreachable, and BadInput where the site forbids it."""
    _run(["scontrol", "requeue", str(job)])


def take_back(ids: Collection[int]) -> None:
    """End those of these jobs that wait; one that Slurm has started meanwhile runs on. Raises Unreachable."""
    if ids:
        with suppress(BadInput):  # with --state, scancel fails for a job that has ended
            _run(["scancel", "--quiet", "--state=PENDING", *map(str, sorted(ids))])


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not _NOT_HERE.fullmatch(name)}


def _run(command: list[str], standard_input: str | None = None, times: str = "standard") -> str:
    """The standard output. `times`: how squeue writes times, as for strftime."""
    name, *words = command
    try:
        done = subprocess.run(
            [_program(name), *words],
            input=standard_input,
            stdin=subprocess.DEVNULL if standard_input is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            env={**_environment(), "SLURM_TIME_FORMAT": times},
            timeout=_ANSWER_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unreachable(f"`{name}` gave no answer within a minute.", fix="Is Slurm's controller up?") from None
    except OSError as error:
        raise BadInput(f"`{name}` cannot be run: {error.strerror}.", fix="Is Slurm installed here?") from error
    if done.returncode == 0:
        return done.stdout
    said = (
        re.sub(r"\s+", " ", re.sub(r"(?m)^\w+: (error: )?", "", done.stderr)).strip() or f"exit code {done.returncode}"
    )
    if _AWAY.search(said):
        raise Unreachable(f"Slurm does not answer: {said}", fix="`sinfo` shows when it does.")
    fix = next((fix for words, fix in _FIXES if re.search(words, said, re.IGNORECASE)), None)
    raise BadInput(f"Slurm refuses it: {said}", fix=fix or "Correct the options that are meant for sbatch.")
