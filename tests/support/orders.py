"""An order sender in memory: it keeps what was sent instead of putting it into Redis."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from gpuq import wire
from gpuq.errors import Unreachable


@dataclass
class MemoryOrderSender:
    """Keeps orders per host as (RQ id, signed order). `down` makes every call fail as an absent Redis would."""

    down: bool = False
    sent: dict[str, list[tuple[str, dict[str, Any]]]] = field(default_factory=lambda: defaultdict(list))

    def send(self, order: wire.Order, key: str) -> None:
        if self.down:
            raise Unreachable("Redis at memory: is not usable: it was switched off.")
        self.sent[order.host].append((order.rq_id, wire.sign(order, key)))

    def close(self) -> None:
        """Nothing is open."""
