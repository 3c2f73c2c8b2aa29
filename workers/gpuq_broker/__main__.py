"""`python -m gpuq_broker`, started by gpuq-broker.socket. It ends after a quarter of an hour without a request."""

from __future__ import annotations

import logging
import os
import pwd
import socket
import sys
from functools import partial
from pathlib import Path

from gpuq.errors import BadSettings, GpuqError
from gpuq.home import Home, instance_id
from gpuq.messages.launch import LEAST_UID
from gpuq_broker.pid1 import Pid1
from gpuq_broker.serve import Broker

PUBLIC_KEY = Path("/etc/gpuq/dispatcher.pub")
_IDLE_S = 900.0
_LISTENER = 3  # the first descriptor that systemd passes, sd_listen_fds(3)


def main() -> int:
    """Serve requests until none has come for a while; the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        broker = _broker()
        if os.environ.get("LISTEN_PID") != str(os.getpid()):
            raise BadSettings("The broker has no socket.", fix="systemctl enable --now gpuq-broker.socket starts it.")
    except GpuqError as error:
        logging.getLogger("gpuq.broker").error("%s %s", error.message, error.fix)
        return error.exit_code
    with socket.socket(fileno=_LISTENER) as listener:
        listener.settimeout(_IDLE_S)
        while True:
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                return 0
            with connection:
                broker.serve(connection)


def _broker() -> Broker:
    home = Home.from_environment()
    public_key(PUBLIC_KEY)
    try:
        least_uid = int(os.environ.get("GPUQ_BROKER_LEAST_UID") or LEAST_UID)
        service = pwd.getpwnam(os.environ.get("GPUQ_BROKER_SERVICE") or "gpuq")
    except (ValueError, KeyError) as error:
        raise BadSettings(
            f"A variable of the broker is wrong: {error}.", fix="Correct it in the unit's drop-in."
        ) from error
    return Broker(
        home=home,
        instance=instance_id(home, Path("/proc/sys/kernel/random/boot_id").read_text().strip()),
        public=partial(public_key, PUBLIC_KEY),
        seen=Path(os.environ["STATE_DIRECTORY"]),
        service=service,
        least_uid=least_uid,
        pid1=Pid1(),
    )


def public_key(path: Path) -> str:
    """The dispatcher's public key. Raises BadSettings if there is none, or if others than root could have written it."""
    try:
        status, text = path.stat(), path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"{path} cannot be read: {error}.", fix="docs/hosts.md says how to place it.") from error
    if status.st_uid != 0 or status.st_mode & 0o022:
        raise BadSettings(f"{path} could be written by others than root.", fix=f"chown root {path} && chmod 644 {path}")
    return text


if __name__ == "__main__":
    sys.exit(main())
