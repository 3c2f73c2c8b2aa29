"""Run a training requested through the API, in a process of its own, one at a time.

Returns the JSON that `python -m gpuq.programs.retrain` prints, or raises its last sentence as an error. TensorFlow and
scikit-learn are only imported in that process.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, Final

import msgspec

from gpuq.adapters.supervise import python_module
from gpuq.api.context import ApiContext
from gpuq.errors import Conflict, Failure

MODULE: Final = "gpuq.programs.retrain"


async def retrain(context: ApiContext, *arguments: str) -> Any:
    """Run the trainer; its JSON. Raises Conflict while another training runs, Failure if it fails."""
    if context.training.locked():
        raise Conflict(
            "A training run is already under way.", fix="Wait for it; `gpuq model status` shows its outcome."
        )
    async with context.training:
        child = await asyncio.create_subprocess_exec(
            *python_module(MODULE, *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "GPUQ_HOME": str(context.settings.home.root)},
        )
        output = asyncio.ensure_future(child.communicate())
        stop = asyncio.ensure_future(context.stopping.wait())
        try:
            await asyncio.wait({output, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not output.done():
                child.terminate()  # this process stops
            out, err = await output
        finally:
            stop.cancel()
    lines = err.decode("utf-8", "replace").strip().splitlines()
    last = lines[-1][:500].removeprefix("gpuq: ") if lines else ""
    if child.returncode == Conflict.exit_code:
        raise Conflict(last, fix="`gpuq model status` shows what there is.")
    if child.returncode != 0:
        raise Failure(f"Training did not succeed: {last or f'exit code {child.returncode}'}")
    return _parse(out)


def _parse(out: bytes) -> Any:
    """The JSON that the trainer printed, perhaps after lines of its libraries."""
    lines = [line for line in out.splitlines() if line.strip()]
    for text in (out, lines[-1] if lines else b""):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    raise Failure("The trainer ended without printing a result.")
