"""Who may join, and the certificates of hosts. The rules; `listener.py` and `gpuq.api.handlers.hosts` have the calls.

An invitation is a secret of 256 bits in a command that works once and for an hour. The record has its SHA-256 only.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable

from msgspec.structs import replace

from gpuq.adapters.certificates import Authority, Issued
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import JoinedHost
from gpuq.api.contract.problem import Unauthenticated
from gpuq.errors import BadInput, Conflict
from gpuq.settings import HOST_NAME

INVITED_S = 3600.0
_NO_DIGEST = "-" * 64
"""Compared where there is no invitation, so that this takes as long as where there is one."""
_NEWLINE = r"\n"


def invite(store: Store, host: str, now: float) -> tuple[JoinedHost, str]:
    """(the invitation, its secret) for a new host; an earlier one that was not used ends. Blocks.

    Raises BadInput for what is no name, and Conflict for a name that is taken.
    """
    if host not in HOST_NAME:
        raise BadInput(f"`{host[:100]}` is no name for a host.", fix=f"Use one {HOST_NAME}.")
    before = store.joined_host(host)
    has_joined = before is not None and before.serial is not None
    if has_joined or host in store.hosts() or any(one.host == host for one in store.devices(forgotten=False)):
        raise Conflict(
            f"There is a host {host} already.",
            fix=f"Choose another name, or remove that one: `gpuq host forget {host}`.",
        )
    secret = secrets.token_urlsafe(32)
    invitation = JoinedHost(host=host, digest=_digest(secret), invited_until=now + INVITED_S)
    if not store.replace_joined_host(before, invitation):
        raise _changed(host)
    return invitation, secret


def invited(store: Store, host: str, secret: str, now: float) -> JoinedHost:
    """The invitation with this secret. Raises Unauthenticated, with the reason for whoever has the secret; others learn not even
    whether there is such a host. Blocks."""
    row = store.joined_host(host) if host in HOST_NAME else None
    again = f"Make a new command on the main host: `gpuq host add {host}`."
    expected = _NO_DIGEST if row is None else row.digest
    if not hmac.compare_digest(_digest(secret), expected) or row is None:
        raise Unauthenticated(f"This is not the newest command for a host {host[:64]}.", fix=again)
    if row.serial is not None:
        raise Unauthenticated(
            f"The command for host {host} was used.",
            fix=f"To join it again, on the main host: `gpuq host forget {host}`, then `gpuq host add {host}`.",
        )
    if now >= row.invited_until:
        raise Unauthenticated(f"The command for host {host} has expired.", fix=again)
    return row


def join(store: Store, authority: Authority, row: JoinedHost, request: str) -> Issued:
    """The certificate of a host that was invited; its invitation ends. Blocks. Raises BadInput, Conflict."""
    issued = authority.issue(row.host, request)
    if not store.replace_joined_host(row, replace(row, serial=issued.serial, certified_until=issued.expires_at)):
        raise _changed(row.host)
    return issued


def identified(store: Store, host: str, serial: str) -> JoinedHost:
    """The host that this certificate is of. The first use of a new certificate ends the former one. Blocks.

    Raises Unauthenticated for a certificate that was replaced, or of a host that was forgotten.
    """
    row = store.joined_host(host)
    if row is None or serial not in {row.serial, row.former_serial}:
        what = "was forgotten" if row is None else "has another certificate now"
        raise Unauthenticated(
            f"Host {host} {what}.",
            fix=f"To join it again, on the main host: `gpuq host forget {host}`, then `gpuq host add {host}`.",
        )
    if serial == row.serial and row.former_serial is not None:
        settled = replace(row, former_serial=None, renew=False)
        store.replace_joined_host(row, settled)
        return settled
    return row


def renew(store: Store, authority: Authority, row: JoinedHost, used: str, request: str) -> Issued:
    """Another certificate; the one with the serial number `used` counts until the new one is used. Blocks."""
    issued = authority.issue(row.host, request)
    after = replace(row, serial=issued.serial, former_serial=used, certified_until=issued.expires_at)
    if not store.replace_joined_host(row, after):
        raise _changed(row.host)
    return issued


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()  # a header may hold any bytes


def _changed(host: str) -> Conflict:
    return Conflict(f"Host {host} was changed by another call at the same moment.", fix="Try again.")


def names_of(addresses: Iterable[str]) -> list[str]:
    """The names in addresses like `main.example.org:8781`."""
    return [address.rpartition(":")[0].strip("[]") for address in addresses]


def command(address: str, fingerprint: str, host: str, secret: str) -> str:
    """The line to run on the new host as root. It runs only what a server with this certificate sends.

    `printf` is part of the shell, so the secret is on no command line that another user could read.
    """
    program = (
        "import hashlib,http.client,ssl",
        f"A,F,N,S='{address}','{fingerprint}','{host}','{secret}'",
        "x=http.client.HTTPSConnection(A,timeout=20,context=ssl._create_unverified_context())",
        "try:x.connect()",
        "except OSError as e:exit(f'gpuq: {A} does not answer: {e}. Can this host reach it?')",
        "hashlib.sha256(x.sock.getpeercert(True)).hexdigest()==F or exit(f'gpuq: {A} did not make this command.')",
        "x.request('GET','/join.py')",
        "exec(x.getresponse().read())",
    )
    python = "command -v python3 >/dev/null || { apt-get update -q && apt-get install -qy python3; }"
    return f'{{ {python}; }} && printf %b "{_NEWLINE.join(program)}" | python3 -'
