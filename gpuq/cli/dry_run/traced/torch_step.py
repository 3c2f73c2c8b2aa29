"""The first training steps of a PyTorch script, without a GPU. What it puts on `cuda` becomes tensors of the `meta` device,
which have shapes and no data: nothing is computed, and no memory is needed. Every such allocation is counted.

The script sees one GPU. Values that it reads back from there are zeros, so branches on them may go elsewhere than in a real
training, and operations whose result's shape depends on values fail. What is sent back to the processor has data again. Whole
numbers that are read may be sizes: a second run reads ones in their place, and is to make the same allocations.
"""

from __future__ import annotations

import random
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import torch
from allocator import CachingAllocator  # beside this file, which `main` has put first on the path
from attention import attended
from epoch import Epoch
from loops import ScriptLoops
from repeats import NOT_OF_SCRIPT, Origins
from rounds import Rounds
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_META = torch.device("meta")
# What reads the values of a tensor: as whole numbers, as numbers of its type, and to show them.
_WHOLE = {torch.Tensor.__int__, torch.Tensor.__index__}
_SHOWN = {torch.Tensor.__repr__, torch.Tensor.__format__}
_READS = {torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.cpu, torch.Tensor.__array__}
_READS |= {torch.Tensor.__bool__, torch.Tensor.__float__, *_WHOLE, *_SHOWN}
# What a tensor on a GPU answers. `Tensor.device` stays `meta`: PyTorch compares it when it recomputes.
_ANSWERS = {torch.Tensor.is_cuda.__get__: True, torch.Tensor.get_device: 0}
# The first argument of these, after the tensor, is a device, which may be a number.
_TO = {torch.Tensor.to, torch._C._nn._parse_to}
LEAST_ROUNDS = 2
_ANOTHER = "it makes another optimizer later, at {}: maybe for a larger model, or one that keeps more"
# Trainings of one network on other data need the same to within this share.
_SAME = 0.05


