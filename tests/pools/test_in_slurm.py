"""gpuq in a Slurm job: what its own services and the pilots get to know, and its TLS port."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path

import msgspec
import pytest

from gpuq.adapters.lock import only_one
from gpuq.adapters.main_host import Joined, joined
from gpuq.errors import Conflict
from gpuq.home import Home
from gpuq.messages import main_job
from gpuq.messages.main_job import MainJob
from gpuq.pools.in_slurm import InSlurm, environment_of, readdress_pilots
from gpuq.settings import load


def test_pilots_that_joined_get_the_new_address_of_gpuq(tmp_path: Path) -> None:
    home = Home(tmp_path)
    for name, text in {"a": msgspec.json.encode(Joined("a", ("n0:1",))), "b": b"{"}.items():
        (home.pilots / name / "gpuq").mkdir(parents=True)
        (home.pilots / name / "gpuq" / "joined.json").write_bytes(text)
    (home.pilots / "c").mkdir()
    readdress_pilots(home, "n1:2")
    assert joined(Home(home.pilots / "a" / "gpuq")) == Joined("a", ("n1:2",))
    assert not (home.pilots / "c" / "gpuq").exists()


def test_its_services_take_pilots_at_its_node_and_start_no_job_there(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[api]\nallowed_hosts = ["a.example.org"]\nhosts_at = ["old:1"]\n')
    before = load({"GPUQ_HOME": str(tmp_path)})
    after = load({**environment_of(before, "n1", "n1:2"), "GPUQ_HOME": str(tmp_path)})
    assert after.api.hosts_at == ("n1:2",)
    assert after.api.allowed_hosts == ("a.example.org", "n1")
    assert after.devices.backend == "none"


async def test_a_second_slurm_job_of_a_home_ends_and_takes_nothing_from_the_first(tmp_path: Path) -> None:
    """As where Slurm took up a request late, after the command had been said again."""
    settings = load({"GPUQ_HOME": str(tmp_path)})
    settings.home.create()
    first = MainJob(slurm_job=11, node="n1", url="https://n1:4000")
    main_job.save(settings.home, first)
    with only_one(settings.home.run / "up.lock", "`gpuq up`"), pytest.raises(Conflict, match="runs already"):
        await InSlurm(settings, 12).run()
    assert main_job.read(settings.home) == first


async def test_its_tls_port_passes_on_what_its_authority_vouches_for(tmp_path: Path) -> None:
    settings = load({"GPUQ_HOME": str(tmp_path)})
    settings.home.create()

    async def endpoint(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(endpoint, "127.0.0.1", 0) as inner:
        port = inner.sockets[0].getsockname()[1]
        (settings.home.run / "http.json").write_text(json.dumps({"url": f"http://127.0.0.1:{port}/"}))
        here = InSlurm(settings, 12)
        async with await here.listen() as outer:
            await here.announce(outer)
            found = main_job.read(settings.home)
            assert found is not None
            assert found.url is not None
            host, _, number = found.url.removeprefix("https://").rpartition(":")
            context = ssl.create_default_context(cafile=str(settings.home.authority_file))
            reader, writer = await asyncio.open_connection("127.0.0.1", int(number), ssl=context, server_hostname=host)
            writer.write(b"hello\n")
            assert await reader.readline() == b"HELLO\n"
            writer.close()
            await writer.wait_closed()
            this = asyncio.current_task()
            await asyncio.gather(*(task for task in asyncio.all_tasks() if task is not this))
