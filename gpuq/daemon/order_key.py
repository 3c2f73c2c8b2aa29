"""The key that orders are signed with, which all dispatchers of one record share: hosts follow no other.

The record holds the fingerprint of the key, and the host whose dispatcher first led with it. A standby without that key would
take over and reach no host, so it does not start. On that one host the key may be replaced.
"""

from __future__ import annotations

import hmac

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import Commit
from gpuq.daemon.leadership import Lease
from gpuq.errors import BadSettings
from gpuq.home import Home, private_secret


def order_key(home: Home, host: str, store: Store) -> str:
    """The key of this home, on this host; made at the first start. Raises BadSettings if the record's dispatchers have another.
    Blocks."""
    owner, fingerprint = _recorded(store)
    file = home.order_key_file
    if owner not in {None, host}:
        fix = f"Copy order.key from the home of the dispatcher on {owner} to {file}: mode 0600, and the owner of the folder."
        if not file.exists():
            raise BadSettings(
                f"{file} is not there, and the hosts follow the key of the dispatcher on {owner}.", fix=fix
            )
        if _fingerprint(file.read_text().strip()) != fingerprint:
            raise BadSettings(f"{file} is another key than that of the dispatcher on {owner}.", fix=fix)
    return private_secret(file)


def record_key(lease: Lease, host: str, key: str) -> None:
    """Put the key's fingerprint into the record, unless it is there. Blocks."""
    if _recorded(lease.store)[1] != _fingerprint(key):
        lease.commit(Commit(order_key=f"{host} {_fingerprint(key)}"))


def _recorded(store: Store) -> tuple[str | None, str | None]:
    """The host whose dispatcher first led with the key, and the key's fingerprint."""
    recorded = store.leader().order_key
    if recorded is None:
        return None, None
    owner, _, fingerprint = recorded.rpartition(" ")
    return owner, fingerprint


def _fingerprint(key: str) -> str:
    return hmac.digest(key.encode(), b"fingerprint", "sha256").hex()[:16]
