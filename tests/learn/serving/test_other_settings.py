"""Forecasts for a job whose script ran with other settings: arguments, variables, configuration files."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuq.core.state.forecast import Forecast, Question
from gpuq.core.state.job import KindId
from gpuq.learn.features.kind import describe
from gpuq.learn.history.history import History
from gpuq.learn.serving.predictor import Predictor
from gpuq.messages.submission import Hints, Submission
from gpuq.script.hints import _surveys, hints
from gpuq.settings import Learning
from tests.learn.world import DEVICE, GIB, Work, run

RESNET = Work("resnet50", 64, 60.0, 6 * GIB)


NANO = (
    "n_layer = 4\nn_embd = 128\nmax_iters = 100\nout_dir = 'out'\nimport torch\nexec(open('configurator.py').read())\n"
)


class Nano:
    """A script that was run, and asked about, at some settings; as the command would submit it."""

    def __init__(self, folder: Path, source: str = NANO) -> None:
        self.folder = folder
        self.of = Predictor(History.from_outcomes([]), None, Learning())
        self.edit(source)

    def edit(self, source: str) -> None:
        (self.folder / "train.py").write_text(source)
        _surveys.cache_clear()

    def described(self, *words: str, env: dict[str, str] | None = None) -> tuple[str, str, dict[str, Any]]:
        script = self.folder / "train.py"
        read = hints(script, words, self.folder)
        submitted = Submission(
            command=("python", str(script), *words), cwd=str(self.folder), script=str(script), env=env or {},
            script_sha256=hashlib.sha256(script.read_bytes()).hexdigest(),
            hints=None if read is None else msgspec.convert(read, Hints),
        )  # fmt: skip
        return describe(submitted, "alice")

    def ran(self, *words: str, gib: float = 0.4, seconds: float = 100.0, env: dict[str, str] | None = None) -> None:
        kind, signature, features = self.described(*words, env=env)
        count = sum(len(self.of.history.runs(*key)) for key in self.of.history.kinds())
        changes = {"kind": kind, "signature": signature, "features": features, "duration_s": seconds}
        self.of.learn(run(RESNET, count, random.Random(1), peak_memory_bytes=round(gib * GIB), **changes))

    def asked(self, *words: str, env: dict[str, str] | None = None) -> Forecast:
        kind, _, features = self.described(*words, env=env)
        return self.of.forecast_for(kind, features, DEVICE)


def test_larger_model_does_not_inherit_the_bound_of_a_smaller_one(tmp_path: Path):
    nano = Nano(tmp_path)
    nano.ran("--n_layer=4", "--n_embd=128")
    small = nano.asked("--n_layer=4", "--n_embd=128")
    assert (small.upper_memory_bytes or 0) < 0.5 * GIB
    for words in (("--n_layer=12", "--n_embd=768"), ("--n_layer=24", "--n_embd=1024")):
        large = nano.asked(*words)
        assert large.upper_memory_bytes is None or large.upper_memory_bytes > 2.0 * GIB
        assert not large.known, "it runs alone, and is thereby measured"
        assert large.evidence == "own history, 1 run with another n-embd, n-layer; too far to bound memory"
    nano.ran("--n_layer=12", "--n_embd=768", gib=2.0)
    assert (nano.asked("--n_layer=12", "--n_embd=768").upper_memory_bytes or 0) > 2.0 * GIB
    between = nano.asked("--n_layer=8", "--n_embd=512").upper_memory_bytes
    assert between is None or between >= 1.9 * GIB


def test_output_options_do_not_change_the_kind(tmp_path: Path):
    nano = Nano(tmp_path)
    nano.ran("--n_layer=4")
    assert nano.described("--n_layer=4")[:2] == nano.described("--n_layer=4", "--out_dir=x", "--seed=3")[:2]
    assert nano.asked("--n_layer=4", "--out_dir=x").evidence == "own history, 1 run"
    assert nano.asked().evidence == "own history, 1 run", (
        "another kind, but four layers are what the script says itself"
    )


def test_a_configuration_file_counts_as_arguments_do(tmp_path: Path):
    nano = Nano(tmp_path, "import torch, yaml, sys\n")
    for name, hidden in (("small", 512), ("big", 8192), ("copy", 512)):
        (tmp_path / f"{name}.yaml").write_text(f"model:\n  hidden: {hidden}\n  num_layers: 4\n")
    nano.ran("--config", "small.yaml", gib=4.8)
    assert (nano.asked("--config", "copy.yaml").upper_memory_bytes or 0) < 6 * GIB
    big = nano.asked("--config", "big.yaml")
    assert big.upper_memory_bytes is None or big.upper_memory_bytes > 48 * GIB
    assert not big.known


def test_a_variable_given_to_the_job_counts_as_an_argument_does(tmp_path: Path):
    nano = Nano(tmp_path, "import os, torch\nHIDDEN = int(os.environ.get('HIDDEN', 512))\n")
    nano.ran(env={"HIDDEN": "512"})
    assert nano.asked().evidence == "own history, 1 run", "the script's own default"
    assert nano.asked(env={"HIDDEN": "512", "LOG_LEVEL": "debug"}).evidence == "own history, 1 run"
    assert not nano.asked(env={"HIDDEN": "8192"}).known


@pytest.mark.parametrize("way", ["file", "command", "variable"])
def test_a_number_of_the_script_is_compared_beside_one_that_is_given_under_its_name(tmp_path: Path, way: str):
    source = "import torch, yaml, sys\nencoder = Encoder(hidden={})\n"
    (tmp_path / "a.yaml").write_text("hidden: 32\n")
    words = {"file": ("--config", "a.yaml"), "command": ("--hidden=32",), "variable": ()}[way]
    env = {"HIDDEN": "32"} if way == "variable" else {}
    nano = Nano(tmp_path, source.format(64))
    nano.ran(*words, env=env, gib=10.0)
    assert nano.asked(*words, env=env).evidence == "own history, 1 run"
    nano.edit(source.format(12800))
    edited = nano.asked(*words, env=env)
    assert edited.upper_memory_bytes is None or edited.upper_memory_bytes > 100 * GIB
    nano.edit(source.format(64))
    assert nano.asked().evidence == "own history, 1 run with another hidden"
    assert nano.asked().upper_memory_bytes, "without the option it is compared with what the script says"


@pytest.mark.parametrize("last", ["--option=1", "--n_embd=32"])
def test_what_finds_no_room_among_many_given_settings_is_compared_too(tmp_path: Path, last: str):
    source = "import torch\n" + "".join(f"layer_{number}_units = 8\n" for number in range(31)) + "n_embd = {}\n"
    words = [*(f"--option_{number}={number}" for number in range(70)), last]
    nano = Nano(tmp_path, source.format(64))
    nano.ran(*words)
    assert nano.asked(*words).evidence == "own history, 1 run"
    nano.edit(source.format(12800))
    assert nano.asked(*words).upper_memory_bytes is None


@pytest.mark.parametrize("option", ["--data data/", "--fasta in/"])
def test_each_numbered_part_of_the_data_is_the_same_work(tmp_path: Path, option: str):
    nano = Nano(tmp_path)
    for name in ("data", "in"):
        (tmp_path / name).mkdir()
        for number in (1, 2):
            (tmp_path / name / f"part_{number}.csv").write_text("1\n")
    nano.ran(*f"{option}part_1.csv".split())
    assert nano.asked(*f"{option}part_2.csv".split()).evidence == "own history, 1 run"


def test_an_allocator_that_saves_memory_keeps_the_bound_where_it_is_switched_on(tmp_path: Path):
    nano, saves = Nano(tmp_path), {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    nano.ran()
    assert 0.4 < (nano.asked(env=saves).upper_memory_bytes or 0) / GIB < 0.6


FACTORS = """import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--momentum", type=float, default=0.0)
p.add_argument("--lambda-gp", type=float, default=0)
p.add_argument("--dropout", type=float, default=0.1)
p.add_argument("--ema-decay", type=float, default=0.0)
p.add_argument("--lr", type=float, default=0.1)
"""


@pytest.mark.parametrize(
    ("without", "with_it"),
    [
        ("", "--momentum 0.9"),
        ("--momentum 0", "--momentum=0.9"),
        ("", "--lambda-gp 10"),
        ("--dropout 0.0", ""),
        ("--dropout 0", "--dropout 0.2"),
        ("--ema-decay 0", "--ema-decay 0.999"),
        ("--adv_weight 0 --aux-weight 1", "--adv_weight 0.5 --aux-weight 2"),
    ],
)
def test_a_factor_that_was_zero_may_switch_on_what_needs_memory(tmp_path: Path, without: str, with_it: str):
    nano = Nano(tmp_path, FACTORS)
    nano.ran(*without.split())
    asked = nano.asked(*with_it.split())
    assert (asked.upper_memory_bytes, asked.duration_p50_s) == (None, 100)
    other = Nano(tmp_path, FACTORS)
    other.ran(*with_it.split())
    assert (other.asked(*without.split()).upper_memory_bytes or 0) < 0.5 * GIB, "without it there is less"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("--momentum 0.9", "--momentum 0.8"), ("", "--dropout 0.3"), ("", "--lambda-gp 0"),
        ("--lr 0 --weight-decay 0", "--lr 0.1 --weight-decay 0.1"),
        ("--warmup 0 --fold 0 --gpu 0 --verbose 0", "--warmup 9 --fold 1 --gpu 1 --verbose 1"),
        ("--label-smoothing 0 --local-rank 0", "--label-smoothing 0.1 --local-rank 1"),
    ],
)  # fmt: skip
def test_other_factors_and_numbers_leave_the_work_the_same(tmp_path: Path, one: str, other: str):
    nano = Nano(tmp_path, FACTORS)
    nano.ran(*one.split())
    assert nano.asked(*other.split()).evidence == "own history, 1 run"


def test_duration_grows_with_steps(tmp_path: Path):
    nano = Nano(tmp_path)
    nano.ran("--max_iters=100", seconds=100.0)
    long = nano.asked("--max_iters=1400")
    assert 1000 < (long.duration_p50_s or 0) < 1500
    assert (long.duration_p90_s or 0) > 1350
    assert long.known, "it needs no more memory"
    assert (long.upper_memory_bytes or 0) < 0.6 * GIB


def test_a_larger_batch_of_another_kind_is_bounded_by_the_script_it_shares(tmp_path: Path):
    nano = Nano(tmp_path)
    nano.ran("--batch_size=16", gib=4.0)
    twice = nano.asked("--batch_size=32")
    assert nano.described("--batch_size=16")[0] != nano.described("--batch_size=32")[0]
    assert 4 * GIB < (twice.peak_memory_bytes or 0) < 8 * GIB <= 1.1 * (twice.upper_memory_bytes or 0)
    assert (twice.peak_utilization_pct or 0) > (nano.asked("--batch_size=16").peak_utilization_pct or 0)


def test_harmless_value_that_changed_memory_is_covered(tmp_path: Path):
    nano = Nano(tmp_path)
    nano.ran("--learning_rate=0.1", gib=1.0)
    nano.ran("--learning_rate=0.2", gib=3.0)
    assert (nano.asked("--learning_rate=0.3").upper_memory_bytes or 0) > 3.0 * GIB


def test_runs_of_another_kind_of_the_script_count_at_once(tmp_path: Path):
    nano = Nano(tmp_path)
    kind, signature, features = nano.described("--batch_size=32")
    nano.of.register(signature, features, kind)
    question = Question(signature, KindId(kind), DEVICE)
    assert not nano.of.answer([question])[question].known
    nano.ran("--batch_size=16", gib=4.0)
    assert nano.of.answer([question])[question].known


def test_a_run_that_was_resumed_or_may_stop_early_has_no_known_duration(tmp_path: Path):
    nano = Nano(tmp_path)
    nano.ran("--epochs=10", seconds=1000.0)
    assert nano.asked("--epochs=10", "--seed=2").duration_p50_s == 1000
    for words in (
        ["--epochs=10", "--resume=last.pt"],
        ["--epochs=10", "--patience=3"],
        ["--epochs=10", "--seed=1,2,3"],
    ):
        other = nano.asked(*words)
        assert (other.duration_p50_s, other.duration_p90_s) == (None, None)
        assert (other.upper_memory_bytes or 0) < 0.6 * GIB, "it needs no more memory"


def test_what_is_left_of_a_resumed_run_teaches_no_duration(tmp_path: Path):
    nano = Nano(tmp_path)
    nano.ran("--epochs=10", "--resume=last.pt", seconds=100.0, gib=2.0)
    for words in (["--epochs=10", "--resume=last.pt"], ["--epochs=20"]):
        other = nano.asked(*words)
        assert (other.duration_p50_s, other.duration_p90_s) == (None, None)
        assert 2 * GIB < (other.upper_memory_bytes or 0) < 3 * GIB


TORCH = """import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.models import resnet18, resnet152
from transformers import AutoModel
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("net = resnet18()", "net = resnet152()"),
        ("net = AutoModel.from_pretrained('bert-base-uncased')", "net = AutoModel.from_pretrained('bert-large-uncased')"),
        ("net = nn.Linear(64, 64)", "net = nn.Linear(40960, 40960)"),
        ("d = 64\nnet = nn.Linear(d, d)", "d = 40960\nnet = nn.Linear(d, d)"),
        ("loader = DataLoader(data, 8)", "loader = DataLoader(data, 256)"),
        (
            "valid = DataLoader(val_set, 1024)\nloader = DataLoader(train_set, 16)",
            "valid = DataLoader(val_set, 1024)\nloader = DataLoader(train_set, 512)",
        ),
        (
            "val_loader = DataLoader(v, batch_size=1024)\ntrain_loader = DataLoader(t, batch_size=16)",
            "val_loader = DataLoader(v, batch_size=1024)\ntrain_loader = DataLoader(t, batch_size=512)",
        ),
    ],
)  # fmt: skip
def test_an_edit_of_the_network_or_the_batch_is_not_bounded_by_the_earlier_script(
    tmp_path: Path, before: str, after: str
):
    nano = Nano(tmp_path, f"{TORCH}{before}\nprint(1)\n")
    nano.ran()
    nano.edit(f"{TORCH}{after}\nprint(1)\n")
    assert nano.asked().upper_memory_bytes is None
    nano.edit(f"{TORCH}{before}\nprint(2)\n")
    other = nano.asked()
    assert 1.35 < (other.upper_memory_bytes or 0) / (0.4 * GIB) < 1.5, "wider than for the same script"
    assert other.evidence == "own history, 1 run of an earlier script"


