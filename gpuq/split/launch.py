"""One launch of a kernel: its source, index space and arguments, as a LAUNCH.toml or a program gives them."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuq.errors import BadInput, Failure
from gpuq.split import pocl
from gpuq.split.llvm_text import Module, read
from gpuq.split.values import Argument, IndexSpace, Origin
from gpuq.split.verdict import Correctness, SplitVerdict, judge

_FIX = "docs/split.md describes the file."
_SOURCE = 0x1164
"""CL_PROGRAM_SOURCE."""
_SCALARS: dict[str, type[np.generic]] = {
    "char": np.int8,
    "uchar": np.uint8,
    "short": np.int16,
    "ushort": np.uint16,
    "int": np.int32,
    "uint": np.uint32,
    "long": np.int64,
    "ulong": np.uint64,
    "half": np.float16,
    "float": np.float32,
    "double": np.float64,
}
_ANALYSED = ("-D", "-I", "-cl-std=")
"""Options that decide which program a source becomes. Others are about speed or exactness, and each vendor has its own."""
_REPLACED = re.compile(r"#\s*(?:undef|define)\s+get_(?:group_id|num_groups|global_size|global_offset)\b")


class KernelFault(Failure):
    """The launch itself did what a split of it, or it as a whole, must not do: it would again."""


@dataclass(frozen=True, slots=True)
class Local:
    """An argument in local memory, of so many bytes."""

    bytes: int


@dataclass(frozen=True, slots=True)
class OpenClDevice:
    """An OpenCL device, or a set of a CPU's cores that plays one.

    `platform`: a part of the platform's name. `options` are the compiler's for this device. `cores`: those that its process
    may use. `duty`: the part of the time that it works, below 1 to play a slower device in measurements.
    """

    platform: str = ""
    index: int = 0
    options: str = ""
    cores: tuple[int, ...] = ()
    duty: float = 1.0
    lent: bool = False
    """Whether it computes on the idle cores that the queue lends to this job, and only while it does."""
    in_host_memory: bool = True
    """Whether it computes in the host's own memory, as CPUs do; other devices work on copies, which are merged."""


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """`arguments` in the kernel's order: the name of a buffer, a NumPy scalar, or local memory; before `compiled` also a number
    that has no type yet.

    `code`: the LLVM text of the source with each set of options that its devices have. `varies`: whether a compiler that is not
    the one of the analysis may make another program of it.
    """

    source: str
    kernel: str
    options: str
    range: IndexSpace
    arguments: tuple[str | np.generic | Local | int | float, ...]
    buffers: Mapping[str, NDArray[Any]]
    outputs: Mapping[str, Path] = field(default_factory=dict)
    devices: tuple[OpenClDevice, ...] = ()
    code: tuple[str, ...] = ()
    varies: bool = False

    def signature(self) -> str:
        """A hash of all that a verdict depends on: source, headers, options, sizes and scalars, not the contents of buffers."""
        sizes = {name: one.nbytes for name, one in sorted(self.buffers.items())}
        arguments = [f"{one.dtype}:{one}" if isinstance(one, np.generic) else repr(one) for one in self.arguments]
        parts = (self.source, self.kernel, self.options, repr(self.range), repr(sizes), repr(arguments), *self.code)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def compiled(launch: KernelLaunch, devices: Sequence[OpenClDevice]) -> KernelLaunch:
    """The launch with the programs that its devices make of it, and its numbers in the kernel's types. Raises BadInput where the
    source does not compile, or kernel and arguments do not agree, and Failure."""
    if launch.code:
        return launch
    given = [f"{launch.options} {one.options}".split() for one in devices] or [launch.options.split()]
    kept = [_analysed_options(one) for one in given]
    options = dict.fromkeys(map(" ".join, kept))
    made = pocl.programs(launch.source, list(options), [(one.platform, one.index) for one in devices])
    elsewhere = kept != given or any(pocl.NAME not in platform for platform in made.platforms)
    launch = replace(
        launch, code=made.texts, varies=elsewhere and any(_asks_compiler(launch.source, one) for one in options)
    )
    for text in made.texts:
        module = read(text)
        if launch.kernel not in module.kernels():
            raise BadInput(
                f"the source has no kernel `{launch.kernel}`.", fix=f"It has: {', '.join(module.kernels()) or 'none'}."
            )
        launch = replace(launch, arguments=_in_types_of_kernel(module, launch))
    return launch


def _analysed_options(words: Sequence[str]) -> list[str]:
    """Those that the analysis compiles with; a word without a dash belongs to the option before it."""
    kept: list[str] = []
    keeps = False
    for word in words:
        keeps = word.startswith(_ANALYSED) if word.startswith("-") else keeps
        kept += [word] if keeps else []
    return kept


