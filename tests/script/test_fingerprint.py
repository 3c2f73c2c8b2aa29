"""Which edits of a program may change what it needs: only those that cannot leave its digest as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuq.script.declared import Declared
from gpuq.script.fingerprint import fingerprint
from gpuq.script.hints import _surveys, hints
from gpuq.script.source import LARGEST_BYTES, sources
from gpuq.script.survey import survey

TORCH = "import torch\nfrom torch import nn\n"


def code(folder: Path, files: dict[str, str], *programs: str) -> str | None:
    """The digest of the first file, or of those named, with all that they use."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    _surveys.cache_clear()
    found = hints(None, [], folder, [folder / name for name in programs or [next(iter(files))]])
    return None if found is None else found["values"].get("program-code")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("t = SFTTrainer(model='q/0.5B')", "t = SFTTrainer(model='q/7B')"),
        ("m = UNet(channels=(16, 32))", "m = UNet(channels=(256, 512))"),
        ("m = MLP(64)", "m = MLP(8192)"),
        ("args(run_name='yolox-s')", "args(run_name='yolox-x')"),
        ("x = torch.randn(1024, 10)", "x = torch.randn(102400, 10)"),
        ("N = 1000", "N = 60000"),
        ("m = Block(inp=3, out=64, exp=4)", "m = Block(inp=3, out=1024, exp=4)"),
        ("m = get_peft_model(m, LoraConfig(r=8))", ""),
        ("for p in m.parameters(): p.requires_grad = False", "pass"),
        ("with torch.no_grad():\n  y = m(x)", "if True:\n  y = m(x)"),
        ("m.gradient_checkpointing_enable()", ""),
        ("t = L.Trainer(strategy='fsdp')", "t = L.Trainer(strategy='ddp')"),
        ("losses.append(loss.item())", "losses.append(loss)"),
        ("o = SGD(p, momentum=0)", "o = SGD(p, momentum=0.9)"),
        ("a = DataLoader(t, 8)\nb = DataLoader(v, 64)", "a = DataLoader(t, 64)\nb = DataLoader(v, 64)"),
        ("from models.small import Net", "from models.large import Net"),
        ("print(fit(64))", "print(fit(8192))"),
        ("assert fit(64)", "assert fit(8192)"),
        ("for i in range(3):\n  f()", "for i in range(30):\n  f()"),
        ("class N:\n def f(s):\n  for step in range(3): g()", "class N:\n def f(s):\n  for step in range(30): g()"),
        ("logging.info('loss %s', fit(64))", "logging.info('loss %s', fit(8192))"),
        ("self.log('loss', self.net(randn(64, 8)))", "self.log('loss', self.net(randn(6400, 8)))"),
        ("wandb.agent(wandb.sweep({'cells': [1]}), fit)", "wandb.agent(wandb.sweep({'cells': [64]}), fit)"),
        ("if a:\n  wandb.init(config={'cells': [1]})", "if a:\n  wandb.init(config={'cells': [64]})"),
        ("if f(64): print(1)", "if f(8192): print(1)"),
        ("if n > 1: print(n)\nelse: fit(64)", "if n > 1: print(n)\nelse: fit(8192)"),
        ("wandb.init(config={'cells': [1]})", "wandb.init(config={'cells': [64]})"),
        ("a(hidden=8)\nb(hidden=16)", "a(hidden=8)\nb(hidden=1600)"),
    ],
)
def test_an_edit_that_may_change_what_is_needed_makes_another_program(tmp_path: Path, before: str, after: str):
    assert code(tmp_path, {"t.py": TORCH + before}) != code(tmp_path, {"t.py": TORCH + after})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = f(1, 2)", "x = f(\n    1,\n    2,\n)  # two"),
        ("def f():\n  return 1", "def f():\n  '''One.'''\n  return 1"),
        ("x = 1", "x = 1\nprint(f'x is {x}')\nlogger.info('%s', x)\nwandb.log({'x': x})"),
        ("print(f'{loss.item():.3f}')", "print(f'loss {loss.item():.4f}', len(x), time.time() - t, max(a, b))"),
        ("wandb.init(project='a')", "wandb.init(project='b')"),
        ("wandb.init(project='a', config=vars(args))", "wandb.init(project='b', config=vars(args))"),
        ("for seed in (1, 2):\n  f(seed)", "for seed in (3, 4):\n  f(seed)"),
        ("for epoch in range(3):\n  f()", "for epoch in range(30):\n  f()"),
        (
            "s = CosineAnnealingLR(o, T_max=10)\nclip_grad_norm_(p, 1.0)",
            "s = CosineAnnealingLR(o, T_max=99)\nclip_grad_norm_(p, 5.0)",
        ),
        ("torch.save(m.state_dict(), 'a.pt')\nplt.title('a')", "torch.save(m.state_dict(), 'b.pt')\nplt.title('b')"),
        ("x = 1", "import time\nstart = time.time()\nassert len(y) > 0\nx = 1"),
        ("if i % 100 == 0:\n  print(x)\n  torch.save(m, 'a')", "if i % 10 == 0 and i > 0:\n  print(i)"),
        ("x = 1", "import os, time\nfrom pathlib import Path\nx = 1"),
        ("import numpy\nimport json", "import json\nimport numpy"),
        ("o = Adam(p, lr=1e-3, betas=(0.9, 0.99))", "o = Adam(p, lr=3e-4, betas=(0.9, 0.95))"),
        ("d = nn.Dropout(0.1)\ntorch.manual_seed(0)", "d = nn.Dropout(0.5)\ntorch.manual_seed(7)"),
        ("SEED = 1\nlog_every = 10", "SEED = 2\nlog_every = 100"),
        ("args(output_dir='out/a', save_steps=10)", "args(output_dir='out/b', save_steps=500)"),
        ("RUN_NAME = 'a'\nargs(run_name='x')", "RUN_NAME = 'b'\nargs(run_name='y')"),
        # These are compared as settings.
        ("p.add_argument('--hidden', type=int, default=64)", "p.add_argument('--hidden', type=int, default=128)"),
        ("epochs = 3\nbatch_size = 8", "epochs = 30\nbatch_size = 16"),
        (
            "@dataclass\nclass C:\n  hidden: int = field(default=8)",
            "@dataclass\nclass C:\n  hidden: int = field(default=9)",
        ),
        (
            "d = int(os.environ.get('DEPTH', 4))\no = SGD(p, 0.1)",
            "d = int(os.environ.get('DEPTH', 8))\no = SGD(p, 0.2)",
        ),
    ],
)
def test_an_edit_that_changes_nothing_or_is_compared_by_its_number_leaves_the_program(
    tmp_path: Path, before: str, after: str
):
    assert code(tmp_path, {"t.py": TORCH + before}) == code(tmp_path, {"t.py": TORCH + after})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("run_name = 'a'\nnet = NETS[run_name]", "run_name = 'b'\nnet = NETS[run_name]"),
        ("run = 'a'\nwidth = 64 if run == 'a' else 1024", "run = 'b'\nwidth = 64 if run == 'a' else 1024"),
        ("CLIP = 16\nx = load(CLIP)", "CLIP = 64\nx = load(CLIP)"),
        ("p.add_argument('--l1', type=int, default=4)", "p.add_argument('--l1', type=int, default=6)"),
        ("idx = 0\nwidth = WIDTHS[idx]", "idx = 5\nwidth = WIDTHS[idx]"),
        ("seed = 1\nwidth = rng(seed).choice([64, 1024])", "seed = 2\nwidth = rng(seed).choice([64, 1024])"),
    ],
)
def test_an_edit_of_what_decides_the_network_counts_whatever_it_is_called(tmp_path: Path, before: str, after: str):
    assert code(tmp_path, {"t.py": TORCH + before}) != code(tmp_path, {"t.py": TORCH + after})


