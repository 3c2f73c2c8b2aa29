"""Reads functions out of LLVM's text form, as far as the analysis of stores and loads needs it.

What is not understood is kept as an instruction with an empty list of operands; whoever interprets it has to refuse it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_LABEL = re.compile(r"^(\"[^\"]+\"|[-\w.$]+):")
_INSTRUCTION = re.compile(r"^\s+(?:(%(?:\"[^\"]+\"|[-\w.$]+)) = )?(?:tail |musttail |notail )?(\w+)\s*(.*)$")
_VARIABLE = re.compile(r"^@(\"[^\"]+\"|[-\w.$]+) = (?:[\w()]+ )*?(global|constant) (?:.* (undef)(?:, align \d+)?$)?")
_KERNEL_METADATA = re.compile(r"!(kernel_arg_\w+) !(\d+)")
_FLAGS = frozenset(
    [
        "nsw",
        "nuw",
        "exact",
        "inbounds",
        "nusw",
        "disjoint",
        "samesign",
        "nneg",
        "fast",
        "nnan",
        "ninf",
        "nsz",
        "arcp",
        "contract",
        "afn",
        "reassoc",
        "volatile",
    ]
)
_SIZES = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8}


@dataclass(frozen=True, slots=True)
class Instruction:
    """`result` is empty for instructions without one; `text` is what follows the opcode, without metadata."""

    result: str
    opcode: str
    text: str


@dataclass(slots=True)
class Block:
    """Straight code; `successors` are labels, in the order of the branch's text."""

    name: str
    instructions: list[Instruction] = field(default_factory=list)
    successors: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Function:
    """A function: its parameters as (type, name), and its blocks by label, the entry first."""

    name: str
    parameters: list[tuple[str, str]]
    blocks: dict[str, Block]
    metadata: dict[str, str]


