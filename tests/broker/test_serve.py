"""The broker at its socket: one start for each credential, for one peer, of what was submitted."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from gpuq_broker.serve import Broker

from gpuq import keys
from gpuq.messages import launch
from tests.support.broker import COMMAND, KEY, NOW, Pid1, broker, signed_credential, unit_order

UNIT = "gpuq-7-1.service"


@pytest.fixture
def pid1() -> Pid1:
    return Pid1()


@pytest.fixture
def served(tmp_path: Path, pid1: Pid1) -> Broker:
    return broker(tmp_path, pid1)


@pytest.fixture
def order(tmp_path: Path) -> Iterator[int]:
    with (tmp_path / "order").open("wb+", buffering=0) as file:
        file.write(msgspec.json.encode(unit_order()))
        yield file.fileno()


def ask(served: Broker, request: Any, *files: int) -> launch.Answer | None:
    """The answer; None if the broker closes the connection without one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        raw = request if isinstance(request, bytes) else msgspec.json.encode(request)
        socket.send_fds(ours, [raw], files)
        with theirs:
            served.serve(theirs)
        try:
            answer = ours.recv(65_536)
        except ConnectionResetError:  # closed before the request was read
            return None
    return msgspec.json.decode(answer, type=launch.Answer) if answer else None


def start(served: Broker, order: int, **changes: Any) -> launch.Answer | None:
    return ask(served, launch.StartUnit(signed_credential(**changes)), order)


def test_a_credential_starts_the_users_unit(served: Broker, pid1: Pid1, order: int) -> None:
    assert start(served, order) == launch.Answer()
    unit = pid1.started[UNIT]
    assert (unit["User"], unit["PAMName"]) == ("ann", "gpuq")
    assert (unit["DevicePolicy"], unit["DeviceAllow"]) == ("closed", [("/dev/nvidia0", "rw"), ("/dev/nvidiactl", "rw")])
    assert (unit["PrivateTmp"], unit["ProtectProc"], unit["NoNewPrivileges"]) == (True, "invisible", True)
    assert unit["RuntimeMaxUSec"] == (60 + 10 + 5) * 1_000_000
    assert "Environment" not in unit, "every user can read a unit's properties"
    assert not any("SEED" in str(value) for value in unit.values())


@pytest.mark.parametrize("limit", ["memory_max_bytes", "tasks_max", "log_limit_bytes"])
def test_a_limit_that_pid_1_cannot_take_is_refused(tmp_path: Path, pid1: Pid1, served: Broker, limit: str) -> None:
    (tmp_path / "order").write_bytes(msgspec.json.encode({**msgspec.to_builtins(unit_order()), limit: 2**63}))
    with (tmp_path / "order").open("rb") as file:
        answer = start(served, file.fileno())
    assert answer is not None
    assert (answer.final, limit in (answer.refused or ""), pid1.started) == (True, True, {})


def test_limits_become_properties(tmp_path: Path, pid1: Pid1, served: Broker) -> None:
    limited = unit_order(memory_max_bytes=2**30, tasks_max=500, cores=(0, 9))
    (tmp_path / "order").write_bytes(msgspec.json.encode(limited))
    with (tmp_path / "order").open("rb") as file:
        start(served, file.fileno())
    unit = pid1.started[UNIT]
    assert (unit["MemoryMax"], unit["TasksMax"], unit["AllowedCPUs"]) == (2**30, 500, b"\x01\x02")


@pytest.mark.parametrize("entry", ["terminal", "notebook"])
def test_the_account_of_the_services_cannot_enter_a_job_that_was_submitted_as_a_batch_job(
    tmp_path: Path, served: Broker, pid1: Pid1, entry: str
) -> None:
    """Who could add a terminal to it could type any command as its user."""
    changed = {**msgspec.to_builtins(unit_order()), "interactive": entry}
    (tmp_path / "order").write_bytes(msgspec.json.encode(changed))
    with (tmp_path / "order").open("rb") as file:
        answer = start(served, file.fileno())
    assert answer is not None
    assert answer.final
    assert "interactive" in (answer.refused or "")
    assert pid1.started == {}


def test_a_replayed_credential_is_refused_also_after_a_restart(
    tmp_path: Path, served: Broker, pid1: Pid1, order: int
) -> None:
    start(served, order)
    pid1.started.clear()
    for one in (served, broker(tmp_path, pid1)):
        assert start(one, order) == launch.Answer("this attempt was started before", final=True)
    assert pid1.started == {}


