"""Answers the core's questions: what would this job need on this device type, and what would it cost beside these kinds?

Questions are plain data; outcomes and models arrive as they come. Each forecast says which evidence it rests on, in this
order: runs of the same work, attempts of it that go on, runs of the same script with other settings, the model's tiers (see
`memory.evidence_tiers`), nothing. A job without evidence runs alone and is thereby measured. The same history and model give
the same forecasts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import median
from typing import Any

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.forecast import UNKNOWN, Forecast, Question
from gpuq.core.state.job import KindId
from gpuq.learn.features import growth
from gpuq.learn.features.setting_effects import changes
from gpuq.learn.history.drift import Drift
from gpuq.learn.history.history import History, MeasuredRun, measured, peak_utilization, place_of
from gpuq.learn.history.job_features import JobFeatures, Script
from gpuq.learn.history.outcome import OngoingAttempt, Outcome
from gpuq.learn.interference.pair import AskedPair, PairCosts, combined, shown_beyond
from gpuq.learn.interference.profile import Profile, observed
from gpuq.learn.interference.risk import Meeting
from gpuq.learn.memory.clusters import NEIGHBOURS, ClusterIndex
from gpuq.learn.memory.extend import extend
from gpuq.learn.memory.footprint import TRACED, LayerForecast, LayerTerms, blended, on_device
from gpuq.learn.memory.predict import NewKindForecast, PeakPredictor
from gpuq.learn.serving.model import Model
from gpuq.learn.statistics import (
    EDITED_SCRIPT_MEMORY,
    REPEATED_DURATION,
    RUNNING_MEMORY,
    SAME_KIND_MEMORY,
    Prior,
    bound_of_modes,
    order_statistic,
    predictive_bound,
    upper_bound,
)
from gpuq.learn.transfer.transfer import Transfers
from gpuq.script.fingerprint import CODE
from gpuq.script.meaning import CHOSEN
from gpuq.settings import Learning

# The point of a memory forecast: three of four runs stay at or under it.
MEMORY_QUANTILE = 0.75
_SIGNATURES_KEPT = 50_000
_NO_FEATURES = JobFeatures()
# Without a model the history alone answers.
_NO_MODEL = Model(trained_until=0.0, attempts=0, quantile=0.0, clusters={})
# The settings along which the regressions of a model extrapolate.
_REGRESSED = frozenset({"batch-size", "model"})
_BATCH = frozenset({"batch-size"})
# Changed settings that the evidence names.
_MOST_NAMED = 3


@dataclass(frozen=True)
class ForecastSupport:
    """What a job could be predicted from, whether it was needed or not.

    `runs`: finished runs of its own kind on that type of device; `nearest`: other kinds with their similarity, 0 to 1.
    """

    runs: int
    nearest: tuple[tuple[str, float], ...]


class Predictor:
    """Forecasts from a history and a model, cached per kind. Not for use by several threads."""

    def __init__(self, history: History, model: Model | None, learning: Learning, limits: Limits | None = None) -> None:
        self.history = history
        self.drift = Drift(learning.quantile)
        self._learning = learning
        self._limits = limits or Limits()
        self._known: dict[str, JobFeatures] = {}
        # Forecasts are kept per kind, so that a finished attempt only costs those of its own kind.
        self._answers: dict[str, dict[tuple[str, str], Forecast]] = {}
        self._pairs = PairCosts(history, learning.quantile)
        self._profiles: dict[tuple[str, str], Profile] = {}
        # Per script, since a finished attempt of any kind of it changes what the others may need.
        self._siblings: dict[Script | None, dict[tuple[str, str], growth.ScriptRuns]] = {}
        self._kinds_of: dict[Script | None, set[str]] = {}
        self._kept = 0
        self.use(model)

    @property
    def version(self) -> str | None:
        """The version of the model in use."""
        return self._model.version

    def use(self, model: Model | None) -> None:
        """Answer with this model from now on (None: with the history alone)."""
        self._model = model or _NO_MODEL
        self._unknown = replace(UNKNOWN, model_version=self.version)
        self._prior = Prior(self._model.calibration.scale)
        self._clusters = {name: ClusterIndex(found) for name, found in self._model.clusters.items()}
        self._transfers = Transfers(self._model.transfer)
        self._peak_predictors = {
            name: PeakPredictor(found, self._clusters.get(name)) for name, found in self._model.peaks.items()
        }
        self._pairs.use(self._model.interference, self.version)
        self._answers.clear()

    def register(self, signature: str, features: Mapping[str, Any], kind: str) -> None:
        """Store a signature's features as they are stored with the job. Questions name signatures only."""
        if signature in self._known:
            return
        if len(self._known) >= _SIGNATURES_KEPT:
            self._known.pop(next(iter(self._known)))
        self._known[signature] = JobFeatures.of(features)
        self._answers.pop(kind, None)

    def learn(self, outcome: Outcome) -> None:
        """Add a finished attempt to the history, and score it against its forecast. Counts from the next answer on."""
        place = place_of(outcome.device_type, outcome.sharing)
        met = [
            (beside, value, low, not self.history.slowdowns(outcome.kind, beside, place))
            for beside, value, low, _ in outcome.slowdowns
        ]
        if self.history.learn(outcome):
            budget = outcome.max_slowdown or self._limits.max_slowdown
            version = outcome.forecast.model_version if outcome.forecast else None
            for beside, value, low, first in met:
                risk = self._stated_risk(outcome, beside, budget) if first else self._limits.risk
                pair = frozenset((outcome.kind, beside))
                shown = shown_beyond(budget, value, low)
                self._pairs.judge(place, version, Meeting(pair, value > budget, risk, first, shown, outcome.owner))
            self.drift.learn(outcome)
            script = outcome.known.script
            for kind in {outcome.kind, *(() if script is None else self._kinds_of.pop(script, ()))}:
                self._answers.pop(kind, None)
            self._siblings.pop(script, None)
            self._profiles.pop((outcome.kind, outcome.device_type), None)
            if outcome.partner_kinds or outcome.slowdowns:
                self._pairs.forget()

    def watch(self, running: Iterable[OngoingAttempt]) -> bool:
        """Let these attempts count as far as they go, in place of those of the last call. Returns whether a forecast may
        change."""
        changed = self.history.watch(running)
        for kind, device_type in changed:
            self._answers.pop(kind, None)
            self._profiles.pop((kind, device_type), None)
        return bool(changed)

    def _stated_risk(self, outcome: Outcome, beside: str, budget: float) -> float:
        """The risk with which the pair was admitted: for one that was tried what its launch said, else what admission allows."""
        costs = outcome.forecast.pairs if outcome.forecast else ()
        stated = [cost.risk(budget, budget) or 0.0 for cost in costs if cost.beside == beside]
        return max([self._limits.risk, *stated])

    def answer(self, questions: Iterable[Question]) -> dict[Question, Forecast]:
        """A forecast for each question; fields without evidence are None."""
        asked = list(questions)
        keys = dict.fromkeys((question.device_type, question.kind, question.signature) for question in asked)
        # Signatures come and go for months, and the caches must not grow with them.
        if self._kept + len(keys) > _SIGNATURES_KEPT:
            for kept in (self._answers, self._profiles, self._siblings, self._kinds_of):
                kept.clear()
            self._kept = 0
        missing: dict[str, list[tuple[str, str]]] = {}
        for device_type, kind, signature in keys:
            if (signature, device_type) not in self._answers.get(kind, {}):
                missing.setdefault(device_type, []).append((kind, signature))
        # Questions about one type of device are answered together: one large matrix product is cheaper than many small ones.
        for device_type, found in missing.items():
            jobs = [(name, self._known.get(signature, _NO_FEATURES)) for name, signature in found]
            forecasts = self._alone(jobs, device_type)
            for (name, signature), (_, known), forecast in zip(found, jobs, forecasts, strict=True):
                self._answers.setdefault(name, {})[signature, device_type] = forecast
                self._kinds_of.setdefault(known.script, set()).add(name)
            self._kept += len(found)
        alone = {question: self._answers[question.kind][question.signature, question.device_type] for question in asked}
        pairs = {question: self._asked_pairs(question, found) for question, found in alone.items() if question.beside}
        self._pairs.prepare(chain.from_iterable(pairs.values()))
        return {question: self._beside(question, found, pairs.get(question, [])) for question, found in alone.items()}

    def forecast_for(
        self,
        kind: str,
        features: Mapping[str, Any],
        device_type: str,
        beside: tuple[str, ...] = (),
        sharing: str | None = None,
    ) -> Forecast:
        """The forecast for a job that is not submitted, as `gpuq predict` shows it."""
        return self.forecast_known(kind, JobFeatures.of(features), device_type, beside, sharing)

    def forecast_known(
        self,
        kind: str,
        known: JobFeatures,
        device_type: str,
        beside: tuple[str, ...] = (),
        sharing: str | None = None,
    ) -> Forecast:
        """As `forecast_for`, from features that were read before."""
        (alone,) = self._alone([(kind, known)], device_type)
        question = Question(kind, KindId(kind), device_type, tuple(KindId(other) for other in beside), sharing)
        return self._beside(question, alone, self._asked_pairs(question, alone, known))

    def support(self, kind: str, features: Mapping[str, Any], device_type: str) -> ForecastSupport:
        """What a forecast for this job may rest on, to be shown to users."""
        clusters = self._clusters.get(device_type)
        near = [] if clusters is None else clusters.nearest(JobFeatures.of(features), NEIGHBOURS + 1)
        return ForecastSupport(
            runs=sum(run.whole for run in self.history.runs(kind, device_type)),
            nearest=tuple((other, similarity) for other, similarity in near if other != kind)[:NEIGHBOURS],
        )

    def _beside(self, question: Question, alone: Forecast, pairs: Sequence[AskedPair]) -> Forecast:
        """The forecast for a job alone as one beside these pairs' residents; of none, as one alone."""
        where = place_of(question.device_type, question.sharing)
        known = self._pairs.knows(where)
        if not pairs:
            return replace(alone, pairs_known=True) if known else alone
        costs = tuple(self._pairs.cost(*pair, question.device_type) for pair in pairs)
        expected, upper = combined(costs)
        return replace(alone, expected_slowdown=expected, upper_slowdown=upper, pairs=costs, pairs_known=known)

    def _asked_pairs(self, question: Question, alone: Forecast, known: JobFeatures | None = None) -> list[AskedPair]:
        """The pairs of a question."""
        if not question.beside:
            return []
        known = known or self._known.get(question.signature, _NO_FEATURES)
        newcomer = self._profile(question.kind, question.device_type, known, alone.peak_utilization_pct)
        place = place_of(question.device_type, question.sharing)
        return [(newcomer, self._profile(other, question.device_type), place) for other in question.beside]

    def _profile(
        self, kind: str, device_type: str, known: JobFeatures | None = None, utilization_pct: float | None = None
    ) -> Profile:
        """What is known of the kind alone: from its runs; for a kind without runs from its features and its forecast."""
        found = self._profiles.get((kind, device_type))
        if found is None:
            runs = self.history.runs(kind, device_type)
            found = observed(kind, runs, known, utilization_pct)
            if runs:
                self._profiles[kind, device_type] = found
        return found

    def _alone(self, jobs: Sequence[tuple[str, JobFeatures]], device_type: str) -> list[Forecast]:
        """Forecasts of (kind, features) with the device to themselves, from the best evidence for each."""
        runs = [self.history.runs(kind, device_type) for kind, _ in jobs]
        comparable = [self._comparable(kind, device_type, known) for kind, known in jobs]
        peak_predictor = self._peak_predictors.get(device_type)
        likeliest = _likeliest_utilization(peak_predictor, jobs, comparable)
        found = [
            self._from_own(used, all_runs, likely) if same else self._from_changed(kind, all_runs, known, device_type)
            for (used, same), likely, all_runs, (kind, known) in zip(comparable, likeliest, runs, jobs, strict=True)
        ]
        if peak_predictor is not None:
            self._fill_in_new_kinds(peak_predictor, device_type, jobs, runs, comparable, found)

        for place, ((_, known), (_, same)) in enumerate(zip(jobs, comparable, strict=True)):
            # A dry run is of a GPU: it says nothing of what the job takes of the host's memory on CPU cores.
            if known.traced is not None and not same and not device_type.startswith("cpu-"):
                found[place] = self._from_dry_run(known.traced, device_type, found[place], runs[place])

        for place, (kind, known) in enumerate(jobs):
            if found[place].duration_p50_s is None:
                found[place] = self._with_duration(found[place], kind, known, device_type)
        return [self._widened(forecast, kind, device_type) for forecast, (kind, _) in zip(found, jobs, strict=True)]

    def _fill_in_new_kinds(
        self,
        peak_predictor: PeakPredictor,
        device_type: str,
        jobs: Sequence[tuple[str, JobFeatures]],
        runs: Sequence[list[MeasuredRun]],
        comparable: Sequence[tuple[Sequence[MeasuredRun], bool]],
        found: list[Forecast],
    ) -> None:
        """Replace the forecasts that a model's regressions know more about than runs do, in `found`."""
        new = []
        for place, ((used, same), own) in enumerate(zip(comparable, runs, strict=True)):
            answered_by_runs = found[place].known and (same or any(run.whole for run in own))
            # A regression goes along batch size and model only. A job that differs from all runs of its script in other settings
            # (a wider layer, say) must not get the bound of what it does not resemble: then runs answer, or nothing does.
            known = jobs[place][1]
            names = ({change.name for change in changes(known, run.known)} for run in used)
            within_reach = same or not used or any(changed <= _REGRESSED for changed in names)
            if not answered_by_runs and within_reach:
                new.append(place)
        for place, new_kind in zip(new, peak_predictor.new_kinds([jobs[place][1] for place in new]), strict=True):
            if new_kind is not None:
                known = jobs[place][1]
                layers = None if known.layers is None else on_device(known.layers, device_type, self._model.layers)
                off = self._model.layers_off.get(device_type, 0.0)
                found[place] = self._from_similar(new_kind, layers, off, found[place], runs[place])

    def _with_duration(self, found: Forecast, kind: str, known: JobFeatures, device_type: str) -> Forecast:
        """The forecast with a duration carried over from another type of device, where that is possible."""
        carried = self._transfers.duration(self.history, kind, known, device_type)
        if carried is None:
            return found
        transferred = f"transferred from {carried.anchor}"
        return replace(
            found,
            duration_p50_s=carried.duration_p50_s,
            duration_p90_s=carried.duration_p90_s,
            evidence=transferred if found.evidence == "none" else f"{found.evidence}; duration {transferred}",
        )

    def _widened(self, forecast: Forecast, kind: str, device_type: str) -> Forecast:
        """The forecast with a wider memory bound if the kind is in alarm; see `drift`."""
        factor = self.drift.widening(kind, device_type)
        if factor <= 1 or forecast.upper_memory_bytes is None:
            return forecast
        upper = round(forecast.upper_memory_bytes * factor)
        evidence = f"{forecast.evidence}; bound widened x{factor:.2f}, recent runs needed more"
        return replace(forecast, upper_memory_bytes=upper, widened=factor, evidence=evidence)

    def _comparable(self, kind: str, device_type: str, known: JobFeatures) -> tuple[Sequence[MeasuredRun], bool]:
        """(runs, True) of the same work: of the kind, else of its script, else those that go on and are level. Without any: (all
        runs of the script, False)."""
        used, same = self.history.comparable(kind, device_type, known)
        if same:
            return used, True
        siblings = self._siblings_of(kind, known, device_type)
        alike = siblings.alike(known) or self.history.level(kind, device_type, known)
        return (alike, True) if alike else (siblings.runs, False)

    def _siblings_of(self, kind: str, known: JobFeatures, device_type: str) -> growth.ScriptRuns:
        """Runs of the kind and of its script, prepared for comparison; cached until another run of the script ends."""
        own = bool(self.history.runs(kind, device_type))
        if known.script is None:
            return growth.ScriptRuns(self.history.siblings(kind, device_type, known), device_type)
        kept = self._siblings.setdefault(known.script, {})
        key = (kind if own else "", device_type)
        if key not in kept:
            kept[key] = growth.ScriptRuns(self.history.siblings(kind, device_type, known), device_type)
        return kept[key]

    def _from_own(self, used: Sequence[MeasuredRun], runs: list[MeasuredRun], likeliest: float | None) -> Forecast:
        """A forecast from runs of the same work."""
        memory = [run.peak_memory_bytes for run in used if run.peak_memory_bytes is not None]
        point, upper, running = None, None, any(run.level for run in used)
        if memory:
            # Attempts that go on may all grow in the same later phase, so several are no better evidence than one.
            prior, basis = (RUNNING_MEMORY, [max(memory)]) if running else (self._prior, memory)
            most = bound_of_modes(basis, self._learning.quantile, prior) * self._model.calibration.own(len(basis))
            point, upper = _ordered(order_statistic(memory, MEMORY_QUANTILE), most, runs, self._learning.quantile)
        durations, powers = measured(used, "duration_s"), measured(used, "power_w")
        return Forecast(
            peak_utilization_pct=peak_utilization(used, runs),
            expected_utilization_pct=likeliest,
            peak_memory_bytes=point,
            upper_memory_bytes=upper,
            duration_p50_s=order_statistic(durations, 0.5) if durations else None,
            duration_p90_s=upper_bound(durations, 0.9, REPEATED_DURATION) if durations else None,
            duration_runs=len(durations),
            evidence=f"own history, {_count(used)}{_foreign_load(used)}" if not running else _that_goes_on(used),
            model_version=self.version,
            power_w=order_statistic(powers, 0.5) if powers else None,
        )

    def _from_changed(self, kind: str, runs: list[MeasuredRun], known: JobFeatures, device_type: str) -> Forecast:
        """A forecast from runs of an earlier script, or of the same script with other settings; see `growth`."""
        siblings = self._siblings_of(kind, known, device_type)
        if not siblings.runs:
            return self._unknown
        found = siblings.compared(known)
        was_edited = all(run.known.script_sha256 != known.script_sha256 for run in siblings.runs)
        usual_prior = EDITED_SCRIPT_MEMORY if was_edited else SAME_KIND_MEMORY
        quantile, prior = self._learning.quantile, Prior(max(self._prior.scale, usual_prior.scale))
        widening, needs, (sizes, peaks) = self._model.calibration.changed, found.memory, siblings.along_batch
        point, upper = None, None
        # Where only the batch size differs and two sizes were measured, their slope is better evidence than an assumed power.
        if known.batch_log2 is not None and len(set(sizes)) > 1 and {one.name for one in found.nearest} <= _BATCH:
            usual, most = extend(sizes, peaks, 2.0**known.batch_log2, quantile, prior)
            point, upper = _ordered(usual, most * widening, runs, quantile)
        # A bound of many times the usual need would reserve memory that the job hardly ever uses: better alone, and measured.
        elif needs is not None and needs.most <= growth.WIDEST * needs.usual:
            noise = predictive_bound([1.0], quantile, prior) * widening
            point, upper = _ordered(needs.usual, growth.bounded(needs, noise), runs, quantile)
        half, longest = growth.seconds(found.seconds)
        shown = siblings.utilization_pct
        # That the code is another one is said by its edit.
        differ = [_shown(change.name) for change in found.nearest if not (was_edited and change.name == CODE)]
        names = ", ".join(differ[:_MOST_NAMED])
        others = ", …" if len(differ) > _MOST_NAMED else ""
        differing = [f"with another {names}{others}"] * bool(names) + ["of an earlier script"] * was_edited
        evidence = f"own history, {_count(siblings.runs)} {', '.join(differing) or 'with other options'}"
        return Forecast(
            peak_utilization_pct=None if shown is None or found.load is None else growth.busier(shown, found.load),
            peak_memory_bytes=point,
            upper_memory_bytes=upper,
            duration_p50_s=half,
            duration_p90_s=longest,
            evidence=f"{evidence}{'; too far to bound memory' if upper is None else ''}{_foreign_load(siblings.runs)}",
            model_version=self.version,
        )

    def _from_dry_run(
        self, traced: LayerTerms, device_type: str, otherwise: Forecast, runs: list[MeasuredRun]
    ) -> Forecast:
        """`otherwise` with the memory that a dry run counted, and with a whole device as utilisation where that is unknown."""
        counted = on_device(traced, device_type, TRACED)
        point, upper = _ordered(counted.point, counted.upper, runs, self._learning.quantile)
        known = "" if otherwise.evidence == "none" else f"; else {otherwise.evidence}"
        return replace(
            otherwise,
            peak_utilization_pct=100.0 if otherwise.peak_utilization_pct is None else otherwise.peak_utilization_pct,
            peak_memory_bytes=point,
            upper_memory_bytes=upper,
            evidence=f"memory from {counted.evidence.removeprefix('layers of ')}{known}",
        )

    def _from_similar(
        self,
        new_kind: NewKindForecast,
        layers: LayerForecast | None,
        off: float,
        own: Forecast,
        runs: list[MeasuredRun],
    ) -> Forecast:
        """A forecast from similar kinds and from the layers; unfinished runs of its own are lower bounds.

        `off` is as `footprint.blended` takes it.
        """
        seen = [run.peak_utilization_pct for run in runs if run.peak_utilization_pct is not None]
        memory = new_kind.memory if new_kind.memory is None or layers is None else blended(new_kind.memory, layers, off)
        point, upper = (None, None) if memory is None else _ordered(*memory, runs, self._learning.quantile)
        likeliest = own.expected_utilization_pct
        if likeliest is None and new_kind.utilization is not None:
            likeliest = new_kind.utilization[0]
        return Forecast(
            peak_utilization_pct=None if new_kind.utilization is None else max([new_kind.utilization[1], *seen]),
            expected_utilization_pct=likeliest,
            peak_memory_bytes=point,
            upper_memory_bytes=upper,
            duration_p50_s=own.duration_p50_s or (new_kind.duration and new_kind.duration[0]),
            duration_p90_s=own.duration_p90_s or (new_kind.duration and new_kind.duration[1]),
            evidence=new_kind.tier.evidence + ("" if layers is None else f"; {layers.evidence}"),
            model_version=self.version,
            power_w=own.power_w,
        )


