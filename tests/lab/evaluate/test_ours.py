"""gpuq's own learning as a method: what serves, refitted on what is known."""

from __future__ import annotations

import numpy as np
import pytest

from gpuq.lab.evaluate import ours as ours_module
from gpuq.lab.evaluate.answers import Directed
from gpuq.lab.evaluate.ours import ours, slowdowns
from gpuq.lab.measured import SingleMeasurement
from gpuq.learn.interference import fit as fit_module
from tests.lab.evaluate import tables


def directed(seed: int = 0) -> list[Directed]:
    alone = tables.singles()
    named = {single.job: single for single in alone}
    return [
        Directed(named[a], named[b], value)
        for pair in tables.pairs(alone, seed=seed)
        for a, b, value in ((pair.job_a, pair.job_b, pair.slowdown_a), (pair.job_b, pair.job_a, pair.slowdown_b))
        if value is not None
    ]


def test_measured_pair_is_predicted_as_measured() -> None:
    rows = directed()
    answer = slowdowns(rows)([(row.job, row.beside) for row in rows])
    measured = np.array([row.slowdown for row in rows])
    assert np.mean(np.abs(answer.point - measured) / measured) < 0.05
    assert np.mean(measured <= answer.upper) >= 0.9
    assert (answer.upper >= answer.point).all()


def test_unknown_jobs_get_an_answer() -> None:
    answer = slowdowns(directed())(
        [(SingleMeasurement("V100", "new", "new"), SingleMeasurement("V100", "newer", "newer"))]
    )
    assert np.isfinite(answer.point).all()
    assert np.isfinite(answer.upper).all()


def test_without_any_pair_the_law_answers_where_both_utilisations_are_known() -> None:
    light, dark = SingleMeasurement("V100", "a", "a", utilization_pct=30), SingleMeasurement("V100", "b", "b")
    answer = slowdowns([])([(light, light), (light, dark)])
    assert 1 <= answer.point[0] <= answer.upper[0]
    assert np.isnan(answer.point[1])
    assert answer.admitted(1.15).tolist() == [True, False]


def test_with_one_model_in_all_nothing_is_left_to_train_with() -> None:
    memory = ours().memory
    assert memory is not None
    assert np.isnan(memory([], np.array([]))(tables.singles()[:1]).point).all()


def test_peaks_of_another_batch_size_of_a_known_model() -> None:
    known = tables.singles(batches=(8, 16, 64))
    question = SingleMeasurement("V100", "VGG16:32", "VGG16", batch_size=32)
    gpuq = ours()
    assert gpuq.utilization is not None
    assert gpuq.memory is not None
    utilization = gpuq.utilization(known, np.array([single.utilization_pct for single in known]))([question])
    memory = gpuq.memory(known, np.array([single.peak_memory_mib for single in known]))([question])
    # The world of these tables: 80% and five more with 16 of the batch; 2,100 MiB and ten more with each one.
    assert utilization.point[0] == pytest.approx(90, abs=8)
    assert memory.point[0] == pytest.approx(2420, rel=0.1)
    assert utilization.upper[0] >= utilization.point[0]
    assert memory.upper[0] >= memory.point[0]


def test_a_large_table_loses_no_job_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows come in the order of names; with room for a fifth of them, the first names keep as many pairs as the last."""
    monkeypatch.setattr(fit_module, "MOST_PAIRS", 80)
    jobs = [SingleMeasurement("V100", f"job {place:02}", f"job {place:02}", utilization_pct=50) for place in range(20)]
    given: list[dict[tuple[str, str], list[float]]] = []

    def fit(profiles: object, measured: dict[tuple[str, str], list[float]], *_: object) -> None:
        given.append(dict(fit_module._chosen(measured)))

    monkeypatch.setattr(ours_module, "fit", fit)
    slowdowns([Directed(a, b, 1.1) for a in jobs for b in jobs])
    (kept,) = given
    early = sum((a < "job 10") + (b < "job 10") for a, b in kept)

    assert len(kept) == 80
    assert early == pytest.approx(80, abs=16)


def test_what_the_command_says_of_a_job_counts_for_its_memory() -> None:
    """Of a network that no row is of, at a size of images that its model and batch size do not tell."""

    def single(
        model: str, batch: int, side: int, memory: float | None = None, *, with_command: bool
    ) -> SingleMeasurement:
        command = f"python train.py --model {model} --batch-size {batch} --image-size {side}" if with_command else None
        return SingleMeasurement(
            "V100", f"{model}:{batch}", model, batch_size=batch, peak_memory_mib=memory, family="train", command=command
        )

    def expected(side: int, with_command: bool) -> float:
        # A context of 800 MiB, weights of 100 and 20 a picture of 224 by 224.
        known = [
            single(model, b, 224, 900 + 20 * b, with_command=with_command)
            for model in ("resnet50", "resnet34")
            for b in (8, 16, 32)
        ]
        memory = ours().memory
        assert memory is not None
        asked = single("resnet101", 16, side, with_command=with_command)
        return float(memory(known, np.array([one.peak_memory_mib for one in known]))([asked]).point[0])

    assert expected(448, with_command=True) > 1.1 * expected(224, with_command=True)
    assert expected(448, with_command=False) == expected(224, with_command=False)


def test_too_few_singles_are_no_evidence() -> None:
    memory = ours().memory
    assert memory is not None
    one = tables.singles()[:1]
    assert np.isnan(memory(one, np.array([1.0]))(one).point).all()
