"""The command that submits a job again, from its record: for `gpuq show`, which prints it, and `gpuq rerun`, which runs it."""

from __future__ import annotations

import os.path
from dataclasses import dataclass
from pathlib import Path

from gpuq.cli.client import Record
from gpuq.messages.environment import of_environment
from gpuq.messages.submit_options import options_of


@dataclass(frozen=True)
class Again:
    """`gpuq submit OPTIONS WORDS`, typed in `folder`. Variables and standard input are those of the shell there."""

    folder: Path
    options: list[str]
    words: list[str]


def of_job(job: Record, now: float) -> Again | None:
    """None for a job whose command or files are not here: another user's, a notebook's, one with files that were sent."""
    if not job.get("command") or not job.get("cwd") or job.get("synced") or job.get("interactive") == "notebook":
        return None
    environment, words = of_environment(job["command"])
    options = [*options_of(_asked(job), now), *environment]
    if "SLURM_JOB_ID" in (job.get("environment") or ()):
        options.append("--slurm-env")
    if job.get("snapshot"):
        return _of_snapshot(job, options, words)
    return _typed(Path(job["cwd"]), options, words, job.get("script"))


def _typed(folder: Path, options: list[str], words: list[str], script: str | None) -> Again:
    """With the interpreter of a Python script as an option, since gpuq has put it before the script."""
    if script and words[0] == script:
        return Again(folder, options, words)
    if script and script.endswith(".py") and words[1:2] == [script]:
        return Again(folder, [*options, "--python", words[0]], words[1:])
    return Again(folder, options, ["--", *words])


def _asked(job: Record) -> Record:
    """What the record of a job says under the names of a submission. Its kind is found again."""
    others = {
        "gpu_memory": job.get("declared_memory_bytes"),
        "hosts": job.get("wanted_hosts"),
        "begin_at": job.get("begin_at_unix"),
        "deadline_at": job.get("deadline_at_unix"),
        "kind": None,
        "sync": None,
    }
    return {**job, **others}


def _of_snapshot(job: Record, options: list[str], words: list[str]) -> Again:
    copy, tree, folder = Path(job["snapshot_folder"]), Path(job["snapshot_taken_from"]), Path(job["cwd"])
    inside = folder.is_relative_to(copy)
    start = tree / folder.relative_to(copy) if inside else tree
    options = ["--from-snapshot", job["snapshot"], *([] if inside else ["-C", str(folder)]), *options]
    if not (job.get("script") or "").startswith(f"{tree}/"):
        return Again(start, options, ["--", *words])
    script = str(copy / Path(job["script"]).relative_to(tree))
    # Named from the folder, it is that of whichever copy is taken.
    named = os.path.relpath(script, folder) if inside else script
    return _typed(start, options, [named if word == script else word for word in words], named)
