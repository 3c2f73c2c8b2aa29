"""A start that takes long asks systemd for more time, wherever systemd listens."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from gpuq.adapters.store.migrate import upgrade
from gpuq.adapters.systemd import extend_start

AN_HOUR = b"EXTEND_TIMEOUT_USEC=3600000000"


@pytest.mark.parametrize("address", ["a file", "an abstract name"])
def test_the_start_may_take_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(path if address == "a file" else f"\0{path}")
        monkeypatch.setenv("NOTIFY_SOCKET", path if address == "a file" else f"@{path}")
        extend_start()
        assert systemd.recv(100) == AN_HOUR


def test_an_upgrade_asks_for_it_only_when_there_is_something_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        upgrade(f"sqlite:///{tmp_path}/gpuq.db")
        assert systemd.recv(100) == AN_HOUR
        upgrade(f"sqlite:///{tmp_path}/gpuq.db")
        with pytest.raises(BlockingIOError):
            systemd.recv(100)


@pytest.mark.parametrize("address", ["", "/nonexistent/notify"])
def test_without_systemd_it_does_nothing(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    extend_start()
