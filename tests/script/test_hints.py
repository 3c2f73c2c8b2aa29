"""What is read from scripts as people write them. The scripts are parsed, never run."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.messages.submission import Hints
from gpuq.script.hints import hints, variables
from gpuq.script.source import LARGEST_BYTES

SCRIPTS = Path(__file__).parent / "scripts"
WORKLOADS = Path(__file__).parents[2] / "workloads"


def read(name: str, *words: str) -> dict[str, Any]:
    """The hints as the API would take them."""
    found = hints(SCRIPTS / name, words, SCRIPTS)
    assert found is not None
    msgspec.convert(found, Hints)
    return found


def setting(found: dict[str, Any], name: str) -> tuple[str, str] | None:
    one = found["settings"].get(name)
    return None if one is None else (one["value"], one["origin"])


def test_a_model_chosen_by_name_is_the_default_until_the_command_names_another():
    found = read("imagenet.py")
    assert (found["framework"], found["constructors"]) == ("pytorch", ["resnet18"])
    assert setting(found, "batch") == ("256", "default")
    assert setting(found, "image") == ("224", "script")
    assert setting(found, "optimizer") == ("sgd", "script")
    assert setting(found, "epochs") == ("90", "default")
    other = read("imagenet.py", "-a", "vgg16", "-b", "64")
    assert other["constructors"] == ["vgg16"]
    assert setting(other, "batch") is None, "the command gives it by a usual name"


def test_half_precision_counts_only_where_it_is_switched_on():
    assert setting(read("imagenet.py"), "precision") is None
    # The switch itself is a usual name.
    assert "precision" not in read("imagenet.py", "--amp")["settings"]
    assert setting(read("keras_apps.py"), "precision") == ("fp16", "script")
    assert setting(read("transformer.py"), "precision") == ("bf16", "script")


def test_layers_of_a_small_network_are_counted_as_written():
    found = read("mnist.py")
    assert found["layers"] == {"Conv2d": 2, "Linear": 2}
    assert setting(found, "batch") == ("64", "script")


def test_width_and_depth_of_a_loop_are_values_and_the_layer_in_it_counts_once():
    found = read("transformer.py", "--width", "32", "--depth", "3")
    assert (found["values"]["width"], found["values"]["depth"]) == (32.0, 3.0)
    assert found["layers"]["MultiheadAttention"] == 1


def test_option_with_an_odd_name_is_recognised_by_its_use():
    assert setting(read("transformer.py"), "batch") == ("8", "default")
    assert setting(read("transformer.py", "--n", "24"), "batch") == ("24", "argument")
    assert setting(read("transformer.py"), "sequence") == ("128", "default")


def test_lightning_around_a_ready_made_model():
    found = read("lit.py")
    assert found["framework"] == "lightning"
    assert found["constructors"] == ["efficientnet_b0", "Classifier"]
    assert setting(found, "precision") == ("16-mixed", "script")
    assert setting(found, "batch") == ("48", "script")
    assert "parameters" not in found, "those of the library's model are not in the script"


def test_fine_tuning_with_transformers():
    found = read("finetune.py")
    assert found["framework"] == "transformers"
    assert found["constructors"] == ["AutoModelForSequenceClassification.from_pretrained:bert-base-uncased"]
    expected = {"batch": "16", "sequence": "256", "precision": "fp16", "optimizer": "adamw_torch", "epochs": "3"}
    assert {name: one["value"] for name, one in found["settings"].items()} == expected


def test_jax_with_flags_of_absl():
    found = read("flax_mnist.py", "--learning_rate=0.1")
    assert (found["framework"], found["constructors"]) == ("jax", ["CNN"])
    assert found["layers"] == {"Conv": 2, "Dense": 1}
    assert setting(found, "batch") == ("128", "default")
    assert setting(found, "optimizer") == ("sgd", "script")


def test_keras_inside_tensorflow():
    found = read("keras_apps.py")
    assert (found["framework"], found["constructors"]) == ("keras", ["MobileNetV2"])
    assert setting(found, "image") == ("160", "script")
    assert setting(found, "batch") == ("32", "script")


def test_a_table_of_models_gives_the_one_that_the_command_names():
    assert read("keras_sequential.py")["layers"] == {"Embedding": 1, "LSTM": 1, "Dense": 1}
    conv = read("keras_sequential.py", "--kind-of-net", "conv")
    assert conv["constructors"] == ["conv"]
    assert "Conv1D" in conv["layers"]
    assert "LSTM" not in conv["layers"]


def test_a_network_in_a_file_beside_the_script():
    found = read("uses_parts.py", "--hidden", "50")
    assert found["constructors"] == ["SmallNet"]
    assert found["layers"] == {"Linear": 2}
    assert setting(found, "batch") == ("12", "default")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.yaml", "data:\n  batch_size: 96 # of one step\nval:\n  batch_size: 1\nmodel:\n  arch: 'resnet50'\n"),
        ("c.json", json.dumps({"val": {"batch_size": 1}, "data": {"batch_size": 96}, "arch": "resnet50"})),
        ("c.toml", 'arch = "resnet50"\n[data]\nbatch_size = 96\n'),
        ("c.ini", "[train]\nbatch_size = 96\narch = resnet50\n"),
    ],
)
def test_a_configuration_file_named_on_the_command_line(tmp_path: Path, name: str, text: str):
    (tmp_path / name).write_text(text)
    found = hints(SCRIPTS / "by_config.py", ["--config", name], tmp_path)
    assert found is not None
    assert setting(found, "batch") == ("96", "config file")
    assert setting(found, "model") == ("resnet50", "config file")
    alone = hints(None, [name], tmp_path)
    assert alone is not None, "also for a program that is no script"
    assert setting(alone, "batch") == ("96", "config file")


def test_the_command_goes_before_the_file_and_the_file_before_the_default(tmp_path: Path):
    (tmp_path / "c.yaml").write_text("n: 16\nwidth: 32\n")
    found = hints(SCRIPTS / "transformer.py", ["c.yaml"], tmp_path)
    assert found is not None
    assert setting(found, "batch") == ("16", "config file")
    found = hints(SCRIPTS / "transformer.py", ["c.yaml", "--n=4"], tmp_path)
    assert found is not None
    assert setting(found, "batch") == ("4", "argument")


@pytest.mark.parametrize(
    ("name", "constructor", "layers", "settings_"),
    [
        ("image_classification", "build", {"Conv2D", "MaxPooling2D"}, {"batch": "64", "image": "96", "epochs": "20"}),
        ("segmentation", "build_unet", {"Conv2D", "MaxPooling2D"}, {"batch": "8", "image": "128", "model": "unet"}),
        (
            "sentiment",
            "build",
            {"Embedding", "MultiHeadAttention"},
            {"batch": "32", "sequence": "128", "optimizer": "adam"},
        ),
    ],
)
def test_the_workloads_of_this_project(name: str, constructor: str, layers: set[str], settings_: dict[str, str]):
    found = hints(WORKLOADS / f"{name}.py", [], WORKLOADS.parent)
    assert found is not None
    assert (found["framework"], found["constructors"]) == ("keras", [constructor])
    assert layers <= set(found["layers"])
    assert settings_.items() <= {name: one["value"] for name, one in found["settings"].items()}.items()


def test_only_the_network_that_the_flag_chooses_is_named():
    found = hints(WORKLOADS / "segmentation.py", ["--model", "unet-mobilenet"], WORKLOADS.parent)
    assert found is not None
    assert found["constructors"] == ["build_unet_mobilenet", "MobileNetV2"]
    assert "parameters" not in found


CHOICE = """
import argparse
from torchvision import models
def small(): return models.resnet18()
def large(): return models.vit_b_16()
parser = argparse.ArgumentParser()
parser.add_argument("--net", default="small")
args = parser.parse_args()
if args.net == "small":
    model = small()
