"""`python -m gpuq.pools`: request pilots when jobs wait, take back those that are not needed, and remove those that have ended.

What it must know after a restart is in the folders of the pilots. One is removed only when Slurm has no such job any more and
gpuq has forgotten its host, so no pilot is lost.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from msgspec.structs import replace

from gpuq import __version__
from gpuq.adapters import slurm
from gpuq.adapters.kubernetes import Pods
from gpuq.adapters.lock import only_one
from gpuq.cli.client import HttpClient
from gpuq.errors import GpuqError
from gpuq.home import Home
from gpuq.logs import report, start_log
from gpuq.messages.pilot import ALL_POOLS, NOTICE_S, Pilot, PilotProblem
from gpuq.policies.pilots import Allocation, Demand, PoolLimits, Requests, fits, horizon, plan
from gpuq.pools import demands, pool
from gpuq.pools.grantors import Grantors
from gpuq.pools.lookups import Lookups, reports
from gpuq.pools.pilots import PilotFolders
from gpuq.pools.pool import Pool
from gpuq.pools.problems import Problems
from gpuq.pools.requests import PilotRequests, settings_for
from gpuq.pools.slurm_reasons import fix_of
from gpuq.settings import load

log = logging.getLogger("gpuq.pools")

_LOOK_EVERY_S = 3.0
# Longer than the time between two looks on a slow machine. Of a longer silence of the dispatcher, so much counts as idle.
_COUNTS_AS_HEARD_S = 15.0
_INVITE_AGAIN_AFTER_S = 1800.0  # invitations count for an hour
# The jobs that wait do not start on such a pilot, so the next one would end the same way.
_WAIT_AFTER_IDLE_PILOT_S = 600.0
# The GPUs of a pilot may have been a dead pilot's; jobs start there when the host of that one is forgotten. A pilot that ends
# idle within this time says nothing about the next one.
_TAKES_OVER_WITHIN_S = 120.0
_IDLE = "the pilot is idle"
_TIDY_EVERY_S = 3600.0
_WAIT_FOR_DISK_S = 60.0


@dataclass(frozen=True)
class _Site:
    """The hosts by name and the devices at one look, as the API gives them."""

    hosts: Mapping[str, dict[str, Any]]
    devices: Sequence[dict[str, Any]]


@dataclass
class Pools:
    """All pools of a home. `slurm` has the functions of `gpuq.adapters.slurm`, and `pods` those of a place on Kubernetes. Logs of
    pilots are kept for `keep_s` seconds. So many `residents` share a device at most, and pilots reach this gpuq at `hosts_at`.
    Their worker services have these `settings`, by group."""

    home: Home
    client: HttpClient
    slurm: Any = slurm
    clock: Callable[[], float] = time.time
    keep_s: float = 30 * 86_400.0
    residents: int = 2
    hosts_at: tuple[str, ...] = ()
    settings: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    pods: Callable[[Sequence[str]], Any] = Pods
    _tidied_at: float = 0.0
    _unheard_s: float = 0.0
    _misfits: bool | None = None

    def __post_init__(self) -> None:
        folders, client, clock = PilotFolders(self.home), self.client, self.clock
        self._folders, self._problems = folders, Problems(folders, clock)
        self._grantors = Grantors(folders, self.slurm, self.pods)
        self._requests = PilotRequests(folders, self._grantors, client, clock, self.settings)
        self._lookups = Lookups(self.home, folders, self._grantors, self._problems, client, clock)

    def turn(self) -> None:
        """One look at the queue, the hosts and, when it is time, Slurm; then what follows. Raises GpuqError."""
        pools, pilots = {one.name: one for one in pool.load(self.home)}, self._folders.read()
        if self.clock() > self._tidied_at + _TIDY_EVERY_S:
            self._tidied_at = self.clock()
            self._folders.remove_logs(self.clock() - self.keep_s)
        self._problems.keep(set(pools))
        if not pools and not pilots:
            return
        hosts = {host["name"]: host for host in self.client.get("/api/v1/hosts")}
        heard_at = self.clock()
        self._unheard_s = max(0.0, heard_at - (self._folders.heard_at() or heard_at))
        pilots = self._lookups.without_ended(pilots, hosts)
        self._grantors.end([pilot for pilot in pilots if pilot.pool not in pools])
        if not pools:
            return
        site = _Site(hosts, self.client.get("/api/v1/gpus"))
        waiting: Sequence[Demand] = demands.waiting(self.client)
        self._note_misfits(pools.values(), waiting)
        for one in pools.values():
            # What is left for the next pool is what this one cannot run.
            waiting = self._serve(one, [pilot for pilot in pilots if pilot.pool == one.name], site, waiting)
        self._folders.note_heard(heard_at)  # not before all pilots have been given the time in which it was away

    def _note_misfits(self, pools: Collection[Pool], waiting: Sequence[Demand]) -> None:
        """Say that jobs wait for which no pool will ever request a pilot."""
        limits = [self._limits(one, (), most=one.most) for one in pools]
        misfits = any(not any(fits(job, each) for each in limits) for job in waiting)
        if misfits == self._misfits:
            return
        self._misfits = misfits
        problem = (
            "Jobs wait that no pilot can run: they ask for more GPUs than it has, or may take longer than it lasts."
        )
        fix = "`gpuq explain ID` says how long a job may take; give it less with `gpuq edit ID --time`, or add a pool with more."
        self._folders.note(ALL_POOLS, PilotProblem(self.clock(), problem, fix) if misfits else None)

    def _serve(self, one: Pool, pilots: list[Pilot], site: _Site, waiting: Sequence[Demand]) -> Sequence[Demand]:
        """Request, take back and end pilots of one pool. Returns the jobs that need another pool."""
        in_order = sorted(pilots, key=lambda pilot: pilot.requested_at)
        pilots = [self._seen(one, pilot, site.hosts.get(pilot.name)) for pilot in in_order]
        # A pool that gets no pilot for now leaves the jobs to the next one.
        quiet = self._problems.is_quiet(one.name) or any(_waits_for_ever(pilot) for pilot in pilots)
        decided = self._plan(one, pilots, site, waiting, most=0 if quiet else one.most)
        for number, pilot in enumerate(pilots):
            if pilot.name in site.hosts:
                self._end_if_idle(one, pilot, site.hosts[pilot.name], wanted=number in decided.wanted)
        # Slurm may have started one since the hosts were looked at, and a job may run there already.
        self._grantors.end([pilots[number] for number in decided.cancel], if_waiting=True)
        began = self.clock()
        for size in decided.request:
            if self.clock() > began + _LOOK_EVERY_S:
                break  # a slow Slurm: the next look requests the others, if jobs still wait for them
            try:
                self._requests.request(one, size if one.gpus else 0)
            except GpuqError as error:
                # Slurm's answer will be the same in three seconds.
                self._problems.failed(one.name, error.message, error.fix)
                break
        return decided.left

    def _seen(self, one: Pool, pilot: Pilot, host: dict[str, Any] | None) -> Pilot:
        """The pilot, with what this look shows of it. One that has waited in Slurm's queue for long is invited again."""
        now = self.clock()
        if host is None:
            if pilot.joined_at is not None:
                return pilot
            if now < pilot.invited_at + _INVITE_AGAIN_AFTER_S and self._is_current(pilot):
                return pilot
            self._requests.invite(pilot.name, one, pilot.gpus)
            return self._folders.save(replace(pilot, invited_at=now))
        seen = replace(
            pilot,
            joined_at=now if pilot.joined_at is None else pilot.joined_at,
            idle_since=None if host["jobs"] else self._idle_since(pilot, host),
        )
        if pilot.joined_at is None:
            self._problems.solved(pilot.pool)
            # Options of the user may have brought it other GPUs than were asked for.
            gpus = (host["devices"] or pilot.gpus) if pilot.gpus else 0
            # Slurm had started it before it was taken back.
            seen = replace(seen, ended_by_us=False, gpus=gpus)
        return pilot if seen == pilot else self._folders.save(seen)

    def _is_current(self, pilot: Pilot) -> bool:
        """Whether what it is ordered to do holds: gpuq may have moved, or been upgraded, since it was invited."""
        order = self._folders.ordered(pilot.name)
        if order is None or order.version != __version__:
            return False
        return not self.hosts_at or order.main in self.hosts_at

    def _idle_since(self, pilot: Pilot, host: dict[str, Any]) -> float:
        """Since when the pilot has had no job, later by the time in which it could have got none: the dispatcher was away, or
        did not hear it."""
        if pilot.idle_since is None:
            return self.clock()
        return pilot.idle_since + (max(0.0, self._unheard_s - _COUNTS_AS_HEARD_S) if reports(host) else self._unheard_s)

    def _limits(self, one: Pool, pilots: Sequence[Pilot], *, most: int) -> PoolLimits:
        taken = self._folders.hours(one.name) + sum(max(1, pilot.gpus) * one.time_limit_s / 3600 for pilot in pilots)
        return PoolLimits(
            devices=max(1, one.gpus),
            most=most,
            time_s=one.time_limit_s - NOTICE_S,
            charged_s=one.time_limit_s,
            device_hours=None if one.most_hours is None else max(0.0, one.most_hours - taken),
            residents=self.residents,
        )

    def _plan(self, one: Pool, pilots: list[Pilot], site: _Site, waiting: Sequence[Demand], *, most: int) -> Requests:
        limits = self._limits(one, pilots, most=most)
        waits = [pilot.joined_at - pilot.requested_at for pilot in pilots if pilot.joined_at is not None]
        numbered = [(number, pilot) for number, pilot in enumerate(pilots) if not pilot.ended_by_us]
        there = [
            # No job counts on it while any waits; without any it is taken back as others are.
            Allocation(number, (), 0.0, started=True)
            if waiting and _waits_for_ever(pilot)
            else self._allocation(number, pilot, limits, site)
            for number, pilot in numbered
        ]
        within = horizon(one.scaling, one.idle_s, median(waits) if waits else 0.0, waiting, there)
        return plan(limits, waiting, there, within)

    def _allocation(self, number: int, pilot: Pilot, limits: PoolLimits, site: _Site) -> Allocation:
        if pilot.name not in site.hosts:
            return Allocation(number, ((),) * max(1, pilot.gpus), limits.time_s, started=False)
        if not _takes_jobs(site.hosts[pilot.name]):
            return Allocation(number, (), 0.0, started=True)
        now, own = self.clock(), [device for device in site.devices if device["host"] == pilot.name]
        left_s = min(
            (device["until_at_unix"] - now for device in own if device["until_at_unix"]), default=limits.time_s
        )
        return Allocation(number, tuple(demands.on_device(device, now) for device in own), left_s, started=True)

    def _end_if_idle(self, one: Pool, pilot: Pilot, host: dict[str, Any], *, wanted: bool) -> None:
        """End a pilot that has had no job for `--idle`; `wanted`: one waits that could run there. Its host is drained first, and
        looked at again: a job that was just sent there runs."""
        if pilot.ended_by_us or not reports(host):
            return
        idle_s = max(one.idle_s, _TAKES_OVER_WITHIN_S) if wanted else one.idle_s
        if pilot.idle_since is None:
            if host["drained"] == _IDLE:
                self.client.post(f"/api/v1/hosts/{pilot.name}/resume")
        elif host["drained"] == _IDLE:
            log.info("pilot %s had no job for %.0f s and ends", pilot.name, idle_s)
            self._grantors.end([pilot])
            took_over = self.clock() < self._lookups.silent_at + _TAKES_OVER_WITHIN_S
            if wanted and not took_over and not self._folders.has_worked(pilot.name):
                self._problems.quiet(one.name, _WAIT_AFTER_IDLE_PILOT_S)
        elif self.clock() >= pilot.idle_since + idle_s:
            self.client.post(f"/api/v1/hosts/{pilot.name}/drain", {"why": _IDLE})


