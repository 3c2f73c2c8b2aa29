"""One launch of a kernel: its source, index space and arguments, as a LAUNCH.toml or a program gives them."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuq.errors import BadInput
from gpuq.split import pocl
from gpuq.split.llvm_text import Module, read
from gpuq.split.values import Argument, IndexSpace, Origin
from gpuq.split.verdict import SplitVerdict, judge

_FIX = "docs/split.md describes the file."
_SOURCE = 0x1164
"""CL_PROGRAM_SOURCE."""
_SCALAR_BYTES = {
    "char": 1,
    "uchar": 1,
    "short": 2,
    "ushort": 2,
    "int": 4,
    "uint": 4,
    "float": 4,
    "long": 8,
    "ulong": 8,
    "double": 8,
}


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
    """`arguments` in the kernel's order: the name of a buffer, a NumPy scalar, or local memory."""

    source: str
    kernel: str
    options: str
    range: IndexSpace
    arguments: tuple[str | np.generic | Local, ...]
    buffers: Mapping[str, NDArray[Any]]
    outputs: Mapping[str, Path] = field(default_factory=dict)
    devices: tuple[OpenClDevice, ...] = ()

    def signature(self) -> str:
        """A hash of all that a verdict depends on: source, options, sizes and scalars, not the contents of buffers."""
        sizes = {name: one.nbytes for name, one in sorted(self.buffers.items())}
        arguments = [f"{one.dtype}:{one}" if isinstance(one, np.generic) else repr(one) for one in self.arguments]
        parts = (self.source, self.kernel, self.options, repr(self.range), repr(sizes), repr(arguments))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def judged(launch: KernelLaunch) -> SplitVerdict:
    """The verdict on a launch, by compiling its kernel. Raises BadInput where kernel and arguments do not agree."""
    module = read(pocl.llvm_text(launch.source, launch.options))
    if launch.kernel not in module.kernels():
        raise BadInput(
            f"the source has no kernel `{launch.kernel}`.", fix=f"It has: {', '.join(module.kernels()) or 'none'}."
        )
    _check_arguments(module, launch)
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
    return judge(module, launch.kernel, plain, {name: one.nbytes for name, one in launch.buffers.items()}, launch.range)


def _check_arguments(module: Module, launch: KernelLaunch) -> None:
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
        if isinstance(one, np.generic) and one.dtype.itemsize != _SCALAR_BYTES.get(kind, one.dtype.itemsize):
            raise BadInput(
                f"argument {number} of `{launch.kernel}` is a {kind}, the launch gives {one.dtype}.", fix=_FIX
            )


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


def _launch(table: dict[str, Any], folder: Path) -> KernelLaunch:
    source = table["source"] if "source" in table else (folder / table["kernel"]).read_text(encoding="utf-8")
    buffers: dict[str, NDArray[Any]] = {}
    outputs: dict[str, Path] = {}
    arguments: list[str | np.generic | Local] = []
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
            arguments.append(np.dtype(one.get("type", "int32")).type(one["scalar"]))
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
