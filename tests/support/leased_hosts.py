"""Hosts whose network is cut at random, and a dispatcher that is killed and suspended, in virtual time: for leases of jobs.

The dispatcher, the delivery of the hosts, `run_job`, the watcher of the attempt folders and the shim's lease are the real ones.
The clock, the processes and the ways of the messages are made up.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from itertools import count
from pathlib import Path
from unittest import mock

import msgspec
from gpuq_workers import launcher, residents, run_job
from gpuq_workers.attempts import AttemptFolder, EndFile, StartFile
from gpuq_workers.deliver import Delivery
from gpuq_workers.epoch import SeenEpoch
from gpuq_workers.job_lease import lease_file, renew
from gpuq_workers.launcher import ServiceLauncher
from gpuq_workers.live_attempt import LiveAttempt
from gpuq_workers.shim.lease import LONGEST_GRACE_S, JobLease
from gpuq_workers.spool import Spool

from gpuq.adapters.devices import Placement
from gpuq.adapters.process import Identity, boot_id
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.device import HostId
from gpuq.core.state.events import HostReported, ResidentReport
from gpuq.core.state.job import JobId
from gpuq.errors import Unreachable
from gpuq.home import Home, host_key, write_private
from gpuq.messages import codec, wire
from gpuq.policies.guard import guard
from gpuq.settings import Scheduling, Settings, Worker
from tests.daemon import harness
from tests.daemon.harness import Harness
from tests.support.nouns import a_device, a_reading
from tests.support.world import KEY


class Link:
    """Redis as one host reaches it. `mute`: what it sends is lost; `deaf`: nothing reaches it; `late_s`: both come late."""

    def __init__(self, hosts: LeasedHosts) -> None:
        self._hosts = hosts
        self.mute = self.deaf = False
        self.late_s = 0.0
        self._sent: deque[tuple[float, wire.Message]] = deque()
        self._answers: deque[tuple[float, bytes | None]] = deque(maxlen=300)

    async def add(self, *messages: wire.Message) -> None:
        if self.mute:
            raise Unreachable("The network is cut.")
        self._sent.extend((self._hosts.clock() + self.late_s, message) for message in messages)

    async def deliver(self) -> None:
        """Let what was sent arrive, and note what there is to be read."""
        while self._sent and self._sent[0][0] <= self._hosts.clock():
            await self._hosts.harness.stream.add(self._sent.popleft()[1])

    async def acknowledged(self, host: str) -> bytes | None:
        now = self._hosts.clock()
        self._answers.append((now, await self._hosts.harness.stream.acknowledged(host)))
        if self.deaf:
            raise Unreachable("The network is cut.")
        return next((answer for at, answer in reversed(self._answers) if at <= now - self.late_s), None)


class Shim:
    """Starts its job when it is handed a folder, and ends it as the real one does."""

    def __init__(self, host: LeasedHost, number: int) -> None:
        self._host = host
        self.identity = Identity(boot_id(), number, number)
        self._attempt: AttemptFolder | None = None
        self._kill_at: float | None = None
        host.hosts.alive.add(self.identity)

    def hand(self, path: Path) -> None:
        job, _, number = path.name.partition("-")
        attempt = AttemptFolder(path, AttemptId(JobId(int(job)), int(number)))
        order = msgspec.json.decode((path / "order.json").read_bytes())
        self._lease = JobLease(order, self._host.hosts.clock)
        if self._lease.has_ended():
            self._end(attempt, Ending.NEVER_STARTED)
            return
        start = StartFile(1, self.identity.pid, 1, self.identity.start_ticks, boot_id(), self._host.hosts.clock())
        write_private(path / "started.json", msgspec.json.encode(start))
        self._attempt = attempt
        self._host.shims.append(self)
        self._host.hosts.starts += 1
        self._host.hosts.running[attempt.attempt.job].add(self._host.name)

    def look(self) -> None:
        assert self._attempt is not None
        now = self._host.hosts.clock()
        if self._kill_at is None and self._lease.has_ended():
            self._kill_at = now + self._host.hosts.random.uniform(0, LONGEST_GRACE_S)
        if self._attempt.is_wanted_back() or (self._kill_at is not None and now >= self._kill_at):
            self._host.shims.remove(self)
            self._host.hosts.running[self._attempt.attempt.job].discard(self._host.name)
            self._end(self._attempt, Ending.LOST if self._kill_at is not None else Ending.STOPPED)

    def _end(self, attempt: AttemptFolder, ending: Ending) -> None:
        end = EndFile(ending, None, "", self._host.hosts.clock())
        write_private(attempt.path / "exit.json", msgspec.json.encode(end))
        self.dismiss()

    def dismiss(self) -> None:
        self._host.hosts.alive.discard(self.identity)


class LeasedHost:
    """A host with one device: its worker service and its shims."""

    def __init__(self, hosts: LeasedHosts, name: str, folder: Path) -> None:
        self.hosts, self.name, self.link = hosts, name, Link(hosts)
        self.device = a_device(f"{name}/gpu0", host=name)
        self.shims: list[Shim] = []
        self.home = Home(folder)
        self.home.create()
        worker = Worker(host=name, grace_s=0.3, hook=False)
        settings = self.settings = Settings(home=self.home, redis_url=None, database_url="sqlite://", worker=worker)
        key, store = host_key(KEY, name), hosts.harness.store
        shims = ServiceLauncher(settings, self)  # type: ignore[arg-type]
        self.orders = run_job.OrderContext(settings, key, store, self, shims, name, hosts.clock)  # type: ignore[arg-type]
        self.restart()

    def restart(self) -> None:
        """A new process of the worker service."""
        self.spool = Spool(self.home.spool, self.name)
        clock = self.hosts.clock
        self.residents = residents.Residents(self.home.attempts, self.spool, self.measure, 0.3, self.name, clock, clock)
        epoch = SeenEpoch(self.home.epoch_file)
        self.delivery = Delivery(self.spool, self.link, self.name, host_key(KEY, self.name), epoch, clock)  # type: ignore[arg-type]
        lease = lease_file(self.settings)
        self.delivery.on_answer = lambda at: renew(lease, at)

    async def measure(self, _folder: AttemptFolder) -> Measurement:
        return Measurement()

    def placement(self, _devices: object) -> Placement:
        return Placement({}, None)

    def take(self) -> Shim:
        return Shim(self, next(self.hosts.numbers))

    def warm_soon(self) -> None:
        pass

    async def second(self) -> None:
        sent = self.hosts.harness.orders.sent
        if not self.link.deaf:
            for _, signed in sent.pop(self.name, []):
                run_job.run(self.orders, signed)
        for shim in list(self.shims):
            shim.look()
        await self.residents.look()
        await self.delivery.poll()
        report = HostReported(
            HostId(self.name),
            boot_id(),
            self.hosts.clock(),
            (self.device,),
            ((self.device.id, a_reading()),),
            tuple(ResidentReport(attempt=a, started_at=at) for a, at in self.residents.present().items()),
            self.name,
        )
        await self.delivery.report(wire.HostReport(self.name, self.spool.last, codec.plain(report)))
        await self.link.deliver()


class LeasedHosts:
    """Three hosts, two jobs with --requeue that never end by themselves, and a dispatcher."""

    def __init__(self, folder: Path, seed: int, lease_s: float) -> None:
        self.random = random.Random(seed)
        self.harness = Harness.__new__(Harness)
        self.harness.limits = Limits(lease_s=lease_s)
        policy = guard(Scheduling())
        with mock.patch.object(harness, "guard", lambda _: policy):  # noqa: PT008
            self.harness.__init__(folder)  # type: ignore[misc]
        self._policy, self.lease_s = policy, lease_s
        self.harness.stream.server.clock = self.clock
        self.numbers = count(1)
        self.alive: set[Identity] = set()
        self.running: dict[int, set[str]] = defaultdict(set)
        self.starts = self.cuts = 0
        self.overlaps: list[str] = []
        self.hosts = [LeasedHost(self, name, folder / name) for name in ("a", "b", "c")]
        self.jobs = [self.harness.submit(requeue_on_node_fail=True) for _ in range(2)]
        self._suspended_until = 0.0

    def clock(self) -> float:
        return self.harness.now

    async def second(self) -> None:
        """One second in the life of the hosts and the dispatcher."""
        self.harness.now += 1
        for host in self.hosts:
            await host.second()
        if self.clock() >= self._suspended_until:
            messages = await self.harness.stream.read(0, 1000)
            await self.harness.dispatcher.cycle(messages, read_requests=True)
            self._check_requeued()
        for job, where in self.running.items():
            if len(where) > 1:
                self.overlaps.append(f"job {job} runs on {sorted(where)} at {self.clock()}")

    def _check_requeued(self) -> None:
        """No attempt is waited for longer than its lease and 45 s after its host was heard."""
        leases = self.harness.dispatcher.job_leases
        for attempt in self.harness.dispatcher.state.attempts.values():
            heard = leases._host_heard.get(attempt.host, leases._began)
            assert self.clock() - heard <= self.lease_s + 45, f"{attempt.id} is still waited for"

    async def cut(self) -> None:
        """Cut the network of one host for a while, 1 to 120 s, in one way or another; the dispatcher may fail as well."""
        self.cuts += 1
        host = self.random.choice([host for host in self.hosts if host.shims] or self.hosts)
        kind = self.random.choice(("both", "both", "mute", "deaf", "late"))
        host.link.mute, host.link.deaf = kind in ("both", "mute"), kind in ("both", "deaf")
        host.link.late_s = self.random.uniform(1, 60) if kind == "late" else 0.0
        for _ in range(int(120 ** self.random.random())):
            await self.second()
            fault = self.random.random()
            if fault < 0.02:
                with mock.patch.object(harness, "guard", lambda _: self._policy):  # noqa: PT008
                    self.harness.start()
            elif fault < 0.03:
                self._suspended_until = self.clock() + self.random.uniform(1, 60)
            elif fault < 0.05:
                self.random.choice(self.hosts).restart()
        host.link.mute = host.link.deaf = False
        host.link.late_s = 0.0
        for _ in range(self.random.randrange(15)):
            await self.second()

    async def run(self, cuts: int) -> None:
        """So many cuts, then peace until both jobs run."""
        with (
            mock.patch.object(residents, "is_alive", self.alive.__contains__),
            mock.patch.object(LiveAttempt, "left", lambda _: []),  # noqa: PT008
            mock.patch.object(launcher, "send_signal", lambda *_: None),  # noqa: PT008
            mock.patch("os.fsync", lambda _: None),  # noqa: PT008
        ):
            for _ in range(5):
                await self.second()
            while self.cuts < cuts:
                await self.cut()
            for _ in range(int(self.lease_s) + 60):
                await self.second()
