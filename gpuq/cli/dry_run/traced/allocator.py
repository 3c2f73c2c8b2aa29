"""How much a caching allocator holds of a GPU for given allocations: PyTorch's `CUDACachingAllocator` with its defaults.

Sizes are rounded to 512 bytes. Up to 1 MiB comes out of segments of 2 MiB, up to 10 MiB out of segments of 20 MiB, more out of a
segment of its own, rounded to 2 MiB. The smallest free block that is large enough is taken; what is left of it stays free, if it
is worth it. Blocks that are freed are joined with free neighbours. Segments are never given back, as no program calls for it.
"""

from __future__ import annotations

import bisect

_ROUND = 512
_SMALL = 1 << 20
_SMALL_SEGMENT = 2 << 20
_MIDDLE = 10 << 20
_MIDDLE_SEGMENT = 20 << 20
_LARGE_ROUND = 2 << 20


class _Block:
    __slots__ = ("before", "free", "next", "number", "size", "small")

    def __init__(self, size: int, small: bool, number: int) -> None:
        self.size, self.small, self.number, self.free = size, small, number, False
        self.before: _Block | None = None
        self.next: _Block | None = None


class CachingAllocator:
    """`reserved` is what it holds of the device, `used` what is in use, in bytes, with the highest of both so far."""

    def __init__(self) -> None:
        self.used = self.reserved = self.most_used = self.most_reserved = 0
        self._free: dict[bool, list[tuple[int, int, _Block]]] = {True: [], False: []}
        self._count = 0

    def allocate(self, size: int) -> _Block | None:
        """A block for so many bytes, to be handed to `free`; None for none."""
        if size <= 0:
            return None
        size = -(-size // _ROUND) * _ROUND
        small = size <= _SMALL
        free = self._free[small]
        place = bisect.bisect_left(free, (size, -1))
        if place < len(free):
            block = free.pop(place)[2]
            block.free = False
        else:
            large = _MIDDLE_SEGMENT if size < _MIDDLE else -(-size // _LARGE_ROUND) * _LARGE_ROUND
            segment = _SMALL_SEGMENT if small else large
            block = self._block(segment, small)
            self.reserved += segment
        left = block.size - size
        if left >= _ROUND if small else left > _SMALL:
            rest = self._block(left, small)
            rest.before, rest.next, block.next, block.size = block, block.next, rest, size
            if rest.next is not None:
                rest.next.before = rest
            self._put(rest)
        self.used += block.size
        self.most_used = max(self.most_used, self.used)
        self.most_reserved = max(self.most_reserved, self.reserved)
        return block

    def free(self, block: _Block) -> None:
        """Give a block back."""
        self.used -= block.size
        for other in (block.before, block.next):
            if other is not None and other.free:
                free = self._free[other.small]
                free.pop(bisect.bisect_left(free, (other.size, other.number)))
                other.free = False
                first, second = (other, block) if other is block.before else (block, other)
                first.size, first.next = first.size + second.size, second.next
                if first.next is not None:
                    first.next.before = first
                block = first
        self._put(block)

    def _block(self, size: int, small: bool) -> _Block:
        self._count += 1
        return _Block(size, small, self._count)

    def _put(self, block: _Block) -> None:
        block.free = True
        bisect.insort(self._free[block.small], (block.size, block.number, block))
