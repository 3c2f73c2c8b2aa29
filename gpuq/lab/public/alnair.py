"""Reads what the Alnair project published about sharing GPUs (github.com/CentaurusInfra/alnair, Apache-2.0).

The files are `alnair_workloads.csv` (or the project's own `Dataset.csv`) and `alnair_seed_pairs.csv`. Rows come as
dictionaries, as finished attempts, or as singles and pairs; columns that must not be features are named with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gpuq.lab.measured import PairMeasurement, SingleMeasurement
from gpuq.lab.public import number, rows
from gpuq.learn.features.architectures import PASSES, find
from gpuq.learn.features.kind import describe
from gpuq.learn.history.outcome import Outcome
from gpuq.messages.submission import Submission

WORKLOADS = ("alnair_workloads.csv", "Dataset.csv")
SEED_PAIRS = "alnair_seed_pairs.csv"

# Notebooks on Colab Pro; the P100 has 16 GB, of which MGMAP is a share.
WORKLOADS_DEVICE = "Tesla P100-PCIE-16GB"
WORKLOADS_MEMORY_BYTES = 16 * 2**30
# "Evaluated on Futurewei Cluster"; its GPUs are not stated.
SEED_PAIRS_DEVICE = "not stated (Futurewei cluster)"

# Image_Classification.py trains one dense layer on a frozen network from TensorFlow Hub, on images of 224 pixels.
_HUB_IMAGE = 224.0
_FROZEN = {
    "MobileNet": "mobilenet",
    "Nasnet_Mobile": "nasnet_mobile",
    "EfficientNet_v2": "efficientnet_v2_s",
    "ResNet50": "resnet50",
    "Inception_v3": "inception_v3",
}
# Multiply-adds of the project's own small networks by layer: positions x kernel x channels in x channels out, in millions.
_GENERATOR = 100 * 12_544 / 1e6 + 49 * 25 * (256 * 128) / 1e6 + 49 * 25 * (128 * 64) / 1e6 + 196 * 25 * 64 / 1e6
_DISCRIMINATOR = 196 * 25 * 64 / 1e6 + 49 * 25 * (64 * 128) / 1e6
_UPSAMPLING = 9 * (16 * 320 * 512 + 64 * 1088 * 256 + 256 * 448 * 128 + 1024 * 272 * 64 + 4096 * 160 * 3) / 1e6
# MobileNetV2 at 128 pixels without its head, frozen.
_ENCODER = 301 * (128 / 224) ** 2
_AGENT = (4 * 100 + 100 * 50 + 50 * 2) / 1e6
_OWN_NETWORKS = {
    # DCGAN_MNIST.py: the discriminator sees generated and real images.
    "DCGAN": 1e6 * PASSES * (_GENERATOR + 2 * _DISCRIMINATOR),
    "Image Segmentation": 1e6 * (_ENCODER + PASSES * _UPSAMPLING),
    # RL_CartPole.py: a Q network of 100 and 50 units, and its target's pass forward.
    "Reinforcement Learning": 1e6 * (PASSES + 1) * _AGENT,
}

_SINCE_BOOT = "counts since boot: shows what ran before"
_CACHES = "the machine's caches: show what was read before"
_MACHINE = "describes the machine, not the job"
_LEAKS = (
    (re.compile(r"CS_|SCT_|DU_|NIO"), _SINCE_BOOT),
    (re.compile(r"SMU_(free|active|inactive|buffers|cached|slab)$"), _CACHES),
    (re.compile(r"SMU_total$|Cor_in_Sys$"), _MACHINE),
    (re.compile(r"ID$"), "the number of the row"),
    (re.compile(r"GPU_Util_%_ran$|Min_GPU_Util_%$"), "the utilisation itself: MGUP is their sum"),
)
# Names in the table of pairs -> names in the table of workloads.
_SEED_JOBS = {
    "Inceptionv3": "Inception_v3 GTSRB",
    "NasnetMobile": "Nasnet_Mobile GTSRB",
    "MobileNet": "MobileNet GTSRB",
    "ResNet50": "ResNet50 GTSRB",
    "DCGAN": "DCGAN MNIST",
    "RL_CartPole": "Reinforcement Learning Cart Pole Problem",
    "ImageSegmentation": "Image Segmentation oxford_iiit_pet",
    "SmallBERT_L2-H128-A2": "small_bert/bert_en_uncased_L-2_H-128_A-2 IMDB",
    "SmallBERT_L4-H512-A8": "small_bert/bert_en_uncased_L-4_H-512_A-8 IMDB",
}


def workloads(folder: Path) -> Path | None:
    """The table of workloads in this folder, if there is one."""
    return next((folder / name for name in WORKLOADS if (folder / name).is_file()), None)


def workload_rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows, tidied: `series` is model and data set. Stray blanks and the data set's version number are dropped."""
    for row in rows(path):
        tidy = {name.strip(): (value or "").strip() for name, value in row.items() if isinstance(name, str)}
        model = re.sub(r"/\s+", "/", tidy.get("Model", ""))
        dataset = re.sub(r"/[\d.]+$", "", tidy.get("Dataset", ""))
        yield {**tidy, "Model": model, "Dataset": dataset, "series": f"{model} {dataset}".strip()}


