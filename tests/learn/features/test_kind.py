"""Kind, signature and features of a submission."""

from __future__ import annotations

import random
import shlex

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.core.state.job import JobId
from gpuq.errors import BadInput
from gpuq.learn.features.families import family, parameters
from gpuq.learn.features.kind import LONGEST_KIND, describe, describe_tasks, of_owner
from gpuq.learn.history.job_features import JobFeatures
from gpuq.messages.job_record import JobRecord, task_record
from gpuq.messages.submission import ArrayTasks, Hints, Submission


def kind_of(*command: str, owner: str = "alice", cwd: str = "/home/alice/vision", **given_: object) -> str:
    return describe(Submission(command=command, cwd=cwd, **given_), owner)[0]  # type: ignore[arg-type]


def features_of(*command: str, **given_: object) -> dict[str, object]:
    return dict(describe(Submission(command=command, cwd="/home/alice/vision", **given_), "alice")[2])  # type: ignore[arg-type]


def test_kind_resembles_its_command():
    kind = kind_of("python3", "train.py", "--batch-size", "64", "--lr=0.1", "--model", "resnet50", script="train.py")
    assert kind == "alice:~/vision/train.py --batch-size=64 --lr=* --model=resnet50"


def test_an_empty_argument_is_a_value_like_any_other():
    assert kind_of("python3", "train.py", "--mode", "", script="train.py") == "alice:~/vision/train.py --mode=*"


def test_another_script_on_standard_input_is_another_kind():
    one = kind_of("/usr/bin/python3", "-u", "-", "--lr", "0.1", stdin="print(1)")
    assert one == "alice:- d287bb7f --lr=*"
    assert kind_of("python", "-", "--lr", "0.2", stdin="print(1)") == one
    assert kind_of("python", "-", "--lr", "0.1", stdin="print(2)") != one
    assert kind_of("bash", "-s", "train.py", stdin="print(1)").startswith("alice:- d287bb7f ")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("--bs", "32"), "--batch-size=32"),
        (("-b", "32"), "--batch-size=32"),
        (("-b32",), "--batch-size=32"),
        (("batch_size=32",), "--batch-size=32"),
        (("data.batch_size=32",), "--batch-size=32"),
        (("--train_batch_size=32",), "--batch-size=32"),
        (("--image-size", "224"), "--image-size=224"),
        (("--img_size=224x224",), "--image-size=224x224"),
        (("--max-length", "512"), "--seq-len=512"),
        (("--seq_len=512",), "--seq-len=512"),
        (("--arch", "resnet50"), "--model=resnet50"),
        (("-a", "resnet50"), "--model=resnet50"),
        (("--backbone=vit_b/16",), "--model=vit_b/16"),
        (("--model", "/secret/folder/bert-large"), "--model=bert-large"),
        (("--precision", "bf16"), "--precision=bf16"),
        (("--dtype=float16",), "--precision=float16"),
        (("--fp16",), "--precision=fp16"),
        (("--amp", "true"), "--precision=amp"),
        (("--amp", "data/train"), "--precision=amp <path>"),
        (("--lr", "-0.1"), "--lr=*"),
        (("--password", "hunter2"), "--password=*"),
        (("--out_dir=x", "--seed", "3", "--lr", "1", "--log-interval=5", "--run_name", "b"), "--lr=*"),
        (("--password=hunter2",), "--password=*"),
        (("--verbose",), "--verbose"),
        (("--batch-size", "auto"), "--batch-size=*"),
        (("10", "2.5", "a/b.txt", "fit"), "<number>… <path> fit"),
    ],
)
def test_known_sizes_stay_and_other_values_are_masked(words: tuple[str, ...], shown: str):
    assert kind_of("python", "train.py", *words) == f"alice:~/vision/train.py {shown}"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (("/venv/bin/python3.11", "-u", "train.py"), "~/vision/train.py"),
        (("torchrun", "--standalone", "train.py"), "~/vision/train.py"),
        (("torchrun", "--nproc_per_node=2", "train.py"), "~/vision/train.py --nproc-per-node=*"),
        (("env", "A=b", "python", "/srv/train.py"), "/srv/train.py"),
        (("./train.py",), "~/vision/train.py"),
        (("python", "-m", "vision.train"), "-m vision.train"),
        (("sleep", "3"), "sleep ~/vision <number>"),
        (("/opt/bin/simulate", "3"), "/opt/bin/simulate ~/vision <number>"),
    ],
)
def test_script_is_found_behind_its_interpreter(command: tuple[str, ...], shown: str):
    assert kind_of(*command) == f"alice:{shown}"


