"""Tokens of users: make, list and revoke. The secret is in the answer that makes one, and nowhere else."""

from __future__ import annotations

import pwd
from typing import Any

import msgspec
from aiohttp import web

from gpuq.adapters.store.row_types import Token
from gpuq.api import tokens
from gpuq.api.context import context_of, reply
from gpuq.api.contract import bodies, params
from gpuq.api.contract.schema import NewToken, TokenList, TokenView
from gpuq.api.identity import Role, caller_of, role_of
from gpuq.errors import NotFound, NotPermitted
from gpuq.format import rfc3339, rfc3339_or_none

_body = msgspec.json.Decoder(bodies.TokenBody)


async def make(request: web.Request) -> web.Response:
    """Make a token for the caller, or for another user if the caller is an admin."""
    context, caller = context_of(request), caller_of(request)
    wanted = await bodies.body(request, _body)
    if caller.way == "user token":
        raise NotPermitted(
            "A token cannot make another one.", fix="Use `gpuq token create` on the machine of this gpuq."
        )
    user = params.given(wanted.user) or caller.user
    if user != caller.user and caller.role < Role.ADMIN:
        raise NotPermitted(f"Only an admin may make a token for {user}.", fix="Leave `--user` out for one of your own.")
    try:
        uid = pwd.getpwnam(user).pw_uid
    except KeyError:
        raise NotFound(
            f"There is no user {params.shown(user)} on this machine.", fix="Name one of its users."
        ) from None
    own = role_of(user, uid, context.settings.api)
    role = Role[wanted.role.upper()]
    if role > own:
        raise NotPermitted(f"The role of {user} is `{own.name.lower()}`.", fix="A token has at most its user's role.")
    now = context.now()
    expires_at = None if wanted.lasts_s is None else now + wanted.lasts_s
    token, text = tokens.new_token(user, uid, wanted.role, params.given(wanted.note), now, expires_at)
    await context.read(context.store.add_token, token)
    return reply(NewToken(token=text, **_facts(token)), 201)


async def listing(request: web.Request) -> web.Response:
    """The caller's tokens; an admin sees all."""
    return reply(TokenList(tokens=await token_views(request)))


async def token_views(request: web.Request) -> list[TokenView]:
    """The caller's tokens, all for an admin, oldest first."""
    context, caller = context_of(request), caller_of(request)
    user = None if caller.role is Role.ADMIN else caller.user
    found = await context.read(context.store.tokens, user=user)
    return [TokenView(**_facts(token)) for token in found]


async def revoke(request: web.Request) -> web.Response:
    """Revoke a token of the caller, or any if the caller is an admin. Its next request is refused."""
    context, caller = context_of(request), caller_of(request)
    token_id = request.match_info["id"]
    token = await context.read(context.store.token, token_id)
    if token is None or (caller.role is not Role.ADMIN and token.user != caller.user):
        raise NotFound(f"There is no token {params.shown(token_id)}.", fix="`gpuq token list` shows the ids.")
    await context.read(context.store.revoke_token, token_id, context.now())
    token = await context.read(context.store.token, token_id) or token
    return reply(TokenView(**_facts(token)))


def _facts(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "user": token.user,
        "role": token.role,
        "note": token.note,
        "made_at": rfc3339(token.made_at),
        "expires_at": rfc3339_or_none(token.expires_at),
        "revoked_at": rfc3339_or_none(token.revoked_at),
    }