def _asks_compiler(source: str, options: str) -> bool:
    """Whether another compiler may make another program of the source: by macros that it does not define, or by its headers."""
    own = {
        *re.findall(r"#\s*define\s+(\w+)", source),
        *re.findall(r"-D\s*(\w+)", options),
        "defined",
        "__LINE__",
        "__FILE__",
    }
    tested = re.findall(r"#\s*(?:if|ifdef|ifndef|elif)\b(.*)", source)
    names = {name for line in tested for name in re.findall(r"[A-Za-z_]\w*", line)}
    return bool((names | set(re.findall(r"\b__[A-Z]\w*__\b", source))) - own) or bool(
        re.search(r"#\s*include\b", source)
    )


def judged(launch: KernelLaunch) -> SplitVerdict:
    """The verdict on a launch, which is compiled if it is not yet. Raises BadInput and Failure as `compiled` does."""
    launch = compiled(launch, launch.devices)
    if _REPLACED.search(launch.source):
        return SplitVerdict(
            Correctness.REFUSED, "it has a macro in place of a function that the parts of a launch replace"
        )
    plain: list[Argument] = [
        one
        if isinstance(one, str)
        else Origin.PRIVATE
        if isinstance(one, Local)
        else int(one)
        if isinstance(one, np.integer)
        else None
        for one in launch.arguments
    ]
    sizes = {name: one.nbytes for name, one in launch.buffers.items()}
    verdict = judge([read(text) for text in launch.code], launch.kernel, plain, sizes, launch.range)
    if verdict.answer is Correctness.PROVEN and launch.varies:
        reason = "a device's compiler may make another program of it than the one that was analysed"
        return replace(verdict, answer=Correctness.CHECK, reason=reason)
    return verdict


def _in_types_of_kernel(module: Module, launch: KernelLaunch) -> tuple[str | np.generic | Local, ...]:
    """The arguments, each number in the type of its parameter. Raises BadInput where they do not agree."""
    found: list[str | np.generic | Local] = []
    function = module.functions[launch.kernel]
    spaces = module.argument_metadata(function, "kernel_arg_addr_space")
    types = module.argument_metadata(function, "kernel_arg_base_type")
    if len(spaces) != len(launch.arguments):
        raise BadInput(
            f"`{launch.kernel}` takes {len(spaces)} arguments, the launch has {len(launch.arguments)}.", fix=_FIX
        )
    for number, (space, kind, one) in enumerate(zip(spaces, types, launch.arguments, strict=True), 1):
        wanted = {"1": "a buffer", "2": "a buffer", "3": "local memory"}.get(space, f"a scalar of type {kind}")
        given = "a buffer" if isinstance(one, str) else "local memory" if isinstance(one, Local) else "a scalar"
        if not wanted.startswith(given):
            raise BadInput(f"argument {number} of `{launch.kernel}` is {wanted}, the launch gives {given}.", fix=_FIX)
        if isinstance(one, (str, Local)):
            found.append(one)
            continue
        value = one if isinstance(one, np.generic) else _as_kind(one, _SCALARS.get(kind))
        if value is None or not _is_kind(value, _SCALARS.get(kind)):
            what = one.dtype if isinstance(one, np.generic) else one
            raise BadInput(f"argument {number} of `{launch.kernel}` is a {kind}, the launch gives {what}.", fix=_FIX)
        found.append(value)
    return tuple(found)


def _is_kind(value: np.generic, wanted: type[np.generic] | None) -> bool:
    """Whether a parameter of this type takes the value's bytes as they are; None for structures and vectors."""
    if wanted is None:
        return value.dtype.kind == "V"
    kinds = "f" if np.dtype(wanted).kind == "f" else "iub"
    return value.dtype.kind in kinds and value.dtype.itemsize == np.dtype(wanted).itemsize


def _as_kind(value: float, wanted: type[np.generic] | None) -> np.generic | None:
    """A number in this type, or None if the type does not have it: a fraction, or one beyond its ends."""
    if wanted is None:
        return None
    kind = np.dtype(wanted)
    if kind.kind == "f":
        return wanted(value) if not np.isfinite(value) or abs(value) <= np.finfo(kind).max else None
    if value != value // 1 or not np.iinfo(kind).min <= value <= np.iinfo(kind).max:
        return None
    return wanted(int(value))


def index_space(size: Any, local: Any, offset: Any = None) -> IndexSpace:
    """The index space of checked sizes. Raises BadInput."""
    given = tuple(tuple(one) if isinstance(one, (list, tuple)) else (one,) for one in (size, local))
    start = tuple(offset) if offset else (0,) * len(given[0])
    numbers = [*given[0], *given[1], *start]
    if not 1 <= len(given[0]) <= 3 or not len(given[0]) == len(given[1]) == len(start):
        raise BadInput("`global` and `local` need the same number of dimensions, one to three.", fix=_FIX)
    if any(not isinstance(one, int | np.integer) or one < 0 for one in numbers) or 0 in (*given[0], *given[1]):
        raise BadInput("`global` and `local` take whole numbers from 1 on.", fix=_FIX)
    if any(whole % part for whole, part in zip(*given, strict=True)):
        raise BadInput(
            f"`global` {list(given[0])} is not a multiple of `local` {list(given[1])}.",
            fix="Round it up, and guard in the kernel.",
        )
    return IndexSpace(tuple(map(int, start)), tuple(map(int, given[0])), tuple(map(int, given[1])))


