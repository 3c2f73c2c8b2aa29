"""One kind or one owner with far more attempts than the others does not decide alone."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gpuq.learn.training.fair import ALWAYS, KIND_SHARE, fair, within_share
from tests.learn.world import GIB, Work, run


@given(
    st.dictionaries(st.integers(0, 40), st.integers(1, 400), min_size=1, max_size=40),
    st.sampled_from([0.05, 0.1, 0.25]),
)
def test_no_group_exceeds_its_share_with_enough_groups(counts: dict[int, int], share: float):
    items = [(group, n) for group, count in counts.items() for n in range(count)]
    kept = Counter(group for group, _ in within_share(items, lambda item: item[0], share))
    assert set(kept) == set(counts)
    for group, count in kept.items():
        assert count <= counts[group]
        if count > ALWAYS and len(counts) * share > 1:
            assert count <= share * sum(kept.values()) + 1


def test_kept_items_are_evenly_spaced_and_in_order():
    items = [("flood", n) for n in range(1000)] + [(f"k{n}", n) for n in range(200)]
    kept = [n for group, n in within_share(items, lambda item: item[0], 0.1) if group == "flood"]
    assert kept == sorted(kept)
    assert len(kept) == 22
    assert kept[-1] == 999
    assert max(b - a for a, b in pairwise(kept)) < 60


def test_a_flood_of_one_kind_is_cut_and_the_rest_is_left_alone():
    chance = random.Random(1)
    honest = [replace(run(Work(f"net{n % 40}", 8, 50.0, GIB), n, chance), owner=f"user{n % 8}") for n in range(200)]
    flood = [replace(run(Work("flood", 8, 50.0, GIB), 1000 + n, chance), owner="mallory") for n in range(5000)]
    kept = fair([*flood, *honest])
    assert sum(outcome.owner != "mallory" for outcome in kept) == 200
    assert sum(outcome.owner == "mallory" for outcome in kept) <= KIND_SHARE * len(kept) + 1


def test_a_flood_of_many_kinds_by_one_owner_is_cut_too():
    chance = random.Random(1)
    honest = [replace(run(Work(f"net{n % 20}", 8, 50.0, GIB), n, chance), owner=f"user{n % 8}") for n in range(120)]
    flood = [replace(run(Work(f"f{n}", 8, 50.0, GIB), 1000 + n, chance), owner="mallory") for n in range(600)]
    kept = fair([*flood, *honest])
    assert sum(outcome.owner == "mallory" for outcome in kept) <= 0.25 * len(kept) + 1


def test_single_owner_is_not_cut():
    chance = random.Random(1)
    outcomes = [run(Work("only", 8, 50.0, GIB), n, chance) for n in range(300)]
    assert fair(outcomes) == outcomes
