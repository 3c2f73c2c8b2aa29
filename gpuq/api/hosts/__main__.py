"""`python -m gpuq.api.hosts`: the listener for other hosts. It ends at once where `hosts_at` under [api] is not set."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
import time

from systemd_watchdog import WatchDog

from gpuq.adapters.certificates import Authority
from gpuq.adapters.redis.link import async_client
from gpuq.adapters.redis.stream import RedisStream
from gpuq.adapters.store import open_store
from gpuq.api.connections import allow_descriptors
from gpuq.api.hosts.calls import HostContext
from gpuq.api.hosts.listener import run_blocking, serve
from gpuq.errors import GpuqError
from gpuq.logs import report, start_log
from gpuq.settings import Settings, load

# Each host waits for orders and for requests for logs.
_WAITING_HOSTS = 500
_log = logging.getLogger("gpuq.hosts")


def main() -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code."""
    gc.freeze()
    start_log()
    allow_descriptors()
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it logs each failed handshake with a traceback
    try:
        settings = load()
        if not settings.api.hosts_at:
            _log.info("`hosts_at` under [api] is not set: no other host can join")
            WatchDog().ready()  # systemd takes an end before this for a failure
            return 0
        settings.home.create()
        asyncio.run(_run(settings))
    except GpuqError as error:
        return report(error)
    return 0


async def _run(settings: Settings) -> None:
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    store = open_store(settings.database_url)
    url = settings.effective_redis_url
    stream, client = RedisStream(url), async_client(url, 2 * _WAITING_HOSTS)
    try:
        authority = Authority(settings.home.tls, time.time)
        context = HostContext(store, stream, client, url, authority, run_blocking)
        await serve(context, settings, stop, _log.info)
    finally:
        await client.aclose()
        await stream.close()
        store.close()


if __name__ == "__main__":
    sys.exit(main())
