"""A user's own file of notification targets, `~/.config/gpuq/notify.toml`: addresses, and rules for jobs that name none.

    default = "fail:mail"

    [targets]
    slack = "slack://TOKEN_A/TOKEN_B/TOKEN_C"
    mail = ["mailtos://ann:PASSWORD@example.org?to=ann@example.org"]

The addresses hold passwords. Only processes of its owner read it, and it must be closed to all others.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from gpuq.errors import BadInput, BadSettings
from gpuq.home import Home
from gpuq.notification import NONE, TARGET, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LARGEST_BYTES = 256 * 1024
_EXAMPLE = '[targets] and then, as an example, mail = "mailtos://USER:PASSWORD@example.org"'


class NotifyFile:
    """What the file says: the addresses of each target by its name, and the default rules."""

    __slots__ = ("default", "targets")

    def __init__(self, targets: dict[str, list[str]], default: list[str]) -> None:
        self.targets = targets
        self.default = default

    def check(self, rule: str) -> None:
        """Raises BadInput for a rule that is malformed or names a target that the file does not have."""
        for name in parse(rule)[1]:
            if name not in self.targets:
                known = ", ".join(sorted(self.targets))
                raise BadInput(f"your notify.toml has no target `{name}`.", fix=f"It has {known}; `gpuq notify list`.")


def path(environ: Mapping[str, str]) -> Path:
    """Where the file is: `$XDG_CONFIG_HOME/gpuq/notify.toml`, else in `~/.config/gpuq`."""
    folder = environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(folder) / "gpuq" / "notify.toml"


def state_folder(environ: Mapping[str, str]) -> Path:
    """Where the process that sends notifications keeps its notes: in the home of the user's own gpuq, beside it for users without
    one."""
    home = Home.from_environment(dict(environ))
    return home.root / "notify" if home.is_in_use else home.root.with_name(f"{home.root.name}-notify")


def load(file: Path) -> NotifyFile:
    """The user's targets and default rules. Raises BadSettings; its message has no address."""
    content = _read_private(file)
    import tomllib

    try:
        table = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        line = re.search(r"line \d+", str(error))
        where = f" at {line[0]}" if line else ""
        raise BadSettings(f"{file} is no TOML{where}.", fix="Correct that line.") from None
    strange = sorted(set(table) - {"targets", "default"})
    if strange:
        raise BadSettings(f"{file} has `{strange[0]}`.", fix="It may have `default` and the table [targets].")
    targets = _targets(file, table.get("targets"))
    rules = table.get("default", [])
    rules = [rules] if isinstance(rules, str) else rules
    if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
        raise BadSettings(
            f"{file}: `default` must be a rule or a list of rules.", fix='Write default = "end,fail:mail".'
        )
    found = NotifyFile(targets, rules)
    for rule in rules:
        try:
            found.check(rule)
        except BadInput as error:
            raise BadSettings(
                f"{file}: in `default`, {error.message.replace('--notify ', '')}", fix=error.fix
            ) from None
    return found


def _read_private(file: Path) -> bytes:
    """The content of a file that only this user can read. Raises BadSettings."""
    try:
        # O_NONBLOCK: opening a pipe would wait for its other end.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        fix = f"Write it with mode 0600: {_EXAMPLE}."
        raise BadSettings(f"there is no {file}, where your notification targets are.", fix=fix) from None
    except OSError as error:
        raise BadSettings(f"{file} cannot be read: {error.strerror}.", fix="Correct its permissions.") from None
    with os.fdopen(descriptor, "rb") as opened:
        seen = os.fstat(descriptor)
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > _LARGEST_BYTES:
            raise BadSettings(f"{file} is no file, or a very large one.", fix="Put a small TOML file there.")
        if seen.st_uid != os.geteuid() or seen.st_mode & 0o077:
            raise BadSettings(
                f"{file} holds passwords, and others than you can read or write it, or own it.",
                fix=f"Run `chmod 600 {file}`.",
            )
        return opened.read(_LARGEST_BYTES)


def _targets(file: Path, table: Any) -> dict[str, list[str]]:
    if not isinstance(table, dict) or not table:
        raise BadSettings(f"{file} has no targets.", fix=f"Write {_EXAMPLE}.")
    found = {}
    for name, value in table.items():
        addresses = [value] if isinstance(value, str) else value
        if not re.fullmatch(TARGET, name) or name == NONE:
            raise BadSettings(
                f"{file}: `{name}` cannot be the name of a target.", fix="Use up to 40 letters and digits."
            )
        if not isinstance(addresses, list) or not addresses or not all(isinstance(one, str) for one in addresses):
            raise BadSettings(
                f"{file}: target `{name}` must be an address or a list of them.", fix=f"Write {_EXAMPLE}."
            )
        found[name] = addresses
    return found


# --- the option --notify --------------------------------------------------------------------------------------------


def option(rules: list[str], environ: Mapping[str, str]) -> list[str] | None:
    """The rules of a submission for the values of --notify: None for the user's default, empty for `none`. Raises BadInput."""
    if not rules:
        return None
    if NONE in rules:
        if len(rules) > 1:
            raise BadInput("--notify none goes with no other --notify.", fix="Leave one of them out.")
        return []
    for rule in rules:
        parse(rule)
    from importlib.util import find_spec

    if find_spec("apprise") is None:
        fix = "Install it: pip install 'gpuq-daemon[notify]'"
        raise BadInput("--notify needs the package apprise.", fix=fix)
    targets = load(path(environ))
    for rule in rules:
        targets.check(rule)
    return list(dict.fromkeys(rules))
