"""The first training steps of a PyTorch script, without a GPU. What it puts on `cuda` becomes tensors of the `meta` device,
which have shapes and no data: nothing is computed, and no memory is needed. Every such allocation is counted.

The script sees one GPU. Values that it reads back from there are zeros, so branches on them may go elsewhere than in a real
training, and operations whose result's shape depends on values fail. What is sent back to the processor has data again.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

import torch
from allocator import CachingAllocator  # beside this file, which `main` has put first on the path
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_META = torch.device("meta")
# Reading one of these from a tensor without data gives zeros.
_READS = {torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.cpu, torch.Tensor.__array__}
_READS |= {
    getattr(torch.Tensor, name) for name in ("__bool__", "__float__", "__int__", "__index__", "__repr__", "__format__")
}
STEPS = 2


class Counted(TorchDispatchMode):  # type: ignore[misc]
    """Counts what is allocated on the `meta` device."""

    def __init__(self) -> None:
        super().__init__()
        self.allocator = CachingAllocator()
        self.largest_convolution = 0
        self._blocks: dict[int, Any] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.convolution.default and found.device.type == "meta":
            self.largest_convolution = max(self.largest_convolution, found.untyped_storage().nbytes())
        for one in found if isinstance(found, (tuple, list)) else (found,):
            if isinstance(one, torch.Tensor) and one.device.type == "meta":
                self._note(one)
        return found

    def _note(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._blocks:
            return
        block = self.allocator.allocate(storage.nbytes())
        if block is not None:
            self._blocks[key] = block
            weakref.finalize(storage, self._freed, key)

    def _freed(self, key: int) -> None:
        block = self._blocks.pop(key, None)
        if block is not None:
            self.allocator.free(block)


def _moved(value: Any) -> Any:
    """A device that is a GPU becomes `meta`; everything else stays."""
    if isinstance(value, torch.device):
        return _META if value.type == "cuda" else value
    if isinstance(value, str):
        return "meta" if value == "cuda" or value.startswith("cuda:") else value
    return value


class OnMeta(TorchFunctionMode):  # type: ignore[misc]
    """Sends to `meta` what the script sends to a GPU, and gives zeros where it reads from there."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.cuda:
            return args[0].to(_META)
        if func is torch.Tensor.pin_memory:
            return args[0]
        args = tuple(map(_moved, args))
        kwargs = {name: _moved(value) for name, value in kwargs.items()}
        first = args[0] if args else None
        if isinstance(first, torch.Tensor) and first.device.type == "meta":
            to_host = func is torch.Tensor.to and any(str(v) == "cpu" for v in (*args[1:], *kwargs.values()))
            if func in _READS or to_host:
                zeros = torch.zeros(first.shape, dtype=first.dtype, device="cpu")
                return zeros if to_host or func is torch.Tensor.cpu else func(zeros, *args[1:], **kwargs)
            if func is torch.Tensor.copy_ or func is torch.Tensor.__setitem__:
                args = tuple(a.to(_META) if isinstance(a, torch.Tensor) and a.device.type == "cpu" else a for a in args)
        return func(*args, **kwargs)


def trace(run: Callable[[], None], report: Callable[[dict[str, Any]], None]) -> None:
    """Run the script until it has made STEPS steps with an optimizer, then call `report`, which must not return."""
    counted = Counted()
    steps = 0

    def stepped(*_: Any) -> None:
        nonlocal steps
        steps += 1
        if steps < STEPS:
            return
        report(
            {
                "framework": "torch",
                "reserved_bytes": counted.allocator.most_reserved,
                "convolution_bytes": counted.largest_convolution,
            }
        )

    _pretend()
    register_optimizer_step_post_hook(stepped)
    with OnMeta(), counted:
        run()


def _answering(answer: Any) -> Callable[..., Any]:
    return lambda *_, **__: answer


def _pretend() -> None:
    """Let PyTorch say that there is one GPU, and leave out what needs a real one."""
    cuda: Any = torch.cuda
    answers: dict[str, Any] = {
        "is_available": True,
        "device_count": 1,
        "current_device": 0,
        "is_initialized": True,
        "get_device_name": "GPU",
        "get_device_capability": (8, 0),
        "is_bf16_supported": True,
        "mem_get_info": (80 << 30, 80 << 30),
        **dict.fromkeys(("set_device", "synchronize", "empty_cache", "init", "_lazy_init", "ipc_collect")),
        **dict.fromkeys(("manual_seed", "manual_seed_all", "reset_peak_memory_stats", "reset_max_memory_allocated")),
        **dict.fromkeys(("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"), 0),
    }
    for name, answer in answers.items():
        setattr(cuda, name, _answering(answer))
    # As on a GPU: an optimizer handles all parameters at once, and holds what that needs.
    vars(sys.modules["torch.optim.optimizer"])["_get_foreach_kernels_supported_devices"] = lambda: ["cuda", "meta"]
    torch.compile = lambda model=None, **_: model if model is not None else (lambda one: one)
    torch.__future__.set_swap_module_params_on_conversion(True)
    loader = torch.utils.data.DataLoader
    made = loader.__init__

    def make(self: Any, *args: Any, **options: Any) -> None:
        options.update(num_workers=0, pin_memory=False, persistent_workers=False, prefetch_factor=None, timeout=0)
        made(self, *args[:5], **options)

    loader.__init__ = make
    scaler = torch.amp.GradScaler
    scaled = scaler.__init__

    def make_scaler(self: Any, *args: Any, **options: Any) -> None:
        scaled(self, *args[:1], **{**options, "enabled": False})

    scaler.__init__ = make_scaler
