"""The model card as dictionary, Markdown, page and plots."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest

from gpuq.learn.history.quarantine import TrainingSet
from gpuq.learn.training.card import card, card_files
from gpuq.learn.training.plots import coverage, draw
from gpuq.learn.training.score import Judgement, judge
from gpuq.learn.training.train import fit
from gpuq.settings import Learning
from tests.learn.world import GIB, Work, run

LEARNING = Learning()


@pytest.fixture(scope="module")
def made() -> tuple[dict[str, Any], Judgement]:
    chance = random.Random(1)
    works = [
        Work(f"{name}{i}", 32, level, memory)
        for name, level, memory in (("mobilenet", 20.0, GIB), ("bert", 90.0, 12 * GIB))
        for i in range(12)
    ]
    outcomes = [run(work, n, chance) for n, work in enumerate(chance.sample(works, 24))]
    earlier, held_out = outcomes[:14], outcomes[14:]
    model = fit(earlier, LEARNING)
    judgement = judge(earlier, held_out, model, None, LEARNING)
    attempts = TrainingSet(tuple(outcomes), {"a copy of another attempt": 3}, misdated=2)
    return card(model, judgement, attempts, held_out=held_out, at=1e9, previous=None), judgement


def test_card_shows_its_data_and_what_was_left_out(made: tuple[dict[str, Any], Judgement]):
    values, judgement = made
    text = card_files(values, ())["card.md"].decode()
    assert "from 14 finished attempts, judged on 10 later ones" in text
    assert "| left out | 3 a copy of another attempt |" in text
    assert "| memory bounds that failed |" in text
    assert values["data"] == {
        "kinds": 24, "owners": 1, "device_types": {"Test GPU": 24}, "from": 1000.0, "until": 2380.0,
        "left_out": {"a copy of another attempt": 3}, "misdated": 2,
    }  # fmt: skip
    assert judgement.better


def test_page_is_self_contained_and_escapes_job_names(made: tuple[dict[str, Any], Judgement]):
    values, judgement = made
    values = {**values, "reason": """<script>alert("it's")</script>"""}
    files = card_files(values, judgement.rows)
    page = files["card.html"].decode()
    assert set(files) == {"card.md", "card.html", "memory.png", "calibration.png", "kinds.png"}
    assert page.count('src="data:image/png;base64,') == 3
    assert "http" not in page
    assert "&lt;script&gt;alert(&#34;it&#39;s&#34;)&lt;/script&gt;" in page
    assert "<script>" not in page
    assert all(files[name].startswith(b"\x89PNG") for name in files if name.endswith(".png"))


def test_without_matplotlib_the_card_says_so(made: tuple[dict[str, Any], Judgement], monkeypatch: pytest.MonkeyPatch):
    values, judgement = made
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    files = card_files(values, judgement.rows)
    assert set(files) == {"card.md", "card.html"}
    assert "Not drawn" in files["card.html"].decode()


def test_coverage_rises_with_the_level_and_equals_the_bound_at_its_own(made: tuple[dict[str, Any], Judgement]):
    rows = [row for row in made[1].rows if row.forecast.known]
    levels, shares = zip(*coverage(rows, 0.95), strict=True)
    assert list(shares) == sorted(shares)
    assert 0.95 in levels


def test_no_plots_without_answered_rows():
    assert draw([], 0.95) == {}
