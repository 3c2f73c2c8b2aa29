"""PyTorch scripts without a GPU: what a dry run counts is what the arithmetic of their tensors says."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpuq.cli import dry_run as module
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


def test_a_script_may_have_modules_of_the_names_of_ours(tmp_path: Path) -> None:
    for name in ("attention", "allocator", "rounds"):
        (tmp_path / f"{name}.py").write_text("OWN = True\n")
    own = "from allocator import OWN; from attention import OWN; from rounds import OWN\n"
    assert traced(tmp_path, loader=own + BATCHES.format(batch=8)).framework == "torch"


def test_a_script_that_uses_no_gpu_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\nw = torch.zeros(9, requires_grad=True)\no = torch.optim.SGD([w], lr=1)\n"
        "for _ in range(3): w.sum().backward(); o.step()\n"
    )
    with pytest.raises(BadInput, match="no training step on a GPU"):
        dry_run([python_of("torch"), "train.py"], tmp_path, os.environ, 2**32)


# Traces scripts one after the other, each in a copy of a process that has imported PyTorch.
TRACES = """
import json, os, sys, tempfile
from importlib.machinery import SourceFileLoader
sys.path.insert(0, sys.argv[1])
import torch_step
# The first step imports much of PyTorch.
import torch
torch.set_num_threads(1)
first = torch.ones(1, 1, device="meta", requires_grad=True)
(first @ first).sum().backward()
torch.optim.Adam([first], foreach=True).step()

def report(found):
    print(json.dumps([name, found]), flush=True)
    os._exit(0)

folder = tempfile.mkdtemp()
for name, script in json.loads(sys.argv[2]).items():
    if (child := os.fork()) == 0:
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write(script)

        def run():
            exec(SourceFileLoader("__main__", path).get_code("__main__"), {"__name__": "__main__"})

        try:
            torch_step.trace(run, report, int("ones" in name))
        except Exception as error:
            report({"refused": repr(error)})
        report({"refused": "no step"})
    os.waitpid(child, 0)
