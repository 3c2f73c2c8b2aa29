"""Predicts whether admission will let two waiting jobs share an idle device, and what that costs each of them.

The core forecasts the slowdowns of a newcomer beside residents, never beside another newcomer. `PairBook` therefore keeps what
forecasts said of pairs of kinds. Where nothing is known of a pair, the load rule decides, as it will in the pass in which the
second job joins. A wrong prediction does no harm, since admission decides again then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from gpuq.core.scheduling.admit import DeviceSnapshot, admit, may_share, needed_memory
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.forecast import Forecast, PairCost
from gpuq.core.state.index import DeviceClass, device_class
from gpuq.core.state.job import Job, KindId

# The expected slowdown of each job of a pair without evidence that the load rule allows: the median of the 34 measured pairs of
# the Alnair project (github.com/CentaurusInfra/alnair).
USUAL_SLOWDOWN = 1.07
# Bounds the memory of a dispatcher that runs for months.
_MOST_ANSWERS = 200_000

# All that admission looks at of a job: two jobs that are equal in this get the same verdicts on one device.
Needs = tuple[KindId, float | None, int | None, bool, float | None]
_PairKey = tuple[Needs, Needs, DeviceClass, int, int]


@dataclass(frozen=True)
class Newcomer:
    """A waiting job with its forecast alone on one class of devices."""

    job: Job
    forecast: Forecast

    @cached_property
    def needs(self) -> Needs:
        """(kind, peak utilisation in percent, memory in bytes, may share, slowdown budget)."""
        job, forecast = self.job, self.forecast
        return job.kind, forecast.peak_utilization_pct, needed_memory(job, forecast), self.shares, job.max_slowdown

    @cached_property
    def shares(self) -> bool:
        """Whether it may share a device with any partner."""
        return may_share(self.job, self.forecast)


class PairBook:
    """Known costs of pairs of kinds by device class, and the admission verdicts that follow from them (a cache)."""

    def __init__(self) -> None:
        self._costs: dict[tuple[KindId, KindId, DeviceClass], PairCost] = {}
        self._answers: dict[_PairKey, bool] = {}
        self._limits: Limits | None = None

    def note(self, kind: KindId, dclass: DeviceClass, forecast: Forecast) -> None:
        """Keep what a forecast says of this kind beside others."""
        for cost in forecast.pairs:
            key = kind, cost.beside, dclass
            if self._costs.get(key) != cost:
                self._costs[key] = cost
                self._answers.clear()

    def expected(self, one: KindId, other: KindId, dclass: DeviceClass) -> tuple[float, float] | None:
        """Expected slowdowns (of the one, of the other) beside each other; None without evidence."""
        cost = self._cost(other, one, dclass)
        return None if cost is None else (_or_usual(cost.resident), _or_usual(cost.newcomer))

    def allows(self, one: Newcomer, other: Newcomer, snapshot: DeviceSnapshot, limits: Limits) -> bool:
        """Whether `other` may join `one` once that runs on this idle device."""
        if limits != self._limits or len(self._answers) > _MOST_ANSWERS:
            self._answers.clear()
            self._limits = limits
        dclass, device = device_class(snapshot.device), snapshot.device
        key = (one.needs, other.needs, dclass, device.total_memory, snapshot.committed_memory)
        if key not in self._answers:
            allowed = one.shares and other.shares
            if allowed:
                cost = self._cost(other.job.kind, one.job.kind, dclass)
                forecast = replace(other.forecast, pairs=() if cost is None else (cost,))
                allowed = admit(other.job, forecast, _with_resident(snapshot, one), limits).admitted
            self._answers[key] = allowed
        return self._answers[key]

    def _cost(self, newcomer: KindId, resident: KindId, dclass: DeviceClass) -> PairCost | None:
        """The known cost, also from evidence with the roles exchanged: who came first does not matter to a slowdown."""
        cost = self._costs.get((newcomer, resident, dclass))
        if cost is None and (mirrored := self._costs.get((resident, newcomer, dclass))) is not None:
            return replace(
                mirrored,
                beside=resident,
                newcomer=mirrored.resident,
                newcomer_upper=mirrored.resident_upper,
                resident=mirrored.newcomer,
                resident_upper=mirrored.newcomer_upper,
            )
        return cost


def slowdown_beside(forecast: Forecast) -> float:
    """The newcomer's expected slowdown beside all residents of the forecast; what each adds is summed."""
    return 1.0 + sum(_or_usual(cost.newcomer) - 1.0 for cost in forecast.pairs) if forecast.pairs else USUAL_SLOWDOWN


def slowdown_of(resident: Attempt, forecast: Forecast) -> float:
    """The resident's expected slowdown beside the newcomer of the forecast."""
    return _or_usual(next((cost.resident for cost in forecast.pairs if cost.beside == resident.kind), None))


def _or_usual(slowdown: float | None) -> float:
    return USUAL_SLOWDOWN if slowdown is None else slowdown


def _with_resident(snapshot: DeviceSnapshot, newcomer: Newcomer) -> DeviceSnapshot:
    """The idle device as the next pass will see it if this job starts there."""
    job, forecast, device = newcomer.job, newcomer.forecast, snapshot.device
    needed = needed_memory(job, forecast)
    attempt = Attempt(
        id=AttemptId(job.id, job.attempt + 1),
        kind=job.kind,
        host=device.host,
        devices=(device.id,),
        promised=(min(needed or 0, device.total_memory),),
        shares=may_share(job, forecast),
        launched_at=0.0,
        forecast=forecast,
        max_slowdown=job.max_slowdown,
    )
    return replace(snapshot, residents=(attempt,))
