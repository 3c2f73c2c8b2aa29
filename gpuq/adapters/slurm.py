"""Slurm's commands: request a job, look at jobs, end them. What Slurm says goes into the errors, because only it knows why.

Blocks. No shell sees a word of this; a batch script goes to `sbatch` on its standard input.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gpuq.errors import BadInput, Unreachable

_ANSWER_WITHIN_S = 60.0
# What sbatch says when the controller is away, in words that have not changed since 2010.
_AWAY = re.compile(
    r"Unable to contact slurm controller|Connection refused|Socket timed out|Communication connection failure"
)


@dataclass(frozen=True)
class SlurmJob:
    """A job that waits or runs. `reason`: Slurm's own, why it waits."""

    id: int
    state: str
    reason: str


def check() -> None:
    """Raises BadInput where Slurm's commands are not installed."""
    for name in ("sbatch", "squeue", "scancel"):
        if shutil.which(name) is None:
            raise BadInput(
                f"`{name}` is not on your PATH.", fix="Log in to a host from which you can submit Slurm jobs."
            )


def submit(script: str, options: Sequence[str]) -> int:
    """The number of the new job. Raises BadInput with what Slurm says against it, and Unreachable if the controller is away."""
    said = _run(["sbatch", "--parsable", *options], script)
    return int(said.split(";")[0])


def test(script: str, options: Sequence[str]) -> None:
    """Raises as `submit` would, and submits nothing."""
    _run(["sbatch", "--test-only", *options], script)


def jobs(ids: Collection[int]) -> dict[int, SlurmJob]:
    """Those of these jobs that wait or run; a job that has ended is not among them. Raises Unreachable."""
    if not ids:
        return {}
    # Without --jobs: an id that Slurm has forgotten would make it fail for all of them.
    said = _run(["squeue", "--me", "--noheader", "--states=all", "--format=%i|%T|%r"])
    found = {}
    for line in said.splitlines():
        number, state, reason = line.split("|", 2)
        if number.isdecimal() and int(number) in ids and state not in _ENDED:
            found[int(number)] = SlurmJob(int(number), state, reason)
    return found


_ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "COMPLETING", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
    "REVOKED", "SPECIAL_EXIT", "TIMEOUT",
}  # fmt: skip


def ended(job: int) -> str:
    """How this job ended, in Slurm's words; Slurm forgets that after a while. Raises Unreachable and BadInput."""
    said = dict(word.partition("=")[::2] for word in _run(["scontrol", "--oneliner", "show", "job", str(job)]).split())
    words = [said.get("JobState", ""), said.get("Reason", ""), f"exit code {said.get('ExitCode', '')}"]
    return ", ".join([*words, *([f"on {node}"] if (node := said.get("NodeList")) and node != "(null)" else [])])


def ends_at(job: int) -> float | None:
    """When Slurm will end this running job (Unix seconds); None where it sets no limit. Raises Unreachable and BadInput."""
    said = _run(["squeue", "--noheader", f"--jobs={job}", "--format=%e"], times="%s").strip()
    return float(said) if said.isdecimal() else None


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


def _run(command: list[str], standard_input: str | None = None, times: str = "standard") -> str:
    """The standard output. `times`: how squeue writes times, as for strftime."""
    try:
        done = subprocess.run(
            command,
            input=standard_input,
            stdin=subprocess.DEVNULL if standard_input is None else None,
            capture_output=True,
            text=True,
            env={**os.environ, "SLURM_TIME_FORMAT": times},
            timeout=_ANSWER_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unreachable(f"`{command[0]}` gave no answer within a minute.", fix="Is Slurm's controller up?") from None
    except OSError as error:
        raise BadInput(f"`{command[0]}` cannot be run: {error.strerror}.", fix="Is Slurm installed here?") from error
    if done.returncode == 0:
        return done.stdout
    said = (
        re.sub(r"\s+", " ", re.sub(r"(?m)^\w+: (error: )?", "", done.stderr)).strip() or f"exit code {done.returncode}"
    )
    if _AWAY.search(said):
        raise Unreachable(f"Slurm does not answer: {said}", fix="`sinfo` shows when it does.")
    raise BadInput(f"Slurm refuses it: {said}", fix="Correct the options that are meant for sbatch.")
