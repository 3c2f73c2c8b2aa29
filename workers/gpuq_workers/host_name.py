"""The name of this host, kept in its home: the record knows the host, its events and its attempts by it."""

from __future__ import annotations

from gpuq.errors import BadSettings
from gpuq.home import Home, write_private
from gpuq_workers import spool
from gpuq_workers.attempts import folders_in
from gpuq_workers.ended import EndedAttempts


def take_name(home: Home, host: str) -> None:
    """Keep `host` as this host's name. Raises BadSettings if what ran under another one is not with the dispatcher yet, which
    takes that from the host of the other name only."""
    former = home.host_file.read_text(encoding="utf-8").strip() if home.host_file.exists() else None
    if former == host:
        return
    if former is not None:
        running = [
            str(folder.attempt.job)
            for folder in folders_in(home.attempts, without=EndedAttempts(home.attempts).names)
            if folder.marker().exited is None
        ]
        if running or spool.has_pending(home.spool):
            jobs = f": {', '.join(sorted(running, key=int))}" if running else ""
            raise BadSettings(
                f"This host cannot be called {host} yet: the dispatcher has not heard the ends of jobs of {former}{jobs}.",
                fix=f'Start it with `host = "{former}"` under [worker] until its jobs have ended.',
            )
        spool.clear(home.spool)
    write_private(home.host_file, f"{host}\n".encode())
