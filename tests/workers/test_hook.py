"""The step counter in real training processes: what it counts is compared with what was really trained.

Every script runs as a job does: the hook's folder first on PYTHONPATH, GPUQ_PROGRESS naming the counter's file.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import textwrap
import time
import zipapp
from collections.abc import Callable
from pathlib import Path

import pytest

from workers.progress import HOOK_FOLDER, Progress, hook_environment, read_progress, why_not_counted

Run = Callable[..., "subprocess.CompletedProcess[str]"]
MINOR_VERSIONS = [minor for minor in (8, 9, 10, 12, 13) if minor != sys.version_info.minor]


@pytest.fixture
def counter(tmp_path: Path) -> Path:
    return tmp_path / "progress"


@pytest.fixture
def run(tmp_path: Path, counter: Path) -> Run:
    """Runs a script as a job; `path` are further folders on its PYTHONPATH."""

    def runner(
        code: str, *path: Path, counted: bool = True, python: str = sys.executable, flags: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "train.py"
        script.write_text(textwrap.dedent(code))
        environ = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "GPUQ_PROGRESS")}
        if path:
            environ["PYTHONPATH"] = os.pathsep.join(map(str, path))
        environ |= hook_environment(environ, counter)
        if not counted:
            del environ["GPUQ_PROGRESS"]
        return subprocess.run(
            [python, *flags, script], env=environ, capture_output=True, text=True, check=True, timeout=90, cwd=tmp_path
        )

    return runner


def steps(counter: Path) -> int | None:
    progress = read_progress(counter)
    return None if progress is None else progress.steps


# --- gpuq.step() ---------------------------------------------------------------------------------------------------


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


def find_python(name: str) -> str | None:
    """An interpreter on the path that works, or one that pyenv has installed."""
    installed = Path.home().glob(f".pyenv/versions/*/bin/{name}")
    for candidate in filter(None, (shutil.which(name), *map(str, installed))):
        if subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


@pytest.mark.parametrize("minor", MINOR_VERSIONS)
def test_other_pythons_count_too(run: Run, counter: Path, minor: int):
    python = find_python(f"python3.{minor}")
    if python is None:
        pytest.skip(f"Python 3.{minor} is not installed")
    parts = "import gpuq_progress_jax, gpuq_progress_keras"
    done = run(f"import gpuq\n{parts}\nfor _ in range(150): gpuq.step()", python=python)
    assert steps(counter) == 150
    assert done.stderr == ""


# --- several processes ---------------------------------------------------------------------------------------------


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


def test_a_script_that_counts_itself_is_believed_over_its_optimizers(run: Run, counter: Path, tmp_path: Path):
    package = tmp_path / "lib" / "torch" / "optim"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package.parent / "__init__.py").write_text("")
    (package / "optimizer.py").write_text("hooks = []\nregister_optimizer_step_post_hook = hooks.append")
    run(
        """
        from torch.optim.optimizer import hooks
        import gpuq
        for number in range(300):
            hooks[0]()
            if number % 2: gpuq.step()
        """,
        tmp_path / "lib",
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


# --- other sitecustomize modules, other importers -------------------------------------------------------------------


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


def test_a_broken_sitecustomize_of_the_user_breaks_as_it_would_without_us(run: Run, tmp_path: Path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("raise RuntimeError('of their own')")
    done = run("print('runs on')", tmp_path / "own")
    assert done.stdout == "runs on\n"
    assert "of their own" in done.stderr


def test_the_import_hook_leaves_no_trace_on_what_it_watched(run: Run, tmp_path: Path):
    package = tmp_path / "lib" / "torch" / "optim"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package.parent / "__init__.py").write_text("")
    (package / "optimizer.py").write_text("hooks = []\ndef register_optimizer_step_post_hook(hook): hooks.append(hook)")
    done = run(
        """
        import importlib.util
        importlib.util.find_spec("torch.optim.optimizer")  # to ask is not to import
        import torch.optim.optimizer as module
        print(len(module.hooks), type(module.__loader__).__name__, type(module.__spec__.loader).__name__)
        """,
        tmp_path / "lib",
    )
    assert done.stdout == "1 SourceFileLoader SourceFileLoader\n"


def test_a_library_that_fails_to_import_fails_as_it_would_without_us(run: Run, tmp_path: Path):
    package = tmp_path / "lib" / "torch" / "optim"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package.parent / "__init__.py").write_text("")
    (package / "optimizer.py").write_text("raise ImportError('no CUDA')")
    code = "try: import torch.optim.optimizer\nexcept ImportError as error: print(error)"
    assert run(code, tmp_path / "lib").stdout == "no CUDA\n"


def test_the_users_own_usercustomize_still_runs(run: Run, counter: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path / "base"))
    ask = [find_python("python3") or sys.executable, "-c", "import site; print(site.getusersitepackages())"]
    folder = Path(subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip())
    folder.mkdir(parents=True)
    (folder / "usercustomize.py").write_text("print('the user speaks')")
    # A virtual environment has no user's folder.
    done = run("import gpuq; gpuq.step(150)", python=ask[0])
    assert done.stdout == "the user speaks\n"
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


# --- where it steps aside --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_a_python_that_takes_nothing_from_us_runs_uncounted_and_that_is_said(run: Run, counter: Path, flag: str):
    done = run("import sys; print('gpuq_progress' in sys.modules, 'sitecustomize' in sys.modules)", flags=(flag,))
    assert done.stdout.startswith("False")
    assert not counter.exists()
    assert "no Python with the step counter has started" in why_not_counted(counter)


def test_a_python_without_our_path_runs_uncounted(run: Run, counter: Path):
    run("import os, subprocess, sys\nsubprocess.run([sys.executable, '-c', ''], env={}, check=True)", flags=("-E",))
    assert not counter.exists()


def test_a_script_without_a_framework_is_told_what_to_call(run: Run, counter: Path):
    run("print('no training')")
    assert steps(counter) is None
    assert why_not_counted(counter).endswith("calls gpuq.step()")


@pytest.mark.parametrize(
    ("module", "source", "why"),
    [
        ("torch.optim.optimizer", "def register_optimizer_step_post_hook(hook): pass", "no optimizer has stepped yet"),
        ("torch.optim.optimizer", "", "this version of its framework cannot be counted"),
        ("jaxlib._jax", "def pjit(*rest): pass", "it uses JAX without optax or Keras"),
        ("jaxlib._jax", "", "this version of its framework cannot be counted"),
        ("optax._src.update", "def apply_updates(*rest): pass", "no optimizer has stepped yet"),
        ("keras.src.optimizers.base_optimizer", "", "its framework cannot be counted"),
    ],
)
def test_a_framework_that_is_there_but_trains_nothing_is_told_apart(
    run: Run, counter: Path, tmp_path: Path, module: str, source: str, why: str
):
    folder = tmp_path / "lib"
    for part in module.split(".")[:-1]:
        folder /= part
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("")
    (folder / f"{module.rpartition('.')[2]}.py").write_text(source)
    assert run(f"import {module}; print('trains')", tmp_path / "lib").stdout == "trains\n"
    assert steps(counter) is None
    assert why in why_not_counted(counter)


def test_a_counter_that_the_job_overwrote_is_said_to_be(counter: Path):
    counter.write_bytes(b"something else")
    assert "overwritten" in why_not_counted(counter)
    counter.unlink()
    counter.symlink_to("/etc/hostname")
    assert why_not_counted(counter)


# --- frameworks ----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed")
def test_keras_training_is_counted_to_the_step(run: Run, counter: Path):
    """`fit`, a loop of its own with two optimizers (a GAN's shape), accumulated gradients: 120 + 2 x 60 + 64 / 2 steps."""
    done = run(
        """
        import numpy as np, keras, sys
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


def test_the_thread_that_reads_keras_optimizers_spoils_no_capture_of_a_cuda_graph(run: Run):
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


# --- the reader ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [b"", b"GPUQ", b"x" * 16384, b"GPUQPRG1" + b"\xff" * 16376, b"GPUQPRG1" + b"\0" * 200])
def test_a_file_that_is_none_of_the_hooks_gives_no_signal(counter: Path, raw: bytes):
    counter.write_bytes(raw)
    assert read_progress(counter) is None


def test_what_is_no_plain_file_is_not_read(counter: Path, tmp_path: Path):
    assert read_progress(counter) is None
    os.mkfifo(counter)
    assert read_progress(counter) is None
    (tmp_path / "link").symlink_to("/etc/hostname")
    assert read_progress(tmp_path / "link") is None


def test_a_reader_never_sees_half_a_step(counter: Path):
    """A writer in full flight: at every look, the time of the last step belongs to the count."""
    code = "import gpuq_progress as g, sys\ng.step(); print(flush=True)\nwhile True: g.step()"
    environ = {**os.environ, **hook_environment({}, counter)}
    seen: list[Progress | None] = []
    with subprocess.Popen([sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            seen.append(read_progress(counter))
            if (seen[-1].steps if seen[-1] else 0) > 100_000:
                break
        writer.kill()
    known = [progress for progress in seen if progress is not None]
    assert len(known) == len(seen) > 100
    assert known == sorted(known, key=lambda progress: (progress.steps, progress.last_step_at))
    assert known[-1].steps > 100_000


def test_the_hook_goes_first_and_keeps_the_users_path():
    found = hook_environment({"PYTHONPATH": "/theirs"}, Path("/somewhere/progress"))
    assert found == {"PYTHONPATH": f"{HOOK_FOLDER}:/theirs", "GPUQ_PROGRESS": "/somewhere/progress"}