def workload_outcomes(path: Path) -> list[Outcome]:
    """The workloads as finished attempts, with the features that a submission would have shown before the run.

    Each is described as the command that would have started it: the kind of task (`family`) is the script, model and batch
    size are options, the data set is a word. MGUP is percent, MGMAP is taken of 16 GiB; no duration was measured.
    """
    found = []
    for place, row in enumerate(workload_rows(path)):
        script, model, dataset = f"{row['family']}.py", row["Model"].replace(" ", "-"), row["Dataset"].replace(" ", "-")
        words = ("--model", model, "--epochs", row["Epoch"], "--batch-size", row["BS"], dataset.lower())
        submission = Submission(command=("python", script, *words), cwd="/workloads", script=script)
        kind, signature, features = describe(submission, "alnair")
        features |= _stated(row["Model"])
        utilization, memory = number(row["MGUP"]), number(row["MGMAP"])
        found.append(
            Outcome(
                kind=kind, signature=signature, script_sha256=None, device_type=WORKLOADS_DEVICE, features=features,
                peak_utilization_pct=utilization,
                peak_memory_bytes=None if memory is None else round(memory / 100 * WORKLOADS_MEMORY_BYTES),
                duration_s=None, alone_rate=None, shared_rate=None, slowdowns=(), ending="exited", shared=False,
                ended_at=float(place), attempt=(place, 1),
            )
        )  # fmt: skip
    return found


def _stated(model: str) -> dict[str, float]:
    """Multiply-adds per sample from the project's scripts (open-data/gpu-sharing); empty for other models.

    Of frozen layers only the forward pass counts.
    """
    found = find(_FROZEN.get(model, ""))
    work = _OWN_NETWORKS.get(model) if found is None else found.multiply_adds(_HUB_IMAGE)
    return {} if work is None else {"multiply_adds": work}


def workload_leak(column: str) -> str | None:
    """Why this column of the workloads is no feature; None for one that is."""
    return next((reason for pattern, reason in _LEAKS if pattern.match(column)), None)


def seed_series(job: str) -> str:
    """The `series` in the workloads of a job of the seed pairs; the job itself where there is none."""
    return _SEED_JOBS.get(job, job)


def seed_pair_rows(path: Path) -> Iterator[tuple[dict[str, str], dict[str, float | None]]]:
    """(texts, numbers) of each pair; the columns are those of the file. Raises ValueError for a cell that is no number."""
    texts = {"table", "job_a", "job_b", "cluster_a", "cluster_b"}
    for row in rows(path):
        yield (
            {name: row[name] for name in texts},
            {name: number(value) for name, value in row.items() if name not in texts},
        )


def workload_singles(path: Path) -> list[SingleMeasurement]:
    """The workloads as singles: MGUP is the utilisation, MGMAP of 16 GiB the memory, GTSAMP the memory's utilisation."""
    return [
        SingleMeasurement(
            device_type=WORKLOADS_DEVICE,
            job=f"{row['series']} {row['BS']} #{row['ID']}",
            model=row["Model"],
            batch_size=number(row["BS"]),
            utilization_pct=number(row["MGUP"]),
            memory_utilization_pct=number(row["MaGTSAMP"]),
            peak_memory_mib=float(row["MGMAP"]) / 100 * WORKLOADS_MEMORY_BYTES / 2**20,
            family=row["family"],
        )
        for row in workload_rows(path)
    ]


def seed_pairs(path: Path) -> list[PairMeasurement]:
    """The seed's pairs, without the two rows that contradict themselves. The way of sharing is not stated."""
    return [
        PairMeasurement(
            device_type=SEED_PAIRS_DEVICE,
            sharing=None,
            job_a=f"{row['job_a']}:{row['bs_a']}",
            job_b=f"{row['job_b']}:{row['bs_b']}",
            slowdown_a=number(row["slowdown_a"]),
            slowdown_b=number(row["slowdown_b"]),
        )
        for row in rows(path)
        if row["consistent"] == "1"
    ]
