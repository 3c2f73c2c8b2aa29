"""The main host, as a host that joined reaches it: one TLS port, where each side proves who it is by a certificate.

Such a host has no address and no password of the database or of Redis. `Link` is one connection; `RemoteClaims`, `RemoteInbox`
and `RemoteMail` make the calls of the worker service over it. Calls block. What is lost on the way is sent again, as with Redis.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
from cryptography import x509

from gpuq.adapters.certificates import new_request
from gpuq.adapters.store.contract import Claims
from gpuq.adapters.store.row_types import NameLease
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.errors import BadSettings, GpuqError, NotPermitted, Unreachable
from gpuq.home import Home, write_private
from gpuq.messages import wire
from gpuq.messages.codec import decoded
from gpuq.messages.job_record import JobRecord

log = logging.getLogger(__name__)

ANSWER_WITHIN_S = 4.0
PREFIX = "/host/v1"
_MOST_BYTES = 64 * 2**20
_PIECE = 2**18
_STALLED_S = 60.0
# A certificate is renewed when less than a third of its time is left.
_RENEW_IN_LAST = 1 / 3


class Joined(msgspec.Struct, frozen=True):
    """What `joined.json` holds: the name of this host, and where the main host is, each as `name:port`."""

    host: str
    main: tuple[str, ...]


def joined(home: Home) -> Joined | None:
    """How this home's host joined a main host; None if it did not. Raises BadSettings."""
    try:
        return msgspec.json.decode(home.joined_file.read_bytes(), type=Joined)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, OSError) as error:
        raise BadSettings(f"{home.joined_file} cannot be read: {error}.", fix="Join the host again.") from error


class Link:
    """One connection to the main host, for one call at a time. After a fault it is opened again, to the next address."""

    def __init__(self, home: Home, where: Joined) -> None:
        self._home, self._where = home, where
        self._lock = threading.Lock()
        self._connection: http.client.HTTPSConnection | None = None
        self._address = 0

    def call(self, path: str, body: Any = None, within_s: float = ANSWER_WITHIN_S) -> Any:
        """The answer to a POST of this JSON, decoded. Raises Unreachable, NotPermitted or another GpuqError."""
        with self._lock:
            try:
                return self._once(path, body, within_s)
            except (_Again, NotPermitted):
                # The main host closed an idle connection, or this process still has a certificate that was replaced meanwhile.
                self.close()
            try:
                return self._once(path, body, within_s)
            except _Again as error:
                raise Unreachable(
                    f"The main host at {self._where.main[self._address]} does not answer: {error}.",
                    fix="Is gpuq-hosts running there, and its port open to this host?",
                ) from error

    def stream(self, path: str, body: Any) -> Iterator[bytes]:
        """The answer to a POST of this JSON in pieces, over a connection that is closed then. Raises Unreachable, NotPermitted or
        another GpuqError."""
        try:
            connection = self._open()
            with closing(connection):
                connection.timeout = _STALLED_S
                connection.request(
                    "POST", PREFIX + path, msgspec.json.encode(body), {"Content-Type": "application/json"}
                )
                answer = connection.getresponse()
                if answer.status != 200:
                    raise problem_in(answer.read(_MOST_BYTES), answer.status)
                while piece := answer.read(_PIECE):
                    yield piece
        except (OSError, http.client.HTTPException) as error:
            address = self._where.main[self._address]
            self._address = (self._address + 1) % len(self._where.main)
            raise Unreachable(
                f"The main host at {address} does not answer: {error}.",
                fix="Is gpuq-hosts running there, and its port open to this host?",
            ) from error

    def close(self) -> None:
        """Close the connection; the next call opens one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _once(self, path: str, body: Any, within_s: float) -> Any:
        try:
            connection = self._connection = self._connection or self._open()
            connection.timeout = within_s
            if connection.sock is not None:
                connection.sock.settimeout(within_s)
            connection.request("POST", PREFIX + path, msgspec.json.encode(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            raw = answer.read(_MOST_BYTES)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            self._address = (self._address + 1) % len(self._where.main)
            raise _Again(str(error) or type(error).__name__) from error
        if answer.status != 200:
            raise problem_in(raw, answer.status)
        return msgspec.json.decode(raw)

    def _open(self) -> http.client.HTTPSConnection:
        name, _, port = self._where.main[self._address].rpartition(":")
        context = tls_context(self._home)
        return http.client.HTTPSConnection(name.strip("[]"), int(port), timeout=ANSWER_WITHIN_S, context=context)


class _Again(Exception):  # not an error yet
    """The connection failed; a new one may work."""


def problem_in(raw: bytes, status: int) -> GpuqError:
    """The error that a problem document of the main host describes."""
    body: dict[str, Any] = {}
    with suppress(ValueError):
        body = json.loads(raw)
    message = str(body.get("detail", f"The main host answered with status {status}."))
    fix = str(body.get("hint", "Look into the log of gpuq-hosts there."))
    kind = NotPermitted if status in {401, 403} else Unreachable if status == 503 else GpuqError
    return kind(message, fix=fix)


class RemoteClaims(Claims):
    """Claims and the lease of this host's name. With the lease the certificate is renewed, if it is time or an admin wants it."""

    def __init__(self, home: Home, where: Joined) -> None:
        self._home, self._link = home, Link(home, where)

    def claim(
        self,
        attempt: AttemptId,
        host: str,  # noqa: ARG002
        instance: str,
        boot_id: str,
        at: float,
    ) -> tuple[JobRecord, Attempt] | None:
        """See `Claims`. `host` is what the certificate says."""
        body = {"job": attempt.job, "attempt": attempt.number, "instance": instance, "boot_id": boot_id, "at": at}
        claimed = self._link.call("/claim", body)
        if claimed is None:
            return None
        return decoded(claimed["record"], JobRecord), decoded(claimed["attempt"], Attempt)

    def lease_host(self, host: str, instance: str) -> NameLease:
        """See `Claims`."""
        answer = self._link.call("/lease", {"instance": instance})
        if answer["renew"] or is_old(self._home, time.time()):
            try:
                self.renew(host)
            except (GpuqError, OSError) as error:  # the present certificate counts on, and the next call tries again
                log.warning("the certificate was not renewed: %s", error, extra={"action": "renew"})
        return decoded(answer["lease"], NameLease)

    def renew(self, host: str) -> None:
        """Replace the key and the certificate. The former one ends when the new one is used first."""
        key, request = new_request(host)
        answer = self._link.call("/certificate", {"request": request})
        write_private(self._home.host_certificate_file, (key + answer["certificate"]).encode())
        self._link.close()
        self._link.call("/acknowledgement")  # the first use of the new one ends the former

    def close(self) -> None:
        """Close the connection."""
        self._link.close()


