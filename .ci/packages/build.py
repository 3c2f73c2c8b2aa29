"""Builds what gpuq is installed from, three wheels and two Debian packages: `python .ci/packages/build.py --out dist`.

`gpuq` (.deb) is a virtual environment in /opt/gpuq for Debian's own Python, with the versions of requirements.lock, and the
systemd units, which the installation does not start. `gpuq-client` is the command alone, and takes nothing but Python.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PREFIX = Path("/opt/gpuq")
DEBIANS_PYTHON = Path("/usr/bin/python3")
# Same sources, same bytes: the date of everything in a package whose sources carry none.
EPOCH = "1767225600"

_CONTROL = """\
Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: gpuq maintainers <gpuq@localhost>
Section: admin
Priority: optional
Depends: {depends}
Conflicts: {conflicts}
Installed-Size: {size}
Description: {summary}
"""
_CONFIGURE = """\
#!/bin/sh
set -e
[ "$1" = configure ] || exit 0
if command -v systemd-sysusers >/dev/null; then
    systemd-sysusers gpuq.conf
    systemd-tmpfiles --create gpuq.conf || true
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    # What does not start says so in its log; dpkg would take it for a package that is not installed.
    systemctl try-restart {services} || true
fi
"""
_STOP = """\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --quiet {enabled} || true
    systemctl stop {units} || true
fi
"""
_PURGE = """\
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
if [ "$1" = purge ]; then
    echo "gpuq: the record, logs and settings stay in /var/lib/gpuq, /var/lib/gpuq-jobs and /etc/gpuq; remove them by hand."
