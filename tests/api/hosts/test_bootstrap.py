"""The program that a host runs as root when it joins, against a real listener. What it would start is only noted."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gpuq import keys
from gpuq.api.hosts import joining, listener
from tests.api.hosts.conftest import Main

PROGRAM = Path(listener.__file__).with_name("bootstrap.py")


def program(main: Main, **changes: Any) -> dict[str, Any]:
    """Its names, on a machine with systemd, with those that the command of `gpuq host add` gives it."""
    _, secret = joining.invite(main.store, "node2", time.time())
    fingerprint = main.authority.fingerprint(["127.0.0.1"])
    names = {"__name__": "bootstrap", "A": main.at, "F": fingerprint, "N": "node2", "S": secret}
    exec(compile(PROGRAM.read_text(), PROGRAM, "exec"), names)
    names.update({"AS_SERVICE": True, **changes})
    return names


async def test_the_brokers_key_is_the_main_hosts_whatever_the_services_have(main: Main, tmp_path: Path) -> None:
    """Who captured the account of the services may change all that it writes, and must not choose that key."""
    key = tmp_path / "dispatcher.pub"
    steps = {name: lambda *_: None for name in ("check_for_submitters", "install", "prepare_system", "join", "run")}
    await asyncio.to_thread(program(main, BROKER_KEY=key, **steps)["main"])
    assert key.read_text() == keys.public_text(keys.private_key(main.home.dispatcher_key_file))
    assert key.stat().st_mode & 0o777 == 0o644


async def test_a_machine_that_may_not_join_keeps_its_brokers_key(main: Main, tmp_path: Path) -> None:
    """It is a main host itself, perhaps."""
    key = tmp_path / "dispatcher.pub"
    key.write_text("its own")
    steps = {name: lambda *_: None for name in ("check_for_submitters", "install", "prepare_system", "run")}
    with pytest.raises(SystemExit):
        await asyncio.to_thread(program(main, BROKER_KEY=key, join=lambda _: sys.exit(6), **steps)["main"])
    assert key.read_text() == "its own"


@pytest.mark.parametrize("by", ["the main host", "a Debian package"])
async def test_systemd_finds_at_each_boot_what_a_host_needs_in_run(main: Main, tmp_path: Path, by: str) -> None:
    """A reboot empties /run: without its lease, a host whose jobs run as their submitters started none any more."""
    ran: list[tuple[str, ...]] = []
    places = {name: tmp_path / name for name in ("SYSTEM", "LOCAL", "PAM", "UNITS")}
    names = program(main, run=lambda *words: ran.append(words), **places)
    if by == "the main host":
        for file in ("sysusers.d/gpuq.conf", "tmpfiles.d/gpuq.conf", "pam.d/gpuq"):
            (places["SYSTEM"] / file).parent.mkdir(parents=True)
            (places["SYSTEM"] / file).write_text(file)
    else:
        places["PAM"].touch()
    names["prepare_system"]()
    found = places["LOCAL"] / "tmpfiles.d" / "gpuq.conf"
    assert found.exists() is (by == "the main host")
    assert ran == [
        ("systemd-sysusers", "gpuq.conf"),
        ("systemd-tmpfiles", "--create", "gpuq.conf"),
        ("systemctl", "daemon-reload"),
    ]
