"""Two machines under one host name, as after a disk image was copied, and a dispatcher, all interleaved by a seeded scheduler.

The dispatcher, `run_job`, the watcher of the attempt folders, the spool and its delivery are the real ones, in real folders. The
clock, the shims and the ways of the messages are made up. An order is followed in a thread of its own, which stops before each
step that other processes can see, and the scheduler chooses what goes on. So a machine may stand still between its claim and its
folder while all else goes on.
"""

from __future__ import annotations

import _thread
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
from gpuq_workers import residents, run_job
from gpuq_workers.attempts import AttemptFolder, EndFile, StartFile
from gpuq_workers.deliver import Delivery
from gpuq_workers.epoch import SeenEpoch
from gpuq_workers.host_lease import instance_of
from gpuq_workers.launcher import ServiceLauncher
from gpuq_workers.live_attempt import LiveAttempt
from gpuq_workers.spool import Spool

from gpuq.adapters.devices import Placement
from gpuq.adapters.process import Identity, boot_id
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.device import HostId
from gpuq.core.state.events import HostReported, ResidentReport
from gpuq.core.state.job import JobId
from gpuq.home import Home, host_key, write_private
from gpuq.messages import codec, wire
from gpuq.policies.guard import Guarded, guard
from gpuq.settings import Scheduling, Settings, Worker
from tests.daemon import harness
from tests.daemon.harness import Harness
from tests.support.nouns import a_device, a_reading
from tests.support.world import KEY

HOST = "host"
_KEY = host_key(KEY, HOST)
DEVICE = a_device()


@cache
def _policy() -> Guarded:
    """Made once: looking it up among what is installed would take most of an interleaving."""
    return guard(Scheduling())


class _Killed(BaseException):
    """The process of an order was killed where it stood."""


class _Following:
    """One order being followed, in a thread that runs only within `step`."""

    current: _Following | None = None

    def __init__(self, work: Callable[[], None]) -> None:
        # Each is held by the side that waits for the other one.
        self._go, self._stopped = _thread.allocate_lock(), _thread.allocate_lock()
        self._go.acquire()
        self._stopped.acquire()
        self._work, self._killed = work, False
        self.over = False
        _thread.start_new_thread(self._run, ())  # `threading` would wait for its start

    def step(self, *, kill: bool = False) -> None:
        """Let it go on up to its next stop, or end it where it stands."""
        self._killed = kill
        _Following.current = self
        self._go.release()
        self._stopped.acquire()
        _Following.current = None

    def _run(self) -> None:
        self._go.acquire()
        try:
            if not self._killed:
                self._work()
        except _Killed:
            pass
        finally:
            self.over = True
            self._stopped.release()

    def stop(self) -> None:
        self._stopped.release()
        self._go.acquire()
        if self._killed:
            raise _Killed


def _stop() -> None:
    """Where other processes may go on before what follows."""
    if _Following.current is not None:
        _Following.current.stop()


