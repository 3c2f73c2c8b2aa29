"""Every error says what to do next, and stands in the tree at the top of its module."""

import re

import pytest

from gpuq import errors
from gpuq.errors import GpuqError

CLASSES = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, GpuqError)]
LINE = re.compile(r"^    (?P<rails>[│├└─ ]*)(?P<name>[A-Z]\w+)(?: +exit (?P<code>\d+))?", re.MULTILINE)


def tree() -> dict[str, tuple[int, str | None]]:
    """name -> (depth, exit code where one is written), as the docstring draws it."""
    return {m["name"]: (len(m["rails"]) // 4, m["code"]) for m in LINE.finditer(errors.__doc__ or "")}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_it_has_a_sentence_a_fix_and_codes(cls):
    error = cls()
    assert error.message
    assert error.fix.endswith((".", "."))
    assert len(error.fix) > 20
    assert 1 <= cls.exit_code <= 7
    assert 400 <= cls.http_status <= 599


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_the_tree_has_it_at_its_place_with_its_exit_code(cls):
    depth, code = tree()[cls.__name__]
    assert depth == len([one for one in cls.__mro__ if one in CLASSES]) - 1
    if depth == 1:
        assert code == str(cls.exit_code)


def test_the_tree_has_nothing_else():
    assert set(tree()) == {cls.__name__ for cls in CLASSES}


def test_exit_codes_of_families_differ():
    """One code, one meaning; subclasses keep their family's."""
    families = [cls for cls in CLASSES if GpuqError in cls.__bases__]
    assert len({cls.exit_code for cls in families}) == len(families)
    assert all(cls.exit_code == cls.__mro__[1].exit_code for cls in CLASSES if cls not in (*families, GpuqError))


def test_a_fix_of_its_own_replaces_the_general_one():
    assert GpuqError("It broke.", fix="Mend it.").fix == "Mend it."
    assert GpuqError("It broke.").fix == GpuqError.fix
