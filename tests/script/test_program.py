"""What a command runs behind launchers, interpreters and simple shell code."""

from __future__ import annotations

import shlex
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.script.program import Program, ProgramKind, program

HERE = "/home/ada/vision"


def of(line: str, stdin: str | None = None) -> Program:
    return program(shlex.split(line), HERE, stdin=stdin)


@pytest.mark.parametrize(
    "line",
    [
        "python train.py --lr 1",
        "/venv/bin/python3.11 -u -W ignore -X dev train.py --lr 1",
        "python -O train.py --lr 1",
        "python -m cProfile -o out.prof train.py --lr 1",
        "python -m torch.distributed.run --nproc_per_node 2 train.py --lr 1",
        "python -m accelerate.commands.launch train.py --lr 1",
        "python -m debugpy --listen 5678 --wait-for-client train.py --lr 1",
        "torchrun --standalone --nproc_per_node=2 train.py --lr 1",
        "accelerate launch --num_processes 2 train.py --lr 1",
        "timeout 3600 python train.py --lr 1",
        "timeout -k 10 1h nice -n 10 nohup python train.py --lr 1",
        "env A=1 python train.py --lr 1",
        "/usr/bin/env -S 'python -u train.py' --lr 1",
        "srun -n 4 --gres=gpu:1 -p gpu python train.py --lr 1",
        "taskset -c 0-3 numactl -m 0 python train.py --lr 1",
        "/usr/bin/time -v stdbuf -oL python train.py --lr 1",
        "conda run --no-capture-output -n vision python train.py --lr 1",
        "uv run train.py --lr 1",
        "apptainer exec --nv image.sif python train.py --lr 1",
        "docker run --gpus all -v /home/ada:/home/ada --rm image python /home/ada/vision/train.py --lr 1",
        "xvfb-run -a python train.py --lr 1",
        "systemd-run --user --scope python train.py --lr 1",
        "bash -c 'python train.py --lr 1'",
        "bash -lc 'cd /home/ada/vision && python train.py --lr 1'",
        "bash -ec 'source ~/venv/bin/activate; exec python train.py --lr 1 > log.txt 2>&1'",
        "sh -c 'set -e\nmkdir -p out\npython train.py \\\n  --lr 1 2>&1 | tee out/log'",
        "bash -lc 'module load cuda && conda activate vision && srun python train.py --lr 1'",
        "timeout 60 bash -c 'python train.py --lr 1'",
        "bash -euo pipefail -c 'python train.py --lr 1'",
        "bash -c 'python train.py --lr 1 || exit 1'",
        "bash -c 'cd /tmp || { echo none; exit 1; }; cd /home/ada/vision; python train.py --lr 1'",
        "bash -c '(cd /tmp; date); (cd /home/ada/vision && python train.py --lr 1 2> errors) | tee log'",
        "bash -c 'args=\"--lr 1\"; python train.py $args'",
        "env -C ../vision python train.py --lr 1",
        "uv run --directory=../vision train.py --lr 1",
        "srun -D/home/ada/vision -n 2 python train.py --lr 1",
        "docker run -it --gpus all -v /home/ada:/w:ro -w /w/vision image python train.py --lr 1",
        "docker run --mount type=bind,source=/home/ada/vision,target=/w --entrypoint python image /w/train.py --lr 1",
        "apptainer exec --nv -B /home/ada/vision:/w image.sif python /w/train.py --lr 1",
        "srun --container-image=image --container-mounts=/home/ada:/w --container-workdir=/w/vision python train.py --lr 1",
        "enroot start --mount /home/ada/vision:/w image python /w/train.py --lr 1",
        "ch-run -b /home/ada/vision:/w image -- python /w/train.py --lr 1",
        "python3 -m gpuq_environment --module=cuda/12 --image=x.org/y:1 -- python3 train.py --lr 1",
        "python3 -m gpuq_environment --module=cuda/12 -- bash -c 'python train.py --lr 1'",
    ],
)
def test_the_script_is_found(line: str) -> None:
    found = of(line)
    assert (found.kind, found.name, found.arguments) == (ProgramKind.SCRIPT, f"{HERE}/train.py", ("--lr", "1"))
    words = shlex.split(line)
    assert found.first is None or tuple(words[found.first :]) == found.arguments


