"""`gpuq token create|list|revoke`: what stands for a user over TCP."""

from __future__ import annotations

from urllib.parse import quote

from gpuq import format as fmt
from gpuq.cli import console
from gpuq.cli.arguments import Parser
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.console import Column
from gpuq.cli.quantities import parse_duration
from gpuq.errors import BadInput

ROLES = ["user", "operator", "admin"]


def run(words: list[str]) -> int:
    """Make, list or revoke tokens."""
    parser = Parser(
        "token",
        "Tokens for callers over the network: GPUQ_TOKEN holds one.\nWhoever has a token acts as its user, until it expires.",
    )
    parser.add_argument("action", choices=["create", "list", "revoke"], help="what to do")
    parser.add_argument(
        "ids", nargs="*", default=[], metavar="ID", help="revoke: which tokens; `gpuq token list` shows the ids"
    )
    parser.add_argument("--user", metavar="NAME", help="create: for another user; only admins may")
    parser.add_argument("--role", choices=ROLES, default="user", help="create: the most that it may do; default: user")
    parser.add_argument(
        "--expires", metavar="TIME", help="create: when it expires, as in 12h or 90d; default: 90d, `never`"
    )
    parser.add_argument("--note", metavar="TEXT", help="create: what it is for, as in `laptop`")
    options = parser.parse_args(words)
    if bool(options.ids) != (options.action == "revoke"):
        raise BadInput("`revoke` needs ids, and only `revoke` takes them.", fix="`gpuq token list` shows the ids.")
    client = HttpClient.of(options)
    if options.action == "list":
        console.show(options, client.get("/api/v1/tokens"), lambda found, width, _: listing(found["tokens"], width))
    elif options.action == "revoke":
        revoked = [client.post(f"/api/v1/tokens/{quote(one, safe='')}/revoke") for one in options.ids]
        console.show(options, revoked, lambda found, *_: [f"{one['id']} of {one['user']} is revoked." for one in found])
    else:
        given = {"user": options.user, "role": options.role, "note": options.note}
        body = {name: value for name, value in given.items() if value is not None}
        made = client.post("/api/v1/tokens", {**body, "lasts_s": _lasts_s(options.expires)})
        console.show(options, made, lambda found, *_: [found["token"]])
        if not options.json:
            console.note(f"This is shown once. It {_end(made)}; revoke it with `gpuq token revoke {made['id']}`.")
    return 0


def _lasts_s(text: str | None) -> float | None:
    return None if text == "never" else parse_duration(text or "90d")


def _end(token: Record) -> str:
    return f"expires at {fmt.local_time(token['expires_at'])}" if token["expires_at"] else "does not expire"


def listing(tokens: list[Record], width: int) -> list[str]:
    """A table of tokens, one line each."""
    columns = [Column("ID"), Column("USER"), Column("ROLE"), Column("EXPIRES"), Column("NOTE", least=10, give_up=1)]
    rows = []
    for token in tokens:
        expires = fmt.local_time(token["expires_at"]) if token["expires_at"] else "never"
        end = "revoked" if token["revoked_at"] else expires
        rows.append((token["id"], fmt.clean(token["user"]), token["role"], end, fmt.clean(token["note"] or "")))
    return console.table(columns, rows, width) if rows else ["There are no tokens."]