else:
    model = large()
"""


@pytest.mark.parametrize(("net", "chosen"), [("small", ["resnet18"]), ("large", ["vit_b_16"])])
def test_only_the_function_that_is_reached_is_read(tmp_path: Path, net: str, chosen: list[str]):
    (tmp_path / "train.py").write_text(CHOICE)
    found = hints(tmp_path / "train.py", ["--net", net], tmp_path)
    assert found is not None
    assert found["constructors"] == chosen


@pytest.mark.parametrize(("name", "model"), [("sentiment", "bert-l4-h256-a4"), ("segmentation", "unet-wide")])
def test_a_larger_size_of_the_same_workload_has_another_value(name: str, model: str):
    smaller, larger = (hints(WORKLOADS / f"{name}.py", words, WORKLOADS.parent) for words in ([], ["--model", model]))
    assert smaller is not None
    assert larger is not None
    assert larger["values"]["model"] == model
    assert smaller["values"]["model"] != model


# --- what is odd ----------------------------------------------------------------------------------------------------


ODD = {
    "syntax error": b"def train(:\n",
    "no text": bytes(range(256)),
    "deep": b"x = " + b"-" * 50_000 + b"1",
    "long chain": b"a" + b".b" * 5_000 + b"()",
    "nested calls": b"f(" * 90 + b")" * 90,
    "doubling": b"\n".join(
        [b"a0 = 1", *(f"a{i} = a{i - 1} + a{i - 1}".encode() for i in range(1, 60)), b"g(batch_size=a59)"]
    ),
    "a large number": b"f(batch_size=9**9**9, epochs=2**100000, n='x' * 10**12, m='%1000000000d' % 1)",
    "no word": b"import torch\nprecision = 'bf16; as it likes'",
    "a large network": b"from torch import nn\nclass N(nn.Module):\n"
    b"  def __init__(s):\n    for i in range(2): nn.Linear(10**6, 9 * 10**6)\nN()",
    "itself": b"a = b\nb = a\nimport torch.nn as nn\nclass N(nn.Module):\n  def __init__(s): s.n = N()\nN()\ng(batch_size=a)",
    "too large": b"import torch\n" + b"#" * LARGEST_BYTES,
}


@pytest.mark.parametrize("source", ODD.values(), ids=ODD)
def test_odd_scripts_give_valid_hints_or_none(tmp_path: Path, source: bytes):
    script = tmp_path / "t.py"
    script.write_bytes(source)
    found = hints(script, [], tmp_path)
    assert found is None or msgspec.convert(found, Hints)


def test_pipes_and_missing_files_give_no_hints(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.py")
    os.mkfifo(tmp_path / "pipe.json")
    assert hints(tmp_path / "pipe.py", ["pipe.json"], tmp_path) is None
    assert hints(tmp_path, [], tmp_path) is None
    assert hints(tmp_path / "missing.py", [], tmp_path) is None


def test_path_of_a_local_model_is_not_sent(tmp_path: Path):
    (tmp_path / "t.py").write_text(
        "from transformers import AutoModel\nAutoModel.from_pretrained('/secret/place/my-bert')\n"
    )
    found = hints(tmp_path / "t.py", [], tmp_path)
    assert found is not None
    assert found["constructors"] == ["AutoModel.from_pretrained:my-bert"]
    assert "secret" not in repr(found)


lines = st.sampled_from(
    [
        *(line for script in sorted(SCRIPTS.glob("*.py")) for line in script.read_text().splitlines()),
        *(
            "if a.b == 'c':",
            "else:",
            "    x = y[z](1, *w)",
            "for i in range(10**9):",
            "batch_size = -1",
            "[x for x in y]",
        ),
    ]
)
words = st.lists(
    st.sampled_from(["--n", "--n=3", "-b", "64", "x.yaml", "a=b", "--", "", "-", "--amp", "ü", "9" * 400]), max_size=5
)


@settings(max_examples=60, deadline=None)
@given(
    source=st.one_of(st.binary(max_size=200), st.lists(lines, max_size=30).map(lambda many: "\n".join(many).encode())),
    given_=words,
)
def test_hints_of_any_script_are_valid_and_deterministic(tmp_path_factory: Any, source: bytes, given_: list[str]):
    from gpuq.script import hints as module

    folder = tmp_path_factory.mktemp("odd")
    (folder / "t.py").write_bytes(source)

    def unguarded() -> Any:
        program = module._read(folder / "t.py", given_, folder, (), {}, ())
        return module._said_by(program, folder, {}, ())

    found = unguarded()
    assert found is None or msgspec.convert(found, Hints)
    assert found == unguarded(), "the same script says the same"


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.name)
def test_comments_and_white_space_do_not_change_hints(tmp_path: Path, script: Path):
    (tmp_path / "parts.py").write_bytes((SCRIPTS / "parts.py").read_bytes())
    other = tmp_path / script.name
    other.write_text("# a comment\n\n" + ast.unparse(ast.parse(script.read_text())).replace("\n", "\n\n"))
    assert hints(other, [], tmp_path) == hints(script, [], SCRIPTS)


def test_the_reader_is_standard_library_only():
    code = "import sys; before = set(sys.modules); import gpuq.script.hints; print(*{m.split('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) - set(sys.stdlib_module_names) <= {
        "gpuq",
        "sitecustomize",
        "site",
        "_virtualenv",
    } | {name for name in done.stdout.split() if name.startswith("_")}


def in_folder(folder: Path, script: str, files: dict[str, str], *words: str) -> dict[str, Any]:
    """The values that `train.py` runs with in a folder that has these files beside it."""
    for name, text in {"train.py": script, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    found = hints(folder / "train.py", words, folder)
    assert found is not None
    return dict(found["values"])


def test_modules_that_a_file_names_are_read_once_also_where_they_are_too_large(tmp_path: Path) -> None:
    files = {
        "c.yaml": "a:\n  _target_: nets.large.Net\nb:\n  _target_: nets.small.Net\nhidden: 64\n",
        "nets/small.py": "x = 1\n",
    }
    large = {"nets/large.py": "#" * (LARGEST_BYTES + 1)}
    assert in_folder(tmp_path, "import torch\n", {**files, **large}, "--config", "c.yaml")["hidden"] == 64


def test_a_folder_of_a_user_that_is_not_known_leaves_the_other_hints(tmp_path: Path) -> None:
    words = ("--model", "~unknown-user/net", "--hidden", "64")
    assert in_folder(tmp_path, "import torch\n", {}, *words)["hidden"] == 64


HYDRA = """
import hydra
@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg):
    build(cfg.model.hidden)
