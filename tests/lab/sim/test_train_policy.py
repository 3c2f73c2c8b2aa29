"""Training exports what Stable-Baselines3 has learnt, and without it says what to install."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from gpuq.lab.planners.game import SIZE
from gpuq.lab.planners.network import load, save
from gpuq.lab.sim import train_policy
from gpuq.lab.sim.train_policy import against_greedy, main
from tests.lab.planners.test_reinforcement import always
from tests.policies.shop import drawn

HERE = importlib.util.find_spec("stable_baselines3") is not None
trains = pytest.mark.skipif(
    not HERE, reason="Stable-Baselines3 is in the extra `reinforcement`, which the locked environment leaves out"
)


@pytest.mark.skipif(HERE, reason="Stable-Baselines3 is installed here")
def test_without_the_library_it_says_what_to_install(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "mine.npz"), "--steps", "10"]) == 2
    assert "pip install 'gpuq-daemon[reinforcement]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@trains
@pytest.mark.parametrize("method", train_policy.METHODS)
def test_exported_network_chooses_the_same_actions_as_the_library(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_policy, "made_up", lambda seed: drawn(seed).batch())
    model = train_policy._model(method, seed=0)
    model.learn(total_timesteps=200)
    save(train_policy.exported(method, model, {"steps": 200, "seed": 0}), tmp_path / "mine.npz")
    network = load(tmp_path / "mine.npz")
    seen = np.random.default_rng(0).uniform(-1, 1, (20, SIZE)).astype(np.float32)
    theirs = model.predict(seen, deterministic=True)[0]
    assert [int(network.scores(one).argmax()) for one in seen] == theirs.tolist()


def test_to_play_greedily_is_worth_just_as_much() -> None:
    assert against_greedy(always(0), [drawn(7).batch(), drawn(8).batch()]) == pytest.approx(1)
