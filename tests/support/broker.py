"""A broker as a host has it, with its socket, and a PID 1 that only remembers what it was asked for."""

from __future__ import annotations

import os
import pwd
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from gpuq_broker.pid1 import Pid1Failed
from gpuq_broker.serve import Broker

from gpuq import keys
from gpuq.home import Home
from gpuq.messages.launch import LaunchCredential, SignedCredential, SubmittedCommand, UnitOrder, digest, signed

KEY = Ed25519PrivateKey.generate()
INSTANCE = "this home on this boot"
NOW = 1_800_000_000.0
ANN = pwd.struct_passwd(("ann", "x", 1001, 1001, "", "/home/ann", "/bin/sh"))
COMMAND = SubmittedCommand(
    command=("python", "train.py"), cwd="/home/ann", env={"SEED": "1"}, stdin=None, umask=0o027, time_limit_s=60.0
)


class Pid1:
    """Remembers units and their orders."""

    def __init__(self) -> None:
        self.started: dict[str, dict[str, Any]] = {}
        self.orders: dict[str, bytes] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.fails = False

    def start(self, unit: str, properties: Sequence[tuple[str, tuple[str, Any]]]) -> None:
        self._check()
        self.started[unit] = {name: value for name, (_, value) in properties}
        file = self.started[unit]["StandardInputFileDescriptor"]
        self.orders[unit] = os.pread(file, os.fstat(file).st_size, 0)

    def stop(self, unit: str) -> None:
        self._check()
        self.calls.append(("stop", unit))

    def signal(self, unit: str, number: int) -> None:
        self._check()
        self.calls.append(("signal", unit, number))

    def _check(self) -> None:
        if self.fails:
            raise Pid1Failed("it has no memory left")


def credential(**changes: Any) -> LaunchCredential:
    values: dict[str, Any] = {
        "job": 7,
        "attempt": 1,
        "host": "alpha",
        "instance": INSTANCE,
        "user": "ann",
        "uid": 1001,
        "order": digest(COMMAND.text()),
        "expires_at": NOW + 60,
    }
    return LaunchCredential(**{**values, **changes})


def signed_credential(key: Ed25519PrivateKey = KEY, **changes: Any) -> SignedCredential:
    return signed(credential(**changes), key)


def unit_order(**changes: Any) -> UnitOrder:
    values: dict[str, Any] = {
        "submitted": COMMAND.text(),
        "env": {**COMMAND.env, "HOME": "/home/ann", "CUDA_VISIBLE_DEVICES": "GPU-1", "GPUQ_JOB_ID": "7"},
        "cores": None,
        "nodes": ("/dev/nvidia0", "/dev/nvidiactl"),
        "memory_max_bytes": None,
        "tasks_max": None,
        "grace_s": 10.0,
        "save_grace_s": 60.0,
        "checkpoint_signal": 15,
        "log_limit_bytes": 1 << 20,
    }
    return UnitOrder(**{**values, **changes})


def broker(folder: Path, pid1: Pid1, **changes: Any) -> Broker:
    """A broker whose peer is this process, and which knows of one user, ann."""
    seen = folder / "seen"
    seen.mkdir(exist_ok=True)
    values: dict[str, Any] = {
        "home": Home(folder / "gpuq"),
        "instance": INSTANCE,
        "public": lambda: keys.public_text(KEY),
        "seen": seen,
        "service": pwd.getpwuid(os.getuid()),
        "least_uid": 1000,
        "pid1": pid1,
        "clock": lambda: NOW,
        "account": {"ann": ANN}.get,
    }
    return Broker(**{**values, **changes})


@contextmanager
def listening(broker: Broker, path: Path) -> Iterator[None]:
    """The broker serves connections to `path`, one after the other."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    broker.serve(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