"""


def test_the_configuration_of_hydra_counts_with_the_groups_that_the_command_chooses(tmp_path: Path) -> None:
    files = {
        "conf/config.yaml": "defaults:\n  - model: small\n  - _self_\nbatch_size: 32\n",
        "conf/model/small.yaml": "hidden: 64\n",
        "conf/model/big.yaml": "hidden: 4096\n",
        "conf/experiment/long.yaml": "batch_size: 512\n",
    }
    plain = in_folder(tmp_path, HYDRA, files)
    assert (plain["hidden"], plain["batch-size"], plain["model"]) == (64, 32, "small")
    big = in_folder(tmp_path, HYDRA, files, "model=big")
    assert (big["hidden"], big["model"]) == (4096, "big")
    assert in_folder(tmp_path, HYDRA, files, "experiment=long")["batch-size"] == 512
    assert in_folder(tmp_path, HYDRA, files, "experiment=long", "batch_size=8")["batch-size"] == 8
    edited = {**files, "conf/config.yaml": files["conf/config.yaml"].replace("32", "256")}
    assert in_folder(tmp_path, HYDRA, edited)["batch-size"] == 256


def test_a_file_that_the_script_opens_counts_and_one_that_it_writes_does_not(tmp_path: Path) -> None:
    script = """
