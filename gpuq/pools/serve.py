"""`python -m gpuq.pools`: request pilots when jobs wait, take back those that are not needed, and remove those that have ended.

It keeps nothing in memory that it needs after a restart: each pilot has a folder in the home, with the number of its Slurm job in
`pilot.json`. A folder is removed only when Slurm has no such job any more and gpuq has forgotten its host, so no pilot is lost.
"""

from __future__ import annotations

import logging
import secrets
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from gpuq.adapters import slurm
from gpuq.adapters.lock import only_one
from gpuq.cli.client import HttpClient
from gpuq.errors import Conflict, GpuqError, NotFound
from gpuq.home import Home, write_private
from gpuq.logs import report, start_log
from gpuq.messages.pilot import Pilot, PilotOrder
from gpuq.pools import plan, pool
from gpuq.pools.pool import Pool
from gpuq.pools.request import options, script
from gpuq.settings import load

log = logging.getLogger("gpuq.pools")

_LOOK_EVERY_S = 3.0
# Each look at Slurm is one call of its controller, which a whole site shares. A pilot that has joined reports by itself.
_ASK_SLURM_EVERY_S = 30.0
_INVITE_AGAIN_AFTER_S = 1800.0  # invitations count for an hour
_WAIT_AFTER_FAILURE_S = 60.0
_REQUEUED_WITHIN_S = 30.0
# A pilot ends by itself if this process does not end it for so long.
_WITHOUT_US_S = 300.0
_IDLE = "the pilot is idle"
# Jobs that wait by these rules would not start if there were more devices.
_NOT_FOR_A_DEVICE = {
    *("Dependency", "Singleton", "BeginTime", "Backoff", "ArrayLimit", "DeviceQuota", "DeviceHoursQuota"),
    *("NeverFits", "Postponed", "WaitLimit"),
}
_TIDY_EVERY_S = 3600.0
_PAGE = 1000


