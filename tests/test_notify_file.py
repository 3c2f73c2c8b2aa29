"""The user's file of notification targets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuq import notify_file
from gpuq.errors import BadInput, BadSettings
from gpuq.home import Home

SOUND = 'default = "fail:mail"\n[targets]\nmail = "mailto://ann:SECRET@example.org"\nteam = ["json://a", "json://b"]\n'


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "gpuq").mkdir()
    return {"XDG_CONFIG_HOME": str(tmp_path), "GPUQ_HOME": str(tmp_path / "home")}


def write(environ: dict[str, str], text: str, mode: int = 0o600) -> Path:
    path = notify_file.path(environ)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_it_has_targets_and_default_rules(environ: dict[str, str]) -> None:
    found = notify_file.load(write(environ, SOUND))
    assert found.targets == {"mail": ["mailto://ann:SECRET@example.org"], "team": ["json://a", "json://b"]}
    assert found.default == ["fail:mail"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o660])
def test_a_file_that_others_can_read_or_write_is_refused(environ: dict[str, str], mode: int) -> None:
    path = write(environ, SOUND, mode)
    with pytest.raises(BadSettings, match="holds passwords") as refused:
        notify_file.load(path)
    assert refused.value.fix == f"Run `chmod 600 {path}`."


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[targets]\nmail = SECRET", "is no TOML at line 2"),
        ("", "has no targets"),
        ("[targets]\n", "has no targets"),
        ("[targets]\nmail = 3", "`mail` must be an address"),
        ("[targets]\n'a b' = 'json://x'", "`a b` cannot be the name"),
        ("[target]\nmail = 'json://x'", "has `target`"),
        ("default = 3\n[targets]\nmail = 'json://x'", "`default` must be a rule"),
        ("default = 'end:slack'\n[targets]\nmail = 'json://x'", "no target `slack`"),
        ("default = 'end:json://SECRET'\n[targets]\nmail = 'json://x'", "takes the name of a target"),
    ],
)
def test_what_is_wrong_in_it_is_said_without_an_address(environ: dict[str, str], text: str, sentence: str) -> None:
    with pytest.raises(BadSettings) as refused:
        notify_file.load(write(environ, text))
    assert sentence in refused.value.message
    assert "SECRET" not in refused.value.message + refused.value.fix


def test_a_pipe_in_its_place_keeps_no_process_waiting(environ: dict[str, str]) -> None:
    path = notify_file.path(environ)
    os.mkfifo(path, 0o600)
    with pytest.raises(BadSettings, match="is no file"):
        notify_file.load(path)


def test_rules_of_a_submission_are_checked_against_it(environ: dict[str, str]) -> None:
    assert notify_file.option([], environ) is None
    assert notify_file.option(["none"], environ) == []
    with pytest.raises(BadSettings, match=r"there is no .*notify\.toml") as missing:
        notify_file.option(["end:mail"], environ)
    assert "0600" in missing.value.fix
    write(environ, SOUND)
    assert notify_file.option(["end:mail", "end:mail", "fail"], environ) == ["end:mail", "fail"]
    with pytest.raises(BadInput, match="no target `slack`") as unknown:
        notify_file.option(["end:slack"], environ)
    assert "mail, team" in unknown.value.fix
    with pytest.raises(BadInput, match="goes with no other"):
        notify_file.option(["none", "end:mail"], environ)


def test_a_user_without_a_gpuq_of_their_own_gets_no_home_by_it(environ: dict[str, str]) -> None:
    home = Path(environ["GPUQ_HOME"])
    assert notify_file.state_folder(environ) == home.with_name("home-notify")
    Home(home).create()
    assert notify_file.state_folder(environ) == home / "notify"
