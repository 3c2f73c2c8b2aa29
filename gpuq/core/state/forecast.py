"""Questions to a predictor and its forecasts, as plain data, so that a table, a model and an oracle can answer alike.

`None` means unknown, and what is unknown blocks sharing. `evidence` names what the numbers rest on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gpuq.core.state.job import KindId


class Question(NamedTuple):
    """What does a job of this signature need on this type of device, and how much do it and these kinds slow each other there?

    `sharing` is the device's way of sharing, as `Device.sharing` has it.
    """

    signature: str
    kind: KindId
    device_type: str
    beside: tuple[KindId, ...] = ()
    sharing: str | None = None


# What the cost of a pair rests on: this pair was measured; both kinds were, beside others; one of them was; neither was, so
# that only the utilisations count.
MEASURED, LEARNED, PARTLY, RULE = "measured", "learned", "partly learned", "rule"
_WEAKEST_FIRST = (RULE, PARTLY, LEARNED, MEASURED)


BUDGETS = (1.05, 1.1, 1.15, 1.2, 1.3, 1.5, 1.75, 2.0, 2.5, 3.0)
"""The slowdown budgets at which the risk of a pair is known; between them that of the next lower one counts."""


@dataclass(frozen=True, slots=True)
class PairCost:
    """What is known of the newcomer beside one resident kind. A slowdown is time together / time alone; 1.0 is none.

    `evidence` is one of MEASURED, LEARNED, PARTLY and RULE.
    """

    beside: KindId
    newcomer: float | None
    newcomer_upper: float | None
    resident: float | None
    resident_upper: float | None
    unsafe: bool = False
    evidence: str = MEASURED
    risks: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    """Of the newcomer and of the resident: the risk that it is slowed beyond each of `BUDGETS`; None where that is not known."""

    def risk(self, newcomer: float | None, resident: float | None) -> float | None:
        """The risk that one of the two is slowed beyond its budget; a budget of None is never exceeded. None: not known."""
        if self.risks is None:
            return None
        places = [(risks, budget) for risks, budget in zip(self.risks, (newcomer, resident), strict=True) if budget]
        return max(
            (risks[place] if (place := bisect_right(BUDGETS, b) - 1) >= 0 else 1.0 for risks, b in places), default=0.0
        )

    @property
    def saving(self) -> float | None:
        """The packing saving while both run: each gives 1 / slowdown of its speed alone, so 1 - 1 / (sum of both).

        None if either slowdown is unknown; below 0 where together they are slower than one after the other.
        """
        if self.newcomer is None or self.resident is None:
            return None
        return 1 - 1 / (1 / self.newcomer + 1 / self.resident)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The answer to one question. Percent of the device, bytes, seconds; `upper_*` is the calibrated upper bound.

    `peak_utilization_pct` is what the load rule adds up, and so on the safe side: an upper quantile of the kind's own runs,
    or the upper bound where it has none. `expected_utilization_pct` is the likeliest.
    """

    peak_utilization_pct: float | None = None
    peak_memory_bytes: int | None = None
    upper_memory_bytes: int | None = None
    expected_slowdown: float | None = None
    upper_slowdown: float | None = None
    duration_p50_s: float | None = None
    duration_p90_s: float | None = None
    duration_runs: int = 0
    """How many whole runs of the same work the durations rest on; 0 where they come from other work."""
    evidence: str = "none"
    model_version: str | None = None
    pairs: tuple[PairCost, ...] = field(default=())
    expected_utilization_pct: float | None = None
    power_w: float | None = None
    """What one device draws while the job has it to itself, in watts."""
    widened: float = 1.0
    """By how much `upper_memory_bytes` is above the model's own bound, because the kind's recent runs needed more."""
    pairs_known: bool = False
    """Slowdowns of pairs are known on this type of device, so a device beyond the limit on utilisation may admit the job."""
    speedups: tuple[tuple[int, float], ...] = ()
    """(devices, times faster than on one), by rising count; empty where nothing is known of more devices than one. Durations
    are for as many devices as the job asks for."""

    @property
    def likeliest_utilization_pct(self) -> float | None:
        """The point that an error of this forecast is measured from; the bound where nothing else is known."""
        expected = self.expected_utilization_pct
        return self.peak_utilization_pct if expected is None else expected

    @property
    def known(self) -> bool:
        """Whether there is enough to let this job share."""
        return self.peak_utilization_pct is not None and self.upper_memory_bytes is not None

    @property
    def pair_evidence(self) -> str | None:
        """What the slowdowns rest on: the weakest evidence among the pairs; None without any."""
        return min((cost.evidence for cost in self.pairs), key=_WEAKEST_FIRST.index, default=None)


def combined(forecasts: Sequence[Forecast]) -> Forecast:
    """The forecast of a gang, from those for its devices: it is as slow as on the slowest, and has the partners of all.

    The sequence must not be empty.
    """
    first = forecasts[0]
    if all(forecast == first for forecast in forecasts):
        return first
    slowest = max(forecasts, key=lambda forecast: forecast.expected_slowdown or 1.0)
    return replace(
        slowest,
        upper_slowdown=max((f.upper_slowdown for f in forecasts if f.upper_slowdown is not None), default=None),
        pairs=tuple(dict.fromkeys(cost for forecast in forecasts for cost in forecast.pairs)),
    )


UNKNOWN = Forecast()
