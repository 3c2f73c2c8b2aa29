"""Quotas: list them beside their use, set one, remove one. The dispatcher carries changes out."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from gpuq.adapters.store.contract import Store
from gpuq.api.context import context_of, reply
from gpuq.api.contract import bodies, params
from gpuq.api.contract.schema import QuotaRequestTaken, QuotaView
from gpuq.api.identity import Caller, Role, caller_of
from gpuq.core.state.job import WAITING, JobState
from gpuq.core.state.quota import EVERYONE, Account, Quota, QuotaScope, accounts, quota_of
from gpuq.errors import NotFound
from gpuq.messages.codec import plain
from gpuq.messages.live import AccountUse, LiveView

Counts = dict[tuple[str, str | None, JobState], int]
_set_body = msgspec.json.Decoder(bodies.QuotaBody)
_remove_body = msgspec.json.Decoder(bodies.AccountBody)


async def listing(request: web.Request) -> web.Response:
    """Limits and use of the caller and the projects of their jobs; operators see all."""
    return reply(await quota_views(request))


async def quota_views(request: web.Request) -> list[QuotaView]:
    """The accounts that the caller is shown, with their limits and use."""
    context, caller = context_of(request), caller_of(request)
    found, counts = await context.read(_read, context.store)
    live = (await context.live.read()).view
    quotas = {quota.account: quota for quota in found}
    shown = _visible(caller, quotas, counts, live)
    return [_view(account, quotas, counts, live) for account in sorted(shown)]


async def put(request: web.Request) -> web.Response:
    """Set the quota of an account; what is not named in it is not limited."""
    wanted = await bodies.body(request, _set_body)
    account = Account(QuotaScope(wanted.scope), wanted.name)
    limits = {name: getattr(wanted, name) for name in params.QUOTA_LIMITS}
    given = {name: value for name, value in limits.items() if value is not msgspec.UNSET}
    return await _request(request, "quota", account, {"quota": plain(Quota(account, **given))})


async def remove(request: web.Request) -> web.Response:
    """Remove the quota of an account."""
    context, wanted = context_of(request), await bodies.body(request, _remove_body)
    account = Account(QuotaScope(wanted.scope), wanted.name)
    if account not in [quota.account for quota in await context.read(context.store.quotas)]:
        raise NotFound(
            f"The {wanted.scope} {params.shown(wanted.name)} has no quota of its own.", fix="`gpuq quota` lists them."
        )
    return await _request(request, "remove_quota", account, {"account": plain(account)})


async def _request(request: web.Request, verb: str, account: Account, body: dict[str, Any]) -> web.Response:
    context = context_of(request)
    await context.read(context.store.add_request, verb, None, caller_of(request).user, context.now(), body)
    context.ringer.ring()
    return reply(QuotaRequestTaken(asked=verb, scope=account.scope.value, name=account.name), 202)


def _read(store: Store) -> tuple[list[Quota], Counts]:
    return store.quotas(), store.count_unended()


def _visible(caller: Caller, quotas: dict[Account, Quota], counts: Counts, live: LiveView | None) -> set[Account]:
    mine = {account for owner, project, _ in counts if owner == caller.user for account in accounts(owner, project)}
    mine.add(Account(QuotaScope.USER, caller.user))
    if caller.role < Role.OPERATOR:
        return mine
    used = {Account(QuotaScope(use.scope), use.name) for use in (live.uses if live else ())}
    return mine | quotas.keys() | used | {one for owner, project, _ in counts for one in accounts(owner, project)}


def _view(account: Account, quotas: dict[Account, Quota], counts: Counts, live: LiveView | None) -> QuotaView:
    quota = quota_of(account, quotas)
    waiting = sum(
        count
        for (owner, project, state), count in counts.items()
        if state in WAITING and account in accounts(owner, project)
    )
    is_all = account.name == EVERYONE
    use = None if live is None or quota is None or is_all else _use(account, live)
    limits = quota or Quota(account)
    return QuotaView(
        scope=account.scope.value,
        name=account.name,
        own=account in quotas,
        running_devices=None if use is None else use.devices,
        running_devices_limit=limits.running_devices,
        waiting_jobs=None if is_all else waiting,
        waiting_jobs_limit=limits.waiting_jobs,
        device_hours=None if use is None else round(use.device_hours, 2),
        device_hours_limit=limits.device_hours,
        window_s=limits.window_s,
    )


def _use(account: Account, live: LiveView) -> AccountUse:
    """What the account uses; the view has those that use anything."""
    found = (use for use in live.uses if (use.scope, use.name) == (account.scope.value, account.name))
    return next(found, AccountUse(account.scope.value, account.name, 0, 0.0))
