"""The daemon's own learning in virtual time: its predictor and its nightly training, fed with what a worker service would
measure.

Of the world it learns only what can be measured of an ended attempt, with the noise of repeated runs: peaks, rates, the
slowdown beside each partner that ran beside it alone for long enough, and the duration of a whole run. Jobs are described as
their submitters would.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from msgspec import structs

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.attempt import Ending
from gpuq.core.state.device import DeviceId
from gpuq.core.state.forecast import Forecast, Question
from gpuq.learn.features.kind import describe
from gpuq.learn.history.history import History
from gpuq.learn.history.job_features import JobFeatures
from gpuq.learn.history.outcome import OngoingAttempt, Outcome
from gpuq.learn.history.quarantine import TrainingSet
from gpuq.learn.serving.model import Model
from gpuq.learn.serving.predictor import Predictor
from gpuq.learn.training import nightly
from gpuq.messages.submission import Submission
from gpuq.settings import Learning
from gpuq.sim.forecaster import UNSEEN_MEMORY_BYTES, TrainingResult
from gpuq.sim.noise import repeated
from gpuq.sim.record import SimulatedAttempt, Stretch
from gpuq.sim.trace import JobArrival
from gpuq.sim.world import World

# As the worker service measures: progress in windows of 5 s. The first window after the first step, and after each change of
# partners, is left out, and a rate needs two more.
_WINDOW_S = 5.0
_LEAST_RATE_S = 3 * _WINDOW_S
# On a device busier than _FULL_PCT one cannot tell how much a job beside a partner would use alone. A device that was so busy for
# less than _SELDOM of the time does not count as full.
_FULL_PCT = 98.0
_SELDOM = 0.05
# What `nightly.train` imports beyond the plain installation.
_TRAINED_WITH = ("scipy", "sklearn")
# A signature and the features it stands for.
_Described = tuple[str, dict[str, Any]]


def can_train() -> bool:
    """Whether the libraries of the nightly training are installed. Without them forecasts come from history alone."""
    return all(find_spec(name) is not None for name in _TRAINED_WITH)


@dataclass
class _Progress:
    """Time and work of an attempt beside some set of partners."""

    seconds: float = 0.0
    work_s: float = 0.0

    def add(self, stretch: Stretch) -> None:
        self.seconds += stretch.seconds
        self.work_s += stretch.work_s

    @property
    def rate(self) -> float | None:
        """Work per second; None where the time was too short to measure it."""
        return self.work_s / self.seconds if self.seconds >= _LEAST_RATE_S and self.work_s > 0 else None


class Learned:
    """A `Forecaster` that begins without any history or model."""

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
        self._trained_on = 0
        self._model: Model | None = None
        self._versions = 0
        self.predictor = Predictor(History(), None, self._learning, self._limits)

    def signature(self, arrival: JobArrival) -> str:
        """The signature of a submission of this work, whose command shows the model and the batch size."""
        signature, features = self._describe(arrival)
        self.predictor.register(signature, features, arrival.kind)
        return signature

    def answer(self, questions: Iterable[Question]) -> Mapping[Question, Forecast]:
        """The forecasts of the daemon's predictor."""
        return self.predictor.answer(questions)

    def learn(self, attempt: SimulatedAttempt, now: float) -> bool:
        """Add what was measured of the attempt to the history."""
        outcome = self._measured(attempt, now)
        if outcome is None:
            return False
        self._outcomes.append(outcome)
        self.predictor.learn(outcome)
        return True

    def watch(self, running: Iterable[SimulatedAttempt]) -> bool:
        """The daemon's own evidence from attempts that go on, whose memory is level."""
        return self.predictor.watch(map(self._ongoing, running))

    def train(self, now: float) -> TrainingResult | None:  # noqa: ARG002 - the interface of Forecaster
        """The daemon's own nightly training; a better model serves from now on.

        None where fewer than `minimum_attempts` ended since the last training, which would hardly change the model.
        """
        if len(self._outcomes) - self._trained_on < self._learning.minimum_attempts:
            return None
        self._trained_on = len(self._outcomes)
        if not can_train():
            return TrainingResult(False, f"not trained: {' or '.join(_TRAINED_WITH)} is not installed")
        attempts = TrainingSet(tuple(self._outcomes), {})
        obstacle = nightly.obstacle(attempts, self._learning)
        if obstacle is not None:
            return TrainingResult(False, obstacle)
        trained = nightly.train(attempts, self._model, self._learning, self._limits)
        if trained.judgement.better:
            self._versions += 1
            self._model = structs.replace(trained.candidate, version=f"v{self._versions:04}")
            self.predictor.use(self._model)
        return TrainingResult(trained.judgement.better, trained.judgement.reason)

    # --- what is measured ----------------------------------------------------------------------------------------------

    def _describe(self, arrival: JobArrival) -> _Described:
        """The signature and features of a submission whose command shows what commands usually show: model and batch size."""
        key = (arrival.kind, arrival.owner, arrival.devices)
        found = self._described.get(key)
        if found is None:
            workload = self._world.workload(arrival.kind)
            batch = () if workload.batch_size is None else ("--batch-size", f"{workload.batch_size:g}")
            submission = Submission(
                command=("python", "train.py", "--model", workload.model, *batch),
                cwd="/jobs",
                script="train.py",
                kind=arrival.kind,
                gpus=arrival.devices,
            )
            _, signature, features = describe(submission, arrival.owner)
            found = self._described[key] = signature, features
        return found

    def _measured(self, run: SimulatedAttempt, now: float) -> Outcome | None:
        """The attempt's outcome as the record would have it; None where it ended before anything could be measured."""
        if run.started_at == run.ended_at or not run.running:
            return None
        alone_progress, shared_progress = _Progress(), _Progress()
        beside: dict[str, _Progress] = defaultdict(_Progress)
        for stretch in run.running:
            (shared_progress if stretch.beside else alone_progress).add(stretch)
            # What several partners cost together cannot be divided among them.
            if len(stretch.beside) == 1:
                beside[stretch.beside[0]].add(stretch)
        partners = {kind for stretch in run.stretches for kind in stretch.beside}
        signature, features = self._describe(run.arrival)
        completed = run.ending is Ending.EXITED and run.exit_code == 0
        alone = _noisy(alone_progress.rate, self._noise(run, "rate alone"))
        shared = _noisy(shared_progress.rate, self._noise(run, "rate beside others"))
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
            duration_s=sum(stretch.seconds for stretch in run.running) if completed else None,
            alone_rate=alone,
            shared_rate=shared,
            slowdowns=tuple(self._slowdowns(run, beside)),
            ending=str(run.ending),
            shared=bool(partners),
            ended_at=now,
            whole=completed or (bool(alone or shared) and run.ending is not Ending.OUT_OF_MEMORY),
            partner_kinds=tuple(sorted(partners)),
            attempt=run.id,
            owner=run.arrival.owner,
            forecast=run.forecast,
            sharing=self._sharing[DeviceId(run.devices[0])] if partners else None,
        )

    def _ongoing(self, run: SimulatedAttempt) -> OngoingAttempt:
        _, features = self._describe(run.arrival)
        return OngoingAttempt(
            attempt=run.id,
            kind=run.arrival.kind,
            device_type=run.device_type,
            known=JobFeatures.of(features),
            peak_utilization_pct=self._peak_utilization(run),
            utilization_at_most=None,
            peak_memory_bytes=run.memory_bytes or UNSEEN_MEMORY_BYTES,
            level=True,
            shared=any(stretch.beside for stretch in run.stretches),
        )

    def _slowdowns(
        self, run: SimulatedAttempt, beside: Mapping[str, _Progress]
    ) -> Iterator[tuple[str, float, None, None]]:
        """(partner's kind, slowdown, no interval) for each partner that was measured, if the kind's rate alone is known."""
        alone = self._world.speed(run.arrival.kind, run.device_type, len(run.devices), run.arrival.devices)
        if (run.arrival.kind, run.device_type) not in self._rates_alone:
            return
        for kind, progress in sorted(beside.items()):
            if progress.rate is not None:
                yield kind, alone / progress.rate * self._noise(run, f"slowdown beside {kind}"), None, None

    def _peak_utilization(self, run: SimulatedAttempt) -> float | None:
        """The peak in percent, from the time alone where there was enough of it.

        Beside others a job uses less, the more they slow it. None where together they wanted more than the device has: then the
        job's use says nothing about its peak.
        """
        own = self._world.workload(run.arrival.kind).utilization_pct
        total = sum(stretch.seconds for stretch in run.running)
        alone = sum(stretch.seconds for stretch in run.running if not stretch.beside)
        peak = own
        if alone < _WINDOW_S and alone < total:
            full = sum(stretch.seconds for stretch in run.running if self._wanted(own, stretch) >= _FULL_PCT)
            if full > _SELDOM * total:
                return None
            peak = max(own / stretch.slowdown for stretch in run.running)
        return min(100.0, peak * self._noise(run, "utilisation"))

    def _wanted(self, own: float, stretch: Stretch) -> float:
        return own + sum(self._world.workload(kind).utilization_pct for kind in stretch.beside)

    def _noise(self, run: SimulatedAttempt, what: str) -> float:
        return repeated(f"{what} of attempt {run.id}, seed {self._seed}")


def _noisy(value: float | None, noise: float) -> float | None:
    return None if value is None else value * noise
