"""What --array, --grid and --sweep make of a submission."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from gpuq.cli import capture, sweep
from gpuq.errors import BadInput


def field(array: str | None = None, grid: tuple[str, ...] = (), file: object = None) -> Any:
    return sweep.field(argparse.Namespace(array=array, grid=list(grid), sweep=None if file is None else str(file)))


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_an_array_is_its_numbers_and_how_many_run_at_once() -> None:
    assert field("0-9:3,20%2") == {"tasks": "0-9:3,20", "at_once": 2}
    assert field("7") == {"tasks": "7"}


def test_a_grid_is_every_combination_the_last_name_fastest() -> None:
    assert field(grid=("lr=0.1,0.01", "seed=1..3")) == {
        "tasks": "0-5",
        "params": {"lr": ["0.1"] * 3 + ["0.01"] * 3, "seed": ["1", "2", "3"] * 2},
    }
    assert field("%4", ("n=0..100..50",)) == {"tasks": "0-2", "at_once": 4, "params": {"n": ["0", "50", "100"]}}
    assert field("5,7", ('layers="64,32",',))["params"] == {"layers": ["64,32", ""]}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "lr,note\n0.1,first\n\n0.01,'n\n"),
        ("excel.csv", "lr;note\n0.1;first\n0.01;'n\n"),
        ("a.tsv", "lr\tnote\n0.1\tfirst\n0.01\t'n\n"),
        ("a.txt", '[{"lr": 0.1, "note": "first"}, {"lr": 0.01, "note": "\'n"}]'),
        ("a.jsonl", '{"lr": 0.1, "note": "first"}\n{"note": "\'n", "lr": 0.01}\n'),
        ("a.yaml", '- lr: 0.1\n  note: first\n- {lr: 0.01, note: "\'n"}\n'),
    ],
)
def test_a_file_has_a_row_for_each_task(tmp_path: Path, name: str, text: str) -> None:
    assert field(file=written(tmp_path, name, text)) == {
        "tasks": "0-1",
        "params": {"lr": ["0.1", "0.01"], "note": ["first", "'n"]},
    }


def test_an_object_of_lists_is_a_grid_and_multiplies_with_others(tmp_path: Path) -> None:
    file = written(tmp_path, "grid.json", '{"model": ["a", "b"], "deep": true}')
    assert field(grid=("seed=1,2",), file=file) == {
        "tasks": "0-3",
        "params": {"model": ["a", "a", "b", "b"], "deep": ["true"] * 4, "seed": ["1", "2", "1", "2"]},
    }


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"array": "%8"}, "--array `%8` names no task."),
        ({"array": "1-4%0"}, "--array `1-4%0`: `%0` is no number of tasks at once."),
        ({"array": "4-1"}, "--array: the range `4-1` runs backwards."),
        ({"array": "1-4", "grid": ("lr=1,2",)}, "--array names 4 tasks, and there are 2 combinations of values."),
        ({"grid": ("lr",)}, "--grid `lr` gives no values."),
        ({"grid": ("2=1",)}, "--grid: `2` cannot be the name of a parameter."),
        ({"grid": ("task=1",)}, "--grid: `task` cannot be the name of a parameter."),
        ({"grid": ("a=1", "a=2")}, "--grid gives `a` twice."),
        ({"grid": ("a=5..1",)}, "--grid `5..1` names no numbers."),
        ({"grid": ("a=1..200", "b=1..100")}, "an array of 20,000 tasks; 10,000 is the limit."),
        ({"file": "/no/such"}, "--sweep /no/such cannot be read: No such file or directory."),
    ],
)
def test_bad_input_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput) as error:
        field(**given)
    assert error.value.message == sentence


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.csv", "lr,n\n1,2\n\n1\n", "line 4 has 1 values, and the head 2 names: 1"),
        ("a.jsonl", '{"lr": 1}\n\n{"lr": }\n', "line 3, column 8: Expecting value"),
        ("a.csv", "lr,lr\n1,2\n", "its head has a name twice."),
        ("a.csv", "lr\n", "has no rows."),
        ("a.csv", "learning rate\n1\n", "its head: `learning rate` cannot be the name of a parameter."),
        ("a.json", "[1, 2]", "it is not a list of objects with names and values."),
        ("a.json", '[{"a": 1}, {"b": 1}]', "a row has b, and the first has a."),
        ("a.json", "[", "Expecting value"),
        ("a.yaml", "a: [", "while parsing"),
        ("a.csv", "lr\n\0\n", "is not a text."),
    ],
)
def test_a_file_that_makes_no_sense_is_named(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    with pytest.raises(BadInput) as error:
        field(file=written(tmp_path, name, text))
    assert name in error.value.message
    assert sentence in error.value.message


def test_hints_are_what_holds_for_every_task(tmp_path: Path) -> None:
    script = written(
        tmp_path,
        "train.py",
        "import argparse, torch\np = argparse.ArgumentParser()\np.add_argument('--hidden', type=int, default=8)\n"
        "p.add_argument('--depth', type=int, default=2)\na = p.parse_args()\nn = torch.nn.Linear(4, a.hidden)\n",
    )
    command = capture.Command(("python3", str(script), "--hidden", "{w}", "--seed", "{task}"), script)
    found = sweep.hints(command, tmp_path, {"tasks": "0-2", "params": {"w": ["16", "16", "32"]}})
    assert found is not None
    assert found["framework"] == "pytorch"
    assert found["values"] == {"depth": 2.0, "program-code": "file-d2c48ca1"}, "the width is another one in each task"


@pytest.mark.parametrize(
    ("source", "words", "params"),
    [
        ("import os\nw = [64, 1024][int(os.environ['SLURM_ARRAY_TASK_ID'])]\n", (), {}),
        ("import os\nw = [64, 1024][int(os.getenv('TRIAL'))]\n", (), {"TRIAL": ["0", "1"]}),
        ("w = [64, 1024][args.idx]\n", ("--idx", "{task}"), {}),
    ],
)
def test_that_a_script_chooses_by_what_differs_is_a_hint_of_the_first_task(
    tmp_path: Path, source: str, words: tuple[str, ...], params: dict[str, list[str]]
) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\n" + source)
    command = capture.Command(("python3", str(script), *words), script)
    found = sweep.hints(command, tmp_path, {"tasks": "0-1", "params": params})
    assert found is not None
    assert [value for name, value in found["values"].items() if name.startswith("choice-of-")] == ["no-0"]