@pytest.mark.parametrize(
    ("line", "kind", "name", "arguments"),
    [
        ("python -m src.train --lr 1", ProgramKind.MODULE, "src.train", ("--lr", "1")),
        ("python -um src.train", ProgramKind.MODULE, "src.train", ()),
        ("torchrun --nproc_per_node 2 -m src.train", ProgramKind.MODULE, "src.train", ()),
        ("accelerate launch --module src.train", ProgramKind.MODULE, "src.train", ()),
        ("numactl -m 0 ./simulate 3", ProgramKind.SCRIPT, f"{HERE}/simulate", ("3",)),
        ("srun -n 4 -p gpu ./simulate 3", ProgramKind.SCRIPT, f"{HERE}/simulate", ("3",)),
        ("timeout 3600 simulate data/x", ProgramKind.COMMAND, "simulate", ("data/x",)),
        ("env A=1 simulate 3", ProgramKind.COMMAND, "simulate", ("3",)),
        ("bash -euxo pipefail run.sh 3", ProgramKind.SCRIPT, f"{HERE}/run.sh", ("3",)),
        ("bash +o history -O extglob - run.sh", ProgramKind.SCRIPT, f"{HERE}/run.sh", ()),
        ("matlab -nodisplay -batch 'print(1)'", ProgramKind.CODE, "-c d287bb7f", ()),
        ("perl -MData::Dumper parse.pl", ProgramKind.SCRIPT, f"{HERE}/parse.pl", ()),
        ("docker run --gpus all --rm team/model:1", ProgramKind.COMMAND, "team/model:1", ()),
        ("docker run --rm team/model:1 --lr 1", ProgramKind.COMMAND, "team/model:1", ("--lr", "1")),
        ("python3 -m gpuq_environment --image=i -- python -m pkg.a -x", ProgramKind.MODULE, "pkg.a", ("-x",)),
        ("apptainer run --nv image.sif", ProgramKind.SCRIPT, f"{HERE}/image.sif", ()),
        ("uv run --frozen train small", ProgramKind.COMMAND, "train", ("small",)),
        ("julia --project=. -t 4 train.jl", ProgramKind.SCRIPT, f"{HERE}/train.jl", ()),
        ("python -c 'print(1)' x", ProgramKind.CODE, "-c d287bb7f", ("x",)),
        ("ray job submit -- python train.py", ProgramKind.SCRIPT, f"{HERE}/train.py", ()),
        ("sleep 3", ProgramKind.COMMAND, "sleep", ("3",)),
        ("python", ProgramKind.COMMAND, "python", ()),
        ("timeout", ProgramKind.COMMAND, "timeout", ()),
    ],
)
def test_what_else_a_command_runs(line: str, kind: ProgramKind, name: str, arguments: tuple[str, ...]) -> None:
    found = of(line)
    assert (found.kind, found.name, found.arguments) == (kind, name, arguments)


