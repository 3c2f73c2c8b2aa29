"""Families of models: names that mean the same design, and the parameter counts of well-known models.

Commands and scripts spell one design in many ways (`resnet50`, `models.resnet50`, `ResNet-50`). Kinds of one family are
evidence for each other, so names are reduced to a family's name. Parameter counts come from `architectures`, the only table
of networks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gpuq.learn.features.architectures import find

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
# (a spelling, its family) in the order of the families.
_SPELLINGS = tuple((spelling, name) for name in _FAMILIES for spelling in {name, name.replace("_", "")})
# Short names count only as whole words: `opt` is also in `options`, `gat` in `aggregate`, `vit` in `activity`.
_SHORT = {name: re.compile(rf"(?<![a-z]){name}(?![a-z])") for name in _FAMILIES if len(name) <= 4}
_SIZE = re.compile(r"(?<![a-z\d.])(\d{1,4}(?:\.\d+)?)(b|m)(?![a-z\d])")
# Layers that identify a design where no name does; the first row with a match counts.
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


def family(names: Iterable[str], layers: Mapping[str, int]) -> str | None:
    """The family of the first name that has one, in lower case; else the design that its layers suggest; else None."""
    for name in names:
        plain = _plain(name)
        for spelling, known in _SPELLINGS:
            if spelling in plain and (known not in _SHORT or _SHORT[known].search(plain)):
                return known
    present = {name.lower() for name in layers}
    return next((found for telling, found in _BY_LAYERS if present.intersection(telling)), None)


def parameters(names: Iterable[str]) -> int | None:
    """The parameter count of the first known name: from `architectures`, or from the name itself (`llama-2-7b`); else None."""
    for name in names:
        known = find(name)
        if known is not None:
            return known.parameters
        # `AutoModel.from_pretrained:org/llama-2-7b`
        short = re.split(r"[:/]", _plain(name))[-1]
        size = _SIZE.search(short.replace("_", "-"))
        if size:
            return round(float(size[1]) * (1e9 if size[2] == "b" else 1e6))
    return None


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
