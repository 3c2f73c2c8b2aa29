import msgspec
import numpy as np
import pytest

from gpuq.learn.transfer import fit
from gpuq.learn.transfer.members import Forest, Kernel

CHANCE = np.random.default_rng(1)
ROWS, TARGETS = CHANCE.normal(size=(60, 4)), CHANCE.uniform(1, 5, size=(60, 2))


def back(member):
    """As it comes back from the shelf."""
    return msgspec.json.decode(msgspec.json.encode(member), type=type(member))


def test_forest_predicts_as_scikit_learn_does():
    ensemble = pytest.importorskip("sklearn.ensemble")
    trained = ensemble.ExtraTreesRegressor(20, random_state=0)
    forest = back(fit.forest_of(trained, ROWS, TARGETS))
    assert isinstance(forest, Forest)
    asked = CHANCE.normal(size=(30, 4))
    assert np.allclose(forest.predict(asked), trained.predict(asked))


def test_kernel_interpolates_training_rows_and_returns_to_the_mean():
    kernel = back(fit.kernel_of(ROWS, TARGETS))
    assert isinstance(kernel, Kernel)
    assert np.abs(kernel.predict(ROWS) - TARGETS).mean() < 0.3
    assert np.allclose(kernel.predict(np.full((1, 4), 1e6)), TARGETS.mean(axis=0))