@pytest.mark.parametrize(
    ("line", "name", "path"),
    [
        ("make train LR=1", "make", HERE),
        ("make -C ../other train", "make", "/home/ada/other"),
        ("make -f other.mk", "make", f"{HERE}/other.mk"),
        ("snakemake results/small.txt", "snakemake", f"{HERE}/results/small.txt"),
        ("dotnet run --project ../other", "dotnet", "/home/ada/other"),
        ("papermill in.ipynb out.ipynb", "papermill", f"{HERE}/in.ipynb"),
        ("python -m papermill in.ipynb out.ipynb", "papermill", f"{HERE}/in.ipynb"),
        ("jupyter nbconvert --to notebook --output out.ipynb --execute in.ipynb", "jupyter", f"{HERE}/in.ipynb"),
        ("python -m lightning run model small.py", "lightning", f"{HERE}/small.py"),
        ("R --no-save -f small.R", "R", f"{HERE}/small.R"),
        ("gpurun python small.py", "gpurun", f"{HERE}/small.py"),
        ("pixi run train", "train", HERE),
        ("uv run --project ../other train", "train", "/home/ada/other"),
        ("conda run -n vision train 3", "train", HERE),
        ("mpirun -np 4 lmp -sf gpu -in in.melt", "lmp", f"{HERE}/in.melt"),
        ("relion_refine --o out/a.star --i small.star", "relion_refine", f"{HERE}/small.star"),
        ("srun -n 4 vasp_std", "vasp_std", HERE),
        ("/opt/bin/gmx mdrun -deffnm nvt", "/opt/bin/gmx", HERE),
        ("make -f other.mk results/small.txt", "make", f"{HERE}/other.mk:results/small.txt"),
        ("make -C../other", "make", "/home/ada/other"),
        ("dvc repro small/dvc.yaml", "dvc", f"{HERE}/small/dvc.yaml"),
        ("pixi run --manifest-path ../other/pixi.toml train", "train", "/home/ada/other"),
        ("gpurun --chdir ../other python small.py", "gpurun", "/home/ada/other/small.py"),
        ("srun --container-image=image:1 python /app/train.py", "/app/train.py", "image:1"),
        ("docker run image:1 python /app/train.py", "/app/train.py", "image:1"),
        ("docker exec -w /app box python train.py", "/app/train.py", "box"),
        ("apptainer exec image.sif python /opt/train.py", "/opt/train.py", "image.sif"),
        ("python3 -m gpuq_environment --image=x.org/y:1 -- python /app/train.py", "/app/train.py", "x.org/y:1"),
        ("python3 -m gpuq_environment --module=gmx -- gmx mdrun -s a.tpr", "gmx", f"{HERE}/a.tpr"),
    ],
)
def test_a_command_that_does_what_a_file_says_differs_by_its_path(line: str, name: str, path: str) -> None:
    assert (of(line).name, of(line).of) == (name, path)


@pytest.mark.parametrize("line", ["ffmpeg -i parts/{}.mp4 out.mp4", "./simulate /scratch/run{}/in.h5"])
def test_parts_of_one_data_set_are_the_same_work(line: str) -> None:
    assert of(line.format(1)).of == of(line.format(20)).of != of(line.format("x")).of


@pytest.mark.parametrize("line", ["./tool --config small.yaml", "./tool --out small.h5", "./tool --url http://x/y.h5"])
def test_settings_and_results_are_no_input_of_a_program(line: str) -> None:
    assert of(line).of == ""


def test_the_folder_of_a_program_in_a_container_is_the_hosts_or_unknown() -> None:
    assert of("docker run -v /data/a:/w -w /w/x image python train.py").cwd == "/data/a/x"
    assert of("docker run -v /data/a:/w image python /w/train.py").cwd is None
    assert of("docker run -v volume:/w -w /w image python train.py").cwd is None
    assert of("docker run -e LR=1 image python train.py").env == {"LR": "1"}


def test_the_arguments_of_a_run_in_shell_code_may_have_variables() -> None:
    line = """bash -c 'root=$HOME/x; python train.py --seed 1 --data "$root/a b" --out $SCRATCH/y'"""
    assert of(line).arguments == ("--seed", "1", "--data", "~/x/a b", "--out", "$SCRATCH/y")


@pytest.mark.parametrize(
    "code",
    [
        "for i in 1 2; do python train.py; done",
        "python prepare.py && python train.py",
        "python train.py $ARGS",
        "python train.py & wait",
        "python train.py || python other.py",
        "cat list | xargs python train.py",
        "python train.py $(cat args)",
        "python train.py < input",
        "python train.py <<< input",
        "python train.py --lr {1,2}",
        "f() (python train.py)",
        "cd a",
    ],
)
def test_other_shell_code_is_known_by_its_digest(code: str) -> None:
    found = program(("bash", "-c", code), HERE)
    other = program(("bash", "-c", f"{code} "), HERE)
    assert found.kind is ProgramKind.CODE
    assert found.name != other.name


def test_what_a_command_sets_and_where_it_runs_counts() -> None:
    found = of("env BATCH_SIZE=8 bash -c 'cd a; export MODEL=big; LR=1 python train.py'")
    assert found.env == {"BATCH_SIZE": "8", "MODEL": "big", "LR": "1"}
    assert (found.cwd, found.name) == (f"{HERE}/a", f"{HERE}/a/train.py")


