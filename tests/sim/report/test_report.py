"""What people read: the sentences, the table, the JSON, the page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from xml.etree import ElementTree

import pytest
from rich.console import Console

from gpuq.sim.record import SimulationRun
from gpuq.sim.report.figures import figures
from gpuq.sim.report.headline import headline
from gpuq.sim.report.page import page
from gpuq.sim.report.plot_data import POINTS, plot_data
from gpuq.sim.report.report import SimulationReport, to_json
from gpuq.sim.report.summary import summarise
from gpuq.sim.report.table import show
from tests.sim.report.samples import a_job, a_run, alone, together

CHAIN = (("exclusive-fifo", ""), ("packed-exclusive", "order and backfill"), ("packed", "sharing"))


def a_report(*runs: SimulationRun, **changes: object) -> SimulationReport:
    played = runs or (alone(), alone(policy="packed-exclusive"), together())
    chain = CHAIN if not runs else ()
    report = SimulationReport(
        title="small report", main="packed", baseline="exclusive-fifo", budget=1.3, chain=chain,
        summaries=tuple(summarise(figures(run, budget=1.3) for run in played)),
        plot_data=tuple(map(plot_data, played)), notes=("seed 1 <b>",),
    )  # fmt: skip
    return replace(report, **changes)  # type: ignore[arg-type]


def rendered(report: SimulationReport, width: int = 100) -> str:
    out = StringIO()
    show(report, Console(file=out, width=width, highlight=False))
    return out.getvalue()


# --- the table -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "has_pass_time"), [(80, False), (100, True)])
def test_the_table_fits_the_terminal_and_folds_no_name(width: int, has_pass_time: bool) -> None:
    longest = "oracle-shortest-remaining-first"
    hours = alone(policy=longest, pass_seconds=[0.0003881] * 3)
    lines = rendered(a_report(alone(), hours, together()), width).splitlines()
    assert max(map(len, lines)) <= width
    assert any(line.startswith(f"{longest} ") for line in lines)
    assert any(line.endswith("pass") for line in lines) == has_pass_time


@pytest.mark.parametrize(("seeds", "seed_is_shown"), [(1, True), (2, False)])
def test_every_note_of_one_seed_is_shown_and_of_several_those_that_they_share(seeds: int, seed_is_shown: bool) -> None:
    """A table that leaves out half of its jobs has more than a dozen notes, and each of them matters."""
    runs = [alone(policy="packed", seed=number) for number in range(1, seeds + 1)]
    notes = tuple(f"left out: {number} jobs" for number in range(20))
    out = rendered(a_report(*runs, baseline="packed", notes=notes, notes_of_runs=("seed 1",)))
    assert all(note in out for note in notes)
    assert ("seed 1" in out) == seed_is_shown
    assert ("on the page" in out) != seed_is_shown


def test_a_policy_that_was_replaced_is_named_first() -> None:
    report = a_report(faults=("mine was replaced by packed after 20m: it failed: KeyError: 'gpu'",))
    assert report.headline[0] == "mine was replaced by packed after 20m: it failed: KeyError: 'gpu'."


# --- sentences -----------------------------------------------------------------------------------------------------


def test_headline_has_saving_completion_and_slowdown() -> None:
    assert a_report().headline == [
        "Sharing would have saved 0.75 GPU-hours, 38% of 2.",
        "On average, a job would have taken 75m under packed instead of 90m under exclusive-fifo, from submission to end.",
        "No job would have been slowed by more than 25%.",
    ]


def test_headline_has_the_bound_on_saving_where_it_is_known() -> None:
    shared = a_report().summary("packed").median
    assert headline(replace(shared, possible_saving=0.42), shared, 1.2)[0].endswith(
        "38% of 2; pairs within the limits of the settings could save 42% at most."
    )


@pytest.mark.parametrize(("left_out", "is_said"), [(0.94, True), (0.01, False)])
def test_headline_begins_with_what_was_left_out_where_that_is_much(left_out: float, is_said: bool) -> None:
    found = headline(figures(replace(together(), left_out=left_out)), figures(alone()), 1.2)
    assert found[0].startswith("94% of the trace's device time is left out") == is_said


def test_headline_leaves_out_sentences_that_are_not_true() -> None:
    bad = together(2.5)
    found = headline(figures(bad), figures(alone()), 1.2)
    assert found[0] == "Sharing would have saved no GPU-hours."
    assert found[1].startswith("On average, a job would have taken longer")
    assert "100% of the jobs would have been slowed by more than 20%, the worst 2.50 times" in found[2]


def test_headline_without_sharing_has_no_slowdown() -> None:
    found = headline(figures(alone(policy="packed")), figures(alone()), 1.2)
    assert found == [
        "Under packed no two jobs would have shared a device.",
        "On average, a job would have taken 90m from submission to end under both.",
    ]


def test_headline_has_unfinished_jobs_and_out_of_memory() -> None:
    waits = a_job(2, 0, 1)
    waits.attempts, waits.ended_at = [], None
    found = headline(figures(a_run(a_job(1, 0, 10), waits)), figures(alone()), 1.2)
    assert any("1 of 2 jobs never ended" in sentence for sentence in found)


# --- the table -----------------------------------------------------------------------------------------------------


def test_the_table_fits_a_hundred_columns_with_long_names() -> None:
    name = "oracle-shortest-remaining-first"
    shown = rendered(a_report(alone(), together(), together(policy=name)))
    assert max(len(line) for line in shown.splitlines()) <= 100
    assert name in shown


def test_table_shows_each_step_of_the_chain() -> None:
    shown = rendered(a_report())
    assert "order and backfill: completion x1.00" in shown
    assert "sharing: completion x0.83, waiting x0.00" in shown


# --- JSON ----------------------------------------------------------------------------------------------------------


def test_json_has_every_figure_with_its_definition_and_unknown_is_null() -> None:
    found = json.loads(json.dumps(to_json(a_report()), allow_nan=False))
    packed = next(one for one in found["contenders"] if one["policy"] == "packed")
    assert packed["median"]["slowdown_worst"] == 1.25
    assert packed["median"]["energy_kwh"] is None
    assert set(found["figures"]) <= set(packed["median"])
    assert found["steps"][-1]["adds"] == "sharing"


# --- the page ------------------------------------------------------------------------------------------------------


class Checker(HTMLParser):
    """Every tag is closed, and nothing points outside."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            assert name not in {"src", "href"}, value
            assert not name.startswith("on")
        if tag not in {"meta", "line", "path", "rect", "circle"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)

    def handle_endtag(self, tag: str) -> None:
        if tag not in {"line", "path", "rect", "circle"}:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_page_is_complete_has_no_links_and_escapes_text() -> None:
    evil = """<script>alert("it's")</script>"""
    drawn = page(a_report(alone(), together(), a_run(a_job(1, 0, 10, kind=evil), policy="other"), title=evil))
    checker = Checker()
    checker.feed(drawn)
    assert checker.open == []
    assert "script" not in re.sub(r"&lt;/?script&gt;", "", drawn)
    assert "http" not in drawn
    assert "seed 1 <b>" in "".join(checker.texts)


