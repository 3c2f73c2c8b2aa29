"""What a loop counts: by how much a value grows in each round, how many rounds there are, and what holds in all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuq.split.graph import BlockGraph
from gpuq.split.linear import Bounds, Facts, LinearForm, Symbol
from gpuq.split.llvm_text import Block, Function, Instruction, Module, split_list, typed, without_flags
from gpuq.split.values import Value, Whole

NO_LIMIT = 1 << 62
_SWAPPED = {
    "slt": "sgt",
    "sgt": "slt",
    "sle": "sge",
    "sge": "sle",
    "ult": "ugt",
    "ugt": "ult",
    "ule": "uge",
    "uge": "ule",
}


class LoopStep(NamedTuple):
    """What is added in each round, and the bounds of the value at its start within which that is right: beyond them a type on
    the way does not hold it."""

    amount: int
    within: Bounds


class LoopTest(NamedTuple):
    """A value that a loop's test compares: `first` + `ahead` in the first round, and each round adds `step`. This is right while
    what is counted, without `ahead`, is within the bounds."""

    first: LinearForm
    ahead: int
    step: int
    within: Bounds


@dataclass(slots=True)
class Loops:
    """The loops of one function. `facts` and `values` are filled as the function is interpreted, by `operand` and `value`."""

    module: Module
    function: Function
    graph: BlockGraph
    facts: Mapping[str, Facts]
    values: dict[str, Value]
    operand: Callable[[str, str], Value]
    value: Callable[[Instruction, Facts], Value]
    counts: dict[str, Symbol] = field(default_factory=dict)

    def counted(self, label: str, name: str, kind: str, first: LinearForm, back: str) -> LinearForm | None:
        """The value of `name` in any round of the loop at `label`: it begins as `first`, and goes on as `back`."""
        step = self._step(label, name, back, kind)
        if step is None:
            return None
        if label not in self.counts:
            self.counts[label] = Symbol(f"rounds of {label}", 0, self._rounds(label))
        form = first + LinearForm.of(self.counts[label]) * step.amount
        return form if fits(form, step.within, self.facts[label]) or kind == "ptr" else None

    def tested_before(
        self, label: str, end: str, first: LinearForm, form: LinearForm, known: Facts
    ) -> LinearForm | None:
        """What is at least 0 in each round of a counted value: in the first, by what is `known`, and later by the loop's test."""
        compare = self._comparison_at(self.function.blocks[end], label)
        if compare is None:
            return None
        predicate, kind, left, right = compare
        tested, bound = self._in_rounds(label, left), self._invariant(label, kind, right)
        if tested is None or not isinstance(bound, Whole) or predicate not in ("slt", "sle", "ult", "ule"):
            return None
        apart = tested.first - first
        is_next = not apart.terms and apart.constant == 0 and tested.ahead == tested.step
        signed_too = predicate[0] == "s" or bound.form.bounds(known)[0] >= 0
        margin = LinearForm(int(predicate[1:] == "lt"))
        return (
            bound.form - form - margin
            if is_next and signed_too and (bound.form - first - margin).bounds(known)[0] >= 0
            else None
        )

    def _comparison_at(self, block: Block, stays: str) -> tuple[str, str, str, str] | None:
        """The comparison that holds where the block's branch goes to `stays`: (predicate, type, left, right)."""
        last = block.instructions[-1]
        if len(block.successors) != 2 or last.opcode != "br" or not (match := re.match(r"i1 (\S+),", last.text)):
            return None
        made = next((one for one in block.instructions if one.result == match[1]), None)
        compare = comparison(made.text) if made is not None and made.opcode == "icmp" else None
        if compare is None:
            return None
        return compare if block.successors[0] == stays else (_opposite(compare[0]), *compare[1:])

    def _step(self, label: str, name: str, value: str, kind: str) -> LoopStep | None:
        """What the value is more than the name, if that is one number (bytes for a pointer)."""
        loop = [part for part in self.graph.order if self.graph.dominates(label, part)]
        made_in_loop = {
            one.result: one for part in loop for one in self.function.blocks[part].instructions if one.result
        }
        total, limits = 0, [(0, signed(64))]
        for _ in range(64):
            if value == name:
                # A limit that was met when `passed` of the total was still to come is one of the name's value plus the rest.
                ends = [(low - total + passed, high - total + passed) for passed, (low, high) in limits]
                return LoopStep(total, (max(low for low, _ in ends), min(high for _, high in ends)))
            made = made_in_loop.get(value)
            if made is None:
                return None
            if (narrowed := _narrowed(made, made_in_loop)) is not None:
                value, limit = narrowed
                limits.append((total, limit))
                continue
            text = without_flags(made.text)
            if made.opcode == "add" and kind != "ptr":
                parts = split_list(text)
                own, left = typed(parts[0])
                limits.append((total, signed(int(own[1:]) if re.fullmatch(r"i\d+", own) else 1)))
                amount, following = self._invariant(label, own, parts[1]), left
                if not (isinstance(amount, Whole) and not amount.form.terms):
                    amount, following = self._invariant(label, own, left), parts[1]
            elif made.opcode == "getelementptr" and kind == "ptr":
                parts = split_list(re.sub(r"^(inbounds|nuw|nusw) ", "", text))
                size = self.module.size_of(parts[0])
                if len(parts) != 3 or size is None:
                    return None
                amount, following = self._invariant(label, *typed(parts[2])), typed(parts[1])[1]
                if isinstance(amount, Whole):
                    amount = Whole(64, amount.form * size[0])
            else:
                return None
            if not isinstance(amount, Whole) or amount.form.terms:
                return None
            total += amount.form.constant
            value = following
        return None

    def _rounds(self, label: str) -> int:
        """How often the loop at this label can go back to its start, at most."""
        best = NO_LIMIT
        for end in (one for one in self.graph.before[label] if self.graph.dominates(label, one)):
            limit = NO_LIMIT
            for part in self.graph.order:
                block = self.function.blocks[part]
                if self.graph.dominates(label, part) and self.graph.dominates(part, end) and len(block.successors) == 2:
                    limit = min(limit, self._rounds_by(label, end, block))
            best = limit if best == NO_LIMIT else max(best, limit)
        return best

    def _rounds_by(self, label: str, end: str, block: Block) -> int:
        """The rounds that one test of the loop allows: it compares something counted with a bound that does not change."""
        stays = [one for one in block.successors if one == label or self.graph.reaches(one, end, label)]
        compare = self._comparison_at(block, stays[0]) if len(stays) == 1 else None
        if compare is None:
            return NO_LIMIT
        predicate, kind, left, right = compare
        tested, bound = self._in_rounds(label, left), self._invariant(label, kind, right)
        if tested is None or not isinstance(bound, Whole):
            tested, bound = self._in_rounds(label, right), self._invariant(label, kind, left)
            predicate = _SWAPPED.get(predicate, predicate)
        if tested is None or not isinstance(bound, Whole):
            return NO_LIMIT
        limit = self._rounds_until(label, predicate, tested.first + LinearForm(tested.ahead), tested.step, bound)
        ends = (tested.first, tested.first + LinearForm(tested.step * limit))
        return limit if all(fits(one, tested.within, self.facts[label]) for one in ends) else NO_LIMIT

    def _rounds_until(self, label: str, predicate: str, start: LinearForm, step: int, bound: Whole) -> int:
        """How often a value that begins at `start` passes the test against the bound."""
        low, high = (bound.form - start).bounds(self.facts[label])
        least, most = bound.form.bounds(self.facts[label])
        if predicate != "ne" and (most + step >= 1 << (bound.bits - 1) or least + step < -(1 << (bound.bits - 1))):
            return NO_LIMIT  # what is counted might pass the end of its type before the test fails
        if predicate in ("ult", "ule"):
            # As signed: only where neither side is negative on any round until the test fails.
            if start.bounds(self.facts[label])[0] < 0 or bound.form.bounds(self.facts[label])[0] < 0 or step <= 0:
                return NO_LIMIT
            predicate = "s" + predicate[1:]
        if predicate == "ne":
            exact = not (bound.form - start).terms
            if step > 0 and low >= 0 and (step == 1 or (exact and low % step == 0)):
                return high // step
            if step < 0 and high <= 0 and (step == -1 or (exact and low % -step == 0)):
                return -low // -step
            return NO_LIMIT
        if step > 0 and predicate in ("slt", "sle"):
            return max(0, (high - (predicate == "slt")) // step + 1)
        if step < 0 and predicate in ("sgt", "sge"):
            return max(0, (-low - (predicate == "sgt")) // -step + 1)
        return NO_LIMIT

    def _in_rounds(self, label: str, name: str) -> LoopTest | None:
        """How the loop counts the value that has this name, if it does."""
        for one in self.function.blocks[label].instructions:
            if one.opcode != "phi":
                break
            kind = one.text.split(" [")[0].split(" ")[-1]
            ways = re.findall(r"\[ (.+?), %(\"[^\"]+\"|[-\w.$]+) \]", one.text)
            back = [value for value, way in ways if self.graph.dominates(label, way)]
            first = [self.operand(kind, value) for value, way in ways if not self.graph.dominates(label, way)]
            if len(back) != 1 or len(first) != 1 or not isinstance(first[0], Whole):
                continue
            step = self._step(label, one.result, back[0], kind)
            ahead = self._step(label, one.result, name, kind)
            if step is not None and ahead is not None and step.amount:
                within = [signed(first[0].bits), step.within, ahead.within]
                bounds = max(low for low, _ in within), min(high for _, high in within)
                return LoopTest(first[0].form, ahead.amount, step.amount, bounds)
        return None

    def _invariant(self, label: str, kind: str, text: str) -> Value:
        """An operand that is the same in each round of the loop at `label`, else None.

        In the loop only what follows from such operands alone is: arithmetic and the launch's sizes, ahead of their turn.
        """
        text = text.strip()
        loop = (one for one in self.graph.order if self.graph.dominates(label, one))
        made = next(
            (one for part in loop for one in self.function.blocks[part].instructions if one.result == text), None
        )
        if made is None or not text.startswith("%"):
            return self.operand(kind, text)
        names = re.findall(r"%(?:\"[^\"]+\"|[-\w.$]+)", made.text)
        plain = made.opcode in ("add", "sub", "mul", "shl", "sext", "zext", "trunc")
        sizes = made.opcode == "call" and re.search(r"@_Z\d+get_(global_size|local_size|num_groups)j\(", made.text)
        if not (plain or sizes) or any(self._invariant(label, "", name) is None for name in names):
            return None
        for name in names:
            self.values.setdefault(name, self._invariant(label, "", name))
        return self.value(made, self.facts[label])


def signed(bits: int) -> Bounds:
    """The least and the greatest signed number of so many bits."""
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def fits(form: LinearForm, within: Bounds, facts: Facts) -> bool:
    """Whether a form is always between two bounds."""
    low, high = form.bounds(facts)
    return within[0] <= low and high <= within[1]


def _narrowed(made: Instruction, others: Mapping[str, Instruction]) -> tuple[str, Bounds] | None:
    """(operand, bounds) of an instruction that gives its operand again where that is within the bounds."""
    text = without_flags(made.text)
    parts = split_list(text.split(" to ")[0])
    kind, name = typed(parts[0])
    if not re.fullmatch(r"i\d+", kind):
        return None
    bits = int(kind[1:])
    if made.opcode == "sext":
        return name, signed(bits)
    if made.opcode == "zext":
        return name, (0, signed(bits)[1])
    if made.opcode == "trunc":
        return name, signed(int(text.split(" to ")[1].strip()[1:]))
    if made.opcode == "and" and parts[1].isdigit() and int(parts[1]) & (int(parts[1]) + 1) == 0:
        return name, (0, int(parts[1]))
    inner = others.get(name)
    if made.opcode == "ashr" and inner is not None and inner.opcode == "shl" and parts[1].isdigit():
        shifted = split_list(without_flags(inner.text))
        return (typed(shifted[0])[1], signed(bits - int(parts[1]))) if shifted[1] == parts[1] else None
    return None


def comparison(text: str) -> tuple[str, str, str, str] | None:
    """(predicate, type, left, right) of a comparison of whole numbers."""
    match = re.match(r"^(?:samesign )?(\w+) (i\d+) (\S+), (\S+)$", text)
    return (match[1], match[2], match[3], match[4]) if match else None


def _opposite(predicate: str) -> str:
    pairs = {"eq": "ne", "slt": "sge", "sle": "sgt", "ult": "uge", "ule": "ugt"}
    return {**pairs, **{right: left for left, right in pairs.items()}}[predicate]
