"""Where what a service of this machine has written is: a file under `gpuq up`, the journal under systemd."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuq.cli.client import is_held
from gpuq.home import Home
from gpuq.logs import last_words

UNIT_FOLDERS = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system", "~/.config/systemd/user")
_UNITS = {"dispatcher": "gpuqd", "api": "gpuq-api", "worker": "gpuq-worker"}


@dataclass(frozen=True)
class ServiceLog:
    """`where` names a file or a command. `said` is the last that the service wrote and `fix` what to do about that, None where
    only the journal has it."""

    where: str
    said: str | None = None
    fix: str | None = None

    @property
    def quoted(self) -> str:
        """What it wrote last, as the end of a sentence."""
        return "" if self.said is None else f"; it wrote last: {self.said}"

    @property
    def what_to_do(self) -> str:
        """The fix that it named itself, or where to read on."""
        return self.fix or f"Mend what {self.where} names."


def service_log(home: Home, service: str) -> ServiceLog:
    """The log of the `dispatcher`, the `api` or the `worker` of this home."""
    unit = _UNITS[service]
    if not is_held(home.run / "up.lock"):
        for folder in UNIT_FOLDERS:
            if (Path(folder).expanduser() / f"{unit}.service").exists():
                return ServiceLog(f"`journalctl{' --user' if folder[0] == '~' else ''} -u {unit} -n 20`")
    file = home.logs / f"{service}.log"
    return ServiceLog(str(file), *last_words(file))


def log_elsewhere(service: str) -> str:
    """The same of another host, of which it is not known how its services are started."""
    return f"`journalctl -u {_UNITS[service]} -n 20`, or under `gpuq up` logs/{service}.log,"
