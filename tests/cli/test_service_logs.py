"""Where a service's log is, by how it is started."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from gpuq.cli import service_logs
from gpuq.cli.service_logs import ServiceLog, log_elsewhere, service_log
from gpuq.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.create()
    (made.logs / "dispatcher.log").write_text("gpuq: The record is damaged.\n  Restore it.\n")
    return made


@pytest.fixture
def units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(service_logs, "UNIT_FOLDERS", (str(tmp_path),))
    (tmp_path / "gpuqd.service").touch()
    return tmp_path


def test_under_systemd_it_is_the_journal_and_nothing_is_quoted(home: Home, units: Path) -> None:
    """The files of `gpuq up` are not there, or of a time before."""
    log = service_log(home, "dispatcher")
    assert (log.where, log.quoted) == ("`journalctl -u gpuqd -n 20`", "")
    assert log.what_to_do == "Mend what `journalctl -u gpuqd -n 20` names."


def test_under_gpuq_up_it_is_a_file_also_where_units_are_installed(home: Home, units: Path) -> None:
    with (home.run / "up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        log = service_log(home, "dispatcher")
    assert log == ServiceLog(str(home.logs / "dispatcher.log"), "The record is damaged.", "Restore it.")
    assert (log.quoted, log.what_to_do) == ("; it wrote last: The record is damaged.", "Restore it.")


def test_of_another_host_both_are_named(home: Home) -> None:
    assert log_elsewhere("worker") == "`journalctl -u gpuq-worker -n 20`, or under `gpuq up` logs/worker.log,"
