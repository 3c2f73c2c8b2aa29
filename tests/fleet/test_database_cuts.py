"""The network to PostgreSQL drops every packet for a while: requests are refused soon, and nothing acknowledged is lost."""

from __future__ import annotations

import math
import random
import threading
import time
from typing import Any

import pytest

from tests.fleet import ledger
from tests.fleet.fleet import DISPATCHERS, Fleet
from tests.fleet.rows import Row
from tests.support.site import wait_for

SHORTEST_S, LONGEST_S = 1.0, 120.0
_TO_DATABASE, _FROM_DATABASE = "tcp dport 5432 drop", "tcp sport 5432 drop"


class Submitter:
    """Submits a job twice a second, with a client's patience of 10 s, and notes how each submission was answered and when."""

    def __init__(self, fleet: Fleet, host: str) -> None:
        self._fleet, self._host = fleet, host
        self.answers: list[tuple[float, float, int, int | None]] = []
        """(when it was sent, seconds until the answer, status, id)."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Submitter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def acknowledged(self) -> list[int]:
        return [job for *_, job in self.answers if job is not None]

    def _run(self) -> None:
        body = {"command": [*ledger.JOB, "0.1"], "cwd": "/", "env": {"PATH": "/usr/bin:/bin"}}
        while not self._stop.wait(0.5):
            sent = time.monotonic()
            status, answer = self._fleet.request("POST", "/api/v1/jobs", body, host=self._host, within_s=10)
            self.answers.append((sent, time.monotonic() - sent, status, answer["id"] if status == 201 else None))


def cut(fleet: Fleet, chance: random.Random) -> None:
    """Cut off the clients or the server, in one direction or both; the other end sees nothing of it."""
    rules = chance.choice(((_TO_DATABASE,), (_FROM_DATABASE,), (_TO_DATABASE, _FROM_DATABASE)))
    for rule in rules:
        for host in ("main", "standby", "node") if rule is _TO_DATABASE else ("db",):
            fleet.lab.cut(host, rule)


def heal(fleet: Fleet) -> None:
    for host in ("db", "main", "standby", "node"):
        fleet.lab.heal(host)


def a_silent_cut(fleet: Fleet, chance: random.Random) -> dict[str, Any]:
    lasts_s = math.exp(chance.uniform(math.log(SHORTEST_S), math.log(LONGEST_S)))
    with Submitter(fleet, chance.choice(DISPATCHERS)) as submitter:
        time.sleep(chance.uniform(0.5, 1.5))
        cut(fleet, chance)
        began = time.monotonic()
        time.sleep(lasts_s)
        heal(fleet)
        healed = time.monotonic()
        wait_for(lambda: any(sent > healed and status == 201 for sent, _, status, _ in submitter.answers), 30)
        served = fleet.submit(0.1)
        wait_for(lambda: fleet.runs([served]), 60)
        first_run_s = time.monotonic() - healed
        time.sleep(max(0.0, 7 - first_run_s))
    assert {status for *_, status, _ in submitter.answers} <= {201, 503}, submitter.answers
    jobs = [*submitter.acknowledged(), served]
    fleet.wait(jobs)
    wrong = fleet.faults(jobs)
    assert not wrong, wrong
    late = [sent - healed for sent, _, status, _ in submitter.answers if status != 201 and sent > healed]
    return {
        "cut_s": round(lasts_s, 1),
        "refused": sum(status == 503 for _, _, status, _ in submitter.answers),
        "acknowledged": len(submitter.acknowledged()),
        "acknowledged_during_cut": sum(
            began < sent < healed and status == 201 for sent, _, status, _ in submitter.answers
        ),
        "slowest_answer_s": round(max(took for _, took, _, _ in submitter.answers), 2),
        "last_refusal_after_cut_s": round(max(late, default=0.0), 2),
        "first_run_after_cut_s": round(first_run_s, 2),
    }


@pytest.mark.short_form(3)
def test_silent_cuts_to_the_database(fleet: Fleet, row: Row) -> None:
    most = {"slowest_answer_s": 5, "last_refusal_after_cut_s": 5, "first_run_after_cut_s": 5}
    row.repeat(lambda chance, _: a_silent_cut(fleet, chance), p99=most)
