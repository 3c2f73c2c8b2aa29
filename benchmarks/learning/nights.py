"""The learning curve: three weeks of operation, replayed from measured data through the daemon's own learning code.

Each night's jobs, in this order, drawn with one seed:
- the next of the production instances (`pai_instances`) that used a GPU, in the order of their starts: user, group (one
  script), workload, measured utilisation and peak memory;
- pairs of `alnair_mps_pairs`, all equally likely: the newcomer asks to join the resident, both are predicted, and the core's own
  rule decides; what sharing costs is what was measured. Their memory was not measured: 1 GiB + 64 MiB for each in the batch.
Each measured value comes with the noise that repeated runs show (Student's t, 5 degrees of freedom, scale 3.9%).

Every attempt is predicted before it is learned; at the start of each night all 216 pairs are asked about, and nothing is learned
from that: admissions that would be wrong, and refusals. Then the nightly training runs on all that ended.
Draws `build/learning-curve.png` and keeps its numbers beside it.
"""

from __future__ import annotations

import json
import math
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.learning.truth import Truth, attempt_rows, described
from benchmarks.table import BUILD, Row
from gpuq.adapters.store.row_types import AttemptRow, JobRow
from gpuq.core.state.forecast import Forecast
from gpuq.home import Home
from gpuq.lab.public import number, rows
from gpuq.learn.history.history import History
from gpuq.learn.history.outcome import outcome_from_rows
from gpuq.learn.serving.predictor import Predictor
from gpuq.learn.serving.shelf import Shelf
from gpuq.learn.training.sharing import would_share
from gpuq.programs import retrain
from gpuq.settings import Settings

NIGHTS = 21
PAIRS_A_NIGHT = 16
SEED = 7
DAY_S = 86_400.0
_MIB = 2**20


@dataclass(frozen=True)
class Together:
    """A newcomer and a resident, and what sharing costs each; None where it was not measured."""

    newcomer: Truth
    resident: Truth
    newcomer_slowdown: float
    resident_slowdown: float | None


@dataclass
class Night:
    """What came of one night. Errors in points; a job without a forecast counts as if it needed the whole device."""

    utilization_errors: list[float] = field(default_factory=list)
    memory_errors: list[float] = field(default_factory=list)
    unanswered: int = 0
    under: int = 0
    pairs: int = 0
    wrongly_admitted: int = 0
    wrongly_refused: int = 0
    published: str | None = None
    reason: str = ""


def run(data: Path) -> list[Row]:
    """The rows, with the curve drawn on the way."""
    instances, pairs = list(_instances(data)), list(_pairs(data))
    learning = replay(instances, pairs, train=True)
    alone = replay(instances, pairs, train=False)
    _keep(learning, alone)
    return _curve_rows(learning, alone)


