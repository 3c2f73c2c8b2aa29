"""The pages' files, and the exchange of the token, from the address or the login form, for the page's session.

After the exchange the browser leaves the address with the token at once, so that the token is not visible for long.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from urllib.parse import parse_qs

from aiohttp import web

from gpuq.api.connections import whole
from gpuq.api.context import ApiContext, context_of
from gpuq.api.identity import cookie_name, is_exchange, session_for
from gpuq.api.page.overview import overview as first_page
from gpuq.api.page.templates import welcome
from gpuq.errors import NotFound

_KINDS = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_FOLDER = Path(__file__).parent
FILES = {
    path.name: path
    for path in (
        *(_FOLDER / name for name in ("page.js", "actions.js", "forms.js", "job.js", "order.js", "terminal.js")),
        *(_FOLDER / name for name in ("timeline.js", "welcome.js", "page.css", "icon.svg")),
        *(_FOLDER / "xterm" / name for name in ("xterm.mjs", "xterm-fit.mjs", "xterm.css")),
    )
}
_FORM_BYTES = 1024


async def overview(request: web.Request) -> web.Response:
    """The first page, or the exchange of the token in its address."""
    if not is_exchange(request):
        return await first_page(request)
    given = request.query.getall("token")
    return await _open_session(given[0] if len(given) == 1 else "", context_of(request))


async def static(request: web.Request) -> web.Response:
    """A script, the style or the icon; nothing of it where the browser has it already. Raises NotFound."""
    name = request.match_info["name"]
    if name not in FILES:
        raise NotFound("There is no such file.", fix="The pages use /static/page.js and /static/page.css.")
    body, tag = _file(name)
    if any(known.value == tag for known in request.if_none_match or ()):
        answer = web.Response(status=304)
    else:
        answer = web.Response(body=body, content_type=_KINDS[Path(name).suffix], charset="utf-8")
        answer.enable_compression()
    answer.etag = tag
    answer.headers.update({"Cache-Control": "no-cache", "Vary": "Accept-Encoding"})
    return answer


@cache
def _file(name: str) -> tuple[bytes, str]:
    """(the file, its tag, which changes with it)."""
    body = FILES[name].read_bytes()
    return body, hashlib.sha256(body).hexdigest()[:16]


async def login(request: web.Request) -> web.Response:
    """Exchange the token of the login form for a session. Raises Unauthenticated for a wrong token."""
    # Anyone who reaches the port may send this, so no more is read than a form with a token needs.
    raw = await whole(request, _FORM_BYTES) if (request.content_length or 0) <= _FORM_BYTES else b""
    given = parse_qs(raw.decode("ascii", "replace")).get("token", [""])[0].strip()
    return await _open_session(given, context_of(request))


async def _open_session(given: str, context: ApiContext) -> web.Response:
    """The cookie, and a page with the key. Not a redirect: after a link from elsewhere (a file, a chat) browsers do not send a
    strict cookie along a redirect. Raises Unauthenticated."""
    session = await session_for(given, context)
    answer = web.Response(text=welcome(session.page_key), content_type="text/html")
    answer.set_cookie(cookie_name(context.token), session.cookie, httponly=True, samesite="Strict", path="/")
    return answer
