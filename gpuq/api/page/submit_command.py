"""The command that submits the same again."""

from __future__ import annotations

import shlex

from gpuq.messages.codec import plain
from gpuq.messages.environment import of_environment
from gpuq.messages.submission import Submission, in_work_tree
from gpuq.messages.submit_options import options_of


def submit_command(asked: Submission, now: float, *, waits: bool) -> str:
    """What to type in a shell. The environment, and standard input, are those of that shell.

    A job that `waits` is submitted in place of itself, so it waits for the same jobs; later these belong to the past.
    """
    asked = in_work_tree(asked)
    options = [*options_of(plain(asked), now)]
    if waits:
        options += [word for text in asked.after for word in ("--after", text)]
    environment, command = of_environment(asked.command)
    options += environment
    notebook = asked.interactive == "notebook"
    words = ["gpuq", "notebook", *options] if notebook else ["gpuq", "submit", *options, "--", *command]
    return f"cd {shlex.quote(asked.cwd)} && " + shlex.join(words)