def test_a_constant_of_a_module_far_away_counts(tmp_path: Path):
    files = {
        "t.py": "from nets.model import Net\n",
        "nets/__init__.py": "",
        "nets/model.py": "from nets.parts import attention\n",
        "nets/parts.py": "from nets.sizes import DIMS\nattention = DIMS\n",
        "nets/sizes.py": "DIMS = (64, 64)\n",
    }
    before = code(tmp_path, files)
    assert before != code(tmp_path, {**files, "nets/sizes.py": "DIMS = (640, 64)\n"})


NET = "from torch import nn\nnet = nn.Linear({}, 8)\n"


@pytest.mark.parametrize(
    ("module", "files"),
    [
        ("nets/resnet.py", {"a.py": "import hydra\n@hydra.main(config_path='.', config_name='c')\ndef f(c): pass\n",
                            "c.yaml": "model:\n  _target_: nets.resnet.ResNet\n"}),
        ("nets.py", {"a.py": "c = yaml.safe_load(open('config.yaml'))\n", "config.yaml": "model:\n  class_path: nets.Net\n"}),
        ("models/b.py", {"a.py": "import importlib\nm = importlib.import_module(f'models.{name}')\n"}),
        ("models/b.py", {"a.py": "import importlib\nm = importlib.import_module('models.b')\n"}),
        ("b.py", {"a.py": "import runpy\nrunpy.run_path('b.py')\n"}),
        ("b.py", {"a.py": "import os\nos.system('python b.py --hidden 8')\n"}),
        ("b.py", {"a.py": "subprocess.run([sys.executable, 'b.py'])\n"}),
        ("b.py", {"a.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": ["%run b.py\n"]}]})}),
        ("b.py", {"a.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": ["!python -m b"]}]})}),
        ("lib/b.py", {"a.py": "import sys\nsys.path.insert(0, 'lib')\nimport b\n"}),
        ("lib/b.py", {"x/a.py": "sys.path.append(os.path.join(os.path.dirname(__file__), '..', 'lib'))\nimport b\n"}),
        ("lib/b.py", {"x/a.py": "ROOT = Path(__file__).parents[1]\nsys.path.insert(0, str(ROOT / 'lib'))\nimport b\n"}),
    ],
)  # fmt: skip
def test_a_file_that_is_used_by_its_name_counts(tmp_path: Path, module: str, files: dict[str, str]):
    """As a module that is imported is."""
    before = code(tmp_path, {**files, module: NET.format(8)})
    assert code(tmp_path, {**files, module: NET.format(8) + "# the same\n"}) == before
    assert code(tmp_path, {**files, module: NET.format(8192)}) != before