class Counted(TorchDispatchMode):  # type: ignore[misc]
    """Counts what is allocated on the `meta` device, and what comes to it from the processor."""

    def __init__(self) -> None:
        super().__init__()
        self.allocator = CachingAllocator()
        self.largest_convolution = self.allocated = self.sent = 0
        self._blocks: dict[int, Any] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.convolution.default and found.device.type == "meta":
            self.largest_convolution = max(self.largest_convolution, found.untyped_storage().nbytes())
        for one in found if isinstance(found, (tuple, list)) else (found,):
            if isinstance(one, torch.Tensor) and one.device.type == "meta":
                self._note(one)
                if func is torch.ops.aten._to_copy.default and args[0].device.type == "cpu":
                    self.sent += one.untyped_storage().nbytes()
        return found

    def _note(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._blocks:
            return
        self.allocated += storage.nbytes()
        block = self.allocator.allocate(storage.nbytes())
        if block is not None:
            self._blocks[key] = block
            weakref.finalize(storage, self._freed, key)

    def _freed(self, key: int) -> None:
        block = self._blocks.pop(key, None)
        if block is not None:
            self.allocator.free(block)


class Idle:
    """A stream or an event of a GPU, which has done everything that it is asked for. One of these answers another."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __enter__(self) -> Idle:
        return self

    def __exit__(self, *_: Any) -> None: ...

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return _answering(1.0 if name == "elapsed_time" else self)


class Generator(torch.Generator):  # type: ignore[misc]
    """A generator of random numbers, on the processor: on `meta` none are drawn."""

    def __new__(cls, *_: Any, **__: Any) -> Generator:  # noqa: D102
        made: Generator = super().__new__(cls, "cpu")
        return made


def _moved(value: Any) -> Any:
    """A device that is a GPU becomes `meta`; everything else stays."""
    if isinstance(value, torch.device):
        return _META if value.type == "cuda" else value
    if isinstance(value, str):
        return "meta" if value == "cuda" or value.startswith("cuda:") else value
    return value


class OnMeta(TorchFunctionMode):  # type: ignore[misc]
    """Sends to `meta` what the script sends to a GPU. Where it reads from there it gets zeros, or `whole` for whole numbers."""

    def __init__(self, whole: int) -> None:
        super().__init__()
        self._whole = whole
        self.has_read_whole = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.cuda:
            return args[0].to(_META)
        if func is torch.Tensor.pin_memory:
            return args[0]
        if func is torch.device:
            return torch.device("cuda", *args) if args and type(args[0]) is int else func(*args, **kwargs)
        if func in _TO:
            args = tuple(_META if type(arg) is int else arg for arg in args)
        if type(kwargs.get("device")) is int:
            kwargs["device"] = _META
        args = tuple(map(_moved, args))
        kwargs = {name: _moved(value) for name, value in kwargs.items()}
        first = args[0] if args else None
        if isinstance(first, torch.Tensor) and first.device.type == "meta":
            if func in _ANSWERS:
                return _ANSWERS[func]
            to_host = func is torch.Tensor.to and any(str(v) == "cpu" for v in (*args[1:], *kwargs.values()))
            if func in _READS or to_host:
                values = self._values(first, func)
                return values if to_host or func is torch.Tensor.cpu else func(values, *args[1:], **kwargs)
            if func is torch.Tensor.copy_ or func is torch.Tensor.__setitem__:
                args = tuple(a.to(_META) if isinstance(a, torch.Tensor) and a.device.type == "cpu" else a for a in args)
        return func(*args, **kwargs)

    def _values(self, of: torch.Tensor, func: Any) -> torch.Tensor:
        is_fraction = of.is_floating_point() or of.is_complex() or of.dtype is torch.bool
        is_whole = func in _WHOLE or not (is_fraction or func in _SHOWN)
        self.has_read_whole |= is_whole
        return torch.full(of.shape, self._whole if is_whole else 0, dtype=of.dtype, device="cpu")


def trace(run: Callable[[], None], report: Callable[[dict[str, Any]], None], whole: int = 0) -> None:
    """Run the script until it has shown its memory, or why it cannot. Then call `report`, which must not return.

    The script reads `whole` where it reads whole numbers from the GPU.
    """
    training = Training(report, whole)
    _answer_as_a_gpu()
    _do_without_one(training.epoch)
    _collect(training)
    register_optimizer_step_post_hook(training.stepped)
    training.loops.install()
    random.seed(0)
    torch.manual_seed(0)
    with suppress(ImportError):
        import numpy as np

        np.random.seed(0)
    with training.on_meta, training.counted:
        ended = _to_its_end(run, training.epoch)
    if training.epoch.is_cut or len(training.rounds) >= LEAST_ROUNDS:
        training.tell(to_its_end=ended)


class Training:
    """What was seen of a script so far, and what its code shows to come."""

    def __init__(self, report: Callable[[dict[str, Any]], None], whole: int) -> None:
        self._report = report
        self.counted, self.rounds, self.on_meta, self.origins = Counted(), Rounds(), OnMeta(whole), Origins()
        self.loops = ScriptLoops(NOT_OF_SCRIPT)
        self.epoch = Epoch(self.tell, self.loops)
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._histories: weakref.WeakKeyDictionary[Any, list[torch.Tensor]] = weakref.WeakKeyDictionary()
        # What is read in a validation changes nothing of the training.
        self._of_training: dict[str, Any] = {}
        # Where it will make an optimizer again, and what later steps may be larger by: both are seen where it comes to its end.
        self._another: str | None = None
        self._larger: str | None = None
        self._first_bytes: int | None = None
        """What was needed before it made another optimizer."""

    def made(self, optimizer: Any, frame: Any, classes: set[str]) -> None:
        """An optimizer is being made in this frame; `classes` are the names of all optimizers."""
        self._optimizers.add(optimizer)
        self.origins.note(frame, classes)
        self.loops.whole |= self.origins.places(frame)
        if self.epoch.is_cut and self._first_bytes is None:
            self._first_bytes = self.counted.allocator.most_reserved

    def stepped(self, optimizer: Any, *_: Any) -> None:
        """An optimizer has made a step."""
        self._optimizers.add(optimizer)
        if optimizer not in self._histories:
            self._histories[optimizer] = list(_history(optimizer))
        frame, allocator = sys._getframe(1), self.counted.allocator
        self.loops.around |= self.origins.places(frame)
        if self.epoch.is_cut:
            self.epoch.stepped(allocator.most_reserved)
            return
        awaited = {_key(one) for one in self._optimizers if _on_gpu(one)}
        totals = self.counted.allocated, self.counted.sent
        try:
            enough = self.rounds.stepped(_key(optimizer), awaited, totals, allocator.used)
        except LookupError as why:
            self._report({"refused": str(why)})
        else:
            if enough:
                if place := self.origins.searched(frame):
                    self._report({"refused": _ANOTHER.format(place)})
                self._another = self.origins.again(frame)
                if grows := self.origins.grows(frame):
                    self._larger, loop = grows
                    self.loops.whole |= {loop} if loop else set()
                self._of_training.update(self._seen())
                self.epoch.cut(to_its_end=bool(self._another or self._larger))

    def tell(self, *, to_its_end: bool = False) -> None:
        """Report what was needed, up to now or up to the script's end."""
        needed = self.counted.allocator.most_reserved
        # In which order trainings come may be drawn, and so may their sizes.
        grew = self._first_bytes is not None and needed > (1 + _SAME) * self._first_bytes
        if self._another and (grew or not to_its_end):
            self._report({"refused": _ANOTHER.format(self._another)})
        if self._larger and not to_its_end:
            self._report({"refused": f"later steps may be larger, by {self._larger}"})
        needs = {"reserved_bytes": needed, "convolution_bytes": self.counted.largest_convolution}
        self._report({"framework": "torch", **needs, **(self._of_training or self._seen())})

    def _seen(self) -> dict[str, Any]:
        return {"allocated_bytes": self.counted.allocated, "has_read_whole": self.on_meta.has_read_whole}


def _to_its_end(run: Callable[[], None], epoch: Epoch) -> bool:
    """Whether the script came to its end. What fails after enough was seen is of an epoch that was cut short."""
    try:
        run()
    except BaseException as end:
        ended = isinstance(end, SystemExit) and not end.code
        if not (epoch.is_cut or ended):
            raise
        return ended
    return True


def _key(optimizer: Any) -> int:
    """The same for an optimizer and one that wraps it, such as SAM or Lookahead: they share their groups of parameters."""
    return id(optimizer.param_groups)


def _on_gpu(optimizer: Any) -> bool:
    return any(one.device.type == "meta" for group in optimizer.param_groups for one in group["params"])


def _history(optimizer: Any) -> Iterator[torch.Tensor]:
    """The pairs of vectors that L-BFGS comes to keep. With gradients without values it keeps none."""
    for group in optimizer.param_groups:
        for one in group["params"]:
            for _ in range(2 * group.get("history_size", 0)):
                yield torch.empty_like(one)


def _answering(answer: Any) -> Callable[..., Any]:
    return lambda *_, **__: answer


def _answer_as_a_gpu() -> None:
    """Let PyTorch say that there is one GPU, which has done all its work."""
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
        "get_device_properties": SimpleNamespace(
            name="GPU", total_memory=80 << 30, major=8, minor=0, multi_processor_count=108
        ),
        "memory_summary": "",
        "memory_stats": {},
        "get_rng_state": torch.get_rng_state(),
        "get_rng_state_all": [torch.get_rng_state()],
        **dict.fromkeys(("set_rng_state", "set_rng_state_all")),
        **dict.fromkeys(("current_stream", "default_stream", "stream"), Idle()),
        **dict.fromkeys(("set_device", "synchronize", "empty_cache", "init", "_lazy_init", "ipc_collect")),
        **dict.fromkeys(("manual_seed", "manual_seed_all", "reset_peak_memory_stats", "reset_max_memory_allocated")),
        **dict.fromkeys(("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"), 0),
    }
    for name, answer in answers.items():
        setattr(cuda, name, _answering(answer))
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        setattr(cuda.nvtx, name, _answering(None))
    cuda.Stream = cuda.Event = Idle
    torch.Tensor.record_stream = _answering(None)


