"""By which framework a script trains, from its imports."""

from __future__ import annotations

from collections.abc import Sequence

from gpuq.script.survey import Survey

# Framework -> packages whose import identifies it. The first row that matches counts: higher rows are built on lower ones.
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
    """The framework that the script itself imports; else that of its own modules; None for none that is known."""
    for one in surveys:
        used = {*one.modules, *(alias for alias in one.aliases.values() if "." in alias)}
        if any(call.name.startswith("tensorflow.keras.") for call in one.calls):
            used.add("tensorflow.keras")  # called by way of `import tensorflow`
        for name, packages in _PACKAGES.items():
            if any(f"{module}.".startswith(f"{package}.") for package in packages for module in used):
                return name
    return None