"""
# Its weights are 16 MiB.
LINEAR = "import torch; from torch import nn; net = nn.Linear(2048, 2048, bias=False).cuda()\n"
ADAM = LINEAR + "adam = torch.optim.Adam(net.parameters())\n"
STEP = "net(torch.ones(8, 2048).cuda()).sum().backward(); adam.step(); adam.zero_grad()\n"
SCRIPTS = {
    "plain": ADAM + f"for _ in range(9): {STEP}",
    "ends early": ADAM + f"for _ in range(2): {STEP}raise SystemExit",
    "ends too early": ADAM + STEP,
    "critic": ADAM
    + "critic = nn.Linear(2048, 1).cuda(); sgd = torch.optim.SGD(critic.parameters())\n"
    + "for _ in range(9):\n"
    + " for _ in range(5): critic(torch.ones(8, 2048).cuda()).sum().backward(); sgd.step()\n"
    + f" {STEP}",
    "later phase": ADAM
    + "head = nn.Linear(8, 8).cuda(); later = torch.optim.Adam(head.parameters())\n"
    + f"for _ in range(999): {STEP}",
    "wrapped": ADAM
    + "class Wrapper(torch.optim.Optimizer):\n"
    + " def __init__(self, of):\n"
    + "  super().__init__(of.param_groups, {}); self.param_groups = of.param_groups\n"
    + f"wrapper = Wrapper(adam)\nfor _ in range(9): {STEP}",
    "l-bfgs": LINEAR
    + "lbfgs = torch.optim.LBFGS(net.parameters(), history_size=10)\n"
    + "def loss():\n lbfgs.zero_grad(); found = net(torch.ones(8, 2048).cuda()).sum(); found.backward(); return found\n"
    + "for _ in range(9): lbfgs.step(loss)",
    "growing": ADAM + f"for length in range(8, 999, 8): {STEP.replace('8, 2048', 'length, 2048')}",
    "read": ADAM
    + f"for _ in range(9):\n rows = int(torch.ones(8).cuda().long().sum())\n {STEP.replace('8, 2048', 'rows, 2048')}",
    "logged": ADAM
    + f"for _ in range(9):\n {STEP} print(net.weight.sum().item(), f'{{torch.ones(8).cuda().long().sum()}}')",
}
# What training code asks of a GPU.
ASKED = (
    "torch.cuda.get_device_properties(0).total_memory // 2**30",
    "torch.cuda.Event(enable_timing=True).record()",
    "1 / torch.cuda.Event().elapsed_time(torch.cuda.Event())",
    "torch.cuda.Stream().wait_stream(torch.cuda.current_stream())",
    "torch.cuda.stream(torch.cuda.Stream()).__enter__()",
    "x.record_stream(torch.cuda.current_stream())",
    "torch.cuda.nvtx.range_push('step')",
    "torch.cuda.set_rng_state(torch.cuda.get_rng_state())",
    "torch.cuda.memory_summary() + ''",
    "torch.randn(2, device='cuda', generator=torch.Generator(device='cuda').manual_seed(1))",
    "torch.utils.data.DataLoader([1], shuffle=True, generator=torch.Generator())",
    "all(one.is_cuda for one in (torch.ones(2).to(0), torch.ones(2, device=0), nn.Linear(2, 2).to(0).weight)) or 1 / 0",
    "torch.ones(2).to(torch.device(0), non_blocking=True).is_cuda or 1 / 0",
    "torch.device('cuda', 0).type == torch.device(0).type == 'cuda' or 1 / 0",
    "torch.autocast(torch.device('cuda').type, dtype=torch.float16).__enter__().__exit__(None, None, None)",
    "1 / x.is_cuda",
    "torch.distributions.Categorical(logits=x).sample()",
    "torch.distributions.Normal(x, x.exp()).rsample()",
)
SCRIPTS["asked"] = (
    "import torch; from torch import nn; x = torch.ones(4, 8).cuda(); wrong = {}\n"
    f"for asked in {ASKED}:\n"
    " try: exec(asked, globals())\n"
    " except Exception as error: wrong[asked] = error\n"
    f"if wrong: raise SystemError(wrong)\n{SCRIPTS['plain']}"
)
FUSED = ADAM.replace("Adam(net.parameters())", "AdamW(net.parameters(), fused=True)")
SCRIPTS["fused"] = FUSED + f"for _ in range(9): {STEP}"
SCRIPTS["read, with ones"] = SCRIPTS["read"]

# The scores of a layer of attention are 8 heads x 2048 x 2048: 128 MiB. Its queries are 8 x 2048 x 64: 4 MiB.
ATTENDS = """
import torch; from torch import nn; from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
w = nn.Parameter(torch.zeros(1, 8, 2048, 64).cuda()); sgd = torch.optim.SGD([w])
for _ in range(4):
    with sdpa_kernel(SDPBackend.{kernel}):
        x = w
        for _ in range(4): x = F.scaled_dot_product_attention(x, x, x, is_causal=True)
    x.sum().backward(); sgd.step(); sgd.zero_grad()
"""
SCRIPTS["fused attention"] = ATTENDS.format(kernel="EFFICIENT_ATTENTION")
SCRIPTS["attention by products"] = ATTENDS.format(kernel="MATH")
SCRIPTS["encoder"] = """
import torch; from torch import nn
net = nn.TransformerEncoderLayer(512, 8, 512, batch_first=True).cuda(); sgd = torch.optim.SGD(net.parameters())
for _ in range(4): net(torch.randn(1, 2048, 512).cuda()).sum().backward(); sgd.step(); sgd.zero_grad()
"""
# Of each batch 8 KiB a row come to the GPU; 16 MiB of a validation's.
LOADERS = """
import copy
from torch.utils.data import DataLoader
rows = torch.ones(4096, 2048); train = DataLoader(rows, 8); valid = DataLoader(rows, 2048)
for epoch in range(9):
    for x in train: net(x.cuda()).sum().backward(); adam.step(); adam.zero_grad()
    {after}
