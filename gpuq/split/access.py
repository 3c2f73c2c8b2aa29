"""What a kernel stores to and loads from global memory, by interpreting its LLVM text for one launch.

Every whole number is followed as a linear form over ids, iteration counts and unknown values with bounds; the scalars of
the launch are numbers. The value of a form is the signed value of the bits: where a result might not fit its type, it
becomes an unknown value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpuq.split.graph import BlockGraph
from gpuq.split.linear import Facts, LinearForm
from gpuq.split.llvm_text import Function, Instruction, Module, split_list, typed, without_flags
from gpuq.split.loops import NO_LIMIT, Loops, comparison, fits, signed
from gpuq.split.results import Quotients, arithmetic, compared, fitted, joined, merged, ranged, unknown
from gpuq.split.values import Access, Argument, Condition, Ids, IndexSpace, NotSplittable, Origin, Pointer, Value, Whole

_DEEPEST_CALL = 16
_MOST_INSTRUCTIONS = 100_000
"""What one launch's analysis interprets, calls included; a kernel and its mathematical functions have some thousands."""
_WORK_ITEM = re.compile(r"_Z\d+(get_(?:work_dim|(?:global|local)_(?:id|size)|global_offset|group_id|num_groups))[jv]")


def accesses(module: Module, kernel: str, arguments: list[Argument], launch: IndexSpace) -> list[Access]:
    """All stores to and loads from buffers. Raises NotSplittable."""
    function = module.functions[kernel]
    apart = frozenset(range(len(launch.size))) & _dimensions_apart(module, kernel)
    values = [_argument(kind, one) for (kind, _), one in zip(function.parameters, arguments, strict=True)]
    analysis = _Analysis(module, Ids.of(launch, apart))
    _Interpreter(analysis, function, values, Facts(), 0).run()
    return analysis.found


def _dimensions_apart(module: Module, kernel: str) -> set[int]:
    """The dimensions in which the kernel, or what it calls, asks for a group's or a local id; all where it is not a constant."""
    seen, waiting, apart = set[str](), [kernel], set[int]()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in module.functions or _WORK_ITEM.fullmatch(name):
            continue
        seen.add(name)
        texts = [
            one.text
            for block in module.functions[name].blocks.values()
            for one in block.instructions
            if "@" in one.text
        ]
        for text in texts:
            waiting += re.findall(r"@(\w[\w.$]*)\(", text)
            if re.search(r"@_Z12get_(group|local)_idj\(", text):
                match = re.search(r"\(i32 (?:noundef )?(\d+)\)", text)
                apart |= {int(match[1])} if match else {0, 1, 2}
    return apart


@dataclass(slots=True)
class _Analysis:
    """What the interpreters of a kernel and of the functions that it calls have in common."""

    module: Module
    ids: Ids
    found: list[Access] = field(default_factory=list)
    quotients: Quotients = field(default_factory=Quotients)
    harmless: set[str] = field(default_factory=set)
    """Functions that touch no buffer and give no whole number."""
    instructions: int = 0


