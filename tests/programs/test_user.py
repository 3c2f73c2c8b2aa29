"""The name that records show for who ran a program."""

from __future__ import annotations

import getpass
import os

import pytest

from gpuq.programs.user import user_name


def test_a_user_with_a_name_is_called_by_it() -> None:
    assert user_name() == getpass.getuser()


@pytest.mark.parametrize("error", [KeyError, OSError])
def test_a_user_without_a_name_is_called_by_its_number(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    def no_name() -> str:
        raise error

    monkeypatch.setattr(getpass, "getuser", no_name)
    assert user_name() == f"uid {os.getuid()}"