@dataclass
class Pools:
    """All pools of a home. `slurm` has the functions of `gpuq.adapters.slurm`; logs of pilots are kept for `keep_s` seconds."""

    home: Home
    client: HttpClient
    slurm: Any = slurm
    clock: Callable[[], float] = time.time
    keep_s: float = 30 * 86_400.0
    _asked_at: float = 0.0
    _tidied_at: float = 0.0
    _idle_since: dict[str, float] = field(default_factory=dict)
    _gone_since: dict[str, float] = field(default_factory=dict)
    _quiet_until: dict[str, float] = field(default_factory=dict)

    def turn(self) -> None:
        """One look at the queue, the hosts and, when it is time, Slurm; then what follows. Raises GpuqError."""
        pools, pilots = pool.load(self.home), self._pilots()
        if self.clock() > self._tidied_at + _TIDY_EVERY_S:
            self._tidied_at = self.clock()
            _remove_old(self.home.pilots, self.clock() - self.keep_s)
        if not pools and not pilots:
            return
        hosts = {host["name"]: host for host in self.client.get("/api/v1/hosts")}
        pilots = self._without_ended(pilots, hosts)
        known = {one.name for one in pools}
        self.slurm.cancel([pilot.slurm_job for pilot in pilots if pilot.pool not in known])
        if not pools:
            return
        waiting = self._waiting()
        devices = self.client.get("/api/v1/gpus")
        for one in pools:
            if self.clock() >= self._quiet_until.get(one.name, 0.0):
                self._fill(one, waiting, [pilot for pilot in pilots if pilot.pool == one.name], hosts, devices)

    def _fill(
        self,
        one: Pool,
        waiting: list[plan.Waiting],
        pilots: list[Pilot],
        hosts: dict[str, dict[str, Any]],
        devices: list[dict[str, Any]],
    ) -> None:
        """Request and take back pilots of one pool."""
        seen = []
        for pilot in pilots:
            joined = pilot.name in hosts
            if joined and pilot.joined_at is None:
                self._save(msgspec.structs.replace(pilot, joined_at=self.clock()))
            own = [device for device in devices if device["host"] == pilot.name]
            idle = sum(not device["residents"] for device in own) if joined else None
            seen.append(plan.Allocation(pilot.slurm_job, pilot.name, idle))
            if joined:
                self._end_if_idle(
                    one, pilot, hosts[pilot.name], wanted=any(job.devices <= max(1, one.gpus) for job in waiting)
                )
        decided = plan.plan(one, waiting, seen, self._hours_used(one))
        self.slurm.cancel(decided.cancel)
        for _ in range(decided.request):
            try:
                self._request(one)
            except GpuqError as error:
                # Slurm's answer will be the same in three seconds.
                self._quiet_until[one.name] = self.clock() + _WAIT_AFTER_FAILURE_S
                log.warning("pool %s: %s %s", one.name, error.message, error.fix)
                return

    def _end_if_idle(self, one: Pool, pilot: Pilot, host: dict[str, Any], *, wanted: bool) -> None:
        """End a pilot that has had no job for the pool's `idle_s`, while none waited that it could run: its GPUs may have been a
        dead pilot's, and are its own only when that one's host is forgotten.

        Its host is drained first, and looked at again: a job that was just sent there runs.
        """
        if host["jobs"] or wanted:
            self._idle_since.pop(pilot.name, None)
            if host["drained"] == _IDLE:
                self.client.post(f"/api/v1/hosts/{pilot.name}/resume")
        elif host["drained"] == _IDLE:
            log.info("pilot %s had no job for %.0f s and ends", pilot.name, one.idle_s)
            self.slurm.cancel([pilot.slurm_job])
        elif self.clock() >= self._idle_since.setdefault(pilot.name, self.clock()) + one.idle_s:
            self.client.post(f"/api/v1/hosts/{pilot.name}/drain", {"why": _IDLE})

    def _request(self, one: Pool) -> None:
        name = f"{one.name}-{secrets.token_hex(3)}"
        folder = self.home.pilots / name
        folder.mkdir(mode=0o700, parents=True)
        self._invite(name, one)
        try:
            number = self.slurm.submit(script(folder), options(one, folder))
        except GpuqError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._save(Pilot(name, one.name, number, self.clock()))
        log.info("pool %s requested pilot %s, Slurm job %d", one.name, name, number, extra={"action": "request"})

    def _invite(self, name: str, one: Pool) -> None:
        invited = self.client.post(f"/api/v1/hosts/{name}/add")
        order = PilotOrder(
            main=invited["main"],
            fingerprint=invited["fingerprint"],
            host=name,
            secret=invited["secret"],
            idle_s=one.idle_s + _WITHOUT_US_S,
            gpus=one.gpus,
        )
        write_private(self.home.pilots / name / "order.json", msgspec.json.encode(order))

    def _without_ended(self, pilots: list[Pilot], hosts: dict[str, dict[str, Any]]) -> list[Pilot]:
        """The pilots that wait or run; what remains of the others is removed.

        Slurm is asked rarely: a pilot that reports runs. One that has stopped reporting, or has not yet begun, is looked up.
        """
        silent = [pilot for pilot in pilots if hosts.get(pilot.name, {}).get("state") != "ok"]
        now = self.clock()
        if not silent or now < self._asked_at + _ASK_SLURM_EVERY_S:
            return pilots
        self._asked_at = now
        there = self.slurm.jobs({pilot.slurm_job for pilot in silent})
        for pilot in silent:
            if pilot.slurm_job not in there:
                self._bury(pilot, hosts.get(pilot.name))
            elif pilot.name not in hosts and now > pilot.invited_at + _INVITE_AGAIN_AFTER_S:
                self._renew(pilot)
        return [pilot for pilot in pilots if pilot not in silent or pilot.slurm_job in there]

    def _renew(self, pilot: Pilot) -> None:
        """Another invitation for a pilot that waits in Slurm's queue for long."""
        for one in pool.load(self.home):
            if one.name == pilot.pool:
                self._invite(pilot.name, one)
                self._save(msgspec.structs.replace(pilot, invited_at=self.clock()))

    def _bury(self, pilot: Pilot, host: dict[str, Any] | None) -> None:
        """Its Slurm job has ended: end what gpuq still takes for running there, and remove its host and folder."""
        folder = self.home.pilots / pilot.name
        try:
            if host is None:
                self._note_failure(pilot, _tail(folder / "slurm.out"))
            elif host["jobs"]:
                # A job that was sent there and never started goes back to the queue by itself within this time.
                if self.clock() < self._gone_since.setdefault(pilot.name, self.clock()) + _REQUEUED_WITHIN_S:
                    return
                self.client.post(f"/api/v1/hosts/{pilot.name}/lost")
                return  # the host is forgotten at a later look, when its jobs have ended
            self.client.post(f"/api/v1/hosts/{pilot.name}/forget")
        except Conflict:
            return  # it reported a moment ago
        except NotFound:
            pass  # it was forgotten before this process was started again
        if pilot.joined_at is not None:
            self._charge(pilot.pool, self.clock() - pilot.joined_at)
        _remove_but_logs(folder, self.home.attempts_of_pilot(pilot.name))

    def _charge(self, name: str, lasted_s: float) -> None:
        """Add the time of a pilot to what its pool has taken."""
        for one in pool.load(self.home):
            if one.name == name:
                hours = self._hours_used(one) + max(1, one.gpus) * lasted_s / 3600
                write_private(self.home.pilots / f"{name}.hours", repr(hours).encode())

    def _save(self, pilot: Pilot) -> None:
        write_private(self.home.pilots / pilot.name / "pilot.json", msgspec.json.encode(pilot))

    def _note_failure(self, pilot: Pilot, said: str) -> None:
        """A pilot ended before it joined, which the next one would do too."""
        self._quiet_until[pilot.pool] = self.clock() + _WAIT_AFTER_FAILURE_S
        log.warning(
            "pilot %s, Slurm job %d, ended before it joined: %s", pilot.name, pilot.slurm_job, said or "no output"
        )

    def _waiting(self) -> list[plan.Waiting]:
        page = self.client.get("/api/v1/jobs", state="pending", owner="all", order="oldest", limit=_PAGE)
        found = []
        for job in page["jobs"]:
            if job["verdict"] is not None and job["verdict"]["rule"] in _NOT_FOR_A_DEVICE:
                continue
            forecast = job["forecast"] if job["share"] == "auto" else None
            found.append(plan.Waiting(job["gpus"], forecast["peak_utilization_pct"] if forecast else None))
        return found

    def _pilots(self) -> list[Pilot]:
        found = []
        for file in sorted(self.home.pilots.glob("*/pilot.json")):
            try:
                found.append(msgspec.json.decode(file.read_bytes(), type=Pilot))
            except (OSError, msgspec.MsgspecError) as error:
                log.warning("%s cannot be read: %s", file, error)
        return found

    def _hours_used(self, one: Pool) -> float:
        file = self.home.pilots / f"{one.name}.hours"
        try:
            return float(file.read_text())
        except (OSError, ValueError):
            return 0.0


