"""Who is calling, and whether the request may come from another web page.

On a Unix socket the kernel says who connected, and the settings give that user a role. Over TCP a caller sends the token, or
the cookie that a browser got in exchange for it. Browsers send a cookie to every port of this machine, so another user's server
could learn it: by itself it may only read. The same exchange gives the page a key, which it keeps under its own origin, port
included, and sends as a header of each action; another web page cannot know or send it. What runs a command or lets another in
is no such action: it takes the token itself. Host and Origin are checked for every method, because a web page that can POST to
gpuq could run commands. `identify` sets `request[CALLER]` or raises. Tokens are compared in constant time and never logged.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import pwd
import re
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Final

from aiohttp import web

from gpuq.adapters.store.row_types import Token
from gpuq.api import tokens
from gpuq.api.connections import Known, note_known
from gpuq.api.context import ApiContext, context_of
from gpuq.api.contract.problem import Handler, Unauthenticated
from gpuq.api.threads import ASKING, Asking
from gpuq.errors import NotPermitted
from gpuq.settings import Api

PROBES: Final = frozenset({"/livez", "/readyz"})
LOGIN: Final = "/login"
PAGE_KEY: Final = "X-Gpuq-Page-Key"
_OPEN: Final = frozenset(
    {
        ("POST", LOGIN),
        *((verb, f"/static/{name}") for verb in ("GET", "HEAD") for name in ("page.css", "icon.svg", "welcome.js")),
    }
)
_PAGE_ACTIONS: Final = re.compile(
    r"/api/v1/(?:jobs/(?:[0-9]{1,18}/)?(?:cancel|hold|release)|jobs/edit(?:/preview)?|hosts/[^/]+/(?:drain|resume)|quotas(?:/remove)?"
    r"|tokens/[^/]+/revoke|models/rollback)"
)
"""All that the page's key allows. What runs a command or lets another in (submissions, new tokens and hosts) takes the token."""
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_PEER = struct.Struct("3i")


class Role(IntEnum):
    """What a caller may do: users manage their own jobs, operators the jobs of all users, admins gpuq itself, too."""

    USER = 1
    OPERATOR = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True)
class Caller:
    """An identified caller. `way` is `socket`, `token` (of the home), `user token` or `cookie`. `token_id` is that of the user's
    token that came, or that the cookie was made of."""

    user: str
    uid: int
    way: str
    role: Role
    token_id: str | None = None

    def manages(self, owner: str) -> bool:
        """Whether the caller may change the jobs of `owner` and read their output."""
        return owner == self.user or self.role >= Role.OPERATOR


@dataclass(frozen=True, slots=True)
class Session:
    """What a browser gets for a token: the value of the cookie, and the key of the page's actions."""

    cookie: str
    page_key: str


CALLER: Final = web.RequestKey("caller", Caller)


@web.middleware
async def identify(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse unknown callers. The probes, the login form and its files need only valid Host and Origin headers."""
    connection: socket.socket | None = request.get_extra_info("socket")
    if connection is None:
        raise Unauthenticated("The connection is gone.")
    context = context_of(request)
    ASKING.set(Asking("", partial(_has_hung_up, request)))
    if connection.family == socket.AF_UNIX:
        request[CALLER] = caller_at(connection, context.settings.api)
    else:
        check_address(request, connection.getsockname()[1], context.settings.api.allowed_hosts)
        path = request.rel_url.raw_path
        if path not in PROBES and (request.method, path) not in _OPEN and not is_exchange(request):
            request[CALLER] = await _caller_over_tcp(request, context)
    if CALLER in request:
        note_known(request, Known(request[CALLER].user, request[CALLER].token_id))
        ASKING.set(Asking(request[CALLER].user, partial(_has_hung_up, request)))
    return await handler(request)


def _has_hung_up(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


def caller_of(request: web.Request) -> Caller:
    """The caller of an identified request. Raises Unauthenticated."""
    caller: Caller | None = request.get(CALLER)
    if caller is None:
        raise Unauthenticated
    return caller


def restricted(handler: Handler, role: Role) -> Handler:
    """The handler for callers of at least this role. It raises NotPermitted for others."""

    async def checked(request: web.Request) -> web.StreamResponse:
        caller = caller_of(request)
        if caller.role < role:
            raise NotPermitted(
                f"User {caller.user} may not do this; it takes the role `{role.name.lower()}`.",
                fix="Ask who runs this gpuq: `operators` and `admins` under [api] name the users with a role.",
            )
        return await handler(request)

    return checked


def is_exchange(request: web.Request) -> bool:
    """Whether this request exchanges the token in the address for a cookie. Its handler checks the token."""
    return request.method == "GET" and request.rel_url.raw_path == "/" and "token" in request.rel_url.query


def token_matches(given: str, token: str) -> bool:
    """Compare with the token, in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode())