def _takes_jobs(host: Mapping[str, Any]) -> bool:
    """Whether jobs may start on this host, or could if it were not about to end as idle."""
    return bool(host["state"] == "ok" or (host["state"] == "drained" and host["drained"] == _IDLE))


def _waits_for_ever(pilot: Pilot) -> bool:
    """Whether Slurm will not start it, as far as its reason says."""
    waits = pilot.joined_at is None and pilot.started_at is None and pilot.slurm_says is not None
    return waits and fix_of(pilot.slurm_says or "") is not None


def main() -> int:
    """Serve until SIGTERM. Returns the exit code."""
    start_log()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    home = Home.from_environment()
    try:
        with only_one(home.run / "pools.lock", "`gpuq.pools`"):
            settings = load()
            keep_s, residents = settings.worker.keep_attempts_days * 86_400, settings.admission.residents_per_device
            client, hosts_at = HttpClient(None, away_s=0), settings.api.hosts_at
            pools = Pools(
                home, client, keep_s=keep_s, residents=residents, hosts_at=hosts_at, settings=settings_for(settings)
            )
            while not stop.wait(_LOOK_EVERY_S):
                try:
                    pools.turn()
                except GpuqError as error:
                    log.warning("pools: %s %s", error.message, error.fix)
                except OSError as error:
                    log.warning("pools: %s. Is gpuq's home full, or your quota there used up?", error)
                    # What was done and not noted is done again at the next look, and Slurm asked for it.
                    stop.wait(_WAIT_FOR_DISK_S)
    except GpuqError as error:
        return report(error)
    return 0
