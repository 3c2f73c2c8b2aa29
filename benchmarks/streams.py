"""Fifty pages that are open at a time: what their event streams cost the API, while the journal has something new each second."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from sqlalchemy import insert

from benchmarks.pages import TOKEN, fill, served
from benchmarks.table import Row
from gpuq.adapters.store.database import Database
from gpuq.adapters.store.schema import journal

CLIENTS, WARM_S, MEASURED_S = 50, 3.0, 20.0
# Clients of their own process, so that only the API's processor time is measured. It prints how many events came.
_CLIENT = """
import asyncio, sys
import aiohttp
address, token, count = sys.argv[1:]
came = 0
async def follow(session):
    global came
    async with session.get(address + "/api/v1/events") as answer:
        print("open", flush=True)
        async for line in answer.content:
            came += line.startswith(b"event:")
async def main():
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, headers={"Authorization": "Bearer " + token}) as session:
        await asyncio.gather(*(follow(session) for _ in range(int(count))), return_exceptions=True)
    print(came, flush=True)
asyncio.run(main())
"""


def run() -> list[Row]:
    """Percent of a core for all of them, beside that of an API that nothing asks."""
    with tempfile.TemporaryDirectory(prefix="gpuq-streams-") as folder:
        fill(Path(folder) / "gpuq.db", 1000, time.time())
        idle, busy, came = asyncio.run(_measure(Path(folder)))
    return [
        Row(f"{CLIENTS} event streams", 100 * (busy - idle), "% of a core", 5.0),
        Row("  the API without them", 100 * idle, "% of a core"),
        Row("  events that each received", came / CLIENTS, ""),
    ]


async def _measure(folder: Path) -> tuple[float, float, int]:
    async with served(folder) as address:
        writing = asyncio.create_task(_write(folder / "gpuq.db"))
        await asyncio.sleep(WARM_S)
        idle = await _share()
        words = [sys.executable, "-c", _CLIENT, address, TOKEN, str(CLIENTS)]
        clients = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
        assert clients.stdout is not None
        for _ in range(CLIENTS):
            assert await clients.stdout.readline() == b"open\n"
        busy = await _share()
        writing.cancel()
    # The end of the API ends the streams.
    return idle, busy, int((await clients.communicate())[0])


async def _share() -> float:
    began, used = time.monotonic(), time.process_time()
    await asyncio.sleep(MEASURED_S)
    return (time.process_time() - used) / (time.monotonic() - began)


async def _write(path: Path) -> None:
    """An entry each second."""
    database = Database(f"sqlite:///{path}")
    seq = 0
    try:
        while True:
            seq += 1
            entry = {"seq": seq, "at": time.time(), "name": "Started", "first_job": 1, "last_job": 1, "body": "{}"}
            with database.writing() as connection:
                connection.execute(insert(journal), [entry])
            await asyncio.sleep(1.0)
    finally:
        database.close()


if __name__ == "__main__":
    from benchmarks.table import lines

    print("\n".join(lines(run())))
