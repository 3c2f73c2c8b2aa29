"""The game offers only options that fit; taking the first choice each time plays the greedy plan."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given

from gpuq.lab.planners.game import ABOUT_CHOICE, ABOUT_TURN, BOUND, CHOICES, SIZE, SKIP, Game
from gpuq.policies.planners.plan import greedy
from tests.policies.shop import Shop, drawn, seeds, tried, work


@tried
@given(seeds)
def test_first_choice_every_time_is_the_greedy_plan(seed: int) -> None:
    batch = drawn(seed).batch()
    game = Game(batch)
    while not game.over:
        game.act(0)
    assert batch.value[game.plan].sum() == pytest.approx(greedy(batch).value)


@tried
@given(seeds)
def test_every_game_ends_with_a_plan_that_is_maximal(seed: int) -> None:
    batch, rng = drawn(seed).batch(), random.Random(seed)
    game, turns = Game(batch), 0
    while not game.over:
        seen = game.observe()
        assert seen.shape == (SIZE,)
        assert np.isfinite(seen).all()
        assert np.abs(seen).max() <= BOUND
        assert game.allowed().sum() >= 2, "one choice at least, and to put the job aside"
        game.act(rng.randint(0, SKIP))
        turns += 1
    assert turns <= len(batch.jobs)
    assert batch.allows(game.plan)
    assert not batch.fit(np.arange(batch.size), batch.left(game.plan)).any()


def test_action_beyond_the_choices_takes_the_first() -> None:
    shop = Shop(1)
    shop.submit(work(1, "heavy"))
    batch = shop.batch()
    game = Game(batch)
    assert game.allowed().tolist() == [True, *[False] * (CHOICES - 1), True]
    game.act(CHOICES - 1)
    assert game.over
    assert game.plan.tolist() == [0]
    assert not game.allowed().any()
    assert not game.observe().any()


def test_job_put_aside_gets_what_is_left() -> None:
    shop = Shop(2)
    shop.submit(work(1, "heavy", 1), work(2, "heavy", 2))
    game = Game(shop.batch())
    game.act(SKIP)
    assert not game.over, "the next turn is about the other job"
    game.act(SKIP)
    assert game.over
    assert len(game.plan) == 2


def test_unknown_duration_is_observed_as_minus_one() -> None:
    shop = Shop(1)
    shop.submit(work(1, "heavy", None))
    assert Game(shop.batch()).observe()[ABOUT_TURN.index("log of the forecast seconds / 12")] == -1


def test_choices_include_running_alone_beside_many_pairs() -> None:
    shop = Shop(2)
    shop.submit(*(work(number, "light", number) for number in range(1, 15)))
    batch = shop.batch()
    game = Game(batch)
    pair = len(ABOUT_TURN) + ABOUT_CHOICE.index("it is a pair") + len(ABOUT_CHOICE) * np.arange(CHOICES)
    assert 0 < game.observe()[pair].sum() < CHOICES