def test_a_width_that_the_command_gives_is_compared_by_its_ratio_whatever_is_written_of_the_layers(tmp_path: Path):
    source = "@dataclass\nclass C:\n    n_embd: int = 64\n    d: int = 8\nnet = nn.Linear(C.n_embd, C.d)\n"
    nano = Nano(tmp_path, TORCH + source)
    nano.ran(gib=4.0)
    assert 4 * GIB < (nano.asked("--n_embd=96").upper_memory_bytes or 0) < 10 * GIB


def test_the_evidence_names_what_differs_as_it_is_typed_and_whether_the_script_was_edited(tmp_path: Path):
    nano = Nano(tmp_path, TORCH + "loader = DataLoader(data, 8)\n")
    nano.ran("fit", "relu", "-c", "8")
    far = "; too far to bound memory"
    assert nano.asked("fit", "gelu", "-c", "9").evidence == f"own history, 1 run with another argument 2, -c{far}"
    nano.edit(TORCH + "loader = DataLoader(data, 12)\n")
    assert (
        nano.asked("fit", "relu", "-c", "8").evidence
        == "own history, 1 run with another batch-size, of an earlier script"
    )
    nano.edit(TORCH + "loader = DataLoader(data, 8, collate_fn=pad)\n")
    edited = nano.asked("fit", "relu", "-c", "8")
    assert edited.evidence == f"own history, 1 run of an earlier script{far}", (
        "that its code is another one is said once"
    )


