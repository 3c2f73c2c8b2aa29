"""Look for words that this project does not use (`words.toml`), in text and in the parts of identifiers.

Exit code 1 if there are any.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUFFIXES = {".py", ".md", ".toml", ".js", ".css", ".html", ".service", ".sh"}
# Scripts as other people write them, and copies of what other programs print, are not ours to word.
FOREIGN = (
    "tests/script/scripts/",
    "tests/frameworks/scripts/",
    "benchmarks/corpus/scripts/",
    "tests/workers/printed.py",
)
PART = re.compile(r"[A-Z]?[a-z]+")


def main() -> int:
    """Print each place with what to write instead."""
    rules = tomllib.loads((ROOT / ".ci" / "words.toml").read_text(encoding="utf-8"))
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = 0
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix not in SUFFIXES or name.startswith(FOREIGN) or name in rules["exceptions"] or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for word in sorted({part.lower() for part in PART.findall(line)} & rules["instead"].keys()):
                found += 1
                print(f"{name}:{number}: {word}: write {rules['instead'][word]}")
    if found:
        print(f"{found} words to replace; .ci/words.toml has the list and its exceptions.", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
