"""Which devices a job may have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuq.core.state.constraints import DeviceConstraints, has_type
from gpuq.core.state.device import DeviceId, HostId
from tests.support.nouns import GIB, a_device

H100 = a_device("g1", 79.1, "a", "NVIDIA H100 80GB HBM3")
L4 = replace(a_device("g2", 22.1, "b", "NVIDIA L4"), features=("fast", "nvlink"))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("H100", True),
        ("nvidia_h100_80gb_hbm3", True),
        ("h100-80gb", True),
        ("80GB H100", True),
        ("h10", False),
        ("A100", False),
        ("NVIDIA H100 NVL", False),
    ],
)
def test_a_type_is_named_by_its_words(wanted: str, found: bool) -> None:
    assert has_type(wanted, H100.type) is found


def test_words_may_be_written_together_as_slurm_sites_do() -> None:
    assert has_type("rtx3080", "NVIDIA GeForce RTX 3080 Ti")
    assert has_type("a100_1g.5gb", "NVIDIA A100-SXM4-40GB MIG 1g.5gb")
    assert not has_type("rtx3090", "NVIDIA GeForce RTX 3080 Ti")


@pytest.mark.parametrize(
    ("constraints", "unmet"),
    [
        (DeviceConstraints(types=("l4", "H100")), (None, None)),
        (DeviceConstraints(types=("H100",)), (None, "types")),
        (DeviceConstraints(least_memory=80 * 10**9), (None, "least_memory")),
        (DeviceConstraints(least_memory=24 * 10**9), (None, None)),
        (DeviceConstraints(hosts=(HostId("a"),)), (None, "hosts")),
        (DeviceConstraints(excluded_hosts=(HostId("a"),)), ("excluded_hosts", None)),
        (DeviceConstraints(devices=(DeviceId("g2"),)), ("devices", None)),
        (DeviceConstraints(features=(("fast", "nvlink"), ("tall",))), ("features", None)),
        (DeviceConstraints(features=(("fast", "tall"),)), ("features", "features")),
    ],
)
def test_a_device_meets_all_constraints_or_none(
    constraints: DeviceConstraints, unmet: tuple[str | None, str | None]
) -> None:
    assert (constraints.unmet(H100), constraints.unmet(L4)) == unmet


def test_what_leaves_no_device_is_named_with_those_that_were_left_before_it() -> None:
    constraints = DeviceConstraints(types=("l4",), hosts=(HostId("a"), HostId("b")), least_memory=40 * GIB)
    assert constraints.unmet_by_all([H100, L4]) == ("least_memory", [L4])
    assert constraints.unmet_by_all([]) == ("types", [])
    assert DeviceConstraints(types=("h100",)).unmet_by_all([H100, L4]) is None
