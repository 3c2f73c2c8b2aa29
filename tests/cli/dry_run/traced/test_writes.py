"""What a script writes where it may not goes elsewhere, and is found again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


def test_what_cannot_be_written_is_written_elsewhere(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WRITES, str(Path(package).with_name("traced")), str(tmp_path)]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert said == ["64", "x", f"{tmp_path}/own.txt", "FileNotFoundError", "FileExistsError"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own.txt", "written-0", "written-1"]
