"""What the dispatcher signs: the user and the command of the record, for one instance, for a while."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpuq import keys
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.device import DeviceId, Host, HostId
from gpuq.core.state.job import JobId, KindId
from gpuq.core.state.state import State
from gpuq.daemon.credentials import Credentials
from gpuq.daemon.perform import Performer
from gpuq.messages import launch, wire
from gpuq.messages.job_record import JobRecord
from gpuq.messages.submission import Submission, command_of
from tests.support.broker import KEY, NOW
from tests.support.memory_store import MemoryStore
from tests.support.nouns import GIB, a_job
from tests.support.orders import MemoryOrderSender

SUBMITTED = Submission(command=("python", "train.py"), cwd="/home/ann", env={"B": "2", "A": "1"}, stdin="x")


def signed(order: wire.Order, **changes: Any) -> wire.Order:
    record = JobRecord(
        submission=SUBMITTED, owner="ann", uid=1001, kind="k", signature="s", features={}, submitted_at=1.0
    )
    store = MemoryStore()
    store.add_jobs([msgspec.structs.replace(record, **changes)])
    return Credentials(store, KEY, lambda: NOW).add_to(order)


def order(**changes: Any) -> wire.Order:
    return msgspec.structs.replace(wire.Order("alpha", 1, 2, 1, wire.Verb.LAUNCH, "home"), **changes)


def test_a_launch_names_the_user_of_the_record() -> None:
    made = signed(order())
    assert made.credential is not None
    opened = launch.opened(made.credential, keys.public_text(KEY))
    assert (opened.job, opened.attempt, opened.host, opened.instance) == (1, 2, "alpha", "home")
    assert (opened.user, opened.uid) == ("ann", 1001)
    assert opened.order == launch.digest(command_of(SUBMITTED).text())
    assert opened.expires_at == NOW + launch.VALID_S


@pytest.mark.parametrize(
    ("order_changes", "record_changes"), [({}, {"uid": None}), ({"instance": None}, {}), ({"job": 9}, {})]
)
def test_who_is_not_known_gets_no_credential(order_changes: dict[str, Any], record_changes: dict[str, Any]) -> None:
    assert signed(order(**order_changes), **record_changes).credential is None


def test_a_launch_that_needs_a_credential_waits_for_the_report_of_its_host() -> None:
    """After a restart the dispatcher knows the attempt but not yet the host's instance, without which it can sign nothing."""
    gpu = (DeviceId("gpu0"),)
    attempt = Attempt(
        AttemptId(JobId(1), 1), KindId("kind"), HostId("alpha"), gpu, (GIB,), shares=False, launched_at=NOW
    )
    state = State(jobs={JobId(1): a_job()}, attempts={attempt.id: attempt})
    sender = MemoryOrderSender()
    credentials = Credentials(MemoryStore(), KEY, lambda: NOW)
    with_credentials = Performer(sender, wire.HostKeys("key"), 60.0, credentials)
    assert with_credentials.due(state, (), 1, 1, NOW) == []
    assert len(Performer(sender, wire.HostKeys("key"), 60.0).due(state, (), 1, 1, NOW)) == 1

    state.hosts[HostId("alpha")] = Host(HostId("alpha"), "boot", NOW, instance="home")
    assert [(due.verb, due.instance) for due in with_credentials.due(state, (), 1, 1, NOW)] == [
        (wire.Verb.LAUNCH, "home")
    ]


def test_the_credential_arrives_with_the_order() -> None:
    made = signed(order())
    assert wire.verify(msgspec.json.decode(msgspec.json.encode(wire.sign(made, "key"))), "key", "alpha") == made
