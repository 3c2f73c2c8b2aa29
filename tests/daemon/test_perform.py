"""Which orders are sent to which hosts, and how often."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuq.core.state.actions import Stop
from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import AttemptId, StopReason
from gpuq.core.state.device import HostId
from gpuq.core.state.job import JobId
from gpuq.daemon.perform import Performer
from gpuq.messages.wire import HostKeys, Verb
from tests.support.orders import MemoryOrderSender
from tests.support.playbook import one_running

LAUNCH_AGAIN_S = 5.0


@pytest.mark.parametrize("recorded", [True, False])
def test_a_host_that_is_away_gets_a_stop_once_a_minute_and_at_once_when_it_is_back(recorded: bool) -> None:
    """One every two seconds would make 40,000 a day, which the host takes one by one when it is back."""
    play = one_running()
    unrecorded = [] if recorded else [(HostId("host"), AttemptId(JobId(7), 1))]
    if recorded:
        apply(play.state, Stop(AttemptId(JobId(1), 1), StopReason.CANCELLED), play.now)
    performer = Performer(MemoryOrderSender(), HostKeys("key"), LAUNCH_AGAIN_S)

    def sent(at: float) -> list[Verb]:
        orders = performer.due(play.state, unrecorded, int(at), 1, at)
        performer.send(orders, at)
        return [order.verb for order in orders]

    first = play.now
    assert sent(first) == [Verb.STOP]
    assert sum(len(sent(first + second)) for second in range(1, 10)) == 4, "it reports: every two seconds"
    away = first + 10
    assert sum(len(sent(away + second)) for second in range(3600)) in range(58, 62), "it is away: once a minute"

    back = away + 3600
    play.state.hosts[HostId("host")] = replace(play.state.hosts[HostId("host")], last_seen=back)
    assert sent(back) == [Verb.STOP]
