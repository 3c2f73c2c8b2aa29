"""`python -m gpuq.pools.in_slurm`: the whole of gpuq in a Slurm job, on whatever node Slurm chose.

It runs `gpuq up`, and before its HTTP endpoint, which is for this node only, a TLS port for the commands of its user on other
hosts. It writes into the home where that is, and into the homes of pilots that run, whose jobs went on meanwhile. A minute before
its time limit it queues itself again. On SIGTERM it ends, on SIGUSR2 with all jobs.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import ssl
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from gpuq.adapters import slurm
from gpuq.adapters.certificates import Authority
from gpuq.adapters.main_host import Joined, joined
from gpuq.adapters.supervise import python_module
from gpuq.cli.client import is_held
from gpuq.errors import Conflict, GpuqError
from gpuq.home import Home, write_private
from gpuq.logs import report, start_log
from gpuq.messages import main_job
from gpuq.messages.main_job import MainJob
from gpuq.settings import Settings, load

log = logging.getLogger("gpuq.slurm")

_PIECE = 65_536
_LOOK_EVERY_S = 0.2
_REQUEUED_WITHIN_S = 60.0


def main() -> int:
    """Run until gpuq ends or Slurm ends this job; returns the exit code."""
    start_log()
    try:
        return asyncio.run(InSlurm(load(), int(os.environ["SLURM_JOB_ID"])).run())
    except GpuqError as error:
        return report(error)


class InSlurm:
    """One run of this Slurm job."""

    def __init__(self, settings: Settings, slurm_job: int) -> None:
        self._settings, self._home = settings, settings.home
        self._node = socket.gethostname()
        self._job = MainJob(slurm_job=slurm_job)
        self._asked: asyncio.Queue[int] = asyncio.Queue()

    async def run(self) -> int:
        """Returns the exit code. Raises GpuqError."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            asyncio.get_running_loop().add_signal_handler(number, self._asked.put_nowait, number)
        self._home.create()
        if is_held(self._home.run / "up.lock"):  # before the home names this job in place of that one
            raise Conflict(
                f"A gpuq of {self._home.root} runs already.",
                fix="It is another Slurm job's, or was started on a host: `gpuq queue` finds it. This Slurm job ends.",
            )
        main_job.save(self._home, self._job)
        (self._home.run / "http.json").unlink(missing_ok=True)
        hosts_at = f"{self._node}:{_port_for_hosts(self._settings)}"
        readdress_pilots(self._home, hosts_at)
        up = await asyncio.create_subprocess_exec(
            *python_module("gpuq.programs.up", "--port", "0"), env=environment_of(self._settings, self._node, hosts_at)
        )
        ended = asyncio.create_task(up.wait())
        async with await self.listen() as server:
            announcing = asyncio.create_task(self.announce(server))
            asked = asyncio.create_task(self._asked.get())
            await asyncio.wait({ended, asked}, return_when=asyncio.FIRST_COMPLETED)
            announcing.cancel()
            # From here on no command finds it.
            main_job.save(self._home, self._job)
            if not ended.done():
                with suppress(ProcessLookupError):
                    up.send_signal(signal.SIGUSR1 if asked.result() == signal.SIGUSR2 else signal.SIGTERM)
            code = await ended
            asked.cancel()
        if asked.done() and not asked.cancelled() and asked.result() == signal.SIGUSR1:
            log.info("the time of this Slurm job is up: it is queued again")
            slurm.requeue(self._job.slurm_job)
            await asyncio.sleep(_REQUEUED_WITHIN_S)  # Slurm ends this process
        return code

    async def listen(self) -> asyncio.Server:
        """The TLS port, a free one."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        certificate, key = Authority(self._home.tls, time.time).main_files([self._node])
        context.load_cert_chain(certificate, key)
        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        return await asyncio.start_server(self._serve, None, port, ssl=context)

    async def announce(self, server: asyncio.Server) -> None:
        """Once gpuq is up, write into the home where it is."""
        while not (self._home.run / "http.json").exists():
            await asyncio.sleep(_LOOK_EVERY_S)
        url = f"https://{self._node}:{server.sockets[0].getsockname()[1]}"
        main_job.save(self._home, replace(self._job, node=self._node, url=url))
        log.info("gpuq is up in Slurm job %d on %s: %s", self._job.slurm_job, self._node, url)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on to the HTTP endpoint."""
        try:
            port = urlsplit(json.loads((self._home.run / "http.json").read_bytes())["url"]).port
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        except (OSError, ValueError, KeyError):
            writer.close()
            return
        ways = {
            asyncio.create_task(_copy(reader, inner_writer)),
            asyncio.create_task(_copy(inner_reader, writer)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for one in (writer, inner_writer):
                one.close()
                with suppress(OSError):
                    await one.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_PIECE):
            writer.write(data)
            await writer.drain()


def environment_of(settings: Settings, node: str, hosts_at: str) -> Mapping[str, str]:
    """With which `gpuq up` runs on this node: it takes pilots, starts no job here, and knows the node's name."""
    names = ",".join([*settings.api.allowed_hosts, node])
    return {
        **os.environ,
        "GPUQ_API_HOSTS_AT": hosts_at,
        "GPUQ_API_ALLOWED_HOSTS": names,
        "GPUQ_DEVICES_BACKEND": "none",
        "GPUQ_HOST": f"unix://{settings.home.api_socket}",  # of the processes in this job
    }


def _port_for_hosts(settings: Settings) -> int:
    """That of the settings, since a site may have opened it; else a free one."""
    if settings.api.hosts_at:
        return int(settings.api.hosts_at[0].rpartition(":")[2])
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def readdress_pilots(home: Home, hosts_at: str) -> None:
    """Write into the home of each pilot that joined where gpuq is now; the pilot starts its worker service again for it."""
    for file in home.pilots.glob("*/gpuq/joined.json"):
        of_pilot = Home(file.parent)
        try:
            where = joined(of_pilot)
        except GpuqError as error:
            log.warning("%s", error.message)
            continue
        if where is not None and where.main != (hosts_at,):
            write_private(of_pilot.joined_file, msgspec.json.encode(Joined(where.host, (hosts_at,))))


if __name__ == "__main__":
    sys.exit(main())