def cookie_name(token: str) -> str:
    """The cookie's name, different for each gpuq: browsers share cookies between all ports of a machine."""
    return "gpuq_" + hmac.new(token.encode(), b"gpuq page cookie name", hashlib.sha256).hexdigest()[:8]


def page_key(secret: str) -> str:
    """The key of the page's actions, from the home's token or the digest of a user's."""
    return hmac.new(secret.encode(), b"gpuq page actions", hashlib.sha256).hexdigest()


def cookie_value(token: str) -> str:
    """The cookie's value: proves knowledge of the token without containing it."""
    return hmac.new(token.encode(), b"gpuq page cookie", hashlib.sha256).hexdigest()


# --- the Unix socket -----------------------------------------------------------------------------------------------


def caller_at(connection: socket.socket, settings: Api) -> Caller:
    """The user who connected, from the kernel, with the role that the settings give.

    Raises NotPermitted, where no socket is shared, for others than root and the user who runs gpuq.
    """
    _, uid, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    user = user_name(uid)
    role = role_of(user, uid, settings)
    if role is not Role.ADMIN and not settings.shared_socket:
        raise NotPermitted(f"User {user} may not use this gpuq; it belongs to {user_name(os.geteuid())}.")
    return Caller(user, uid, "socket", role)


def role_of(user: str, uid: int, settings: Api) -> Role:
    """The role of a user of this machine."""
    if uid in (0, os.geteuid()) or user in settings.admins:
        return Role.ADMIN
    return Role.OPERATOR if user in settings.operators else Role.USER


def user_name(uid: int) -> str:
    """The name of a user; its number as text if it has none.

    The name is looked up again after some seconds: a new account may have the number of a removed one. While no account is found,
    the last name stays, because a directory of users that does not answer looks the same.
    """
    now = time.monotonic()
    name, looked_up_at = _names.get(uid, (str(uid), -_NAME_KEPT_S))
    if now - looked_up_at >= _NAME_KEPT_S:
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            if uid not in _names:
                return name
        _names[uid] = (name, now)
    return name


_NAME_KEPT_S: Final = 5.0
_names: dict[int, tuple[str, float]] = {}
"""uid -> (its name, when it was looked up)."""


# --- TCP -----------------------------------------------------------------------------------------------------------


def check_address(request: web.Request, port: int, allowed: Sequence[str]) -> None:
    """Check that Host names this gpuq, and that Origin, if sent, is our own page. Raises NotPermitted."""
    hosts = request.headers.getall("Host", [])
    if len(hosts) != 1 or not host_is_ours(hosts[0], port, allowed):
        raise NotPermitted(
            "The Host header does not name this gpuq.",
            fix="Use 127.0.0.1 or localhost with the right port, or add the name to `allowed_hosts` under [api].",
        )
    origins = request.headers.getall("Origin", [])
    if origins and (len(origins) > 1 or not origin_matches(origins[0], hosts[0])):
        raise NotPermitted("Another web page may not use this gpuq.", fix="Open gpuq's own page.")