def _remove_but_logs(folder: Path, attempts: Path) -> None:
    """Remove the folder of a pilot, but for those of its attempts: the logs are still to be read."""
    (folder / "pilot.json").unlink(missing_ok=True)  # from here on it counts as ended
    if not attempts.is_dir() or not any(attempts.iterdir()):
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in [*folder.iterdir(), *attempts.parent.iterdir()]:
        if path.is_dir() and path not in {attempts, attempts.parent}:
            shutil.rmtree(path, ignore_errors=True)
        elif not path.is_dir():
            path.unlink(missing_ok=True)


def _remove_old(pilots: Path, older_than: float) -> None:
    """Remove the logs of pilots that ended before this time (Unix seconds)."""
    for folder in pilots.glob("*/"):
        if not (folder / "pilot.json").exists() and folder.stat().st_mtime < older_than:
            shutil.rmtree(folder, ignore_errors=True)


def _tail(file: Path) -> str:
    """The last line that the pilot printed."""
    try:
        lines = file.read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1][:300] if lines else ""


def main() -> int:
    """Serve until SIGTERM. Returns the exit code."""
    start_log()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    home = Home.from_environment()
    try:
        with only_one(home.run / "pools.lock", "`gpuq.pools`"):
            keep_s = load().worker.keep_attempts_days * 86_400
            pools = Pools(home, HttpClient(None, away_s=0), keep_s=keep_s)
            while not stop.wait(_LOOK_EVERY_S):
                try:
                    pools.turn()
                except GpuqError as error:
                    log.warning("%s %s", error.message, error.fix)
    except GpuqError as error:
        return report(error)
    return 0