def replay(instances: Sequence[Truth], pairs: Sequence[Together], *, train: bool) -> list[Night]:
    """All nights in turn. Without `train`, forecasts rest on history alone."""
    chance = random.Random(SEED)
    with tempfile.TemporaryDirectory() as folder:
        site = _Site(Path(folder), chance)
        nights = []
        for n in range(NIGHTS):
            night = Night()
            for pair in pairs:
                site.ask(pair, night)
            for truth in instances[n * len(instances) // NIGHTS : (n + 1) * len(instances) // NIGHTS]:
                site.alone(truth, night)
            for pair in chance.choices(pairs, k=PAIRS_A_NIGHT):
                site.together(pair, night)
            site.now = (n + 1) * DAY_S
            if train:
                night.published, night.reason = site.train()
            nights.append(night)
    return nights


class _Site:
    """A daemon's learning: predictor, record and shelf; the record is a list."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        home = Home(folder)
        home.create()
        self.settings = Settings(home=home, redis_url=None, database_url="")
        self.predictor = Predictor(History(), None, self.settings.learning)
        self.record: list[tuple[JobRow, AttemptRow]] = []
        self.now = 0.0
        self._chance = chance

    def alone(self, truth: Truth, night: Night) -> None:
        kind, _, features = described(truth)
        forecast = self.predictor.forecast_for(kind, features, truth.device_type)
        self._score(forecast, self._end(truth, forecast), night)

    def together(self, pair: Together, night: Night) -> None:
        newcomer, resident, admitted = self._predict_pair(pair)
        kind, beside = described(pair.newcomer)[0], described(pair.resident)[0]
        slow = {"slowdown": pair.newcomer_slowdown * self._noise(), "partner_kinds": [beside], "partners": [1]}
        slowed = {"slowdown": None, "partner_kinds": [kind], "partners": [1]}
        if pair.resident_slowdown is not None:
            slowed["slowdown"] = pair.resident_slowdown * self._noise()
        self._score(newcomer, self._end(pair.newcomer, newcomer, slow if admitted else {}), night)
        self._score(resident, self._end(pair.resident, resident, slowed if admitted else {}), night)

    def ask(self, pair: Together, night: Night) -> None:
        """Would they be put together now, and should they be? Nothing is learnt from the question."""
        _, _, admitted = self._predict_pair(pair)
        suits = max(pair.newcomer_slowdown, pair.resident_slowdown or 0.0) <= self.settings.admission.max_slowdown
        night.pairs += 1
        night.wrongly_admitted += admitted and not suits
        night.wrongly_refused += suits and not admitted

    def train(self) -> tuple[str | None, str]:
        """The nightly training, as the daemon's own process does it: the version that was published, and why or why not."""
        result = retrain.train(self.settings, self, self.now, draw=False)  # type: ignore[arg-type]
        if result["published"]:
            self.predictor.use(Shelf(self.settings.home.models).load_current())
        return (result["version"] if result["published"] else None), result["reason"]

    def devices(self) -> list[Any]:
        return []

    def finished_attempts(self) -> list[tuple[JobRow, AttemptRow]]:
        return self.record

    def add_request(self, *_: object) -> int:
        return 0

    def _predict_pair(self, pair: Together) -> tuple[Forecast, Forecast, bool]:
        """(the newcomer beside the resident, the resident, whether they would be put together)."""
        (kind, _, features), (beside, _, others) = described(pair.newcomer), described(pair.resident)
        newcomer = self.predictor.forecast_for(kind, features, pair.newcomer.device_type, (beside,))
        resident = self.predictor.forecast_for(beside, others, pair.resident.device_type)
        return newcomer, resident, would_share(kind, newcomer, beside, resident, self.settings.admission)

    def _end(self, truth: Truth, forecast: Forecast, actual: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Record and learn an attempt; what was measured of it."""
        self.now += 60.0
        measured = {
            "peak_utilization_pct": min(100.0, truth.utilization_pct * self._noise()),
            "peak_memory_bytes": round(truth.memory_bytes * self._noise()),
            "device_type": truth.device_type,
            "alone_rate": 1.0,
            **(actual or {}),
        }
        row = attempt_rows(truth, len(self.record) + 1, self.now, measured, forecast)
        self.record.append(row)
        outcome = outcome_from_rows(*row, {})
        if outcome is not None:
            self.predictor.learn(outcome)
        return measured

    def _score(self, forecast: Forecast, measured: Mapping[str, Any], night: Night) -> None:
        peak = forecast.likeliest_utilization_pct if forecast.known else None
        night.utilization_errors.append(abs((100.0 if peak is None else peak) - measured["peak_utilization_pct"]))
        if not forecast.known:
            night.unanswered += 1
            return
        memory = measured["peak_memory_bytes"]
        night.memory_errors.append(abs((forecast.peak_memory_bytes or 0) - memory) / memory)
        night.under += memory > (forecast.upper_memory_bytes or 0)

    def _noise(self) -> float:
        student = self._chance.gauss(0, 1) / math.sqrt(self._chance.gammavariate(2.5, 2.0) / 5.0)
        return math.exp(0.039 * student)


def _instances(data: Path) -> Iterator[Truth]:
    found = sorted(rows(data / "pai_instances.csv"), key=lambda row: float(row["start_s"]))
    for row in found:
        level, memory = number(row["gpu_wrk_util"]), number(row["max_gpu_wrk_mem_gb"])
        if level is not None and memory and memory * 1024 >= 2:
            yield Truth(
                row["user"], row["group"], row["workload"], None, row["gpu_type"], min(level, 100.0), round(memory * 2**30)
            )  # fmt: skip


def _pairs(data: Path) -> Iterator[Together]:
    models = {row["job"]: row["model"] for row in rows(data / "alnair_mps_singles.csv")}
    for row in rows(data / "alnair_mps_pairs.csv"):
        newcomer, resident = (
            Truth(
                "lab", row[f"job_{side}"], models[row[f"job_{side}"]], int(row[f"bs_{side}"]), "MPS GPU",
                float(row[f"util_{side}_pct"]), 2**30 + 64 * _MIB * int(row[f"bs_{side}"]),
            )
            for side in "ab"
        )  # fmt: skip
        yield Together(newcomer, resident, float(row["slowdown_a"]), number(row["slowdown_b"]))


# --- what is shown


def _curve_rows(nights: Sequence[Night], alone: Sequence[Night]) -> list[Row]:
    first, last, bare = nights[:1], nights[-1:], alone[-7:]
    weeks = nights[:7], nights[-7:]
    early, late = _error(first), _error(last)
    return [
        Row("nights: utilisation error, night 1", early, "points", note="no forecast counts as the whole device"),
        Row("nights: utilisation error, last night", late, "points", reach=early, note="reach: below night 1"),
        Row("nights: utilisation error, first week", _error(weeks[0]), "points"),
        Row("nights: utilisation error, last week", _error(weeks[1]), "points", reach=_error(weeks[0])),
        Row("nights: the same with history alone, no model", _error(bare), "points", note="baseline"),
        Row("nights: jobs without a forecast, first week", _unanswered(weeks[0]), "%"),
        Row("nights: jobs without a forecast, last week", _unanswered(weeks[1]), "%", reach=_unanswered(weeks[0])),
        Row("nights: the same with history alone, no model", _unanswered(bare), "%", note="baseline"),
        Row("nights: memory error of forecasts, last week", 100 * _mean(weeks[1], "memory_errors"), "%"),
        Row("nights: memory bounds that failed, last week", _under(weeks[1]), "%", note="5% promised"),
        Row("nights: pairs wrongly admitted, first week", _wrong(weeks[0], "wrongly_admitted"), "%"),
        Row("nights: pairs wrongly admitted, last week", _wrong(weeks[1], "wrongly_admitted"), "%",
            reach=max(2.0, _wrong(weeks[0], "wrongly_admitted"))),
        Row("nights: pairs wrongly refused, first week", _wrong(weeks[0], "wrongly_refused"), "%"),
        Row("nights: pairs wrongly refused, last week", _wrong(weeks[1], "wrongly_refused"), "%",
            reach=_wrong(weeks[0], "wrongly_refused")),
        Row("nights: that published a model", float(sum(n.published is not None for n in nights)), f"of {NIGHTS}"),
    ]  # fmt: skip


def _error(nights: Sequence[Night]) -> float:
    return _mean(nights, "utilization_errors")


def _mean(nights: Sequence[Night], name: str) -> float:
    return fmean(value for night in nights for value in getattr(night, name))


def _unanswered(nights: Sequence[Night]) -> float:
    return 100 * sum(n.unanswered for n in nights) / sum(len(n.utilization_errors) for n in nights)


def _under(nights: Sequence[Night]) -> float:
    return 100 * sum(n.under for n in nights) / sum(len(n.memory_errors) for n in nights)


def _wrong(nights: Sequence[Night], name: str) -> float:
    return 100 * sum(getattr(n, name) for n in nights) / sum(n.pairs for n in nights)


def _keep(nights: Sequence[Night], alone: Sequence[Night]) -> None:
    """`learning-curve.json` and `learning-curve.png`."""
    curves = {
        name: [
            {
                "night": n,
                "utilization_error_pct": _error([night]),
                "unanswered_pct": _unanswered([night]),
                "wrongly_admitted_pct": _wrong([night], "wrongly_admitted"),
                "wrongly_refused_pct": _wrong([night], "wrongly_refused"),
                "published": night.published,
                "reason": night.reason,
            }
            for n, night in enumerate(found, start=1)
        ]
        for name, found in (("with nightly training", nights), ("history alone", alone))
    }
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "learning-curve.json").write_text(json.dumps(curves, indent=1) + "\n", encoding="utf-8")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    figure = Figure(figsize=(9, 3.6), dpi=110, layout="constrained")
    panels = (
        ("utilization_error_pct", "utilisation error, points"),
        ("unanswered_pct", "jobs without a forecast, %"),
        ("wrongly_refused_pct", "pairs wrongly refused, %"),
    )
    for place, (key, title) in enumerate(panels, start=1):
        axes = figure.add_subplot(1, 3, place)
        axes.spines[["top", "right"]].set_visible(False)
        for (name, found), colour in zip(curves.items(), ("#2a6f97", "#aaaaaa"), strict=True):
            axes.plot([one["night"] for one in found], _smooth([one[key] for one in found]), color=colour, label=name)
        if key == "wrongly_refused_pct":
            found = curves["with nightly training"]
            axes.plot(
                [one["night"] for one in found], _smooth([one["wrongly_admitted_pct"] for one in found]), color="#c44536",
                label="wrongly admitted",
            )  # fmt: skip
        axes.set(title=title, xlabel="night", ylim=(0, None))
        axes.legend(frameon=False, fontsize=7)
    figure.savefig(BUILD / "learning-curve.png")


def _smooth(values: Sequence[float]) -> list[float]:
    """The mean of each night and the two before it: a night has few jobs."""
    return [fmean(values[max(0, n - 2) : n + 1]) for n in range(len(values))]
