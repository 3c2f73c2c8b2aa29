"""Many short real jobs while random parts of the fleet are killed, stopped, cut off and flushed: none is lost or doubled."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from typing import Any

import pytest

from tests.fleet.fleet import DISPATCHERS, WORKERS, Fleet
from tests.fleet.rows import Row

JOBS = 200
BETWEEN_S = 1.0
"""Between two jobs on average; with the submissions themselves, 20,000 jobs last at least the six hours that are asked for."""
PATIENCE_S = 600.0
"""The faults kill the APIs too, which on a very busy machine need more than a minute to start."""
LATE_S = 60.0
"""A job that ended longer after its submission than this, beyond what the queue before it took, would count as late."""


class Faults:
    """What can be done to a fleet, and undone; each fault lasts for a while that the chance draws."""

    def __init__(self, fleet: Fleet, chance: random.Random) -> None:
        self._fleet, self._chance = fleet, chance
        self.struck: Counter[str] = Counter()

    def strike(self) -> None:
        """One fault, from its beginning to its end."""
        fault = self._chance.choice(
            (
                self.kill_dispatcher,
                self.kill_worker,
                self.kill_orders,
                self.kill_api,
                self.kill_redis,
                self.suspend,
                self.cut_host,
                self.cut_database,
            )
        )
        self.struck[fault.__name__] += 1
        fault()

    def kill_dispatcher(self) -> None:
        self._fleet.signal(self._chance.choice(DISPATCHERS), "gpuqd", "KILL", if_any=True)

    def kill_worker(self) -> None:
        self._fleet.signal(self._chance.choice(WORKERS), "gpuq-worker", "KILL", if_any=True)

    def kill_orders(self) -> None:
        self._fleet.shell(self._chance.choice(WORKERS), "pkill -KILL -f [g]puq_workers.serve_orders || true")

    def kill_api(self) -> None:
        self._fleet.signal(self._chance.choice(DISPATCHERS), "gpuq-api", "KILL", if_any=True)

    def kill_redis(self) -> None:
        """It comes back empty."""
        self._fleet.restart_redis(after_s=self._chance.uniform(0, 5))

    def suspend(self) -> None:
        host = self._chance.choice(WORKERS)
        unit = self._chance.choice(("gpuqd", "gpuq-worker") if host in DISPATCHERS else ("gpuq-worker",))
        self._fleet.signal(host, unit, "STOP", if_any=True)
        time.sleep(self._chance.expovariate(1 / 5))
        self._fleet.signal(host, unit, "CONT", if_any=True)

    def cut_host(self) -> None:
        host = self._chance.choice(WORKERS)
        self._fleet.lab.cut(host)
        time.sleep(self._chance.expovariate(1 / 8))
        self._fleet.lab.heal(host)

    def cut_database(self) -> None:
        self._fleet.lab.cut("db", "tcp sport 5432 drop")
        time.sleep(self._chance.expovariate(1 / 5))
        self._fleet.lab.heal("db")


def a_storm(fleet: Fleet, chance: random.Random, jobs: int) -> dict[str, Any]:
    """So many jobs while faults strike one after the other, with a second between them; then all must come to their ends."""
    faults, over = Faults(fleet, random.Random(chance.random())), threading.Event()
    raised: list[Exception] = []

    def strike() -> None:
        try:
            while not over.wait(chance.expovariate(1.0)):
                faults.strike()
        except Exception as error:  # noqa: BLE001 - raised again in the thread of the test
            raised.append(error)

    striking = threading.Thread(target=strike)
    striking.start()
    submitted: list[int] = []
    try:
        while len(submitted) < jobs:
            seconds, code = chance.expovariate(1 / 0.5), chance.randrange(4)
            submitted.append(fleet.submit(seconds, code, patience_s=PATIENCE_S))
            time.sleep(chance.expovariate(1 / BETWEEN_S))
    finally:
        over.set()
        striking.join()
    if raised:
        raise raised[0]
    began = time.monotonic()
    fleet.wait(submitted, within_s=LATE_S + jobs * 0.2)
    wrong = fleet.faults(submitted)
    assert not wrong, wrong
    return {
        "jobs": len(submitted),
        "faults": sum(faults.struck.values()),
        "quiet_s": round(time.monotonic() - began, 1),
        **faults.struck,
    }


@pytest.mark.short_form(JOBS)
def test_seeded_faults(fleet: Fleet, row: Row) -> None:
    row.repeat(lambda chance, times: a_storm(fleet, chance, times), at_once=JOBS)
