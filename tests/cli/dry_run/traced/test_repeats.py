"""Whether a script is to make optimizers again after the steps that were seen."""

from __future__ import annotations

import functools
import linecache
import sys
import sysconfig
from typing import Any

import pytest

from gpuq.cli.dry_run.traced.repeats import Origins

HEAD = "def fit(width):\n  optimizer = Adam(width)\n  for batch in range(3): optimizer.step()\n"
ONCE = {
    "in a function": HEAD + "fit(64)\n",
    "epochs": "optimizer = Adam(1)\nfor epoch in range(2):\n  for batch in range(3):\n    optimizer.step()\nprint(len('x'))\n",
    "of each parameter": "made = []\nfor one in (1, 2):\n  made.append(Adam(one))\nfor batch in range(3):\n  made[1].step()\n",
    "beside other calls": "net = abs(1); optimizer = Adam(abs(2))\nfor batch in range(3):\n  abs(3); optimizer.step()\n",
    "other branch": HEAD + "if True:\n  fit(64)\nelse:\n  fit(4096)\n",
    "smaller where that fails": HEAD + "try:\n  fit(64)\nexcept MemoryError:\n  fit(8)\n",
    "other case": HEAD + "match 1:\n  case 1:\n    fit(64)\n  case _:\n    fit(4096)\n",
    "before a test": HEAD + "def test(net):\n  return len(net)\nfit(64)\ntest('x')\n",
    "epochs of a function": "def train(net):\n  adam = Adam(1)\n  while net:\n    adam.step()\n    net.train()\ntrain([1])\n",
    "called by a package": HEAD + "import functools\nfunctools.reduce(lambda one, two: fit(two), (1, 2))\n",
    "given to a call": HEAD
    + "class Net:\n  def make(self): return Adam(1)\nreduce(\n  lambda net, _: fit(net),\n  (1, 2),\n  Net())\n",
    "in a method": "class Net:\n def make(self):\n  return Sgd(1)\nnet = Net()\noptimizer = net.make()\noptimizer.step()\n",
}
AGAIN = {
    "loop": (HEAD + "for width in (64, 4096):\n  print(width, fit(width))\n", 5),
    "loop of a function": (HEAD + "def main():\n  while True:\n    fit(64)\nmain()\n", 6),
    "one after the other": (HEAD + "def main():\n  fit(64)\n  fit(4096)\nmain()\n", 6),
    "in a later phase": ("opt = Adam(1)\nfor epoch in range(2):\n  if epoch == 1:\n    opt = Sgd(2)\n  opt.step()\n", 4),
    "in a list": (HEAD + "made = [fit(width) for width in (64, 4096)]\n", 4),
    "in a generator": (HEAD + "made = tuple(fit(width) for width in (64, 4096))\n", 4),
    "where nothing failed": (HEAD + "try:\n  fit(64)\nexcept MemoryError:\n  pass\nelse:\n  fit(4096)\n", 9),
    "by another function": (HEAD + "def tune():\n  large = Sgd(4096)\ndef main():\n  fit(64)\n  tune()\nmain()\n", 8),
    "through others": (HEAD + "def tune():\n  return stage()\ndef stage():\n  return Sgd(4096)\nfit(64)\ntune()\n", 9),
    "by a class": (HEAD + "class Tune:\n  def __init__(self):\n    self.opt = Sgd(4096)\nfit(64)\nTune().run()\n", 8),
    "of itself": (HEAD + "def grow(width):\n  fit(width)\n  if width < 4096:\n    grow(4 * width)\ngrow(64)\n", 7),
    "in a case": (HEAD + "match 1:\n  case 1:\n    fit(64)\n    fit(4096)\n  case _:\n    pass\n", 7),
    "mapped": (HEAD + "made = list(map(fit, (64, 4096)))\n", 4),
    "in a search": (HEAD + "Study().optimize(fit, n_trials=9)\n", 4),
    "in one that follows": ("optimizer = Adam(1)\noptimizer.step()\noptimizer = Sgd(2)\n", 3),
}  # fmt: skip
STUDY: dict[str, Any] = {}
"""Of an installed package."""
exec(
    compile(
        "class Study:\n  def optimize(self, fit, n_trials):\n    for width in range(n_trials): fit(width)\n",
        f"{sysconfig.get_path('purelib')}/studies.py",
        "exec",
    ),
    STUDY,
)


