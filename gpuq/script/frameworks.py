"""By which framework a script trains: what its imports say.

Arrives: surveys, the script's own first. Leaves: the framework's name as the hints have it, or None for none that is known.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuq.script.survey import Survey

# Framework -> the packages whose import names it. The first that is imported counts: what stands above drives what stands below.
_PACKAGES = {
    "lightning": ("lightning", "pytorch_lightning"),
    "fastai": ("fastai",),
    "ultralytics": ("ultralytics",),
    "diffusers": ("diffusers",),
    "transformers": ("sentence_transformers", "trl", "transformers"),
    "keras": ("keras", "tensorflow.keras", "tf_keras"),
    "tensorflow": ("tensorflow",),
    "jax": ("flax", "haiku", "equinox", "jax"),
    "pytorch": ("torch", "timm", "torchvision"),
    "mxnet": ("mxnet",),
    "paddle": ("paddle",),
    "xgboost": ("xgboost",),
    "lightgbm": ("lightgbm",),
    "cuml": ("cuml",),
    "cupy": ("cupy",),
    "scikit-learn": ("sklearn",),
}


def framework(surveys: Sequence[Survey]) -> str | None:
    """Of what the script itself imports; of its own modules where it imports nothing that is known."""
    for one in surveys:
        used = _modules(one)
        for name, packages in _PACKAGES.items():
            if any(f"{module}.".startswith(f"{package}.") for package in packages for module in used):
                return name
    return None


def _modules(one: Survey) -> set[str]:
    """What a file imports; also `tensorflow.keras` where it calls that by way of `tensorflow`."""
    modules = {*one.modules, *(alias for alias in one.aliases.values() if "." in alias)}
    if any(call.name.startswith("tensorflow.keras.") for call in one.calls):
        modules.add("tensorflow.keras")
    return modules