def test_kernels_that_are_compiled_count(tmp_path: Path):
    files = {"a.py": "from torch.utils.cpp_extension import load\nload(name='k', sources=['k.cu'])\n"}
    assert code(tmp_path, {**files, "k.cu": "int n = 8;"}) != code(tmp_path, {**files, "k.cu": "int n = 8000;"})


def test_a_configuration_that_a_shell_script_copies_counts(tmp_path: Path):
    files = {"run.sh": "cp small.yaml c.yaml\npython t.py\n", "t.py": TORCH}
    assert code(tmp_path, {**files, "small.yaml": "width: 8"}) != code(tmp_path, {**files, "small.yaml": "width: 80"})


def test_of_two_files_with_a_number_of_the_same_name_both_count_unless_they_are_equal(tmp_path: Path):
    def of(script: int, module: int) -> str | None:
        files = {"t.py": f"from m import net\nhidden = {script}\n", "m.py": f"hidden = {module}\nnet = Net(hidden)\n"}
        return code(tmp_path, files)

    assert of(64, 128) != of(64, 12800), "only the first is compared as a setting"
    assert of(64, 64) != of(64, 6400)
    assert of(64, 64) == of(128, 128)


RUN = (
    "#!/bin/bash\nset -e\nexport WANDB_NAME=a\nMODEL=gpt2\nLR=${LR:-0.1}\nBS=${BS:-8}\nfor seed in 1 2 3; do\n"
    "  python t.py --model $MODEL --bs 8 \\\n    --out runs/a --lr 1e-3 --config c.yaml > a.log\ndone\n"
)


@pytest.mark.parametrize(
    ("name", "old", "new", "counts"),
    [
        ("run.sh", "gpt2", "gpt2-xl", True),
        ("run.sh", "--bs 8", "--bs 64", True),
        ("run.sh", "1 2 3", "1", True),
        ("run.sh", "1 2 3", "4 5 6", False),
        ("run.sh", "--lr 1e-3", "--lr 3e-4", False),
        ("run.sh", "LR=${LR:-0.1}", "LR=${LR:-0.2}", False),
        ("run.sh", "BS=${BS:-8}", "BS=${BS:-512}", True),
        ("run.sh", "set -e", "# It stops at the first error.\nset -e\nmkdir -p out && echo begins", False),
        ("run.sh", "> a.log", "2>&1 | tee b.log", False),
        ("run.sh", "set -e", "set -e\necho begins | tee begin.log", False),
        ("run.sh", "set -e", "set -e\necho 64 | python u.py", True),
        ("run.sh", "set -e", "set -e\nprintf 'width: 64' > d.yaml", True),
        ("run.sh", "set -e", "set -e\necho width: 64 | tee d.yaml", True),
        ("run.sh", "WANDB_NAME=a", "WANDB_NAME=b", False),
        ("run.sh", "--out runs/a", "--out runs/b", False),
        ("c.yaml", "width: 64", "width: 4096", True),
        ("c.yaml", "lr: 0.1", "lr: 0.2", False),
        ("t.py", "hidden = 8", "hidden = 16", True),
        ("t.py", "lr = 1", "lr = 2  # faster", False),
    ],
)
def test_of_a_shell_script_the_words_of_its_commands_count_and_the_files_that_they_name(
    tmp_path: Path, name: str, old: str, new: str, counts: bool
):
    files = {"run.sh": RUN, "t.py": "hidden = 8\nlr = 1\n", "c.yaml": "width: 64\nlr: 0.1\n"}
    edited = {**files, name: files[name].replace(old, new)}
    assert edited != files
    assert (code(tmp_path, files) != code(tmp_path, edited)) is counts


