"""`python -m gpuq.pools`: request pilots when jobs wait, take back those that are not needed, and remove those that have ended.

What it must know after a restart is in the folders of the pilots. One is removed only when Slurm has no such job any more and
gpuq has forgotten its host, so no pilot is lost.
"""

from __future__ import annotations

import logging
import re
import secrets
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from statistics import median
from typing import Any

from gpuq_workers import last_events
from msgspec.structs import replace

from gpuq import __version__
from gpuq.adapters import slurm
from gpuq.adapters.kubernetes import Pods
from gpuq.adapters.lock import only_one
from gpuq.adapters.slurm import SlurmJob
from gpuq.cli.client import HttpClient
from gpuq.errors import BadInput, Conflict, GpuqError, NotFound
from gpuq.home import Home
from gpuq.logs import report, start_log
from gpuq.messages.pilot import NOTICE_S, Pilot, PilotOrder, PilotProblem
from gpuq.policies.pilots import Allocation, Demand, PoolLimits, Requests, horizon, plan
from gpuq.pools import demands, pool
from gpuq.pools.pilots import PilotFolders
from gpuq.pools.pod import manifest, where
from gpuq.pools.pool import Pool
from gpuq.pools.request import options, script, settings_for
from gpuq.pools.sbatch_options import takes_whole_node
from gpuq.pools.slurm_reasons import fix_of
from gpuq.settings import load

log = logging.getLogger("gpuq.pools")

