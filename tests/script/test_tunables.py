"""The settings of a job, from its command, variables, files and script."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.learn.features.setting_effects import changes, is_choice
from gpuq.learn.history.job_features import JobFeatures
from gpuq.messages.submission import Hints
from gpuq.script.configs import read as config
from gpuq.script.hints import forget, hints
from gpuq.script.meaning import Meaning, meaning, plain
from gpuq.script.tunables import effective_settings


def read(folder: Path, source: str, *words: str) -> dict[str, Any]:
    """The values of a script, as the API would take them, apart from the digest of all that it does."""
    script = folder / "train.py"
    script.write_text(source)
    found = hints(script, words, folder)
    assert found is not None
    msgspec.convert(found, Hints)
    assert found["values"].pop("program-code").startswith("file-")
    return dict(found["values"])


ARGPARSE = """
import argparse
p = argparse.ArgumentParser()
p.add_argument("-w", "--hidden-dim", type=int, default=64)
p.add_argument("--num_layers", type=int, default=2)
p.add_argument("--cache", action="store_true")
p.add_argument("--lr", type=float, default=0.1)
p.add_argument("--seed", type=int, default=1)
p.add_argument("--hub-token", default="")
"""


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ((), {}),
        (("--hidden-dim", "256"), {"hidden-dim": 256.0}),
        (("-w", "256"), {"hidden-dim": 256.0}),
        (("-w256",), {"hidden-dim": 256.0}),
        (("--num_layers=8",), {"num-layers": 8.0}),
        (("--cache",), {"cache": "true"}),
        (("--lr", "3", "--seed", "7", "--out_dir=elsewhere", "--hub-token", "hf_abcdef"), {}),
    ],
)
def test_options_over_the_defaults_of_the_script(tmp_path: Path, words: tuple[str, ...], changed: dict[str, Any]):
    assert read(tmp_path, ARGPARSE, *words) == {"hidden-dim": 64.0, "num-layers": 2.0, "cache": "false"} | changed


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import sys\nn_layer = 4\nn_embd = 128\nexec(open('configurator.py').read())\n", ("--n_embd=512",)),
        ("@dataclass\nclass Config:\n    n_layer: int = 4\n    n_embd: int = 128\n", ("--n_embd", "512")),
        ("def train(n_layer=4, n_embd=128):\n    pass\nimport fire\nfire.Fire(train)\n", ("--n_embd=512",)),
        ("cfg = {'model': {'n_layer': 4, 'n_embd': 128}}\nimport sys\n", ("model.n_embd=512",)),
    ],
    ids=("globals", "dataclass", "fire", "overrides"),
)  # fmt: skip
def test_defaults_that_are_no_options(tmp_path: Path, source: str, words: tuple[str, ...]):
    assert read(tmp_path, source) == {"n-layer": 4.0, "n-embd": 128.0}
    # Whether these are one thing or two by one name, nothing tells.
    assert read(tmp_path, source, *words) == {"n-layer": 4.0, "n-embd": 512.0, "script.n-embd": 128.0}


def test_a_number_of_the_script_is_what_its_setting_is_where_it_is_not_stored():
    """As of a task of a sweep, whose parameter may happen to be that number."""
    swept = JobFeatures.of({"values": {"hidden": 64.0, "script.hidden": 64.0}, "given": ["hidden", "script.hidden"]})
    alone, wider = (JobFeatures.of({"values": {"hidden": hidden}, "given": []}) for hidden in (64.0, 128.0))
    assert swept.different(alone) == alone.different(swept) == []
    assert swept.different(wider) == wider.different(swept) == ["hidden", "script.hidden"]


def test_variables_with_the_defaults_that_the_script_reads_them_with(tmp_path: Path):
    source = "import os\nHIDDEN = int(os.environ.get('HIDDEN', 512))\nos.getenv('DEPTH', '4')\n"
    assert read(tmp_path, source) == {"hidden": 512.0, "depth": 4.0}
    ours = effective_settings(
        (), {"HIDDEN": "64", "PATH": "/bin", "OMP_NUM_THREADS": "1", "API_KEY": "1234", "LOG_DIR": "/tmp/x"}
    )
    assert ours.values == {"hidden": 64.0}
    assert ours.given == {"hidden"}


FILES = {
    "c.yaml": "model:\n  hidden: {}\n  dims:\n    - 8\n    - 16\ntrain:\n  lr: 0.1\n  seed: 3\n",
    "c.json": '{{"model": {{"hidden": {}, "dims": [8, 16]}}, "train": {{"lr": 0.1, "seed": 3}}}}',
    "c.toml": "[model]\nhidden = {}\ndims = [8, 16]\n[train]\nlr = 0.1\nseed = 3\n",
}


@pytest.mark.parametrize("name", FILES)
def test_a_configuration_file_counts_by_what_it_holds(tmp_path: Path, name: str):
    (tmp_path / name).write_text(FILES[name].format(32))
    copy, large = f"copy-of-{name}", f"large-{name}"
    (tmp_path / copy).write_text(FILES[name].format(32))
    (tmp_path / large).write_text(FILES[name].format(64))
    one = read(tmp_path, "import yaml\n", "--config", name)
    assert one.pop("dims-proportions").startswith("of-")
    assert one == {"hidden": 32.0, "dims": 24.0}
    one = read(tmp_path, "import yaml\n", "--config", name)
    assert read(tmp_path, "import yaml\n", "--config", copy) == one
    assert read(tmp_path, "import yaml\n", "--config", large) == one | {"hidden": 64.0}
    assert read(tmp_path, "import yaml\n", "--config", name, "--hidden=128") == one | {"hidden": 128.0}


def test_a_word_before_a_number_names_it(tmp_path: Path):
    source = (
        "import sys\ngiven = dict(zip(sys.argv[1::2], sys.argv[2::2]))\ncapacity = int(given.get('capacity', 4000))\n"
    )
    assert read(tmp_path, source) == {"capacity": 4000.0}
    assert read(tmp_path, source, "capacity", "9000") == {"capacity": 9000.0}
    (other := tmp_path / "other").mkdir()
    looked_up = source + "act = given.get('act', 'relu')\n"
    assert read(other, looked_up, "act", "gelu") == {"capacity": 4000.0, "act": "gelu"}
    assert effective_settings(("fit", "now", "12", "3"), {}).values == {
        "command": "fit",
        "now": 12.0,
        "argument-2": 3.0,
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("-f exps/default/yolox_s.py", "-f exps/default/yolox_x.py"),
        ("--load weights/a.pt", "--load weights/b.pt"),
        ("exps/small.jsonnet", "exps/large.jsonnet"),
        ("/mnt/x/big.h5", "/mnt/x/small.h5"),
        ("--clip-model ViT-B/16", "--clip-model ViT-L/16"),
        ("--clip-model ViT-B/32", "--clip-model ViT-B/16"),
        ("--ckpt_dir llama-2-7b/", "--ckpt_dir llama-2-13b/"),
        ("--name yolox-s", "--name yolox-x"),
        ("train --hidden 8", "test --hidden 8"),
        ("4 3d_fullres", "4 2d"),
        ("--thing base", "--thing large"),
    ],
)
def test_another_network_file_or_command_is_another_work(before: str, after: str):
    """Whatever the option is called, no bound follows from one for the other."""
    jobs = [JobFeatures.of(vars(effective_settings(words.split(), {}))) for words in (before, after)]
    assert any(map(is_choice, changes(jobs[1], jobs[0])))


@pytest.mark.parametrize(
    "words",
    [
        "--out_dir=out-small", "--name second", "--run-name run-3", "--model-dir out/run_17", "--resume auto",
        "--load ckpt_000100.pt", "--save other.pt", "--learning_rate 3 --seed 4", "--start-epoch 0", "--output /tmp/x.txt",
        "--predictions a.txt", "--sample-every 100", "--image-interval 5",
    ],
)  # fmt: skip
def test_names_of_runs_and_results_are_not_kept(words: str):
    assert effective_settings(words.split(), {}).values == {}


def test_parameters_of_notebooks_and_of_yacs_have_names():
    notebook = "papermill in.ipynb out.ipynb -p hidden 64 -p net resnet -r depth 2"
    assert effective_settings(notebook.split()[1:], {}).values == {"hidden": 64.0, "model": "resnet", "depth": 2.0}
    yacs = "SOLVER.IMS_PER_BATCH 16 MODEL.DEVICE cuda INPUT.MIN_SIZE_TRAIN (400,) MODEL.WIDTH 8"
    assert effective_settings(yacs.split(), {}).values == {
        "ims-per-batch": 16.0,
        "min-size-train": 400.0,
        "width": 8.0,
    }
    other = effective_settings(f"{yacs} OUTPUT_DIR out/b SEED 3 DEPTH 50".split(), {}).values
    assert other == {**effective_settings(yacs.split(), {}).values, "depth": 50.0}
    assert effective_settings(["TRAIN", "64"], {}).values == {"command": "train", "argument-2": 64.0}, "no yacs"


CLIPS = """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--clip", type=int, default=8, help="frames")
p.add_argument("--gamma", type=float, default=2)
p.add_argument("--lr-decay", type=int, default=30)
"""
ANNOTATED = "from dataclasses import dataclass\n@dataclass\nclass Args:\n  l1: int = 64\n  beta: float = 4\n"


def test_a_whole_number_with_the_name_of_a_factor_is_a_size(tmp_path: Path):
    assert read(tmp_path, CLIPS, "--clip", "64", "--gamma", "16") == {"choice-of-clip": 64.0}
    assert read(tmp_path, CLIPS, "--lr-decay", "60") == {"choice-of-clip": 8.0}
    forget()
    assert read(tmp_path, ANNOTATED, "--l1", "256", "--beta", "8") == {"choice-of-l1": 256.0}
    click = (
        "import click\n@click.option('--tau', default=4)\n@click.option('--eps', default=0.1)\ndef f(tau, eps): ...\n"
    )
    forget()
    assert read(tmp_path, click, "--tau", "16", "--eps", "16") == {"choice-of-tau": 16.0}


@pytest.mark.parametrize(("text", "is_size"), [("64", True), ("64.0", False), ("0.5", False), ("5", False)])
def test_where_nothing_declares_it_a_large_whole_number_is_one(tmp_path: Path, text: str, is_size: bool):
    expected = {"choice-of-l1": 64.0} if is_size else {}
    assert effective_settings([f"l1={text}"], {}).values == expected
    (tmp_path / "c.yaml").write_text(f"l1: {text}\n")
    assert effective_settings([], {}, [config(tmp_path / "c.yaml")]).values == expected


def test_of_several_gpus_their_number_counts():
    def of(ids: str) -> dict[str, Any]:
        return effective_settings(["--gpu_ids", ids], {}).values

    assert of("0") == of("3") == {}
    assert of("0,1,2,3") == of("4,5,6,7") == {"gpus": 4.0}
    assert of("0,1") == {"gpus": 2.0}
    assert effective_settings(["trainer.devices=[3]"], {}).values == {"gpus": 1.0}
    assert effective_settings(["trainer.devices=3"], {}).values == {"devices": 3.0}


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("--seed 1", {}), ("--seed 1,2,3,4,5", {"seeds": 5.0}), ("--seed 1-5", {"seeds": 5.0}), ("--seeds 10", {"seeds": 10.0}),
        ("--multirun seed=1,2 lr=0.1,0.01,0.001", {"multirun": 6.0, "seeds": 2.0}), ("-m 1200", {"m": 1200.0}),
        ("--resume last.pt", {"resume": "true"}), ("--start-epoch 50", {"start-epoch": "true"}),
        ("--patience 3", {"patience": 3.0}),
        ("--lr-patience 3", {}),
    ],
)  # fmt: skip
def test_settings_by_which_a_run_is_repeated_resumed_or_ended(words: str, values: dict[str, Any]):
    found = effective_settings(words.split(), {}).values
    assert {name: value for name, value in found.items() if value != "true" or name in values} == values


def test_settings_with_the_same_last_name_keep_their_full_names(tmp_path: Path):
    (tmp_path / "c.json").write_text(json.dumps({"encoder": {"width": 8}, "decoder": {"width": 16}}))
    assert read(tmp_path, "x = 1\n", "c.json") == {"encoder.width": 8.0, "decoder.width": 16.0}
    assert read(tmp_path, "x = 1\n", "c.json", "decoder.width=32")["decoder.width"] == 32.0


def test_a_configuration_that_cannot_be_read_counts_by_its_name():
    values = [
        effective_settings(("--config", path), {}).values
        for path in ("conf/small.py", "/other/place/small.py", "conf/big.py")
    ]
    assert values[0] == values[1] == {"config": "small.py"}
    assert values[2] == {"config": "big.py"}


@pytest.mark.parametrize(
    ("word", "kept"),
    [
        ("1e3", 1000.0), ("10k", 10_000.0), ("7b", 7e9), ("224x224", 224.0), ("[512,256]", 768.0), ("true", "true"),
        ("relu", "relu"), ("/data/train.bin", "train.bin"), ("/tmp/here", None),
        ("1e999", None), ("9" * 400, None), ("a long text, with commas", "digest-"),
    ],
)  # fmt: skip
def test_the_form_in_which_a_value_is_kept(word: str, kept: float | str | None):
    found = effective_settings(("--thing", word), {}).values.get("thing")
    assert found == kept or (kept == "digest-" and str(found).startswith(kept))
    assert "long" not in str(found)


@pytest.mark.parametrize(
    ("names", "about"),
    [
        (
            "hidden hidden_size d_model nhid ngf n_embd --embedding-dim CHANNELS num_filters units model_dim",
            Meaning.WIDTH,
        ),
        ("num_layers n_layer depth num-hidden-layers nlayers num_blocks", Meaning.DEPTH),
        ("batch_size batchSize per_device_train_batch_size bs minibatch eval-batch-size", Meaning.BATCH),
        ("seq_len max_seq_length block_size context_length bptt", Meaning.SEQUENCE),
        ("image_size imgSize resolution crop-size", Meaning.SIDE),
        ("epochs max_steps n_iter num_train_epochs total-timesteps niter max_iters train-steps", Meaning.LENGTH),
        ("num_samples n-train buffer_size vocab_size n_estimators num_workers train_size rows", Meaning.COUNT),
        (
            "seed out_dir output_dir log_interval save_every eval_steps run-name logging_steps wandb_project name",
            Meaning.OUTPUT,
        ),
        (
            "lr learning_rate weight-decay dropout beta1 warmup_steps momentum verbose lr_backbone lr-scheduler-type grad_clip "
            "clip_grad decay-rate decay_lr gradient-clip-val lora-alpha temperature epsilon_decay_steps cudnn_benchmark "
            "lambda_gp l2-weight eps-clip kl_weight pos-weight noise_std margin hflip cv_fold ddp_timeout",
            Meaning.HARMLESS,
        ),
        (
            "stage model dataset config task arch data clip-model model-version version exp_file benchmark unet teacher lm type "
            "phase algo",
            Meaning.CHOICE,
        ),
        ("clip-len track-length n-points num_nodes max-num-points num_frames", Meaning.SEQUENCE),
        ("sample_size", Meaning.SIDE),
        ("message-dim user-dim label_dim color-channels temp-embed-dim project-dim", Meaning.WIDTH),
        (
            "frames-per-clip group-size num_seeds mc_dropout_samples num-dropout-passes rng-size seed-length",
            Meaning.COUNT,
        ),
        ("decay-layers", Meaning.DEPTH),
        ("alpha num-tags", Meaning.OTHER),
        (
            "num-steps n_steps duration timesteps unroll-steps inner-steps iters num_generations max_episode_steps "
            "max-decoder-steps train_inner_steps max-rollout-steps",
            Meaning.STEPS,
        ),
        ("patch-size hop_length voxel-size stride downsample subsample tensor-parallel-size tp dx", Meaning.SPACING),
        ("grid grid-size voxels roi-size grid-resolution", Meaning.VOLUME),
        ("optimizer amp fp16 use_ema", Meaning.COPIES),
        (
            "gradient_checkpointing freeze-backbone use_lora offload load-in-4bit int8 quantize attn_type",
            Meaning.SAVING,
        ),
        ("hf_token api_key password client_secret", Meaning.PRIVATE),
        ("cache preload in_memory", Meaning.STORE),
        ("grad_accum num_minibatches gradient-accumulation-steps", Meaning.ACCUMULATION),
        ("x foo activation threshold profile clip-name strategy tuner solver", Meaning.OTHER),
        ("log2_hashmap_size max_depth", Meaning.EXPONENT),
        ("n_user num_label num_group", Meaning.COUNT),
        ("activation-checkpoint-strategy activation_checkpoint.mode zero_optimization.stage", Meaning.SAVING),
        ("zero_optimization.offload_optimizer.device lora.r", Meaning.SAVING),
        ("cache_latents cache-text-encoder-outputs precompute_ref_log_probs", Meaning.SAVING),
        ("force-fp32", Meaning.COPIES),
        ("warmup-batch-size", Meaning.BATCH),
        ("momentum-encoder", Meaning.CHOICE),
        ("encoder-momentum batch-norm-momentum lora.dropout optimizer.lr kl_coef", Meaning.HARMLESS),
        ("trainer.logger.init_args.version hydra.job.num hydra/launcher git-hash hub_model_id", Meaning.OUTPUT),
        ("--dp data-parallel-size", Meaning.SPACING),
        ("res points_per_side", Meaning.SIDE),
        (
            "access_key_id ssh_key_passphrase keys licence_key_1 encryption_key_hex pwd pass MYSQL_PWD "
            "REDIS_PASS pat bearer cookie auth_header credentials.user db.key",
            Meaning.PRIVATE,
        ),
        ("max-tokens key-dim num_key_value_heads", None),
    ],
)
def test_what_names_are_about(names: str, about: Meaning | None):
    """None: whatever it is, but no secret."""
    found = {name: meaning(".".join(map(plain, name.split(".")))) for name in names.split()}
    if about is None:
        assert Meaning.PRIVATE not in found.values()
    else:
        assert found == dict.fromkeys(names.split(), about)


def test_what_looks_like_a_key_is_kept_as_a_digest_whatever_its_option_is_called():
    words = ("--hub", "hf_abcd12ef34gh56ij78kl", "--tracker", "a1b2c3d4e5f6a7b8", "--net", "resnext101_32x8d")
    kept = effective_settings(words, {}).values.values()
    assert [str(value).partition("-")[0] for value in kept] == ["digest", "digest", "resnext101_32x8d"]
    assert effective_settings(("--base", "convnextv2_base_22k"), {}).values["base"] == "convnextv2_base_22k"


def test_of_what_may_be_a_secret_only_numbers_of_sizes_and_switches_are_kept():
    def kept(words: str) -> dict[str, Any]:
        return effective_settings(words.split(), {}).values

    assert kept("--fused-backward-pass") == {"fused-backward-pass": "true"}
    assert kept("--max-tokens 512 --key-dim 64") == {"max-tokens": 512.0, "key-dim": 64.0}
    assert (
        kept(
            "--num-keys abc --tokens abc --hf-tokens hf_abc --access_tokens ab --pass 1234 --keys hunter2 auth.value=hunter2"
        )
        == {}
    )
    assert effective_settings((), {"AWS_ACCESS_KEY_ID": "AKIA", "MYSQL_PWD": "hunter2"}).values == {}


def test_an_offloaded_optimizer_is_seen_in_a_file_of_deepspeed(tmp_path: Path):
    zero = {"stage": 2, "offload_optimizer": {"device": "cpu"}}
    (tmp_path / "ds.json").write_text(json.dumps({"zero_optimization": zero, "fp16": {"enabled": True}}))
    device = "zero-optimization.offload-optimizer.device"
    found = read(tmp_path, "x = 1\n", "--deepspeed", "ds.json")
    assert found == {device: "cpu", "zero-optimization.stage": 2.0, "fp16": "true"}
    assert read(tmp_path, "x = 1\n", "--deepspeed", "ds.json", f"{device}=none".replace("-", "_"))[device] == "none"


def test_variables_by_which_a_library_takes_memory_are_settings():
    ours = {"KERAS_BACKEND": "jax", "XLA_PYTHON_CLIENT_MEM_FRACTION": ".1", "HF_MODEL": "gpt2", "TORCH_BATCH": "8"}
    machine = {"HF_HOME": "/x", "TF_CPP_MIN_LOG_LEVEL": "3", "TRANSFORMERS_OFFLINE": "1", "TORCH_CUDA_ARCH_LIST": "8.0"}
    assert effective_settings((), ours | machine).values == {
        "keras-backend": "jax",
        "xla-python-client-mem-fraction": 0.1,
        "hf-model": "gpt2",
        "torch-batch": 8.0,
    }


def test_a_name_of_thousands_of_letters_costs_no_time():
    began = time.process_time()
    for unit in ("n-max-total-num-", "log-a-b-c-", "eps-a-", "max-a-"):
        name = unit * (2**16 // len(unit))
        assert meaning(plain(name)) is Meaning.OTHER
        assert effective_settings((f"--{name}-password", "hunter2"), {}).values == {}
        effective_settings((f"--{name}", "3"), {})
    assert time.process_time() - began < 1.0


def test_a_value_of_thousands_of_letters_costs_no_time():
    began = time.process_time()
    for value in ("1,1" + " " * 2**16 + "!", "1,1" + " ," * 2**15 + "!", "1," + "1" * 2**16 + "!"):
        effective_settings(("--layers", value, f"--seeds={value}"), {"widths": value})
    assert time.process_time() - began < 1.0


def test_which_gpu_does_not_matter_but_none_does():
    assert [effective_settings(("--device", name), {}).values for name in ("cuda", "cuda:1", "0", "cpu")] == [
        *([{}] * 3),
        {"device": "cpu"},
    ]


def test_words_that_introduce_overrides_are_no_settings():
    assert effective_settings(("--set", "width=48", "--cfg-options", "depth=2"), {}).values == {
        "width": 48.0,
        "depth": 2.0,
    }


ARGV = "import sys\n"


@pytest.mark.parametrize(
    ("source", "words", "values"),
    [
        ("import argparse\np.add_argument('rows')\np.add_argument('seed')\n", "800 7", {"rows": 800.0}),
        ("import argparse\np.add_argument('rows', nargs='*')\np.add_argument('seed')\n", "8 7", {"rows": 8.0, "argument-2": 7.0}),
        (f"{ARGV}points, seed = (int(word) for word in sys.argv[1:3])\n", "64 7 3", {"points": 64.0, "argument-3": 3.0}),
        (f"{ARGV}points, seed = map(int, sys.argv[1:])\n", "64 7", {"points": 64.0}),
        (f"{ARGV}rows = int(sys.argv[1]) if len(sys.argv) > 1 else 5\nseed = sys.argv[2]\n", "64 7", {"rows": 64.0}),
        (f"{ARGV}for e in range(int(sys.argv[1])): pass\n", "3", {"epochs": 3.0}),
        (f"{ARGV}def main(seed, rows): pass\nmain(int(sys.argv[1]), int(sys.argv[2]))\n", "7 64", {"rows": 64.0}),
        (f"{ARGV}words = sys.argv[1:]\n", "64", {"argument-1": 64.0}),
        ("s = p.add_subparsers()\np.add_argument('seed')\n", "train fast", {"command": "train", "argument-2": "fast"}),
    ],
)  # fmt: skip
def test_words_without_a_name_have_the_one_that_the_script_gives_them(
    tmp_path: Path, source: str, words: str, values: dict[str, Any]
):
    assert read(tmp_path, source, *words.split()) == values


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.one_of(st.text(max_size=12), st.from_regex(r"\A--?[a-z_]{1,9}=?\S{0,9}\Z")), max_size=90),
    st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=4),
)
def test_any_command_gives_settings_that_can_be_handed_in(words: list[str], env: dict[str, str]):
    found = effective_settings(words, env)
    assert found.given <= set(found.values)
    msgspec.convert({"values": found.values, "given": sorted(found.given)}, Hints)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("--channels 16,32,64,128", "--channels 128,64,32,16"),
        ("--roi-size 128,128,32", "--roi-size 96,96,96"),
        ("--roi-size 128x128x32", "--roi-size 96x96x96"),
        ("--channels 64,64,64,64", "--channels 256"),
        ("--channels 64,64,64,64", "--channels 128,128"),
        ("--dims [16,1008]", "--dims [512,512]"),
    ],
)
def test_lists_of_one_sum_are_equal_only_in_the_same_proportions(one: str, other: str):
    first, second = (effective_settings(words.split(), {}).values for words in (one, other))
    assert first != second
    longer, larger = (effective_settings(("--channels", text), {}).values for text in ("8,16", "32,64"))
    assert {name for name in longer if longer[name] != larger[name]} == {"channels"}, "bounded by their ratio"
    assert effective_settings(("--channels", "64,64,64"), {}).values == {"channels": 64.0, "channels-layers": 3.0}


def test_a_list_of_numbers_and_words_is_none_of_sizes(tmp_path: Path):
    found = []
    for text in ('[64, 64, "M"]', '[64, 64, "C"]'):
        (tmp_path / "c.json").write_text(f'{{"layers": {text}}}')
        found.append(effective_settings((), {}, [config(tmp_path / "c.json")]).values)
    assert found[0].keys() == {"layers"}
    assert found[0] != found[1]


def test_a_folder_that_holds_a_network_is_input_though_networks_are_written_to_such(tmp_path: Path):
    for name in ("bert", "falcon"):
        (tmp_path / "nets" / name).mkdir(parents=True)
        (tmp_path / "nets" / name / "config.json").write_text("{}")
    assert differ(tmp_path, "import torch\n", "--ckpt_dir nets/bert", "--ckpt_dir nets/falcon")
    assert not differ(tmp_path, "import torch\n", "--ckpt_dir nets/first", "--ckpt_dir nets/second"), "not there yet"


def test_what_a_run_goes_on_from_is_known_by_its_size(tmp_path: Path):
    for name, size in (("small", 1000), ("later", 1001), ("large", 50_000)):
        (tmp_path / f"{name}.pt").write_bytes(b"x" * size)
    found = [
        read(tmp_path, "import torch\n", "--resume", f"{name}.pt")["resume"] for name in ("small", "later", "large")
    ]
    assert found == [1000.0, 1000.0, 50_000.0]
    assert read(tmp_path, "import torch\n", "--resume", "elsewhere/none.pt")["resume"] == "true"
    assert read(tmp_path, "import torch\n") == {}


def test_a_list_of_large_layers_is_one_of_widths():
    assert "widths" in effective_settings(("--layers", "64,64"), {}).values
    assert "layers" in effective_settings(("--layers", "3,4,6,3"), {}).values


@pytest.mark.parametrize("name", ["root", "path", "folder"])
def test_a_path_within_a_folder_of_data_names_them_whatever_it_is_called(name: str):
    assert effective_settings((f"--{name}=/data/cifar10",), {}).values == {name: "cifar10"}
    assert effective_settings((f"--{name}=/data/ann/results/cifar10",), {}).values == {}


PARSER = "import argparse, os\np = argparse.ArgumentParser()\n"


def differ(folder: Path, source: str, one: str, other: str) -> bool:
    """Whether these two commands of a script are other work."""
    forget()
    return read(folder, source, *one.split()) != read(folder, source, *other.split())


@pytest.mark.parametrize(
    ("declared", "switch"),
    [
        ("p.add_argument('--verbose', action='store_true')", "--verbose"),
        ("p.add_argument('-v', '--verbose', action='count')", "-v"),
        ("p.add_argument('--overwrite', action=argparse.BooleanOptionalAction)", "--overwrite"),
        ("@click.option('--quiet', is_flag=True)\ndef f(): pass", "--quiet"),
        ("@click.option('--verbose/--silent')\ndef f(): pass", "--verbose"),
        ("flags.DEFINE_boolean('deterministic', False, '')", "--deterministic"),
    ],
)
def test_a_declared_switch_takes_no_word(tmp_path: Path, declared: str, switch: str):
    """The name of a harmless one would take the model with it."""
    assert differ(tmp_path, PARSER + declared, f"{switch} resnet18", f"{switch} resnet152")


@pytest.mark.parametrize(
    ("declared", "option"),
    [
        ("p.add_argument('--experiment', choices=['small', 'wide'])", "--experiment"),
        ("p.add_argument('--run', choices=['test', 'wide'], default='test')", "--run"),
        ("flags.DEFINE_enum('job', 'small', ['small', 'wide'], '')", "--job"),
        ("@click.option('--name', type=click.Choice(['small', 'wide']))\ndef f(): pass", "--name"),
    ],
)
def test_an_option_whose_values_are_listed_chooses_whatever_it_is_called(tmp_path: Path, declared: str, option: str):
    assert differ(tmp_path, PARSER + declared, f"{option} mlp", f"{option} wide")
    free = "p.add_argument('--experiment')"
    assert not differ(tmp_path, PARSER + free, "--experiment mlp", "--experiment wide")


@pytest.mark.parametrize(
    ("source", "is_index"),
    [
        ("p.add_argument('--idx', type=int)\na = p.parse_args()\nwidth = WIDTHS[a.idx]", True),
        ("p.add_argument('--idx', type=int)\na = p.parse_args()\nwidth = WIDTHS[a.idx // 3 % 4]", True),
        ("p.add_argument('--idx', type=int)\na = p.parse_args()\nwidth = 64 * 2 ** a.idx", True),
        ("p.add_argument('--idx', type=int)\na = p.parse_args()\nnet = Net(depth=a.idx + 1)", True),
        (
            "p.add_argument('--idx', type=int)\na = p.parse_args()\nrandom.seed(a.idx)\nwidth = random.choice([64, 4096])",
            True,
        ),
        (
            "p.add_argument('--idx', type=int)\na = p.parse_args()\nr = rng(a.idx)\nc = {'layers': int(r.integers(1, 32))}",
            True,
        ),
        ("p.add_argument('--idx', type=int)\na = p.parse_args()\ni, j = divmod(a.idx, 3)\nwidth = WIDTHS[i]", True),
        (
            "p.add_argument('--idx', type=int)\na = p.parse_args()\nfor i, w in enumerate(NETS):\n  if i != a.idx: continue",
            True,
        ),
        ("p.add_argument('--idx', type=int)\na = p.parse_args()\nbatch = rng(a.idx).choice(1000, size=64)", False),
        ("p.add_argument('--idx', type=int)\na = p.parse_args()\nlr = random.choice([0.1, 0.01])", False),
        ("p.add_argument('--idx', type=int)\na = p.parse_args()\nseed = 100 + a.idx", False),
        ("p.add_argument('--idx', type=int)\na = p.parse_args()\nseed = SEEDS[a.idx]", False),
        ("p.add_argument('--idx', type=int)\na = p.parse_args()\nfolds[a.idx] = 1", False),
        ("p.add_argument('--idx', type=int)\na = p.parse_args()\nprint(a.idx)", False),
        ("p.add_argument('--idx', type=int)\na = p.parse_args()\nr = make(a.idx)\nx = rows[r.integers(9)]", False),
    ],
)
def test_a_number_by_which_the_script_chooses_from_a_list_counts(tmp_path: Path, source: str, is_index: bool):
    assert differ(tmp_path, PARSER + source, "--idx 0", "--idx 1") is is_index


@pytest.mark.parametrize(
    ("source", "chooses"),
    [
        ("if a.run == 'first': small()", True),
        ("match a.run:\n  case 'first': small()", True),
        ("net = getattr(nets, a.run)()", True),
        ("net = {'first': 64, 'second': 1024}[a.run]", True),
        ("net = NETS[a.run]", True),
        ("nets = {'first': 64, 'second': 1024}\nnet = nets.get(a.run, 8)", True),
        ("net = yaml.safe_load(open('nets.yaml'))[a.run]", True),
        ("net = models.__dict__[a.run]()", True),
        ("width = 1024 if 'wide' in a.run else 64", True),
        ("if a.run.lower().startswith('wide'): wide()", True),
        ("if a.run in ('first', 'third'): small()", True),
        ("net = timm.create_model(a.run)", True),
        ("net = build(backbone=a.run)", True),
        ("config = importlib.import_module(f'configs.{a.run}').config", True),
        ("def net(which):\n  if which == 'first': return small()\nnet(a.run)", True),
        ("def net(which):\n  return NETS[which]\ndef fit(run):\n  return net(which=run)\nfit(a.run)", True),
        ("class Net:\n  def __init__(self, which):\n    self.width = WIDTHS[which]\nNet(a.run)", True),
        ("def main(run):\n  if run == 'first': small()\nfire.Fire(main)", True),
        ("net = next(one for one in NETS if one['name'] == a.run)", True),
        ("for one in NETS:\n  if one.name != a.run: continue\n  fit(one)", True),
        ("net = eval(a.run)()", True),
        ("if a.run == '': a.run = now()", False),
        ("for run, weights in net.named_parameters():\n  if 'bias' in run: freeze(weights)", False),
        ("slow = [NETS[run] for run in NETS]", False),
        ("slow = filter(lambda run: 'bias' in run, NETS)", False),
        ("def decays(run): return 'bias' not in run\nall(decays(name) for name in NETS)", False),
        ("if a.run.endswith('.json') or 's3://' in a.run: upload(a.run)", False),
        ("results[a.run] = fit()\nprint(results[a.run])", False),
        ("if __name__ == '__main__': fit(a.run)", False),
    ],
)
def test_a_name_that_decides_what_is_done_counts(tmp_path: Path, source: str, chooses: bool):
    declared = "p.add_argument('--run')\na = p.parse_args()\n"
    assert differ(tmp_path, PARSER + declared + source, "--run first", "--run second") is chooses


def test_a_folder_of_a_network_counts_by_what_its_configuration_holds(tmp_path: Path):
    (tmp_path / "bert").mkdir()
    found = []
    for width in (64, 1024):
        (tmp_path / "bert" / "config.json").write_text(f'{{"hidden_size": {width}}}')
        found.append(read(tmp_path, "import torch\n", "--model_name_or_path", "./bert"))
    assert [one.pop("hidden-size") for one in found] == [64.0, 1024.0]
    assert found[0] == found[1]


def test_a_variable_by_which_the_script_chooses_from_a_list_counts(tmp_path: Path):
    script = tmp_path / "train.py"
    script.write_text("import os\ni = int(os.environ['SLURM_ARRAY_TASK_ID'])\nwidth = [64, 1024][i]\n")
    first, second = (hints(script, (), tmp_path, env={"SLURM_ARRAY_TASK_ID": number}) for number in "01")
    assert first is not None
    assert second is not None
    assert first["values"] != second["values"]


def test_an_option_that_is_repeated_counts_with_all_its_values(tmp_path: Path):
    source = PARSER + "p.add_argument('--block', action='append')\np.add_argument('--lr', action='append')\n"
    assert differ(tmp_path, source, "--block 64 --block 8", "--block 1024 --block 8")
    assert differ(tmp_path, source, "--block 8", "--block 8 --block 8")
    assert not differ(tmp_path, source, "--lr 1 --lr 2", "--lr 3 --lr 2")


@pytest.mark.parametrize(
    ("source", "one", "other"),
    [
        ("def f(c: int = typer.Option(64, '--channels', '-o')): pass", "-o 64", "-o 1024"),
        ("c: Annotated[int, typer.Option('--views', '-v')] = 4", "-v 4", "-v 64"),
        ("o, _ = getopt.getopt(sys.argv[1:], 'o:')", "-o 64", "-o 1024"),
        ("p.add_argument('--out-channels', type=int)", "--out 64", "--out 1024"),
    ],
)
def test_a_short_option_that_is_no_place_or_verbosity_counts(tmp_path: Path, source: str, one: str, other: str):
    assert differ(tmp_path, PARSER + source, one, other)
    assert not differ(tmp_path, PARSER, "-o out/a -v 1", "-o out/b -v 2")


@pytest.mark.parametrize("nargs", ["'+'", "'*'", "2"])
def test_an_option_that_takes_several_words_has_them_all(tmp_path: Path, nargs: str):
    source = PARSER + "".join(f"p.add_argument('--{name}', nargs={nargs})\n" for name in ("layers", "milestones"))
    assert differ(tmp_path, source, "--layers 64 64", "--layers 64 4096")
    assert read(tmp_path, source, "--layers", "64", "64") == {"widths": 64.0, "widths-layers": 2.0}
    assert not differ(tmp_path, source, "--layers 64 64 --milestones 30 60", "--layers 64 64 --milestones 10 90")


@pytest.mark.parametrize("words", ["--device cpu", "--gpu -1", "--gpu_ids -1", "--device -1"])
def test_a_run_on_no_gpu_is_other_work(tmp_path: Path, words: str):
    assert differ(tmp_path, PARSER, words, "")
    assert differ(tmp_path, PARSER, words, f"{words.split(maxsplit=1)[0]} 0")
    assert not differ(tmp_path, PARSER, "--gpu 0", "--gpu 1")


@pytest.mark.parametrize(
    "hidden", [{"CUDA_VISIBLE_DEVICES": ""}, {"CUDA_VISIBLE_DEVICES": "-1"}, {"JAX_PLATFORMS": "cpu"}]
)
def test_variables_that_hide_all_gpus_make_other_work(hidden: dict[str, str]):
    assert effective_settings((), hidden).values != effective_settings((), {"CUDA_VISIBLE_DEVICES": "3"}).values == {}


def test_a_word_that_has_a_name_by_its_place_names_no_other(tmp_path: Path):
    source = "import sys\nname, seed, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])\n"
    assert read(tmp_path, source, "a", "1", "64") == read(tmp_path, source, "b", "2", "64") == {"width": 64.0}


def test_words_behind_a_command_have_no_names_of_its_own_words(tmp_path: Path):
    source = "@click.group()\ndef cli(): pass\n@cli.command()\n@click.argument('seed')\ndef fit(seed): pass\n"
    assert read(tmp_path, source, "fit", "64") == {"fit": 64.0}


def test_variables_that_only_begin_as_those_of_ranks_are_settings():
    assert effective_settings((), {"RANK_DIM": "64", "RANK": "3", "LOCAL_RANK": "1"}).values == {"rank-dim": 64.0}


def test_options_are_declared_by_a_shorter_name_too(tmp_path: Path):
    source = PARSER + "add = p.add_argument\nadd('--hidden', type=int, default=64)\n"
    assert read(tmp_path, source) == {"hidden": 64.0}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("enc.width=64 dec.width=32", "enc.width=1024 dec.width=32"),
        ("--enc.width 64 --dec.width 32", "--enc.width 1024 --dec.width 32"),
        ("--model.enc.layers 4 --model.dec.layers 2", "--model.enc.layers 48 --model.dec.layers 2"),
        ("--model resnet18 --encoder small", "--model resnet152 --encoder small"),
        ("--batch-size 8 --train-batch-size 4", "--batch-size 512 --train-batch-size 4"),
        ("-D 64 -d 4", "-D 6400 -d 4"),
    ],
)
def test_settings_that_end_in_one_word_are_all_compared(one: str, other: str):
    first, second = (effective_settings(words.split(), {}).values for words in (one, other))
    assert first != second
    assert first == effective_settings((*one.split(), "--lr", "1"), {}).values


def test_factors_without_a_value_take_no_room_of_settings(tmp_path: Path):
    (tmp_path / "train.py").write_text("import torch\n")
    factors, sizes = ([f"--w{number}-{name}=2" for number in range(80)] for name in ("dropout", "dim"))
    found = msgspec.convert(hints(tmp_path / "train.py", [*factors, *sizes], tmp_path), Hints)
    assert len(found.given) == 64
    assert set(found.given) >= found.values.keys() - {"program-code"}


def test_two_options_that_a_script_declares_are_two_settings(tmp_path: Path):
    source = (
        PARSER
        + "p.add_argument('--batch-size', type=int, default=64)\np.add_argument('--micro-batch-size', type=int, default=8)\n"
    )
    assert read(tmp_path, source) == {"batch-size": 64.0, "micro-batch-size": 8.0}
    assert read(tmp_path, source, "--micro-batch-size", "64") == {"batch-size": 64.0, "micro-batch-size": 64.0}


def test_an_option_is_not_taken_for_an_entry_of_another_part_of_a_file(tmp_path: Path):
    for name, width in (("small", 64), ("large", 1024)):
        (tmp_path / f"{name}.yaml").write_text(f"enc:\n  width: {width}\n")
    found = [
        read(tmp_path, "import yaml\n", "--config", f"{name}.yaml", "--dec.width=32") for name in ("small", "large")
    ]
    assert found == [{"width": 64.0, "dec.width": 32.0}, {"width": 1024.0, "dec.width": 32.0}]
    assert read(tmp_path, "import yaml\n", "--config", "small.yaml", "--enc.width=32") == {"width": 32.0}


def test_files_that_say_the_same_thing_otherwise_all_count(tmp_path: Path):
    for name, text in (("a", "width: 64\nlr: 1\n"), ("b", "width: 32\nlr: 3\n"), ("c", "width: 1024\nlr: 2\n")):
        (tmp_path / f"{name}.yaml").write_text(text)
    one, other = (read(tmp_path, "import yaml\n", "--net", f"{name}.yaml", "--data", "b.yaml") for name in "ac")
    assert (one["width"], other["width"]) == (32.0, 32.0)
    assert one["configuration"] != other["configuration"]
