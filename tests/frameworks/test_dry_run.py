"""PyTorch scripts without a GPU: what a dry run counts is what the arithmetic of their tensors says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuq.cli.dry_run import Traced, dry_run
from gpuq.errors import BadInput
from tests.frameworks.test_frameworks import python_of

pytestmark = pytest.mark.frameworks

MIB = 2**20
# 4096 x 4096 weights, 64 MiB each.
TRAINS = """
import torch
from torch import nn
device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(*[nn.Linear(4096, 4096, bias=False) for _ in range({layers})]).to(device)
optimizer = {optimizer}
{loader}
for x, y in data:
    x, y = x.to(device, non_blocking=True), y.cuda()
    optimizer.zero_grad()
    {step}
    optimizer.step()
    print(loss.item(), float(loss), bool(loss > 1), loss.detach().cpu().numpy(), f"{{loss:.2f}}")
"""
BATCHES = "data = [(torch.zeros({batch}, 4096), torch.zeros({batch}, 4096)) for _ in range(9)]"
PLAIN = "loss = nn.functional.mse_loss(model(x), y); loss.backward()"


def traced(folder: Path, layers: int = 4, batch: int = 8, **parts: str) -> Traced:
    values = {
        "optimizer": "torch.optim.SGD(model.parameters(), lr=0.1)",
        "loader": BATCHES.format(batch=batch),
        "step": PLAIN,
    }
    (folder / "train.py").write_text(TRAINS.format(layers=layers, **{**values, **parts}))
    return dry_run([python_of("torch"), "train.py"], folder, os.environ, 8 * 2**30)


def test_weights_gradients_and_what_an_optimizer_keeps_are_counted(tmp_path: Path) -> None:
    weights = 4 * 64 * MIB
    plain = traced(tmp_path).reserved_bytes
    assert 2 * weights <= plain < 2.4 * weights
    adam = traced(tmp_path, optimizer="torch.optim.Adam(model.parameters())").reserved_bytes
    assert 4 * weights <= adam < 5.5 * weights, "two moments more, and what all parameters need at once"
    assert traced(tmp_path).unprotected == ()


def test_activations_grow_with_the_batch(tmp_path: Path) -> None:
    few, many = (traced(tmp_path, batch=batch).reserved_bytes for batch in (8, 8192))
    # Of each of four layers its input is kept, and the gradient of one is at work.
    assert 4 * 128 * MIB <= many - few <= 9 * 128 * MIB


def test_loaders_scalers_and_values_that_are_read_back_do_not_stop_it(tmp_path: Path) -> None:
    loader = """
from torch.utils.data import DataLoader, TensorDataset
rows = TensorDataset(torch.zeros(64, 4096), torch.zeros(64, 4096))
data = DataLoader(rows, batch_size=8, shuffle=True, num_workers=2, pin_memory=True, persistent_workers=True)
scaler = torch.amp.GradScaler("cuda")
torch.cuda.manual_seed(1); torch.backends.cudnn.benchmark = True; model = torch.compile(model)
"""
    step = """
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward(); torch.cuda.synchronize()
"""
    found = traced(tmp_path, loader=loader, step=step)
    assert found.framework == "torch"
    assert found.reserved_bytes >= 2 * 4 * 64 * MIB


def test_a_script_that_uses_no_gpu_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\nw = torch.zeros(9, requires_grad=True)\no = torch.optim.SGD([w], lr=1)\n"
        "for _ in range(3): w.sum().backward(); o.step()\n"
    )
    with pytest.raises(BadInput, match="no training step on a GPU"):
        dry_run([python_of("torch"), "train.py"], tmp_path, os.environ, 2**32)
