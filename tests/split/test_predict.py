import numpy as np
import pytest

from gpuq.split.predict import best_share, interval, leaf_shares, log_loss


def test_the_loss_is_the_log_of_time_over_ideal():
    assert log_loss(0.5, np.array([0.5]))[0] == 0
    assert np.exp(log_loss(1.0, np.array([0.25]))[0]) == pytest.approx(4)
    assert np.exp(log_loss(0.0, np.array([0.25]))[0]) == pytest.approx(4 / 3)


def test_the_share_with_the_least_expected_loss_is_no_worse_than_the_mean():
    samples = np.array([0.02] * 7 + [0.9] * 3)
    chosen = best_share(samples)
    assert log_loss(chosen, samples).mean() < log_loss(samples.mean(), samples).mean()


def test_trees_find_a_share_that_depends_on_a_feature():
    features = np.array([[float(number % 2), float(number)] for number in range(60)])
    shares = np.where(features[:, 0] > 0, 0.9, 0.2)
    low, high = leaf_shares(features, shares, np.array([[0.0, 30.5], [1.0, 30.5]]), trees=50)
    assert low.mean() < 0.4
    assert high.mean() > 0.7


def test_an_interval_holds_its_part_of_the_samples():
    assert interval(np.arange(101) / 100, 0.9) == pytest.approx((0.05, 0.95))
    with pytest.raises(ValueError, match="coverage"):
        interval(np.arange(3.0), 1.0)
