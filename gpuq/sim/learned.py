"""The real learning in virtual time: the daemon's own predictor, told of attempts as they would be measured.

Arrives: the trace's jobs as their submitters would describe them, ended attempts, nights. Leaves: forecasts. Of the world it only
learns what a worker service would have measured of an ended attempt, with the noise of repeated runs: peaks, rates, the slowdown
beside each partner that was there alone for long enough, and how long a whole run took.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from msgspec import structs

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.attempt import Ending
from gpuq.core.state.device import DeviceId
from gpuq.core.state.forecast import Forecast, Question
from gpuq.learn.features.kind import describe
from gpuq.learn.history.history import History
from gpuq.learn.history.outcome import Outcome
from gpuq.learn.history.quarantine import Teachable
from gpuq.learn.serving.model import Model
from gpuq.learn.serving.predictor import Predictor
from gpuq.learn.training import nightly
from gpuq.messages.submission import Submission
from gpuq.settings import Learning
from gpuq.sim.forecaster import UNSEEN_MEMORY_BYTES, Taught
from gpuq.sim.noise import repeated
from gpuq.sim.record import AttemptRun, Stretch
from gpuq.sim.trace import Arrival
from gpuq.sim.world import World

# As the worker service measures: means over 5 s; the first window of progress after the first step, and after each change of
# partners, is left out; two windows make a rate.
_WINDOW_S = 5.0
_LEAST_RATE_S = 3 * _WINDOW_S
# A device busier than this says nothing about what a job beside a partner would want; seldom full is not full.
_FULL_PCT = 98.0
_SELDOM = 0.05
# What `nightly.train` imports beyond the plain wheel.
_TRAINED_WITH = ("scipy", "sklearn")
# A signature and the features it stands for.
_Described = tuple[str, dict[str, Any]]


def can_train() -> bool:
    """Whether what the nightly training imports is installed; the plain wheel serves from history alone."""
    return all(find_spec(name) is not None for name in _TRAINED_WITH)


@dataclass
class _Progress:
    """Time and work beside one set of partners."""

    seconds: float = 0.0
    work_s: float = 0.0

    def add(self, stretch: Stretch) -> None:
        self.seconds += stretch.seconds
        self.work_s += stretch.work_s

    @property
    def rate(self) -> float | None:
        """Work per second; None where it lasted too short to be measured."""
        return self.work_s / self.seconds if self.seconds >= _LEAST_RATE_S and self.work_s > 0 else None


@dataclass
class _Seen:
    """What a worker service saw of an attempt, by its partners."""

    alone: _Progress = field(default_factory=_Progress)
    shared: _Progress = field(default_factory=_Progress)
    beside: dict[str, _Progress] = field(default_factory=lambda: defaultdict(_Progress))
    partners: set[str] = field(default_factory=set)


class Learned:
    """See the module's own words. It begins cold."""

    def __init__(
        self, world: World, learning: Learning | None = None, limits: Limits | None = None, *, seed: int = 0
    ) -> None:
        self._world = world
        self._learning = learning or Learning()
        self._limits = limits or Limits()
        self._seed = seed
        self._sharing = {device.id: device.sharing for device in world.devices}
        self._described: dict[tuple[str, str, int], _Described] = {}
        self._rates_alone: set[tuple[str, str]] = set()
        self._outcomes: list[Outcome] = []
        self._taught = 0
        self._model: Model | None = None
        self._versions = 0
        self.predictor = Predictor(History(), None, self._learning)

    def signature(self, arrival: Arrival) -> str:
        """As a submission of this work would have it: what the command shows of the model and the batch counts."""
        signature, features = self._describe(arrival)
        self.predictor.register(signature, features, arrival.kind)
        return signature

    def answer(self, questions: Iterable[Question]) -> Mapping[Question, Forecast]:
        """The daemon's own predictor answers."""
        return self.predictor.answer(questions)

    def learn(self, attempt: AttemptRun, now: float) -> bool:
        """It counts at once."""
        outcome = self._measured(attempt, now)
        if outcome is None:
            return False
        self._outcomes.append(outcome)
        self.predictor.learn(outcome)
        return True

    def night(self, now: float) -> Taught | None:  # noqa: ARG002 - the attempts have their own times
        """The daemon's own training; what is better serves from now on.

        None where hardly an attempt ended since the last: the daemon would train, to no effect.
        """
        if len(self._outcomes) - self._taught < self._learning.minimum_attempts:
            return None
        self._taught = len(self._outcomes)
        if not can_train():
            return Taught(False, f"not trained: {' or '.join(_TRAINED_WITH)} is not installed")
        attempts = Teachable(tuple(self._outcomes), {})
        obstacle = nightly.obstacle(attempts, self._learning)
        if obstacle is not None:
            return Taught(False, obstacle)
        trained = nightly.train(attempts, self._model, self._learning, self._limits)
        if trained.judgement.better:
            self._versions += 1
            self._model = structs.replace(trained.candidate, version=f"v{self._versions:04}")
            self.predictor.use(self._model)
        return Taught(trained.judgement.better, trained.judgement.reason)

    # --- what is seen ----------------------------------------------------------------------------------------------

    def _describe(self, arrival: Arrival) -> _Described:
        key = (arrival.kind, arrival.owner, arrival.devices)
        found = self._described.get(key)
        if found is None:
            _, signature, features = describe(_submission(self._world, arrival), arrival.owner)
            found = self._described[key] = signature, features
        return found

    def _measured(self, run: AttemptRun, now: float) -> Outcome | None:
        """What the record would say of it; None where it was over before anything was measured."""
        seen = _seen(run)
        if run.started_at == run.ended_at or not run.stretches:
            return None
        signature, features = self._describe(run.arrival)
        completed = run.ending is Ending.EXITED and run.exit_code == 0
        alone = _noisy(seen.alone.rate, self._noise(run, "rate alone"))
        shared = _noisy(seen.shared.rate, self._noise(run, "rate beside others"))
        if alone is not None:
            self._rates_alone.add((run.arrival.kind, run.device_type))
        return Outcome(
            kind=run.arrival.kind,
            signature=signature,
            script_sha256=None,
            device_type=run.device_type,
            features=features,
            peak_utilization_pct=self._peak_utilization(run),
            peak_memory_bytes=run.memory_bytes or UNSEEN_MEMORY_BYTES,
            duration_s=(run.ended_at or now) - run.started_at if completed else None,
            alone_rate=alone,
            shared_rate=shared,
            slowdowns=tuple(self._slowdowns(run, seen)),
            ending=str(run.ending),
            shared=bool(seen.partners),
            ended_at=now,
            whole=completed or (bool(alone or shared) and run.ending is not Ending.OUT_OF_MEMORY),
            partner_kinds=tuple(sorted(seen.partners)),
            attempt=run.id,
            owner=run.arrival.owner,
            forecast=run.forecast,
            sharing=self._sharing[DeviceId(run.devices[0])] if seen.partners else None,
        )

    def _slowdowns(self, run: AttemptRun, seen: _Seen) -> Iterator[tuple[str, float, None, None]]:
        """Against its own rate alone, or its kind's where that is known; without an interval, as a single repeated run is."""
        alone = self._world.speed(run.arrival.kind, run.device_type, len(run.devices), run.arrival.devices)
        if (run.arrival.kind, run.device_type) not in self._rates_alone:
            return
        for kind, progress in sorted(seen.beside.items()):
            if progress.rate is not None:
                yield kind, alone / progress.rate * self._noise(run, f"slowdown beside {kind}"), None, None

    def _peak_utilization(self, run: AttemptRun) -> float | None:
        """Of the time alone. Beside others a job uses less, the more they slow it; and where they all want more than the device
        has, what it uses says nothing."""
        own = self._world.workload(run.arrival.kind).utilization_pct
        total = sum(stretch.seconds for stretch in run.stretches)
        alone = sum(stretch.seconds for stretch in run.stretches if not stretch.beside)
        if alone >= _WINDOW_S or alone == total:
            return self._percent(own, run)
        full = sum(stretch.seconds for stretch in run.stretches if self._wanted(own, stretch) >= _FULL_PCT)
        if full > _SELDOM * total:
            return None
        return self._percent(max(own / stretch.slowdown for stretch in run.stretches), run)

    def _wanted(self, own: float, stretch: Stretch) -> float:
        return own + sum(self._world.workload(kind).utilization_pct for kind in stretch.beside)

    def _percent(self, value: float, run: AttemptRun) -> float:
        return min(100.0, value * self._noise(run, "utilisation"))

    def _noise(self, run: AttemptRun, what: str) -> float:
        return repeated(f"{what} of attempt {run.id}, seed {self._seed}")


def _submission(world: World, arrival: Arrival) -> Submission:
    """A command that shows what commands usually show: the model and the batch, as arguments of one script per kind."""
    workload = world.workload(arrival.kind)
    batch = () if workload.batch_size is None else ("--batch-size", f"{workload.batch_size:g}")
    return Submission(
        command=("python", "train.py", "--model", workload.model, *batch),
        cwd="/jobs",
        script="train.py",
        kind=arrival.kind,
        gpus=arrival.devices,
    )


def _seen(run: AttemptRun) -> _Seen:
    seen = _Seen()
    for stretch in run.stretches:
        seen.partners.update(stretch.beside)
        (seen.shared if stretch.beside else seen.alone).add(stretch)
        if len(stretch.beside) == 1:
            seen.beside[stretch.beside[0]].add(stretch)
    return seen


def _noisy(value: float | None, noise: float) -> float | None:
    return None if value is None else value * noise