def _do_without_one(epoch: Epoch) -> None:
    """Leave out what needs a real GPU, and what would write files."""
    torch.save = _answering(None)
    set_default_device = torch.set_default_device
    torch.Generator = Generator
    # Their checks read values.
    torch.distributions.Distribution.set_default_validate_args(False)
    # As on a GPU: an optimizer handles all parameters at once, and holds what that needs.
    vars(sys.modules["torch.optim.optimizer"])["_get_foreach_kernels_supported_devices"] = lambda: ["cuda", "meta"]
    # In its module, since what calls it from there is no matter of a mode.
    torch.nn.functional.scaled_dot_product_attention = attended
    torch.set_default_device = lambda device: set_default_device(_moved(device))
    torch.compile = lambda model=None, **_: model if model is not None else (lambda one: one)
    torch.__future__.set_swap_module_params_on_conversion(True)
    loader = torch.utils.data.DataLoader
    made = loader.__init__

    def make(self: Any, *args: Any, **options: Any) -> None:
        options.update(num_workers=0, pin_memory=False, persistent_workers=False, prefetch_factor=None, timeout=0)
        made(self, *args[:5], **options)

    loader.__init__ = make
    iterated = loader.__iter__
    loader.__iter__ = lambda self: epoch.read(iterated(self))
    scaler = torch.amp.GradScaler
    scaled = scaler.__init__

    def make_scaler(self: Any, *args: Any, **options: Any) -> None:
        scaled(self, *args[:1], **{**options, "enabled": False})

    scaler.__init__ = make_scaler


def _collect(training: Training) -> None:
    """Note each optimizer that is made. One with a fused kernel, which only a GPU has, handles one parameter after the other."""
    made = Optimizer.__init__
    classes = {name for name, one in vars(torch.optim).items() if isinstance(one, type) and issubclass(one, Optimizer)}

    def make(self: Any, params: Any, defaults: dict[str, Any]) -> None:
        one_by_one = {"fused": False, "foreach": False} if defaults.get("fused") else {}
        made(self, params, {**defaults, **one_by_one})
        training.made(self, sys._getframe(1), classes | {type(self).__name__})

    Optimizer.__init__ = make
