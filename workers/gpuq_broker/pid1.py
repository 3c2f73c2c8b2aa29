"""Ask PID 1 to start and end units, by D-Bus: org.freedesktop.systemd1(5).

The connection is kept from one call to the next, because making it takes as long as the call. If the bus has closed it
meanwhile, which shows before anything of a call is sent, a new one is made.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
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
        self._kept: DBusConnection | None = None

    def close(self) -> None:
        """Close the connection; the next call makes a new one."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

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
        message = new_method_call(_MANAGER, method, signature, body)
        try:
            reply = self._connected().send_and_get_reply(message, timeout=_ANSWERS_WITHIN_S)
        except BaseException:
            self.close()  # a reply that comes late belongs to no later call
            raise
        try:
            unwrap_msg(reply)
        except DBusErrorResponse as error:
            raise _MethodFailed(error.name, str(error)) from error

    def _connected(self) -> DBusConnection:
        if self._kept is not None and _is_closed(self._kept):
            self.close()
        if self._kept is None:
            try:
                self._kept = open_dbus_connection(self._bus, enable_fds=True, auth_timeout=_ANSWERS_WITHIN_S)
            except (OSError, KeyError, DBusErrorResponse) as error:
                raise Pid1Failed(f"the {self._bus.lower()} bus does not answer: {error}") from error
        return self._kept


class _MethodFailed(Pid1Failed):
    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


def _is_closed(connection: DBusConnection) -> bool:
    """Whether the bus has closed it."""
    poller = select.poll()
    poller.register(connection.sock, select.POLLRDHUP)
    return bool(poller.poll(0))