def is_old(home: Home, now: float) -> bool:
    """Whether the certificate of this host is in the last third of its time."""
    certificate = x509.load_pem_x509_certificate(home.host_certificate_file.read_bytes())
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return ends - datetime.fromtimestamp(now, UTC) < (ends - begins) * _RENEW_IN_LAST


class RemoteInbox:
    """The dispatcher's inbox, for the messages of this host, and its acknowledgements."""

    def __init__(self, home: Home, where: Joined) -> None:
        self._link = Link(home, where)

    async def add(self, *messages: wire.Message) -> None:
        """Put messages into the inbox, in order."""
        await asyncio.to_thread(self._link.call, "/messages", [wire.encode(message).decode() for message in messages])

    async def acknowledged(self, host: str) -> bytes | None:  # noqa: ARG002  # what the certificate says
        """The latest acknowledgement to this host."""
        found = await asyncio.to_thread(self._link.call, "/acknowledgement")
        return None if found is None else str(found).encode()

    async def close(self) -> None:
        """Close the connection."""
        self._link.close()


class RemoteMail:
    """The orders for this host, and what the API asks of it."""

    def __init__(self, home: Home, where: Joined) -> None:
        self._home, self._where, self._link = home, where, Link(home, where)

    def order(self) -> Any | None:
        """The next order, as it was signed; None if none comes within two seconds."""
        return self._link.call("/order")

    async def log_request(self) -> bytes | None:
        """The next request for a log or a connection; None if none comes within two seconds."""
        found = await asyncio.to_thread(self._link.call, "/log-request")
        return None if found is None else str(found).encode()

    async def log_answer(self, request: str, answer: bytes) -> None:
        """Answer the request with this id."""
        await asyncio.to_thread(self._link.call, "/log-answer", {"request": request, "answer": answer.decode()})

    async def hand_over(self, request: str, connection: socket.socket | None) -> None:
        """Connect the API, which waits for it under this id, with a job here, until one side ends; None: there is no such
        connection. Raises Unreachable."""
        import aiohttp

        from gpuq.adapters.relay import LARGEST_MESSAGE, relay

        async with aiohttp.ClientSession() as session:
            for address in self._where.main:
                url = f"https://{address}{PREFIX}/channel/{request}"
                params = {"refused": "1"} if connection is None else {}
                try:
                    async with session.ws_connect(
                        url, params=params, ssl=tls_context(self._home), max_msg_size=LARGEST_MESSAGE, heartbeat=20.0
                    ) as web_socket:
                        if connection is not None:
                            connection.setblocking(False)
                            await relay(web_socket, connection)
                    return
                except (aiohttp.ClientError, OSError) as error:
                    log.info(
                        "%s does not take the connection: %s", address, error
                    )  # another main host may have asked for it
        raise Unreachable("No main host takes the connection.", fix="Try again.")


def tls_context(home: Home) -> ssl.SSLContext:
    """TLS to the main host: its certificate is of the authority that this host joined, and this host shows its own."""
    context = ssl.create_default_context(cafile=str(home.authority_file))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(str(home.host_certificate_file))
    return context