@pytest.mark.parametrize(
    "changes",
    [{"uid": 1002}, {"user": "bob"}, {"uid": 0}],
)
def test_nothing_starts_with_a_credential_that_does_not_hold(
    served: Broker, pid1: Pid1, order: int, changes: dict[str, Any]
) -> None:
    answer = start(served, order, **changes)
    assert answer is not None
    assert answer.refused
    assert answer.final
    assert pid1.started == {}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"key": Ed25519PrivateKey.generate()}, "dispatcher.pub"),
        ({"expires_at": NOW - 1}, "clocks"),
        ({"instance": "a copy of this home"}, "another machine"),
    ],
)
def test_what_is_wrong_with_the_host_is_not_the_end_of_the_job(
    served: Broker, pid1: Pid1, order: int, changes: dict[str, Any], why: str
) -> None:
    answer = start(served, order, **changes)
    assert answer is not None
    assert (why in (answer.refused or ""), answer.final, pid1.started) == (True, False, {})


def test_a_credential_that_was_changed_is_refused(served: Broker, pid1: Pid1, order: int) -> None:
    good = signed_credential()
    forged = launch.SignedCredential(good.text.replace('"uid":1001', '"uid":1002'), good.signature)
    answer = ask(served, launch.StartUnit(forged), order)
    assert answer is not None
    assert "the dispatcher has not signed this credential" in (answer.refused or "")
    assert pid1.started == {}


def test_another_user_gets_no_answer(tmp_path: Path, pid1: Pid1, order: int) -> None:
    import pwd

    theirs = broker(tmp_path, pid1, service=pwd.struct_passwd(("x", "x", os.getuid() + 1, 1, "", "/", "")))
    assert start(theirs, order) is None
    assert pid1.started == {}


@pytest.mark.parametrize(
    "request_", [b"", b"{", b"[]", b'{"type":"reboot"}', b'{"type":"start","credential":{}}', b"\xff" * 9]
)
def test_nonsense_is_refused_and_harms_nothing(served: Broker, pid1: Pid1, order: int, request_: bytes) -> None:
    answer = ask(served, request_, order)
    assert answer is None or answer.refused
    assert start(served, order) == launch.Answer()


def test_a_start_without_its_order_is_refused(served: Broker) -> None:
    answer = ask(served, launch.StartUnit(signed_credential()))
    assert answer == launch.Answer("no order came with the credential", final=True)


def test_what_pid_1_does_not_do_is_reported(served: Broker, pid1: Pid1, order: int) -> None:
    pid1.fails = True
    assert start(served, order) == launch.Answer("PID 1 did not do it: it has no memory left")


def test_a_job_can_be_ended_as_long_as_it_runs(tmp_path: Path, served: Broker, pid1: Pid1, order: int) -> None:
    start(served, order)
    for note in served.seen.iterdir():  # as systemd-tmpfiles does after thirty days
        note.unlink()
    for one in (served, broker(tmp_path, pid1)):
        assert ask(one, launch.StopUnit(job=7, attempt=1, save=True)) == launch.Answer()
        assert ask(one, launch.StopUnit(job=7, attempt=1)) == launch.Answer()
    assert pid1.calls == 2 * [("signal", UNIT, 10), ("stop", UNIT)]


@pytest.mark.parametrize("save", [True, False])
def test_what_pid_1_does_not_end_is_reported(served: Broker, pid1: Pid1, save: bool) -> None:
    pid1.fails = True
    answer = ask(served, launch.StopUnit(job=7, attempt=1, save=save))
    assert answer == launch.Answer("PID 1 did not do it: it has no memory left")


def test_the_shim_gets_what_was_checked(served: Broker, pid1: Pid1, order: int) -> None:
    start(served, order)
    fields = pid1.orders[UNIT].decode().split("\0")
    no_lease = batch_job = ""
    assert fields[:8] == ["27", "", "/home/ann", "", no_lease, batch_job, "2", str(len(unit_order().env))]
    assert tuple(fields[8:10]) == COMMAND.command
    assert "SEED=1" in fields


def test_the_key_of_the_dispatcher_is_read_at_each_start(tmp_path: Path, pid1: Pid1, order: int) -> None:
    """A broker that is asked again and again does not end, and would keep a wrong key after it was replaced."""
    key = tmp_path / "dispatcher.pub"
    served = broker(tmp_path, pid1, public=key.read_text)
    key.write_text(keys.public_text(Ed25519PrivateKey.generate()))
    answer = start(served, order)
    assert answer is not None
    assert (bool(answer.refused), pid1.started) == (True, {})
    key.write_text(keys.public_text(KEY))
    assert start(served, order) == launch.Answer()