def _likeliest_utilization(
    peak_predictor: PeakPredictor | None,
    jobs: Sequence[tuple[str, JobFeatures]],
    comparable: Sequence[tuple[Sequence[MeasuredRun], bool]],
) -> list[float | None]:
    """The likeliest utilisation of each job with runs of the same work, in percent; of the others None.

    It is drawn from the runs towards what similar kinds showed: with one or two that is closer to the truth than their median.
    """
    shown = [measured(used, "peak_utilization_pct") if same else [] for used, same in comparable]
    if peak_predictor is None:
        return [median(values) if values else None for values in shown]
    kinds = [(*job, values) for job, values in zip(jobs, shown, strict=True) if values]
    expected = iter(peak_predictor.expected_utilization(kinds))
    return [next(expected) if values else None for values in shown]


def _count(used: Sequence[MeasuredRun]) -> str:
    return f"{len(used)} {'run' if len(used) == 1 else 'runs'}"


def _shown(setting: str) -> str:
    """The name of a setting for a user. Values are left out: forecasts are shown to users who may not see the command."""
    name = setting.removeprefix(CHOSEN).removesuffix("-repeated")
    return (
        f"-{name}"
        if len(name) == 1
        else name.replace("argument-", "argument ").replace("-proportions", " (proportions)")
    )


def _that_goes_on(used: Sequence[MeasuredRun]) -> str:
    return f"own history, {_count(used)} that {'goes' if len(used) == 1 else 'go'} on, memory level so far"


def _foreign_load(used: Sequence[MeasuredRun]) -> str:
    """A remark if these runs give only an upper limit of utilisation, since other processes kept the device busy."""
    only_bound = not measured(used, "peak_utilization_pct") and measured(used, "utilization_at_most")
    return "; utilisation at most, it only ran beside foreign load" if only_bound else ""


def _ordered(point: float, upper: float, runs: list[MeasuredRun], quantile: float) -> tuple[int, int]:
    """(point, upper) in whole bytes: at least what an unfinished run needed, the bound at least the point."""
    partly = [run.peak_memory_bytes for run in runs if not run.whole and run.peak_memory_bytes is not None]
    if partly:
        point = max(point, *partly)
        upper = max(upper, upper_bound([max(partly)], quantile, SAME_KIND_MEMORY))
    return round(point), max(round(point), round(upper))
