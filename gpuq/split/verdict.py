"""Whether a launch may be split: proven, only after a check of the results, or refused; each with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from gpuq.split.access import accesses
from gpuq.split.linear import LinearForm, Symbol, can_meet
from gpuq.split.llvm_text import Module
from gpuq.split.values import Access, Argument, IndexSpace, NotSplittable


class Correctness(StrEnum):
    """What is known of the correctness of a split."""

    PROVEN = "proven"
    CHECK = "check"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class SplitVerdict:
    """`dimension`: along which to cut, None if refused.

    `written`: the buffers with a store, each with the bytes of its widest one, at most 8. `loaded`: those of them with a load.
    """

    answer: Correctness
    reason: str
    dimension: int | None = None
    written: Mapping[str, int] = field(default_factory=dict)
    loaded: frozenset[str] = frozenset()


def judge(
    modules: Sequence[Module], kernel: str, arguments: list[Argument], sizes: Mapping[str, int], launch: IndexSpace
) -> SplitVerdict:
    """The verdict on one launch. `sizes`: bytes of each buffer that `arguments` names; one name twice is one buffer twice.

    `modules`: the program as each device compiles it. A group of one may run beside any other of another, so the accesses of all
    are judged together.
    The best dimension counts: one that is proven, else one that a check can settle; of several the outermost.
    """
    try:
        found = [one for module in modules for one in accesses(module, kernel, arguments, launch)]
    except NotSplittable as refused:
        return SplitVerdict(Correctness.REFUSED, str(refused))
    written: dict[str, int] = {}
    for one in found:
        if one.stores:
            # A structure of 12 bytes may begin at any 4: only what every store of it is a multiple of lies in one element.
            written[one.buffer] = max(written.get(one.buffer, 1), min(8, one.width & -one.width))
    if not written:
        return SplitVerdict(Correctness.REFUSED, "it stores to no buffer")
    verdicts = [
        _along(d, found, written, sizes, launch) for d in reversed(range(len(launch.size))) if launch.groups(d) > 1
    ]
    if not verdicts:
        return SplitVerdict(Correctness.REFUSED, "it has one work-group, which cannot be cut")
    return min(verdicts, key=lambda one: list(Correctness).index(one.answer))


def _along(
    d: int, found: list[Access], written: Mapping[str, int], sizes: Mapping[str, int], launch: IndexSpace
) -> SplitVerdict:
    doubts: list[str] = []
    stores = [one for one in found if one.stores]
    # A group that loads what another group stores depends on their order, along whichever dimension they differ.
    cut = [one for one in range(len(launch.size)) if launch.groups(one) > 1]
    for index, store in enumerate(stores):
        for other in [*stores[index:], *(one for one in found if not one.stores)]:
            if other.buffer != store.buffer:
                continue
            if not other.stores and any(_may_meet(store, other, one) for one in cut):
                return SplitVerdict(
                    Correctness.REFUSED,
                    f"work-items of one group may load elements of `{store.buffer}` that another group stores to",
                )
            if not other.stores or not _may_meet(store, other, d):
                continue
            if _exact(store) and _exact(other):
                return SplitVerdict(
                    Correctness.REFUSED, f"different groups store to the same elements of `{store.buffer}`"
                )
            doubts.append(f"the analysis cannot show that groups store to different elements of `{store.buffer}`")
    doubts += [
        f"the analysis cannot show that all {'stores to' if one.stores else 'loads from'} `{one.buffer}` are within its bounds"
        for one in found
        if not _within(one, sizes[one.buffer])
    ]
    loaded = frozenset(one.buffer for one in found if not one.stores and one.buffer in written)
    if doubts:
        return SplitVerdict(Correctness.CHECK, doubts[0], d, written, loaded)
    reason = f"each group along dimension {d} stores to elements of its own, and loads none that another one stores to"
    return SplitVerdict(Correctness.PROVEN, reason, d, written, loaded)


def _split_symbol(form: LinearForm, d: int) -> Symbol | None:
    return next((one for one in form.terms if one.name in (f"group{d}", f"global{d}")), None)


def _may_meet(store: Access, other: Access, d: int) -> bool:
    """Whether two work-items whose groups differ along dimension `d` may touch a common byte."""
    if store.offset is None or other.offset is None:
        return True
    mine, its = _split_symbol(store.offset, d), _split_symbol(other.offset, d)
    terms = [*_free(store, mine, 1), *_free(other, its, -1)]
    constant = store.offset.constant - other.offset.constant
    low, high = 1 - store.width - constant, other.width - 1 - constant
    if mine is None and its is None:
        return can_meet(terms, low, high)
    if mine is None or its is None:
        only, access, sign = (mine, store, 1) if mine else (its, other, -1)
        assert only is not None
        assert access.offset is not None
        return can_meet([*terms, (sign * access.offset.terms[only], *access.facts.of(only))], low, high)
    a, b = store.offset.terms[mine], other.offset.terms[its]
    (low1, high1), (low2, high2) = store.facts.of(mine), other.facts.of(its)
    # a * x - b * y with y = x + distance
    ahead = (-b, max(1, low2 - high1), high2 - low1)
    behind = (-b, low2 - high1, min(-1, high2 - low1))
    return any(can_meet([*terms, (a - b, low1, high1), distance], low, high) for distance in (ahead, behind))


def _free(access: Access, split: Symbol | None, sign: int) -> Iterable[tuple[int, int, int]]:
    assert access.offset is not None
    return [
        (sign * factor, *access.facts.of(symbol))
        for symbol, factor in access.offset.terms.items()
        if symbol is not split
    ]


def _exact(access: Access) -> bool:
    """Whether every combination of its symbols' values is reached, so that a common element is sure and not only possible."""
    return (
        access.offset is not None
        and all(symbol.exact for symbol in access.offset.terms)
        and not access.facts.positive
        and not access.facts.closer
    )


def _within(access: Access, size: int) -> bool:
    if not access.stores and (access.offset is None or not all(symbol.exact for symbol in access.offset.terms)):
        return True  # whether an index that was loaded or computed is right is the program's own business
    if access.offset is None:
        return False
    low, high = access.offset.bounds(access.facts)
    return low >= 0 and high + access.width <= size
