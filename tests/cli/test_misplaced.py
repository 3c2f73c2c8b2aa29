"""A warning where an option of gpuq stands after the script and the script does not define it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuq.cli.misplaced import misplaced
from tests.cli.conftest import Command, FakeApi, Reply

OPTIONS = ["--gpus", "--max-slowdown", "--name", "--beside"]


def body(folder: Path, *arguments: str, script: str = "train.py") -> dict[str, object]:
    path = folder / script
    return {"command": ["/usr/bin/python3", str(path), *arguments], "script": str(path), "cwd": str(folder)}


@pytest.mark.parametrize(
    "source",
    [
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--max-slowdown', type=float)\n",
        "@click.option('-s', '--max-slowdown/--no-max-slowdown')\ndef main(max_slowdown): ...\n",
        "@dataclass\nclass Args:\n    max_slowdown: float = 1.0\n",
        "flags.DEFINE_float('max_slowdown', 1.0, 'the limit')\n",
        "max_slowdown = 1.5  # python train.py --max_slowdown=2\nexec(open('configurator.py').read())\n",
        "print(args.max_slowdown)\n",
    ],
)
def test_no_warning_for_an_option_that_the_script_defines(tmp_path: Path, source: str) -> None:
    (tmp_path / "train.py").write_text(source)
    assert misplaced(OPTIONS, body(tmp_path, "--max-slowdown", "2", "--gpus=3")) == ["--gpus"]


def test_a_word_that_merely_occurs_in_the_script_defines_no_option(tmp_path: Path) -> None:
    source = "import time, wandb\nprint('time:', time.time())\nwandb.init(name='a run')\nclass A:\n    def f(self): self.name\n"
    (tmp_path / "train.py").write_text(source)
    assert misplaced(["--time", "--name"], body(tmp_path, "--time", "2h", "--name", "x")) == ["--time", "--name"]


def test_an_option_that_a_module_beside_the_script_defines_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from options import parser\n")
    (tmp_path / "options.py").write_text("parser.add_argument('--gpus')\n")
    assert misplaced(OPTIONS, body(tmp_path, "--gpus", "1", "--beside", "3")) == ["--beside"]


def test_no_warning_for_a_script_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("this is no Python")
    (tmp_path / "run.sh").write_text('exec python "$@"')
    assert misplaced(OPTIONS, body(tmp_path, "--gpus", "1")) == []
    assert misplaced(OPTIONS, body(tmp_path, "--gpus", "1", script="run.sh")) == []
    assert misplaced(OPTIONS, {"command": ["/bin/echo", "--gpus"], "cwd": "/"}) == []


@pytest.mark.parametrize("verb", ["submit", "run", "predict"])
def test_every_verb_that_takes_a_script_warns_and_goes_on(gpuq: Command, api: FakeApi, verb: str) -> None:
    (gpuq.cwd / "train.py").write_text("print('hello')")
    api.on("POST", "/api/v1/jobs", Reply({"id": 42}, 201))
    done = gpuq(verb, "train.py", "--epochs", "4", "--max-slowdown", "38%")
    assert done.err.startswith(
        "gpuq: warning: `--max-slowdown` after train.py goes to the script, which does not seem to define it.\n"
        "  If gpuq is meant, put it before train.py.\n"
    )
    assert [request.body["command"][2:] for request in api.requests if request.method == "POST"] == [
        ["--epochs", "4", "--max-slowdown", "38%"]
    ]


@pytest.mark.parametrize(
    ("verb", "needed"),
    [("token", "one of create, list, revoke"), ("notify", "one of list, test, run"), ("fetch", "ID"), ("edit", "ID")],
)
def test_a_missing_argument_is_named_and_an_optional_one_is_not(gpuq: Command, verb: str, needed: str) -> None:
    done = gpuq(verb)
    assert (done.code, done.err.splitlines()[0]) == (2, f"gpuq: `gpuq {verb}` needs {needed}.")
