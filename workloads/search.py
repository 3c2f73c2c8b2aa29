"""Search hyperparameters with Optuna, each trial a job of gpuq: `python workloads/search.py --trials 12 --at-once 4`.

Optuna proposes as many trials at once as `--at-once` says; gpuq decides which of them share a device. A trial is `mlp.py` with a
learning rate, a batch size and a network; what is minimised is the last loss that it prints.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import optuna

from gpuq import Client

SCRIPT = Path(__file__).with_name("mlp.py")


def main(arguments: list[str] | None = None) -> int:
    """Search, print the best trial, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=12, help="how many (default: 12)")
    parser.add_argument("--at-once", type=int, default=4, help="how many are in the queue at a time (default: 4)")
    parser.add_argument("--steps", type=int, default=300, help="of each training (default: 300)")
    parser.add_argument("--seed", type=int, default=0, help="of the proposals (default: 0)")
    options = parser.parse_args(arguments)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="minimize", sampler=optuna.samplers.TPESampler(seed=options.seed))
    with Client() as client:
        study.optimize(
            lambda trial: objective(client, trial, options.steps), n_trials=options.trials, n_jobs=options.at_once
        )
    best = study.best_trial
    print(f"best of {len(study.trials)}: trial {best.number}, loss {best.value:.4f}, {json.dumps(best.params)}")
    return 0


def objective(client: Client, trial: optuna.Trial, steps: int) -> float:
    """The loss at the end of one training. A job that fails, or whose loss is no number any more, prunes its trial."""
    flags = {
        "--lr": f"{trial.suggest_float('lr', 1e-3, 0.5, log=True):.6g}",
        "--batch-size": str(trial.suggest_categorical("batch_size", [64, 256])),
        "--model": trial.suggest_categorical("model", ["small", "deep"]),
    }
    words = [word for flag in flags.items() for word in flag]
    job = client.submit(
        SCRIPT, "--steps", str(steps), *words, name=f"trial {trial.number}", time="10m", project="search"
    )
    [ended] = client.wait([job])
    if ended.exit_code != 0:
        raise optuna.TrialPruned(f"job {ended.id} ended {ended.state}: {ended.reason}")
    loss: float | None = json.loads(client.logs(ended, lines=1))["loss_last"]
    if loss is None:
        raise optuna.TrialPruned(f"job {ended.id} diverged")
    print(f"trial {trial.number}: job {ended.id}, loss {loss:.4f}, {' '.join(words)}", flush=True)
    return loss


if __name__ == "__main__":
    sys.exit(main())
