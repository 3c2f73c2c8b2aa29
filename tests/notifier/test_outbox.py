"""Messages on their way: what a target that does not answer means for the others, and for the message."""

from __future__ import annotations

import logging
import re
import threading
import tomllib
from pathlib import Path

import pytest

from gpuq.notifier.outbox import Outbox
from gpuq.notifier.watch import Notification
from tests.support.site import wait_for

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "notifications.md"
ADDRESSES = {"slack": ["slack://SECRET"], "mail": ["mailto://SECRET"]}


def message(target: str, number: int = 1, at: float = 1000.0) -> Notification:
    return Notification(target=target, title=f"gpuq: job {number} COMPLETED", body="ran: 1m", state="COMPLETED", at=at)


class Services:
    """Takes messages for some addresses, refuses those in `away`, and never returns for those in `hangs`."""

    def __init__(self) -> None:
        self.took: list[tuple[str, str]] = []
        self.bodies: list[str] = []
        self.tried: list[str] = []
        self.away: set[str] = set()
        self.hangs: set[str] = set()
        self.free = threading.Event()

    def __call__(self, address: str, title: str, body: str) -> bool:
        scheme = address.partition(":")[0]
        self.tried.append(scheme)
        if scheme in self.hangs:
            self.free.wait(60)
        if scheme in self.away:
            raise ConnectionError("slack://SECRET refused")
        self.took.append((scheme, title))
        self.bodies.append(body)
        return True


def turn_until_empty(outbox: Outbox, now: float = 1000.0) -> None:
    def empty() -> bool:
        outbox.turn(ADDRESSES, now)
        return not outbox.waiting

    wait_for(empty, 10)


def test_a_target_that_hangs_delays_no_other() -> None:
    services = Services()
    services.hangs.add("slack")
    outbox = Outbox(services, [message("slack"), message("mail")])

    def one_waits() -> bool:
        outbox.turn(ADDRESSES, 1000.0)
        return len(outbox.waiting) == 1 and "slack" in services.tried

    wait_for(one_waits, 10)
    assert [m.target for m in outbox.waiting] == ["slack"]
    assert services.tried.count("slack") == 1, "one message at a time"
    services.free.set()
    turn_until_empty(outbox)
    outbox.close()


def test_a_target_that_refuses_is_tried_again_later_and_given_up_after_a_day(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gpuq.notifier")
    services = Services()
    services.away.add("slack")
    outbox = Outbox(services, [message("slack")])
    outbox.turn(ADDRESSES, 1000.0)
    wait_for(lambda: outbox.turn(ADDRESSES, 1000.0) or "tried again in 10 s" in caplog.text, 10)
    outbox.turn(ADDRESSES, 1009.0)
    assert services.tried == ["slack"], "not before ten seconds"
    outbox.turn(ADDRESSES, 1010.0)
    wait_for(lambda: outbox.turn(ADDRESSES, 1010.0) or "tried again in 20 s" in caplog.text, 10)
    services.away.clear()
    turn_until_empty(outbox, 1030.0)
    assert services.took == [("slack", "gpuq: job 1 COMPLETED")]
    outbox.add([message("slack", at=1000.0)], ADDRESSES)
    assert outbox.turn(ADDRESSES, 1000.0 + 86_401)
    assert outbox.waiting == []
    assert "SECRET" not in caplog.text
    outbox.close()


def test_an_address_that_is_away_has_no_other_of_its_target_get_the_message_again() -> None:
    services, targets = Services(), {"both": ["mail://SECRET", "slack://SECRET"]}
    services.away.add("slack")
    outbox = Outbox(services)
    outbox.add([message("both")], targets)
    for now in (1000.0, 1010.0, 1030.0):
        tried = services.tried.count("slack")
        outbox.turn(targets, now)
        wait_for(lambda tried=tried, now=now: outbox.turn(targets, now) or services.tried.count("slack") > tried, 10)
        wait_for(lambda now=now: outbox.turn(targets, now) or not outbox.sends, 10)
    assert (services.took, len(outbox.waiting)) == ([("mail", "gpuq: job 1 COMPLETED")], 1)
    services.away.clear()
    wait_for(lambda: outbox.turn(targets, 1070.0) or not outbox.waiting, 10)
    assert [scheme for scheme, _ in services.took] == ["mail", "slack"]
    outbox.close()


def test_many_messages_at_once_are_one() -> None:
    services = Services()
    outbox = Outbox(services, [message("slack", number) for number in range(100)])
    turn_until_empty(outbox)
    assert services.took == [("slack", "gpuq: 100 messages about your jobs (100 COMPLETED)")]
    outbox.close()


def test_a_summary_counts_jobs_and_says_of_each_what_came_last() -> None:
    services = Services()
    numbers = (1, 2, 3)
    began = [
        Notification(target="slack", title=f"gpuq: job {n} has started", body="", state="RUNNING", at=1000.0, job=n)
        for n in numbers
    ]
    ended = [
        Notification(target="slack", title=f"gpuq: job {n} COMPLETED", body="", state="COMPLETED", at=1001.0, job=n)
        for n in numbers[:2]
    ]
    outbox = Outbox(services, [*began, *ended])
    turn_until_empty(outbox)
    assert services.took == [("slack", "gpuq: 5 messages about your jobs (2 COMPLETED, 1 RUNNING)")]
    assert services.bodies == ["job 1 COMPLETED\njob 2 COMPLETED\njob 3 has started"]
    outbox.close()


def test_messages_for_a_target_that_is_gone_are_given_up() -> None:
    outbox = Outbox(Services(), [message("teams")])
    assert outbox.turn(ADDRESSES, 1000.0)
    assert outbox.waiting == []
    outbox.close()


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # apprise imports it
def test_the_addresses_in_the_document_are_of_services_that_apprise_knows() -> None:
    apprise = pytest.importorskip("apprise")
    block = re.search(r"```toml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert block is not None
    addresses = tomllib.loads(block[1])["targets"].values()
    assert len(addresses) == 5
    assert [address for address in addresses if apprise.Apprise.instantiate(address) is None] == []
