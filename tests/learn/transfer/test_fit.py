from importlib.util import find_spec

import msgspec
import numpy as np
import pytest

from gpuq.errors import BadInput
from gpuq.learn.transfer import fit
from gpuq.learn.transfer.carrier import Carrier
from tests.learn.transfer.world import NEW, jobs, measured

# Not `importorskip`: the import takes two seconds, in each process that collects tests.
pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="scikit-learn is in the extra `train`")


@pytest.fixture(scope="module")
def trained():
    """Each way to train, on the same twelve kinds."""
    found = jobs(12)
    return {both: fit.carrier(measured(found, both=both)) for both in (False, True)}


def errors(carrier, found):
    asked = measured(found)
    carried_ratios = carrier.ratios(asked.profiles, asked.step_s)[NEW]
    truth = np.array(asked.target_s[NEW]) / np.array(asked.step_s)
    return np.abs(carried_ratios[:, 0] / truth - 1).mean(), (truth <= carried_ratios[:, 1]).mean(), truth


@pytest.mark.parametrize("both", [False, True])
def test_carrier_beats_one_ratio_on_new_kinds(trained, both):
    error, covered, truth = errors(trained[both], jobs(6, seed=5))
    constant = np.abs(np.median(truth) / truth - 1).mean()
    assert error < 0.6 * constant
    assert covered >= 0.9


def test_op_times_on_both_types_help(trained):
    new = jobs(6, seed=5)
    assert errors(trained[True], new)[0] < errors(trained[False], new)[0]


def test_carrier_survives_json(trained):
    again = msgspec.json.decode(msgspec.json.encode(trained[True]), type=Carrier)
    asked = measured(jobs(2, seed=9))
    before, after = (one.ratios(asked.profiles, asked.step_s)[NEW] for one in (trained[True], again))
    assert np.array_equal(before, after)


def test_the_same_rows_give_the_same_carrier(trained):
    assert fit.carrier(measured(jobs(12))) == trained[False]


def test_too_few_kinds_are_refused_with_the_number():
    with pytest.raises(BadInput, match="5 kinds were measured on both types; 6 are needed"):
        fit.carrier(measured(jobs(5)))


def test_the_margin_counts_kinds_not_rows():
    kinds = np.repeat(["a", "b", "c", "d"], 100)
    residuals = np.repeat([-0.1, -0.1, 0.1, 0.1], 100)
    assert fit.margin(residuals, kinds, 0.95) > 0.2
    assert fit.margin(residuals, np.arange(400).astype(str), 0.95) < 0.2
    assert fit.margin(-np.ones(400), kinds, 0.95) == 0.0