def test_a_configuration_that_a_shell_script_names_as_a_default_counts(tmp_path: Path):
    files = {
        "run.sh": 'CONFIG=${CONFIG:-"./conf/small.toml"}\npython t.py --config $CONFIG\n',
        "conf/small.toml": "dim = 64\n",
    }
    wide = {**files, "conf/small.toml": "dim = 4096\n"}
    assert code(tmp_path, files) != code(tmp_path, wide)


def test_what_is_piped_into_a_command_of_the_next_line_counts(tmp_path: Path):
    piped = "echo {} |\n  python u.py\n"
    before = code(tmp_path, {"run.sh": piped.format(64)})
    assert code(tmp_path, {"run.sh": "# As before.\n" + piped.format(64)}) == before
    assert code(tmp_path, {"run.sh": piped.format(4096)}) != before


def test_of_a_large_notebook_the_code_counts_and_not_its_pictures(tmp_path: Path):
    def notebook(source: str, count: int) -> str:
        output = {"output_type": "display_data", "data": {"image/png": "A" * LARGEST_BYTES}}
        cell = {"cell_type": "code", "execution_count": count, "source": [source], "outputs": [output] * count}
        return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})

    first = code(tmp_path, {"a.ipynb": notebook("%time x = 1\n!pip list\nm = load('gpt2')\n", 1)})
    assert first == code(tmp_path, {"a.ipynb": notebook("%time x = 1\n!pip list\nm = load('gpt2')  # small\n", 2)})
    assert first != code(tmp_path, {"a.ipynb": notebook("%time x = 1\n!pip list\nm = load('gpt2-xl')\n", 1)})
    assert first != code(tmp_path, {"a.ipynb": notebook("%time x = 1\n!python t.py --bs 512\nm = load('gpt2')\n", 1)})


def test_the_numbers_of_a_notebook_are_settings(tmp_path: Path):
    cell = {"cell_type": "code", "source": ["%matplotlib inline\n", "batch_size = 48\n"]}
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [cell]}))
    found = hints(tmp_path / "a.ipynb", [], tmp_path)
    assert found is not None
    assert found["values"]["batch-size"] == 48.0


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("Makefile", "BS=8\ntrain:\n\tpython t.py --bs $(BS)\n", "BS=64\ntrain:\n\tpython t.py --bs $(BS)\n"),
        ("t.jl", "model = Chain(Dense(784 => 256))\n", "model = Chain(Dense(784 => 16384))\n"),
        ("melt.in", "region box block 0 10 0 10 0 10\n", "region box block 0 99 0 99 0 99\n"),
        ("sim", "\x7fELF\0" + "a" * LARGEST_BYTES, "\x7fELF\0" + "b" * LARGEST_BYTES),
    ],
)
def test_what_cannot_be_read_as_a_program_counts_as_it_is(tmp_path: Path, name: str, before: str, after: str):
    assert code(tmp_path, {name: before}) != code(tmp_path, {name: after})


def test_numbered_inputs_are_one_kind_of_work_whatever_they_hold(tmp_path: Path):
    assert code(tmp_path, {"part_7.fasta": "A"}) == code(tmp_path, {"part_8.fasta": "BB"})


def test_there_is_no_digest_of_nothing(tmp_path: Path):
    assert fingerprint(sources([], [tmp_path / "missing.py"]), Declared(), tmp_path, compared=True) is None
    found = sources([(tmp_path / "t.py", b"x = 1\n")], [tmp_path / "t.py"])
    declared = Declared.of([survey(one.tree) for one in found if one.tree is not None])
    assert fingerprint(found, declared, tmp_path, compared=True) is not None