class ReachedError(Exception):
    pass


def place(source: str, name: str) -> str | None:
    """Where an optimizer is made again, asked at the first step of this script."""
    return answers(source, name)[0]


def answers(source: str, name: str) -> tuple[str | None, Any]:
    """Where an optimizer is made again, and what makes later steps larger, with the loop of which all rounds are to be seen."""
    origins = Origins()
    answer: list[tuple[str | None, Any]] = []

    class Adam:
        def __init__(self, _: int) -> None:
            origins.note(sys._getframe(1), {"Adam", "Sgd"})

        def step(self) -> None:
            frame = sys._getframe(1)
            answer.append((origins.again(frame) or origins.searched(frame), origins.grows(frame)))
            raise ReachedError

    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    names = {"Adam": Adam, "Sgd": Adam, "Study": STUDY["Study"], "reduce": functools.reduce, "__name__": "__main__"}
    with pytest.raises(ReachedError):
        exec(compile(source, name, "exec"), names)
    return answer[0]


@pytest.mark.parametrize("what", ONCE)
def test_one_training_makes_no_optimizer_again(what: str) -> None:
    assert place(ONCE[what], "once.py") is None


@pytest.mark.parametrize("what", AGAIN)
def test_trainings_that_follow_each_other_are_seen(what: str) -> None:
    source, line = AGAIN[what]
    assert place(source, "again.py") == f"again.py:{line}"


@pytest.mark.parametrize(
    ("loops", "grows", "whole"),
    [
        ("for size in (32, 64):\n  for batch in range(3): opt.step()\n", "size at loops.py:2", 2),
        ("for epoch in range(3):\n  for x, seq_len in data: opt.step()\n", "seq_len at loops.py:3", 3),
        (
            "for epoch in range(3):\n  length = min(64 * 2 ** epoch, 4096)\n  for x, y in data: opt.step()\n",
            "length at loops.py:3",
            2,
        ),
        (
            "for step, (x, y) in enumerate(data):\n  seq_len = 8 * (1 + step // 50)\n  opt.step()\n",
            "seq_len at loops.py:3",
            2,
        ),
        ("for step, x in enumerate(data):\n  width = x[0]; lr = 0.1 * step\n  opt.step()\n", None, None),
        ("for x in data:\n  length = len(x)\n  opt.step()\n", None, None),
        (
            "for epoch in range(9):\n  opt.step()\n  if epoch == 3:\n    for p in net: p.requires_grad = True\n",
            "what is unfrozen at loops.py:5",
            None,
        ),
        (
            "for epoch in range(9):\n  opt.step()\n  if epoch > 3: net.unfreeze()\n",
            "what is unfrozen at loops.py:4",
            None,
        ),
        ("for i in range(9):\n  opt.step()\n  if i % 5 == 0:\n    for p in net: p.requires_grad = True\n", None, None),
        ("for i in range(9):\n  opt.step()\n  for p in net: p.requires_grad = True\n", None, None),
        ("for i in range(9):\n  opt.step()\n  if i > 3: net.requires_grad_(False)\n", None, None),
        ("for epoch in range(3):\n  for x, y in data: opt.step()\n", None, None),
        ("for size in (32, 64): print(size)\nfor batch in range(3): opt.step()\n", None, None),
    ],
)
def test_a_loop_over_sizes_or_a_size_that_follows_the_round_makes_later_steps_larger(
    loops: str, grows: str | None, whole: int | None
) -> None:
    expected = grows and (grows, whole and ("loops.py", whole))
    assert answers(f"data, opt = [(1, 2)], Adam(1)\n{loops}", "loops.py")[1] == expected
