"""Several candidates and seeds: the same figures on any number of processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gpuq.errors import BadInput
from gpuq.settings import load
from gpuq.sim.compare import Comparison, check, compare
from gpuq.sim.named import usual
from gpuq.sim.report.figures import RunFigures

CSV = "submit_s,duration_s,num_gpus,kind,user\n" + "".join(
    f"{40 * n},{300 + 60 * (n % 5)},1,kind{n % 3},user{n % 2}\n" for n in range(40)
)


@pytest.fixture
def comparison(tmp_path: Path) -> Comparison:
    """Forty small jobs on two devices, in the world of the law, all known."""
    trace = tmp_path / "jobs.csv"
    trace.write_text(CSV)
    settings = load({"GPUQ_HOME": str(tmp_path)})
    return Comparison(
        tuple(usual("packed")), settings, str(trace), world="law", gpus=2, seeds=(1, 2), forecasts="oracle"
    )


def without_clock(found: RunFigures) -> RunFigures:
    """Real time differs from run to run."""
    return replace(found, decision_median_s=None, decision_p99_s=None)


def test_runs_are_in_order_of_candidate_and_seed_and_progress_is_reported(comparison: Comparison) -> None:
    reported: list[list[float]] = []

    def show_progress(shares: Sequence[float]) -> None:
        reported.append(list(shares))

    runs = compare(comparison, processes=1, progress=show_progress)
    assert [(one.figures.policy, one.figures.seeds) for one in runs] == [
        (name, (seed,)) for name in comparison.candidates for seed in (1, 2)
    ]
    assert reported[-1] == [1.0] * len(runs)
    assert reported == sorted(reported)


def test_several_processes_give_the_same_figures_as_one(comparison: Comparison) -> None:
    few = replace(comparison, candidates=("exclusive-fifo", "packed"), seeds=(1,))
    here, there = compare(few, processes=1), compare(few, processes=2)
    assert [without_clock(one.figures) for one in here] == [without_clock(one.figures) for one in there]
    assert [one.plot_data for one in here] == [one.plot_data for one in there]


def test_without_sharing_nothing_is_saved_and_no_job_is_slowed(comparison: Comparison) -> None:
    few = replace(comparison, candidates=("exclusive-fifo", "packed-exclusive"), seeds=(1,))
    for one in compare(few, processes=1):
        assert (one.figures.sharing_jobs, one.figures.slowdown_worst) == (0, pytest.approx(1))
        assert one.figures.gpu_hours_saved == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(("level_after_s", "waits_s"), [("600", 600), ("0", 36_000)])
def test_a_job_that_runs_is_evidence_for_the_next_of_its_kind_as_in_the_daemon(
    tmp_path: Path, level_after_s: str, waits_s: float
) -> None:
    """Else every first job of a kind would have its device alone for hours that it shares in the real queue."""
    trace = tmp_path / "jobs.csv"
    trace.write_text("submit_s,duration_s,num_gpus,kind\n0,36000,0.2,small\n0,36000,0.2,small\n")
    settings = load({"GPUQ_HOME": str(tmp_path), "GPUQ_LEARNING_LEVEL_AFTER_S": level_after_s})
    (one,) = compare(Comparison(("packed",), settings, str(trace), world="law", gpus=1), processes=1)
    assert one.figures.wait_mean_s == pytest.approx(waits_s / 2)


def test_unknown_candidate_is_refused_before_playing(comparison: Comparison) -> None:
    with pytest.raises(BadInput, match="no policy or rival `missing`"):
        check(replace(comparison, candidates=("packed", "missing")))


def test_the_main_candidate_is_that_of_the_settings_and_the_first_is_compared_with(comparison: Comparison) -> None:
    assert (comparison.baseline, comparison.main) == ("exclusive-fifo", "packed")
    assert [adds for _, adds in comparison.chain] == ["", "order", "backfill", "sharing"]
    other = replace(comparison, candidates=("fifo", "shortest"))
    assert (other.baseline, other.main, other.chain) == ("fifo", "shortest", ())
