"""The values that a setting may have, and how they are said."""

import math

import pytest

from gpuq.core.scheduling.limits import Range


@pytest.mark.parametrize(
    ("values", "inside", "outside", "words"),
    [
        (Range(at_least=1), [1, 10**9], [0, 0.999, -3], "of at least 1"),
        (Range(above=0), [1e-9], [0, -1], "above 0"),
        (Range(above=0, at_most=1), [0.5, 1], [0, 1.001], "above 0 and at most 1"),
        (Range(at_least=0.5, below=1), [0.5, 0.999], [0.499, 1, 4], "of at least 0.5 and below 1"),
        (Range(at_least=0, at_most=65535), [0, 65535], [-1, 65536], "from 0 to 65535"),
    ],
)
def test_what_is_inside_and_its_words_agree(values, inside, outside, words):
    assert all(value in values for value in inside)
    assert not any(value in values for value in [*outside, math.inf, -math.inf, math.nan])
    assert str(values) == words
