"""The rest of a script, after the steps that showed enough."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gpuq.cli.dry_run.traced import epoch

# A process of its own, since what it does cannot be taken back.
ENDS = """
import os, socket, subprocess, sys
from types import SimpleNamespace
sys.path.insert(0, sys.argv[1])
from epoch import Epoch
def tried():
    done = []
    for what in (lambda: os.system("true"), lambda: subprocess.run(["true"]),
                 lambda: socket.socket(socket.AF_UNIX).connect("/nowhere/gpuq.sock")):
        try:
            what()
            done.append("done")
        except OSError as error:
            done.append(type(error).__name__)
    return done
rest = Epoch(lambda: None, SimpleNamespace(go_on=True, is_cut=False))
print(*tried())
rest.cut(to_its_end=False)
print(*tried())
"""


def test_what_a_script_does_at_its_end_is_not_done() -> None:
    words = [sys.executable, "-c", ENDS, str(Path(epoch.__file__).parent)]
    before, after = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert before == "done done FileNotFoundError"
    assert after == "PermissionError PermissionError PermissionError"