def test_seeds_and_run_names_of_unknown_spelling_cost_three_runs_alone_and_then_nothing(tmp_path: Path):
    nano = Nano(tmp_path)
    for number, gib in enumerate((0.40, 0.41, 0.40)):
        words = (f"--kennung=u{number}x", f"--zufall={number}", "--n_layer=4")
        assert nano.asked(*words).upper_memory_bytes is None, "it runs alone, and is thereby measured"
        nano.ran(*words, gib=gib)
    other = nano.asked("--kennung=u9x", "--zufall=2", "--n_layer=4")
    assert 0.41 < (other.upper_memory_bytes or 0) / GIB < 0.6
    assert other.evidence == "own history, 3 runs with another kennung"
    assert (other.peak_utilization_pct or 0) < 80, "a name makes no device busier"
    assert other.duration_p50_s == 100


def test_what_moves_memory_is_distinguished_from_the_run_name_that_changes_with_it(tmp_path: Path):
    nano = Nano(tmp_path)
    for number, tuner in enumerate(("lora", "full", "lora", "full", "lora")):
        nano.ran("--tuner", tuner, f"--kennung=u{number}x", gib=40.0 if tuner == "full" else 10.0)
    small, large = (nano.asked("--tuner", tuner, "--kennung=u9x").upper_memory_bytes or 0 for tuner in ("lora", "full"))
    assert 10 < small / GIB < 13
    assert 40 < large / GIB < 52
    assert nano.asked("--tuner", "freeze", "--kennung=u9x").upper_memory_bytes is None
