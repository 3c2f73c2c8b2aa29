"""A process that follows orders and does not stay up keeps every job from starting on its host, which says so."""

from __future__ import annotations

from gpuq_workers.orders_process import OrdersProcess

from gpuq.adapters.supervise import Crash


def crash(in_a_row: int) -> Crash:
    return Crash("orders", 2, "exit code 2", in_a_row, "The lease of jobs cannot be written.", None, "orders.log")


def test_it_is_said_since_when_it_does_not_stay_up_and_no_longer_once_it_does() -> None:
    now = [0.0]
    process = OrdersProcess(clock=lambda: 1000 + now[0], monotonic=lambda: now[0])
    for number in (1, 2):
        process.crashed(crash(number))
        assert process.no_starts() is None, "it may stay up the next time"
    for number, now[0] in ((3, 1.0), (4, 7.0)):
        process.crashed(crash(number))
        found = process.no_starts()
        assert found is not None
        assert (found.since_at, found.again_at) == (1001.0, None)
        assert found.why.endswith("ends again and again: The lease of jobs cannot be written.")
    now[0] = 28.0
    assert process.no_starts() is None
    process.crashed(crash(3))
    found = process.no_starts()
    assert found is not None
    assert found.since_at == 1028.0
