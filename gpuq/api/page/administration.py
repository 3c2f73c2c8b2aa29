"""The page of the administration: hosts, quotas and tokens, as far as the caller may see and change them."""

from __future__ import annotations

from aiohttp import web

from gpuq.api.context import context_of
from gpuq.api.handlers.hosts import host_views
from gpuq.api.handlers.quotas import quota_views
from gpuq.api.handlers.tokens import token_views
from gpuq.api.identity import Role, caller_of
from gpuq.api.page.frame import page
from gpuq.format import when


async def administration(request: web.Request) -> web.Response:
    """The page of the administration."""
    context, caller = context_of(request), caller_of(request)
    live = await context.live.read()
    now = context.now()
    tokens = await token_views(request)
    return await page(
        request,
        "administration",
        live,
        hosts=host_views(context, live.view) if live.view else None,
        quotas=await quota_views(request),
        tokens=[one for one in tokens if one.revoked_at is None and (when(one.expires_at) or now) >= now],
        roles=[role.name.lower() for role in Role if role <= caller.role],
        operates=caller.role >= Role.OPERATOR,
        administers=caller.role >= Role.ADMIN,
    )
