"""What a kernel stores to and loads from global memory, by interpreting its LLVM text for one launch.

Every whole number is followed as a linear form over ids, iteration counts and unknown values with bounds; the scalars of
the launch are numbers. The value of a form is the signed value of the bits: where a result might not fit its type, it
becomes an unknown value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpuq.split.graph import BlockGraph
from gpuq.split.linear import Facts, LinearForm, Symbol
from gpuq.split.llvm_text import Block, Function, Instruction, Module, split_list, typed, without_flags
from gpuq.split.values import Access, Argument, Condition, Ids, IndexSpace, NotSplittable, Pointer, Value, Whole

_NO_LIMIT = 1 << 62
_MATHS_WITH_POINTER = re.compile(r"^_Z\d+v(load|store)(\d+)(?=\D)")
_ELEMENT_BYTES = {"c": 1, "h": 1, "a": 1, "s": 2, "t": 2, "i": 4, "j": 4, "f": 4, "l": 8, "m": 8, "d": 8}
_SWAPPED = {"slt": "sgt", "sgt": "slt", "sle": "sge", "sge": "sle"}


def accesses(module: Module, kernel: str, arguments: list[Argument], launch: IndexSpace) -> list[Access]:
    """All stores to and loads from buffers. Raises NotSplittable."""
    function = module.functions[kernel]
    apart = frozenset(
        int(match[1]) if (match := re.search(r"\(i32 (?:noundef )?(\d+)\)", one.text)) else -1
        for block in function.blocks.values()
        for one in block.instructions
        if re.search(r"@_Z12get_(group|local)_idj", one.text)
    )
    if -1 in apart:
        apart = frozenset(range(len(launch.size)))
    return _Interpreter(module, function, arguments, Ids.of(launch, apart)).run()


@dataclass(slots=True)
class _Interpreter:
    module: Module
    function: Function
    arguments: list[Argument]
    ids: Ids
    values: dict[str, Value] = field(default_factory=dict)
    found: list[Access] = field(default_factory=list)
    graph: BlockGraph = field(init=False)
    facts: dict[str, Facts] = field(default_factory=dict)
    counts: dict[str, Symbol] = field(default_factory=dict)
    quotients: dict[tuple[frozenset[tuple[Symbol, int]], int, int], Symbol] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.graph = BlockGraph(self.function.blocks)

    def run(self) -> list[Access]:
        """Interpret every block once, in an order in which what dominates comes first."""
        for (kind, name), argument in zip(self.function.parameters, self.arguments, strict=True):
            self.values[name] = _argument(kind, argument)
        for label in self.graph.order:
            block = self.function.blocks[label]
            self.facts[label] = self._facts_at(label)
            for one in block.instructions:
                if one.opcode == "phi":
                    self.values[one.result] = self._phi(label, one)
                else:
                    value = self._value(one, self.facts[label])
                    if one.result:
                        self.values[one.result] = value
        return self.found

    # Facts where a block begins.

    def _facts_at(self, label: str) -> Facts:
        upper = self.graph.above[label]
        if upper == label:
            return Facts()
        facts = self.facts[upper]
        if self.graph.before[label] == [upper]:
            facts = self._after(facts, upper, label)
        return facts

    def _after(self, facts: Facts, label: str, following: str) -> Facts:
        """The facts on one edge out of a block."""
        for form in self._edge(label, following):
            facts = facts.adding(form)
        return facts

    def _edge(self, label: str, following: str) -> tuple[LinearForm, ...]:
        block = self.function.blocks[label]
        if len(block.successors) != 2 or block.successors[0] == block.successors[1]:
            return ()
        last = block.instructions[-1]
        if last.opcode != "br" or not (match := re.match(r"i1 (\S+),", last.text)):
            return ()
        condition = self.values.get(match[1])
        if not isinstance(condition, Condition):
            return ()
        return condition.true if block.successors[0] == following else condition.false

    # Values that depend on the way taken.

    def _phi(self, label: str, one: Instruction) -> Value:
        kind = one.text.split(" [")[0].split(" ")[-1] if not one.text.startswith("<") else "<>"
        ways = re.findall(r"\[ (.+?), %(\"[^\"]+\"|[-\w.$]+) \]", one.text)
        place = {name: index for index, name in enumerate(self.graph.order)}
        ways = [(value, name) for value, name in ways if name in place]
        back = [way for way in ways if self.graph.dominates(label, way[1])]
        if any(place[name] >= place[label] for _, name in ways) and not back:
            return self._unknown(kind)
        if not back:
            return self._merged(kind, [self._operand(kind, value) for value, _ in ways])
        first = [self._operand(kind, value) for value, name in ways if (value, name) not in back]
        if len(first) != 1 or len(back) != 1:
            return self._unknown(kind)
        step = self._step(label, one.result, back[0][0], kind)
        if step is None:
            return self._unknown(kind)
        return self._counted(label, first[0], step)

    def _step(self, label: str, name: str, value: str, kind: str) -> LinearForm | None:
        """What the value adds to the name in each round, if that is one number; bytes for a pointer."""
        loop = {one for one in self.graph.order if self.graph.dominates(label, one)}
        total = 0
        for _ in range(64):
            if value == name:
                return LinearForm(total)
            made = next(
                (one for part in loop for one in self.function.blocks[part].instructions if one.result == value), None
            )
            if made is None:
                return None
            text = without_flags(made.text)
            if made.opcode == "add" and kind != "ptr":
                parts = split_list(text)
                left, right = typed(parts[0])[1], parts[1]
                amount, following = self._operand(kind, right), left
                if not (isinstance(amount, Whole) and not amount.form.terms):
                    amount, following = self._operand(kind, left), right
            elif made.opcode == "getelementptr" and kind == "ptr":
                parts = split_list(re.sub(r"^(inbounds|nuw|nusw) ", "", text))
                size = self.module.size_of(parts[0])
                if len(parts) != 3 or size is None:
                    return None
                amount, following = self._operand(*typed(parts[2])), typed(parts[1])[1]
                if isinstance(amount, Whole):
                    amount = Whole(64, amount.form * size[0])
            else:
                return None
            if not isinstance(amount, Whole) or amount.form.terms:
                return None
            total += amount.form.constant
            value = following
        return None

    def _counted(self, label: str, first: Value, step: LinearForm) -> Value:
        form = first.form if isinstance(first, Whole) else first.offset if isinstance(first, Pointer) else None
        if form is None:
            return first if isinstance(first, Pointer) else self._unknown("i64")
        if label not in self.counts:
            self.counts[label] = Symbol(f"rounds of {label}", 0, self._rounds(label))
        form = form + LinearForm.of(self.counts[label]) * step.constant
        if isinstance(first, Pointer):
            return Pointer(first.base, form)
        assert isinstance(first, Whole)
        return self._fitted(first.bits, form, self.facts[label])

    def _rounds(self, label: str) -> int:
        """How often the loop at this label can go back to its start, at most."""
        best = _NO_LIMIT
        for end in (one for one in self.graph.before[label] if self.graph.dominates(label, one)):
            limit = _NO_LIMIT
            for part in self.graph.order:
                block = self.function.blocks[part]
                if self.graph.dominates(label, part) and self.graph.dominates(part, end) and len(block.successors) == 2:
                    limit = min(limit, self._rounds_by(label, end, block))
            best = limit if best == _NO_LIMIT else max(best, limit)
        return best

    def _rounds_by(self, label: str, end: str, block: Block) -> int:  # noqa: C901, PLR0912  a table of the tests that loops have
        """The rounds that one test of the loop allows: it compares something counted with a bound that does not change."""
        last = block.instructions[-1]
        if last.opcode != "br" or not (match := re.match(r"i1 (\S+),", last.text)):
            return _NO_LIMIT
        stays = [one for one in block.successors if one == label or self.graph.reaches(one, end, label)]
        made = next((one for one in block.instructions if one.result == match[1]), None)
        if len(stays) != 1 or made is None or made.opcode != "icmp":
            return _NO_LIMIT
        compare = _comparison(made.text)
        if compare is None:
            return _NO_LIMIT
        predicate, kind, left, right = compare
        if block.successors[0] != stays[0]:
            predicate = _opposite(predicate)
        tested = self._in_rounds(label, left, kind)
        bound = self._operand(kind, right)
        if tested is None or not isinstance(bound, Whole):
            tested, bound = self._in_rounds(label, right, kind), self._operand(kind, left)
            predicate = _SWAPPED.get(
                predicate, {"ult": "ugt", "ugt": "ult", "ule": "uge", "uge": "ule"}.get(predicate, predicate)
            )
        if tested is None or not isinstance(bound, Whole):
            return _NO_LIMIT
        start, step = tested
        low, high = (bound.form - start).bounds(self.facts[label])
        least, most = bound.form.bounds(self.facts[label])
        if predicate != "ne" and (most + step >= 1 << (bound.bits - 1) or least + step < -(1 << (bound.bits - 1))):
            return _NO_LIMIT  # what is counted might pass the end of its type before the test fails
        if predicate in ("ult", "ule"):
            # As signed: only where neither side is negative on any round until the test fails.
            if start.bounds(self.facts[label])[0] < 0 or bound.form.bounds(self.facts[label])[0] < 0 or step <= 0:
                return _NO_LIMIT
            predicate = "s" + predicate[1:]
        if predicate == "ne":
            exact = not (bound.form - start).terms
            if step > 0 and low >= 0 and (step == 1 or (exact and low % step == 0)):
                return high // step
            if step < 0 and high <= 0 and (step == -1 or (exact and low % -step == 0)):
                return -low // -step
            return _NO_LIMIT
        if step > 0 and predicate in ("slt", "sle"):
            return max(0, (high - (predicate == "slt")) // step + 1)
        if step < 0 and predicate in ("sgt", "sge"):
            return max(0, (-low - (predicate == "sgt")) // -step + 1)
        return _NO_LIMIT

    def _in_rounds(self, label: str, name: str, kind: str) -> tuple[LinearForm, int] | None:
        """(value in the first round, what each round adds) of a value that the loop at `label` counts."""
        for one in self.function.blocks[label].instructions:
            if one.opcode != "phi":
                break
            ways = re.findall(r"\[ (.+?), %(\"[^\"]+\"|[-\w.$]+) \]", one.text)
            back = [value for value, way in ways if self.graph.dominates(label, way)]
            first = [self._operand(kind, value) for value, way in ways if not self.graph.dominates(label, way)]
            if len(back) != 1 or len(first) != 1 or not isinstance(first[0], Whole) or f"{kind} " not in one.text + " ":
                continue
            step = self._step(label, one.result, back[0], kind)
            ahead = self._step(label, one.result, name, kind)
            if step is not None and ahead is not None and step.constant:
                return first[0].form + ahead, step.constant
        return None

    # Values of single instructions.

    def _operand(self, kind: str, text: str) -> Value:
        text = text.strip()
        if text in self.values:
            return self.values[text]
        bits = int(kind[1:]) if re.fullmatch(r"i\d+", kind) else 0
        if bits and re.fullmatch(r"-?\d+", text):
            return Whole(bits, LinearForm(int(text)))
        if bits and text in ("true", "false"):
            return Whole(bits, LinearForm(int(text == "true")))
        if kind == "ptr" and (variable := re.search(r"@\"?([\w.$-]+)", text)):
            # A variable that the kernel declares in local memory is named after the kernel.
            return Pointer("private" if variable[1].startswith(self.function.name + ".") else "", None)
        return self._unknown(kind)

    def _unknown(self, kind: str, low: int | None = None, high: int | None = None) -> Value:
        if re.fullmatch(r"i\d+", kind):
            bits = int(kind[1:])
            least = -(1 << (bits - 1)) if low is None else low
            most = (1 << (bits - 1)) - 1 if high is None else high
            return Whole(bits, LinearForm(least) if least == most else LinearForm.of(Symbol("unknown", least, most)))
        return Pointer("", None) if kind == "ptr" else None

    def _fitted(self, bits: int, form: LinearForm, facts: Facts) -> Whole:
        """The form as a number of so many bits, or an unknown one if it may not fit."""
        low, high = form.bounds(facts)
        if low < -(1 << (bits - 1)) or high >= 1 << (bits - 1):
            value = self._unknown(f"i{bits}")
            assert isinstance(value, Whole)
            return value
        return Whole(bits, form)

    def _merged(self, kind: str, values: list[Value]) -> Value:
        wholes = [one for one in values if isinstance(one, Whole)]
        if len(wholes) == len(values) and wholes:
            if all(
                not (one.form - wholes[0].form).terms and one.form.constant == wholes[0].form.constant for one in wholes
            ):
                return wholes[0]
            bounds = [one.form.bounds() for one in wholes]
            return self._unknown(kind, min(low for low, _ in bounds), max(high for _, high in bounds))
        pointers = [one for one in values if isinstance(one, Pointer)]
        if len(pointers) == len(values) and pointers and len({one.base for one in pointers}) == 1:
            return Pointer(pointers[0].base, None)
        return self._unknown(kind)

    def _value(self, one: Instruction, facts: Facts) -> Value:  # noqa: C901, PLR0912  the table of opcodes
        text = without_flags(one.text)
        match one.opcode:
            case "br" | "ret" | "switch" | "unreachable" | "fence":
                return None
            case (
                "add"
                | "sub"
                | "mul"
                | "shl"
                | "and"
                | "or"
                | "xor"
                | "lshr"
                | "ashr"
                | "udiv"
                | "sdiv"
                | "urem"
                | "srem"
            ):
                return self._arithmetic(one, text, facts)
            case "sext" | "zext" | "trunc":
                return self._converted(one.opcode, text, facts)
            case "icmp":
                return self._compared(one.text, facts)
            case "select":
                return self._selected(text)
            case "freeze":
                return self._operand(*typed(text))
            case "getelementptr":
                return self._address(text, facts)
            case "alloca":
                return Pointer("private", None)
            case "load":
                return self._loaded(text, facts)
            case "store":
                parts = split_list(text)
                self._touch(typed(parts[1])[1], self._width(typed(parts[0])[0]), facts, stores=True)
                return None
            case "call":
                return self._called(one.text, facts)
            case "addrspacecast" | "bitcast" if text.startswith("ptr"):
                return self._operand(*typed(text.split(" to ")[0]))
            case "atomicrmw" | "cmpxchg":
                operand = next(part for part in split_list(text) if "ptr " in part)
                self._atomic(operand.split("ptr ")[-1])
                return self._unknown("")
            case "not understood" | "va_arg" | "indirectbr" | "invoke" | "callbr" | "resume":
                raise NotSplittable(f"it has an instruction that the analysis does not follow: {one.text[:60]}")
            case "inttoptr":
                return Pointer("", None)
            case "ptrtoint" | "fptosi" | "fptoui" | "bitcast":
                return self._unknown(text.split(" to ")[-1].strip())
            case "fcmp":
                return None if text.split(" ")[-1].startswith("<") else Condition((), ())
            case "extractelement":
                inner = re.match(r"<\d+ x (\w+)>", text)
                return self._unknown(inner[1] if inner else "")
            case _ if one.result:  # arithmetic of floating-point numbers and vectors: it touches no memory
                return None
            case _:
                raise NotSplittable(f"it has an instruction that the analysis does not follow: {one.opcode}")

    def _arithmetic(self, one: Instruction, text: str, facts: Facts) -> Value:
        kind, _ = typed(text)
        parts = split_list(text)
        if not re.fullmatch(r"i\d+", kind):
            return None
        left, right = self._operand(*typed(parts[0])), self._operand(kind, parts[1])
        bits = int(kind[1:])
        if isinstance(left, Condition) or isinstance(right, Condition):
            return _joined(one.opcode, left, right)
        if not (isinstance(left, Whole) and isinstance(right, Whole)):
            return self._unknown(kind)
        form = self._combined(one.opcode, left.form, right.form, facts)
        if isinstance(form, tuple):
            return self._unknown(kind, *form)
        return self._unknown(kind) if form is None else self._fitted(bits, form, facts)

    def _combined(  # noqa: C901, PLR0912  the table of operations
        self, opcode: str, left: LinearForm, right: LinearForm, facts: Facts
    ) -> LinearForm | tuple[int, int] | None:
        """The form of an operation's result, its bounds where it is not linear, or None where nothing is known of it."""
        low, high = left.bounds(facts)
        if opcode in ("add", "sub"):
            return left + right if opcode == "add" else left - right
        if opcode == "or" and (_fills_gap(left, right, facts) or _fills_gap(right, left, facts)):
            return left + right
        if opcode in ("mul", "and") and not left.terms:
            left, right, (low, high) = right, left, right.bounds(facts)
        if right.terms:
            if opcode == "mul" and low >= 0 and right.bounds(facts)[0] >= 0:
                return 0, high * right.bounds(facts)[1]
            if opcode in ("urem", "srem", "udiv", "sdiv") and low >= 0 and right.bounds(facts)[0] >= 1:
                return 0, high
            return None
        number = right.constant
        if opcode == "mul":
            return left * number
        if opcode == "shl":
            return left * (1 << number) if 0 <= number < 64 else None
        if opcode == "and":
            if number >= 0:
                gap = number & -number
                if (
                    low >= 0
                    and high < number + gap
                    and number & (number + gap) == 0
                    and (gap == 1 or left.divided(gap))
                ):
                    return left  # nothing is cleared
                return 0, min(number, high) if low >= 0 else number
            if low >= 0 and -number & (-number - 1) == 0:  # clears low bits
                quotient = self._quotient(left, -number, low, high)
                return quotient * -number
            return None
        if opcode in ("lshr", "udiv", "ashr", "sdiv", "urem", "srem"):
            by = 1 << number if opcode in ("lshr", "ashr") and 0 <= number < 64 else number
            if by <= 0:
                return None
            exact = left.divided(by)
            if exact is not None and (low >= 0 or opcode in ("ashr", "sdiv")):
                return LinearForm() if opcode in ("urem", "srem") else exact
            if low < 0:
                return (low // by, high // by) if opcode == "ashr" else (-by + 1, by - 1) if opcode == "srem" else None
            if opcode in ("urem", "srem"):
                return (
                    left
                    if high < by
                    else left - self._quotient(left, by, low, high) * by
                    if left.terms
                    else LinearForm(left.constant % by)
                )
            return self._quotient(left, by, low, high)
        return None

    def _quotient(self, form: LinearForm, by: int, low: int, high: int) -> LinearForm:
        """One symbol for the same quotient wherever it is taken, so that q * n + rest is the number again."""
        always_low, always_high = form.bounds()
        if always_low < 0:
            return LinearForm.of(Symbol("quotient", low // by, high // by))
        key = (frozenset(form.terms.items()), form.constant, by)
        if key not in self.quotients:
            self.quotients[key] = Symbol("quotient", always_low // by, always_high // by)
        return LinearForm.of(self.quotients[key])

    def _converted(self, opcode: str, text: str, facts: Facts) -> Value:
        source, target = text.split(" to ")
        kind, name = typed(source)
        target = target.strip()
        value = self._operand(kind, name)
        if not re.fullmatch(r"i\d+", target):
            return None
        if isinstance(value, Condition):
            return self._unknown(target, *((-1, 0) if opcode == "sext" else (0, 1)))
        if not isinstance(value, Whole):
            return self._unknown(target)
        bits = int(target[1:])
        if opcode == "zext" and value.form.bounds(facts)[0] < 0:
            return self._unknown(target, 0, (1 << value.bits) - 1)
        return self._fitted(bits, value.form, facts)

    def _compared(self, text: str, facts: Facts) -> Value:
        compare = _comparison(text)
        if compare is None:
            return None
        predicate, kind, left_name, right_name = compare
        left, right = self._operand(kind, left_name), self._operand(kind, right_name)
        if not (isinstance(left, Whole) and isinstance(right, Whole)):
            return Condition((), ())
        a, b = left.form, right.form
        one = LinearForm(1)
        if predicate[0] == "u" and (a.bounds(facts)[0] < 0 or b.bounds(facts)[0] < 0):
            # x < n as unsigned numbers, with n >= 0, also says that x >= 0.
            if predicate == "ult" and b.bounds(facts)[0] >= 0:
                return Condition((b - a - one, a), ())
            return Condition((), ())
        match predicate:
            case "slt" | "ult":
                return Condition((b - a - one,), (a - b,))
            case "sle" | "ule":
                return Condition((b - a,), (a - b - one,))
            case "sgt" | "ugt":
                return Condition((a - b - one,), (b - a,))
            case "sge" | "uge":
                return Condition((a - b,), (b - a - one,))
            case "eq":
                return Condition((a - b, b - a), ())
        return Condition((), (a - b, b - a))

    def _selected(self, text: str) -> Value:
        parts = split_list(text)
        (_, test), (kind, yes), (_, no) = (typed(part) for part in parts)
        condition = self._operand("i1", test)
        first, second = self._operand(kind, yes), self._operand(kind, no)
        if kind == "i1" and isinstance(condition, Condition):
            if no in ("false",):
                return _joined("and", condition, first)
            if yes in ("true",):
                return _joined("or", condition, second)
            return Condition((), ())
        return self._merged(kind, [first, second])

    def _address(self, text: str, facts: Facts) -> Value:
        text = re.sub(r"^((inbounds|nuw|nusw|inrange\(.*?\)) )+", "", text)
        parts = split_list(text)
        base = self._operand(*typed(parts[1]))
        if not isinstance(base, Pointer) or base.offset is None:
            return base if isinstance(base, Pointer) else None
        kind, offset = parts[0], base.offset
        for position, part in enumerate(parts[2:]):
            index = self._operand(*typed(part))
            if not isinstance(index, Whole):
                return Pointer(base.base, None)
            if position:
                kind, inner = self._inside(kind, index)
                if inner is None:
                    return Pointer(base.base, None)
                if kind.startswith("field "):
                    offset = offset + inner
                    kind = kind.removeprefix("field ")
                    continue
            size = self.module.size_of(kind)
            if size is None:
                return Pointer(base.base, None)
            offset = offset + index.form * size[0]
        return Pointer(base.base, self._fitted(64, offset, facts).form)

    def _inside(self, kind: str, index: Whole) -> tuple[str, LinearForm | None]:
        """The type one level inside `kind`; for a field of a structure also its offset."""
        body = self.module.types.get(kind, kind).strip()
        if match := re.fullmatch(r"[\[<](\d+) x (.*)[\]>]", body, re.S):
            return match[2], LinearForm()
        fields = self.module.fields_of(kind)
        if fields is None or index.form.terms:
            return kind, None
        number, end = index.form.constant, 0
        for size, align in fields[: number + 1]:
            start = -(-end // align) * align
            end = start + size
        return f"field {split_list(body[1:-1])[number]}", LinearForm(start)

    def _width(self, kind: str) -> int:
        size = self.module.size_of(kind)
        if size is None:
            raise NotSplittable(f"it stores or loads a {kind}, whose size the analysis does not know")
        return size[0]

    def _loaded(self, text: str, facts: Facts) -> Value:
        parts = split_list(re.sub(r"^atomic ", "", text))
        self._touch(typed(parts[1])[1], self._width(parts[0]), facts, stores=False)
        if text.startswith("atomic"):
            self._atomic(typed(parts[1])[1])
        return self._unknown(parts[0])

    def _touch(self, name: str, width: int, facts: Facts, *, stores: bool) -> None:
        pointer = self._operand("ptr", name)
        base = pointer.base if isinstance(pointer, Pointer) else ""
        if base == "private":
            return
        if not base:
            if not stores and re.match(r"@|getelementptr", name):
                return  # a constant table of the program
            raise NotSplittable(
                f"it {'stores through' if stores else 'loads through'} a pointer whose origin is not known"
            )
        assert isinstance(pointer, Pointer)
        offset = pointer.offset
        if offset is not None and any(max(abs(end) for end in facts.of(one)) >= 1 << 61 for one in offset.terms):
            offset = None
        self.found.append(Access(base, stores, offset, width, facts))

    def _atomic(self, name: str) -> None:
        pointer = self._operand("ptr", name)
        if not (isinstance(pointer, Pointer) and pointer.base == "private"):
            raise NotSplittable("it uses atomic operations on global memory, whose order a split changes")

    def _called(self, text: str, facts: Facts) -> Value:
        match = re.search(r"@(\"[^\"]+\"|[\w.$-]+)\((.*)\)", text)
        if match is None:
            raise NotSplittable("it calls through a pointer")
        name, operands = match[1].strip('"'), [typed(part) for part in split_list(match[2])]
        kind = text[: match.start()].strip().split(" ")[-1]
        if name.startswith(("llvm.lifetime", "llvm.dbg", "llvm.assume", "llvm.experimental.noalias")):
            return None
        if work_item := re.match(
            r"^_Z\d+(get_(?:work_dim|(?:global|local)_(?:id|size|offset)|group_id|num_groups))[jv]$", name
        ):
            return self._id(work_item[1], kind, operands, facts)
        if re.match(r"^_Z\d+get_(sub_group|num_sub|max_sub|enqueued|global_linear|local_linear)", name):
            raise NotSplittable(
                f"it uses {re.sub(r'^_Z[0-9]+|[jv]$', '', name)}, which a part of a split launch would answer otherwise"
            )
        values = [self._operand(*one) for one in operands]
        if "printf" in name:
            raise NotSplittable("it prints")
        if match := _MATHS_WITH_POINTER.match(name):
            self._vector(match, name, values, facts)
            return None
        pointers = [one for one in values if isinstance(one, Pointer)]
        if any(one.base != "private" for one in pointers):
            what = re.sub(r"^_Z\d+(_cl_)?", "", name)
            if "atom" in name:
                raise NotSplittable("it uses atomic operations on global memory, whose order a split changes")
            if "image" in what:
                raise NotSplittable("it uses images")
            raise NotSplittable(
                f"it passes global memory to a function that the analysis does not follow ({what[:40]})"
            )
        if "image" in name:
            raise NotSplittable("it uses images")
        self._must_be_pure(name, set())
        return self._ranged(name, kind, values, facts)

    def _id(self, name: str, kind: str, operands: list[tuple[str, str]], facts: Facts) -> Value:
        dimension = self._operand(*operands[0]) if operands else Whole(32, LinearForm())
        if not isinstance(dimension, Whole) or dimension.form.terms or dimension.form.constant < 0:
            raise NotSplittable("it asks for an id of a dimension that is not a constant")
        form = self.ids.value(name, dimension.form.constant)
        return self._unknown(kind) if form is None else self._fitted(int(kind[1:]), form, facts)

    def _vector(self, match: re.Match[str], name: str, values: list[Value], facts: Facts) -> None:
        """`vloadN` and `vstoreN`: N elements from offset * N on."""
        element = _ELEMENT_BYTES.get(name[-1])
        lanes = int(match[2])
        offset, pointer = values[-2], values[-1]
        if element is None or "half" in name or not isinstance(pointer, Pointer):
            raise NotSplittable(f"it calls {name}, which the analysis does not follow")
        if pointer.base == "private":
            return
        if not pointer.base:
            raise NotSplittable("it loads or stores through a pointer whose origin is not known")
        at = None
        if isinstance(offset, Whole) and pointer.offset is not None:
            at = self._fitted(64, pointer.offset + offset.form * (lanes * element), facts).form
        self.found.append(Access(pointer.base, match[1] == "store", at, lanes * element, facts))

    def _must_be_pure(self, name: str, seen: set[str]) -> None:
        """A called function may only compute: store to its own variables, and read tables. Raises NotSplittable."""
        if name in seen or name.startswith(("llvm.", "_Z9mem_fence")) or "barrier" in name:
            return
        seen.add(name)
        function = self.module.functions.get(name)
        if function is None:
            raise NotSplittable(f"it calls {name}, which the analysis does not follow")
        own: set[str] = set()
        for block in function.blocks.values():
            for one in block.instructions:
                if one.opcode == "alloca" or (
                    one.opcode == "getelementptr" and any(f"{mine}," in one.text + "," for mine in own)
                ):
                    own.add(one.result)
                target = typed(split_list(one.text)[1])[1] if one.opcode == "store" else ""
                if one.opcode in ("atomicrmw", "cmpxchg", "not understood", "inttoptr") or (
                    target and target not in own
                ):
                    parameters = {mine for kind, mine in function.parameters if kind == "ptr"}
                    if target not in parameters:
                        raise NotSplittable(f"it calls {name}, which writes memory that the analysis does not follow")
                if one.opcode == "call":
                    called = re.search(r"@(\"[^\"]+\"|[\w.$-]+)\(", one.text)
                    if called is None:
                        raise NotSplittable("it calls through a pointer")
                    if re.search(r"ptr [^,]*@", one.text[called.end() :]):
                        raise NotSplittable(
                            f"it calls {name}, which passes on memory that the analysis does not follow"
                        )
                    self._must_be_pure(called[1].strip('"'), seen)

    def _ranged(self, name: str, kind: str, values: list[Value], facts: Facts) -> Value:
        """The bounds of `min`, `max`, `clamp` and `abs` of whole numbers; otherwise anything."""
        whole = [one.form.bounds(facts) for one in values if isinstance(one, Whole)]
        plain = re.match(r"^(?:_Z\d+(?:_cl_)?(min|max|clamp)[ijlm]+$|llvm\.([su])(min|max)\.i)", name)
        if not plain or len(whole) != len(values) or not re.fullmatch(r"i\d+", kind):
            return self._unknown(kind)
        if (plain[2] == "u" or name[-1] in "jm") and any(low < 0 for low, _ in whole):
            return self._unknown(kind)
        lows, highs = [low for low, _ in whole], [high for _, high in whole]
        match plain[1] or plain[3]:
            case "min":
                return self._unknown(kind, min(lows), min(highs))
            case "max":
                return self._unknown(kind, max(lows), max(highs))
        if lows[1] > highs[2]:
            return self._unknown(kind)
        return self._unknown(kind, max(lows[1], min(lows[0], lows[2])), min(highs[2], max(highs[0], highs[1])))


def _fills_gap(upper: LinearForm, lower: LinearForm, facts: Facts) -> bool:
    """Whether `upper` has zero bits wherever `lower` may have ones, so that `or` adds them."""
    low, high = lower.bounds(facts)
    return low >= 0 and upper.divided(1 << high.bit_length()) is not None


def _argument(kind: str, value: Argument) -> Value:
    if isinstance(value, str):
        return Pointer(value or "private", LinearForm())
    if isinstance(value, int) and re.fullmatch(r"i\d+", kind):
        bits = int(kind[1:])
        value &= (1 << bits) - 1
        return Whole(bits, LinearForm(value - (1 << bits) if value >> (bits - 1) else value))
    return Pointer("", None) if kind == "ptr" else None


def _comparison(text: str) -> tuple[str, str, str, str] | None:
    match = re.match(r"^(?:samesign )?(\w+) (i\d+) (\S+), (\S+)$", text)
    return (match[1], match[2], match[3], match[4]) if match else None


def _opposite(predicate: str) -> str:
    pairs = {"eq": "ne", "slt": "sge", "sle": "sgt", "ult": "uge", "ule": "ugt"}
    return {**pairs, **{right: left for left, right in pairs.items()}}[predicate]


def _joined(opcode: str, left: Value, right: Value) -> Value:
    a = left if isinstance(left, Condition) else Condition((), ())
    b = right if isinstance(right, Condition) else Condition((), ())
    if opcode == "and":
        return Condition((*a.true, *b.true), ())
    if opcode == "or":
        return Condition((), (*a.false, *b.false))
    if opcode == "xor" and isinstance(right, Whole) and right.form.constant in (1, -1) and not right.form.terms:
        return Condition(a.false, a.true)
    return Condition((), ())
