"""Configuration files: what is read of them, and that an edit of what is not read does not go unnoticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuq.learn.features.setting_effects import changes, is_choice
from gpuq.learn.history.job_features import JobFeatures
from gpuq.script.configs import MOST_FILES, named_files, read, with_named
from gpuq.script.hints import hints


def values(folder: Path, files: dict[str, str], *words: str) -> dict[str, Any]:
    """The settings of a script with these files."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "t.py").write_text("import torch\n")
    return hints(folder / "t.py", words, folder) or {}


def edited(folder: Path, before: str, after: str, name: str, words: str) -> list[str]:
    """The names of the settings that an edit of this file changes; choices with a star."""
    seen, asked = (
        JobFeatures.of(values(folder / side, {name: text}, *words.split()))
        for side, text in (("a", before), ("b", after))
    )
    return [change.name + "*" * is_choice(change) for change in changes(asked, seen)]


NANO = "n_layer = {}\nlearning_rate = {}\nout_dir = 'a'\n"
YOLO = "backbone:\n  # from, number, module, args\n  [[-1, 1, Conv, [{}, 6]],\n   [-1, 3, C3, [64]]]\n"
DARKNET = "[net]\nbatch={}\nlearning_rate={}\n[convolutional]\nfilters=32\n[convolutional]\nfilters={}\n"
LAYERS = "lr: {}\nlayers:\n- kind: conv\n  filters: 8\n- kind: conv\n  filters: {}\n"

FLAX = (
    "import ml_collections\ndef get_config():\n  '''The defaults.'''\n  config = ml_collections.ConfigDict()\n"
    "  config.learning_rate = {}\n  config.model = ml_collections.ConfigDict(dict(width={}))\n  return config\n"
)
MANY = "".join(f"n{n}: 1\n" for n in range(70)) + "last: {}\n"


@pytest.mark.parametrize(
    ("name", "words", "template", "before", "after", "changed"),
    [
        ("c.py", "config/c.py", NANO, (6, 0.1), (48, 0.1), ["n-layer"]),
        ("c.py", "config/c.py", NANO, (6, 0.1), (6, 0.2), []),
        ("c.py", "-f config/c.py", "class Exp:\n    depth = {}\n", (0.33,), (1.33,), ["configuration*"]),
        ("c.py", "--config=config/c.py", FLAX, (0.1, 64), (0.1, 4096), ["width"]),
        ("c.py", "--config=config/c.py", FLAX, (0.1, 64), (0.2, 64), []),
        ("c.py", "config/c.py", "o = dict(lr=0.1, steps=[{}, 80])\n", (60,), (70,), ["steps"]),
        ("c.gin", "--gin_file config/c.gin", "Net.hidden = {}\ntrain.lr = {}\n", (64, 1), (4096, 2), ["hidden"]),
        ("c.jsonnet", "config/c.jsonnet", "{{ hidden: {} }}", (64,), (4096,), ["configuration*"]),
        ("c.prototxt", "--net config/c.prototxt", "layer {{ n: {} }}", (64,), (4096,), ["configuration*"]),
        ("c.json", "config/c.json", '{{ // wide\n"hidden": {} }}', (64,), (4096,), ["configuration*"]),
        ("c.txt", "@config/c.txt", "--hidden {}\n--lr {}\n", (64, 1), (4096, 2), ["hidden"]),
        ("flags", "--flagfile config/flags", "--hidden={}", (64,), (4096,), ["configuration*"]),
        ("c.yaml", "config/c.yaml", LAYERS, (0.1, 16), (0.2, 4096), ["layers.1.filters"]),
        ("c.yaml", "config/c.yaml", YOLO, (64,), (512,), ["configuration*"]),
        ("c.yaml", "config/c.yaml", '"hidden": {}\n', (64,), (4096,), ["hidden"]),
        ("c.yaml", "config/c.yaml", "sizes:\n  0: {}\n", (64,), (4096,), ["0"]),
        ("c.yaml", "config/c.yaml", "net/hidden: {}\n", (64,), (4096,), ["net-hidden"]),
        ("c.yaml", "config/c.yaml", "hidden:\n  {}\n", (64,), (4096,), ["configuration*"]),
        ("c.yaml", "config/c.yaml", "net: {{hidden: {}}}\n", (64,), (4096,), ["hidden"]),
        ("c.yaml", "config/c.yaml", "o: {{lr: {}, betas: [0.9, {}]}}\n", (0.1, 0.99), (0.2, 0.95), []),
        ("c.yaml", "config/c.yaml", "net: {{hidden: *size, lr: {}}}\n", (0.1,), (0.2,), ["configuration*"]),
        ("c.py", "config/c.py", "net = dict(hidden={}, o=[dict(lr=0.1)])\n", (64,), (4096,), ["hidden"]),
        ("c.py", "config/c.py", "net = dict(hidden=4, o=[dict(lr={})])\n", (0.1,), (0.2,), []),
        ("c.cfg", "--cfg config/c.cfg", DARKNET, (64, 0.1, 64), (64, 0.2, 4096), ["convolutional.1.filters"]),
        ("c.yaml", "config/c.yaml", "#" * 70_000 + "\nhidden: {}\n", (64,), (4096,), ["configuration*"]),
        ("c.yaml", "config/c.yaml", MANY, (64,), (4096,), ["configuration*"]),
        ("c.yaml", "--config config/c", "hidden: {}\n", (64,), (4096,), ["hidden"]),
        ("c.yaml", "--config c", "hidden: {}\n", (64,), (4096,), ["hidden"]),
    ],
)  # fmt: skip
def test_an_edit_of_a_configuration_file_is_noticed(  # noqa: PLR0917
    tmp_path: Path, name: str, words: str, template: str, before: Any, after: Any, changed: list[str]
):
    assert edited(tmp_path, template.format(*before), template.format(*after), f"config/{name}", words) == changed
    assert edited(tmp_path, template.format(*before), template.format(*before), f"config/{name}", words) == []


