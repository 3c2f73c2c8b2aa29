"""D-Bus, with a real bus and a peer on it that has PID 1's name."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from gpuq_broker import unit
from gpuq_broker.pid1 import Pid1, Pid1Failed
from jeepney import HeaderFields, MessageType, new_error, new_method_return
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import Proxy, open_dbus_connection

from tests.support.broker import COMMAND, broker, credential, unit_order
from tests.support.broker import Pid1 as NoPid1

CONFIG = """<busconfig><type>session</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>"""


class Manager:
    """Answers as org.freedesktop.systemd1 does, and remembers the calls with the content of files that came with them."""

    def __init__(self, bus: str) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.content = b""
        self._connection = open_dbus_connection(bus, enable_fds=True)
        Proxy(message_bus, self._connection).RequestName("org.freedesktop.systemd1")
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """To be called when the bus is gone, which ends the thread."""
        self._thread.join(60)
        self._connection.close()

    def _serve(self) -> None:
        while True:
            try:
                message = self._connection.receive()
            except OSError:
                return
            if message.header.message_type is not MessageType.method_call:
                continue
            method = message.header.fields[HeaderFields.member]
            self.calls.append((method, message.body))
            if method == "StartTransientUnit":
                file = dict(message.body[2])["StandardInputFileDescriptor"][1].to_raw_fd()
                self.content = os.pread(file, 100, 0)
                os.close(file)
                self._connection.send(new_method_return(message, "o", ("/org/freedesktop/systemd1/job/1",)))
            elif message.body[0].startswith("gpuq-9"):
                error = "org.freedesktop.systemd1.NoSuchUnit"
                self._connection.send(new_error(message, error, "s", ("Unit not loaded.",)))
            elif message.body[0].startswith("gpuq-8"):
                self._connection.send(new_error(message, "org.freedesktop.DBus.Error.AccessDenied", "s", ("No.",)))
            else:
                self._connection.send(new_method_return(message))


@contextmanager
def running_bus(tmp_path: Path) -> Iterator[str]:
    """A bus of our own; its address, the same each time."""
    program = shutil.which("dbus-daemon")
    if program is None:
        pytest.skip("there is no dbus-daemon (Debian: package dbus-daemon)")
    (tmp_path / "bus.conf").write_text(CONFIG.format(path=tmp_path / "bus"))
    command = [program, f"--config-file={tmp_path / 'bus.conf'}", "--nofork", "--print-address"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        yield f"unix:path={tmp_path / 'bus'}"
        daemon.terminate()


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[str]:
    with running_bus(tmp_path) as address:
        yield address


@pytest.fixture
def pid1(bus: str) -> Iterator[Pid1]:
    with closing(Pid1(bus)) as made:
        yield made


@pytest.fixture
def manager(bus: str) -> Manager:
    return Manager(bus)


@pytest.fixture(autouse=True)
def _closed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Set up before the bus, so that it ends after it."""
    yield
    if "manager" in request.fixturenames:
        request.node.funcargs["manager"].close()


def test_a_unit_is_asked_for_with_all_its_properties(pid1: Pid1, manager: Manager, tmp_path: Path) -> None:
    served = broker(tmp_path, NoPid1())
    with (tmp_path / "order").open("wb+", buffering=0) as file:
        file.write(b"the order")
        properties = unit.properties(
            credential(), COMMAND, unit_order(cores=(1,)), file.fileno(), served.home, served.service
        )
        pid1.start("gpuq-7-1.service", properties)
    [(method, (name, mode, sent, others))] = manager.calls
    assert (method, name, mode, others) == ("StartTransientUnit", "gpuq-7-1.service", "fail", [])
    assert [one for one, _ in sent] == [one for one, _ in properties]
    assert manager.content == b"the order"


def test_units_are_ended_and_signalled(pid1: Pid1, manager: Manager) -> None:
    pid1.stop("gpuq-7-1.service")
    pid1.signal("gpuq-7-1.service", 10)
    pid1.stop("gpuq-9-1.service")  # it is over
    assert [call for call in manager.calls if call[1][0] == "gpuq-7-1.service"] == [
        ("StopUnit", ("gpuq-7-1.service", "replace")),
        ("KillUnit", ("gpuq-7-1.service", "main", 10)),
    ]


def test_after_the_bus_was_restarted_the_next_call_is_made_on_a_new_connection(tmp_path: Path) -> None:
    pid1, seen = Pid1(f"unix:path={tmp_path / 'bus'}"), []
    for _ in range(2):
        with running_bus(tmp_path) as bus:
            manager = Manager(bus)
            pid1.stop("gpuq-7-1.service")
            pid1.stop("gpuq-7-2.service")
            seen.append([unit for _, (unit, _) in manager.calls])
        manager.close()
    pid1.close()
    assert seen == [["gpuq-7-1.service", "gpuq-7-2.service"]] * 2


def test_a_refusal_of_pid_1_is_a_failure(pid1: Pid1, manager: Manager) -> None:
    with pytest.raises(Pid1Failed, match="No"):
        pid1.stop("gpuq-8-1.service")


def test_without_a_bus_nothing_is_done(tmp_path: Path) -> None:
    with pytest.raises(Pid1Failed, match="does not answer"):
        Pid1(f"unix:path={tmp_path / 'none'}").stop("gpuq-7-1.service")