def test_code_on_the_command_line_is_known_by_its_digest():
    assert kind_of("python", "-c", "print(1)") != kind_of("python", "-c", "print(2)")
    assert kind_of("python", "-c", "print(1)") == kind_of("python3", "-c", "print(1)")


def test_the_same_script_from_another_folder_is_the_same_kind():
    assert kind_of("python", "train.py") == kind_of("python", "vision/train.py", cwd="/home/alice")


def test_a_project_shares_its_kinds_and_owners_do_not():
    assert kind_of("python", "t.py", owner="alice") != kind_of("python", "t.py", owner="bob")
    assert kind_of("python", "/x/t.py", owner="alice", project="p") == kind_of(
        "python", "/x/t.py", owner="bob", project="p"
    )


NAMES = st.text(st.sampled_from("ab :%/x2\t…\ud800é"), min_size=1, max_size=6) | st.sampled_from(
    ["a" * 300, "a " * 150]
)


@given(
    owner=NAMES, other=NAMES, project=NAMES, named=NAMES | st.sampled_from(["project a", "project a:t.py", "x" * 400])
)
def test_no_user_can_name_a_kind_or_a_project_so_that_its_jobs_count_as_those_of_another(
    owner: str, other: str, project: str, named: str
) -> None:
    """A kind of the victim's decides what memory the victim's next job is promised."""
    of_victim, its_features = describe(Submission(command=("python", "/x/t.py"), cwd="/"), owner)[::2]
    its_script = JobFeatures.of(its_features).script
    for chosen in (
        {"kind": named},
        {"kind": of_victim[:400]},
        {"project": project},
        {"project": owner},
        {"project": owner, "kind": of_victim[:400]},
    ):
        kind, _, features = describe(Submission(command=("python", "/x/t.py"), cwd="/", **chosen), other)
        assert kind != of_victim, chosen
        assert not kind.startswith(of_owner(owner)), chosen
        if "project" in chosen or owner != other:
            assert JobFeatures.of(features).script != its_script, chosen
    if owner != other:
        assert kind_of("python", "/x/t.py", owner=owner) != kind_of("python", "/x/t.py", owner=other)
    in_project = kind_of("python", "/x/t.py", project=project)
    assert kind_of("true", kind=in_project[:400]) != in_project != kind_of("true", kind=named)


def test_kinds_read_well_and_those_of_owners_stay_as_they_were_recorded():
    assert kind_of("python", "/x/t.py") == "alice:/x/t.py"
    assert kind_of("python", "/x/t.py", project="vision") == "project vision:/x/t.py"
    assert kind_of("true", kind="nightly:resnet") == ":nightly:resnet"
    assert kind_of("python", "/x/t.py", project="") == kind_of("python", "/x/t.py")


def test_kind_given_by_hand_overrides():
    assert kind_of("python", "train.py", kind="my kind") == "my kind"


def test_on_several_devices_it_is_another_kind():
    one, two = kind_of("python", "t.py", gpus=1), kind_of("python", "t.py", gpus=2)
    assert two == f"{one} x2"
    assert kind_of("python", "t.py", gpus=1, most_gpus=4) == f"{one} x1-4"
    assert kind_of("python", "t.py", gpus=2, most_gpus=2) == two
    assert kind_of("python", "t.py", gpus=2, kind="mine") == "mine x2", "a kind given by hand too: durations differ"
    assert len(kind_of("python", "t.py", gpus=2, kind="k" * LONGEST_KIND)) <= LONGEST_KIND