@dataclass(slots=True)
class Module:
    """All functions with a body, the names of the structure types, and the metadata lines that kernels refer to."""

    functions: dict[str, Function]
    types: dict[str, str]
    metadata: dict[str, str]
    variables: dict[str, str] = field(default_factory=dict)
    """Of each variable of the program what its definition begins with: "constant", or "undef" for one in local memory."""

    def kernels(self) -> list[str]:
        """Names of the functions that are kernels."""
        return [name for name, function in self.functions.items() if "kernel_arg_addr_space" in function.metadata]

    def argument_metadata(self, function: Function, key: str) -> list[str]:
        """The values of one kind of metadata of a kernel's arguments, such as `kernel_arg_type`, in order."""
        line = self.metadata.get(function.metadata.get(key, ""), "")
        return [number or text for number, text in re.findall(r"i32 (-?\d+)|!\"([^\"]*)\"", line)]

    def size_of(self, name: str) -> tuple[int, int] | None:
        """(size as an array element, alignment) in bytes of a type, or None if it is not understood. x86-64's rules."""
        name = name.strip()
        if re.fullmatch(r"i\d+", name):
            size = max(1, 1 << max(0, (int(name[1:]) - 1).bit_length() - 3))
            return size, size
        if name in _SIZES:
            return _SIZES[name], _SIZES[name]
        if name.startswith("%"):
            body = self.types.get(name)
            return self.size_of(body) if body else None
        if match := re.fullmatch(r"\[(\d+) x (.*)\]", name, re.S):
            element = self.size_of(match[2])
            return (int(match[1]) * element[0], element[1]) if element else None
        if match := re.fullmatch(r"<(\d+) x (\w+)>", name):
            element = self.size_of(match[2])
            if element is None or match[2] == "i1":
                return None
            size = 1 << (int(match[1]) * element[0] - 1).bit_length()
            return size, size
        if (fields := self.fields_of(name)) is not None:
            end, widest = 0, 1
            for part in fields:
                size, align = part
                end = -(-end // align) * align + size
                widest = max(widest, align)
            return -(-end // widest) * widest, widest
        return None

    def fields_of(self, name: str) -> list[tuple[int, int]] | None:
        """(size, alignment) of the fields of a structure type that is not packed, or None."""
        name = self.types.get(name, name).strip()
        if not (name.startswith("{") and name.endswith("}")):
            return None
        sizes = [self.size_of(part) for part in split_list(name[1:-1])]
        return None if None in sizes else [size for size in sizes if size is not None]


def split_list(text: str) -> list[str]:
    """The parts of a comma-separated list, where brackets and quotes may hold commas."""
    parts, depth, start, quoted = [], 0, 0, False
    for index, letter in enumerate(text):
        if letter == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif letter in "([{<":
            depth += 1
        elif letter in ")]}>":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def typed(operand: str) -> tuple[str, str]:
    """(type, value) of an operand such as `i32 noundef %n`; attributes between the two are dropped."""
    match = re.match(r"\s*(<\d+ x \w+>|\[\d+ x .*?\](?= )|%\"[^\"]+\"|%[-\w.$]+|\{.*?\}|\w+)\s*(.*)$", operand, re.S)
    if match is None:
        return "", operand.strip()
    rest = match[2].strip()
    value = re.search(r"(%\"[^\"]+\"|%[-\w.$]+|@\"[^\"]+\"|@[-\w.$]+|\S+)$", rest)
    if "(" in rest and not re.search(r"\)\s+\S+$", rest):
        return match[1], rest
    return match[1], value[1] if value else ""


def without_flags(text: str) -> str:
    """The text without the flags of arithmetic that stand before the type."""
    words = text.split(" ")
    while words and words[0] in _FLAGS:
        words.pop(0)
    return " ".join(words)


def read(text: str) -> Module:
    """Read a whole module."""
    module = Module({}, {}, {})
    function: Function | None = None
    block: Block | None = None
    lines = iter(text.splitlines())
    for line in lines:
        if function is None:
            if match := re.match(r"^(%(?:\"[^\"]+\"|[-\w.$]+)) = type (.*)$", line):
                module.types[match[1]] = match[2]
            elif match := re.match(r"^!(\d+) = (.*)$", line):
                module.metadata[match[1]] = match[2]
            elif match := _VARIABLE.match(line):
                module.variables[match[1].strip('"')] = "constant" if match[2] == "constant" else match[3] or ""
            elif line.startswith("define "):
                function = _start(line)
                block = None
                module.functions[function.name] = function
            continue
        if line == "}":
            function = None
            continue
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        if match := _LABEL.match(line):
            block = function.blocks[match[1]] = Block(match[1])
            continue
        if block is None:
            block = function.blocks["entry"] = Block("entry")
        while line.count("[") > line.count("]"):  # a switch is written over several lines
            line += " " + next(lines).strip()  # noqa: PLW2901
        _add(block, line)
    return module


def _start(line: str) -> Function:
    name = re.search(r"@(\"[^\"]+\"|[\w.$-]+)\(", line)
    assert name is not None, line
    depth, end = 1, name.end()
    while depth:
        depth += {"(": 1, ")": -1}.get(line[end], 0)
        end += 1
    parameters = [typed(part) for part in split_list(line[name.end() : end - 1])]
    return Function(name[1].strip('"'), parameters, {}, dict(_KERNEL_METADATA.findall(line[end:])))


def _add(block: Block, line: str) -> None:
    match = _INSTRUCTION.match(line)
    if match is None:
        block.instructions.append(Instruction("", "not understood", line.strip()))
        return
    text = re.sub(r"(,? ![\w.]+ !\d+)+$", "", re.sub(r"\s+;.*$", "", match[3])).strip()
    text = re.sub(r" #\d+$", "", text)
    block.instructions.append(Instruction(match[1] or "", match[2], text))
    if match[2] in ("br", "switch"):
        block.successors = list(re.findall(r"label %(\"[^\"]+\"|[-\w.$]+)", text))
    elif match[2] in ("indirectbr", "invoke", "callbr"):
        block.instructions.append(Instruction("", "not understood", line.strip()))