def load(path: Path) -> KernelLaunch:
    """Read a LAUNCH.toml. Raises BadInput."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return _launch(table, path.parent)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path} is not TOML: {error}.", fix=_FIX) from None
    except KeyError as error:
        raise BadInput(f"{path} lacks {error}.", fix=_FIX) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"{path}: {error}.", fix=_FIX) from None
    except MemoryError as error:
        raise BadInput(f"{path}: {error}.", fix="Give its buffers a `size` that this machine has memory for.") from None


def _launch(table: dict[str, Any], folder: Path) -> KernelLaunch:
    source = table["source"] if "source" in table else (folder / table["kernel"]).read_text(encoding="utf-8")
    buffers: dict[str, NDArray[Any]] = {}
    outputs: dict[str, Path] = {}
    arguments: list[str | np.generic | Local | int | float] = []
    for one in table["arguments"]:
        if "buffer" in one:
            name = str(one["buffer"])
            arguments.append(name)
            if name not in buffers:
                buffers[name] = _buffer(one, folder)
            if "output" in one:
                outputs[name] = folder / one["output"]
        elif "local_bytes" in one:
            arguments.append(Local(int(one["local_bytes"])))
        else:
            arguments.append(_scalar(one))
    devices = tuple(_device(one) for one in table.get("devices", []))
    return KernelLaunch(
        source,
        str(table["name"]),
        str(table.get("options", "")),
        index_space(table["global"], table["local"], table.get("offset")),
        tuple(arguments),
        buffers,
        outputs,
        devices,
    )


def _scalar(one: dict[str, Any]) -> np.generic | int | float:
    """A number, in the type that the file gives it, or else later in the kernel's. Raises BadInput."""
    value = one["scalar"]
    if not isinstance(value, int | float):
        raise BadInput(f"a scalar is {value!r}.", fix="Give a number.")
    if "type" not in one:
        return value
    typed = _as_kind(value, np.dtype(one["type"]).type)
    if typed is None:
        raise BadInput(f"{value} is no {one['type']}.", fix="Leave `type` out: the kernel has one for each argument.")
    return typed


def from_arrays(
    kernel: Any, size: Any, local: Any, arguments: Sequence[Any], devices: Sequence[Mapping[str, Any]], options: str
) -> KernelLaunch:
    """The launch that a program describes by objects of NumPy and pyopencl. Raises BadInput."""
    source, name = kernel if isinstance(kernel, tuple) else (kernel.program.get_info(_SOURCE), kernel.function_name)
    if not source:
        raise BadInput(
            "the kernel's program was not built from source.", fix="Give (source, name) instead of the kernel."
        )
    buffers: dict[str, NDArray[Any]] = {}
    given: list[str | np.generic | Local] = []
    for number, one in enumerate(arguments):
        if isinstance(one, np.ndarray):
            if not one.flags.c_contiguous:
                raise BadInput(f"argument {number + 1} is not contiguous.", fix="Give numpy.ascontiguousarray of it.")
            known = next(
                (name for name, other in buffers.items() if np.shares_memory(one, other)), f"argument {number + 1}"
            )
            if known in buffers and buffers[known] is not one:
                raise BadInput(
                    f"argument {number + 1} overlaps another array.", fix="Give the same array, or one of its own."
                )
            buffers[known] = one
            given.append(known)
        elif isinstance(one, np.generic):
            given.append(one)
        elif hasattr(one, "size"):
            given.append(Local(int(one.size)))
        else:
            raise BadInput(
                f"argument {number + 1} is a {type(one).__name__}.", fix="Give a NumPy array or a NumPy scalar."
            )
    return KernelLaunch(
        source,
        name,
        options,
        index_space(size, local),
        tuple(given),
        buffers,
        devices=tuple(_device(dict(one)) for one in devices),
    )


def _device(one: dict[str, Any]) -> OpenClDevice:
    known = {
        "platform": str,
        "index": int,
        "options": str,
        "cores": tuple,
        "duty": float,
        "lent": bool,
        "in_host_memory": bool,
    }
    if strange := one.keys() - known.keys():
        raise BadInput(f"a device has no `{sorted(strange)[0]}`; it has {', '.join(known)}.", fix=_FIX)
    return OpenClDevice(**{key: known[key](value) for key, value in one.items()})


def _buffer(one: dict[str, Any], folder: Path) -> NDArray[Any]:
    if "file" in one:
        return np.ascontiguousarray(np.load(folder / one["file"], allow_pickle=False))
    kind, fill = np.dtype(one.get("type", "float32")), one.get("fill", 0)
    if fill == "random":
        chance = np.random.default_rng(int(one.get("seed", 0)))
        size = int(one["size"])
        return chance.random(size).astype(kind) if kind.kind == "f" else chance.integers(0, 127, size).astype(kind)
    return np.full(int(one["size"]), fill, kind)
