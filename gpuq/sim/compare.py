"""Several contenders over several seeds, each run in a process of its own where there are cores for it.

Arrives: what is to be played, in plain values, so that every process makes it anew and gets the same. Leaves: figures and
sketches, in the order of contenders and seeds, whichever run ends first.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
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
from gpuq.sim.run import Simulation
from gpuq.sim.scenario import open_scenario
from gpuq.sim.scenario_builder import Scenario

Forecasts = Literal["learned", "oracle", "cold"]
_LOOK_EVERY_S = 0.1
Progress = Callable[[Sequence[float]], None]


@dataclass(frozen=True)
class Comparison:
    """What is to be played. None is the scenario's own default. `tried` are settings as they were asked for, to be told."""

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
        """The contender that the others are compared with."""
        return self.candidates[0]

    @property
    def main(self) -> str:
        """The contender that the report is about: the one that the settings name, else the last."""
        chosen = self.settings.scheduling.policy
        return chosen if chosen in self.candidates else self.candidates[-1]

    @property
    def chain(self) -> tuple[tuple[str, str], ...]:
        """From a queue that shares nothing to the contender that the report is about: names, and what each adds; empty unless
        all of them play."""
        steps = usual(self.main)
        return tuple(steps.items()) if set(steps) <= set(self.candidates) else ()

    @property
    def tasks(self) -> list[tuple[str, int]]:
        """(contender, seed) of each run, in the order in which they are reported."""
        return list(product(self.candidates, self.seeds))


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run, as far as the report needs it."""

    figures: RunFigures
    plot_data: PlotData
    notes: tuple[str, ...]


def compare(asked: Comparison, *, processes: int | None = None, progress: Progress | None = None) -> list[ComparedRun]:
    """All runs. `progress` is told now and then the share done of each. Raises what making or playing a scenario raises."""
    tasks = asked.tasks
    many = min(len(tasks), processes or len(os.sched_getaffinity(0)))
    if many <= 1:
        return list(_one_by_one(asked, tasks, progress))
    return _side_by_side(asked, tasks, many, progress)


def play(asked: Comparison, name: str, seed: int, progress: Callable[[float], None] | None = None) -> ComparedRun:
    """One contender on one seed."""
    scenario = _scenario(asked, seed)
    candidate = candidate_named(name, asked.settings, scenario.world)
    run = Simulation(scenario.trace, scenario.world, _forecaster(asked, scenario, seed), candidate, seed=seed).play(
        progress
    )
    found = figures(run, budget=asked.budget, prices=asked.settings.scheduling)
    return ComparedRun(replace(found, possible_saving=_possible(asked, seed)), plot_data(run), tuple(run.notes))


def _forecaster(asked: Comparison, scenario: Scenario, seed: int) -> Forecaster:
    match asked.forecasts:
        case "oracle":
            return Oracle(scenario.world)
        case "cold":
            return Cold()
        case "learned":
            from gpuq.sim.learned import Learned

            return Learned(scenario.world, asked.settings.learning, asked.settings.admission, seed=seed)


@lru_cache(maxsize=2)
def _opened(source: str, options: tuple[tuple[str, Any], ...]) -> Scenario:
    return open_scenario(source, **dict(options))


@lru_cache(maxsize=2)
def _bound(source: str, options: tuple[tuple[str, Any], ...], limits: Limits) -> float | None:
    return possible_saving(_opened(source, options), limits)


def _scenario(asked: Comparison, seed: int) -> Scenario:
    return _opened(asked.source, _options(asked, seed))


def _possible(asked: Comparison, seed: int) -> float | None:
    """It is the scenario's, the same for all contenders."""
    return _bound(asked.source, _options(asked, seed), asked.settings.admission)


def _options(asked: Comparison, seed: int) -> tuple[tuple[str, Any], ...]:
    return (("world", asked.world), ("gpus", asked.gpus), ("load", asked.load), ("jobs", asked.jobs), ("seed", seed))


def _one_by_one(
    asked: Comparison, tasks: Sequence[tuple[str, int]], progress: Progress | None
) -> Iterator[ComparedRun]:
    shares = [0.0] * len(tasks)

    def tell(place: int, share: float) -> None:
        shares[place] = share
        if progress is not None:
            progress(shares)

    for place, (name, seed) in enumerate(tasks):
        yield play(asked, name, seed, partial(tell, place))


# --- several processes ---------------------------------------------------------------------------------------------

_shares: Any = None


def _side_by_side(
    asked: Comparison, tasks: Sequence[tuple[str, int]], many: int, progress: Progress | None
) -> list[ComparedRun]:
    # Spawned, not forked: a library of the parent may have threads by now.
    context = multiprocessing.get_context("spawn")
    shares = context.Array(c_double, len(tasks), lock=False)
    pool = ProcessPoolExecutor(many, mp_context=context, initializer=_begin, initargs=(shares,))
    try:
        futures = [pool.submit(_play_there, asked, place, *task) for place, task in enumerate(tasks)]
        _watch(futures, shares, progress)
        return [future.result() for future in futures]
    except BrokenProcessPool as error:
        raise Failure(
            "A process of the simulation was ended from outside.",
            fix="If it needed more memory than there is, play less: --jobs 1000, fewer --seeds.",
        ) from error
    finally:
        # Nobody waits for the rest when one has failed, or on Ctrl-C.
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()


def _watch(futures: Sequence[Future[ComparedRun]], shares: Any, progress: Progress | None) -> None:
    """Until all have ended, or one has failed."""
    while True:
        done, running = wait(futures, _LOOK_EVERY_S)
        if progress is not None:
            progress(list(shares))
        if not running or any(future.exception() for future in done):
            return


def _begin(shares: Any) -> None:
    global _shares  # noqa: PLW0603 - a pool hands things to its processes in no other way
    _shares = shares
    # Ctrl-C is for the process that the person sees: this one goes without a word.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _play_there(asked: Comparison, place: int, name: str, seed: int) -> ComparedRun:
    told_at = 0.0

    def tell(share: float) -> None:
        nonlocal told_at
        if share >= 1 or time.monotonic() - told_at >= _LOOK_EVERY_S:
            _shares[place], told_at = share, time.monotonic()

    return play(asked, name, seed, tell)


def check(asked: Comparison) -> None:
    """Raises BadInput before anything is played, where a contender or the scenario cannot be made."""
    scenario = _scenario(asked, asked.seeds[0])
    if not scenario.trace.arrivals:
        raise Failure("There is no job to simulate.")
    for name in asked.candidates:
        candidate_named(name, asked.settings, scenario.world)
