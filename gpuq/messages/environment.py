"""The words by which a host loads modules and enters a container before it runs a command: `gpuq_environment` reads them there.

Standard library only: the command loads it.
"""

from __future__ import annotations

from collections.abc import Sequence

_PROGRAM = ["python3", "-m", "gpuq_environment"]


def in_environment(image: str | None, modules: Sequence[str], words: Sequence[str]) -> Sequence[str]:
    """The command that makes its host load the modules and run these words in the image."""
    if image is None and not modules:
        return words
    named = [f"--module={name}" for name in modules] + ([] if image is None else [f"--image={image}"])
    return [*_PROGRAM, *named, "--", *words]


def of_environment(command: Sequence[str]) -> tuple[list[str], list[str]]:
    """(options of `gpuq submit` for its modules and image, the words that run there) of a command; no options for any other."""
    words = list(command)
    if words[: len(_PROGRAM)] != _PROGRAM or "--" not in words:
        return [], words
    end = words.index("--")
    return words[len(_PROGRAM) : end], words[end + 1 :]