import json
params = json.load(open("params.json"))
json.dump({"hidden": 3}, open("train_result.json", "w"))
previous = json.load(open("train_result.json"))
"""
    files = {"params.json": '{"hidden": 512}', "train_result.json": '{"epochs": 7}'}
    values = in_folder(tmp_path, script, files)
    assert values["hidden"] == 512
    assert "epochs" not in values


def test_the_default_of_an_option_names_a_file_unless_the_command_names_another(tmp_path: Path) -> None:
    script = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("-c", "--config", default="configs/base.yaml")
"""
    files = {"configs/base.yaml": "hidden: 64\n", "configs/big.yaml": "hidden: 4096\nbatch_size: 2\n"}
    assert in_folder(tmp_path, script, files)["hidden"] == 64
    assert in_folder(tmp_path, script, files, "--config", "configs/big.yaml")["hidden"] == 4096
    assert in_folder(tmp_path, script, files, "-c", "configs/big.yaml")["hidden"] == 4096


def test_the_variables_that_a_script_reads(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os\nfrom os import environ, getenv\n"
        "a = os.environ['BATCH_SIZE']\nb = environ.get('MODEL', 'x')\nc = getenv('SEED')\nos.environ[a] = b\nd = {}['NONE']\n"
    )
    assert variables(script, tmp_path) == {"BATCH_SIZE", "MODEL", "SEED"}
    assert variables(tmp_path / "missing.py", tmp_path) == frozenset()


