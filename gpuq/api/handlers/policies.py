"""The policies that can be chosen, and the one that proposes.

Arrives: a request. Leaves: what `python -m gpuq.policies` printed, a process of its own because any site may add a policy, and
beside it what the dispatcher says of its policy.
"""

from __future__ import annotations

import asyncio
import os
from typing import Final

import msgspec
from aiohttp import web

from gpuq.adapters.supervise import python_module
from gpuq.api.context import Context, context_of
from gpuq.api.contract.schema import Policies, PolicyFault, PolicyView
from gpuq.api.messages import rfc3339_or_none
from gpuq.api.reply import reply
from gpuq.errors import Failure
from gpuq.messages.live import PolicyStatus

MODULE: Final = "gpuq.policies"
_WITHIN_S = 60.0


class _Catalogue(msgspec.Struct, frozen=True):
    chosen: str
    policies: list[PolicyView]


async def policies(request: web.Request) -> web.Response:
    """Every policy, which one was chosen, which one proposes, and why that may be another."""
    context = context_of(request)
    # First: by the time that the catalogue is there, the view may be too old to be believed.
    view = (await context.live.read()).view
    found = await _catalogue(context)
    live = None if view is None else view.dispatcher.policy
    return reply(
        Policies(
            chosen=live.chosen if live else found.chosen,
            serving=live.serving if live else None,
            fault=_fault(live) if live else None,
            policies=found.policies,
        )
    )


def _fault(live: PolicyStatus) -> PolicyFault | None:
    return None if live.fault is None else PolicyFault(reason=live.fault.reason, at=rfc3339_or_none(live.fault.at))


async def _catalogue(context: Context) -> _Catalogue:
    child = await asyncio.create_subprocess_exec(
        *python_module(MODULE),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "GPUQ_HOME": str(context.settings.home.root)},
    )
    try:
        out, err = await asyncio.wait_for(child.communicate(), _WITHIN_S)
    except TimeoutError:
        child.kill()
        await child.wait()
        raise Failure(
            f"The policies did not say what they are within {_WITHIN_S:g} s.",
            fix="Run `gpuq policy list` where gpuq runs; uninstall the policy that it waits for.",
        ) from None
    try:
        return msgspec.json.decode(out.splitlines()[-1], type=_Catalogue)
    except (msgspec.MsgspecError, IndexError) as error:
        said = err.decode("utf-8", "replace").strip().splitlines()
        raise Failure(f"The policies could not be listed: {said[-1][:300] if said else error}.") from error
