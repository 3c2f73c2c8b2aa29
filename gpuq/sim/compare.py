"""Plays several candidates over several seeds, each run in a process of its own where there are cores for it.

A `Comparison` holds plain values only, so that every process builds the same scenario and candidate from it. Results come in
the order of candidates and seeds, whichever run ends first, and are the same on any number of processes.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from ctypes import c_double
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from typing import Any, Literal

from gpuq.core.scheduling.limits import Limits
from gpuq.errors import Failure
from gpuq.settings import Settings
from gpuq.sim.bound import possible_saving
from gpuq.sim.forecaster import Cold, Forecaster, Oracle
from gpuq.sim.named import candidate_named, usual
from gpuq.sim.report.figures import RunFigures, figures
from gpuq.sim.report.plot_data import PlotData, plot_data
from gpuq.sim.run import simulate
from gpuq.sim.scenario import open_scenario
from gpuq.sim.scenario_builder import Scenario

Forecasts = Literal["learned", "oracle", "cold"]
_PROGRESS_EVERY_S = 0.1
Progress = Callable[[Sequence[float]], None]
# Source, world, devices, load, jobs, seed.
ScenarioArguments = tuple[str, str | None, int | None, float | None, int | None, int]


@dataclass(frozen=True)
class Comparison:
    """What to play. None means the scenario's own default. `tried`: settings that the user overrode, for the report's notes."""

    candidates: tuple[str, ...]
    settings: Settings
    source: str = "history"
    world: str | None = None
    gpus: int | None = None
    load: float | None = None
    jobs: int | None = None
    seeds: tuple[int, ...] = (1,)
    forecasts: Forecasts = "learned"
    budget: float = 1.2
    tried: tuple[str, ...] = ()

    @property
    def baseline(self) -> str:
        """The name of the candidate that the others are compared with: the first."""
        return self.candidates[0]

    @property
    def main(self) -> str:
        """The name of the candidate that the report is about: the policy of the settings if it plays, else the last."""
        chosen = self.settings.scheduling.policy
        return chosen if chosen in self.candidates else self.candidates[-1]

    @property
    def chain(self) -> tuple[tuple[str, str], ...]:
        """The steps from the baseline to `main`, as names and what each adds; empty unless all of them play."""
        steps = usual(self.main)
        return tuple(steps.items()) if set(steps) <= set(self.candidates) else ()

    def scenario(self, seed: int) -> ScenarioArguments:
        """The arguments that the scenario of this seed is opened with."""
        return self.source, self.world, self.gpus, self.load, self.jobs, seed

    @property
    def tasks(self) -> list[tuple[str, int]]:
        """(candidate, seed) of each run, in the order of the results."""
        return list(product(self.candidates, self.seeds))


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """What the report needs of one run. `fault` is as in `SimulationRun`."""

    figures: RunFigures
    plot_data: PlotData
    notes: tuple[str, ...]
    fault: str | None = None


def compare(
    comparison: Comparison, *, processes: int | None = None, progress: Progress | None = None
) -> list[ComparedRun]:
    """Play everything. `progress` is called from time to time with the share done of each run, 0 to 1.

    Raises what building or playing a scenario raises, and Failure where a process was killed.
    """
    tasks = comparison.tasks
    many = min(len(tasks), processes or len(os.sched_getaffinity(0)))
    if many > 1:
        return _side_by_side(comparison, tasks, many, progress)
    shares = [0.0] * len(tasks)

    def show_progress(place: int, share: float) -> None:
        shares[place] = share
        if progress is not None:
            progress(shares)

    return [play(comparison, *task, partial(show_progress, place)) for place, task in enumerate(tasks)]


def play(comparison: Comparison, name: str, seed: int, progress: Callable[[float], None] | None = None) -> ComparedRun:
    """Play one candidate on one seed, in this process."""
    scenario, settings = _scenario(comparison.scenario(seed)), comparison.settings
    candidate = candidate_named(name, settings, scenario.world)
    forecaster: Forecaster
    match comparison.forecasts:
        case "oracle":
            forecaster = Oracle(scenario.world)
        case "cold":
            forecaster = Cold()
        case "learned":
            from gpuq.sim.learned import Learned

            forecaster = Learned(scenario.world, settings.learning, settings.admission, seed=seed)
    parts = scenario.trace, scenario.world, forecaster, candidate
    level_after_s = settings.learning.level_after_s or None
    run = simulate(*parts, seed=seed, progress=progress, level_after_s=level_after_s)
    found = figures(run, budget=comparison.budget, prices=settings.scheduling)
    bound = _saving_bound(comparison.scenario(seed), settings.admission)
    return ComparedRun(replace(found, possible_saving=bound), plot_data(run), tuple(run.notes), run.fault)


def hide_faults() -> None:
    """Log no fault of a policy in this process: the report names it, and the log's advice is for a dispatcher."""
    if not os.environ.get("GPUQ_DEBUG"):
        logging.getLogger("gpuq.policies.guard").addHandler(logging.NullHandler())