def known_by(command: str) -> str:
    return describe(Submission(command=tuple(shlex.split(command)), cwd="/home/alice/vision"), "alice")[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("bash -lc 'cd A && python small.py'", "bash -lc 'cd B && python big.py'"),
        ("python -um small", "python -um big"),
        ("timeout 3600 python small.py", "timeout 3600 python large.py"),
        ("srun python small.py", "srun python large.py"),
        ("python -m torch.distributed.run small.py", "python -m torch.distributed.run large.py"),
        ("docker run image python small.py", "docker run image python large.py"),
        ("gpurun ./small.sh", "gpurun ./large.sh"),
        ("su ann -c 'python small.py'", "su ann -c 'python large.py'"),
        ("tmux new-session 'python small.py'", "tmux new-session 'python large.py'"),
        ("python t.py --debug", "python t.py"),
        ("python t.py --eval", "python t.py"),
        ("python t.py experiment=mnist_small", "python t.py experiment=llm_huge"),
        ("python t.py --base_model org/llama-7b-hf", "python t.py --base_model org/llama-70b-hf"),
        ("python t.py data/cifar", "python t.py data/imagenet"),
        ("python t.py --train-file /x/squad/train.json", "python t.py --train-file /x/wikitext/train.json"),
        ("env BATCH_SIZE=8 python t.py", "env BATCH_SIZE=512 python t.py"),
        ("bash -c 'BATCH_SIZE=8 python t.py'", "bash -c 'export BATCH_SIZE=512; python t.py'"),
        ("torchrun --nproc_per_node 2 t.py", "torchrun --nproc_per_node 8 t.py"),
        ("accelerate launch t.py", "accelerate launch --mixed_precision fp16 t.py"),
    ],
)
def test_other_work_has_another_signature(one: str, other: str) -> None:
    assert known_by(one) != known_by(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("python t.py --seed 1", "python t.py --seed 2"),
        ("python t.py --rng 3407", "python t.py --rng 1"),
        ("python t.py --gpu-id 1", "python t.py --gpu-id 0"),
        ("python t.py --weights-out a.pt", "python t.py --weights-out b.pt"),
        ("python t.py --experiment run7", "python t.py --experiment run8"),
        ("python t.py --data-dir /scratch/81642/data", "python t.py --data-dir /scratch/7/data"),
        ("bash -c 'python t.py --seed 1'", "bash -c 'python t.py --seed 2'"),
        ("bash -c 'python t.py'", "timeout 3600 nice python -u t.py"),
        ("python t.py out/1", "python t.py out/2"),
        ("torchrun --rdzv_port 1 t.py", "torchrun --rdzv_port 2 t.py"),
    ],
)
def test_the_same_work_has_the_same_signature(one: str, other: str) -> None:
    assert known_by(one) == known_by(other)


def test_a_module_or_target_of_another_folder_is_another_kind() -> None:
    assert kind_of("make", "train", cwd="/home/alice/a") != kind_of("make", "train", cwd="/home/alice/b")
    found = kind_of("python", "-m", "src.train", cwd="/home/alice/a", script="/home/alice/a/src/train.py")
    assert found == "alice:~/a/src/train.py"


def test_a_changed_script_keeps_the_kind_and_changes_the_signature():
    one, two = (describe(Submission(command=("python", "t.py"), cwd="/x", script_sha256=c * 64), "alice") for c in "ab")
    assert one[0] == two[0]
    assert one[1] != two[1]


def test_masked_values_change_neither_signature_nor_features():
    one, two = (
        describe(Submission(command=("python", "t.py", "--lr", lr, "--data", data), cwd="/x"), "alice")
        for lr, data in (("0.1", "/a/cifar"), ("0.2", "/c/cifar/train"))
    )
    assert one == two
    assert "/a/b" not in repr(one)


def test_secrets_are_in_no_feature():
    words = ("--password", "hunter2", "--hf_token=hunter2", "--api-key", "hunter2", "--note", "hunter2")
    assert "hunter2" not in repr(
        features_of("python", "t.py", *words, env={"WANDB_API_KEY": "hunter2", "TOKEN": "hunter2"})
    )


def test_values_are_those_of_the_command_and_of_the_variables():
    features = features_of("python", "t.py", "--hidden=64", "data.n_train=9", "3", env={"DEPTH": "2", "PATH": "/bin"})
    assert features["values"] == {"argument-1": 3.0, "depth": 2.0, "hidden": 64.0, "n-train": 9.0}
    assert features["given"] == ["argument-1", "depth", "hidden", "n-train"]