def test_every_picture_is_well_formed_and_within_its_frame() -> None:
    pictures = re.findall(r"<svg.*?</svg>", page(a_report()), re.DOTALL)
    assert len(pictures) == 6, "two Gantts, three distributions, the frontier"
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        for shape in root.iter():
            for name, most in (
                ("x", width),
                ("x1", width),
                ("x2", width),
                ("cx", width),
                ("y", height),
                ("cy", height),
            ):
                if name in shape.attrib:
                    assert 0 <= float(shape.attrib[name]) <= most, (shape.tag, name)


def test_the_same_report_gives_the_same_page() -> None:
    assert page(a_report()) == page(a_report())


@pytest.mark.parametrize("runs", [(a_run(),), (a_run(a_job(1, 0, 0.0)),), (alone(policy="packed"),)])
def test_report_of_a_run_without_jobs_does_not_fail(runs: tuple[SimulationRun, ...]) -> None:
    report = a_report(*runs, baseline="packed", chain=())
    assert "packed" in page(report)
    assert "packed" in rendered(report)


# --- what the pictures are made of ---------------------------------------------------------------------------------


def test_partners_lie_side_by_side_and_those_alone_in_the_first_lane() -> None:
    (row,) = plot_data(a_run(a_job(1, 0, 100), a_job(2, 50, 150), a_job(3, 200, 300))).rows
    assert [(bar.job, bar.lane, bar.shared) for bar in row.bars] == [(1, 0, True), (2, 1, True), (3, 0, False)]
    assert row.lanes == 2


def test_distributions_are_thinned_to_even_quantiles() -> None:
    found = plot_data(a_run(*(a_job(n, 0, n) for n in range(1, 1002))))
    assert len(found.completions) == POINTS
    assert (found.completions[0], found.completions[POINTS // 2], found.completions[-1]) == (1, 501, 1001)
