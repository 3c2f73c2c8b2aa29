"""Loops around training steps, which are made short once enough was seen, so that what comes later is reached."""

from __future__ import annotations

import builtins
import sys
from importlib.machinery import SourceFileLoader
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gpuq.cli.dry_run.traced.loops import ScriptLoops
from gpuq.cli.dry_run.traced.repeats import NOT_OF_SCRIPT, Origins


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a script in which `step()` is a training step, of which two are enough. Returns what it noted by `note()`."""
    monkeypatch.setattr(SourceFileLoader, "get_code", SourceFileLoader.get_code)
    for name in ("__gpuq_over__", "__gpuq_counted__"):
        monkeypatch.setattr(builtins, name, None, raising=False)
    loops, origins = ScriptLoops(NOT_OF_SCRIPT), Origins()
    loops.install()
    noted: list[Any] = []
    steps = iter(range(1000))

    def step() -> None:
        loops.around |= origins.places(sys._getframe(1))
        loops.is_cut = next(steps) >= 1

    def optimizer() -> None:
        loops.whole |= origins.places(sys._getframe(1))

    def runner(source: str) -> list[Any]:
        path = tmp_path / "train.py"
        path.write_text(source)
        code = SourceFileLoader("__main__", str(path)).get_code("__main__")
        assert code is not None
        exec(code, {"step": step, "note": noted.append, "optimizer": optimizer})
        return noted

    return runner


def test_of_many_epochs_the_next_some_between_and_the_last_ones_are_made(run: Any) -> None:
    made = run("for epoch in range(90):\n  note(epoch); step()\n")
    assert (made[:4], made[-2:], made) == ([0, 1, 2, 3], [88, 89], sorted(set(made)))
    assert len(made) < 30
    assert max(after - before for before, after in pairwise(made)) <= 6, "a size may be largest in the middle"


def test_numbers_may_go_down(run: Any) -> None:
    made = run("for epoch in range(90, 0, -1):\n  note(epoch); step()\n")
    assert (made[:4], made[-2:], made) == ([90, 89, 88, 87], [2, 1], sorted(set(made), reverse=True))


def test_a_loop_that_comes_again_within_another_is_shorter_then(run: Any) -> None:
    made = run("for epoch in range(2):\n  for it in range(900): note((epoch, it)); step()\n")
    assert [it for epoch, it in made if epoch == 1] == [0, 1, 898, 899]


def test_what_a_script_lets_go_is_held_nowhere(run: Any) -> None:
    source = (
        "import weakref\nclass Batch: pass\nseen = []\nfor batch in (Batch() for _ in range(9)):\n"
        "  seen.append(weakref.ref(batch)); del batch; note(seen[-1]()); step()\n  if len(seen) == 2: break\n"
    )
    assert run(source) == [None, None]


def test_rounds_with_which_the_script_compares_the_number_are_made(run: Any) -> None:
    source = "start = 1000\nfor it in range(100_000):\n  step()\n  if it == start: note('average')\n"
    assert run(source + "  if (it + 1) % 5000 == 0: note('validation')\n") == ["average", "validation", "validation"]


def test_a_number_that_is_counted_by_hand_goes_on_to_the_next_of_these(run: Any) -> None:
    source = (
        "number = 0\nwhile number < 100_000:\n  for batch in range(50):\n"
        "    step(); number += 1\n    if number == 2000: note('average')\n"
    )
    assert run(source) == ["average"]


def test_the_number_may_be_one_of_an_object(run: Any) -> None:
    source = """
class Trainer:
    def __init__(self):
        self.number, self.every = 0, 500
    def train(self):
        while True:
            self.one()
            if self.number >= 10_000:
                break
    def one(self):
        step()
        self.number = self.number + 1
        if self.number % self.every == 0:
            note(self.number)
Trainer().train()
"""
    assert run(source) == [500, 10_000]


def test_numbered_batches_are_few_and_numbered_as_those_that_matter(run: Any) -> None:
    source = (
        "batches = map(str, range(10 ** 9))\nfor i, x in enumerate(batches):\n  step()\n  if i % 100 == 0: note(i)\n"
    )
    assert run(source) == [0, 100]


def test_other_loops_come_to_their_end_after_three_rounds(run: Any) -> None:
    assert len(run("import itertools\nfor x in itertools.count():\n  note(x); step()\n")) == 5


def test_of_short_lists_all_is_made(run: Any) -> None:
    assert run("for size in [16, 512, 64]:\n  note(size)\n  for _ in range(1000): step()\n") == [16, 512, 64]


def test_each_training_is_made(run: Any) -> None:
    source = "def fit(fold):\n  optimizer(); note(fold)\n  for epoch in range(100): step()\nfor fold in range(9): fit(fold)\n"
    assert run(source) == [*range(9)]


def test_loops_without_a_step_are_left_alone(run: Any) -> None:
    source = "for epoch in range(9):\n  step()\ntotal = 0\nwhile total < 5000:\n  total += 1\nnote(total)\n"
    assert run(source + "note(sum(one for one in range(100)))\nfor one in range(50): pass\nnote(one)\n") == [
        5000,
        4950,
        49,
    ]


def test_what_numbers_are_compared_with_may_be_unknown_or_fail(run: Any) -> None:
    source = "for it in range(9):\n  step()\n  if it > 99 // (9 - 9) if it > 99 else it and it == later: note(it)\n  later = 6\n"
    assert run(source) == [6]


def test_code_with_errors_is_refused_as_ever(run: Any) -> None:
    with pytest.raises(SyntaxError):
        run("for epoch in:\n")
