"""Configuration files that a script reads by itself: an edit of them is another setting, or another program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuq.script.hints import _surveys, hints


def values(folder: Path, files: Mapping[str, str], words: list[str], env: Mapping[str, str]) -> dict[str, Any]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    _surveys.cache_clear()
    found = hints(folder / "t.py", words, folder, env=env)
    assert found is not None
    return dict(found["values"])


HERE = "import json, os, sys, yaml\nfrom pathlib import Path\n"
HYDRA = '@hydra.main(config_path="conf", config_name="config", version_base=None)\ndef main(cfg): pass\n'


@pytest.mark.parametrize(
    ("source", "file", "words"),
    [
        ('c = yaml.safe_load(open(os.path.join("configs", "base.yaml")))', "configs/base.yaml", ""),
        (
            'C = Path(__file__).parent / "configs" / "base.yaml"\nc = yaml.safe_load(C.read_text())',
            "configs/base.yaml",
            "",
        ),
        ('with (Path("cfg") / "m.yaml").open("r") as f: pass', "cfg/m.yaml", ""),
        ('c = OmegaConf.merge(OmegaConf.load("base.yaml"), OmegaConf.from_cli())', "base.yaml", ""),
        ('CONFIG = "hp.yaml"\nc = yaml.safe_load(open(CONFIG))', "hp.yaml", ""),
        (
            'here = os.path.dirname(os.path.abspath(__file__))\nload(os.path.join(here, "cfg", "m.yaml"))',
            "cfg/m.yaml",
            "",
        ),
        ('c = yaml.safe_load(open(f"configs/{sys.argv[1]}.yaml"))', "configs/a.yaml", "a"),
        ('c = yaml.safe_load(open("configs/" + sys.argv[1]))', "configs/a.yaml", "a.yaml"),
        ('p.add_argument("--exp")\nc = load(open(f"configs/{a.exp}.yaml"))', "configs/a.yaml", "--exp a"),
        ('c = yaml.safe_load(open(os.environ["CONFIG"]))', "a.yaml", ""),
        ('c = yaml.safe_load(open(os.environ.get("SETTINGS", "a.yaml")))', "a.yaml", ""),
    ],
)
def test_a_file_is_found_by_the_path_that_the_script_makes(tmp_path: Path, source: str, file: str, words: str):
    files, env = {"t.py": HERE + source, file: "width: 64\n"}, {"CONFIG": "a.yaml"}
    assert values(tmp_path, files, words.split(), env)["width"] == 64.0
    assert values(tmp_path, {file: "width: 4096\n"}, words.split(), env)["width"] == 4096.0


@pytest.mark.parametrize(
    "source",
    [
        "def load(name):\n    return yaml.safe_load(open(f'configs/{name}.yaml'))",
        "for name in names():\n    yaml.safe_load(open('configs/%s.yaml' % name))",
        "c = yaml.safe_load(open('configs/{}.yaml'.format(pick())))",
    ],
)
def test_where_the_name_is_not_known_all_files_of_the_folder_count(tmp_path: Path, source: str):
    before = values(tmp_path, {"t.py": HERE + source, "configs/a.yaml": "width: 64\nlr: 0.1\n"}, [], {})
    no_matter = {"configs/a.yaml": "width: 64\nlr: 0.3  # more\n", "configs/b.yaml": "lr: 0.2\nseed: 3\nwidth: 64\n"}
    assert before == values(tmp_path, no_matter, [], {}), "step sizes, comments, and another file that says the same"
    assert before != values(tmp_path, {"configs/b.yaml": "width: 4096\n"}, [], {})


@pytest.mark.parametrize(
    "writes",
    [
        "json.dump(state, open('train/state.json', 'w'))",
        "Path('train/state.json').write_text(json.dumps(state))",
        "state.to_json('train/state.json')",
    ],
)
def test_a_file_that_the_script_writes_is_no_configuration(tmp_path: Path, writes: str):
    source = f'state = json.load(open(os.path.join("train", "state.json")))\n{writes}\n'
    before = values(tmp_path, {"t.py": HERE + source, "train/state.json": '{"width": 1}'}, [], {})
    assert before == values(tmp_path, {"train/state.json": '{"width": 2}'}, [], {})


@pytest.mark.parametrize(
    "use", ["os.path.exists('c.yaml')", "shutil.copy('c.yaml', out)", "wandb.save('c.yaml')", "print('c.yaml')"]
)
def test_a_configuration_that_is_copied_or_looked_for_counts(tmp_path: Path, use: str):
    source = f"c = yaml.safe_load(open('c.yaml'))\n{use}\n"
    before = values(tmp_path, {"t.py": HERE + source, "c.yaml": "width: 64"}, [], {})
    assert before != values(tmp_path, {"c.yaml": "width: 4096"}, [], {})


@pytest.mark.parametrize(
    "source",
    [
        "c = json.load(open(os.path.join('out', 'trainer_state.json')))",
        "def load(model):\n    return json.load(open(f'tables/{model}.json'))",
    ],
)
def test_what_runs_leave_behind_is_no_configuration(tmp_path: Path, source: str):
    """It is another one after each run, so that no two of them would be the same work."""
    names = ("out/trainer_state.json", "tables/a.json")
    before = values(tmp_path, {"t.py": HERE + source, **dict.fromkeys(names, '{"hidden": 1}')}, [], {})
    assert before == values(tmp_path, dict.fromkeys(names, '{"hidden": 2}'), [], {})


def test_a_file_of_variables_is_read_where_the_script_loads_it(tmp_path: Path):
    files = {"t.py": "from dotenv import load_dotenv\nload_dotenv()\n", ".env": "WIDTH=64\n"}
    assert values(tmp_path, files, [], {})["width"] == 64.0


GROUPS = {
    "t.py": f"import hydra\n{HYDRA}",
    "conf/config.yaml": "defaults:\n  - base\n  - model: ${oc.env:MODEL,small}\n  - /net/head@out: plain\n  - _self_\n",
    "conf/base.yaml": "epochs: 3\n",
    "conf/model/small.yaml": "defaults:\n  - encoder: tiny\nwidth: 64\n",
    "conf/model/big.yaml": "width: 2048\n",
    "conf/model/encoder/tiny.yaml": "depth: 2\n",
    "conf/net/head/plain.yaml": "heads: 4\n",
    "conf/experiment/e1.yaml": "defaults:\n  - override /model: big\n",
}


def test_hydras_defaults_are_followed_as_far_as_they_go(tmp_path: Path):
    found = values(tmp_path, GROUPS, [], {})
    assert (found["epochs"], found["width"], found["depth"], found["heads"]) == (3.0, 64.0, 2.0, 4.0)


@pytest.mark.parametrize(
    ("words", "env"),
    [(["model=big"], {}), (["+experiment=e1"], {}), ([], {"MODEL": "big"})],
    ids=["word", "file", "env"],
)
def test_another_file_of_a_group_is_chosen_by_a_word_a_file_or_a_variable(
    tmp_path: Path, words: list[str], env: dict[str, str]
):
    found = values(tmp_path, GROUPS, words, env)
    assert found["width"] == 2048.0
    assert "depth" not in found, "the encoder is one of the small model"


def test_a_configuration_that_is_composed_in_the_script(tmp_path: Path):
    source = 'from hydra import compose, initialize\nwith initialize(config_path="conf"):\n  c = compose(config_name="config")\n'
    assert values(tmp_path, {**GROUPS, "t.py": source}, [], {})["depth"] == 2.0


def test_all_groups_of_a_large_configuration_are_read(tmp_path: Path):
    groups = [f"g{number}" for number in range(20)]
    files = {"t.py": HYDRA, "conf/config.yaml": "defaults:\n" + "".join(f"  - {group}: a\n" for group in groups)}
    files |= {f"conf/{group}/a.yaml": f"{group}-width: 64\n" for group in groups}
    assert values(tmp_path, files, [], {})["g19-width"] == 64.0
