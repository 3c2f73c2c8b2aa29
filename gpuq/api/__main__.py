"""`python -m gpuq.api`: the HTTP endpoint as a process. `--port N` overrides the settings, `--tcp-fd N` is a socket in its place.

Exits with 0 after SIGTERM or SIGINT, else with the error's code.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import signal
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from gpuq.adapters.redis.host_channels import HostChannels
from gpuq.adapters.redis.host_logs import HostLogs
from gpuq.adapters.redis.stream import RedisStream
from gpuq.adapters.store import open_store
from gpuq.api.app import make_app
from gpuq.api.connections import allow_descriptors
from gpuq.api.context import ApiContext
from gpuq.api.models import ShelfModels
from gpuq.api.server import serve
from gpuq.api.sockets import inherited_tcp
from gpuq.errors import GpuqError
from gpuq.home import host_key, private_secret
from gpuq.learn.features.kind import describe
from gpuq.logs import report, start_log
from gpuq.settings import Settings, load

_log = logging.getLogger("gpuq.api")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m gpuq.api", description="gpuq's HTTP endpoint.")
    parser.add_argument("--port", type=int, help="TCP port; 0 picks a free one")
    parser.add_argument(
        "--tcp-fd", type=int, help="descriptor of a listening TCP socket, from `gpuq up` or gpuq-api.socket"
    )
    options = parser.parse_args(arguments)
    gc.freeze()  # modules stay to the end; otherwise the last collection looks through them, most of what a stop takes
    start_log()
    allow_descriptors()
    # aiohttp logs every malformed request with a traceback; anyone who reaches the port could fill our log.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    try:
        settings = load()
        if options.port is not None:
            settings = replace(settings, api=replace(settings.api, port=options.port))
        settings.home.create()
        tcp = None if options.tcp_fd is None else inherited_tcp(options.tcp_fd)
        asyncio.run(_run(settings, tcp))
    except GpuqError as error:
        return report(error)
    return 0


async def _run(settings: Settings, tcp: socket.socket | None) -> None:
    if tcp is not None and settings.api.port not in (0, tcp.getsockname()[1]):
        _log.warning("port %d under [api] has no effect: gpuq-api.socket names it", settings.api.port)
    token = private_secret(settings.home.token_file)
    store = open_store(settings.database_url)
    stream = RedisStream(settings.effective_redis_url)
    key_of = partial(host_key, private_secret(settings.home.order_key_file))
    host_logs = HostLogs(settings.effective_redis_url, key_of)
    channels = HostChannels(settings.effective_redis_url, key_of, settings.home.run)
    models = ShelfModels(store, settings.home.models, settings.learning, time.time, settings.admission)
    context = ApiContext(settings, store, stream, describe, token, models, host_logs, channels)
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, context.ending.set)
    try:
        await serve(make_app(context), settings.home, settings.api, context.ending, _log.info, tcp)
    finally:
        await channels.close()
        await host_logs.close()
        await stream.close()
        store.close()


if __name__ == "__main__":
    sys.exit(main())
