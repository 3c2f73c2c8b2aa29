"""All dispatchers of one record share the key that orders are signed with; a standby without it says so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gpuq.adapters.store.contract import Store
from gpuq.daemon.leadership import Lease
from gpuq.daemon.order_key import order_key, record_key
from gpuq.errors import BadSettings
from gpuq.home import Home
from tests.support.memory_store import MemoryStore


def a_home(folder: Path) -> Home:
    home = Home(folder)
    home.create()
    return home


def leads(store: Store, home: Home, host: str) -> str:
    """The key with which the dispatcher of this home leads."""
    epoch = store.take_leadership(host, -1)
    assert epoch is not None
    key = order_key(home, host, store)
    record_key(Lease(store, host, epoch, lambda: 0.0), host, key)
    return key


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def test_a_standby_without_the_key_makes_none_and_says_where_it_is(store: MemoryStore, tmp_path: Path) -> None:
    leads(store, a_home(tmp_path / "main"), "main")
    home = a_home(tmp_path / "standby")
    with pytest.raises(
        BadSettings, match="is not there, and the hosts follow the key of the dispatcher on main"
    ) as refused:
        order_key(home, "standby", store)
    assert "Copy order.key from the home of the dispatcher on main" in refused.value.fix
    assert not home.order_key_file.exists()


def test_a_standby_with_another_key_says_so(store: MemoryStore, tmp_path: Path) -> None:
    leads(store, a_home(tmp_path / "main"), "main")
    home = a_home(tmp_path / "standby")
    home.order_key_file.write_text("another")
    with pytest.raises(BadSettings, match="is another key than that of the dispatcher on main"):
        order_key(home, "standby", store)


def test_a_standby_with_the_same_key_takes_over(store: MemoryStore, tmp_path: Path) -> None:
    main, standby = a_home(tmp_path / "main"), a_home(tmp_path / "standby")
    key = leads(store, main, "main")
    shutil.copy(main.order_key_file, standby.order_key_file)
    assert leads(store, standby, "standby") == key
    assert leads(store, main, "main") == key


def test_the_key_may_be_replaced_where_it_was_made(store: MemoryStore, tmp_path: Path) -> None:
    home = a_home(tmp_path / "main")
    before = leads(store, home, "main")
    home.order_key_file.unlink()
    after = leads(store, home, "main")
    assert before != after
    assert before not in (store.leader().order_key or "")
    standby = a_home(tmp_path / "standby")
    standby.order_key_file.write_text(before)
    with pytest.raises(BadSettings, match="is another key"):
        order_key(standby, "standby", store)
