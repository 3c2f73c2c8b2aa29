"""The order of a function's blocks, and which of them every way to another one passes."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuq.split.llvm_text import Block


@dataclass(slots=True)
class BlockGraph:
    """`order`: reachable blocks, in reverse postorder. `before`: predecessors. `above`: immediate dominators."""

    blocks: dict[str, Block]
    order: list[str] = field(init=False)
    before: dict[str, list[str]] = field(init=False)
    above: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        blocks = self.blocks
        entry = next(iter(blocks))
        seen, done, stack = {entry}, [], [(entry, iter(blocks[entry].successors))]
        while stack:
            label, rest = stack[-1]
            following = next((one for one in rest if one not in seen), None)
            if following is None:
                done.append(label)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(blocks[following].successors)))
        self.order = done[::-1]
        self.before = {label: [] for label in self.order}
        for label in self.order:
            for following in blocks[label].successors:
                self.before[following].append(label)
        place = {label: index for index, label in enumerate(self.order)}
        self.above = {entry: entry}
        changed = True
        while changed:
            changed = False
            for label in self.order[1:]:
                known = [one for one in self.before[label] if one in self.above]
                best = known[0]
                for other in known[1:]:
                    while best != other:
                        if place[best] > place[other]:
                            best = self.above[best]
                        else:
                            other = self.above[other]  # noqa: PLW2901
                if self.above.get(label) != best:
                    self.above[label], changed = best, True

    def dominates(self, upper: str, label: str) -> bool:
        """Whether every way to `label` passes `upper`, which may be the block itself."""
        while label != upper and self.above[label] != label:
            label = self.above[label]
        return label == upper

    def reaches(self, start: str, end: str, label: str) -> bool:
        """Whether a way leads from `start` to `end` that does not pass `label`."""
        seen, waiting = set(), [start]
        while waiting:
            one = waiting.pop()
            if one == end:
                return True
            if one not in seen and one != label:
                seen.add(one)
                waiting += self.blocks[one].successors
        return False
