import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.learn.transfer.features import distance, groups, place

WORDS = st.text(alphabet="abAB_", max_size=8)


@pytest.mark.parametrize(
    ("one", "other", "edits"), [("kitten", "sitting", 3), ("", "abc", 3), ("Relu", "Relu6", 1), ("Conv2D", "Conv2D", 0)]
)
def test_the_distance_counts_edits(one, other, edits):
    assert distance(one, other) == edits


@given(WORDS, WORDS, WORDS)
def test_the_distance_is_a_metric(a, b, c):
    assert distance(a, b) == distance(b, a)
    assert (distance(a, b) == 0) == (a == b)
    assert distance(a, c) <= distance(a, b) + distance(b, c)


def test_names_spelt_alike_are_a_group_whatever_their_order():
    names = ["FusedBatchNormV3", "Conv2DBackpropFilter", "FusedBatchNormGradV3", "Conv2DBackpropInput", "Relu", "Relu6"]
    found = groups(names, cut=7)
    assert ("FusedBatchNormGradV3", "FusedBatchNormV3") in found
    assert ("Conv2DBackpropFilter", "Conv2DBackpropInput") in found
    assert groups(reversed(names), cut=7) == found
    assert sorted(name for members in found for name in members) == sorted(names)


def test_new_name_is_placed_in_the_nearest_group_or_none():
    among = (("Conv2D", "Conv3D"), ("FusedBatchNormGradV3", "FusedBatchNormV3"))
    assert place("Conv2D", among) == 0
    assert place("FusedBatchNormV2", among) == 1
    assert place("ResourceApplyGradientDescentWithMomentum", among) is None


def test_one_name_or_none_needs_no_grouping():
    assert groups(["Relu"]) == (("Relu",),)
    assert groups([]) == ()