# The candidates of one seed share a scenario and its bound, so both are computed once for each seed in a process.
@lru_cache(maxsize=2)
def _scenario(arguments: ScenarioArguments) -> Scenario:
    source, world, gpus, load, jobs, seed = arguments
    return open_scenario(source, world=world, gpus=gpus, load=load, jobs=jobs, seed=seed)


@lru_cache(maxsize=2)
def _saving_bound(arguments: ScenarioArguments, limits: Limits) -> float | None:
    return possible_saving(_scenario(arguments), limits)


# --- several processes ---------------------------------------------------------------------------------------------

_shares: Any = None


def _side_by_side(
    comparison: Comparison, tasks: Sequence[tuple[str, int]], many: int, progress: Progress | None
) -> list[ComparedRun]:
    # Spawned, not forked: a library of the parent may have started threads, which a fork would break.
    context = multiprocessing.get_context("spawn")
    shares: Any = context.Array(c_double, len(tasks), lock=False)
    pool = ProcessPoolExecutor(many, mp_context=context, initializer=_begin, initargs=(shares,))
    try:
        futures = [pool.submit(_play_there, comparison, place, *task) for place, task in enumerate(tasks)]
        # Until all runs have ended, or one has failed.
        running: Collection[Future[ComparedRun]] = futures
        failed = False
        while running and not failed:
            done, running = wait(futures, _PROGRESS_EVERY_S)
            failed = any(future.exception() for future in done)
            if progress is not None:
                progress(list(shares))
        return [future.result() for future in futures]
    except BrokenProcessPool as error:
        raise Failure(
            "A process of the simulation was ended from outside.",
            fix="If it needed more memory than there is, play less: --jobs 1000, fewer --seeds.",
        ) from error
    finally:
        # When one run has failed, or on Ctrl-C, the others are not waited for.
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()


def _begin(shares: Any) -> None:
    global _shares  # noqa: PLW0603 - the only way to pass shared memory to a pool's processes
    _shares = shares
    hide_faults()
    # On Ctrl-C the parent reports; this process ends silently.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _play_there(comparison: Comparison, place: int, name: str, seed: int) -> ComparedRun:
    shown_at = 0.0

    def show_progress(share: float) -> None:
        nonlocal shown_at
        if share >= 1 or time.monotonic() - shown_at >= _PROGRESS_EVERY_S:
            _shares[place], shown_at = share, time.monotonic()

    return play(comparison, name, seed, show_progress)


def check(comparison: Comparison) -> None:
    """Raises BadInput, before anything is played, where the scenario or a candidate cannot be built."""
    scenario = _scenario(comparison.scenario(comparison.seeds[0]))
    if not scenario.trace.arrivals:
        raise Failure("There is no job to simulate.")
    for name in comparison.candidates:
        candidate_named(name, comparison.settings, scenario.world)
