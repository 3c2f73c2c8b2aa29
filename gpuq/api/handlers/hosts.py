"""Hosts: list, add, drain, resume, report as lost, forget, and rotate their keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
from aiohttp import web

from gpuq.adapters.certificates import Authority
from gpuq.api.context import ApiContext, context_of, reply
from gpuq.api.contract import bodies, params
from gpuq.api.contract.schema import HostRequestTaken, HostView, Invited, NoStartsView
from gpuq.api.hosts import joining
from gpuq.api.identity import caller_of
from gpuq.core.state.device import NoStarts
from gpuq.errors import Conflict, Failure, NotFound, Unreachable
from gpuq.format import rfc3339, rfc3339_or_none
from gpuq.messages.live import LiveView

Handler = Callable[[web.Request], Awaitable[web.Response]]
_FENCE_WITHIN_S = 60.0
_body = msgspec.json.Decoder(bodies.DrainBody)


async def hosts(request: web.Request) -> web.Response:
    """Every host with its state, by name."""
    context = context_of(request)
    return reply(host_views(context, (await context.live.read()).view))


async def drain(request: web.Request) -> web.Response:
    """Keep new jobs off a host; what runs there goes on."""
    why = (await bodies.body(request, _body)).why
    host = await _host(request)
    return await _request(request, "drain", host, {"host": host.name, "why": why})


async def resume(request: web.Request) -> web.Response:
    """Put a drained host back into service."""
    host = await _host(request)
    return await _request(request, "resume", host, {"host": host.name})


async def lost(request: web.Request) -> web.Response:
    """End what ran on a host that will not come back, after the site's fence command has switched it off.

    Raises Conflict while the host reports, and Failure if the fence command fails.
    """
    context, host = context_of(request), await _host(request)
    if host.state != "silent":
        raise Conflict(
            f"Host {host.name} reports: it is not lost.", fix=f"`gpuq host drain {host.name}` keeps new jobs off it."
        )
    fenced = await _fence(context, host.name)
    return await _request(request, "lost", host, {"host": host.name, "fenced": fenced})


async def add(request: web.Request) -> web.Response:
    """Invite a host: the command to run there, which works once. Raises Conflict for a name that is taken."""
    context, name = context_of(request), request.match_info["id"]
    addresses = context.settings.api.hosts_at
    if not addresses:
        raise Conflict(
            "No other host can join: `hosts_at` under [api] is not set.",
            fix="Set it to where other hosts reach this one, as in `main.example.org:8781`, and restart gpuq.",
        )
    authority = await context.run(Authority, context.settings.home.tls, context.clock)
    fingerprint = await context.run(authority.fingerprint, joining.names_of(addresses))
    invitation, secret = await context.read(joining.invite, context.store, name, context.now())
    command = joining.command(addresses[0], fingerprint, name, secret)
    expires_at = rfc3339(invitation.invited_until)
    main = addresses[0]
    return reply(
        Invited(host=name, main=main, fingerprint=fingerprint, secret=secret, command=command, expires_at=expires_at),
        201,
    )


async def rotate(request: web.Request) -> web.Response:
    """Have a host make a new key and get a new certificate within seconds; the former ones end then."""
    context, name = context_of(request), request.match_info["id"]
    row = await context.read(context.store.joined_host, name)
    if row is None or row.serial is None:
        raise NotFound(f"No host {params.shown(name)} has joined.", fix="`gpuq host list` names the hosts.")
    await context.read(context.store.replace_joined_host, row, msgspec.structs.replace(row, renew=True))
    return reply(HostRequestTaken(host=name, asked="rotate", jobs=[]), 202)


async def forget(request: web.Request) -> web.Response:
    """Remove a host that will not come back. Its certificate ends at once. Raises Conflict while it reports or has jobs."""
    context, name = context_of(request), request.match_info["id"]
    found = [host for host in host_views(context, (await context.live.read()).view) if host.name == name]
    row = await context.read(context.store.joined_host, name)
    if not found and row is None:
        raise NotFound(f"There is no host {params.shown(name)}.", fix="`gpuq host list` names them.")
    host = (
        found[0] if found else HostView(name=name, state="silent", drained=None, reported_at=None, devices=0, jobs=[])
    )
    if host.state != "silent":
        raise Conflict(f"Host {name} reports.", fix=f"Stop gpuq-worker there first, or `gpuq host drain {name}`.")
    if host.jobs:
        raise Conflict(
            f"Host {name} has jobs: {', '.join(map(str, host.jobs))}.",
            fix=f"If it will not come back, `gpuq host lost {name}` ends them, those with --requeue once their lease is over; "
            "then forget it.",
        )
    if row is not None and not await context.read(context.store.replace_joined_host, row, None):
        raise Conflict(f"Host {name} was changed by another call at the same moment.", fix="Try again.")
    return await _request(request, "forget", host, {"host": name})


def host_views(context: ApiContext, live: LiveView | None) -> list[HostView]:
    """Every host with its state, by name. Raises Unreachable without a live view."""
    if live is None:
        raise Unreachable("The dispatcher does not say which hosts there are.", fix="`gpuq doctor` checks each part.")
    now, stale_after_s = context.now(), context.settings.admission.stale_after_s
    found = []
    for host in live.hosts:
        devices = [device for device in live.devices if device.host == host.name]
        silent = host.reported_at is None or now - host.reported_at > stale_after_s
        no_starts = host.no_starts
        found.append(
            HostView(
                name=host.name,
                state="silent" if silent else "drained" if host.drained else "failing" if no_starts else "ok",
                drained=host.drained,
                reported_at=rfc3339_or_none(host.reported_at),
                devices=len(devices),
                lost=list(host.lost),
                unread=host.unread,
                clock_ahead_s=host.clock_ahead_s,
                no_starts=None if no_starts is None else _no_starts_view(no_starts),
                jobs=sorted({resident.job for device in devices for resident in device.residents}),
            )
        )
    return found


def _no_starts_view(found: NoStarts) -> NoStartsView:
    return NoStartsView(why=found.why, since_at=rfc3339(found.since_at), again_at=rfc3339_or_none(found.again_at))


async def _host(request: web.Request) -> HostView:
    """The host that the address names. Raises NotFound."""
    context, name = context_of(request), request.match_info["id"]
    for host in host_views(context, (await context.live.read()).view):
        if host.name == name:
            return host
    raise NotFound(f"There is no host {params.shown(name)}.", fix="`gpuq host list` names them.")


async def _request(
    request: web.Request, verb: Literal["drain", "resume", "lost", "forget"], host: HostView, body: dict[str, Any]
) -> web.Response:
    context = context_of(request)
    await context.read(context.store.add_request, verb, None, caller_of(request).user, context.now(), body)
    context.ringer.ring()
    return reply(HostRequestTaken(host=host.name, asked=verb, jobs=host.jobs), 202)


async def _fence(context: ApiContext, host: str) -> bool:
    """Run the site's fence command, if there is one; whether there is. Raises Failure unless it exits with 0 within a minute."""
    command = [word.replace("{host}", host) for word in context.settings.api.fence_command]
    if not command:
        return False
    fix = "Switch the host off by hand, correct `fence_command` under [api], and try again. Nothing was ended."
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise Failure(f"The fence command {command[0]} cannot be started: {error.strerror}.", fix=fix) from error
    try:
        async with asyncio.timeout(_FENCE_WITHIN_S):
            _, output = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise Failure(f"The fence command did not end within {_FENCE_WITHIN_S:.0f} s.", fix=fix) from None
    if process.returncode != 0:
        words = output.decode(errors="replace").strip()[-300:]
        raise Failure(f"The fence command failed with exit code {process.returncode}: {words}", fix=fix)
    return True
