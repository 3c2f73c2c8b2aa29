"""The step counter in real training processes: what it counts is compared with what was really trained."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
import zipapp
from pathlib import Path

import pytest
from gpuq_workers.measuring.progress import read_progress

from tests.workers.hook.conftest import Run, find_python, library, steps

MINOR_VERSIONS = [minor for minor in (8, 9, 10, 12, 13) if minor != sys.version_info.minor]


def test_each_step_counts_with_its_time(run: Run, counter: Path):
    before = time.monotonic()
    run("import gpuq\nfor _ in range(123): gpuq.step()\ngpuq.step(200)")
    progress = read_progress(counter)
    assert progress is not None
    assert progress.steps == 323
    assert before < progress.first_step_at < progress.last_step_at < time.monotonic()
    assert counter.stat().st_mode & 0o777 == 0o600


def test_gpuq_need_not_be_installed(run: Run, counter: Path, tmp_path: Path):
    # -S: no site-packages, and no sitecustomize either; what the hook does at start is done by hand.
    run(
        "import sitecustomize, gpuq\nassert 'fallback' in gpuq.__file__\nfor _ in range(150): gpuq.step()",
        flags=("-S",),
    )
    assert steps(counter) == 150


def test_an_installed_gpuq_is_found_first(run: Run, tmp_path: Path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "gpuq.py").write_text("name = 'the one that was installed'")
    assert run("import gpuq; print(gpuq.name)", tmp_path / "other").stdout == "the one that was installed\n"


def test_outside_a_job_nothing_is_counted_and_nothing_fails(run: Run, counter: Path):
    done = run("import gpuq, gpuq_progress, sys\ngpuq.step(5)\nprint(sys.meta_path[0])", counted=False)
    assert not counter.exists()
    assert "_Finder" not in done.stdout


def test_a_counter_that_cannot_be_written_does_not_stop_the_training(run: Run, counter: Path):
    counter.mkdir()
    assert run("import gpuq\nfor _ in range(150): gpuq.step()\nprint('trained')").stdout == "trained\n"


@pytest.mark.parametrize("minor", MINOR_VERSIONS)
def test_other_python_versions_count(run: Run, counter: Path, minor: int):
    python = find_python(f"python3.{minor}")
    if python is None:
        pytest.skip(f"Python 3.{minor} is not installed")
    parts = "import gpuq_progress_jax, gpuq_progress_keras"
    done = run(f"import gpuq\n{parts}\nfor _ in range(150): gpuq.step()", python=python)
    assert steps(counter) == 150
    assert done.stderr == ""


def test_ranks_that_train_together_count_their_steps_once(run: Run, counter: Path):
    run(
        """
        import os, gpuq
        first = [os.pipe(), os.pipe()]
        child = os.fork()
        mine = first[bool(child)]
        for number in range(150):
            gpuq.step()
            if number == 0:  # each waits for the other's first step
                os.write(mine[1], b"x")
                os.read(first[not child][0], 1)
        if child:
            os.waitpid(child, 0)
        """
    )
    assert steps(counter) == 150
    progress = read_progress(counter)
    assert progress is not None
    assert progress.processes == 2


def test_gpuq_step_takes_precedence_over_optimizers(run: Run, counter: Path, tmp_path: Path):
    torch = library(tmp_path, "torch.optim.optimizer", "hooks = []\nregister_optimizer_step_post_hook = hooks.append")
    run(
        """
        from torch.optim.optimizer import hooks
        import gpuq
        for number in range(300):
            hooks[0]()
            if number % 2: gpuq.step()
        """,
        torch,
    )
    assert steps(counter) == 150


def test_scripts_that_follow_each_other_add_up(run: Run, counter: Path):
    run(
        """
        import subprocess, sys
        for count in (110, 120):
            subprocess.run([sys.executable, "-c", f"import gpuq\\nfor _ in range({count}): gpuq.step()"], check=True)
        """
    )
    assert steps(counter) == 230


def test_forked_loaders_do_not_count(run: Run, counter: Path):
    run(
        """
        import multiprocessing, gpuq
        if __name__ == "__main__":
            gpuq.step()
            with multiprocessing.get_context("fork").Pool(2) as pool:
                pool.map(abs, range(300))
            for _ in range(149): gpuq.step()
        """
    )
    assert steps(counter) == 150
    assert counter.read_bytes()[8] == 1


def test_what_was_counted_survives_a_kill(run: Run, counter: Path):
    with pytest.raises(subprocess.CalledProcessError):
        run("import gpuq, os\nfor _ in range(150): gpuq.step()\nos.kill(os.getpid(), 9)")
    assert steps(counter) == 150


@pytest.mark.parametrize("start", ["spawn", "forkserver", "fork"])
def test_children_of_every_kind_count(run: Run, counter: Path, start: str):
    run(
        f"""
        import multiprocessing
        def train(count):
            import gpuq
            for _ in range(count): gpuq.step()
        if __name__ == "__main__":
            for count in (70, 80):
                child = multiprocessing.get_context("{start}").Process(target=train, args=(count,))
                child.start(); child.join(); assert child.exitcode == 0
        """
    )
    assert steps(counter) == 150


@pytest.mark.parametrize("how", ["module", "archive"])
def test_modules_and_archives_count(run: Run, counter: Path, tmp_path: Path, how: str):
    package = tmp_path / "training"
    package.mkdir()
    (package / "__main__.py").write_text("import gpuq\nfor _ in range(150): gpuq.step()")
    what = ["-m", "training"] if how == "module" else [str(tmp_path / "training.pyz")]
    zipapp.create_archive(package, tmp_path / "training.pyz")
    run(f"import subprocess, sys\nsubprocess.run([sys.executable, *{what}], check=True)")
    assert steps(counter) == 150


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed")
def test_keras_training_is_counted_to_the_step(run: Run, counter: Path):
    """`fit`, a loop of its own with two optimizers (a GAN's shape), accumulated gradients: 120 + 2 x 60 + 64 / 2 steps.

    Without scikit-learn and Matplotlib, which Keras would import and nothing here uses, it starts faster.
    """
    done = run(
        """
        import sys
        sys.modules.update(dict.fromkeys(("matplotlib", "sklearn")))
        import numpy as np, keras
        def model():
            made = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
            return made
        x, y = np.ones((240, 4), "float32"), np.ones((240, 3), "float32")
        one = model()
        one.compile(keras.optimizers.Adam(), "mse")
        one.fit(x, y, batch_size=4, epochs=2, verbose=0)
        pair = model(), model()
        for part in pair:
            part.compile(keras.optimizers.SGD(), "mse")
        for _ in range(60):
            for part in pair:
                part.train_on_batch(x[:4], y[:4])
        slow = model()
        slow.compile(keras.optimizers.SGD(gradient_accumulation_steps=2), "mse")
        slow.fit(x[:128], y[:128], batch_size=2, verbose=0)
        print(sum(int(part.optimizer.iterations.numpy()) for part in (one, *pair, slow)))
        """
    )
    assert done.stdout.split()[-1] == "272"
    assert steps(counter) == 272


def test_reading_keras_optimizers_does_not_break_cuda_graph_capture(run: Run):
    """A stand-in for the driver says in which mode each thread is; 2 is relaxed, and the script's own thread stays as it was."""
    run(
        """
        import ctypes, threading
        mode, read = threading.local(), []
        class Driver:
            def cuThreadExchangeStreamCaptureMode(self, wanted):
                mode.now, wanted._obj.value = wanted._obj.value, getattr(mode, "now", 0)
                return 0
        ctypes.CDLL = lambda name, flags: Driver()
        class Iterations:
            def numpy(self):
                read.append(getattr(mode, "now", 0))
                return 7
        class Optimizer:
            _iterations, gradient_accumulation_steps = Iterations(), None
        import gpuq_progress_keras
        optimizer = Optimizer()
        gpuq_progress_keras._watch.register(optimizer)
        while not read:
            pass
        assert (read[0], getattr(mode, "now", 0)) == (2, 0)
        """
    )