fi
"""


def main() -> int:
    """Write the packages that are asked for and print their paths. Exit code 2: not on this machine."""
    parser = argparse.ArgumentParser(description="Build wheels and Debian packages of gpuq.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder to write to (default: dist)")
    parser.add_argument("--only", choices=("wheels", "debs"), help="not the others")
    parser.add_argument(
        "--extras",
        default="postgresql",
        help="extras in the Debian package, as in postgresql,train (default: postgresql)",
    )
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    fault = None if options.only == "wheels" else no_debs()
    if fault is not None:
        sys.stderr.write(f"{fault}\n")
        return 2
    whole, client, hydra = wheels(out)
    made = [] if options.only == "debs" else [whole, client, hydra]
    if options.only != "wheels":
        made += [daemon_deb(whole, out, options.extras), client_deb(client, out)]
    for path in made:
        sys.stdout.write(f"{path}  {path.stat().st_size / 1e6:.1f} MB\n")
    return 0


def no_debs() -> str | None:
    """Why Debian packages cannot be built here; None if they can."""
    if shutil.which("dpkg-deb") is None:
        return "dpkg-deb is not there; Debian packages are built on Debian. `--only wheels` builds the wheels."
    if not DEBIANS_PYTHON.exists() or _version_of(DEBIANS_PYTHON) < (3, 11):
        return f"{DEBIANS_PYTHON} of 3.11 or newer is not there: apt-get install python3"
    return None


def wheels(out: Path) -> tuple[Path, Path, Path]:
    """(gpuq_daemon, gpuq_client, gpuq_hydra)."""
    made = []
    for folder in (ROOT, ROOT / ".ci/packages/client", ROOT / ".ci/packages/hydra"):
        with tempfile.TemporaryDirectory() as built:
            command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", built]
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            (wheel,) = Path(built).glob("*.whl")
            made.append(Path(shutil.move(wheel, out / wheel.name)))
    return made[0], made[1], made[2]


def daemon_deb(wheel: Path, out: Path, extras: str) -> Path:
    """The whole of gpuq, with all that it needs of the package index, for the kind of this machine."""
    python, (major, minor) = DEBIANS_PYTHON, _version_of(DEBIANS_PYTHON)
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        home = top / PREFIX.relative_to("/")
        subprocess.run([str(python), "-m", "venv", "--without-pip", str(home)], check=True)
        pins = top / "pins.txt"
        locked = (ROOT / "requirements.lock").read_text()
        pins.write_text("\n".join(re.findall(r"^[\w.-]+==[^\\\n]+", locked, re.MULTILINE)))
        target = f"{wheel}[{extras}]" if extras else str(wheel)
        pip = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(home / "bin" / "python"),
            "install",
            "--quiet",
            "--no-compile",
        ]
        subprocess.run([*pip, "--only-binary", ":all:", "--constraint", str(pins), target], check=True)
        pins.unlink()
        _manual(top, home)
        _settle(top, home)
        _units(top)
        _link(top / "usr/bin/gpuq", PREFIX / "bin" / "gpuq")
        architecture = subprocess.run(
            ["dpkg", "--print-architecture"], capture_output=True, text=True, check=True
        ).stdout.strip()
        depends = f"python3 (>= {major}.{minor}), python3 (<< {major}.{minor + 1})"
        facts = {"name": "gpuq", "architecture": architecture, "depends": depends, "conflicts": "gpuq-client"}
        summary = "queue for GPUs on which two jobs share a GPU when the numbers allow it"
        return _deb(top, out, facts, summary, scripts=scripts())


def client_deb(wheel: Path, out: Path) -> Path:
    """The command alone, for any machine with Python 3.11 or newer."""
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        site = top / "usr/share/gpuq-client"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--no-deps", "--target", str(site)]
        subprocess.run([*pip, str(wheel)], check=True)
        shutil.rmtree(site / "bin")
        _manual(top, site)
        command = top / "usr/bin/gpuq"
        command.parent.mkdir(parents=True)
        path = f"sys.path[0] = '/{site.relative_to(top)}'"
        command.write_text(
            f"#!/usr/bin/python3\nimport sys\n{path}\nfrom gpuq.cli.main import main\nsys.exit(main())\n"
        )
        command.chmod(0o755)
        _compile(top, site)
        facts = {"name": "gpuq-client", "architecture": "all", "depends": "python3 (>= 3.11)", "conflicts": "gpuq"}
        return _deb(top, out, facts, "command of gpuq, a queue for GPUs, without its daemon", scripts={})


def _settle(top: Path, home: Path) -> None:
    """Make the environment what it would be at its place: no path of the folder it was built in."""
    for script in (home / "bin").iterdir():
        if script.is_file() and not script.is_symlink():
            script.write_bytes(script.read_bytes().replace(bytes(home), bytes(PREFIX)))
    for activation in (home / "bin").glob("[aA]ctivate*"):
        activation.unlink()
    configuration = home / "pyvenv.cfg"
    configuration.write_text(configuration.read_text().replace(str(home), str(PREFIX)))
    _compile(top, home)


def _compile(top: Path, folder: Path) -> None:
    """Bytecode, because users may not write it there; without it each start would take a multiple of the time."""
    words = ["-m", "compileall", "-q", "-s", str(top), "-p", "/", "--invalidation-mode", "unchecked-hash", str(folder)]
    # Some libraries carry files for other Pythons, which do not compile.
    subprocess.run([str(DEBIANS_PYTHON), *words], check=False, stdout=subprocess.DEVNULL)


def _units(top: Path) -> None:
    """Units and the rest where Debian has those of packages. The check of the prefix is for installations by hand."""
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, str(ROOT / "systemd"))
        import render

        render.render(PREFIX, Path(folder))
        for kind, place in (
            ("sysusers.d", "usr/lib/sysusers.d"),
            ("tmpfiles.d", "usr/lib/tmpfiles.d"),
            ("pam.d", "etc/pam.d"),
        ):
            shutil.copytree(Path(folder, kind), top / place)
            shutil.rmtree(Path(folder, kind))
        shutil.copytree(folder, top / "lib/systemd/system")


def scripts() -> dict[str, str]:
    """What dpkg runs. Units are named one by one: `gpuq*.service` would match those of jobs, and `disable` takes no pattern."""
    units = {path.name: path.read_text() for path in sorted((ROOT / "systemd").glob("gpuq*.*"))}
    units = {name: text for name, text in units.items() if name.endswith((".service", ".socket", ".target", ".timer"))}
    enabled = [name for name, text in units.items() if "[Install]" in text]
    # A training that runs is neither begun again nor waited for.
    services = [name for name, text in units.items() if name.endswith(".service") and "Type=oneshot" not in text]
    return {
        "postinst": _CONFIGURE.format(services=" ".join(services)),
        "prerm": _STOP.format(enabled=" ".join(enabled), units=" ".join(units)),
        "postrm": _PURGE,
    }


def _manual(top: Path, home: Path) -> None:
    """Manual pages where `man` looks for them, compressed as Debian has them."""
    folder = top / "usr/share/man/man1"
    folder.mkdir(parents=True)
    for page in sorted((home / "share/man/man1").glob("gpuq*.1")):
        (folder / f"{page.name}.gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
        page.unlink()


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)


def _deb(top: Path, out: Path, facts: dict[str, str], summary: str, *, scripts: dict[str, str]) -> Path:
    version = re.search(r'^__version__ = "(.+)"', (ROOT / "gpuq" / "__init__.py").read_text(), re.MULTILINE)
    assert version
    size = sum(path.lstat().st_size for path in top.rglob("*")) // 1024
    folder = top / "DEBIAN"
    folder.mkdir()
    (folder / "control").write_text(_CONTROL.format(**facts, version=version[1], size=size, summary=summary))
    if scripts:
        for name, text in scripts.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        (folder / "conffiles").write_text("/etc/pam.d/gpuq\n")
    top.chmod(0o755)
    path = out / f"{facts['name']}_{version[1]}_{facts['architecture']}.deb"
    command = ["dpkg-deb", "--root-owner-group", "-Zzstd", "-z3", "--build", str(top), str(path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH})
    return path


def _version_of(python: Path) -> tuple[int, int]:
    code = "import sys; print(*sys.version_info[:2])"
    words = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout.split()
    return int(words[0]), int(words[1])


if __name__ == "__main__":
    sys.exit(main())