@dataclass(slots=True)
class _Interpreter:
    analysis: _Analysis
    function: Function
    given: list[Value]
    outside: Facts
    """What is known where the function is called."""
    depth: int
    values: dict[str, Value] = field(default_factory=dict)
    graph: BlockGraph = field(init=False)
    facts: dict[str, Facts] = field(default_factory=dict)
    loops: Loops = field(init=False)
    returned: list[Value] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.graph = BlockGraph(self.function.blocks)
        self.loops = Loops(
            self.analysis.module, self.function, self.graph, self.facts, self.values, self._operand, self._value
        )

    def run(self) -> None:
        """Interpret every block once, in an order in which what dominates comes first."""
        self.values.update(zip((name for _, name in self.function.parameters), self.given, strict=True))
        for label in self.graph.order:
            block = self.function.blocks[label]
            self.facts[label] = self._facts_at(label)
            self.analysis.instructions += len(block.instructions)
            if self.analysis.instructions > _MOST_INSTRUCTIONS:
                raise NotSplittable("it and what it calls have more instructions than the analysis follows")
            for one in block.instructions:
                if one.opcode == "phi":
                    self.values[one.result] = self._phi(label, one)
                else:
                    value = self._value(one, self.facts[label])
                    if one.result:
                        self.values[one.result] = value

    # Facts where a block begins.

    def _facts_at(self, label: str) -> Facts:
        upper = self.graph.above[label]
        if upper == label:
            return self.outside
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
            return unknown(kind)
        if not back:
            return merged(kind, [self._operand(kind, value) for value, _ in ways])
        first = [self._operand(kind, value) for value, name in ways if (value, name) not in back]
        if len(first) != 1 or len(back) != 1:
            return unknown(kind)
        form = (
            first[0].form if isinstance(first[0], Whole) else first[0].offset if isinstance(first[0], Pointer) else None
        )
        if form is None:
            return first[0] if isinstance(first[0], Pointer) else unknown(kind)
        counted = self.loops.counted(label, one.result, kind, form, back[0][0])
        if isinstance(first[0], Pointer):
            return Pointer(first[0].base, counted) if counted else unknown(kind)
        if counted is None or not fits(counted, signed(int(kind[1:])), self.facts[label]):
            return unknown(kind)
        entry = next(name for way, name in ways if (way, name) not in back)
        known = self._after(self.facts[entry], entry, label)
        if (fact := self.loops.tested_before(label, back[0][1], form, counted, known)) is not None:
            self.facts[label] = self.facts[label].adding(fact)
        return Whole(int(kind[1:]), counted)

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
            kind_of = self.analysis.module.variables.get(variable[1])
            return Pointer({"undef": Origin.PRIVATE, "constant": Origin.TABLE}.get(kind_of or "", Origin.UNKNOWN), None)
        return unknown(kind)

    def _value(self, one: Instruction, facts: Facts) -> Value:  # noqa: C901, PLR0912  the table of opcodes
        text = without_flags(one.text)
        match one.opcode:
            case "ret":
                self.returned.append(None if text == "void" else self._operand(*typed(text)))
                return None
            case "br" | "switch" | "unreachable" | "fence":
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
                return self._comparison(one.text, facts)
            case "select":
                return self._selected(text, facts)
            case "freeze":
                return self._operand(*typed(text))
            case "getelementptr":
                return self._address(text, facts)
            case "alloca":
                return Pointer(Origin.PRIVATE, None)
            case "load":
                return self._loaded(text, facts)
            case "store":
                parts = split_list(text)
                self._touch(self._operand(*typed(parts[1])), self._width(typed(parts[0])[0]), facts, stores=True)
                return None
            case "call":
                return self._called(one.text, facts)
            case "addrspacecast" | "bitcast" if text.startswith("ptr"):
                return self._operand(*typed(text.split(" to ")[0]))
            case "atomicrmw" | "cmpxchg":
                operand = next(part for part in split_list(text) if "ptr " in part)
                self._atomic(operand.split("ptr ")[-1])
                return unknown("")
            case "not understood" | "va_arg" | "indirectbr" | "invoke" | "callbr" | "resume":
                raise NotSplittable(f"it has an instruction that the analysis does not follow: {one.text[:60]}")
            case "inttoptr":
                return Pointer(Origin.UNKNOWN, None)
            case "ptrtoint" | "fptosi" | "fptoui" | "bitcast":
                return unknown(text.split(" to ")[-1].strip())
            case "fcmp":
                return None if text.split(" ")[-1].startswith("<") else Condition((), ())
            case "extractelement":
                inner = re.match(r"<\d+ x (\w+)>", text)
                return unknown(inner[1] if inner else "")
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
        return arithmetic(one.opcode, kind, left, right, facts, self.analysis.quotients)

    def _converted(self, opcode: str, text: str, facts: Facts) -> Value:
        source, target = text.split(" to ")
        kind, name = typed(source)
        target = target.strip()
        value = self._operand(kind, name)
        if not re.fullmatch(r"i\d+", target):
            return None
        if isinstance(value, Condition):
            return unknown(target, *((-1, 0) if opcode == "sext" else (0, 1)))
        if not isinstance(value, Whole):
            return unknown(target)
        bits = int(target[1:])
        if opcode == "zext" and value.form.bounds(facts)[0] < 0:
            return unknown(target, 0, (1 << value.bits) - 1)
        return fitted(bits, value.form, facts)

    def _comparison(self, text: str, facts: Facts) -> Value:
        compare = comparison(text)
        if compare is None:
            return None
        predicate, kind, left, right = compare
        return compared(predicate, self._operand(kind, left), self._operand(kind, right), facts)

    def _selected(self, text: str, facts: Facts) -> Value:
        parts = split_list(text)
        (_, test), (kind, yes), (_, no) = (typed(part) for part in parts)
        condition = self._operand("i1", test)
        first, second = self._operand(kind, yes), self._operand(kind, no)
        if kind == "i1" and isinstance(condition, Condition):
            if no in ("false",):
                return joined("and", condition, first)
            if yes in ("true",):
                return joined("or", condition, second)
            return Condition((), ())
        if not isinstance(condition, Condition):
            return merged(kind, [first, second])
        sides = []
        for forms in (condition.true, condition.false):
            known = facts
            for form in forms:
                known = known.adding(form)
            sides.append(known)
        return merged(kind, [first, second], sides)

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
            size = self.analysis.module.size_of(kind)
            if size is None:
                return Pointer(base.base, None)
            offset = offset + index.form * size[0]
        return Pointer(base.base, fitted(64, offset, facts).form)

    def _inside(self, kind: str, index: Whole) -> tuple[str, LinearForm | None]:
        """The type one level inside `kind`; for a field of a structure also its offset."""
        body = self.analysis.module.types.get(kind, kind).strip()
        if match := re.fullmatch(r"[\[<](\d+) x (.*)[\]>]", body, re.S):
            return match[2], LinearForm()
        fields = self.analysis.module.fields_of(kind)
        if fields is None or index.form.terms:
            return kind, None
        number, end = index.form.constant, 0
        for size, align in fields[: number + 1]:
            start = -(-end // align) * align
            end = start + size
        return f"field {split_list(body[1:-1])[number]}", LinearForm(start)

    def _width(self, kind: str) -> int:
        if match := re.fullmatch(r"<(\d+) x (i8|i16|i32|i64|half|float|double|ptr)>", kind):
            return int(match[1]) * self._width(match[2])  # a vector of three is stored without what pads it in an array
        size = self.analysis.module.size_of(kind)
        if size is None:
            raise NotSplittable(f"it stores or loads a {kind}, whose size the analysis does not know")
        return size[0]

    def _loaded(self, text: str, facts: Facts) -> Value:
        parts = split_list(re.sub(r"^atomic ", "", text))
        self._touch(self._operand(*typed(parts[1])), self._width(parts[0]), facts, stores=False)
        if text.startswith("atomic"):
            self._atomic(typed(parts[1])[1])
        return unknown(parts[0])

    def _touch(self, pointer: Value, width: int, facts: Facts, *, stores: bool) -> None:
        base = pointer.base if isinstance(pointer, Pointer) else Origin.UNKNOWN
        if base is Origin.PRIVATE or (base is Origin.TABLE and not stores):
            return
        if isinstance(base, Origin):
            raise NotSplittable(
                f"it {'stores through' if stores else 'loads through'} a pointer whose origin is not known"
            )
        assert isinstance(pointer, Pointer)
        offset = pointer.offset
        if offset is not None and any(max(abs(end) for end in facts.of(one)) >= 1 << 61 for one in offset.terms):
            offset = None
        self.analysis.found.append(Access(base, stores, offset, width, facts))

    def _atomic(self, name: str) -> None:
        pointer = self._operand("ptr", name)
        if not (isinstance(pointer, Pointer) and pointer.base is Origin.PRIVATE):
            raise NotSplittable("it uses atomic operations on global memory, whose order a split changes")

    def _called(self, text: str, facts: Facts) -> Value:
        match = re.search(r"@(\"[^\"]+\"|[\w.$-]+)\((.*)\)", text)
        if match is None or " asm " in f" {text[: match.start()]}":
            raise NotSplittable("it calls through a pointer, or has code in assembler")
        name, operands = match[1].strip('"'), [typed(part) for part in split_list(match[2])]
        kind = text[: match.start()].strip().split(" ")[-1]
        function = self.analysis.module.functions.get(name)
        if work_item := _WORK_ITEM.fullmatch(name):
            return self._id(work_item[1], kind, operands, facts)
        if reason := _refused(name):
            raise NotSplittable(reason)
        if function is not None:
            return self._followed(function, kind, [self._operand(*one) for one in operands], facts)
        if name == "pocl.barrier" or name.startswith(
            ("llvm.lifetime", "llvm.dbg", "llvm.assume", "llvm.experimental.noalias", "llvm.prefetch")
        ):
            return None
        values = [self._operand(*one) for one in operands]
        if name.startswith(("llvm.memcpy.", "llvm.memmove.", "llvm.memset.")):
            self._copied(values, facts, reads=not name.startswith("llvm.memset."))
            return None
        if not name.startswith("llvm.") or any(isinstance(one, Pointer) for one in values):
            raise NotSplittable(f"it calls {name[:40]}, which the analysis does not follow")
        return ranged(name, kind, values, facts)

    def _followed(self, function: Function, kind: str, values: list[Value], facts: Facts) -> Value:
        """What a function gives, by interpreting it with the values that it is called with."""
        if function.name in self.analysis.harmless and not any(_in_buffer(one) for one in values):
            return None
        if self.depth == _DEEPEST_CALL:
            raise NotSplittable("its calls are nested more deeply than the analysis follows")
        inner = _Interpreter(self.analysis, function, values, facts, self.depth + 1)
        inner.run()
        if not re.fullmatch(r"i\d+|ptr", kind):
            if not any(_in_buffer(one) for one in values):
                self.analysis.harmless.add(function.name)
            return None
        return merged(kind, inner.returned) if inner.returned else unknown(kind)

    def _copied(self, values: list[Value], facts: Facts, *, reads: bool) -> None:
        """A copy of memory, as of a structure, or a filling."""
        size = values[2]
        width = size.form.bounds(facts)[1] if isinstance(size, Whole) else NO_LIMIT
        if width >= 1 << 31:
            raise NotSplittable("it copies memory of a size that is not known")
        if width > 0:
            self._touch(values[0], width, facts, stores=True)
            if reads:
                self._touch(values[1], width, facts, stores=False)

    def _id(self, name: str, kind: str, operands: list[tuple[str, str]], facts: Facts) -> Value:
        dimension = self._operand(*operands[0]) if operands else Whole(32, LinearForm())
        if not isinstance(dimension, Whole) or dimension.form.terms or dimension.form.constant < 0:
            raise NotSplittable("it asks for an id of a dimension that is not a constant")
        form = self.analysis.ids.value(name, dimension.form.constant)
        return unknown(kind) if form is None else fitted(int(kind[1:]), form, facts)


def _refused(name: str) -> str | None:
    """Why a function of this name is not called by a kernel that is split, or by a function that it calls."""
    if re.match(r"_Z\d+get_(sub_group|num_sub|max_sub|enqueued|global_linear|local_linear)", name):
        return f"it uses {re.sub(r'^_Z[0-9]+|[jv]$', '', name)}, which a part of a split launch would answer otherwise"
    if "printf" in name:
        return "it prints"
    return "it uses images" if "image" in name else None


def _in_buffer(value: Value) -> bool:
    return isinstance(value, Pointer) and value.base is not Origin.PRIVATE


def _argument(kind: str, value: Argument) -> Value:
    if isinstance(value, str):
        return Pointer(value, LinearForm())
    if isinstance(value, Origin):
        return Pointer(value, None)
    if isinstance(value, int) and re.fullmatch(r"i\d+", kind):
        bits = int(kind[1:])
        value &= (1 << bits) - 1
        return Whole(bits, LinearForm(value - (1 << bits) if value >> (bits - 1) else value))
    return Pointer(Origin.UNKNOWN, None) if kind == "ptr" else None
