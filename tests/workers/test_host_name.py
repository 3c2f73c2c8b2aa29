"""The name of a host, kept in its home: a rename loses no event and stops no queue."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpuq_workers.attempts import Marker, make_folder
from gpuq_workers.host_name import take_name
from gpuq_workers.spool import Spool

from gpuq.errors import BadSettings
from gpuq.home import Home
from gpuq.settings import load
from tests.workers.test_spool import event, write
from tests.workers.twins import attempt_id


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create()
    take_name(home, "alpha")
    return home


def test_a_host_keeps_its_name_when_the_machine_gets_another_one(home: Home) -> None:
    given = {"GPUQ_HOME": str(home.root)}
    assert load(given).worker.host == "alpha"
    home.settings_file.write_text('[worker]\nhost = "beta"\n')
    assert load(given).worker.host == "beta"
    assert load({**given, "GPUQ_WORKER_HOST": "gamma"}).worker.host == "gamma"


def test_a_renamed_host_begins_with_the_dispatchers_count_of_its_new_name(home: Home) -> None:
    before = Spool(home.spool, "alpha")
    before.continue_after(0)
    write(before, event(1))
    before.forget(upto=write(before, event(2)))
    take_name(home, "beta")
    spool = Spool(home.spool, "beta")
    write(spool, event(3))
    assert not spool.is_numbered
    spool.continue_after(0)
    spool.send_again(after=0)
    assert [(message.host, message.seq) for message in spool.unacknowledged()] == [("beta", 1)]


def test_a_host_with_an_unreported_end_keeps_its_name_until_that_is_delivered(home: Home) -> None:
    spool = Spool(home.spool, "alpha")
    spool.continue_after(0)
    write(spool, event())
    with pytest.raises(BadSettings, match=r"cannot be called beta yet: .* ends of jobs of alpha") as refused:
        take_name(home, "beta")
    assert 'host = "alpha"' in str(refused.value.fix)
    spool.forget(upto=1)
    take_name(home, "beta")
    assert load({"GPUQ_HOME": str(home.root)}).worker.host == "beta"


def test_a_host_with_a_running_job_keeps_its_name_until_that_has_ended(home: Home) -> None:
    folder = make_folder(home.attempt(7, 1), attempt_id(7))
    assert folder is not None
    with pytest.raises(BadSettings, match="of alpha: 7"):
        take_name(home, "beta")
    folder.mark(Marker(started=1, exited=2))
    take_name(home, "beta")
