"""Other people's scripts as real jobs: an order arrives, a shim starts them, and what the hook counted is read as ever.

Each script runs in an environment where gpuq is not installed, once counted and once not. It says itself how many steps its
optimizers made, and every loss, to the last bit.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from gpuq_workers import run_job
from gpuq_workers.attempts import AttemptFolder
from gpuq_workers.measuring.progress import read_counter, read_progress

from gpuq.adapters import process
from gpuq.home import Home
from gpuq.messages.wire import Verb
from gpuq.settings import Settings, Worker
from tests.workers import twins
from tests.workers.conftest import wait_for

pytestmark = pytest.mark.frameworks

ENVIRONMENTS = Path(__file__).parents[2] / "build" / "frameworks"
SCRIPTS = Path(__file__).parent / "scripts"
RANKS = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
WITHIN_S = 300.0


def python_of(environment: str) -> str:
    found = ENVIRONMENTS / environment / "bin" / "python"
    if not found.exists():
        pytest.skip(f"there is no {environment} environment: `make test-frameworks` makes it")
    return str(found)


@dataclass(frozen=True)
class Done:
    """A job that is over: what it said last, and what was counted of it."""

    exit_code: int | None
    log: str
    counter: Path

    @property
    def said(self) -> Any:
        """The last line that is JSON."""
        assert self.exit_code == 0, self.log
        return json.loads([line for line in self.log.splitlines() if line.startswith("{")][-1])

    @property
    def steps(self) -> int | None:
        progress = read_progress(self.counter)
        return None if progress is None else progress.steps


Run = Callable[..., Done]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Launches a command as the worker does, waits for its end."""
    numbers = iter(range(1, 100))
    home = Home(tmp_path / "home")
    home.create()
    settings = Settings(home=home, redis_url=None, database_url="sqlite://", worker=Worker(host="alpha"))

    def runner(*command: str, counted: bool = True, **env: str) -> Done:
        attempt = twins.attempt_id(next(numbers))
        env = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", **env}
        store = twins.OneClaim(twins.spec(command, attempt, env=env))
        places = twins.Places({"CUDA_VISIBLE_DEVICES": ""})
        context = twins.context(replace(settings, worker=replace(settings.worker, hook=counted)), store, places)
        folder = AttemptFolder(home.attempt(*attempt), attempt)
        try:
            run_job.run(context, twins.order(Verb.LAUNCH, attempt.job, attempt.number))
            end = wait_for(folder.ended, WITHIN_S, "the end of the job")
        finally:
            context.launcher.shims.close()
            if folder.shim() is not None and folder.ended() is None:
                process.kill_tree(folder.shim())
            wait_for(
                lambda: all(shim.is_gone() for shim in context.launcher.shims._serving), what="the end of the shims"
            )
        log = folder.log_path.read_text() if folder.log_path.exists() else ""  # it may have said nothing
        return Done(end.exit_code, log, folder.path / "progress")

    return runner


@pytest.mark.parametrize(
    ("environment", "script", "launcher"),
    [
        ("torch", "torch_plain", ()),
        ("torch", "torch_amp", ()),
        ("torch", "torch_accumulate", ()),
        ("torch", "torch_ranks", RANKS),
        ("torch", "torch_compile", ()),
        ("torch", "lightning_fit", ()),
        ("torch", "transformers_trainer", ()),
        ("torch", "keras_fit", ()),
        ("torch", "keras_loop_torch", ()),
        ("jax", "jax_optax", ()),
        ("jax", "jax_flax_linen", ()),
        ("jax", "jax_flax_nnx", ()),
        ("jax", "jax_equinox", ()),
        ("jax", "keras_fit", ()),
        ("jax", "keras_loop_jax", ()),
        ("tensorflow", "keras_fit", ()),
        ("tensorflow", "keras_loop_tensorflow", ()),
    ],
)
def test_every_step_is_counted_and_no_bit_of_a_loss_changes(
    run: Run, environment: str, script: str, launcher: tuple[str, ...]
) -> None:
    command = [python_of(environment), *launcher, str(SCRIPTS / f"{script}.py")]
    counted = run(*command, KERAS_BACKEND=environment)
    plain = run(*command, KERAS_BACKEND=environment, counted=False)
    assert counted.said == plain.said
    assert len(counted.said["losses"]) > 10
    assert counted.steps == counted.said["steps"]
    assert plain.steps is None


def test_a_compiled_function_of_jax_stays_what_it_is(run: Run) -> None:
    """Its type, its attributes, its cache, its shapes; and pickled it works where the hook is not."""
    assert run(python_of("jax"), str(SCRIPTS / "jax_seams.py")).said["wrong"] == []


@pytest.mark.parametrize("environment", ["torch", "jax", "tensorflow"])
def test_gpuq_is_not_installed_there(environment: str) -> None:
    found = subprocess.run([python_of(environment), "-I", "-c", "import gpuq"], capture_output=True, check=False)
    assert b"No module named 'gpuq'" in found.stderr


@pytest.mark.parametrize(
    ("environment", "code", "why"),
    [
        ("torch", "import torch", "updates its weights by hand calls gpuq.step()"),
        ("jax", "import jax; jax.jit(lambda x: x + 1)(1)", "it uses JAX without optax or Keras"),
        (
            "jax",
            "import jax, jax.numpy as np, optax\n"
            "def step(w): return optax.apply_updates(w, w)\n"
            "compiled = jax.jit(step).lower(np.ones(3)).compile()\n"
            "for _ in range(9): compiled(np.ones(3))",
            "its step is compiled ahead of time",
        ),
    ],
)
def test_what_cannot_be_counted_says_why(run: Run, environment: str, code: str, why: str) -> None:
    done = run(python_of(environment), "-c", code)
    assert done.exit_code == 0, done.log
    assert done.steps is None
    assert why in read_counter(done.counter)[1]
