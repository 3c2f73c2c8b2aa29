"""Sign who may start an attempt as which user, where jobs run as their submitters.

The user and the command are those of the record, which the API wrote from what the kernel or a token said. A host gets no
credential for an attempt whose submitter's uid is unknown; it refuses the launch.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpuq.adapters.store.contract import Store
from gpuq.core.state.job import JobId
from gpuq.messages.launch import VALID_S, LaunchCredential, digest, signed
from gpuq.messages.submission import command_in_unit
from gpuq.messages.wire import Order


class Credentials:
    """Adds credentials to the orders that start attempts. Calls block on the record."""

    def __init__(self, store: Store, key: Ed25519PrivateKey, clock: Callable[[], float]) -> None:
        """`clock` gives wall time, by which the credentials expire."""
        self._store, self._key, self._clock = store, key, clock

    def add_to(self, order: Order) -> Order:
        """The order with its credential, or as it is if there can be none. Raises Unreachable."""
        row = self._store.job(JobId(order.job))
        if row is None or row.record.uid is None or order.instance is None:
            return order
        credential = LaunchCredential(
            job=order.job,
            attempt=order.attempt,
            host=order.host,
            instance=order.instance,
            user=row.record.owner,
            uid=row.record.uid,
            order=digest(command_in_unit(row.record.submission).text()),
            expires_at=self._clock() + VALID_S,
        )
        return msgspec.structs.replace(order, credential=signed(credential, self._key))
