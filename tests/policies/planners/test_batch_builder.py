"""A batch holds what admission allows, valued in weighted completions per hour."""

import numpy as np
import pytest
from hypothesis import given

from gpuq.core.scheduling.admit import admit
from gpuq.core.scheduling.limits import Limits
from gpuq.policies.planners.batch import NO_PARTNER, Batch
from gpuq.policies.planners.batch_builder import build_batch, foremost
from gpuq.policies.planners.pairing import USUAL_SLOWDOWN, PairBook
from tests.policies.shop import Shop, drawn, seeds, slowdown, tried, work


def values_by_jobs(batch: Batch) -> dict[tuple[int, ...], float]:
    """The value of each option by the ids of the jobs that it starts."""
    started = ([a] if b == NO_PARTNER else [a, b] for a, b in zip(batch.first, batch.second, strict=True))
    return {tuple(int(batch.jobs[i].id) for i in ids): float(v) for ids, v in zip(started, batch.value, strict=True)}


def test_job_on_idle_device_is_worth_its_completions_per_hour() -> None:
    shop = Shop(1)
    shop.submit(work(1, hours=0.5), work(2, hours=4))
    worth = values_by_jobs(shop.batch(PairBook()))
    assert worth[1,] == 2
    assert worth[2,] == 0.25


def test_pair_is_worth_both_jobs_minus_their_slowdowns() -> None:
    shop = Shop(1)
    shop.submit(work(1, hours=4), work(2, hours=0.5))
    worth = values_by_jobs(shop.batch())
    assert worth[2, 1] == pytest.approx((2 + 0.25) / slowdown("light", "light"))  # the one with the higher rate starts


def test_unknown_pair_is_judged_by_load_with_the_usual_slowdown() -> None:
    """Light and heavy are 110% together, which the budget allows; heavy and middling 140%."""
    shop = Shop(1)
    shop.submit(work(1, "heavy"), work(2, "light"), work(3, "light"), work(4, "middling"))
    worth = values_by_jobs(shop.batch(PairBook()))
    assert worth[2, 3] == worth[1, 2] == pytest.approx(2 / USUAL_SLOWDOWN)
    assert (1, 4) not in worth
    assert (4, 1) not in worth


def test_pair_worth_less_than_one_of_its_jobs_is_no_option() -> None:
    shop = Shop(1)
    shop.submit(work(1, hours=0.1), work(2, hours=50))
    assert set(values_by_jobs(shop.batch())) == {(1,), (2,)}


def test_residents_loss_is_subtracted() -> None:
    shop = Shop(1)
    shop.start(work(9, hours=2), "h0/0")
    shop.submit(work(1, hours=1))
    batch = shop.batch()
    cost = slowdown("light", "light")
    assert values_by_jobs(batch)[1,] == pytest.approx(1 / cost - 0.5 * (1 - 1 / cost))
    assert batch.worth[0, 0] == pytest.approx(1 / cost)


def test_no_option_where_admission_refuses() -> None:
    shop = Shop(1)
    shop.start(work(9, "heavy"), "h0/0")
    shop.submit(work(1, "heavy"))
    assert shop.batch().size == 0


def test_gang_needs_devices_of_one_host_and_the_fast_type_is_worth_more() -> None:
    shop = Shop(2, 1, 2, types="AAB")
    shop.submit(work(1, hours=1, device_count=2))
    batch = shop.batch()
    assert sorted(batch.value) == [1, 2]
    assert list(batch.devices) == [2, 2]


def test_gang_may_join_a_resident_on_one_of_its_devices() -> None:
    shop = Shop(2)
    shop.start(work(9, hours=2), "h0/0")
    shop.submit(work(1, hours=1, device_count=2))
    cost = slowdown("light", "light")
    assert values_by_jobs(shop.batch())[1,] == pytest.approx(1 / cost - 0.5 * (1 - 1 / cost))


def test_gang_is_as_slow_as_on_its_slowest_device() -> None:
    shop = Shop(2)
    shop.start(work(9, hours=2), "h0/0")
    batch = shop.batch()
    assert batch.size == 0
    shop.submit(work(1, hours=1, device_count=2))
    assert shop.batch().worth[0, 0] == pytest.approx(1 / slowdown("light", "light"))


def test_priority_weighs_ten_times_the_next_lower_one() -> None:
    shop = Shop(1)
    shop.submit(work(1, priority=3), work(2, priority=-1), work(3, priority=8))
    worth = values_by_jobs(shop.batch())
    assert [worth[n,] for n in (2, 1, 3)] == pytest.approx([1, 10, 100])


def test_unknown_duration_is_the_median_and_the_shortest_a_minute() -> None:
    shop = Shop(1)
    shop.submit(work(1, hours=None), work(2, hours=2), work(3, hours=0.0001))
    worth = values_by_jobs(shop.batch())
    assert worth[3,] == pytest.approx(60)
    assert worth[1,] == pytest.approx(2 / 2.0001)


def test_without_jobs_or_devices_the_batch_is_empty() -> None:
    shop = Shop(1)
    assert shop.batch().size == 0
    shop.submit(work(1))
    assert build_batch(shop.context(), [], shop.context().snapshots, PairBook()).size == 0
    assert build_batch(shop.context(), shop.context().waiting, [], PairBook()).size == 0


def test_exclusive_devices_have_no_pairs() -> None:
    shop = Shop(1, limits=Limits(residents_per_device=1))
    shop.submit(work(1), work(2))
    assert set(values_by_jobs(shop.batch())) == {(1,), (2,)}


def test_foremost_orders_by_priority_then_by_waiting_time() -> None:
    jobs = [work(1), work(2, priority=1), work(3, submitted_at=0.0)]
    assert [job.id for job in foremost(jobs, 2)] == [2, 3]


def test_features_are_forecasts_and_unknown_ones_are_nan() -> None:
    shop = Shop(2)
    shop.start(work(9, "middling"), "h0/0")
    shop.submit(work(1, hours=None, submitted_at=900.0), work(2, "middling", 2, device_count=2, submitted_at=1000.0))
    batch = shop.batch()
    assert np.isnan(batch.job_features[0, 0])
    assert list(batch.job_features[0, 1:]) == [20, 1, 1, 100]
    assert list(batch.job_features[1]) == [7200, 50, 4, 2, 0]
    assert [1, 1, 0] in batch.slot_features.tolist()
    assert [1, 0, 50] in batch.slot_features.tolist()


@tried
@given(seeds)
def test_every_option_alone_is_admitted(seed: int) -> None:
    shop = drawn(seed)
    context, batch = shop.context(), shop.batch()
    for option in range(batch.size):
        job = batch.jobs[batch.first[option]]
        assert batch.allows(np.array([option]))
        assert batch.value[option] > 0
        rows = [r - len(batch.jobs) for r, c in zip(batch.rows[option], batch.counts[option], strict=True) if c]
        busy = [batch.slots[row].devices[0] for row in rows if row >= 0 and not batch.slots[row].idle]
        for device in busy:
            snapshot = context.snapshot(device.id)
            assert admit(job, context.forecast(job, snapshot), snapshot, context.limits).admitted
