"""Well-known networks: parameters, work per sample, and memory per sample in training, all in 32 bits.

Heads of another size, frozen layers and checkpointing are not taken into account.

Work is multiply-adds of one forward pass: for image networks what torchvision 0.21 publishes with their weights (`_ops`, in
10^9), scaled to the stated size by area; for language models 12 times the square of the width per layer and token, twice the
width per layer and pair of tokens, and the logits. None where no source states it.

Memory was counted on the networks themselves, as torchvision 0.15 defines them, with random weights: `saved_mib` is the size
of all tensors that autograd keeps for the backward pass (`torch.autograd.graph.saved_tensors_hooks`, each storage once,
without parameters) per image of the stated size; `largest_mib` the largest output of one layer. For language models both
follow from layers, width, heads and vocabulary: 66 bytes per layer, token and unit of width, and 9 per layer, head and pair
of tokens (Korthikanti et al., arXiv:2205.05198, equation 1, with 4-byte values and 1-byte masks).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

# One pass forward and two back: the gradients of the outputs and those of the weights (arXiv:2001.08361, section 2.1).
PASSES = 3.0
_MIB = 1 << 20
_MOST_WORK = 1e18
_BERT = re.compile(r"bert.*L-(\d{1,2})_H-(\d{1,4})_A-(\d{1,2})")


@dataclass(frozen=True, slots=True)
class Architecture:
    """A network. `work` is 10^9 multiply-adds per sample of `size` (side of a square image in pixels, or tokens)."""

    parameters: int
    work: float | None
    saved_mib: float | None = None
    """None, like `largest_mib`, where it was not counted."""
    largest_mib: float | None = None
    size: float = 224
    tokens: bool = False
    square_mib: float = 0.0
    """Saved memory that grows with the square of the tokens."""
    square_work: float = 0.0
    """Work that grows with the square of the tokens."""

    @property
    def parameters_mib(self) -> float:
        """The weights in MiB, 4 bytes each."""
        return self.parameters * 4 / _MIB

    def per_sample(self, size: float | None) -> tuple[float, float]:
        """(saved, largest layer) in MiB for a sample of this size; None: of the usual size. 0 where they were not counted."""
        grown, squared = self._growth(size)
        return (self.saved_mib or 0.0) * grown + self.square_mib * squared, (self.largest_mib or 0.0) * grown

    def multiply_adds(self, size: float | None) -> float | None:
        """Multiply-adds of one forward pass of a sample of this size (None: the usual); None where unknown."""
        grown, squared = self._growth(size)
        return None if self.work is None else 1e9 * (self.work * grown + self.square_work * squared)

    def _growth(self, size: float | None) -> tuple[float, float]:
        """(factor of what is linear in the sample, factor of what is square). Image layers grow with the area, token layers
        with the length."""
        ratio = 1.0 if size is None else size / self.size
        return ratio if self.tokens else ratio**2, ratio**2


def network_of(features: Mapping[str, Any]) -> tuple[str, Architecture, Any] | None:
    """(plain name, network, stated size of a sample) of a job's features; None where they name no known network.

    A model's name goes before constructors. Of several constructors the one with the most memory is taken: a script that trains
    a small head on a large backbone needs the backbone. The size is as the client sent it, unchecked.
    """
    model, listed = features.get("model"), features.get("constructors")
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list | tuple) else []
    if isinstance(model, str) and model and find(model) is not None:
        names = [model]
    found = [(plain(name), known) for name in names if (known := find(name)) is not None]
    if not found:
        return None
    name, network = max(found, key=lambda each: (each[1].parameters_mib + (each[1].saved_mib or 0.0), each[0]))
    return name, network, features.get("sequence_length" if network.tokens else "image_size")


def compute_log2(features: Mapping[str, Any]) -> float | None:
    """log2 of the multiply-adds per sample of a training step: more work per sample keeps a device busier.

    From `multiply_adds` where a reader of measured data states it, else from a known network, without what a library does
    beside it. None for neither. Odd features never raise, since clients send them.
    """
    work = _positive(features.get("multiply_adds"))
    if work is None and (found := network_of(features)) is not None:
        _, network, size = found
        forward = network.multiply_adds(_positive(size))
        work = None if forward is None else PASSES * forward
    return None if work is None else round(math.log2(work), 3)


@lru_cache(maxsize=4096)
def find(name: str) -> Architecture | None:
    """The network of this name in any spelling, also `bert_en_uncased_L-4_H-512_A-8` of TensorFlow Hub; None if unknown."""
    sizes = _BERT.search(name)
    if sizes is None:
        return _TABLE.get(plain(name))
    layers, width, heads = map(int, sizes.groups())
    parameters = (30_522 + 512 + 2 + width + 1) * width + layers * (12 * width + 13) * width + 2 * width
    return replace(_language(parameters, layers, width, heads, size=128), saved_mib=None, largest_mib=None)


@lru_cache(maxsize=4096)
def plain(name: str) -> str:
    """One spelling for `ResNet50`, `models.resnet50` and `resnet_50`, and for `from_pretrained:bert-base-uncased`."""
    last = re.split(r"[.:/]", name)[-1].lower()
    return re.sub(r"[-_](un)?cased$|[^a-z0-9]", "", last)


def _positive(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 1 <= value <= _MOST_WORK else None


def _language(parameters: int, layers: int, width: int, heads: int, *, vocabulary: int = 0, size: int) -> Architecture:
    """A transformer on tokens. With a vocabulary, its logits are its largest layer, and are kept three times."""
    logits = 4 * vocabulary * size / _MIB
    return Architecture(
        parameters,
        work=(12 * layers * width + vocabulary) * width * size / 1e9,
        square_work=2 * layers * width * size**2 / 1e9,
        saved_mib=66 * layers * width * size / _MIB + 2 * logits,
        largest_mib=max(logits, 16 * width * size / _MIB),
        size=size,
        tokens=True,
        square_mib=9 * layers * heads * size**2 / _MIB,
    )


_TABLE = {
    "alexnet": Architecture(61_100_840, 0.714, 3.57, 0.739),
    "vgg11": Architecture(132_863_336, 7.609, 46.61, 12.25),
    "vgg11bn": Architecture(132_868_840, 7.609, 74.93, 12.25),
    "vgg13": Architecture(133_047_848, 11.31, 64.98, 12.25),
    "vgg13bn": Architecture(133_053_736, 11.31, 111.68, 12.25),
    "vgg16": Architecture(138_357_544, 15.47, 69.96, 12.25),
    "vgg16bn": Architecture(138_365_992, 15.47, 121.64, 12.25),
    "vgg19": Architecture(143_667_240, 19.63, 74.93, 12.25),
    "vgg19bn": Architecture(143_678_248, 19.63, 131.59, 12.25),
    "resnet18": Architecture(11_689_512, 1.814, 21.15, 3.062),
    "resnet34": Architecture(21_797_672, 3.664, 30.72, 3.062),
    "resnet50": Architecture(25_557_032, 4.089, 81.93, 3.062),
    "resnet101": Architecture(44_549_160, 7.801, 120.98, 3.062),
    "resnet152": Architecture(60_192_808, 11.51, 169.21, 3.062),
    "resnext5032x4d": Architecture(25_028_904, 4.23, 107, 3.062),
    "resnext10132x8d": Architecture(88_791_336, 16.41, 235.25, 6.125),
    "wideresnet502": Architecture(68_883_240, 11.4, 107, 3.062),
    "wideresnet1012": Architecture(126_886_696, 22.75, 159.07, 3.062),
    "densenet121": Architecture(7_978_856, 2.834, 124.32, 3.062),
    "densenet161": Architecture(28_681_000, 7.728, 231.53, 4.594),
    "densenet169": Architecture(14_149_480, 3.36, 150.02, 3.062),
    "densenet201": Architecture(20_013_928, 4.291, 193.57, 3.062),
    "squeezenet10": Architecture(1_248_424, 0.819, 34.11, 4.351),
    "squeezenet11": Architecture(1_235_496, 0.349, 20.09, 3.008),
    "googlenet": Architecture(13_004_888, 1.498, 46.25, 3.062),
    "inceptionv3": Architecture(27_161_264, 5.713, 94.24, 5.276, 299),
    "mobilenetv2": Architecture(3_504_872, 0.301, 74.83, 4.594),
    "mobilenetv3small": Architecture(2_542_856, 0.057, 15.53, 0.861),
    "mobilenetv3large": Architecture(5_483_032, 0.217, 42.25, 3.062),
    "shufflenetv2x10": Architecture(2_278_604, 0.145, 19.44, 1.148),
    "mnasnet10": Architecture(4_383_312, 0.314, 42.21, 2.297),
    "efficientnetb0": Architecture(5_288_548, 0.386, 84.35, 4.594),
    "efficientnetb1": Architecture(7_794_184, 0.5985, 117.4, 4.594),
    "efficientnetb2": Architecture(9_109_994, 0.6582, 123.14, 4.594),
    "efficientnetb3": Architecture(12_233_232, 1.019, 162.84, 6.891),
    "efficientnetb4": Architecture(19_341_616, 1.527, 214.87, 6.891),
    "efficientnetv2s": Architecture(21_458_488, 2.847, 147.18, 2.297),
    "convnexttiny": Architecture(28_589_128, 4.456, 104.24, 4.594),
    "convnextsmall": Architecture(50_223_688, 8.684, 166.29, 4.594),
    "vitb16": Architecture(86_567_656, 17.56, 133.9, 2.309),
    "vitb32": Architecture(88_224_232, 4.409, 30.38, 0.586),
    "vitl16": Architecture(304_326_632, 61.55, 354.54, 3.078),
    "swint": Architecture(28_288_354, 4.491, 101.84, 4.594),
    "swins": Architecture(49_606_258, 8.741, 162.27, 4.594),
    "swinb": Architecture(87_768_224, 15.43, 216.11, 6.125),
    "convnextbase": Architecture(88_591_464, 15.36, 221.46, 6.125),
    "regnety8gf": Architecture(39_381_472, 8.473, 163.78, 10.719),
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
    "efficientnetb5": Architecture(30_389_784, 10.266, size=456),
    "efficientnetb6": Architecture(43_040_704, 19.068, size=528),
    "efficientnetb7": Architecture(66_347_960, 37.746, size=600),
    "efficientnetv2m": Architecture(54_139_356, 24.582, size=480),
    "efficientnetv2l": Architecture(118_515_272, 56.08, size=480),
    "convnextlarge": Architecture(197_767_336, 34.361),
    "vitl32": Architecture(306_535_400, 15.378),
    "mnasnet05": Architecture(2_218_512, 0.104),
    "regnety16gf": Architecture(11_202_430, 1.612),
    "regnety400mf": Architecture(4_344_144, 0.402),
    "shufflenetv2x05": Architecture(1_366_792, 0.04),
    # Work as in their papers (arXiv:1704.04861, 224 pixels; arXiv:1707.07012, 4 @ 1056), parameters as Keras lists them.
    "mobilenet": Architecture(4_253_864, 0.569),
    "nasnetmobile": Architecture(5_326_716, 0.564),
    "xception": Architecture(22_910_480, None, size=299),
    "albertbasev2": _language(11_683_584, 12, 768, 12, size=512),
    # Encoder and decoder of different lengths: no one size to count work for.
    "t5small": Architecture(60_506_624, None),
    "t5base": Architecture(222_903_552, None),
    "t5large": Architecture(737_668_096, None),
}