def test_the_words_of_a_shell_script_are_settings_by_the_options_that_they_become(tmp_path: Path):
    (tmp_path / "run.sh").write_text(
        '#!/bin/bash\nSEED=${2:-1}\nCUDA_VISIBLE_DEVICES=$1 python train.py --seed $SEED --hidden "$3" --lr=$4\n'
    )

    def values(*words: str) -> dict[str, Any]:
        found = hints(tmp_path / "run.sh", words, tmp_path)
        assert found is not None
        return dict(found["values"])

    assert values("0", "11", "64", "0.1") == values("1", "22", "64", "0.2"), (
        "neither device nor seed nor step size matters"
    )
    assert values("0", "11", "64", "0.1")["hidden"] == 64.0
    assert values("0", "--fast", "64")["fast"] == 64.0, "which word is which is not known"


def test_an_input_counts_by_its_name_where_it_exists_and_is_no_result(tmp_path: Path):
    for name in (
        "short.fasta",
        "long.fasta",
        "part_1.pdb",
        "part_2.pdb",
        "data/lego/x",
        "data/garden/x",
        "results/a/x",
        "results/b/x",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "t.py").write_text("import torch\n")

    def differ(one: str, other: str, script: Path | None = tmp_path / "t.py") -> bool:
        return hints(script, one.split(), tmp_path) != hints(script, other.split(), tmp_path)

    assert differ("short.fasta", "long.fasta")
    assert differ("-in short.fasta", "-in long.fasta", None), "also for a module that is installed"
    assert differ("-s data/lego", "-s data/garden")
    assert not differ("--pdb part_1.pdb", "--pdb part_2.pdb"), "parts of one set of data"
    assert not differ("results/a", "results/b")
    assert not differ("--save_path data/lego", "--save_path data/garden")
    assert not differ("--mesh coarse.msh", "--mesh fine.msh"), "it does not exist, so it may be what is made"


def test_an_option_of_a_launcher_is_none_of_the_script_that_has_one_of_the_same_name(tmp_path: Path):
    (tmp_path / "base.yaml").write_text("width: 64\n")
    script = tmp_path / "t.py"
    script.write_text(
        "import argparse, yaml\np = argparse.ArgumentParser()\np.add_argument('--config_file', default='base.yaml')\n"
        "args = p.parse_args()\nconfig = yaml.safe_load(open(args.config_file))\n"
    )
    found = hints(script, [], tmp_path, around=["--config-file=accelerate.yaml", "--use-fsdp=true"])
    assert found is not None
    assert found["values"]["width"] == 64.0, "the script reads its own default"
    assert found["values"]["use-fsdp"] == "true"


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ("import keras\nm.fit(x, y, 48, 6)\n", {"batch": "48", "epochs": "6"}),
        (
            "import os, torch\nn = int(os.environ.get('N', '14'))\nl = torch.utils.data.DataLoader(d, n)\n",
            {"batch": "14"},
        ),
        ("import torch\nfor epoch in range(12): pass\n", {"epochs": "12"}),
    ],
)
def test_sizes_are_read_where_scripts_have_them(tmp_path: Path, source: str, read: dict[str, str]):
    (tmp_path / "train.py").write_text(source)
    found = hints(tmp_path / "train.py", (), tmp_path)
    assert found is not None
    assert {name: setting["value"] for name, setting in found["settings"].items()} == read


def test_a_variable_goes_before_the_default_that_the_script_reads_it_with(tmp_path: Path):
    (tmp_path / "train.py").write_text("import os, torch\nl = DataLoader(d, batch_size=int(os.environ.get('N', 14)))\n")
    found = hints(tmp_path / "train.py", (), tmp_path, env={"N": "64"})
    assert found is not None
    assert found["settings"]["batch"] == {"value": "64", "origin": "argument"}
