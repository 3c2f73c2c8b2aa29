"""May these two newcomers share an idle device, and what would that cost them? Admission's own answer, foreseen.

The core asks what a newcomer costs beside residents, never beside another newcomer. What it was told of two kinds is
remembered here, and where nothing is known of a pair the load rule decides, as it would in the pass to come. Forgetting all of
it does no harm: a plan built on it is disposed of by `admit` like any other.
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

# The median of the 34 measured pairs of the Alnair project (github.com/CentaurusInfra/alnair): what a pair of which nothing
# is known is expected to cost each, where the load rule lets it be.
USUAL_SLOWDOWN = 1.07
_MOST_ANSWERS = 200_000

# What admission looks at: two jobs alike in this get the same verdicts on one device.
Needs = tuple[KindId, float | None, int | None, bool, float | None]
_Asked = tuple[Needs, Needs, DeviceClass, int, int]


@dataclass(frozen=True)
class Newcomer:
    """A waiting job and what is foretold of it alone on one sort of device."""

    job: Job
    forecast: Forecast

    @cached_property
    def needs(self) -> Needs:
        """What admission looks at."""
        job, forecast = self.job, self.forecast
        return job.kind, forecast.peak_utilization_pct, needed_memory(job, forecast), self.shares, job.max_slowdown

    @cached_property
    def shares(self) -> bool:
        """Whether it may have a partner at all."""
        return may_share(self.job, self.forecast)


class PairBook:
    """What is known of pairs of kinds, by sort of device, and what admission makes of it under some limits."""

    def __init__(self) -> None:
        self._costs: dict[tuple[KindId, KindId, DeviceClass], PairCost] = {}
        self._answers: dict[_Asked, bool] = {}
        self._limits: Limits | None = None

    def note(self, kind: KindId, sort: DeviceClass, forecast: Forecast) -> None:
        """Remember what a forecast says of this kind beside others."""
        for cost in forecast.pairs:
            key = kind, cost.beside, sort
            if self._costs.get(key) != cost:
                self._costs[key] = cost
                self._answers.clear()

    def expected(self, one: KindId, other: KindId, sort: DeviceClass) -> tuple[float, float] | None:
        """The slowdowns that these kinds are known to cause each other, of the one and of the other; None for a pair unknown."""
        cost = self._cost(other, one, sort)
        return None if cost is None else (_known(cost.resident), _known(cost.newcomer))

    def allows(self, one: Newcomer, other: Newcomer, snapshot: DeviceSnapshot, limits: Limits) -> bool:
        """Whether the other may join the one, once that runs on this idle place."""
        if limits != self._limits or len(self._answers) > _MOST_ANSWERS:
            self._answers.clear()
            self._limits = limits
        key = (
            one.needs,
            other.needs,
            device_class(snapshot.device),
            snapshot.device.total_memory,
            snapshot.committed_memory,
        )
        if key not in self._answers:
            self._answers[key] = self._foresee(one, other, snapshot, limits)
        return self._answers[key]

    def _foresee(self, one: Newcomer, other: Newcomer, snapshot: DeviceSnapshot, limits: Limits) -> bool:
        if not one.shares or not other.shares:
            return False
        cost = self._cost(other.job.kind, one.job.kind, device_class(snapshot.device))
        forecast = replace(other.forecast, pairs=() if cost is None else (cost,))
        return admit(other.job, forecast, _with_resident(snapshot, one), limits).admitted

    def _cost(self, newcomer: KindId, resident: KindId, sort: DeviceClass) -> PairCost | None:
        found = self._costs.get((newcomer, resident, sort))
        if found is None and (mirrored := self._costs.get((resident, newcomer, sort))) is not None:
            return replace(
                mirrored,
                beside=resident,
                newcomer=mirrored.resident,
                newcomer_upper=mirrored.resident_upper,
                resident=mirrored.newcomer,
                resident_upper=mirrored.newcomer_upper,
            )
        return found


def slowdown_beside(forecast: Forecast) -> float:
    """The newcomer's expected slowdown beside those that the forecast speaks of; each adds its own part."""
    return 1.0 + sum(_known(cost.newcomer) - 1.0 for cost in forecast.pairs) if forecast.pairs else USUAL_SLOWDOWN


def slowdown_of(resident: Attempt, forecast: Forecast) -> float:
    """The resident's expected slowdown beside the newcomer that the forecast is of."""
    return _known(next((cost.resident for cost in forecast.pairs if cost.beside == resident.kind), None))


def _known(slowdown: float | None) -> float:
    return USUAL_SLOWDOWN if slowdown is None else slowdown


def _with_resident(snapshot: DeviceSnapshot, newcomer: Newcomer) -> DeviceSnapshot:
    """The idle place as the next pass will see it, once this job runs there."""
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