def test_features_hold_the_sizes():
    features = features_of(
        "python", "t.py", "--bs=64", "--img-size", "128x512", "--seq-len=9", "--arch", "ResNet50", "--bf16", gpus=2
    )
    assert features["batch_size"] == 64
    assert features["batch_log2"] == 6
    assert features["image_size"] == 256
    assert features["sequence_length"] == 9
    assert features["model"] == "ResNet50"
    assert features["precision"] == "bf16"
    assert features["gpus"] == 2
    assert "model:resnet50" in features["tokens"]  # type: ignore[operator]
    assert "family:resnet" in features["tokens"]  # type: ignore[operator]


def test_sizes_not_on_the_command_line_are_unknown_not_zero():
    features = features_of("python", "t.py", "--batch-size", "0")
    assert features["batch_size"] is None
    assert features["model"] is None


option_names = st.from_regex(r"[a-z]{3,8}(-[a-z]{3,8})?", fullmatch=True).filter(lambda name: "size" not in name)
values = st.one_of(st.integers().map(str), st.floats(allow_nan=False).map(str), st.text("abcdefghij./", min_size=1))


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(option_names, st.tuples(values, values), max_size=6), st.randoms(use_true_random=False))
def test_the_kind_ignores_masked_values_and_the_order_of_options(
    options: dict[str, tuple[str, str]], chance: random.Random
):
    unmasked = {"model", "net", "img", "half", "amp", "dtype", "arch", "size", "precision", "backbone", "network"}
    kept = {name: pair for name, pair in options.items() if name not in unmasked}
    first = [f"--{name}={one}" for name, (one, _) in kept.items()] + ["--batch-size=8"]
    second = [f"--{name}={other}" for name, (_, other) in kept.items()] + ["--batch-size=8"]
    chance.shuffle(second)
    assert kind_of("python", "t.py", *first) == kind_of("python", "t.py", *second)


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.one_of(st.text(max_size=20), st.from_regex(r"\A-{0,2}[a-z]{0,4}=?\S{0,9}\Z")), max_size=12),
    st.one_of(st.none(), st.text(min_size=1, max_size=20)),
    st.text(max_size=8),
)
def test_describe_takes_any_command(command: list[str], script: str | None, owner: str):
    kind, signature, features = describe(Submission(command=tuple(command), cwd="/x", script=script), owner)
    assert len(kind) <= LONGEST_KIND
    assert kind.isprintable() or not kind.isascii()
    assert signature.startswith(kind)
    assert features["tokens"] is not None


def test_absurdly_many_arguments_keep_the_kind_short():
    one = kind_of("python", "t.py", *(f"--option-{i}=x" for i in range(4000)))
    other = kind_of("python", "t.py", *(f"--option-{i}=x" for i in range(3999)))
    assert len(one) <= LONGEST_KIND
    assert one != other


def test_numbers_too_large_for_a_size_are_masked():
    assert kind_of("python", "t.py", "--batch-size", "9" * 5000).endswith("--batch-size=*")


# --- what the script says -------------------------------------------------------------------------------------------


def hints_of(**fields: object) -> Hints:
    return msgspec.convert(fields, Hints)


def described(*words: str, hints: Hints | None = None) -> dict[str, object]:
    return features_of("python", "t.py", *words, script="t.py", hints=hints)


def test_script_fills_in_settings_that_the_command_does_not_give():
    hints = hints_of(
        framework="pytorch",
        constructors=["resnet50"],
        layers={"Linear": 1},
        settings={"batch": {"value": "64", "origin": "default"}, "optimizer": {"value": "SGD", "origin": "script"}},
    )
    features = described("--epochs", "5", hints=hints)
    assert (features["batch_size"], features["batch_log2"], features["epochs"]) == (64, 6, 5)
    assert (features["framework"], features["model"], features["model_family"]) == ("pytorch", "resnet50", "resnet")
    assert (features["optimizer"], features["parameters"], features["layers"]) == ("sgd", 25_557_032, {"Linear": 1})
    assert features["origins"] == {"batch": "default", "epochs": "argument", "optimizer": "script"}
    tokens = features["tokens"]
    assert {"framework:pytorch", "constructor:resnet50", "family:resnet", "layer:linear", "optimizer:sgd"} <= set(
        tokens
    )  # type: ignore[call-overload]


