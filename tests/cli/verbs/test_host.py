"""`gpuq host`: add, list, drain, resume, lost."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gpuq.home import Home, host_key, key_of_this_host, private_secret
from tests.cli.conftest import Command, FakeApi

HOST = {
    "name": "node1",
    "state": "ok",
    "drained": None,
    "reported_at": "2026-11-22T10:00:00Z",
    "devices": 8,
    "jobs": [7],
}


def test_the_list_says_what_each_host_does(gpuq: Command, api: FakeApi) -> None:
    drained = {**HOST, "name": "node2", "state": "drained", "drained": "new driver", "reported_at": None, "jobs": []}
    api.on("GET", "/api/v1/hosts", [HOST, drained])
    header, one, other = gpuq("host").out.splitlines()
    assert header.split() == ["HOST", "STATE", "DEVICES", "JOBS", "REPORTED", "WHY"]
    assert one.split() == ["node1", "ok", "8", "1", "2026-11-22T10:00:00Z"]
    assert other.split() == ["node2", "drained", "8", "0", "not", "yet", "new", "driver"]


def test_drain_says_how_many_jobs_go_on(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/hosts/node1/drain", {"host": "node1", "asked": "drain", "jobs": [7]})
    done = gpuq("host", "drain", "node1", "--why", "new driver")
    assert (done.code, done.out) == (0, "No new jobs start on node1. What runs there goes on: 1 job.\n")
    assert api.asked("POST", "/api/v1/hosts/node1/drain")[0].body == {"why": "new driver"}


@pytest.mark.parametrize("words", [("drain",), ("add",), ("list", "node1"), ("resume", "node1", "--why", "x")])
def test_words_that_make_no_sense_are_refused(gpuq: Command, words: tuple[str, ...]) -> None:
    assert gpuq("host", *words).code == 2


# --- add -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def dispatcher(home: Path) -> Home:
    """The home of the dispatcher."""
    found = Home(home)
    private_secret(found.order_key_file)
    return found


def test_the_printed_line_gives_the_new_host_its_key_and_not_the_master_key(
    gpuq: Command, dispatcher: Home, tmp_path: Path
) -> None:
    done = gpuq("host", "add", "node2")

    assert (done.code, done.err) == (0, "")
    master = private_secret(dispatcher.order_key_file)
    assert master not in done.out
    new = Home(tmp_path / "new")
    new.create()
    # As the line says, but for the user gpuq, whom only an installed system has.
    script = (
        done.out.replace("/var/lib/gpuq", str(new.root)).replace("-o gpuq -g gpuq ", "").replace("systemctl", "true")
    )
    subprocess.run(["sh", "-eu", "-c", script], check=True)
    assert key_of_this_host(new, "node2") == host_key(master, "node2")
    assert new.host_key_file.stat().st_mode & 0o777 == 0o600
    assert not new.order_key_file.exists()
    for hint in ("GPUQ_REDIS_URL", "GPUQ_DATABASE_URL", "GPUQ_WORKER_HOST=node2"):
        assert hint in done.out


def test_json_has_the_name_and_the_key(gpuq: Command, dispatcher: Home) -> None:
    key = host_key(private_secret(dispatcher.order_key_file), "node2")
    assert gpuq("host", "add", "node2", "--json").json == {"host": "node2", "key": key}


@pytest.mark.parametrize("name", ["", "a b", "a;reboot", "$(id)", "ä", "x" * 65, "../a"])
def test_a_name_that_no_host_can_have_is_refused(gpuq: Command, dispatcher: Home, name: str) -> None:
    done = gpuq("host", "add", name)
    assert (done.code, done.out) == (2, "")
    assert "is no name for a host" in done.err


def test_a_home_without_a_dispatcher_gives_no_key_and_makes_none(gpuq: Command, dispatcher: Home) -> None:
    dispatcher.order_key_file.unlink()
    done = gpuq("host", "add", "node2")
    assert (done.code, done.out) == (3, "")
    assert not dispatcher.order_key_file.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_another_user_is_not_permitted(gpuq: Command, dispatcher: Home) -> None:
    dispatcher.order_key_file.chmod(0)
    done = gpuq("host", "add", "node2")
    assert (done.code, done.out) == (5, "")
