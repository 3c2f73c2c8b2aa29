"""Well-known networks: how many parameters, and how much memory one sample of a training batch takes.

Arrives: the names that a script or command uses for a network. Leaves: an `Architecture`, as it is in 32 bits. Ignores
heads of another size, frozen layers and checkpointing.

The table's facts were counted on the networks themselves, as torchvision 0.15 defines them, with random weights:
`saved_mib` is the size of all tensors that autograd keeps for the backward pass (`torch.autograd.graph.saved_tensors_hooks`,
each storage once, without parameters), per image of the stated size; `largest_mib` the largest output of one layer. For
language models both follow from layers, width, heads and vocabulary: 66 bytes per layer, token and unit of width, and 9 per
layer, head and pair of tokens (Korthikanti et al., arXiv:2205.05198, equation 1, with 4-byte values and 1-byte masks).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Architecture:
    """A network. MiB per sample of `size`: pixels of a square image's side, or tokens."""

    parameters: int
    saved_mib: float
    largest_mib: float
    size: float = 224
    tokens: bool = False
    square_mib: float = 0.0
    """Saved as well, but growing with the square of the tokens."""

    @property
    def parameters_mib(self) -> float:
        """The weights, 4 bytes each."""
        return self.parameters * 4 / _MIB

    def per_sample(self, size: float | None) -> tuple[float, float]:
        """(saved, largest layer) in MiB for a sample of this size; None: the usual one.

        Layers of an image grow with its area.
        """
        ratio = 1.0 if size is None else size / self.size
        if self.tokens:
            return self.saved_mib * ratio + self.square_mib * ratio**2, self.largest_mib * ratio
        return self.saved_mib * ratio**2, self.largest_mib * ratio**2


def named(model: str | None, constructors: Iterable[str]) -> tuple[str, Architecture] | None:
    """(name, network): the one that `model` names; else the one that needs most among those the script constructs."""
    if model and plain(model) in _TABLE:
        return plain(model), _TABLE[plain(model)]
    found = [(name, _TABLE[name]) for name in map(plain, constructors) if name in _TABLE]
    return max(found, key=lambda each: (each[1].parameters_mib + each[1].saved_mib, each[0]), default=None)


def find(name: str) -> Architecture | None:
    """The network of this name, in any spelling."""
    return _TABLE.get(plain(name))


def plain(name: str) -> str:
    """One spelling for `ResNet50`, `models.resnet50` and `resnet_50`, and for `from_pretrained:bert-base-uncased`."""
    last = re.split(r"[.:/]", name)[-1].lower()
    return re.sub(r"[-_](un)?cased$|[^a-z0-9]", "", last)


def _language(parameters: int, layers: int, width: int, heads: int, *, vocabulary: int = 0, size: int) -> Architecture:
    """A transformer on tokens. One that foretells tokens has logits for each as its largest layer, three times kept."""
    logits = 4 * vocabulary * size / _MIB
    return Architecture(
        parameters,
        saved_mib=66 * layers * width * size / _MIB + 2 * logits,
        largest_mib=max(logits, 16 * width * size / _MIB),
        size=size,
        tokens=True,
        square_mib=9 * layers * heads * size**2 / _MIB,
    )


