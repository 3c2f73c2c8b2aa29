"""The Slurm job of gpuq itself: what is requested, what is said of it, and how it ends, with a Slurm that is a list."""

from __future__ import annotations

import itertools
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuq.adapters.lock import only_one
from gpuq.adapters.slurm import SlurmJob
from gpuq.cli.client import HttpClient
from gpuq.errors import BadInput, Conflict, Failure, Unreachable
from gpuq.home import Home
from gpuq.messages import main_job
from gpuq.messages.main_job import MainJob
from gpuq.pools.main_job import MainJobRequests

URL = "https://n1:4000"


class FakeSlurm:
    def __init__(self) -> None:
        self.state, self.refuses, self.loses = "", "", False
        self.signals: list[str] = []
        self.script, self.options = "", list[str]()

    def check(self) -> None: ...

    def test(self, script: str, options: list[str]) -> None:
        if self.refuses:
            raise BadInput(self.refuses)

    def ignores_the_script(self, options: list[str]) -> bool:
        return any(not option.startswith("-") for option in options)

    def submit(self, script: str, options: list[str]) -> int:
        self.script, self.options, self.state = script, options, "PENDING"
        if self.loses:
            raise Unreachable("`sbatch` gave no answer within a minute.")
        return 12

    def jobs(self, ids: set[int]) -> dict[int, SlurmJob]:
        return {12: SlurmJob(12, self.state, "Resources")} if self.state and 12 in ids else {}

    def jobs_in(self, folders: set[str]) -> dict[str, SlurmJob]:
        own = [word.removeprefix("--chdir=") for word in self.options if word.startswith("--chdir=")]
        return {folder: SlurmJob(12, self.state, "Resources") for folder in own if self.state and folder in folders}

    def ended(self, job: int) -> str:
        return "FAILED, NonZeroExitCode, exit code 2:0, on n1"

    def signal(self, job: int, name: str) -> None:
        self.signals.append(name)
        self.state = ""

    def cancel(self, ids: list[int]) -> None:
        self.state = ""


class Place:
    """A home, its Slurm, and a clock that each pause moves; `then` happens at the first pause."""

    def __init__(self, folder: Path) -> None:
        self.home, self.slurm = Home(folder), FakeSlurm()
        self.then: Callable[[], object] = lambda: None
        clock = itertools.count(0.0, 2.0)
        self.requests = MainJobRequests(self.home, self.slurm, lambda _: self.pause(), lambda: next(clock))

    def pause(self) -> None:
        then, self.then = self.then, lambda: None
        then()

    def run(self) -> None:
        self.slurm.state = "RUNNING"
        main_job.save(self.home, MainJob(slurm_job=12, node="n1", url=URL))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_script_among_the_options_is_refused_before_anything_is_submitted(place: Place) -> None:
    with pytest.raises(BadInput, match="would run something else than gpuq"):
        place.requests.start(["--partition=cpu", "job.sh"])
    assert place.slurm.script == ""


