"""Families of models: which names mean the same design, and how large the well-known ones are.

Arrives: names as scripts and commands have them. Leaves: a family's name in lower case, and a count of parameters; None for names
that say nothing. Counts are those of torchvision's and Hugging Face's model pages, to three figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# The first that a name contains, so what is longer or more special stands first.
_FAMILIES = (
    *("wide_resnet", "resnext", "resnest", "regnet", "resnet", "densenet", "shufflenet", "squeezenet", "mobilenet"),
    *("efficientnet", "mnasnet", "inception", "googlenet", "xception", "nasnet", "vgg", "alexnet", "lenet", "convnext"),
    *("deeplab", "mask_rcnn", "faster_rcnn", "retinanet", "yolo", "ssd", "unet", "segformer", "swin", "deit", "maxvit"),
    *("clip", "vit", "distilbert", "roberta", "albert", "deberta", "electra", "xlnet", "bert", "distilgpt2", "gpt_neo"),
    *("gpt2", "gpt", "llama", "mistral", "mixtral", "qwen", "gemma", "phi", "opt", "bloom", "falcon", "mamba"),
    *(
        "flan_t5",
        "t5",
        "bart",
        "pegasus",
        "marian",
        "whisper",
        "wav2vec2",
        "hubert",
        "conformer",
        "deepspeech",
        "tacotron",
    ),
    *("stable_diffusion", "sdxl", "ddpm", "diffusion", "dcgan", "stylegan", "cyclegan", "gan", "vae", "autoencoder"),
    *(
        "graphsage",
        "gcn",
        "gat",
        "gnn",
        "schnet",
        "lstm",
        "gru",
        "rnn",
        "transformer",
        "dlrm",
        "ncf",
        "deepfm",
        "dqn",
        "ppo",
    ),
    *("mlp", "cnn"),
)
# Short ones must stand alone: `opt` is in `options`, `gat` in `aggregate`, `vit` in `activity`.
_SHORT = frozenset(name for name in _FAMILIES if len(name) <= 4)
_SIZE = re.compile(r"(?<![a-z\d.])(\d{1,4}(?:\.\d+)?)(b|m)(?![a-z\d])")
# Layers that give a model's design away where no name does; the first that is there.
_BY_LAYERS = (
    (
        ("multiheadattention", "multiheaddotproductattention", "transformerencoder", "transformerencoderlayer"),
        "transformer",
    ),
    (("gcnconv", "sageconv", "gatconv", "ginconv"), "gnn"),
    (("lstm", "lstmcell", "optimizedlstmcell", "gru", "grucell", "rnn", "simplernn", "bidirectional"), "rnn"),
    (("conv1d", "conv2d", "conv3d", "conv", "separableconv2d", "depthwiseconv2d"), "cnn"),
    (("linear", "dense"), "mlp"),
)
_MILLIONS: Mapping[str, float] = {
    "alexnet": 61.1,
    "googlenet": 6.62,
    "inception_v3": 27.2,
    "inceptionv3": 23.9,
    "xception": 22.9,
    "vgg11": 133,
    "vgg13": 133,
    "vgg16": 138,
    "vgg19": 144,
    "squeezenet1_0": 1.25,
    "squeezenet1_1": 1.24,
    "resnet18": 11.7,
    "resnet34": 21.8,
    "resnet50": 25.6,
    "resnet101": 44.5,
    "resnet152": 60.2,
    "resnext50_32x4d": 25.0,
    "resnext101_32x8d": 88.8,
    "wide_resnet50_2": 68.9,
    "wide_resnet101_2": 127,
    "densenet121": 7.98,
    "densenet161": 28.7,
    "densenet169": 14.1,
    "densenet201": 20.0,
    "mobilenet_v2": 3.50,
    "mobilenetv2": 3.50,
    "mobilenet_v3_small": 2.54,
    "mobilenet_v3_large": 5.48,
    "shufflenet_v2_x1_0": 2.28,
    "mnasnet1_0": 4.38,
    "efficientnet_b0": 5.29,
    "efficientnet_b1": 7.79,
    "efficientnet_b2": 9.11,
    "efficientnet_b3": 12.2,
    "efficientnet_b4": 19.3,
    "efficientnet_b5": 30.4,
    "efficientnet_b6": 43.0,
    "efficientnet_b7": 66.3,
    "convnext_tiny": 28.6,
    "convnext_small": 50.2,
    "convnext_base": 88.6,
    "convnext_large": 198,
    "swin_t": 28.3,
    "swin_s": 49.6,
    "swin_b": 87.8,
    "vit_b_16": 86.6,
    "vit_b_32": 88.2,
    "vit_l_16": 304,
    "vit_l_32": 307,
    "vit_base_patch16_224": 86.6,
    "bert_base_uncased": 110,
    "bert_base_cased": 108,
    "bert_large_uncased": 335,
    "distilbert_base_uncased": 66.4,
    "roberta_base": 125,
    "roberta_large": 355,
    "albert_base_v2": 11.7,
    "gpt2": 124,
    "gpt2_medium": 355,
    "gpt2_large": 774,
    "gpt2_xl": 1560,
    "distilgpt2": 82,
    "t5_small": 60.5,
    "t5_base": 223,
    "t5_large": 738,
}


def family(names: Iterable[str], layers: Mapping[str, int]) -> str | None:
    """The family that the first telling name belongs to; else what the layers make it."""
    for name in names:
        plain = _plain(name)
        for known in _FAMILIES:
            if known in _SHORT and not re.search(rf"(?<![a-z]){known}(?![a-z])", plain):
                continue
            if known in plain or known.replace("_", "") in plain:
                return known
    present = {name.lower() for name in layers}
    return next((found for telling, found in _BY_LAYERS if present.intersection(telling)), None)


def parameters(names: Iterable[str]) -> int | None:
    """How many parameters the first known name stands for: from the table, or as it says itself (`llama-2-7b`)."""
    for name in names:
        plain = _plain(name)
        # `AutoModel.from_pretrained:org/bert-base-uncased`
        short = re.split(r"[:/]", plain)[-1]
        millions = _MILLIONS.get(short)
        if millions is not None:
            return round(millions * 1e6)
        said = _SIZE.search(short.replace("_", "-"))
        if said:
            return round(float(said[1]) * (1e9 if said[2] == "b" else 1e6))
    return None


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
