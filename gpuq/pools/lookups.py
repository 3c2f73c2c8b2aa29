"""Which pilots are still there. Slurm and Kubernetes are asked seldom, and what remains of a pilot that has ended is removed."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from math import inf
from typing import Any

from gpuq_workers import last_events
from msgspec.structs import replace

from gpuq.adapters.slurm import SlurmJob
from gpuq.cli.client import HttpClient
from gpuq.errors import Conflict, GpuqError, NotFound
from gpuq.home import Home
from gpuq.messages.pilot import Pilot
from gpuq.pools.grantors import Grantors, Place, by_place, kind
from gpuq.pools.pilots import PilotFolders
from gpuq.pools.problems import Problems
from gpuq.pools.slurm_reasons import fix_of

log = logging.getLogger("gpuq.pools")

# Each look at Slurm is one call of its controller, which a whole site shares. A pilot that has joined reports by itself.
_ASK_SLURM_EVERY_S = 30.0
_ASK_SLURM_AFTER = 0.25
_REQUEUED_WITHIN_S = 30.0
# What a shell, a loader and Python say of a program that is not on their machine.
_NOT_THERE = re.compile(r"not found|No such file or directory|No module named|cannot execute")
# How Slurm says that a job ended which has done nothing wrong.
_BY_SLURM = ("PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "CANCELLED")
_NEXT = "The next one is requested in some minutes."
# Slurm has started a pilot, which has not joined within this time: the node may be cut off, and its GPUs are charged.
_JOINS_WITHIN_S = 300.0
# Slurm may take up a request whose answer did not come within a minute.
_SUBMITTED_WITHIN_S = 120.0


class Lookups:
    """Of the pilots of one home."""

    def __init__(
        self,
        home: Home,
        folders: PilotFolders,
        grantors: Grantors,
        problems: Problems,
        client: HttpClient,
        clock: Callable[[], float],
    ) -> None:
        self._home, self._folders, self._grantors, self._problems = home, folders, grantors, problems
        self._client, self._clock = client, clock
        self._asked_at = 0.0
        self.silent_at = -inf
        """When a pilot that had joined was last seen not to report."""

    def without_ended(self, pilots: list[Pilot], hosts: Mapping[str, dict[str, Any]]) -> list[Pilot]:
        """The pilots that wait or run; what remains of the others is removed.

        Slurm is asked rarely: a pilot that reports runs. One that has stopped reporting, or has not yet begun, is looked up.
        """
        now = self._clock()
        if any(not reports(hosts[pilot.name]) for pilot in pilots if pilot.name in hosts):
            self.silent_at = now
        silent = [pilot for pilot in pilots if pilot.name not in hosts or not reports(hosts[pilot.name])]
        gone = [pilot for pilot in silent if pilot.gone_since is not None]
        asked = [pilot for pilot in silent if pilot.gone_since is None]
        unnumbered = [pilot for pilot in pilots if pilot.slurm_job is None and pilot not in silent]
        wanted = [*asked, *unnumbered]
        if wanted and now >= self._asked_at + min(
            _asked_every_s(pilot, hosts.get(pilot.name), now) for pilot in wanted
        ):
            self._asked_at = now
            for place, pilots_there in by_place(unnumbered).items():
                try:
                    self._find_jobs(place, pilots_there)
                except GpuqError as error:
                    log.warning("which Slurm jobs or pods %d pilots are is not known: %s", len(pilots_there), error)
            for place, pilots_there in by_place(asked).items():
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

    def _looked_up(self, place: Place, pilots: Sequence[Pilot]) -> list[Pilot]:
        """Those of the pilots of one place that have ended there. Raises GpuqError."""
        numbered = {pilot.slurm_job: pilot for pilot in pilots if pilot.slurm_job is not None}
        there: dict[int, SlurmJob] = self._grantors.of(place).jobs(set(numbered))
        now = self._clock()
        lost = self._find_jobs(place, [pilot for pilot in pilots if pilot.slurm_job is None])
        gone = [pilot for pilot in lost if now >= pilot.requested_at + _SUBMITTED_WITHIN_S]
        for number, pilot in numbered.items():
            if number in there and not _waits_again(pilot, there[number]):
                self._note_waiting(pilot, there[number])
            else:
                gone.append(pilot)
        # Slurm would start them once more, as what they were: hosts that have joined.
        self._grantors.of(place).cancel([pilot.slurm_job for pilot in gone if pilot.slurm_job in there])
        return [self._folders.save(replace(pilot, gone_since=now)) for pilot in gone]

    def _find_jobs(self, place: Place, pilots: Sequence[Pilot]) -> list[Pilot]:
        """Learn the numbers of Slurm jobs or pods that were requested without an answer. Returns the pilots of which there is
        none. Raises GpuqError."""
        folders = {str(self._folders.folder(pilot.name)): pilot for pilot in pilots}
        found: dict[str, SlurmJob] = self._grantors.of(place).jobs_in(set(folders)) if folders else {}
        for folder, job in found.items():
            pilot = self._folders.save(replace(folders.pop(folder), slurm_job=job.id))
            log.info("pilot %s is %s %d", pilot.name, kind(pilot), job.id)
        return list(folders.values())

    def _note_waiting(self, pilot: Pilot, job: SlurmJob) -> None:
        """Keep why it waits, and say what would never change by itself; end one that runs and does not join."""
        now = self._clock()
        runs = job.state == "RUNNING" and pilot.joined_at is None
        seen = replace(pilot, slurm_says=job.reason, started_at=(pilot.started_at or now) if runs else None)
        if seen != pilot:
            self._folders.save(seen)
        if job.reason != pilot.slurm_says:
            fix = fix_of(job.reason)
            if fix is not None:
                self._problems.note(pilot.pool, f"Slurm does not start job {job.id}: {job.reason}.", fix)
        if seen.started_at is not None and now >= seen.started_at + _JOINS_WITHIN_S and not pilot.ended_by_us:
            said, fix = self._folders.said(pilot.name)
            problem = f"{kind(pilot)} {job.id} has run for {now - seen.started_at:.0f} s, did not join, and is cancelled. {said}"
            order = self._folders.ordered(pilot.name)
            at = f" at {order.main}" if order is not None else ""
            self._problems.failed(
                pilot.pool, problem, fix or f"The nodes have to see gpuq's home, and to reach this host{at}."
            )
            self._grantors.end([seen])

    def _remove_ended(self, pilot: Pilot, host: dict[str, Any] | None) -> None:
        """Its Slurm job has ended: end what gpuq still takes for running there, and remove its host and folder."""
        now, gone_since = self._clock(), pilot.gone_since or self._clock()
        try:
            if host is not None and host["jobs"]:
                # A job that was sent there and never started goes back to the queue by itself within this time.
                lost = now >= gone_since + _REQUEUED_WITHIN_S
                if lost or now == gone_since:
                    self._report_ends(pilot)
                if lost:
                    self._client.post(f"/api/v1/hosts/{pilot.name}/lost")
                return  # the host is forgotten at a later look, when its jobs have ended
            self._client.post(f"/api/v1/hosts/{pilot.name}/forget")
        except Conflict:
            return  # it reported a moment ago
        except NotFound:
            pass  # it was forgotten before this process was started again
        if pilot.slurm_job is not None:
            if host is None and pilot.joined_at is None and not pilot.ended_by_us:
                self._note_failure(pilot)
            if pilot.where is not None:  # a pod that has ended stays in the cluster until it is deleted
                self._grantors.of(pilot.where).cancel([pilot.slurm_job])
        # Last of all, so that it is done once: all before it is tried again at the next look if it fails.
        if pilot.joined_at is not None:
            self._folders.charge(pilot.pool, max(1, pilot.gpus) * (gone_since - pilot.joined_at) / 3600)
        self._folders.remove(pilot.name)
        if pilot.joined_at is not None or pilot.slurm_job is None:
            # A limit of the site has room again; or Slurm, which did not answer, has just said that there is no such job.
            self._problems.over(pilot.pool)

    def _report_ends(self, pilot: Pilot) -> None:
        """Report, for a pilot that was killed before it could, which of its jobs had come to their ends."""
        try:
            last_events.send(Home(self._home.attempts_of_pilot(pilot.name).parent))
        except (GpuqError, OSError) as error:
            log.warning("the last ends of pilot %s were not reported: %s", pilot.name, error)

    def _note_failure(self, pilot: Pilot) -> None:
        """A pilot ended before it joined, which the next one would do too."""
        said, fix = self._folders.said(pilot.name)
        try:
            how = self._grantors.of(pilot.where).ended(pilot.slurm_job)
        except GpuqError:
            how = "how is not known any more"
        if pilot.where is None and how.startswith("CANCELLED") and ", on " not in how:
            said, fix = "Slurm had not started it.", f"Whoever cancelled it knows why. {_NEXT}"
        elif fix is None and how.startswith(_BY_SLURM):
            fix = f"Slurm ended it, not gpuq; `sinfo -R` shows nodes with a fault. {_NEXT}"
        elif fix is None and _NOT_THERE.search(said):
            fix = "The nodes do not see this gpuq: install it in a folder that they share."
        elif fix is None:
            fix = "The nodes have to see gpuq's home and this gpuq: keep both in a folder that they share."
        problem = f"{kind(pilot)} {pilot.slurm_job} ended before it joined ({how}). {said}"
        self._problems.failed(pilot.pool, problem, fix)


def _waits_again(pilot: Pilot, job: SlurmJob) -> bool:
    """Whether Slurm has ended a pilot and put it back into its queue: for a job of a higher priority, or by the site's hand."""
    return pilot.joined_at is not None and job.state in {"PENDING", "REQUEUED", "REQUEUE_HOLD"}


def _asked_every_s(pilot: Pilot, host: Mapping[str, Any] | None, now: float) -> float:
    """How often Slurm is asked about a pilot that does not report. The longer one has waited in its queue, or has been silent as
    one that Slurm suspended, the less often."""
    since = now
    if host is not None and host.get("reported_at"):
        since = datetime.fromisoformat(host["reported_at"]).timestamp()
    elif not (pilot.joined_at or pilot.started_at or pilot.ended_by_us) and pilot.slurm_job is not None:
        since = pilot.requested_at
    return max(_ASK_SLURM_EVERY_S, _ASK_SLURM_AFTER * (now - since))


def reports(host: Mapping[str, Any]) -> bool:
    """Whether this host is heard, also one that can start no job for now."""
    return bool(host["state"] != "silent")