def test_it_is_requested_once_and_says_where_it_runs(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.then = place.run
    place.requests.start(["--partition=long"])
    assert place.slurm.options[-1] == "--partition=long"
    assert "--requeue" in place.slurm.options
    assert f"export GPUQ_HOME={place.home.root}" in place.slurm.script
    assert stat.S_IMODE(place.home.main_job_file.stat().st_mode) == 0o600
    assert capsys.readouterr().out.splitlines() == [
        "Slurm job 12 is requested; gpuq runs in it.",
        "gpuq runs in Slurm job 12 on n1. Commands with this home find it there.",
    ]
    place.slurm.script = ""
    place.requests.start([])
    assert "on n1" in capsys.readouterr().out
    assert place.slurm.script == "", "it is requested once"


def test_a_request_that_slurm_took_without_answering_is_found_by_its_folder(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.slurm.loses, place.then = True, place.run
    place.requests.start([])
    assert "on n1" in capsys.readouterr().out
    place.home.main_job_file.unlink()  # as if the command had been ended while it waited for the answer
    place.slurm.script, place.then = "", place.run
    place.requests.start([])
    assert place.slurm.script == "", "it is requested once"
    place.home.main_job_file.unlink()
    place.requests.stop(stop_jobs=False)
    assert place.slurm.signals == ["TERM"]


def test_a_request_that_never_reached_slurm_is_said_to_be_unknown(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.slurm.loses = True
    monkeypatch.setattr(place.slurm, "jobs_in", lambda folders: {})
    with pytest.raises(Unreachable, match=r"gave no answer within a minute\. Slurm shows no job of gpuq") as unknown:
        place.requests.start([])
    assert "said again" in unknown.value.fix


def test_the_next_one_is_requested_when_the_one_before_has_ended(place: Place) -> None:
    main_job.save(place.home, MainJob(slurm_job=12, node="n1", url=URL))
    place.slurm.state = "COMPLETING"

    def end() -> None:
        place.slurm.state, place.then = "", place.run

    place.then = end
    place.requests.start([])
    assert place.slurm.script


@pytest.mark.parametrize("option", ["--array=0-3", "--chdir=/tmp", "--wait", "-N2"])
def test_options_with_which_there_would_not_be_one_job_are_refused(place: Place, option: str) -> None:
    with pytest.raises(BadInput):
        place.requests.start([option])
    assert place.slurm.script == ""


def test_what_slurm_refuses_leaves_nothing(place: Place) -> None:
    place.slurm.refuses = "Slurm refuses it: invalid partition specified: nope"
    with pytest.raises(BadInput, match="nope"):
        place.requests.start(["--partition=nope"])
    assert not place.home.main_job_file.exists()


def test_why_it_waits_is_said_in_slurms_word(place: Place) -> None:
    with pytest.raises(Unreachable, match="PENDING, Resources"):
        place.requests.start([])
    with pytest.raises(Unreachable, match="Slurm job 12 waits"):
        HttpClient(None, {"GPUQ_HOME": str(place.home.root)})


def test_a_job_that_ended_at_once_is_said_with_its_last_words(place: Place) -> None:
    def end() -> None:
        place.slurm.state = ""
        (place.home.logs / "slurm.log").write_text("gpuq: The port is taken.\n  Choose another.\n")

    place.then = end
    with pytest.raises(Failure, match=r"Slurm job 12 has ended \(FAILED") as failed:
        place.requests.start([])
    assert "The port is taken." in failed.value.message
    assert failed.value.fix == "Choose another."


def test_one_that_runs_on_this_host_already_is_left_alone(place: Place) -> None:
    place.home.create()
    with only_one(place.home.run / "up.lock", "`gpuq up`"), pytest.raises(Conflict, match="runs already"):
        place.requests.start([])


@pytest.mark.parametrize(("stop_jobs", "signal"), [(False, "TERM"), (True, "USR2")])
def test_down_ends_it(place: Place, stop_jobs: bool, signal: str) -> None:
    place.run()
    place.requests.stop(stop_jobs=stop_jobs)
    assert place.slurm.signals == [signal]
    assert not place.home.main_job_file.exists()


def test_down_cancels_one_that_waits(place: Place) -> None:
    main_job.save(place.home, MainJob(slurm_job=12))
    place.slurm.state = "PENDING"
    place.requests.stop(stop_jobs=False)
    assert (place.slurm.signals, place.slurm.state) == ([], "")


def test_down_of_one_that_has_ended_forgets_it(place: Place) -> None:
    main_job.save(place.home, MainJob(slurm_job=12, node="n1", url=URL))
    with pytest.raises(Unreachable, match="No gpuq runs in a Slurm job"):
        place.requests.stop(stop_jobs=False)
    assert not place.home.main_job_file.exists()


def test_commands_find_it_by_the_home_unless_another_is_named(place: Place) -> None:
    place.run()
    place.home.tls.mkdir()
    environ = {"GPUQ_HOME": str(place.home.root)}
    with pytest.raises(BadInput, match=r"ca\.pem"):
        HttpClient(None, environ)  # it trusts the authority in the home only
    assert HttpClient("http://127.0.0.1:1", environ).address == "http://127.0.0.1:1"
    assert HttpClient(None, {**environ, "GPUQ_HOST": "http://localhost:1"}).address == "http://localhost:1"
