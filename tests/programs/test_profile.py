"""`gpuq profile`, as a person meets it: the command, its hook in a real training, and what is kept of it."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpuq.learn.transfer.profile import OpProfile, read_folder
from gpuq.messages.submission import Submission
from gpuq.programs import profile

TRACE = {"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 9}]}
# Keras would import Matplotlib and scikit-learn, which takes a second, and nothing here uses them.
KERAS = """
import sys
sys.modules.update(dict.fromkeys(("matplotlib", "sklearn")))
import keras, numpy as np
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
print("the job's own words")
model.fit(np.ones((3200, 8)), np.ones((3200, 1)), batch_size=32, epochs=10_000, verbose=0)
"""
# Just enough of PyTorch for the hook: a global hook after each optimizer step, and a profiler.
TORCH = """
class profiler:
    class profile:
        def start(self): pass
        def stop(self): pass
        def export_chrome_trace(self, path):
            open(path, "w").write('TRACE')
""".replace("TRACE", json.dumps(TRACE))
OPTIMIZER = """
hooks = []
def register_optimizer_step_post_hook(hook): hooks.append(hook)
def step():
    for hook in hooks: hook(None, (), {})
"""
TORCH_TRAINING = """
import time
import torch, torch.optim.optimizer as o
while True:
    o.step()
    time.sleep(0.001)
"""


def gpuq(tmp_path, *words, **extra):
    program = "import sys; from gpuq.cli.main import main; sys.exit(main(sys.argv[1:]))"
    environ = {
        **os.environ,
        "GPUQ_HOME": str(tmp_path / "home"),
        "GPUQ_DEVICES_BACKEND": "cpu",
        "GPUQ_DEBUG": "1",
        **extra,
    }
    return subprocess.run(
        [sys.executable, "-c", program, "profile", *words],
        capture_output=True,
        text=True,
        env=environ,
        cwd=tmp_path,
        check=False,
    )


def script(tmp_path, text):
    path = tmp_path / "train.py"
    path.write_text(text)
    return path.name


@pytest.fixture
def torch_like(tmp_path):
    """A stand-in on the path; the real one is not installed here."""
    if find_spec("torch") is not None:
        pytest.skip("PyTorch is here: its stand-in would hide it")
    folder = tmp_path / "lib" / "torch" / "optim"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text(TORCH)
    (folder / "__init__.py").write_text("")
    (folder / "optimizer.py").write_text(OPTIMIZER)
    return str(tmp_path / "lib")


def test_steps_of_pytorch_are_counted_recorded_and_the_job_is_ended(tmp_path, torch_like):
    done = gpuq(
        tmp_path,
        "--python",
        sys.executable,
        "--out",
        "mine.json",
        script(tmp_path, TORCH_TRAINING),
        PYTHONPATH=torch_like,
    )
    assert done.returncode == 0, done.stderr
    assert "aten::mm" in done.stdout
    (kept,) = read_folder(tmp_path / "home" / "profiles")
    assert (kept.steps, kept.framework, kept.host_us) == (20, "pytorch", {"aten::mm": 9})
    assert kept.step_s is not None
    assert kept.kind.endswith("/train.py")
    assert json.loads((tmp_path / "mine.json").read_text())["kind"] == kept.kind


def test_a_keras_training_that_knows_nothing_of_it_is_profiled(tmp_path):
    if find_spec("tensorflow") is None:
        pytest.skip("TensorFlow comes with the `train` extra")
    done = gpuq(tmp_path, "--python", sys.executable, "--json", script(tmp_path, KERAS))
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["framework"] == "tensorflow"
    assert found["steps"] >= 20
    assert found["step_s"] > 0
    assert any("MatMul" in op for op in found["host_us"])
    assert "the job's own words" in done.stderr


def test_real_pytorch_is_profiled(tmp_path):
    if find_spec("torch") is None:
        pytest.skip("PyTorch is not installed here")
    training = (
        "import torch\nm = torch.nn.Linear(64, 64)\no = torch.optim.SGD(m.parameters(), 0.1)\n"
        "while True:\n    o.zero_grad(); m(torch.ones(8, 64)).sum().backward(); o.step()\n"
    )
    done = gpuq(tmp_path, "--python", sys.executable, "--json", script(tmp_path, training))
    assert done.returncode == 0, done.stderr[-3000:]
    assert "aten::addmm" in json.loads(done.stdout)["host_us"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--", sys.executable, "-c", "raise SystemExit(3)"], "ended with code 3"),
        (["--limit", "1s", "--", sys.executable, "-c", "import time; time.sleep(60)"], "in 1 s"),
        (["--steps", "0", "--", "true"], "--steps `0`"),
        (["--from", "nothing.json", "--", "true"], "No such file"),
    ],
)
def test_what_cannot_be_profiled_is_a_sentence(tmp_path, words, says):
    done = gpuq(tmp_path, *words)
    assert done.returncode in (1, 2)
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not read_folder(tmp_path / "home" / "profiles")


def test_a_trace_from_elsewhere_is_read_instead_of_running(tmp_path):
    (tmp_path / "trace.json").write_text(json.dumps(TRACE))
    done = gpuq(tmp_path, "--from", "trace.json", "--device-type", "Tesla T4", "--kind", "mine", "--", "false")
    assert done.returncode == 0, done.stderr
    (kept,) = read_folder(tmp_path / "home" / "profiles")
    assert (kept.device_type, kept.kind) == ("Tesla T4", "mine")


def test_a_later_profile_of_the_same_work_replaces_the_earlier(tmp_path):
    submission = Submission(command=("true",), cwd="/", kind="mine")
    for us in (1.0, 2.0):
        profile.keep(profile.named(OpProfile(host_us={"a": us}), submission, "T4"), tmp_path)
    assert [one.host_us for one in read_folder(tmp_path)] == [{"a": 2.0}]


def test_the_table_has_the_longest_first_and_adds_up_the_rest():
    lines = profile.table(OpProfile(device_us={f"op {n}": 1000.0 * n for n in range(1, 31)}))
    assert lines[4].split() == ["op", "30", "30.000", "6.5%"]
    assert lines[-1].startswith("11 more")


def test_the_hook_is_where_the_program_looks_for_it():
    assert (Path(profile.HOOK_FOLDER) / "sitecustomize.py").is_file()