def test_the_command_goes_before_the_script():
    hints = hints_of(
        settings={"batch": {"value": "64", "origin": "default"}, "model": {"value": "vgg16", "origin": "default"}}
    )
    features = described("-b", "8", "--arch", "bert-base-uncased", hints=hints)
    assert (features["batch_size"], features["model"], features["model_family"]) == (8, "bert-base-uncased", "bert")
    assert features["origins"] == {"batch": "argument", "model": "argument"}


def test_hints_change_the_signature_but_never_the_kind():
    small, large = (hints_of(settings={"batch": {"value": size, "origin": "default"}}) for size in ("8", "64"))
    one, two = (
        describe(Submission(command=("python", "t.py"), cwd="/x", hints=hints), "alice") for hints in (small, large)
    )
    assert one[0] == two[0]
    assert one[1] != two[1]


def test_where_a_value_was_read_does_not_change_the_signature():
    read = (hints_of(settings={"batch": {"value": "8", "origin": origin}}) for origin in ("default", "config file"))
    one, two = (describe(Submission(command=("python", "t.py"), cwd="/x", hints=hints), "alice") for hints in read)
    assert one[1] == two[1]


def test_impossible_hint_values_are_ignored():
    hints = hints_of(
        settings={"batch": {"value": "many", "origin": "script"}, "precision": {"value": "rm -rf", "origin": "script"}}
    )
    features = described(hints=hints)
    assert (features["batch_size"], features["precision"], features["origins"]) == (None, None, {})


@pytest.mark.parametrize(
    ("names", "layers", "known"),
    [
        (["AutoModel.from_pretrained:distilbert-base-uncased"], {}, "distilbert"),
        (["vit_base_patch16_224"], {}, "vit"),
        (["EfficientNetB0"], {}, "efficientnet"),
        (["WideResNet"], {}, "wide_resnet"),
        (["meta-llama/Llama-2-7b-hf"], {}, "llama"),
        (["Net"], {"Conv2d": 2, "Linear": 2}, "cnn"),
        (["Net"], {"LSTM": 1, "Linear": 1}, "rnn"),
        (["build"], {"MultiHeadAttention": 2, "Dense": 5}, "transformer"),
        (["Activity"], {}, None),
        ([], {}, None),
    ],
)
def test_families_by_name_or_else_by_layers(names: list[str], layers: dict[str, int], known: str | None):
    assert family(names, layers) == known


@pytest.mark.parametrize(
    ("name", "count"),
    [("resnet50", 25_557_032), ("org/bert-base-uncased", 109_482_240), ("llama-2-7b", 7_000_000_000), ("net", None)],
)
def test_parameters_of_well_known_models(name: str, count: int | None):
    assert parameters([name]) == count


# --- the tasks of an array ------------------------------------------------------------------------------------------


def array_of(*command: str, tasks: str, hints: Hints | None = None, **params: tuple[str, ...]) -> JobRecord:
    submission = Submission(
        command=("/usr/bin/python3", "train.py", *command),
        cwd="/home/alice",
        script="train.py",
        hints=hints,
        array=ArrayTasks(tasks=tasks, params=params),
    )
    new = JobRecord(submission=submission, owner="alice", uid=1, kind="", signature="", features={}, submitted_at=0.0)
    return describe_tasks(new, describe)


@pytest.mark.parametrize("words", [[f"--o{number}=1" for number in range(8000)], ["x" * 100_000] * 18])
def test_an_array_that_it_would_take_hours_to_read_is_refused(words: list[str]):
    sizes = tuple(str(number) for number in range(1, 2001))
    with pytest.raises(BadInput, match="2,000 tasks are too many to read") as refused:
        array_of(*words, "--hidden", "{hidden}", tasks="1-2000", hidden=sizes)
    assert "such tasks at a time" in str(refused.value.fix)


