"""What devices stored in copies of their own, over what the buffer held before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.split.memory import merge_block, pattern


@given(st.integers(1, 60), st.sampled_from([1, 2, 3, 4, 8]), st.integers(0, 2**32 - 1))
def test_every_store_of_either_device_is_in_the_result_whatever_its_value(elements, granule, seed):
    chance = np.random.default_rng(seed)
    before = chance.integers(0, 3, elements * granule, np.uint8)
    right, owns = before.copy(), [before.copy(), before.copy()]
    for number, device in enumerate(chance.integers(0, 3, elements)):
        if device < 2:  # the third part of the elements is stored to by none
            at = slice(number * granule, (number + 1) * granule)
            owns[device][at] = right[at] = chance.integers(0, 3, granule)
    merged = before.copy()
    assert not merge_block(merged, owns, before, granule, slice(0, len(before)))
    assert np.array_equal(merged, right)


@pytest.mark.parametrize("granule", [1, 4, 8])
def test_two_stores_to_one_element_are_noticed_though_they_change_different_bytes_of_it(granule):
    before = np.zeros(64, np.uint8)
    owns = [before.copy(), before.copy()]
    owns[0][16], owns[1][16 + granule - 1] = 1, 2
    assert merge_block(before.copy(), owns, before, granule, slice(0, 64))


def test_no_value_equals_both_patterns():
    assert (pattern(0, 1000) ^ pattern(1, 1000) == 0xFF).all()
