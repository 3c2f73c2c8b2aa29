"""The hook beside what is there already: other sitecustomize modules, other importers, a Python that takes nothing from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from gpuq_workers.measuring.progress import read_counter

from tests.workers.hook.conftest import Run, base_python, library, steps


def test_the_users_own_sitecustomize_still_runs(run: Run, counter: Path, tmp_path: Path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("import builtins; builtins.mark = __name__, __file__")
    done = run("import gpuq, sitecustomize; gpuq.step(101); print(*mark, sitecustomize.__file__)", tmp_path / "own")
    own = str(tmp_path / "own" / "sitecustomize.py")
    assert done.stdout == f"sitecustomize {own} {own}\n"
    assert steps(counter) == 101


def test_a_virtual_environments_sitecustomize_still_runs(run: Run, counter: Path, tmp_path: Path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    folder = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    (folder / "sitecustomize.py").write_text("print('the environment speaks')")
    done = run("import gpuq; gpuq.step(150)", python=str(tmp_path / "venv" / "bin" / "python"))
    assert done.stdout == "the environment speaks\n"
    assert steps(counter) == 150


def test_a_failing_sitecustomize_of_the_user_fails_as_without_the_hook(run: Run, tmp_path: Path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("raise RuntimeError('of their own')")
    done = run("print('runs on')", tmp_path / "own")
    assert done.stdout == "runs on\n"
    assert "of their own" in done.stderr


def test_the_import_hook_restores_the_loader(run: Run, tmp_path: Path):
    torch = library(
        tmp_path, "torch.optim.optimizer", "hooks = []\ndef register_optimizer_step_post_hook(hook): hooks.append(hook)"
    )
    done = run(
        """
        import importlib.util
        importlib.util.find_spec("torch.optim.optimizer")  # to ask is not to import
        import torch.optim.optimizer as module
        print(len(module.hooks), type(module.__loader__).__name__, type(module.__spec__.loader).__name__)
        """,
        torch,
    )
    assert done.stdout == "1 SourceFileLoader SourceFileLoader\n"


def test_a_failing_import_fails_as_without_the_hook(run: Run, tmp_path: Path):
    torch = library(tmp_path, "torch.optim.optimizer", "raise ImportError('no CUDA')")
    code = "try: import torch.optim.optimizer\nexcept ImportError as error: print(error)"
    assert run(code, torch).stdout == "no CUDA\n"


def test_the_users_own_usercustomize_still_runs(run: Run, counter: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path / "base"))
    ask = [base_python(), "-c", "import site; print(site.getusersitepackages())"]
    folder = Path(subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip())
    folder.mkdir(parents=True)
    (folder / "usercustomize.py").write_text("print('the user speaks')")
    done = run("import gpuq; gpuq.step(150)", python=ask[0])
    assert done.stdout == "the user speaks\n"
    assert steps(counter) == 150


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_isolated_python_runs_uncounted_with_a_reason(run: Run, counter: Path, flag: str):
    done = run("import sys; print('gpuq_progress' in sys.modules, 'sitecustomize' in sys.modules)", flags=(flag,))
    assert done.stdout.startswith("False")
    assert not counter.exists()
    assert "no Python with the step counter has started" in read_counter(counter)[1]


def test_python_without_the_hooks_path_runs_uncounted(run: Run, counter: Path):
    run("import os, subprocess, sys\nsubprocess.run([sys.executable, '-c', ''], env={}, check=True)", flags=("-E",))
    assert not counter.exists()


def test_a_script_without_a_framework_gets_the_advice_to_call_step(run: Run, counter: Path):
    run("print('no training')")
    assert steps(counter) is None
    assert read_counter(counter)[1].endswith("calls gpuq.step()")


@pytest.mark.parametrize(
    ("module", "source", "why"),
    [
        (
            "torch.optim.optimizer",
            "def register_optimizer_step_post_hook(hook): pass",
            "updates its weights by hand calls gpuq.step()",
        ),
        ("torch.optim.optimizer", "", "this version of its framework cannot be counted"),
        ("jaxlib._jax", "def pjit(*rest): pass", "it uses JAX without optax or Keras"),
        ("jaxlib._jax", "", "this version of its framework cannot be counted"),
        ("optax._src.update", "def apply_updates(*rest): pass", "updates its weights by hand calls gpuq.step()"),
        ("keras.src.optimizers.base_optimizer", "", "its framework cannot be counted"),
    ],
)
def test_an_imported_framework_without_training_has_its_own_reason(
    run: Run, counter: Path, tmp_path: Path, module: str, source: str, why: str
):
    there = library(tmp_path, module, source)
    assert run(f"import {module}; print('trains')", there).stdout == "trains\n"
    assert steps(counter) is None
    assert why in read_counter(counter)[1]
