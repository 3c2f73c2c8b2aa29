"""Calls to the NVIDIA driver, and the meaning of their errors.

A GPU may not support a question or not permit it, or an old driver may not know it: the answer is None. A question for a list
may be answered with nothing. Every other error means that the GPU fails: `Failed` is raised, and the caller leaves the GPU out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pynvml

# Unsupported, as opposed to broken. `INSUFFICIENT_SIZE` comes if processes appear between the driver's two answers.
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
    """A GPU did not answer a question that it supports."""


def ask(question: Callable[..., Any], *arguments: object, nothing: Sequence[Any] | None = None) -> Any:
    """The driver's answer; None if unsupported, `nothing` if it finds nothing. Raises Failed."""
    try:
        return question(*arguments)
    except pynvml.NVMLError as error:
        if error.value in _NOTHING:
            return nothing
        if error.value in _UNKNOWN:
            return None
        raise Failed(f"{question.__name__}: {error}") from error


def ask_newest(questions: Sequence[Callable[..., Any]], *arguments: object) -> Any:
    """`ask` for a list with the first of several versions of a question, newest first, that the driver knows. Raises Failed."""
    *newer, oldest = questions
    for question in newer:
        try:
            return question(*arguments)
        except pynvml.NVMLError as error:
            if error.value != pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                return ask(question, *arguments, nothing=())
    return ask(oldest, *arguments, nothing=())


def ask_or_none(question: Callable[..., Any], *arguments: object) -> Any:
    """The driver's answer, None for every error: for values without which a GPU can still be used."""
    try:
        return question(*arguments)
    except pynvml.NVMLError:
        return None


def within(value: float | None, most: float) -> float | None:
    """The value; None for one that no device has: above `most`, or below 0."""
    return None if value is None or not 0 <= value <= most else float(value)
