"""The prediction model: its status, a training, and the way back.

A training runs in a process of its own, one at a time, because TensorFlow and scikit-learn are only imported there. Its answer is
the JSON that `python -m gpuq.programs.retrain` prints, or the last sentence of its errors.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from aiohttp import web

from gpuq.api.context import ApiContext, context_of, reply
from gpuq.errors import Conflict, Failure

MODULE: Final = "gpuq.programs.retrain"


async def models(request: web.Request) -> web.Response:
    """The serving model, its evaluation, and whether its forecasts still hold."""
    context = context_of(request)
    shelf = context.models
    status = await context.run(shelf.status) if shelf is not None else {"serving": None, "versions": []}
    view = (await context.live.read()).view
    if view is not None and view.drift is not None:
        status = {**status, "drift": msgspec.to_builtins(view.drift)}
    return reply(status)


async def train(request: web.Request) -> web.Response:
    """Train a candidate now, in a process of its own; the outcome."""
    return reply(await _retrain(context_of(request)))


async def rollback(request: web.Request) -> web.Response:
    """Serve the previous model again."""
    return reply(await _retrain(context_of(request), "--rollback"))


async def _retrain(context: ApiContext, *arguments: str) -> Any:
    """Run the trainer; its JSON. Raises Conflict while another training runs, Failure if it fails."""
    if context.training.locked():
        raise Conflict(
            "A training run is already under way.", fix="Wait for it; `gpuq model status` shows its outcome."
        )
    async with context.training:
        child = await context.start(MODULE, *arguments)
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