"""
SCRIPTS["loaders"] = ADAM + LOADERS.format(after="pass")
SCRIPTS["validation"] = ADAM + LOADERS.format(
    after="""with torch.no_grad():
        for x in valid: correct = int((net(x.cuda()) > 0).sum())
    torch.save(net.state_dict(), '/nowhere/net.pt')
    if correct == 0: best = copy.deepcopy(net)
    best = [copy.deepcopy(net) for _ in range(4)]"""
)
SCRIPTS["validation that fails"] = ADAM + LOADERS.format(after="raise ValueError('no such score')")
SCRIPTS["models in turn"] = (
    LINEAR
    + "def fit(width):\n"
    + " net = nn.Linear(2048, width).cuda(); adam = torch.optim.Adam(net.parameters())\n"
    + f" for _ in range(9): {STEP}"
    + "for width in (8, 8192): fit(width)\n"
)
SCRIPTS["folds"] = SCRIPTS["models in turn"].replace("in (8, 8192)", "in (8, 8, 8)")
SCRIPTS["average later"] = f"""import copy; step = 0
{ADAM}average = None
for epoch in range(90):
    for _ in range(1000):
        {STEP}
        step += 1
        if step == 2000: average = copy.deepcopy(net)
"""
SCRIPTS["later size"] = (
    f"{ADAM}for step in range(5000):\n n = 8 * (1 + step // 10)\n {STEP.replace('8, 2048', 'n, 2048')}"
)
# 4096 rows in the middle epochs, once where a name says that it is a size and once where nothing does.
PEAKS = f"""import math
{ADAM}for epoch in range(40):
 {{rows}} = 8 + int(4088 * math.sin(math.pi * epoch / 39))
 for _ in range(999): {STEP.replace("8, 2048", "{rows}, 2048")}
"""
SCRIPTS |= {f"largest {rows}": PEAKS.format(rows=rows) for rows in ("length", "n")}
SCRIPTS["sizes"] = f"{ADAM}for n in (8, 4096, 64):\n for _ in range(999): {STEP.replace('8, 2048', 'n, 2048')}"
SCRIPTS["validation now and then"] = f"""{ADAM}
def accuracy():
    with torch.no_grad(): return net(torch.ones(8192, 2048).cuda()).mean().item()
number = 0
while True:
    {STEP}
    number += 1
    if number % 2000 == 0: accuracy()
    if number > 60000: break
"""
SCRIPTS["kept"] = f"{ADAM}kept = []\nfor _ in range(999): kept.append(torch.ones(8, 2048).cuda()); {STEP}"
SCRIPTS["default device"] = "import torch; torch.set_default_device('cuda')\n" + SCRIPTS["plain"]


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    """What is answered to each of SCRIPTS."""
    words = [python_of("torch"), "-c", TRACES, str(Path(module.__file__).with_name("traced")), json.dumps(SCRIPTS)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))


def test_the_whole_of_a_short_training_is_enough_and_one_step_is_not(answers: dict[str, Any]) -> None:
    assert answers["ends early"]["reserved_bytes"] == answers["plain"]["reserved_bytes"]
    assert "refused" in answers["ends too early"]


def test_the_validation_of_the_first_epoch_is_counted_too(answers: dict[str, Any]) -> None:
    plain, whole = answers["loaders"], answers["validation"]
    # Weights, two moments and four copies, with the one before.
    assert plain["reserved_bytes"] < 7 * 16 * MIB <= whole["reserved_bytes"] <= 10 * 16 * MIB
    assert whole["allocated_bytes"] == plain["allocated_bytes"], "two runs are compared by their trainings"
    assert not whole["has_read_whole"]
    assert answers["validation that fails"] == plain


def test_models_that_are_trained_in_turn_are_noticed(answers: dict[str, Any]) -> None:
    assert "makes another optimizer later, at models in turn:5" in answers["models in turn"]["refused"]


def test_trainings_of_one_network_are_one_after_the_other(answers: dict[str, Any]) -> None:
    assert answers["folds"]["reserved_bytes"] < answers["validation"]["reserved_bytes"]


def test_what_later_rounds_need_is_counted(answers: dict[str, Any]) -> None:
    plain = answers["plain"]["reserved_bytes"]
    assert answers["average later"]["reserved_bytes"] == plain + 16 * MIB
    # 4008 rows of 2048 numbers, and of what comes of them.
    assert answers["later size"]["reserved_bytes"] >= plain + 2 * 31 * MIB
    assert answers["sizes"]["reserved_bytes"] >= plain + 2 * 32 * MIB
    assert min(answers[f"largest {rows}"]["reserved_bytes"] for rows in ("length", "n")) >= plain + 2 * 31 * MIB
    assert answers["validation now and then"]["reserved_bytes"] >= plain + 2 * 64 * MIB - 2 * 16 * MIB


def test_what_is_kept_of_each_step_is_refused(answers: dict[str, Any]) -> None:
    assert "keeps more of a GPU after each step" in answers["kept"]["refused"]


LIGHTNING = """
import torch, lightning as L; from torch import nn; from torch.utils.data import DataLoader, TensorDataset
class Net(L.LightningModule):
    def __init__(self):
        super().__init__(); self.net = nn.Linear(1024, 1024)
    def training_step(self, batch, _): return self.net(batch[0]).sum()
    def validation_step(self, batch, _): self.log("loss", self.net(batch[0]).sum())
    def configure_optimizers(self): return torch.optim.Adam(self.parameters())
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, num_sanity_val_steps=0)
L.Trainer(accelerator="gpu", devices=1, max_epochs=9, **quiet).fit(
    Net(), *(DataLoader(TensorDataset(torch.zeros(32768, 1024)), rows) for rows in (64, 16384)))