_LOOK_EVERY_S = 3.0
# Longer than the time between two looks on a slow machine. Of a longer silence of the dispatcher, so much counts as idle.
_COUNTS_AS_HEARD_S = 15.0
# Each look at Slurm is one call of its controller, which a whole site shares. A pilot that has joined reports by itself.
_ASK_SLURM_EVERY_S = 30.0
_ASK_SLURM_AFTER = 0.25
_INVITE_AGAIN_AFTER_S = 1800.0  # invitations count for an hour
_WAIT_AFTER_FAILURE_S = 60.0
# The jobs that wait do not start on such a pilot, so the next one would end the same way.
_WAIT_AFTER_IDLE_PILOT_S = 600.0
_REQUEUED_WITHIN_S = 30.0
# The GPUs of a pilot may have been a dead pilot's; jobs start there when the host of that one is forgotten. A pilot that ends
# idle within this time says nothing about the next one.
_TAKES_OVER_WITHIN_S = 120.0
# A pilot ends by itself if this process does not end it for so long.
_WITHOUT_US_S = 300.0
_IDLE = "the pilot is idle"
# What a shell, a loader and Python say of a program that is not on their machine.
_NOT_THERE = re.compile(r"not found|No such file or directory|No module named|cannot execute")
# Slurm has started a pilot, which has not joined within this time: the node may be cut off, and its GPUs are charged.
_JOINS_WITHIN_S = 300.0
# Slurm may take up a request whose answer did not come within a minute.
_SUBMITTED_WITHIN_S = 120.0
_TIDY_EVERY_S = 3600.0


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
    _asked_at: float = 0.0
    _tidied_at: float = 0.0
    _silent_at: float = -inf
    _unheard_s: float = 0.0
    _quiet_until: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._folders = PilotFolders(self.home)

    def turn(self) -> None:
        """One look at the queue, the hosts and, when it is time, Slurm; then what follows. Raises GpuqError."""
        pools, pilots = {one.name: one for one in pool.load(self.home)}, self._folders.read()
        if self.clock() > self._tidied_at + _TIDY_EVERY_S:
            self._tidied_at = self.clock()
            self._folders.remove_logs(self.clock() - self.keep_s)
        if not pools and not pilots:
            return
        hosts = {host["name"]: host for host in self.client.get("/api/v1/hosts")}
        heard_at = self.clock()
        self._unheard_s = max(0.0, heard_at - (self._folders.heard_at() or heard_at))
        pilots = self._without_ended(pilots, hosts)
        self._end([pilot for pilot in pilots if pilot.pool not in pools])
        if not pools:
            return
        site = _Site(hosts, self.client.get("/api/v1/gpus"))
        waiting: Sequence[Demand] = demands.waiting(self.client)
        for one in pools.values():
            # What is left for the next pool is what this one cannot run.
            waiting = self._serve(one, [pilot for pilot in pilots if pilot.pool == one.name], site, waiting)
        self._folders.note_heard(heard_at)  # not before all pilots have been given the time in which it was away

    def _serve(self, one: Pool, pilots: list[Pilot], site: _Site, waiting: Sequence[Demand]) -> Sequence[Demand]:
        """Request, take back and end pilots of one pool. Returns the jobs that need another pool."""
        in_order = sorted(pilots, key=lambda pilot: pilot.requested_at)
        pilots = [self._seen(one, pilot, site.hosts.get(pilot.name)) for pilot in in_order]
        # A pool that gets no pilot for now leaves the jobs to the next one.
        quiet = self.clock() < self._quiet_until.get(one.name, 0.0) or any(_waits_for_ever(pilot) for pilot in pilots)
        decided = self._plan(one, pilots, site, waiting, most=0 if quiet else one.most)
        for number, pilot in enumerate(pilots):
            if pilot.name in site.hosts:
                self._end_if_idle(one, pilot, site.hosts[pilot.name], wanted=number in decided.wanted)
        # Slurm may have started one since the hosts were looked at, and a job may run there already.
        self._end([pilots[number] for number in decided.cancel], if_waiting=True)
        began = self.clock()
        for size in decided.request:
            if self.clock() > began + _LOOK_EVERY_S:
                break  # a slow Slurm: the next look requests the others, if jobs still wait for them
            try:
                self._request(one, size if one.gpus else 0)
            except GpuqError as error:
                # Slurm's answer will be the same in three seconds.
                self._note(one.name, error.message, error.fix)
                break
        return decided.left

    def _seen(self, one: Pool, pilot: Pilot, host: dict[str, Any] | None) -> Pilot:
        """The pilot, with what this look shows of it. One that has waited in Slurm's queue for long is invited again."""
        now = self.clock()
        if host is None:
            if pilot.joined_at is not None:
                return pilot
            moved = bool(self.hosts_at) and self._folders.invited_to(pilot.name) not in self.hosts_at
            if now < pilot.invited_at + _INVITE_AGAIN_AFTER_S and not moved:
                return pilot
            self._invite(pilot.name, one, pilot.gpus)
            return self._folders.save(replace(pilot, invited_at=now))
        seen = replace(
            pilot,
            joined_at=now if pilot.joined_at is None else pilot.joined_at,
            idle_since=None if host["jobs"] else self._idle_since(pilot, host),
        )
        if pilot.joined_at is None:
            self._folders.note(pilot.pool, None)
            # Options of the user may have brought it other GPUs than were asked for.
            gpus = (host["devices"] or pilot.gpus) if pilot.gpus else 0
            # Slurm had started it before it was taken back.
            seen = replace(seen, ended_by_us=False, gpus=gpus)
        return pilot if seen == pilot else self._folders.save(seen)

    def _idle_since(self, pilot: Pilot, host: dict[str, Any]) -> float:
        """Since when the pilot has had no job, later by the time in which it could have got none: the dispatcher was away, or
        did not hear it."""
        if pilot.idle_since is None:
            return self.clock()
        return pilot.idle_since + (
            max(0.0, self._unheard_s - _COUNTS_AS_HEARD_S) if _reports(host) else self._unheard_s
        )

    def _plan(self, one: Pool, pilots: list[Pilot], site: _Site, waiting: Sequence[Demand], *, most: int) -> Requests:
        taken = self._folders.hours(one.name) + sum(max(1, pilot.gpus) * one.time_limit_s / 3600 for pilot in pilots)
        limits = PoolLimits(
            devices=max(1, one.gpus),
            most=most,
            time_s=one.time_limit_s - NOTICE_S,
            charged_s=one.time_limit_s,
            device_hours=None if one.most_hours is None else max(0.0, one.most_hours - taken),
            residents=self.residents,
        )
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
        if not _reports(site.hosts[pilot.name]):  # no job starts there
            return Allocation(number, (), 0.0, started=True)
        now, own = self.clock(), [device for device in site.devices if device["host"] == pilot.name]
        left_s = min(
            (device["until_at_unix"] - now for device in own if device["until_at_unix"]), default=limits.time_s
        )
        return Allocation(number, tuple(demands.on_device(device, now) for device in own), left_s, started=True)

    def _end_if_idle(self, one: Pool, pilot: Pilot, host: dict[str, Any], *, wanted: bool) -> None:
        """End a pilot that has had no job for `--idle`; `wanted`: one waits that could run there. Its host is drained first, and
        looked at again: a job that was just sent there runs."""
        if pilot.ended_by_us or not _reports(host):
            return
        idle_s = max(one.idle_s, _TAKES_OVER_WITHIN_S) if wanted else one.idle_s
        if pilot.idle_since is None:
            if host["drained"] == _IDLE:
                self.client.post(f"/api/v1/hosts/{pilot.name}/resume")
        elif host["drained"] == _IDLE:
            log.info("pilot %s had no job for %.0f s and ends", pilot.name, idle_s)
            self._end([pilot])
            took_over = self.clock() < self._silent_at + _TAKES_OVER_WITHIN_S
            if wanted and not took_over and not self._folders.has_worked(pilot.name):
                self._quiet_until[one.name] = self.clock() + _WAIT_AFTER_IDLE_PILOT_S
        elif self.clock() >= pilot.idle_since + idle_s:
            self.client.post(f"/api/v1/hosts/{pilot.name}/drain", {"why": _IDLE})

    def _end(self, pilots: Sequence[Pilot], *, if_waiting: bool = False) -> None:
        """Cancel pilots, once; no job counts on them any more. One whose number is not known has its turn when it is."""
        ending = [pilot for pilot in pilots if not pilot.ended_by_us and pilot.slurm_job is not None]
        for place, there in _by_place(ending).items():
            grantor = self._grantor(place)
            try:
                (grantor.take_back if if_waiting else grantor.cancel)([pilot.slurm_job for pilot in there])
            except GpuqError as error:  # a cluster that does not answer; the other places have their turn
                log.warning("%d pilots were not ended: %s", len(there), error)
                continue
            for pilot in there:
                self._folders.save(replace(pilot, ended_by_us=True))

    def _grantor(self, place: tuple[str, ...] | None) -> Any:
        """Who granted the pilots of this place (`Pilot.where`)."""
        return self.slurm if place is None else self.pods(place)

    def _request(self, one: Pool, gpus: int) -> None:
        """Raises GpuqError. Where it is not known then whether there is a new Slurm job, the pilot stays, and is looked for."""
        name, now = f"{one.name}-{secrets.token_hex(3)}", self.clock()
        folder = self._folders.make(name)
        number = int(now * 1000) * 1000 + secrets.randbelow(1000)  # of a pod; Slurm gives its jobs numbers of its own
        known, place = (None, None) if one.pod is None else (number, where(one.pod))
        pilot = Pilot(
            name=name, pool=one.name, slurm_job=known, gpus=gpus, requested_at=now, invited_at=now, where=place
        )
        try:
            self._invite(name, one, gpus)
        except GpuqError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        # Before it is submitted: this process may end before the answer comes, or the answer be lost.
        self._folders.save(pilot)
        try:
            if one.pod is None:
                number = self.slurm.submit(script(folder), options(one, gpus, folder))
                self._folders.save(replace(pilot, slurm_job=number))
            else:
                self.pods(where(one.pod)).submit(manifest(one, one.pod, gpus, folder, number))
        except BadInput:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        log.info("pool %s requested pilot %s, %s %d", one.name, name, _kind(pilot), number, extra={"action": "request"})

    def _invite(self, name: str, one: Pool, gpus: int) -> None:
        invited = self.client.post(f"/api/v1/hosts/{name}/add")
        self._folders.order(
            PilotOrder(
                main=invited["main"],
                fingerprint=invited["fingerprint"],
                host=name,
                secret=invited["secret"],
                idle_s=one.idle_s + _WITHOUT_US_S,
                gpus=gpus,
                version=__version__,
                lasts_s=None if one.pod is None else one.time_limit_s,
                whole_node=takes_whole_node(one.sbatch),
                settings=dict(self.settings),
            )
        )

    def _without_ended(self, pilots: list[Pilot], hosts: Mapping[str, dict[str, Any]]) -> list[Pilot]:
        """The pilots that wait or run; what remains of the others is removed.

        Slurm is asked rarely: a pilot that reports runs. One that has stopped reporting, or has not yet begun, is looked up.
        """
        now = self.clock()
        if any(not _reports(hosts[pilot.name]) for pilot in pilots if pilot.name in hosts):
            self._silent_at = now
        silent = [pilot for pilot in pilots if pilot.name not in hosts or not _reports(hosts[pilot.name])]
        gone = [pilot for pilot in silent if pilot.gone_since is not None]
        asked = [pilot for pilot in silent if pilot.gone_since is None]
        unnumbered = [pilot for pilot in pilots if pilot.slurm_job is None and pilot not in silent]
        wanted = [*asked, *unnumbered]
        if wanted and now >= self._asked_at + min(_asked_every_s(pilot, now) for pilot in wanted):
            self._asked_at = now
            try:
                self._find_jobs(unnumbered)
            except GpuqError as error:
                log.warning("which Slurm jobs %d pilots are is not known: %s", len(unnumbered), error)
            for place, pilots_there in _by_place(asked).items():
                try:
                    gone += self._looked_up(place, pilots_there)
                except GpuqError as error:
                    log.warning("what became of %d pilots is not known: %s", len(pilots_there), error)
        for pilot in gone:
            try:
                self._remove_ended(pilot, hosts.get(pilot.name))
            except GpuqError as error:
                log.warning("pilot %s has ended, but is not removed yet: %s", pilot.name, error)
        ended = {pilot.name for pilot in gone}
        return [pilot for pilot in self._folders.read() if pilot.name not in ended]

    def _looked_up(self, place: tuple[str, ...] | None, pilots: Sequence[Pilot]) -> list[Pilot]:
        """Those of the pilots of one place that have ended there. Raises GpuqError."""
        numbered = {pilot.slurm_job: pilot for pilot in pilots if pilot.slurm_job is not None}
        there: dict[int, SlurmJob] = self._grantor(place).jobs(set(numbered))
        now = self.clock()
        lost = self._find_jobs([pilot for pilot in pilots if pilot.slurm_job is None])
        gone = [pilot for pilot in lost if now >= pilot.requested_at + _SUBMITTED_WITHIN_S]
        for number, pilot in numbered.items():
            if number not in there:
                gone.append(pilot)
            else:
                self._note_waiting(pilot, there[number])
        return [self._folders.save(replace(pilot, gone_since=now)) for pilot in gone]

    def _find_jobs(self, pilots: Sequence[Pilot]) -> list[Pilot]:
        """Learn the numbers of Slurm jobs that were requested without an answer. Returns the pilots of which there is none.
        Raises GpuqError."""
        folders = {str(self._folders.folder(pilot.name)): pilot for pilot in pilots}
        found: dict[str, SlurmJob] = self.slurm.jobs_in(set(folders)) if folders else {}
        for folder, job in found.items():
            pilot = self._folders.save(replace(folders.pop(folder), slurm_job=job.id))
            log.info("pilot %s is Slurm job %d", pilot.name, job.id)
        return list(folders.values())

    def _note_waiting(self, pilot: Pilot, job: SlurmJob) -> None:
        """Keep why it waits, and say what would never change by itself; end one that runs and does not join."""
        now = self.clock()
        runs = job.state == "RUNNING" and pilot.joined_at is None
        seen = replace(pilot, slurm_says=job.reason, started_at=(pilot.started_at or now) if runs else None)
        if seen != pilot:
            self._folders.save(seen)
        if job.reason != pilot.slurm_says:
            fix = fix_of(job.reason)
            if fix is not None:
                self._note(pilot.pool, f"Slurm does not start job {job.id}: {job.reason}.", fix)
        if seen.started_at is not None and now >= seen.started_at + _JOINS_WITHIN_S and not pilot.ended_by_us:
            said, fix = self._folders.said(pilot.name)
            problem = f"{_kind(pilot)} {job.id} has run for {now - seen.started_at:.0f} s, did not join, and is cancelled. {said}"
            at = self._folders.invited_to(pilot.name)
            self._note(
                pilot.pool, problem, fix or f"The nodes have to see gpuq's home, and to reach this host at {at}."
            )
            self._end([seen])

    def _remove_ended(self, pilot: Pilot, host: dict[str, Any] | None) -> None:
        """Its Slurm job has ended: end what gpuq still takes for running there, and remove its host and folder."""
        now, gone_since = self.clock(), pilot.gone_since or self.clock()
        try:
            if host is None:
                if pilot.joined_at is None and not pilot.ended_by_us and pilot.slurm_job is not None:
                    self._note_failure(pilot)
            elif host["jobs"]:
                # A job that was sent there and never started goes back to the queue by itself within this time.
                lost = now >= gone_since + _REQUEUED_WITHIN_S
                if lost or now == gone_since:
                    self._report_ends(pilot)
                if lost:
                    self.client.post(f"/api/v1/hosts/{pilot.name}/lost")
                return  # the host is forgotten at a later look, when its jobs have ended
            self.client.post(f"/api/v1/hosts/{pilot.name}/forget")
        except Conflict:
            return  # it reported a moment ago
        except NotFound:
            pass  # it was forgotten before this process was started again
        if pilot.joined_at is not None:
            self._folders.charge(pilot.pool, max(1, pilot.gpus) * (gone_since - pilot.joined_at) / 3600)
        if pilot.where is not None:  # a pod that has ended stays in the cluster until it is deleted
            self._grantor(pilot.where).cancel([pilot.slurm_job])
        self._folders.remove(pilot.name)

    def _report_ends(self, pilot: Pilot) -> None:
        """Report, for a pilot that was killed before it could, which of its jobs had come to their ends."""
        try:
            last_events.send(Home(self.home.attempts_of_pilot(pilot.name).parent))
        except (GpuqError, OSError) as error:
            log.warning("the last ends of pilot %s were not reported: %s", pilot.name, error)

    def _note_failure(self, pilot: Pilot) -> None:
        """A pilot ended before it joined, which the next one would do too."""
        said, fix = self._folders.said(pilot.name)
        try:
            how = self._grantor(pilot.where).ended(pilot.slurm_job)
        except GpuqError:
            how = "how is not known any more"
        if pilot.where is None and how.startswith("CANCELLED") and ", on " not in how:
            said, fix = (
                "Slurm had not started it.",
                "Whoever cancelled it knows why; the next one is requested in a minute.",
            )
        elif fix is None and _NOT_THERE.search(said):
            fix = "The nodes do not see this gpuq: install it in a folder that they share."
        elif fix is None:
            fix = "The nodes have to see gpuq's home and this gpuq: keep both in a folder that they share."
        problem = f"{_kind(pilot)} {pilot.slurm_job} ended before it joined ({how}). {said}"
        self._note(pilot.pool, problem, fix)

    def _note(self, name: str, problem: str, fix: str) -> None:
        """Say why a pool gets no pilot, and request none for a minute."""
        self._quiet_until[name] = self.clock() + _WAIT_AFTER_FAILURE_S
        self._folders.note(name, PilotProblem(self.clock(), problem, fix))
        log.warning("pool %s: %s %s", name, problem, fix)


