"""`gpuq model evaluate` as a person runs it: no daemon, no home, two files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command

PAIRS = "device_type,sharing,job_a,job_b,slowdown_a,slowdown_b\n" + "".join(
    f"V100,mps,{a},{b},{1.1 * (i + 1) ** 0.5:.3f},{1.0 + j / 10:.3f}\n"
    for i, a in enumerate(("vgg", "lstm", "bert"))
    for j, b in enumerate(("vgg", "lstm", "bert"))
)


@pytest.fixture
def pairs(gpuq: Command) -> Path:
    path = gpuq.cwd / "pairs.csv"
    path.write_text(PAIRS)
    return path


def test_figures_for_people_and_for_programs(gpuq: Command, pairs: Path) -> None:
    gone = str(gpuq.cwd / "no" / "home")
    done = gpuq("model", "evaluate", "--pairs", pairs.name, "--holdout", "model", GPUQ_HOME=gone)
    assert (done.code, done.err) == (0, "")
    assert "slowdown" in done.out
    words = ("--pairs", str(pairs), "--holdout=model", "--budget", "1.5")
    output = gpuq("model", "--json", "evaluate", *words, GPUQ_HOME=gone).json
    assert output["budget"] == 1.5
    assert output["holdout"]["by"] == "model"
    assert output["slowdown"]["n"] == 18
    assert set(output["baselines"]["ridge"]["slowdown"]) == set(output["slowdown"])
    assert not Path(gone).exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pairs", "pairs.csv", "--holdout", "time"], "needs the column measured_at"),
        (["--pairs", "none.csv"], "none.csv: No such file"),
        (["--pairs", "pairs.csv", "--holdout", "luck"], "invalid choice: 'luck'"),
        ([], "nothing to judge"),
    ],
)
def test_invalid_options_give_a_sentence_and_exit_code_2(
    gpuq: Command, pairs: Path, words: list[str], said: str
) -> None:
    done = gpuq("model", "evaluate", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 2


def test_options_of_evaluate_are_refused_elsewhere(gpuq: Command) -> None:
    for words in (("--pairs", "pairs.csv"), ("--budget", "1.5")):
        done = gpuq("model", "status", *words)
        assert done.code == 2
        assert "go with `evaluate` only" in done.err
