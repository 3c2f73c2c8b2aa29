"""How much of a GPU PyTorch's caching allocator holds for a sequence of allocations."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuq.cli.dry_run.traced.allocator import CachingAllocator

MIB = 2**20


def test_small_allocations_share_segments_of_2_mib_and_large_ones_have_their_own() -> None:
    of = CachingAllocator()
    of.allocate(1)
    assert (of.used, of.reserved) == (512, 2 * MIB)
    of.allocate(MIB)
    assert of.reserved == 2 * MIB, "there is room in the first"
    of.allocate(MIB)
    assert of.reserved == 4 * MIB
    of.allocate(5 * MIB)
    assert of.reserved == 24 * MIB, "up to 10 MiB comes out of 20 MiB"
    of.allocate(5 * MIB)
    assert of.reserved == 24 * MIB
    of.allocate(11 * MIB)
    assert of.reserved == 36 * MIB, "rounded to 2 MiB"
    assert of.allocate(0) is None


def test_what_was_freed_is_used_again_and_neighbours_are_joined() -> None:
    of = CachingAllocator()
    first, second = of.allocate(8 * MIB), of.allocate(8 * MIB)
    assert first is not None
    assert second is not None
    of.free(first)
    of.free(second)
    assert (of.used, of.reserved) == (0, 20 * MIB)
    of.allocate(20 * MIB)
    assert of.reserved == 20 * MIB, "the whole segment is one free block again"
    assert of.most_reserved == 20 * MIB


@given(st.lists(st.tuples(st.integers(1, 64 * MIB), st.integers(0, 30)), max_size=60))
def test_it_holds_at_least_what_is_used_and_never_gives_back(asked: list[tuple[int, int]]) -> None:
    of, blocks, reserved = CachingAllocator(), [], 0
    for size, place in asked:
        block = of.allocate(size)
        assert block is not None
        assert block.size >= size
        blocks.append(block)
        if place < len(blocks):
            of.free(blocks.pop(place))
        assert reserved <= of.reserved
        assert of.used <= of.reserved
        assert of.used == sum(block.size for block in blocks)
        reserved = of.reserved
    for block in blocks:
        of.free(block)
    assert of.used == 0
    held = of.reserved
    assert sum(size for small in (True, False) for size, _, _ in of._free[small]) == held, "nothing got lost"
