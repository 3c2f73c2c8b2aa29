"""The command that submits a job again, from its record: for `gpuq show`, which prints it, and `gpuq rerun`, which runs it."""

from __future__ import annotations

import os.path
from dataclasses import dataclass
from pathlib import Path

from gpuq.cli.client import Record
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
    options = [*options_of(_asked(job), now)]
    if "SLURM_JOB_ID" in (job.get("environment") or ()):
        options.append("--slurm-env")
    if job.get("snapshot"):
        return _of_snapshot(job, options)
    return Again(Path(job["cwd"]), options, ["--", *job["command"]])


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


def _of_snapshot(job: Record, options: list[str]) -> Again:
    copy, tree, folder = Path(job["snapshot_folder"]), Path(job["snapshot_taken_from"]), Path(job["cwd"])
    inside = folder.is_relative_to(copy)
    start = tree / folder.relative_to(copy) if inside else tree
    options = ["--from-snapshot", job["snapshot"], *([] if inside else ["-C", str(folder)]), *options]
    words = [*job["command"]]
    from_tree = (job.get("script") or "").startswith(f"{tree}/")
    script = str(copy / Path(job["script"]).relative_to(tree)) if from_tree else ""
    if script not in words[:2]:
        return Again(start, options, ["--", *words])
    place = words.index(script)  # as it was typed: gpuq has put the interpreter before it
    options += ["--python", words[0]] if place and script.endswith(".py") else []
    return Again(start, options, [os.path.relpath(script, folder) if inside else script, *words[place + 1 :]])
