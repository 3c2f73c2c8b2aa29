"""The whole way, from a table to text, JSON, pictures and a page; and on the seeds' own data."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from gpuq.lab.characterize import characterize
from gpuq.lab.characterize.page import page
from gpuq.lab.characterize.plots import Plot, plots
from gpuq.lab.characterize.report import CharacterizationReport, to_json
from gpuq.lab.characterize.source import read_folder
from gpuq.lab.characterize.table import Data, FeatureTable
from gpuq.lab.characterize.text import text
from gpuq.lab.public import alnair
from gpuq.lab.public import folder as public_folder
from tests.lab.characterize.tables import pair, row, site, table

PNG = b"\x89PNG\r\n\x1a\n"
NASTY = '<script>alert("$x$")</script>\x1b[31m'


@pytest.fixture(scope="module")
def whole() -> CharacterizationReport:
    between = pair("net0 8", f"{NASTY} 8", place_a=("net0", 8.0), place_b=("net3", 256.0))
    beyond = pair("net1 4096", "net2 2", place_a=("net1", 4096.0), place_b=("net2", 2.0))
    return characterize(Data(NASTY, (site(),), (between, beyond), ("A note & more.",)))


@pytest.fixture(scope="module")
def drawn(whole: CharacterizationReport) -> list[Plot]:
    return plots(whole)


def test_each_step_leads_to_the_next(whole: CharacterizationReport):
    (found,) = whole.tables
    assert found.attributes[:2] == ("util", "memory")
    assert "boots" not in found.attributes
    assert len(found.synthetic) == 4 * 4
    assert found.clusters is not None
    assert sum(len(group.members) for group in found.clusters.groups) == 20 + 16


def test_pairs_find_their_cluster_between_collected_batch_sizes_and_none_beyond(whole: CharacterizationReport):
    between, beyond = whole.packing[0].pairs
    assert None not in between.clusters
    assert beyond.clusters[0] is None
    assert beyond.clusters[1] is not None


def test_types_of_device_and_ways_of_sharing_stay_apart():
    pairs = tuple(pair(sharing=sharing) for sharing in ("mps", None, "mps"))
    found = characterize(Data("here", (), pairs)).packing
    assert [(packing.sharing, len(packing.pairs)) for packing in found] == [(None, 1), ("mps", 2)]


def test_pairs_of_another_type_of_device_are_placed_only_where_there_is_no_choice():
    other = pair(device_type="Other GPU", place_a=("net0", 32.0), place_b=("net3", 32.0))
    one = characterize(Data("here", (site(),), (other,)))
    assert one.packing[0].clusters_from == "Test GPU"
    second = FeatureTable("Third GPU", site().columns, site().rows, "util", "memory", "batch")
    assert characterize(Data("here", (site(), second), (other,))).packing[0].clusters_from is None


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [row("net", 8.0, util=5.0, memory=1.0)],
        [row("net", None, util=5.0, memory=None), row("net", None, util=6.0, memory=None)],
        [row("net", 8.0, util=5.0, memory=1.0), row("net", 16.0, util=7.0, memory=2.0)],
        [row("net", 8.0, util=5.0, memory=1.0)] * 6,
    ],
    ids=["none", "one", "no batch sizes", "two", "one, many times"],
)
def test_few_rows_break_nothing(rows: list):
    found = characterize(Data("here", (table(rows),)))
    assert json.loads(to_json(found))["tables"][0]["rows"] == len(rows)
    assert text(found)
    assert page(found, plots(found)).startswith("<!doctype html>")


def test_the_same_data_give_the_same_bytes(whole: CharacterizationReport, drawn: list[Plot]):
    data = Data("here", (site(),), (pair(),))
    assert to_json(characterize(data)) == to_json(characterize(data))
    assert [plot.png for plot in plots(whole)] == [plot.png for plot in drawn]


def test_all_pictures_are_drawn_and_described_in_words(drawn: list[Plot]):
    assert [plot.name for plot in drawn] == ["relevance", "interpolation", "synthetic", "elbow", "clusters", "pairs"]
    assert all(plot.png.startswith(PNG) and len(plot.says) > 20 for plot in drawn)


class Strict(HTMLParser):
    """Collects tags; every opened one must be closed in order."""

    VOID = frozenset({"meta", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_stands_alone_and_escapes_what_users_wrote(whole: CharacterizationReport, drawn: list[Plot]):
    written = page(whole, drawn)
    parser = Strict()
    parser.feed(written)
    assert parser.open == []
    tags = [tag for tag, _ in parser.seen]
    assert "script" not in tags
    assert "link" not in tags
    assert {"main", "section", "figure", "figcaption", "caption", "th"} <= set(tags)
    images = [attributes for tag, attributes in parser.seen if tag == "img"]
    assert len(images) == 6
    assert all(one["alt"] and (one["src"] or "").startswith("data:image/png;base64,") for one in images)
    assert "http" not in re.sub(r"base64,[\w+/=]+", "", written)
    assert "\x1b" not in written


def test_the_text_moves_no_cursor(whole: CharacterizationReport):
    assert "\x1b" not in text(whole)
    assert "Clusters: " in text(whole)


@pytest.fixture(scope="module")
def seed() -> CharacterizationReport:
    found = public_folder()
    if found is None or alnair.workloads(found) is None:
        pytest.skip("needs the measured public data: set GPUQ_DATA to its folder")
    return characterize(read_folder(found))


def test_the_seeds_data_give_the_seeds_count_of_clusters(seed: CharacterizationReport):
    (found,) = seed.tables
    assert (found.rows, found.series) == (49, 15)
    assert found.clusters is not None
    assert len(found.clusters.groups) == 3
    assert {member.series for member in found.clusters.groups[0].members if not member.synthetic} >= {
        "Reinforcement Learning Cart Pole Problem"
    }


def test_no_counter_since_boot_is_chosen_from_the_seeds_data(seed: CharacterizationReport):
    chosen = {name for ranking in seed.tables[0].rankings for name in ranking.chosen}
    assert {"MaGTSAMP", "MaGPUPR"} <= chosen
    assert not [name for name in chosen if name.startswith(("CS_", "SCT_", "DU_", "NIO"))]


def test_held_back_rows_prefer_other_ways_than_the_round_trip_does(seed: CharacterizationReport):
    for target in ("MGUP", "MGMAP"):
        every = [one for one in seed.tables[0].interpolation if one.column == target]
        used, returned = (next(one for one in every if getattr(one, mark)) for mark in ("used", "best_round_trip"))
        assert used.method != returned.method
        assert used.held_back is not None
        assert returned.held_back is not None
        assert used.held_back.rmse < returned.held_back.rmse


def test_the_two_inconsistent_pairs_of_the_seed_are_found(seed: CharacterizationReport):
    (packing,) = seed.packing
    assert len(packing.pairs) == 34
    assert {(one.job_a, one.job_b) for one in packing.pairs if one.against} == {
        ("Inceptionv3 20", "SmallBERT_L4-H512-A8 256"),
        ("Inceptionv3 20", "ResNet50 20"),
    }
    assert all(cluster is not None for one in packing.pairs for cluster in one.clusters)
    every = next(cost for cost in packing.costs if cost.grouping == "all")
    assert every.slowdown_median == pytest.approx(1.07, abs=0.01)