def tasks_of(of: JobRecord) -> list[JobRecord]:
    return [task_record(of, JobId(1), place) for place in range(of.job_count)]


def test_tasks_that_differ_in_what_does_not_matter_are_one_signature():
    values = {"lr": ("0.1", "0.1", "0.01", "0.01"), "seed": ("1", "2", "1", "2")}
    of = array_of("--lr", "{lr}", "--seed={seed}", "--fold", "{task}", tasks="0-3", **values)
    assert of.variants == ()
    assert {task.signature for task in tasks_of(of)} == {of.signature}
    assert of.kind == "alice:~/train.py --fold=* --lr=*"


def test_a_task_is_described_as_the_same_job_submitted_by_itself():
    of = array_of("--hidden", "{w}", "-b", "{b}", tasks="0-2", w=("8", "16", "16"), b=("32", "32", "64"))
    assert len(of.variants) == 2
    for task in tasks_of(of):
        alone = describe(msgspec.structs.replace(task.submission, env={}), "alice")
        assert (task.kind, task.signature, task.features) == alone


def test_a_parameter_is_a_given_setting_whatever_was_read_of_the_script():
    hints = Hints(framework="pytorch", values={"hidden": 8.0, "depth": 2.0}, given=("hidden",))
    first, second = tasks_of(
        array_of("--hidden", "{w}", "--heads={h}", tasks="0-1", hints=hints, w=("8", "16"), h=("1", "1"))
    )
    assert first.features["values"] == {"depth": 2.0, "heads": 1.0, "hidden": 8.0}
    assert second.features["values"] == {"depth": 2.0, "heads": 1.0, "hidden": 16.0}
    assert second.features["given"] == ["heads", "hidden"]


def test_a_parameter_that_is_a_variable_only_is_a_setting_by_its_own_name():
    first, second = tasks_of(array_of(tasks="0-1", width=("8", "16")))
    assert (first.features["values"], second.features["values"]) == ({"width": 8.0}, {"width": 16.0})


@pytest.mark.parametrize(
    ("command", "setting", "params"),
    [
        (("--idx", "{i}"), "choice-of-idx", {"i": ("0", "1", "1")}),
        (("--idx={task}",), "choice-of-idx", {}),
        ((), "choice-of-slurm-array-task-id", {}),
        ((), "choice-of-trial", {"TRIAL": ("0", "1", "1")}),
    ],
)
def test_tasks_that_take_other_places_of_a_list_are_other_work(
    command: tuple[str, ...], setting: str, params: dict[str, tuple[str, ...]]
):
    hints = Hints(framework="pytorch", values={setting: "no-0"}, given=(setting,))
    first, second, third = tasks_of(array_of(*command, tasks="0-2", hints=hints, **params))
    assert (first.features["values"], second.features["values"]) == ({setting: "no-0"}, {setting: "no-1"})
    assert first.signature != second.signature
    assert (third.signature == second.signature) is bool(params)


def test_a_task_with_a_factor_is_other_work_than_one_whose_factor_is_zero():
    hints = Hints(framework="pytorch", values={"dropout": 0.0, "hidden": 64.0}, given=("dropout",))
    first, second, third = tasks_of(array_of("--dropout", "{p}", tasks="0-2", hints=hints, p=("0", "0.1", "0.2")))
    assert (first.features["values"], second.features["values"]) == ({"dropout": 0.0, "hidden": 64.0}, {"hidden": 64.0})
    assert first.signature != second.signature == third.signature


def test_a_place_in_a_list_that_is_the_same_for_all_tasks_makes_no_variants():
    hints = Hints(framework="pytorch", values={"choice-of-idx": "no-0"}, given=("choice-of-idx",))
    assert array_of("--idx", "0", "--seed", "{task}", tasks="0-2", hints=hints).variants == ()


def test_a_variable_of_the_name_of_an_option_counts_beside_it():
    hints = Hints(framework="pytorch", values={"width": 64.0}, given=("width",))

    def values(width: str) -> object:
        return features_of("python", "train.py", "--width", "64", hints=hints, env={"WIDTH": width})["values"]

    assert values("64") == {"width": 64.0}
    assert values("1024") == {"width": 64.0, "variable-width": 1024.0}
