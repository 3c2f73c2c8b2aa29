"""Listen for other hosts: TLS 1.3 with certificates on both sides, except for a host that is about to join, which has none yet.

OpenSSL refuses a certificate that another authority issued, or that has expired. Whether the host is still one of this gpuq is
looked up in the record at every call.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from aiohttp import web
from systemd_watchdog import WatchDog

from gpuq import keys
from gpuq.adapters.certificates import Authority
from gpuq.adapters.handover import give
from gpuq.adapters.main_host import PREFIX
from gpuq.adapters.relay import LARGEST_MESSAGE, relay
from gpuq.adapters.store.row_types import JoinedHost
from gpuq.adapters.tasks import wait_for_event
from gpuq.api.connections import KNOWN, Known, limit_connections, make_runner, note_known, refuse_encoded
from gpuq.api.contract.problem import BadRequest, Unauthenticated, break_off, problems
from gpuq.api.deadline import ANSWER_WITHIN_S, within
from gpuq.api.hosts import calls, joining, package
from gpuq.api.hosts.calls import HostCall, HostContext
from gpuq.api.hosts.tls_site import TlsSite
from gpuq.errors import BadSettings, Failure, GpuqError
from gpuq.home import Home, host_key, private_secret
from gpuq.settings import Api, Settings

_REFRESH_S = 3600.0
_BACKLOG = 1024
_log = logging.getLogger(__name__)
_PING_S = 5.0
CONTEXT = web.AppKey("host_context", HostContext)
HOME = web.AppKey("home", Home)
ADDRESSES = web.AppKey("addresses", tuple)
RUN_AS = web.AppKey("run_as", str)
PACKING = web.AppKey("packing", asyncio.Lock)


def make_app(context: HostContext, home: Home, addresses: tuple[str, ...], run_as: str) -> web.Application:
    """The application. `run_as` is as whom jobs run on all hosts."""
    app = web.Application(middlewares=[problems, refuse_encoded])
    app[CONTEXT], app[HOME], app[ADDRESSES], app[PACKING] = context, home, addresses, asyncio.Lock()
    app[KNOWN] = WeakKeyDictionary()
    app[RUN_AS] = run_as
    app.router.add_get("/join.py", bootstrap)
    app.router.add_get("/invitation", invitation)
    app.router.add_get("/package", packaged)
    app.router.add_post("/join", join)
    app.router.add_get(PREFIX + "/channel/{id:[0-9a-f]{32}}", channel)
    app.router.add_post(PREFIX + "/tree", tree)
    for path, (call, body) in calls.CALLS.items():
        app.router.add_post(PREFIX + path, _handler(call, body))
    return app


def _handler(call: Callable[[Any], Awaitable[Any]], body: Any) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        host, serial = await identify(request)
        given = await calls.read(request, body)
        answer = await call(HostCall(request.app[CONTEXT], host, serial, given))
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    return handle


async def tree(request: web.Request) -> web.StreamResponse:
    """The files that were sent with `--sync` for an attempt of the host that calls."""
    host, _ = await identify(request)
    context, asked = request.app[CONTEXT], await calls.read(request, calls.AttemptBody)
    pieces = await context.run(calls.tree, context.store, request.app[HOME], host.host, asked)
    answer = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
    first = await context.run(
        next, pieces, None
    )  # raises for a tree that is gone, while a problem document can be sent
    await answer.prepare(request)
    try:
        while first is not None:
            await answer.write(first)
            first = await context.run(next, pieces, None)
        await answer.write_eof()
    except ConnectionError:
        pass
    except Exception:  # noqa: BLE001 - the answer has begun, so no problem document can be sent
        break_off(request)
    return answer


async def channel(request: web.Request) -> web.StreamResponse:
    """Connect the API, which waits for it under this id, with a job on the host that calls."""
    host, _ = await identify(request)
    answer = web.WebSocketResponse(heartbeat=_PING_S, max_msg_size=LARGEST_MESSAGE, compress=False)
    if not answer.can_prepare(request):
        raise BadRequest("This address is for WebSockets.", fix="Connect to it as gpuq-worker does.")
    run, id_ = request.app[HOME].run, request.match_info["id"]
    if "refused" in request.query:
        await asyncio.to_thread(give, run, id_, host.host, None)
        await answer.prepare(request)
    else:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            await asyncio.to_thread(give, run, id_, host.host, theirs)
            theirs.close()
            ours.setblocking(False)
            await answer.prepare(request)
            await relay(answer, ours)
    await answer.close()
    return answer


async def identify(request: web.Request) -> tuple[JoinedHost, str]:
    """(the host that calls, its certificate's serial number). Raises Unauthenticated."""
    certificate: dict[str, Any] = request.get_extra_info("peercert") or {}
    subject = {name: value for part in certificate.get("subject", ()) for name, value in part}
    if "commonName" not in subject:
        raise Unauthenticated("This call needs the certificate of a host.", fix="Join with `gpuq host add`.")
    if ssl.cert_time_to_seconds(certificate["notAfter"]) < time.time():  # a connection may outlast it
        raise Unauthenticated("The certificate has expired.", fix="Join again with `gpuq host add`.")
    serial = format(int(certificate["serialNumber"], 16), "x")
    context = request.app[CONTEXT]
    host = await context.run(joining.identified, context.store, subject["commonName"], serial)
    note_known(request, Known(host.host))
    return host, serial


# --- joining ---------------------------------------------------------------------------------------------------------


async def bootstrap(_: web.Request) -> web.StreamResponse:
    """The program that a new host runs first. It is no secret."""
    return web.FileResponse(Path(__file__).with_name("bootstrap.py"))


async def invitation(request: web.Request) -> web.Response:
    """Whether the invitation is valid, so that a host that may not join is refused before it installs anything; as whom jobs are
    to run there; and the dispatcher's public key, for root there."""
    await _invited(request)
    dispatcher = keys.public_text(keys.private_key(request.app[HOME].dispatcher_key_file))
    return web.json_response({"run_as": request.app[RUN_AS], "dispatcher": dispatcher})


async def packaged(request: web.Request) -> web.StreamResponse:
    """The package, for a host that was invited."""
    await _invited(request)
    package.check_platform(request.query.get("platform", ""))
    file = request.app[HOME].run / "package.tar"
    async with request.app[PACKING]:
        if not file.exists():
            await asyncio.to_thread(package.build, file)
    return web.FileResponse(file)


async def join(request: web.Request) -> web.Response:
    """A certificate and what else a host holds, for one that was invited; its invitation ends."""
    context, home = request.app[CONTEXT], request.app[HOME]
    row = await _invited(request)
    body = await calls.read(request, calls.CertificateBody)
    issued = await context.run(joining.join, context.store, context.authority, row, body.request)
    answer = {
        "certificate": issued.pem,
        "authority": context.authority.file.read_text(),
        "host_key": host_key(private_secret(home.order_key_file), row.host),
        "main": request.app[ADDRESSES],
    }
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


async def _invited(request: web.Request) -> JoinedHost:
    """The host whose invitation the request carries. Raises Unauthenticated."""
    context = request.app[CONTEXT]
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    host = request.query.get("host", "")
    if scheme != "Bearer":
        raise Unauthenticated("This call needs an invitation.", fix="`gpuq host add` on the main host prints one.")
    found: JoinedHost = await context.run(joining.invited, context.store, host, secret.strip(), time.time())
    return found


# --- serving ---------------------------------------------------------------------------------------------------------


async def run_blocking(call: Callable[..., Any], *args: Any) -> Any:
    """The result of a call of the record, in a thread. Raises Unreachable if it takes too long."""
    return await within(ANSWER_WITHIN_S, asyncio.to_thread(call, *args))


def runner_of(app: web.Application) -> web.AppRunner:
    """What serves the application. A call that a host gave up must not take its next order."""
    return make_runner(app, shutdown_timeout=1.0, handler_cancellation=True)


def tls_context(authority: Authority, addresses: tuple[str, ...]) -> ssl.SSLContext:
    """TLS 1.3; a certificate that is shown must be of this authority and valid."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(str(authority.file))
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_cert_chain(*map(str, authority.main_files(joining.names_of(addresses))))
    return context


def listening_port(settings: Api) -> int:
    """The port of the addresses in the settings. Raises BadSettings if they have different ones."""
    ports = {address.rpartition(":")[2] for address in settings.hosts_at}
    if len(ports) != 1:
        raise BadSettings("`hosts_at` under [api] has several ports.", fix="Give all its addresses the same port.")
    return int(ports.pop())


def open_port(port: int) -> socket.socket:
    """A listening socket on all addresses of this machine. Raises OSError."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
    return socket.create_server(("", port), backlog=_BACKLOG)


async def serve(context: HostContext, settings: Settings, stop: asyncio.Event, log: Callable[[str], None]) -> None:
    """Serve until `stop` is set. Raises Failure if the port is taken."""
    addresses, port = settings.api.hosts_at, listening_port(settings.api)
    (settings.home.run / "package.tar").unlink(missing_ok=True)  # of another release, perhaps
    tls = tls_context(context.authority, addresses)
    app = make_app(context, settings.home, addresses, settings.worker.run_as)
    runner = runner_of(app)
    await runner.setup()
    refreshing = asyncio.create_task(_refresh(tls, context.authority, addresses))
    limiting = asyncio.create_task(limit_connections(runner))
    systemd = WatchDog()
    try:
        try:
            await TlsSite(runner, open_port(port), tls).start()
        except OSError as error:
            raise Failure(
                f"Cannot listen for hosts on port {port}: {error.strerror}.",
                fix="Choose another port in `hosts_at` under [api].",
            ) from error
        log(f"Listening for hosts on port {port}, as {', '.join(addresses)}")
        systemd.ready()
        while not stop.is_set():
            systemd.notify()
            await wait_for_event(stop, _PING_S)
    finally:
        refreshing.cancel()
        limiting.cancel()
        await runner.cleanup()


async def _refresh(tls: ssl.SSLContext, authority: Authority, addresses: tuple[str, ...]) -> None:
    """Use a renewed certificate for new connections. Where that fails, as on a full disk, the next look tries it again."""
    while True:
        await asyncio.sleep(_REFRESH_S)
        try:
            files = await asyncio.to_thread(partial(authority.main_files, joining.names_of(addresses)))
            tls.load_cert_chain(*map(str, files))
        except (OSError, GpuqError) as error:
            _log.error("the certificate for hosts is not renewed now: %s", error, extra={"action": "certificate"})
