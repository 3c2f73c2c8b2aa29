"""`gpuq characterize` as people run it: a whole campaign of tiny real processes, killed, stopped, and gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from gpuq.adapters.lock import take_lock
from gpuq.adapters.process import with_environment
from gpuq.lab.measured import read_pairs, read_singles
from tests.lab.campaign.jobs import as_list, contending, crashing, silent
from tests.support import forked
from tests.support.forked import Fork, Forks

QUICK = [
    f"--timing={name}={value}"
    for name, value in {
        "window_s": 0.05, "phase_s": 0.1, "settle_s": 0.05, "least_steps": 5, "fewest_cycles": 2, "most_cycles": 2,
        "most_s": 10, "warm_up_s": 2, "poll_s": 0.005, "sample_s": 0.1, "grace_s": 2,
    }.items()
]  # fmt: skip


MAIN = "import sys; from gpuq.lab.campaign.command import main; sys.exit(main())"


@pytest.fixture(scope="module")
def forks():
    found = Forks("gpuq.lab.campaign.command")
    yield found
    found.close()


class Campaign:
    """A list, a folder, and the command on them. Tests run on a busy machine, so it measures with --busy-anyway."""

    def __init__(self, folder: Path, forks: Forks) -> None:
        self.forks, self.errors = forks, folder / "errors"
        self.out, self.list = folder / "out", folder / "list.toml"
        self.environ = {**os.environ, "GPUQ_HOME": str(folder / "home")}
        self.list.write_text(
            as_list(contending(folder / "beats"), crashing(), contending(folder / "beats", model="other"))
        )

    def words(self, *words: str) -> list[str]:
        usual = ["--backend=cpu", "--tight=50", "--repeats=1", "--busy-anyway", *QUICK]
        return ["gpuq.lab.campaign", f"--out={self.out}", *usual, *words, "--", str(self.list)]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = self.forks.run(MAIN, self.words(*words), env=self.environ, timeout_s=120)
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *words: str) -> Fork:
        with Path(os.devnull).open("wb") as out, self.errors.open("wb") as errors:
            return self.forks.start(MAIN, self.words(*words), out, errors, env=self.environ)

    def lines(self) -> list[dict]:
        path = self.out / "runs.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def runs(self) -> list[str]:
        return [" + ".join(part["job"] for part in line["parts"]) for line in self.lines() if line["type"] == "run"]

    def left_over(self) -> list[object]:
        return [
            one
            for name in ("0", "1")
            for one in with_environment({"GPUQ_PROGRESS": str(self.out / "scratch" / name / "progress")})
        ]


@pytest.fixture
def campaign(tmp_path: Path, forks: Forks):
    found = Campaign(tmp_path, forks)
    yield found
    assert not found.left_over()


def test_a_campaign_survives_a_crash_writes_its_tables_and_is_done_when_started_again(campaign: Campaign):
    first = campaign.run("--json", "--pairs=2")
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["made"] == 5
    assert campaign.runs()[:3] == ["contending 1", "crashing 1", "other 1"]
    assert "crashing 1: failed: crashing 1: ended with exit code 1" in first.stderr
    assert "gpuq model characterize --data" in first.stderr
    assert [single.job for single in read_singles(campaign.out / "singles.csv")] == ["contending 1", "other 1"]
    pairs = read_pairs(campaign.out / "pairs.csv")
    assert len(pairs) == 2
    assert all(pair.slowdown_a and pair.slowdown_b and pair.sharing == "time-slicing" for pair in pairs)
    session = campaign.lines()[0]
    assert session["type"] == "session"
    assert session["device_type"] == "cpu-1"
    assert len(session["cores"]) == 1

    again = campaign.run("--json", "--pairs=2")
    assert json.loads(again.stdout) == {
        "out": str(campaign.out), "made": 0, "left": {"alone": 0, "pairs": 0, "again": 0}, "seconds_left": 0
    }  # fmt: skip
    assert campaign.run("--plan", "--pairs=3").stdout.startswith("To do: 0 jobs alone, 1 pairs, 0 again")


def test_a_killed_campaign_goes_on_where_it_stopped_and_ends_what_was_left_running(campaign: Campaign):
    killed = campaign.start("--pairs=1")
    while len(campaign.runs()) < 2 or not campaign.left_over():
        assert killed.poll() is None, campaign.errors.read_text()
        time.sleep(0.01)
    killed.kill()
    killed.wait(60)
    assert campaign.left_over(), "the killed campaign did not end its workloads"
    before = campaign.runs()
    after = campaign.run("--pairs=1")
    assert after.returncode == 0, after.stderr
    assert "an earlier start of this campaign had left" in after.stderr
    runs = campaign.runs()
    assert runs[: len(before)] == before
    assert len(set(runs)) == len(runs) == 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_ends_the_processes_and_keeps_earlier_runs(campaign: Campaign, number: int):
    campaign.list.write_text(as_list(contending(campaign.out.parent / "beats"), silent()))
    stopped = campaign.start()
    while len(campaign.runs()) < 1 or not campaign.left_over():
        assert stopped.poll() is None, campaign.errors.read_text()
        time.sleep(0.01)
    stopped.send_signal(number)
    assert stopped.wait(60) == 130
    said = campaign.errors.read_text()
    assert "the same command goes on from there" in said
    assert "Traceback" not in said
    assert campaign.runs() == ["contending 1"]
    assert len(read_singles(campaign.out / "singles.csv")) == 1


def test_after_its_time_it_stops_and_prints_the_command_to_go_on(campaign: Campaign):
    beats = campaign.out.parent / "beats"
    campaign.list.write_text(as_list(contending(beats)))
    campaign.run("--pairs=0")
    campaign.list.write_text(as_list(contending(beats), silent()))
    done = campaign.run("--pairs=0", "--for=3s")
    assert done.returncode == 0, done.stderr
    assert campaign.runs() == ["contending 1"]
    assert "Left: 1 jobs alone" in done.stderr
    assert f"gpuq characterize --out={campaign.out}" in done.stderr
    assert "--for=3s" in done.stderr


def test_no_run_is_begun_that_would_not_end_in_time(campaign: Campaign):
    done = campaign.run("--for=5s", "--json")
    assert json.loads(done.stdout)["made"] == 0
    assert campaign.runs() == []


def test_two_campaigns_do_not_share_a_folder(campaign: Campaign):
    campaign.out.mkdir()
    lock = take_lock(campaign.out / ".lock")
    assert lock is not None
    done = campaign.run()
    os.close(lock)
    assert (done.returncode, campaign.lines()) == (6, [])
    assert "runs in" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--only=unlisted"], 2, "no workload `unlisted`"),
        (["--device=7"], 3, "There is no device `7`"),
        (["--sharing=mps"], 2, "by time-slicing"),
        (["--cores=1000"], 2, "--cores 1000"),
    ],
)
def test_impossible_options_are_refused_with_a_fix(campaign: Campaign, words: list[str], code: int, said: str):
    done = campaign.run(*words)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not campaign.lines()


def gpuq(campaign: Campaign, *words: str) -> subprocess.CompletedProcess[str]:
    return forked.gpuq("characterize", *words, env=campaign.environ, text=True)


def test_the_verb_becomes_the_campaign(campaign: Campaign):
    done = gpuq(
        campaign, str(campaign.list), "--out", str(campaign.out), "--backend", "cpu", "--pairs", "all", "--plan"
    )
    assert done.stdout.startswith("To do: 3 jobs alone, 6 pairs, 0 again; about"), done.stderr
    assert gpuq(campaign, str(campaign.out / "nowhere.toml")).returncode == 2


@pytest.mark.parametrize(
    "words", [["--pairs=few"], ["--tight=0"], ["--for=soon"], ["--repeats=0"], ["--host=http://x"]]
)
def test_verb_refuses_invalid_options_before_starting(campaign: Campaign, words: list[str]):
    done = gpuq(campaign, str(campaign.list), *words)
    assert done.returncode == 2
    assert not campaign.out.exists()
