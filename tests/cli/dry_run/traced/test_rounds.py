"""How many steps of a training show its memory: what is waited for, and what is given up."""

from __future__ import annotations

import pytest

from gpuq.cli.dry_run.traced.rounds import Rounds


def rounds_of(*sizes: tuple[int, ...] | int) -> int | None:
    """After how many rounds of these sizes enough was seen, with one optimizer; None if it was not."""
    rounds, totals = Rounds(), (0, 0)
    for count, size in enumerate(sizes, 1):
        ways = size if isinstance(size, tuple) else (size, 1)
        totals = (totals[0] + ways[0], totals[1] + ways[1])
        if rounds.stepped("adam", {"adam"}, totals):
            return count
    return None


def test_batches_of_one_size_are_known_after_three_rounds_and_the_first() -> None:
    assert rounds_of(900, 100, 100, 100, 100) == 4


def test_a_small_batch_at_the_end_of_each_epoch_does_not_matter() -> None:
    assert rounds_of(900, 20, 100, 20, 100, 20, 100) == 7
    assert rounds_of(900, 100, 97, 99) == 4, "labels of some images more"


def test_batches_that_grow_are_given_up() -> None:
    with pytest.raises(LookupError, match="size of its batches"):
        rounds_of(900, *range(100, 400, 10))


def test_one_of_the_ways_to_count_is_enough_to_see_them_grow() -> None:
    with pytest.raises(LookupError, match="size of its batches"):
        rounds_of(*((1000, length) for length in range(100, 400, 10)))


def test_a_round_is_over_when_the_generator_has_made_its_step_too() -> None:
    rounds, both = Rounds(), {"critic", "generator"}
    for total in range(1, 4):
        assert not any(rounds.stepped("critic", both, (total,)) for _ in range(5))
        assert len(rounds) == total - 1
        assert not rounds.stepped("generator", both, (total,))
    assert not rounds.stepped("critic", both, (4,))
    assert rounds.stepped("generator", both, (4,))


def test_an_optimizer_that_makes_no_step_is_not_waited_for_for_ever() -> None:
    rounds, both = Rounds(), {"first phase", "second phase"}
    assert not any(rounds.stepped("first phase", both, (total,)) for total in range(255))
    with pytest.raises(LookupError, match="made no step while another made 256"):
        rounds.stepped("first phase", both, (255,))


def test_what_is_kept_of_each_step_is_given_up_and_losses_are_not() -> None:
    for kept, is_given_up in ((512, False), (128 * 1024, True)):
        rounds = Rounds()
        assert not any(rounds.stepped("adam", {"adam"}, (total,), 10**6 + total * kept) for total in (1, 2, 3))
        if is_given_up:
            with pytest.raises(LookupError, match="keeps more of a GPU after each step"):
                rounds.stepped("adam", {"adam"}, (4,), 10**6 + 4 * kept)
        else:
            assert rounds.stepped("adam", {"adam"}, (4,), 10**6 + 4 * kept)