class _Store:
    """The record, with a stop before and after each call of an order's process."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            _stop()
            result = getattr(self._store, name)(*arguments, **named)
            _stop()
            return result

        return call


class _Shim:
    """Starts the job once it is handed a folder, and counts the start; `work` ends the job."""

    def __init__(self, machine: Machine, number: int) -> None:
        self._machine = machine
        self._folder: AttemptFolder | None = None
        self.identity = Identity(boot_id(), number, number)
        machine.world.alive.add(self.identity)
        machine.shims[self] = None

    def hand(self, path: Path) -> None:
        _stop()
        job, _, number = path.name.partition("-")
        self._folder = AttemptFolder(path, AttemptId(JobId(int(job)), int(number)))
        if self._folder.is_wanted_back():
            self._end(Ending.NEVER_STARTED)
            return
        world = self._machine.world
        world.starts[int(job)] += 1
        start = StartFile(1, self.identity.pid, 1, self.identity.start_ticks, boot_id(), world.clock())
        write_private(path / "started.json", msgspec.json.encode(start))

    def work(self) -> None:
        if self._folder is not None:
            self._end(Ending.STOPPED if self._folder.is_wanted_back() else Ending.EXITED)

    def _end(self, ending: Ending) -> None:
        assert self._folder is not None
        end = EndFile(ending, 0 if ending is Ending.EXITED else None, "", self._machine.world.clock())
        write_private(self._folder.path / "exit.json", msgspec.json.encode(end))
        self.dismiss()

    def dismiss(self) -> None:
        self._machine.shims.pop(self, None)
        self._machine.world.alive.discard(self.identity)


class _Backend:
    def placement(self, devices: Any) -> Placement:
        return Placement({}, None)


class Machine:
    """One of the machines: its home, its worker service, and the order that its RQ worker follows."""

    def __init__(self, world: ClonedHosts, root: Path) -> None:
        self.world = world
        home = Home(root)
        home.attempts.mkdir(parents=True)
        worker = Worker(host=HOST, grace_s=0.3, hook=False)
        self.settings = Settings(home=home, redis_url=None, database_url="sqlite://", worker=worker)
        self.instance = instance_of(home)
        self.shims: dict[_Shim, None] = {}
        self.following: _Following | None = None
        self.serves = False

    # --- the shim pool ---

    def take(self) -> _Shim:
        _stop()
        return _Shim(self, next(self.world.numbers))

    def warm_soon(self) -> None:
        pass

    # --- what a machine does ---

    def serve(self) -> None:
        """Begin to serve, or renew the lease; another instance that has it ends the service."""
        if self.world.leases:
            lease = self.world.harness.store.lease_host(HOST, self.instance)
            if lease.instance != self.instance:
                self.serves = False
                return
        if not self.serves:
            self._start()
        self.serves = True

    def _start(self) -> None:
        async def measure(folder: AttemptFolder) -> Measurement:
            return Measurement()

        home, store = self.settings.home, self.world.harness.store
        self.spool = Spool(home.spool, HOST)
        clock = self.world.clock
        self.residents = residents.Residents(home.attempts, self.spool, measure, 0.3, self.instance, clock, clock)
        self.delivery = Delivery(self.spool, self.world.harness.stream, HOST, _KEY, SeenEpoch(home.epoch_file), clock)
        launcher = ServiceLauncher(self.settings, self)  # type: ignore[arg-type]
        self.orders = run_job.OrderContext(
            self.settings, _KEY, _Store(store), _Backend(), launcher, self.instance, clock
        )

    async def look(self) -> None:
        """Spool what happened to its attempts, deliver, and report."""
        await self.residents.look()
        await self.delivery.poll()
        event = HostReported(
            HostId(HOST),
            boot_id(),
            self.world.clock(),
            (DEVICE,),
            ((DEVICE.id, a_reading()),),
            tuple(ResidentReport(attempt=a, started_at=at) for a, at in self.residents.present().items()),
            self.instance,
        )
        await self.delivery.report(wire.HostReport(HOST, self.spool.last, codec.plain(event)))

    def follow(self) -> None:
        """Take an order off the queue, or go on with the one that was taken."""
        if self.following is None:
            _, signed = self.world.queue.pop(0)
            self.following = _Following(partial(run_job.run, self.orders, signed))
        self.following.step()
        if self.following.over:
            self.following = None

    def kill_order(self) -> None:
        """SIGKILL for the RQ worker."""
        if self.following is not None:
            self.following.step(kill=True)
            self.following = None

    def reboot(self) -> None:
        """All of its processes are gone, and it is another instance."""
        self.kill_order()
        for shim in list(self.shims):
            shim.dismiss()
        self.instance += "+"
        self.serves = False


class ClonedHosts:
    """The world of one interleaving in the life of a job.

    The seed chooses whether the machines respect the lease of the host name, as ours do, or both serve all the time; and whether
    orders are lost and processes killed.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        with mock.patch.object(harness, "guard", lambda _: _policy()):  # noqa: PT008
            self.harness = Harness(folder)
        self.leases, self.faults = self.random.random() < 0.5, self.random.random() < 0.5
        self.numbers = count(1)
        self.alive: set[Identity] = set()
        self.starts: Counter[int] = Counter()
        self.machines = [Machine(self, folder / name) for name in ("original", "clone")]

    def clock(self) -> float:
        return self.harness.now

    @property
    def queue(self) -> list[tuple[str, dict[str, Any]]]:
        """The orders on their way to the host."""
        return self.harness.orders.sent[HOST]

    async def run(self, steps: int) -> None:
        """Launch the job and follow its order up to somewhere, take so many steps in random order, then end what was begun."""
        self.harness.submit()
        with self._pretended():
            for machine in self.machines[: 1 if self.leases else 2]:
                machine.serve()
            await self.machines[0].look()
            await self.dispatch()
            for _ in range(self.random.randrange(8)):
                if self.machines[0].following or self.queue:
                    self.machines[0].follow()
            for _ in range(steps):
                await self._step()
            for _ in range(2):
                for machine in self.machines:
                    while machine.following or (machine.serves and self.queue):
                        machine.follow()
                    if machine.serves:
                        await self._hear(machine)

    async def _step(self) -> None:
        machine = self.random.choice(self.machines)
        queue, following = self.queue, machine.following
        choices: list[Callable[[], Any]] = [self.dispatch, self._pass, self._pass]
        if machine.serves:
            choices += [machine.look, partial(self._hear, machine), partial(self._hear, machine)]
        if following or (machine.serves and queue):
            choices += [machine.follow] * 4
        if self.leases:
            choices.append(machine.serve)
        if machine.shims:
            choices.append(self.random.choice(list(machine.shims)).work)
        if self.faults:
            choices += [queue.clear] if queue else []
            choices += [machine.kill_order] if following else []
            choices += [machine.reboot] if self.leases and self.random.random() < 0.1 else []
        result = self.random.choice(choices)()
        if result is not None:
            await result

    async def dispatch(self) -> None:
        """One cycle of the dispatcher, on all messages that have arrived."""
        server = self.harness.stream.server
        messages = [(number, wire.decode(raw)) for number, raw in list(server.entries.items()) if raw is not None]
        await self.harness.dispatcher.cycle(messages, read_requests=True)

    async def _hear(self, machine: Machine) -> None:
        """Most messages arrive at once."""
        await machine.look()
        await self.dispatch()

    def _pass(self) -> None:
        self.harness.now += self.random.choice((2.0, 11.0, 11.0, 11.0, 31.0))

    @contextmanager
    def _pretended(self) -> Iterator[None]:
        """Shims are those of this world, and nothing is forced to the disk."""
        with (
            mock.patch.object(residents, "is_alive", self.alive.__contains__),
            mock.patch.object(LiveAttempt, "left", lambda _: []),  # noqa: PT008 - a Mock takes longer than a step
            mock.patch("os.fsync", lambda _: None),  # noqa: PT008
        ):
            yield
