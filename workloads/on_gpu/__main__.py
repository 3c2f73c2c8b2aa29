"""`python -m workloads.on_gpu --out DIR [--for SECONDS]`: all that is to be measured on a machine with an NVIDIA GPU.

For a machine with Python 3.11 or newer, PyTorch or JAX, no network and no Redis server; `--wheels` says what to bring along.
Started again it goes on where it stopped; the exit code is 0 once everything is done, 3 while something is left or failed.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from workloads.on_gpu import wheels
from workloads.on_gpu.steps import Step, go, states

FOLDER = Path(__file__).resolve().parents[1]
LEFT = 3
_NAMES = ("image_classification", "segmentation", "cnn", "rnn", "lstm", "dcgan", "gan", "sentiment")


def main(words: list[str] | None = None) -> int:
    """The exit code."""
    options = _options(words)
    if options.wheels:
        lacking = wheels.missing()
        print("\n".join(lacking) if lacking else "Nothing is missing.")
        print("\n".join(wheels.commands(lacking)), file=sys.stderr)
        return 0
    os.environ.setdefault("KERAS_BACKEND", options.framework)
    steps = _steps(options)
    go(steps, options.out, options.seconds, lambda text: print(text, flush=True))
    return _sum_up(steps, options.out)


def _options(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m workloads.on_gpu", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--out", type=Path, default=Path("workloads/measurements/gpu"), help="where each step leaves its file"
    )
    parser.add_argument(
        "--for", dest="seconds", type=float, default=540.0, metavar="SECONDS", help="stop cleanly by then"
    )
    parser.add_argument("--framework", choices=("torch", "jax", "tensorflow"), default="torch", help="Keras' backend")
    parser.add_argument("--backend", choices=("nvml", "cpu"), default="nvml", help="cpu: a rehearsal without a GPU")
    parser.add_argument(
        "--campaign", type=Path, default=FOLDER / "campaign.toml", help="the list for `gpuq characterize`"
    )
    parser.add_argument("--only", action="append", metavar="STEP", help="only this step")
    parser.add_argument("--wheels", action="store_true", help="only say which packages are missing here")
    return parser.parse_args(words)


def _steps(options: argparse.Namespace) -> list[Step]:
    from workloads.on_gpu import acts

    large = options.backend == "nvml"
    batch = "128" if large else "1"
    scripts = [FOLDER / f"{name}.py" for name in _NAMES]
    jobs = tuple((str(path), "--batch-size", batch, "--epochs", "100000") for path in scripts if path.exists())
    plan = acts.Plan(
        backend=options.backend,
        sharing_jobs=(jobs[0], jobs[1]),
        memory_jobs=jobs if large else jobs[:2],
        hook_job=jobs[0],
        campaign=options.campaign,
        campaign_pairs=20 if large else 1,
        hook_pairs=6 if large else 2,
        train_s=40.0 if large else 20.0,
    )
    every = [
        Step("driver", "what the driver answers to every question", partial(acts.driver, plan), 30),
        Step("share", "two jobs that share a device, through gpuq", partial(acts.share, plan), 8 * plan.train_s),
        Step(
            "memory",
            "the memory that is read against the allocator's own",
            partial(acts.memory, plan),
            2 * plan.train_s,
        ),
        Step("hook", "what the progress hook costs", partial(acts.hook, plan), 2 * plan.train_s),
        *(
            Step(
                f"campaign-{mode}",
                f"trainings alone and in pairs, {mode}",
                partial(acts.campaign, plan, sharing=mode),
                90,
            )
            for mode in (("time-slicing", "mps") if large else ("time-slicing",))
        ),
    ]
    return [step for step in every if not options.only or step.name in options.only]


def _sum_up(steps: list[Step], out: Path) -> int:
    print(f"\n{out}:")
    found = states(steps, out)
    for one in found:
        print(f"  {one.state:<8} {one.name:<24} {one.words}")
    left = [one for one in found if one.state != "done"]
    print("All is done." if not left else f"{len(left)} steps are left; start again to go on.")
    return LEFT if left else 0


if __name__ == "__main__":
    sys.exit(main())