def test_options_of_launchers_that_change_the_work_are_kept() -> None:
    found = of("torchrun --nproc_per_node 8 --rdzv_port 7 train.py")
    assert found.launched == (("nproc-per-node", "8"),)
    assert of("accelerate launch --mixed_precision=fp16 train.py").launched == (("mixed-precision", "fp16"),)


def test_a_script_on_standard_input() -> None:
    assert of("python - --lr 1", stdin="print(1)").name == "- d287bb7f"
    submitted = of("bash -s", stdin="#!/bin/bash\n#SBATCH -n 1\ncd a\npython train.py --seed 1\n")
    assert (submitted.name, submitted.arguments) == (f"{HERE}/a/train.py", ("--seed", "1"))
    assert of("bash", stdin="python a.py\npython b.py\n").kind is ProgramKind.CODE


# fmt: off
WORDS = st.lists(
    st.sampled_from([
        "python", "-m", "-c", "bash", "-lc", "env", "A=1", "srun", "timeout", "5", "x.py", "-S", "a b", "--", "'", "", "docker",
        "run", "apptainer", "-v", "/a:/b", "-w", "--chdir", "--entrypoint", "make", "(cd a; $b 'c' | tee", "./tool", "-euo", "-f",
        "a.ipynb", "--container-image",
    ]),
    max_size=9,
)
# fmt: on


@given(WORDS)
def test_no_command_is_too_odd(words: list[str]) -> None:
    found = program(words, HERE)
    assert found.first is None or found.arguments == tuple(words[found.first :])


@pytest.mark.parametrize(
    ("line", "around"),
    [
        (
            "accelerate launch --use_fsdp --zero_stage 3 --config_file a.yaml train.py",
            ["--use-fsdp=true", "--zero-stage=3", "--config-file=a.yaml"],
        ),
        ("accelerate launch train.py", ["--config-file=~/.cache/huggingface/accelerate/default_config.yaml"]),
        ("fabric run --strategy ddp --precision 32-true train.py", ["--strategy=ddp", "--precision=32-true"]),
        (
            "srun -p gpu torchrun --nproc_per_node 2 --master_port 9 --rdzv_id=7 --node_rank 1 train.py",
            ["--nproc-per-node=2"],
        ),
        ("deepspeed --hostfile h --include localhost:0,1 --master_addr x train.py", []),
        ("timeout 60 nice -n 10 conda run -n vision python train.py", []),
        (
            "docker run --env-file a.env -v /data/small:/data -v .:/w -v ./out:/results i python /w/train.py",
            [f"--env-file={HERE}/a.env", "--data-at-data=/data/small"],
        ),
        ("apptainer run --nv --bind /data/small:/data x.sif", ["--data-at-data=/data/small"]),
        ("bash -c 'source ~/venv/bin/activate; . ./a.env && python train.py'", [f"--source={HERE}/a.env"]),
    ],
)
def test_what_launchers_containers_and_files_of_variables_say_of_the_settings(line: str, around: list[str]):
    """Where the processes meet, what they print and what only wraps them says nothing."""
    assert list(of(line).around) == around


def test_a_command_of_thousands_of_words_costs_little_time():
    began = time.process_time()
    for first, others in (("x", ("python", "--version")), ("srun", ("python", "--version")), ("sudo", ("-oL", "bash"))):
        words = (first, *others * 2000)
        assert program(words, HERE).arguments[-1] == others[-1]
        program(("bash", "-c", " ".join(words)), HERE)
    assert time.process_time() - began < 2.0


@pytest.mark.parametrize(
    "code",
    [
        "a=x\n" + "a=$a$a\n" * 60,
        "a=x\n" + 'a="${a}${a}"\n' * 60,
        "".join(f"a{number}=\n" for number in range(8000)),
        "".join(f"a{number}=\n" for number in range(90)) + "(" * 60_000,
        "cd a\n" * 12_000,
    ],
    ids=["doubled", "doubled in quotes", "variables", "parentheses", "folders"],
)
def test_code_that_grows_while_it_is_read_is_not_simple(code: str):
    """Whoever may submit hands in such code, and the endpoint reads it."""
    began = time.process_time()
    assert program(("bash", "-c", code), HERE).kind is ProgramKind.CODE
    assert time.process_time() - began < 1.0
