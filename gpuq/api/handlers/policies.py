"""The scheduling policies: those that can be chosen, the chosen one, and the one that decides now.

The list is what `python -m gpuq.policies` prints, a process of its own because any site may add a policy.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from aiohttp import web

from gpuq.api.context import ApiContext, context_of, reply
from gpuq.api.contract.schema import Policies, PolicyFault, PolicyView
from gpuq.errors import Failure
from gpuq.format import rfc3339_or_none

MODULE: Final = "gpuq.policies"
_WITHIN_S = 60.0


class _Catalogue(msgspec.Struct, frozen=True):
    chosen: str
    policies: list[PolicyView]


async def policies(request: web.Request) -> web.Response:
    """Every policy, the chosen one, the one in use, and why they differ."""
    context = context_of(request)
    # Read first: by the time the list is there, the view may have expired.
    view = (await context.live.read()).view
    found = await _catalogue(context)
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


async def _catalogue(context: ApiContext) -> _Catalogue:
    child = await context.start(MODULE)
    try:
        out, err = await asyncio.wait_for(child.communicate(), _WITHIN_S)
    except TimeoutError:
        child.kill()
        await child.wait()
        raise Failure(
            f"The policies could not be listed within {_WITHIN_S:g} s.",
            fix="Run `gpuq policy list` where gpuq runs; uninstall the policy that it waits for.",
        ) from None
    try:
        return msgspec.json.decode(out.splitlines()[-1], type=_Catalogue)
    except (msgspec.MsgspecError, IndexError) as error:
        lines = err.decode("utf-8", "replace").strip().splitlines()
        raise Failure(f"The policies could not be listed: {lines[-1][:300] if lines else error}.") from error
