"""Ask PID 1 to start and end units, by D-Bus: org.freedesktop.systemd1(5).

Each call has a connection of its own: it costs a millisecond, and one that was kept may be dead when it is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jeepney import DBusAddress, DBusErrorResponse, new_method_call
from jeepney.io.blocking import DBusConnection, open_dbus_connection
from jeepney.wrappers import unwrap_msg

Property = tuple[str, tuple[str, Any]]
"""(name, (D-Bus type, value)), as org.freedesktop.systemd1(5) lists them."""

_MANAGER = DBusAddress("/org/freedesktop/systemd1", "org.freedesktop.systemd1", "org.freedesktop.systemd1.Manager")
_ANSWERS_WITHIN_S = 5.0
_NO_SUCH_UNIT = "org.freedesktop.systemd1.NoSuchUnit"


class Pid1Failed(Exception):
    """PID 1 did not do it, or there is no way to it."""


class Pid1:
    """The manager of the system's units. Calls raise Pid1Failed, or OSError if it does not answer and may still do it."""

    def __init__(self, bus: str = "SYSTEM") -> None:
        """`bus` is "SYSTEM", or the address of another bus."""
        self._bus = bus

    def start(self, unit: str, properties: Sequence[Property]) -> None:
        """Start a transient unit. Returns when PID 1 has accepted it."""
        self._call("StartTransientUnit", "ssa(sv)a(sa(sv))", (unit, "fail", list(properties), []))

    def stop(self, unit: str) -> None:
        """End a unit, if it is there. Returns when PID 1 has begun to."""
        self._call_on_unit("StopUnit", "ss", (unit, "replace"))

    def signal(self, unit: str, number: int) -> None:
        """Send a signal to the main process of a unit, if it is there."""
        self._call_on_unit("KillUnit", "ssi", (unit, "main", number))

    def _call_on_unit(self, method: str, signature: str, body: tuple[Any, ...]) -> None:
        try:
            self._call(method, signature, body)
        except _MethodFailed as error:
            if error.name != _NO_SUCH_UNIT:
                raise

    def _call(self, method: str, signature: str, body: tuple[Any, ...]) -> None:
        with _connected(self._bus) as connection:
            reply = connection.send_and_get_reply(
                new_method_call(_MANAGER, method, signature, body), timeout=_ANSWERS_WITHIN_S
            )
            try:
                unwrap_msg(reply)
            except DBusErrorResponse as error:
                raise _MethodFailed(error.name, str(error)) from error


class _MethodFailed(Pid1Failed):
    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


@contextmanager
def _connected(bus: str) -> Iterator[DBusConnection]:
    try:
        connection = open_dbus_connection(bus, enable_fds=True, auth_timeout=_ANSWERS_WITHIN_S)
    except (OSError, KeyError, DBusErrorResponse) as error:
        raise Pid1Failed(f"the {bus.lower()} bus does not answer: {error}") from error
    try:
        yield connection
    finally:
        connection.close()