def host_is_ours(host: str, port: int, allowed: Sequence[str]) -> bool:
    """Whether a Host header is a loopback name or address with our port, or one of `allowed_hosts`."""
    host = host.lower()
    name, colon, digits = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not colon:
        name, digits = host, "80"
    if {host, name} & {entry.lower() for entry in allowed}:
        return True
    if digits != str(port):
        return False
    try:
        if name.startswith("["):
            return ipaddress.IPv6Address(name.removeprefix("[").removesuffix("]")).is_loopback
        return name == "localhost" or ipaddress.IPv4Address(name).is_loopback
    except ValueError:
        return False


def origin_matches(origin: str, host: str) -> bool:
    """Whether an Origin header is the page served under this Host header."""
    return origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")


async def session_for(given: str, context: ApiContext) -> Session:
    """The page's session for a token of a user or of the home. Raises Unauthenticated."""
    if token_matches(given, context.token):
        return Session(cookie_value(context.token), page_key(context.token))
    token = await _valid_token(given, context)
    if token is None or not tokens.is_text_of(given, token):
        raise Unauthenticated("This is not a token of this gpuq.")
    return Session(tokens.cookie_of(token), page_key(token.digest))


async def _caller_over_tcp(request: web.Request, context: ApiContext) -> Caller:
    header = request.headers.get("Authorization")
    if header is not None:
        scheme, _, given = header.partition(" ")
        given = given.strip() if scheme.lower() == "bearer" else ""
        if token_matches(given, context.token):
            return Caller(user_name(os.geteuid()), os.geteuid(), "token", Role.ADMIN)
        token = await _valid_token(given, context)
        if token is None or not tokens.is_text_of(given, token):
            raise Unauthenticated("The token is not this gpuq's, has expired or was revoked.")
        return _caller_of_token(token, "user token", context.settings.api)
    shown = request.cookies.get(cookie_name(context.token), "")
    if token_matches(shown, cookie_value(context.token)):
        caller, secret = Caller(user_name(os.geteuid()), os.geteuid(), "cookie", Role.ADMIN), context.token
    else:
        token = await _valid_token(shown, context)
        if token is None or not token_matches(shown, tokens.cookie_of(token)):
            raise Unauthenticated("This needs a token.")
        caller, secret = _caller_of_token(token, "cookie", context.settings.api), token.digest
    if request.method not in _SAFE and not _is_page_action(request, secret):
        raise NotPermitted("The page's cookie may only read.", fix="Send the token in the Authorization header.")
    return caller


def _is_page_action(request: web.Request, secret: str) -> bool:
    possible = request.method == "POST" and _PAGE_ACTIONS.fullmatch(request.rel_url.raw_path)
    return bool(possible) and token_matches(request.headers.get(PAGE_KEY, ""), page_key(secret))


async def _valid_token(given: str, context: ApiContext) -> Token | None:
    """The user's token that a token's text or a cookie names, if it is valid now. Its secret is not yet checked."""
    token_id = tokens.id_in(given)
    token = None if token_id is None else await context.read(context.store.token, token_id)
    return token if token is not None and tokens.is_valid(token, context.now()) else None


def _caller_of_token(token: Token, way: str, settings: Api) -> Caller:
    """The token's user with the lesser of the token's role and the user's own. Raises Unauthenticated."""
    try:
        uid = pwd.getpwnam(token.user).pw_uid
    except KeyError:
        raise Unauthenticated(f"There is no user {token.user} on this machine any more.") from None
    if token.uid not in (None, uid):
        raise Unauthenticated(
            f"This token is of an earlier account {token.user}, which had another number.",
            fix="`gpuq token create` makes one for the present account.",
        )
    return Caller(token.user, uid, way, min(Role[token.role.upper()], role_of(token.user, uid, settings)), token.id)


async def token_is_valid(token_id: str, context: ApiContext) -> bool:
    """Whether the record has this token of a user as valid now. Raises GpuqError."""
    token = await context.read(context.store.token, token_id)
    return token is not None and tokens.is_valid(token, context.now())
