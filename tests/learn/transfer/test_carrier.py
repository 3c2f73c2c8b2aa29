import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpuq.learn.transfer.carrier import Carrier, Members, added_up, blended
from gpuq.learn.transfer.features import op_ms, scaled
from gpuq.learn.transfer.members import Kernel
from gpuq.learn.transfer.profile import OpProfile

GROUPS = (("Conv2D", "Conv3D"), ("MatMul",))
TIMES = st.lists(st.floats(0.1, 1e4), min_size=3, max_size=3)


def test_features_of_a_profile_add_up_to_the_step():
    strange = OpProfile(device_us={"Conv2D": 10.0, "AnUnknownOperation": 30.0}, device_idle_us=10.0)
    row = op_ms([strange], [0.2], GROUPS)
    assert np.allclose(row, [[40.0, 0.0, 160.0]])
    assert scaled(row, np.array([0.2])).shape == (1, 7)


@given(TIMES, st.floats(-2, 2))
def test_step_ratio_equals_a_common_ratio_of_its_ops(times, log_ratio):
    rows = np.array([times])
    carried_ratios = added_up(np.full((1, 3), log_ratio), rows, rows.sum(axis=1) / 1000)
    # Half a tenth of a millisecond is added to each op, so that one without time has a ratio.
    assert abs(carried_ratios[0, 0] - log_ratio) < 0.3 * abs(log_ratio) + 1e-9 or rows.sum() < 5


def test_the_blend_is_the_mean_of_the_logs():
    opinions = {"kernel": np.array([[0.0, 1.0]]), "trees": np.array([[2.0, 5.0]])}
    assert blended(opinions, ("kernel", "trees"), 1).tolist() == [3.0]


def test_ratio_of_a_member_is_limited_to_100():
    wild = Kernel((0.0,) * 7, (1.0,) * 7, 1.0, ((0.0,) * 7,), ((0.0,),), (50.0,))
    carrier = Carrier("tensorflow", GROUPS, ("New GPU",), Members(kernel=wild), (("kernel",),), (0.5,))
    point, upper = carrier.ratios([OpProfile(device_us={"MatMul": 1.0})], [0.1])["New GPU"][0]
    assert abs(point - 100.0) < 1e-9
    assert upper > point
