"""Writes the systemd units for a gpuq that is installed under a prefix. Run by path: `python systemd/render.py --help`.

The prefix is a virtual environment whose `bin/python` has gpuq; it takes the place of `@BIN@` in the units. Beside them it
writes `sysusers.d/gpuq.conf`, `tmpfiles.d/gpuq.conf` and `pam.d/gpuq`; with `--user` only the unit of a user's own gpuq. Standard
library only; not part of the package, because a module named `systemd` belongs to another project.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
UNIT_TYPES = (".service", ".socket", ".timer", ".target")
# Where each other file goes below the units: kind, folder, and the end of its name there.
PLAIN = (("sysusers", "sysusers.d", ".conf"), ("tmpfiles", "tmpfiles.d", ".conf"), ("pam", "pam.d", ""))
# systemd would read `%` as a specifier, and spaces, quotes and backslashes as its own syntax.
SAFE_PATH = re.compile(r"/[A-Za-z0-9/._+@=:-]*")


def main() -> int:
    """The exit code: 0 written, 2 not usable as asked."""
    parser = argparse.ArgumentParser(description="Write gpuq's systemd units.")
    parser.add_argument("--prefix", type=Path, required=True, help="where gpuq is installed, like /opt/gpuq")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to, like /etc/systemd/system")
    parser.add_argument(
        "--user", action="store_true", help="the unit for `systemctl --user`, to ~/.config/systemd/user"
    )
    options = parser.parse_args()
    fault = fault_of(options.prefix)
    if fault is not None:
        sys.stderr.write(f"{fault}\n")
        return 2
    for path in render(options.prefix, options.out, user=options.user):
        sys.stdout.write(f"{path}\n")
    return 0


def fault_of(prefix: Path) -> str | None:
    """Why units cannot be made for this prefix, with the fix; None if they can."""
    if not SAFE_PATH.fullmatch(str(prefix)):
        return f"{prefix} must be an absolute path of letters, digits and / . _ + @ = : - only; install gpuq elsewhere."
    for program in ("python", "gpuq"):
        if not os.access(prefix / "bin" / program, os.X_OK):
            return (
                f"{prefix}/bin/{program} is not there; first install gpuq: python3 -m venv {prefix}, then pip install."
            )
    return None


def render(prefix: Path, out: Path, *, user: bool = False) -> list[Path]:
    """Write everything for gpuq in `prefix/bin` to `out`; the files written."""
    folder = HERE / "user" if user else HERE
    units = {path.name: path for path in sorted(folder.iterdir()) if path.suffix in UNIT_TYPES}
    plain = {f"{folder}/gpuq{end}": HERE / f"gpuq.{kind}" for kind, folder, end in PLAIN}
    if user:
        plain = {}
    written = []
    for name, source in {**units, **plain}.items():
        target = out / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text(encoding="utf-8").replace("@BIN@", f"{prefix}/bin"), encoding="utf-8")
        written.append(target)
    return written


if __name__ == "__main__":
    sys.exit(main())
