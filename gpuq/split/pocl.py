"""PoCL, the OpenCL runtime that reads programs: a kernel's source becomes LLVM's text form. Runs as a process of its own.

    python -m gpuq.split.pocl <request.json >answer.json

The request has `source`, a list of `options`, and the `devices` whose platforms are asked for.
A compiler that crashes or never ends takes only this process with it.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpuq.errors import BadInput, Failure

INSTALL = "pip install 'gpuq-daemon[split]'"
NAME = "Portable Computing"
"""In the name of PoCL's platform."""
_COMPILE_LIMIT_S = 120.0
_SUBSTITUTE_CPU = b"skylake-avx512"
_SUBSTITUTE_CPU_AVX2 = b"haswell"


def name_cpu_for_pocl() -> None:
    """Give PoCL a CPU that its LLVM 14 knows, where it would say "generic", which its own compiler then refuses.

    PoCL 3.0 does not know CPUs from 2022 on (Zen 4 for one) and has no setting for it (its issue 1049). Its function that
    names the CPU is replaced in this process, before PoCL initialises its device, by one that names an older CPU.
    """
    spec = find_spec("pyopencl")
    libraries = sorted(Path(spec.origin).parent.glob(".libs/libpocl*")) if spec and spec.origin else []
    if not libraries or os.uname().machine != "x86_64":
        return
    naming = ctypes.CDLL(str(libraries[0])).pocl_get_llvm_cpu_name
    naming.restype = ctypes.c_char_p
    if naming() != b"generic":
        return
    flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    name = ctypes.create_string_buffer(_SUBSTITUTE_CPU if " avx512vl " in flags else _SUBSTITUTE_CPU_AVX2)
    name_cpu_for_pocl.kept = name  # type: ignore[attr-defined]  # PoCL keeps a copy, but may ask again
    libc = ctypes.CDLL(None)
    duplicate = ctypes.cast(libc.strdup, ctypes.c_void_p).value or 0
    at = ctypes.cast(naming, ctypes.c_void_p).value or 0
    # mov rdi, name; mov rax, strdup; jmp rax
    code = (
        b"\x48\xbf"
        + struct.pack("<Q", ctypes.addressof(name))
        + b"\x48\xb8"
        + struct.pack("<Q", duplicate)
        + b"\xff\xe0"
    )
    page = ctypes.c_void_p(at & ~4095)
    if libc.mprotect(page, ctypes.c_size_t(8192), 7) == 0:
        ctypes.memmove(at, code, len(code))
        libc.mprotect(page, ctypes.c_size_t(8192), 5)


@dataclass(frozen=True, slots=True)
class Programs:
    """`texts`: a program's LLVM text with each of the options. `platforms`: the name of each device's, "" without a device."""

    texts: tuple[str, ...]
    platforms: tuple[str, ...]


def programs(
    source: str, options: Sequence[str], devices: Sequence[tuple[str, int]] = (), *, limit_s: float = _COMPILE_LIMIT_S
) -> Programs:
    """Compile in a process of its own. Raises BadInput if that fails, else Failure. `devices`: platform and index of each."""
    request = {"source": source, "options": list(options), "devices": list(devices)}
    answer = ask("gpuq.split.pocl", request, limit_s, "compiling the kernel")
    return Programs(tuple(answer["texts"]), tuple(answer["platforms"]))


def llvm_text(source: str, options: str = "", *, limit_s: float = _COMPILE_LIMIT_S) -> str:
    """The LLVM text of a program. Raises BadInput if it does not compile, else Failure."""
    return programs(source, [options], limit_s=limit_s).texts[0]


def device_of(cl: Any, platform: str, index: int) -> Any:
    """The device of this index among those of platforms with `platform` in their name, or None."""
    try:
        platforms = [one for one in cl.get_platforms() if platform.lower() in one.name.lower()]
        devices = [device for one in platforms for device in one.get_devices()]
    except cl.Error:
        return None
    return devices[index] if index < len(devices) else None


def ask(module: str, request: dict[str, Any], limit_s: float, what: str) -> dict[str, Any]:
    """The answer of a module of this package that runs as a process. Raises BadInput and Failure."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", module],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failure(
            f"{what} took more than {limit_s:g} s and was stopped.", fix="Simplify the kernel, or set a longer limit."
        ) from None
    if done.returncode < 0:
        raise Failure(
            f"the OpenCL driver crashed while {what} (signal {-done.returncode}).",
            fix="Try the kernel on another OpenCL runtime; only a helper process ended.",
        )
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no output"]
        raise Failure(f"{what} failed: {last[0][:300]}.", fix=f"Check the installation: {INSTALL}") from None
    if "error" in answer:
        raise BadInput(str(answer["error"]), fix=str(answer["fix"]))
    return answer


def _compile(request: dict[str, Any], folder: str) -> dict[str, Any]:
    # PoCL leaves a program's bitcode in its cache. Its binary has it too, but making that compiles each kernel to machine code.
    os.environ["POCL_CACHE_DIR"] = folder
    name_cpu_for_pocl()
    import llvmlite.binding as llvm
    import pyopencl as cl

    platform = next((one for one in cl.get_platforms() if NAME in one.name), None)
    if platform is None:
        return {
            "error": "PoCL, which reads the kernel for the analysis, is not installed.",
            "fix": f"Install it: {INSTALL}",
        }
    context = cl.Context(platform.get_devices()[:1])
    texts: list[str] = []
    read: set[Path] = set()
    try:
        for options in request["options"]:
            cl.Program(context, request["source"]).build(options=options.split())
            found = set(Path(folder).rglob("program.bc")) - read
            if len(found) != 1:
                return {"error": "PoCL left no LLVM bitcode.", "fix": f"Install the version that gpuq reads: {INSTALL}"}
            read |= found
            text = str(llvm.parse_bitcode(found.pop().read_bytes()))
            # The first lines name a file of the compiler's, which is another one each time.
            texts.append(re.sub(r"^(; ModuleID|source_filename) .*\n", "", text, flags=re.M))
    except cl.RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines() if "error:" in line]
        return {
            "error": f"the kernel does not compile: {lines[0] if lines else str(error).splitlines()[0]}"[:300] + ".",
            "fix": "Correct the kernel's source or the compiler's options.",
        }
    devices = [device_of(cl, *one) for one in request["devices"]]
    return {"texts": texts, "platforms": [one.platform.name if one else "" for one in devices]}


def main() -> int:
    """Answer one request from standard input."""
    request = json.load(sys.stdin)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # drivers print what they like
    with tempfile.TemporaryDirectory(prefix="gpuq-split-") as folder:
        json.dump(_compile(request, folder), answers)
    answers.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
