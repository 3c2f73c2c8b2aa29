"""A framework's pool against a job's true need."""

from __future__ import annotations

import pytest
from gpuq_workers.measuring.prealloc import PoolWatch, is_bound, requested_share

TOTAL = 80_000


def pool(*readings: int, requested: float | None = None) -> int | None:
    watch = PoolWatch(requested)
    found = [watch.look(reading, TOTAL) for reading in readings]
    return next((value for value in found if value is not None), None)


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ((500, 60_900, 60_900), 60_900),  # JAX: a context, then three quarters
        ((500, 500, 30_000, 79_000), 79_000),  # TensorFlow, read while it was at it
        ((500, 9_000, 20_000, 40_000, 60_000), None),  # a job that grows
        ((60_900, 60_900), None),  # there before we looked
        ((500, 50_000, 50_000), None),  # a large job, not most of the device
    ],
)
def test_a_jump_to_most_of_the_device_is_a_pool(readings: tuple[int, ...], expected: int | None):
    assert pool(*readings) == expected


def test_a_pool_that_the_environment_asks_for_is_one_whenever_it_is_reached():
    assert pool(500, 20_000, 39_000, 40_500, requested=0.5) == 39_000
    assert pool(500, 20_000, 30_000, requested=0.5) is None


def test_a_peak_well_above_the_pool_is_no_bound():
    assert is_bound(61_000, 60_900)
    assert not is_bound(75_000, 60_900)
    assert not is_bound(61_000, None)
    assert not is_bound(None, 60_900)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"TF_FORCE_GPU_ALLOW_GROWTH": "true", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}, None),
        ({"TF_FORCE_GPU_ALLOW_GROWTH": "false"}, 1.0),
        ({"XLA_PYTHON_CLIENT_PREALLOCATE": "true"}, 0.75),
        ({"XLA_PYTHON_CLIENT_PREALLOCATE": "true", "XLA_PYTHON_CLIENT_MEM_FRACTION": ".4"}, 0.4),
        ({"XLA_PYTHON_CLIENT_PREALLOCATE": "true", "XLA_PYTHON_CLIENT_MEM_FRACTION": "most"}, 0.75),
        ({"XLA_PYTHON_CLIENT_PREALLOCATE": "true", "XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}, None),
    ],
)
def test_preallocation_variables_are_read_as_the_frameworks_read_them(
    environment: dict[str, str], expected: float | None
):
    assert requested_share(environment) == expected
