"""The settings that each script of the corpus is measured at: the words after the script, and variables of the job.

The first of each is the usual one; the others change a size, the batch, the length of the run, or something that should
not matter. `NEEDS` names what a script imports that gpuq's own environment does not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"
CONF = "conf"


@dataclass(frozen=True)
class Setting:
    """One way to start a script."""

    words: str = ""
    env: tuple[tuple[str, str], ...] = ()

    @property
    def label(self) -> str:
        """The setting as one would type it."""
        return " ".join([*(f"{name}={value}" for name, value in self.env), self.words]).strip() or "(as it is)"


def _words(*lines: str) -> tuple[Setting, ...]:
    return tuple(Setting(line) for line in lines)


def _env(*lines: str) -> tuple[Setting, ...]:
    pairs = (tuple(tuple(pair.split("=", 1)) for pair in line.split()) for line in lines)
    return tuple(Setting(env=found) for found in pairs)  # type: ignore[arg-type]


SETTINGS: dict[str, tuple[Setting, ...]] = {
    "mlp": _words(
        "", "--hidden 1536", "--hidden 1024 --layers 6", "--batch-size 512", "--epochs 5", "--lr 0.003 --seed 4 --save-model",
    ),
    "tinygpt": _words(
        "--n_layer=4 --n_embd=128",
        "--n_layer=8 --n_embd=320",
        "--n_layer=7 --n_embd=128",
        "--n_layer=4 --n_embd=128 --batch_size=16",
        "--n_layer=4 --n_embd=128 --max_iters=30",
        "--n_layer=4 --n_embd=128 --out_dir=out-small --log_interval=1",
    ),
    "keras_mnist": _words(
        "", "--filters 48", "--img-size 48", "-b 128", "--epochs 4", "--dropout 0.2 --run-name second",
    ),
    "wordlm": _words(
        "", "--emsize 256 --nhid 256", "--nlayers 2", "--bptt 32 --batch_size 32", "--steps 20", "--lr 5 --save other.pt",
    ),
    "kgan": _words(
        "", "--ngf 64", "--imageSize 64", "--batchSize 64", "--niter 12", "--manualSeed 7 --beta1 0.9",
    ),
    "clicks": _words(
        "", "--n-features 6000", "--n-samples 40000", "--batch-size 4000", "--epochs 4", "--verbose --random-state 3",
    ),
    "autoencoder": _words(
        *(f"--config {CONF}/ae_{name}.yaml" for name in ("small", "wide", "moredata", "batch", "long", "copy")),
    ),
    "tabular": _words(
        f"{CONF}/tab.json",
        f"{CONF}/tab_large.json",
        f"{CONF}/tab.json rows=40000",
        f"{CONF}/tab.json batch_size=512",
        f"{CONF}/tab.json epochs=5",
        f"{CONF}/tab.json checkpoint_dir=/tmp/tab-two",
    ),
    "forest": _words(
        *(f"--config {CONF}/forest{name}.toml" for name in ("", "_rows", "_features", "_deep", "_rounds", "_seed")),
    ),
    "envtrain": _env(
        "HIDDEN=512", "HIDDEN=1280", "HIDDEN=512 DEPTH=12", "HIDDEN=512 BATCH_SIZE=512", "HIDDEN=512 STEPS=240",
        "HIDDEN=512 LOG_LEVEL=debug SEED=3",
    ),
    "absl_mlp": _words(
        "--hidden_size=256",
        "--hidden_size=1024",
        "--hidden_size=256 --num_layers=6",
        "--hidden_size=256 --train_batch_size=1024",
        "--hidden_size=256 --train_steps=200",
        "--hidden_size=256 --model_dir=/tmp/elsewhere --learning_rate=0.01",
    ),
    "firelike": _words(
        "fit", "fit --width=1600", "fit --rank=128", "fit --minibatch=1024", "fit --n_iter=2000", "fit --name=again --tol=0.01",
    ),
    "hydralike": _words(
        "",
        "model.width=768",
        "model.depth=8 data.n_train=40000",
        "data.batch_size=256",
        "trainer.max_epochs=9",
        "optim.lr=0.01 seed=5 trainer.log_every_n_steps=10",
    ),
    "positional": _words(
        "60000 40 30", "240000 40 30", "60000 160 30", "60000 40 30 128", "60000 40 90", "60000 50 30",
    ),
    "hfstyle": _words(
        "--output_dir out",
        "--output_dir out --hidden_size 256",
        "--output_dir out --num_hidden_layers 6",
        "--output_dir out --per_device_train_batch_size 32",
        "--output_dir out --max_steps 20",
        "--output_dir out2 --learning_rate 1e-4 --seed 1",
    ),
    "minibatch_kmeans": _words(
        "", "-n 240000", "--dim 192", "--chunk 8192", "--passes 6", "--double --tag again",
    ),
    "factorize": _words(
        "", "--rank 96", "--num-users 200000", "--batch 80000", "--n-epochs 8", "--reg 0.1 --out other.npy",
    ),
    "recsys": _words(
        "", "--embedding-dim 128", "--vocab 200000", "--bs 1024", "--max-train-steps 120", "--opt sgd --wandb-project x",
    ),
    "skipgram": _words(
        "", "--dim 300", "--vocab_size 120000", "--batch 2048", "--steps 1200", "--lr 0.01 --report_every 10",
    ),
    "cached": _words(
        "", "--cache", "--cache --resolution 160", "--batch-size 200", "--epochs 4", "--workers 2 --print-freq 1",
    ),
    "optimizers": _words(
        "", "--d-model 2048", "--optimizer adam", "--micro-batch-size 256", "--iterations 120", "--weight-decay 0.1",
    ),
    "boosting": _words(
        "", "--rows 120000", "--cols 120", "--max_bins 63", "--max_iter 80", "--seed 9",
    ),
    "dqn": _words(
        "", "--buffer-size 60000", "--frame 56", "--batch-size 256", "--total-timesteps 12000", "--seed 3 --exp-name other",
    ),
    "gcn": _words(
        "", "--hidden-channels 256", "--num-nodes 60000", "--num-layers 5", "--epochs 40", "--lr 0.1 --log-dir elsewhere",
    ),
    "resnetish": _words(
        "", "--width 48", "--image_size 64", "--batch_size 96", "--num_epochs 4", "--mixed_precision",
    ),
    "vae": _words(
        "", "--hidden 1600", "--latent 80", "--batch-size 1000", "--epochs 6", "--seed 9 --log-interval 1",
    ),
    "torchgpt": _words(
        "--n_layer=3 --n_embd=128",
        "--n_layer=6 --n_embd=256",
        "--n_layer=3 --n_embd=128 --block_size=256",
        "--n_layer=3 --n_embd=128 --gradient_checkpointing",
        "--n_layer=3 --n_embd=128 --max_iters=20",
        "--n_layer=3 --n_embd=128 --out_dir=elsewhere",
    ),
    "torchconv": _words(
        f"--config {CONF}/conv.json",
        f"--config {CONF}/conv.json --set width=48",
        f"--config {CONF}/conv.json --set image_size=96",
        f"--config {CONF}/conv.json --set batch_size=48",
        f"--config {CONF}/conv.json --set epochs=8",
        f"--config {CONF}/conv.json --resume none.pt",
    ),
    # Written when the rules and their numbers were settled, and measured after that.
    "u_segment": _words(
        "", "--base-channels 24", "--crop-size 96", "--train-batch 32", "--max-epochs 6", "--learning-rate 0.01 --results-dir b",
    ),
    "u_pca": _env(
        "N_ROWS=40000", "N_ROWS=120000", "N_ROWS=40000 N_FEATURES=600", "N_ROWS=40000 BATCH=4000", "N_ROWS=40000 N_PASSES=5",
        "N_ROWS=40000 RUN_NAME=second",
    ),
    "u_ppo": _words(
        "", "--num-envs 64", "--hidden-units 768", "--minibatches 1", "--num-updates 60", "--ent-coef 0 --track",
    ),
    "u_textcnn": _words(
        *(f"{CONF}/text{name}.toml" for name in ("", "_deep", "_vocabulary", "_batch", "_epochs", "_again")),
    ),
    "u_gp": _words(
        "", "-n 80000", "-m 1200", "--block 8000", "--sweeps 40", "--ridge 0.1 --plot",
    ),
    "u_lightning": _words(
        "fit",
        "fit --model.hidden_dim 1024",
        "fit --model.num_layers 8 --data.num_samples 40000",
        "fit --data.batch_size 512",
        "fit --trainer.max_epochs 5",
        "fit --optimizer.lr 0.01 --trainer.log_every_n_steps 1",
    ),
    "u_neighbors": _words(
        "", "capacity 160000", "dims 384", "queries 800", "repeats 80", "label b",
    ),
}  # fmt: skip
UNSEEN = tuple(name for name in SETTINGS if name.startswith("u_"))
NEEDS: dict[str, str] = {"u_lightning": "torch", "vae": "torch", "torchgpt": "torch", "torchconv": "torch"}