_TABLE = {
    "alexnet": Architecture(61_100_840, 3.57, 0.739),
    "vgg11": Architecture(132_863_336, 46.61, 12.25),
    "vgg11bn": Architecture(132_868_840, 74.93, 12.25),
    "vgg13": Architecture(133_047_848, 64.98, 12.25),
    "vgg13bn": Architecture(133_053_736, 111.68, 12.25),
    "vgg16": Architecture(138_357_544, 69.96, 12.25),
    "vgg16bn": Architecture(138_365_992, 121.64, 12.25),
    "vgg19": Architecture(143_667_240, 74.93, 12.25),
    "vgg19bn": Architecture(143_678_248, 131.59, 12.25),
    "resnet18": Architecture(11_689_512, 21.15, 3.062),
    "resnet34": Architecture(21_797_672, 30.72, 3.062),
    "resnet50": Architecture(25_557_032, 81.93, 3.062),
    "resnet101": Architecture(44_549_160, 120.98, 3.062),
    "resnet152": Architecture(60_192_808, 169.21, 3.062),
    "resnext5032x4d": Architecture(25_028_904, 107, 3.062),
    "resnext10132x8d": Architecture(88_791_336, 235.25, 6.125),
    "wideresnet502": Architecture(68_883_240, 107, 3.062),
    "wideresnet1012": Architecture(126_886_696, 159.07, 3.062),
    "densenet121": Architecture(7_978_856, 124.32, 3.062),
    "densenet161": Architecture(28_681_000, 231.53, 4.594),
    "densenet169": Architecture(14_149_480, 150.02, 3.062),
    "densenet201": Architecture(20_013_928, 193.57, 3.062),
    "squeezenet10": Architecture(1_248_424, 34.11, 4.351),
    "squeezenet11": Architecture(1_235_496, 20.09, 3.008),
    "googlenet": Architecture(13_004_888, 46.25, 3.062),
    "inceptionv3": Architecture(27_161_264, 94.24, 5.276, 299),
    "mobilenetv2": Architecture(3_504_872, 74.83, 4.594),
    "mobilenetv3small": Architecture(2_542_856, 15.53, 0.861),
    "mobilenetv3large": Architecture(5_483_032, 42.25, 3.062),
    "shufflenetv2x10": Architecture(2_278_604, 19.44, 1.148),
    "mnasnet10": Architecture(4_383_312, 42.21, 2.297),
    "efficientnetb0": Architecture(5_288_548, 84.35, 4.594),
    "efficientnetb1": Architecture(7_794_184, 117.4, 4.594),
    "efficientnetb2": Architecture(9_109_994, 123.14, 4.594),
    "efficientnetb3": Architecture(12_233_232, 162.84, 6.891),
    "efficientnetb4": Architecture(19_341_616, 214.87, 6.891),
    "efficientnetv2s": Architecture(21_458_488, 147.18, 2.297),
    "convnexttiny": Architecture(28_589_128, 104.24, 4.594),
    "convnextsmall": Architecture(50_223_688, 166.29, 4.594),
    "vitb16": Architecture(86_567_656, 133.9, 2.309),
    "vitb32": Architecture(88_224_232, 30.38, 0.586),
    "vitl16": Architecture(304_326_632, 354.54, 3.078),
    "swint": Architecture(28_288_354, 101.84, 4.594),
    "swins": Architecture(49_606_258, 162.27, 4.594),
    "swinb": Architecture(87_768_224, 216.11, 6.125),
    "convnextbase": Architecture(88_591_464, 221.46, 6.125),
    "regnety8gf": Architecture(39_381_472, 163.78, 10.719),
    "bertbase": _language(109_482_240, 12, 768, 12, size=512),
    "bertlarge": _language(335_141_888, 24, 1024, 16, size=512),
    "distilbertbase": _language(66_362_880, 6, 768, 12, size=512),
    "robertabase": _language(124_645_632, 12, 768, 12, size=512),
    "robertalarge": _language(355_359_744, 24, 1024, 16, size=512),
    "distilgpt2": _language(81_912_576, 6, 768, 12, vocabulary=50_257, size=1024),
    "gpt2": _language(124_439_808, 12, 768, 12, vocabulary=50_257, size=1024),
    "gpt2medium": _language(354_823_168, 24, 1024, 16, vocabulary=50_257, size=1024),
    "gpt2large": _language(774_030_080, 36, 1280, 20, vocabulary=50_257, size=1024),
    "gpt2xl": _language(1_557_611_200, 48, 1600, 25, vocabulary=50_257, size=1024),
}
