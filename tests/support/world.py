"""A host made of nothing: it follows orders, reports, and ends attempts when a test says so.

It keeps the two fences a real host keeps: the record's claim and one folder per attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuq.adapters.store.contract import Store
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.measuring.slowdown import Rates
from gpuq.core.state.attempt import AttemptId, Ending, MemoryCause
from gpuq.core.state.device import Device, DeviceId, HostId, Vitals
from gpuq.core.state.events import Event, Exited, HostReported, ResidentReport, Started
from gpuq.home import host_key
from gpuq.messages.codec import plain, to_plain
from gpuq.messages.wire import HostReport, Message, Order, Spooled, Verb, seal
from tests.support.nouns import a_reading

KEY = "the dispatcher's key, from which each host's is derived"


class World:
    """One host, its devices, and what lives there. `clock` is its wall clock."""

    instance = "home"

    def __init__(
        self, store: Store, *devices: Device, host: str = "host", clock: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.store = store
        self.devices = devices
        self.host = host
        self.key = host_key(KEY, host)
        self.clock = clock
        self.folders: dict[AttemptId, str] = {}
        self.spool: list[Spooled] = []
        self.forgotten = 0
        """The number of the last event that is not in the spool any more."""
        self.starts: list[AttemptId] = []
        self.rates: dict[AttemptId, Rates] = {}
        self.numbers: dict[AttemptId, dict[str, Any]] = {}
        """What it reports of attempts besides, by the names of `ResidentReport`."""
        self.vitals: dict[DeviceId, Vitals] = {}

    def follow(self, order: Order) -> None:
        """What the RQ task does."""
        attempt = order.attempt_id
        known = self.folders.get(attempt)
        if order.verb is Verb.LAUNCH:
            if known is None and self.store.claim(attempt, self.host, self.instance, "boot-1", self.clock()):
                self.folders[attempt] = "running"
                self.starts.append(attempt)
                self.spool_start(attempt)
        elif known is None:
            self.folders[attempt] = "void"
            self.end(attempt, Ending.NEVER_STARTED, None)
        elif order.verb in {Verb.STOP, Verb.PREEMPT} and known == "running":
            self.end(attempt, Ending.STOPPED, 143)

    def spool_start(self, attempt: AttemptId) -> None:
        """The attempt's process runs."""
        self._spool(Started(attempt, self.clock(), 4242, f"/log/{attempt}"))

    def end(
        self,
        attempt: AttemptId,
        ending: Ending = Ending.EXITED,
        code: int | None = 0,
        measurement: Measurement | None = None,
        at: float = 1.0,
        memory_cause: MemoryCause | None = None,
    ) -> None:
        """The attempt is over."""
        self.folders[attempt] = "ended"
        measured = measurement or Measurement()
        self._spool(Exited(attempt, at, ending, code, ending.value, measured, memory_cause, self.instance))

    @property
    def last(self) -> int:
        """The number of the newest event."""
        return self.spool[-1].seq if self.spool else self.forgotten

    def running(self) -> list[AttemptId]:
        return [attempt for attempt, what in self.folders.items() if what == "running"]

    def messages(self, acknowledged: int) -> list[Message]:
        """What the host has to say: everything not acknowledged, and a report."""
        report = HostReported(
            HostId(self.host),
            "boot-1",
            0.0,
            self.devices,
            tuple((device.id, a_reading(vitals=self.vitals.get(device.id))) for device in self.devices),
            tuple(
                ResidentReport(
                    attempt=attempt,
                    started_at=0.0,
                    rates=self.rates.get(attempt),
                    **{"paused_s": 0.0} | self.numbers.get(attempt, {}),
                )
                for attempt in self.running()
            ),
            self.instance,
        )
        unacknowledged = [message for message in self.spool if message.seq > acknowledged]
        return [*unacknowledged, seal(HostReport(self.host, self.last, plain(report)), self.key)]

    def _spool(self, event: Event) -> None:
        name, body = to_plain(event)
        self.spool.append(seal(Spooled(self.host, self.last + 1, name, body), self.key))
