"""Orders of a host that joined: each is followed once, and neither a fault of the network nor one of an order ends the loop."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from gpuq_workers import poll_orders

from gpuq.errors import Unreachable


class Orders:
    """Gives these one after the other, and then sets `stop`."""

    def __init__(self, *given: Any) -> None:
        self.left, self.stop = list(given), threading.Event()

    def order(self) -> Any:
        if len(self.left) == 1:
            self.stop.set()
        found = self.left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def test_every_order_is_followed_whatever_came_before(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(poll_orders, "_FIRST_PAUSE_S", 0.0)
    away = Unreachable("The main host does not answer.")
    orders, followed = Orders(1, None, away, away, 2, "bad", 3), []

    def follow(order: Any) -> None:
        followed.append(order)
        if order == "bad":
            raise RuntimeError

    poll_orders.poll(orders, follow, orders.stop)
    assert followed == [1, 2, "bad", 3]
    assert caplog.text.count("orders wait") == 1, "one line for each time that it is away"
    assert "an order failed" in caplog.text