def test_a_file_counts_with_those_that_it_is_based_on(tmp_path: Path):
    files = {"c/base.py": "hidden = 64\nwidth = 8\n", "c/c.py": "_base_ = ['base.py']\nwidth = 16\n"}
    found = values(tmp_path, files, "c/c.py")["values"]
    assert (found["hidden"], found["width"]) == (64, 16)
    (tmp_path / "loop.yaml").write_text("_base_: loop.yaml\n")
    assert with_named([tmp_path / "loop.yaml"], tmp_path) == [tmp_path / "loop.yaml"]
    assert len(with_named((tmp_path / f"{n}.yaml" for n in range(99)), tmp_path)) == MOST_FILES


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ("model_config: net.yaml\n", "c/net.yaml"),
        ("include: net.yaml\n", "c/net.yaml"),
        ("train:\n  deepspeed: ds/z3.json\n", "ds/z3.json"),
        ("parts:\n  - net.yaml\n", "c/net.yaml"),
    ],
)
def test_a_file_counts_with_those_that_it_names_wherever_they_are(tmp_path: Path, config: str, named: str):
    found = []
    for hidden, seed in ((64, 1), (64, 2), (4096, 1)):
        files = {"c/c.yaml": f"lr: 0.1\n{config}", named: f'{{"hidden": {hidden}, "seed": {seed}}}'}
        files[named] = files[named] if named.endswith(".json") else f"hidden: {hidden}\nseed: {seed}\n"
        found.append(values(tmp_path, files, "c/c.yaml")["values"])
    assert found[0] == found[1]
    assert (found[0]["hidden"], found[2]["hidden"]) == (64, 4096)


def test_a_file_of_python_counts_with_what_it_imports(tmp_path: Path):
    def of(width: int, rate: float) -> JobFeatures:
        base = f"def get_config():\n  config = ConfigDict()\n  config.width = {width}\n  config.lr = {rate}\n  return config\n"
        files = {"configs/base.py": base, "configs/c.py": "from configs import base\nconfig = base.get_config()\n"}
        return JobFeatures.of(values(tmp_path / f"{width}-{rate}", files, "--config=configs/c.py"))

    assert changes(of(512, 0.1), of(64, 0.1))
    assert changes(of(64, 0.2), of(64, 0.1)) == []


def test_results_that_a_file_names_and_large_data_do_not_count(tmp_path: Path):
    config = "metrics: m.json\noutput_file: o.json\nbest: out/b.json\ndata: d.json\n"
    before = values(
        tmp_path, {"c.yaml": config, **dict.fromkeys(("m.json", "o.json", "out/b.json"), '{"hidden": 1}')}, "c.yaml"
    )
    files = {
        **dict.fromkeys(("m.json", "o.json", "out/b.json"), '{"hidden": 2}'),
        "d.json": f'{{"rows": "{"x" * 70_000}"}}',
    }
    assert values(tmp_path, files, "c.yaml") == before


def test_of_a_python_file_with_an_argument_both_count(tmp_path: Path):
    """As `ml_collections` takes it."""
    words = "--config=c.py:large --config.model.width=64"
    large = values(tmp_path, {"c.py": "width = 64\n"}, *words.split())["values"]
    assert large != values(tmp_path, {}, *words.replace("large", "small").split())["values"]
    assert large != values(tmp_path, {"c.py": "width = 64\ndepth = 9\n"}, *words.split())["values"]


def test_hydra_takes_its_configuration_from_the_folder_that_the_command_names(tmp_path: Path):
    script = "import hydra\n@hydra.main(config_path='conf', config_name='config')\ndef main(c): pass\n"
    for folder, hidden in (("conf", 64), ("other", 4096)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.yaml").write_text(f"hidden: {hidden}\n")
    (tmp_path / "t.py").write_text(script)
    found = [hints(tmp_path / "t.py", words, tmp_path) or {} for words in ((), ("--config-path", "other"))]
    assert [one["values"]["hidden"] for one in found] == [64, 4096]


def test_results_are_no_configuration(tmp_path: Path):
    for name in ("results.json", "log.txt"):
        (tmp_path / name).write_text("{}")
    assert named_files(("--output", "results.json", "--log-file", "log.txt", "--lr", "0.1"), tmp_path) == {}
    assert read(tmp_path / "missing.yaml").rest == ""
