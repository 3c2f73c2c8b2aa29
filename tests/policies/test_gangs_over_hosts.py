"""Every policy starts jobs over several hosts, and the others beside them."""

import pytest

from gpuq.core.state.actions import Launch
from gpuq.core.state.job import Sharing
from gpuq.policies import registry
from gpuq.settings import Scheduling
from tests.policies.shop import Shop, work


@pytest.mark.parametrize("name", registry.names())
def test_a_job_over_two_hosts_starts_on_two_and_another_beside_it(name: str) -> None:
    shop = Shop(3, 3)
    shop.submit(work(1, device_count=4, host_count=2, sharing=Sharing.NEVER), work(2))
    policy = registry.make(Scheduling(policy=name))
    launches = {
        action.attempt.id.job: sorted({one.host for one in action.attempts})
        for now in (1000.0, 1001.0)
        for action in shop.play(policy, now)
        if isinstance(action, Launch)
    }
    assert launches[1] == ["h0", "h1"]
    assert 2 in launches
