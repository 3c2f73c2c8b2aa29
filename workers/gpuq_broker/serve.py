"""One request: who may make it, and what is done for it."""

from __future__ import annotations

import logging
import os
import pwd
import signal
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gpuq.errors import BadSettings
from gpuq.home import Home
from gpuq.messages import launch
from gpuq_broker import checks, unit
from gpuq_broker.checks import HostRefuses, StartRefused
from gpuq_broker.pid1 import Pid1, Pid1Failed

log = logging.getLogger("gpuq.broker")

_PEER = struct.Struct("3i")
_PEER_ANSWERS_WITHIN_S = 2.0


def account_of(user: str) -> pwd.struct_passwd | None:
    """The entry of a user on this host; None if there is none."""
    with suppress(KeyError):
        return pwd.getpwnam(user)
    return None


@dataclass(frozen=True)
class Broker:
    """Starts and ends units for the account of the services.

    `home` is the services' home, `seen` a folder of our own with a file for each attempt that was started, which may be removed
    some time later, as a credential lasts minutes. `public` reads the dispatcher's key, each time: a broker that is asked again
    and again would keep a wrong one. No uid below `least_uid` is accepted.
    """

    home: Home
    instance: str
    public: Callable[[], str]
    seen: Path
    service: pwd.struct_passwd
    least_uid: int
    pid1: Pid1
    clock: Callable[[], float] = time.time
    account: Callable[[str], pwd.struct_passwd | None] = account_of

    def serve(self, connection: socket.socket) -> None:
        """Answer the one request of a connection. Never raises for what the peer does."""
        connection.settimeout(_PEER_ANSWERS_WITHIN_S)
        files: list[int] = []
        try:
            _, uid, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
            if uid != self.service.pw_uid:
                log.warning("uid %d may not use the broker", uid)
                return
            raw, files, flags, _ = socket.recv_fds(connection, launch.LARGEST_REQUEST_BYTES, 1)
            answer = self._answer(raw, files) if not flags & socket.MSG_TRUNC else launch.Answer("it is too long", True)
            connection.send(msgspec.json.encode(answer))
        except OSError as error:
            log.warning("a request was not answered: %s", error)
        finally:
            for file in files:
                os.close(file)

    def _answer(self, raw: bytes, files: list[int]) -> launch.Answer:
        try:
            request: launch.Request = launch.decoded(raw, launch.Request)
            if isinstance(request, launch.StopUnit):
                self._stop(request)
            elif files:
                self._start(request, files[0])
            else:
                raise StartRefused("no order came with the credential")
        except (StartRefused, launch.BadLaunch) as refusal:
            log.warning("refused: %s", refusal)
            return launch.Answer(str(refusal), final=not isinstance(refusal, HostRefuses))
        except Pid1Failed as error:
            log.warning("PID 1 did not do it: %s", error)
            return launch.Answer(f"PID 1 did not do it: {error}")
        except OSError as error:
            log.warning("PID 1 did not answer: %s", error)
        return launch.Answer()

    def _start(self, request: launch.StartUnit, file: int) -> None:
        credential = self._opened(request.credential)
        checks.check_credential(credential, self.instance, self.least_uid, self.clock())
        account = checks.check_account(credential, self.account(credential.user))
        order: launch.UnitOrder = launch.decoded(_content(file), launch.UnitOrder)
        command = checks.check_order(order, credential, account)
        name = launch.unit_name(credential.job, credential.attempt)
        self._see(credential)
        with os.fdopen(os.memfd_create("gpuq-order"), "wb", buffering=0) as handed:
            handed.write(unit.order_for_shim(command, order))
            self.pid1.start(name, unit.properties(credential, command, order, handed.fileno(), self.home, self.service))
        log.info("%s started as %s (uid %d)", name, credential.user, credential.uid)

    def _opened(self, credential: launch.SignedCredential) -> launch.LaunchCredential:
        try:
            return launch.opened(credential, self.public())
        except BadSettings as error:
            raise HostRefuses(f"{error.message} {error.fix}") from error
        except launch.BadLaunch as error:
            raise HostRefuses(
                f"{error}; /etc/gpuq/dispatcher.pub must be the public half of dispatcher.key on the main host"
            ) from error

    def _see(self, credential: launch.LaunchCredential) -> None:
        """Note the attempt as started, once. A power cut may lose the note, and no credential outlives its boot."""
        try:
            os.close(
                os.open(
                    self.seen / f"{credential.job}-{credential.attempt}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600
                )
            )
        except FileExistsError:
            raise StartRefused("this attempt was started before") from None

    def _stop(self, request: launch.StopUnit) -> None:
        name = launch.unit_name(request.job, request.attempt)
        if request.save:
            self.pid1.signal(name, signal.SIGUSR1)
        else:
            self.pid1.stop(name)
        log.info("%s: %s", name, "save" if request.save else "stop")


def _content(file: int) -> bytes:
    """What the worker service has written, read once: it could change it until then, and not after that."""
    size = os.fstat(file).st_size
    if size > launch.LARGEST_ORDER_BYTES:
        raise StartRefused(f"the order has {size} bytes")
    return os.pread(file, size, 0)