def _by_place(pilots: Sequence[Pilot]) -> dict[tuple[str, ...] | None, list[Pilot]]:
    found: dict[tuple[str, ...] | None, list[Pilot]] = {}
    for pilot in pilots:
        found.setdefault(pilot.where, []).append(pilot)
    return found


def _kind(pilot: Pilot) -> str:
    return "Slurm job" if pilot.where is None else "Pod"


def _waits_for_ever(pilot: Pilot) -> bool:
    """Whether Slurm will not start it, as far as its reason says."""
    waits = pilot.joined_at is None and pilot.started_at is None and pilot.slurm_says is not None
    return waits and fix_of(pilot.slurm_says or "") is not None


def _reports(host: dict[str, Any]) -> bool:
    return host["state"] in {"ok", "drained"}


def _asked_every_s(pilot: Pilot, now: float) -> float:
    """How often Slurm is asked about a pilot that does not report. The longer one has waited in its queue, the less often."""
    waits = (
        pilot.joined_at is None and pilot.started_at is None and pilot.slurm_job is not None and not pilot.ended_by_us
    )
    waits_s = now - pilot.requested_at if waits else 0.0
    return max(_ASK_SLURM_EVERY_S, _ASK_SLURM_AFTER * waits_s)


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
    except GpuqError as error:
        return report(error)
    return 0
