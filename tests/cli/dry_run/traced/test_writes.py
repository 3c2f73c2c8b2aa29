"""What a script writes where it may not goes elsewhere, and is found again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpuq.cli.dry_run import __file__ as package

# No folder can be made in /proc, not even by root.
WRITES = """
import io, json, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from writes import redirect
redirect(sys.argv[2])
out = "/proc/nowhere/runs/1"
os.makedirs(out, exist_ok=True); Path(out, "logs").mkdir(parents=True, exist_ok=True)
with open(out + "/args.json", "w") as file: json.dump({"width": 64}, file)
print(json.load(open(out + "/args.json"))["width"])
Path(out, "notes.txt").write_text("x"); print(Path(out, "notes.txt").read_text())
with open(sys.argv[2] + "/own.txt", "w") as file: print(file.name)
for wrong in (lambda: open("/proc/nowhere/data.txt"), lambda: os.mkdir(sys.argv[2])):
    try: wrong()
    except OSError as error: print(type(error).__name__)
"""

READ_ONLY = """
import errno, io, os, sys
def refuse(path, *_): raise OSError(errno.EROFS, "read-only", path)
io_open = io.open
io.open = lambda path, *rest: refuse(path) if str(path).startswith("/mounted") else io_open(path, *rest)
os.mkdir = refuse
sys.path.insert(0, sys.argv[1])
from writes import redirect
redirect(sys.argv[2])
os.mkdir("/mounted/runs")
with open("/mounted/runs/args.txt", "w") as file: file.write("x")
print(open("/mounted/runs/args.txt").read())
"""


@pytest.mark.parametrize(
    ("script", "printed", "files"),
    [
        (
            WRITES,
            ["64", "x", "{}/own.txt", "FileNotFoundError", "FileExistsError"],
            ["own.txt", "written-0", "written-1"],
        ),
        (READ_ONLY, ["x"], ["written-0"]),
    ],
)
def test_what_cannot_be_written_is_written_elsewhere(
    tmp_path: Path, script: str, printed: list[str], files: list[str]
) -> None:
    words = [sys.executable, "-c", script, str(Path(package).with_name("traced")), str(tmp_path)]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert said == [one.format(tmp_path) for one in printed]
    assert sorted(path.name for path in tmp_path.iterdir()) == files
