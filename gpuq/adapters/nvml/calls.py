"""Questions to the NVIDIA driver, and what its ways of not answering mean.

Three sorts. What a GPU does not support, does not allow us, or what an old driver has never heard of, is None. What it has
none of is an empty list. Anything else is a GPU that fails: `Failed`, for whoever asked to leave it out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pynvml

# Not known here, as opposed to broken. `INSUFFICIENT_SIZE` comes when processes appear between the driver's two answers.
_UNKNOWN = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_INSUFFICIENT_SIZE,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    }
)
_NOTHING = frozenset({pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_SUCCESS})


class Failed(Exception):
    """A GPU did not answer a question that it should know the answer to."""


def ask(question: Callable[..., Any], *arguments: object) -> Any:
    """The driver's answer; None where it is not known, an empty list where there is nothing. Raises Failed."""
    try:
        return question(*arguments)
    except pynvml.NVMLError as error:
        if error.value in _NOTHING:
            return []
        if error.value in _UNKNOWN:
            return None
        raise Failed(f"{question.__name__}: {error}") from error


def ask_newest(questions: Sequence[Callable[..., Any]], *arguments: object) -> Any:
    """The same of the first of several versions of a question, the newest first, that the driver has heard of. Raises Failed."""
    *newer, oldest = questions
    for question in newer:
        try:
            return question(*arguments)
        except pynvml.NVMLError as error:
            if error.value != pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                return ask(question, *arguments)
    return ask(oldest, *arguments)


def wonder(question: Callable[..., Any], *arguments: object) -> Any:
    """The same for what is good to know but no reason to give a GPU up: None for every refusal."""
    try:
        return question(*arguments)
    except pynvml.NVMLError:
        return None