"""
TRANSFORMERS = """
import torch; from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
rows = [{"input_ids": torch.zeros(64, dtype=torch.long), "labels": torch.zeros(64, dtype=torch.long)}] * 2048
options = TrainingArguments("out", per_device_train_batch_size=4, per_device_eval_batch_size=256, max_steps=4000,
    eval_strategy="steps", eval_steps=1000, report_to="none", save_strategy="no")
net = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=64, n_head=2, vocab_size=2048))
Trainer(net, options, train_dataset=rows, eval_dataset=rows).train()
"""


# A validation's batch, or its scores, are 64 and 128 MiB.
@pytest.mark.parametrize(("script", "largest"), [(LIGHTNING, 64 * MIB), (TRANSFORMERS, 128 * MIB)])
def test_a_validation_by_a_package_is_counted(script: str, largest: int, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(script)
    assert dry_run([python_of("torch"), "train.py"], tmp_path, os.environ, 8 * 2**30).reserved_bytes >= largest


def test_what_every_optimizer_keeps_is_counted_however_rarely_it_steps(answers: dict[str, Any]) -> None:
    moments = 2 * 16 * MIB
    assert answers["critic"]["reserved_bytes"] >= answers["plain"]["reserved_bytes"] >= 2 * 16 * MIB + moments
    assert "made no step" in answers["later phase"]["refused"]
    assert answers["wrapped"]["reserved_bytes"] == answers["plain"]["reserved_bytes"]


def test_the_history_of_l_bfgs_is_counted_though_gradients_have_no_values(answers: dict[str, Any]) -> None:
    assert answers["l-bfgs"]["reserved_bytes"] >= 2 * 10 * 16 * MIB


def test_batches_that_grow_are_noticed(answers: dict[str, Any]) -> None:
    assert "size of its batches" in answers["growing"]["refused"]


def test_a_size_that_is_read_from_the_gpu_changes_what_is_allocated(answers: dict[str, Any]) -> None:
    assert answers["read"]["has_read_whole"]
    assert answers["read"]["allocated_bytes"] < answers["read, with ones"]["allocated_bytes"]
    assert not answers["logged"]["has_read_whole"]


def test_what_training_code_asks_of_a_gpu_is_answered(answers: dict[str, Any]) -> None:
    assert answers["asked"].get("refused") is None


def test_a_fused_optimizer_is_counted_as_one_that_handles_one_parameter_after_the_other(
    answers: dict[str, Any],
) -> None:
    assert 4 * 16 * MIB <= answers["fused"]["reserved_bytes"] <= 7 * 16 * MIB


def test_attention_by_a_fused_kernel_holds_no_scores(answers: dict[str, Any]) -> None:
    assert answers["fused attention"]["reserved_bytes"] < 32 * 4 * MIB
    assert answers["attention by products"]["reserved_bytes"] > 4 * 128 * MIB
    assert answers["encoder"]["reserved_bytes"] < 128 * MIB, "a layer of PyTorch's own, with dropout"


def test_a_gpu_may_be_the_default_device(answers: dict[str, Any]) -> None:
    assert answers["default device"]["reserved_bytes"] == answers["plain"]["reserved_bytes"]
