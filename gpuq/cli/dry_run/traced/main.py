"""Run by `gpuq.cli.dry_run` in the interpreter of a job: main.py ASKED [ARGUMENTS], with what is asked as JSON.

Limits itself, then runs the script as the interpreter would, until `torch_step` has what it needs. Standard library only, for
Python 3.8 and newer.
"""

# ruff: noqa: PTH100, PTH104, PTH109, PTH118, PTH120, PTH123
from __future__ import annotations

import ctypes
import json
import os
import resource
import runpy
import signal
import struct
import sys
import types
from importlib.machinery import SourceFileLoader
from typing import Any, Iterator  # noqa: UP035 - the job's Python may be 3.8

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_NO_NEW_PRIVS, _DEATH_SIGNAL = 38, 1
# All rights of version 1 of Landlock that change a file system, and those that later versions added (REFER, TRUNCATE).
_WRITES = {1: 0x1FF2, 2: 0x3FF2, 3: 0x7FF2}
_O_PATH = 0x200000


def main() -> None:
    """Run the script; does not return where it trains."""
    asked = json.loads(sys.argv[1])
    unprotected = list(_protect(asked))
    here, before = os.path.dirname(os.path.abspath(__file__)), set(sys.modules)
    sys.path.insert(0, here)
    answer = os.path.join(asked["folder"], "answer.json")

    def report(found: dict[str, Any]) -> None:
        with open(answer + ".new", "w") as file:
            json.dump(dict(found, unprotected=unprotected), file)
        os.rename(answer + ".new", answer)
        os._exit(0)

    def run() -> None:
        for name in set(sys.modules) - before:
            if os.path.dirname(getattr(sys.modules[name], "__file__", None) or "") == here:
                del sys.modules[name]  # the script may have a module of that name
        del sys.path[0]
        sys.argv = [asked["target"], *sys.argv[2:]]
        if asked["kind"] == "module":
            sys.path.insert(0, os.getcwd())
            runpy.run_module(asked["target"], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(asked["target"]))
            _run_script(asked["target"])

    try:
        import torch_step
        import writes
    except ImportError as error:
        report({"refused": f"its Python cannot import PyTorch, for which alone it is counted ({error})"})

    writes.redirect(asked["folder"])
    torch_step.trace(run, report, asked["whole"])


def _run_script(path: str) -> None:
    """As `runpy.run_path` does, by the loader of modules, which `loops` has changed."""
    module = types.ModuleType("__main__")
    module.__file__ = path
    module.__loader__ = loader = SourceFileLoader("__main__", path)
    sys.modules["__main__"] = module
    exec(loader.get_code("__main__") or "", vars(module))  # noqa: S102 - that is what is asked for


def _protect(asked: dict[str, Any]) -> Iterator[str]:
    """Limit this process. Yields what could not be had, after "shut the dry run off: "."""
    resource.setrlimit(resource.RLIMIT_DATA, (asked["memory_bytes"],) * 2)
    processor_s = int(asked["limit_s"] * (os.cpu_count() or 1))
    resource.setrlimit(resource.RLIMIT_CPU, (processor_s, processor_s))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            try:
                with open("/proc/self/" + name, "w") as file:
                    file.write(text)
            except OSError:
                pass
    else:
        yield "it could reach the network"
    # After the change of credentials, which clears it.
    libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if not _only_writes_below(libc, [asked["folder"], "/dev"]):
        yield "it could write files"


def _only_writes_below(libc: ctypes.CDLL, folders: list[str]) -> bool:
    """Take from this process and its children the right to change files elsewhere, by Landlock. Returns whether that worked."""
    version = libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    rights = _WRITES[min(version, 3)]
    rule = struct.pack("=Q", rights)
    ruleset = libc.syscall(_LANDLOCK_CREATE, rule, ctypes.c_size_t(len(rule)), 0)
    if ruleset < 0:
        return False
    for folder in folders:
        below = os.open(folder, _O_PATH | os.O_CLOEXEC)
        # Rights for files may be given below any folder; what is no folder would refuse the others.
        allowed = struct.pack("=Qi", rights, below)
        failed = libc.syscall(_LANDLOCK_ADD, ruleset, 1, allowed, 0)
        os.close(below)
        if failed:
            return False
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0):
        return False
    os.close(ruleset)
    return True


if __name__ == "__main__":
    main()
