"""The command that submits the same again."""

from __future__ import annotations

import shlex

from gpuq.core.state.job import Sharing
from gpuq.messages.submission import Submission, in_work_tree


def submit_command(asked: Submission) -> str:
    """What to type in a shell. The environment, and standard input, are those of that shell."""
    asked = in_work_tree(asked)
    options: list[str] = []
    for name, value in (("--name", asked.name), ("--project", asked.project)):
        options += [name, value] if value else []
    if asked.priority:
        options += ["--priority", str(asked.priority)]
    if asked.gpus > 1:
        options += ["--gpus", str(asked.gpus)]
    if asked.share is not Sharing.AUTO:
        options += ["--share", asked.share.value]
    if asked.max_slowdown is not None:
        options += ["--max-slowdown", percent_of(asked.max_slowdown)]
    if asked.constraints is not None and asked.constraints.types:
        options += ["--gpu-type", "|".join(asked.constraints.types)]
    return f"cd {shlex.quote(asked.cwd)} && " + shlex.join(["gpuq", "submit", *options, "--", *asked.command])


def percent_of(slowdown: float | None) -> str:
    """A slowdown budget as the options take it: `15%` for 1.15, `default` for None."""
    return "default" if slowdown is None else f"{100 * (slowdown - 1):.4g}%"
