"""The scheduling policies: those that can be chosen, the chosen one, and the one that decides now.

The list is what `python -m gpuq.policies` prints, a process of its own because any site may add a policy. It takes a second of a
core, so one is started for all who ask, and its list kept for a minute, or until something was installed.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web

from gpuq.api.context import ApiContext, context_of, reply
from gpuq.api.contract.schema import Policies, PolicyFault, PolicyView
from gpuq.errors import Failure
from gpuq.format import rfc3339_or_none

MODULE: Final = "gpuq.policies"
_WITHIN_S = 60.0
_KEPT_S = 60.0


class _Catalogue(msgspec.Struct, frozen=True):
    chosen: str
    policies: list[PolicyView]


async def policies(request: web.Request) -> web.Response:
    """Every policy, the chosen one, the one in use, and why they differ."""
    context = context_of(request)
    # Read first: by the time the list is there, the view may have expired.
    view = (await context.live.read()).view
    found = await context.once.get(MODULE, await context.run(_installed), partial(_catalogue, context), _KEPT_S)
    live = None if view is None else view.dispatcher.policy
    fault = None
    if live is not None and live.fault is not None:
        fault = PolicyFault(reason=live.fault.reason, at=rfc3339_or_none(live.fault.at))
    return reply(
        Policies(
            chosen=live.chosen if live else found.chosen,
            serving=live.serving if live else None,
            fault=fault,
            policies=found.policies,
        )
    )


def _installed() -> tuple[int | None, ...]:
    """What changes when a distribution is installed or removed: when the folders of modules were changed. Blocks."""
    return tuple(_changed_at(folder) for folder in sys.path)


def _changed_at(folder: str) -> int | None:
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return None


async def _catalogue(context: ApiContext) -> _Catalogue:
    child = await context.start(MODULE)
    try:
        out, err = await asyncio.wait_for(child.communicate(), _WITHIN_S)
    except TimeoutError:
        raise Failure(
            f"The policies could not be listed within {_WITHIN_S:g} s.",
            fix="Run `gpuq policy list` where gpuq runs; uninstall the policy that it waits for.",
        ) from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    try:
        return msgspec.json.decode(out.splitlines()[-1], type=_Catalogue)
    except (msgspec.MsgspecError, IndexError) as error:
        lines = err.decode("utf-8", "replace").strip().splitlines()
        raise Failure(f"The policies could not be listed: {lines[-1][:300] if lines else error}.") from error
