"""The hosts of a job over several: the cheapest of those with enough devices, or none."""

from __future__ import annotations

from gpuq.core.scheduling.spread import cheapest_hosts
from tests.support.nouns import a_job

GANG = a_job(1, device_count=4, host_count=2)


def test_the_cheapest_hosts_give_their_first_devices() -> None:
    hosts = [[5, 6, 1], [3, 3], [2, 2, 9], [1]]
    assert cheapest_hosts(GANG, hosts, cost=sum) == [2, 2, 3, 3]


def test_too_few_hosts_with_enough_devices_give_none() -> None:
    assert cheapest_hosts(GANG, [[1, 1], [1], []], cost=sum) == []
