"""Tests mirror the packages: a module with logic has `tests/PACKAGE/test_MODULE.py`, or a line below says where it is tested.

A module without a branch or a loop needs none: it is exercised by whoever uses it.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# module or folder -> the test that covers it, because it is only ever used through what that test drives
ELSEWHERE = {
    "gpuq/adapters/lock.py": "tests/api/test_process.py",
    # Parts of the NVML adapter, over the stand-in driver.
    "gpuq/adapters/nvml_ask.py": "tests/adapters/test_nvml.py",
    "gpuq/adapters/nvml_gpm.py": "tests/adapters/test_nvml.py",
    "gpuq/adapters/nvml_processes.py": "tests/adapters/test_nvml.py",
    "gpuq/adapters/store/select.py": "tests/adapters/store/test_sql.py",
    "gpuq/adapters/store/revision.py": "tests/adapters/store/test_migrate.py",
    "gpuq/adapters/store/rows.py": "tests/adapters/store/test_sql.py",
    # Through HTTP, as callers meet them.
    "gpuq/api/": "tests/api/test_requests.py",
    # What only a run, or a start of the command, shows.
    "gpuq/campaign/campaign.py": "tests/campaign/test_command.py",
    "gpuq/campaign/tell.py": "tests/campaign/test_command.py",
    "gpuq/campaign/watch.py": "tests/campaign/test_run.py",
    "gpuq/campaign/made.py": "tests/campaign/test_files.py",
    # Through the command, as people meet them.
    "gpuq/cli/": "tests/cli/test_verbs.py",
    "gpuq/codec.py": "tests/daemon/test_loop.py",
    "gpuq/core/attempt.py": "tests/core/test_state.py",
    "gpuq/core/drain.py": "tests/core/test_gangs.py",
    "gpuq/core/index.py": "tests/core/test_promises.py",
    "gpuq/core/keeping.py": "tests/core/test_gangs.py",
    "gpuq/core/known.py": "tests/core/test_promises.py",
    "gpuq/core/options.py": "tests/core/test_promises.py",
    "gpuq/core/places.py": "tests/core/test_promises.py",
    "gpuq/core/validate.py": "tests/core/test_promises.py",
    # Through the ring that they are parts of.
    "gpuq/daemon/": "tests/daemon/test_loop.py",
    "gpuq/core/job.py": "tests/core/test_decide.py",
    "gpuq/core/forecast.py": "tests/core/test_admit.py",
    "gpuq/learn/arguments.py": "tests/learn/test_kind.py",
    "gpuq/learn/evaluate/answers.py": "tests/learn/evaluate/test_baselines.py",
    # Parts of the report, which is only read whole.
    "gpuq/learn/characterize/page.py": "tests/learn/characterize/test_report.py",
    "gpuq/learn/characterize/plots.py": "tests/learn/characterize/test_report.py",
    "gpuq/learn/characterize/table.py": "tests/learn/characterize/test_relevance.py",
    "gpuq/learn/characterize/text.py": "tests/learn/characterize/test_report.py",
    "gpuq/learn/clusters.py": "tests/learn/test_predictor.py",
    "gpuq/learn/families.py": "tests/learn/test_kind.py",
    "gpuq/learn/history.py": "tests/learn/test_predictor.py",
    "gpuq/learn/interference/profile.py": "tests/learn/interference/test_learned.py",
    "gpuq/learn/interference/law.py": "tests/learn/interference/test_learned.py",
    # Parts of the regression, which is only worth what they give together.
    "gpuq/learn/peaks/fit.py": "tests/learn/peaks/test_regression.py",
    "gpuq/learn/peaks/foretell.py": "tests/learn/peaks/test_regression.py",
    "gpuq/learn/peaks/kernel.py": "tests/learn/peaks/test_regression.py",
    "gpuq/learn/peaks/levels.py": "tests/learn/peaks/test_regression.py",
    "gpuq/learn/peaks/traits.py": "tests/learn/peaks/test_regression.py",
    "gpuq/learn/peaks/architectures.py": "tests/learn/peaks/test_footprint.py",
    "gpuq/learn/public/": "tests/learn/public/test_public.py",
    "gpuq/learn/transfer/features.py": "tests/learn/transfer/test_carrier.py",
    "gpuq/learn/transfer/hook/": "tests/daemon/test_profile.py",
    "gpuq/learn/transfer/transfer.py": "tests/learn/transfer/test_train.py",
    "gpuq/learn/model.py": "tests/learn/test_shelf.py",
    "gpuq/learn/night.py": "tests/daemon/test_retrain.py",
    "gpuq/learn/plots.py": "tests/learn/test_card.py",
    "gpuq/learn/rows.py": "tests/learn/test_measured.py",
    "gpuq/learn/score.py": "tests/learn/test_train.py",
    # Through the scripts that they read.
    "gpuq/script/": "tests/script/test_hints.py",
    # Parts of drawing up a batch.
    "gpuq/policies/batch.py": "tests/policies/test_draft.py",
    "gpuq/policies/columns.py": "tests/policies/test_draft.py",
    "gpuq/sim/conformance.py": "tests/policies/test_conformance.py",
    "gpuq/sim/exercises.py": "tests/policies/test_conformance.py",
    "gpuq/sim/rivals/": "tests/sim/test_rivals.py",
    "gpuq/submission.py": "tests/api/test_submit.py",
    # Parts of the report, which is only read whole.
    "gpuq/sim/report/headline.py": "tests/sim/report/test_report.py",
    "gpuq/sim/report/page.py": "tests/sim/report/test_report.py",
    "gpuq/sim/report/plots.py": "tests/sim/report/test_report.py",
    "gpuq/sim/report/sketch.py": "tests/sim/report/test_report.py",
    "gpuq/sim/report/table.py": "tests/sim/report/test_report.py",
    # Through the simulator that they are parts of.
    "gpuq/sim/beliefs.py": "tests/sim/test_run.py",
    "gpuq/sim/energy.py": "tests/sim/test_world_in_motion.py",
    "gpuq/sim/failures.py": "tests/sim/test_world_in_motion.py",
    "gpuq/sim/floor.py": "tests/sim/test_world_in_motion.py",
    "gpuq/sim/hosts.py": "tests/sim/test_world_in_motion.py",
    "gpuq/sim/memory.py": "tests/sim/test_world_in_motion.py",
    "gpuq/sim/record.py": "tests/sim/test_run.py",
    "gpuq/sim/truth.py": "tests/sim/test_world_in_motion.py",
    "gpuq/sim/world.py": "tests/sim/test_run.py",
    "gpuq/sim/traces/philly.py": "tests/sim/traces/test_public.py",
    "gpuq/sim/traces/alibaba.py": "tests/sim/traces/test_public.py",
    "gpuq/sim/traces/muri.py": "tests/sim/traces/test_public.py",
    "gpuq/sim/worlds/law.py": "tests/sim/worlds/test_named.py",
    "gpuq/sim/worlds/machines.py": "tests/sim/worlds/test_named.py",
    "gpuq/sim/worlds/memory.py": "tests/sim/worlds/test_named.py",
    "gpuq/sim/remembered.py": "tests/sim/test_replay.py",
    "workers/attempts.py": "tests/workers/test_residents.py",
    "workers/hook/": "tests/workers/hook/test_counting.py",
    # Parts of the shim, which is only run as a process.
    "workers/shim_child.py": "tests/workers/test_shim.py",
    "workers/shim_text.py": "tests/workers/test_shim_end.py",
    "workers/shim_record.py": "tests/workers/test_shim.py",
    "workers/shim_tree.py": "tests/workers/test_shim.py",
    "workers/shim_mps.py": "tests/workers/test_mps.py",
    "workers/shims.py": "tests/workers/test_serve_orders.py",
    "workers/watch.py": "tests/workers/test_serve.py",
}
_LOGIC = (
    ast.If,
    ast.For,
    ast.While,
    ast.Try,
    ast.With,
    ast.Match,
    ast.comprehension,
    ast.BoolOp,
    ast.IfExp,
    ast.AsyncFor,
)


def modules() -> list[str]:
    paths = [path for package in ("gpuq", "workers") for path in sorted((ROOT / package).rglob("*.py"))]
    return [str(path.relative_to(ROOT)) for path in paths if path.name not in ("__init__.py", "__main__.py")]


def mirror_of(module: str) -> Path:
    parts = Path(module).parts[1:] if module.startswith("gpuq/") else Path(module).parts
    return ROOT.joinpath("tests", *parts[:-1], f"test_{parts[-1]}")


def has_logic(module: str) -> bool:
    tree = ast.parse((ROOT / module).read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return any(isinstance(node, _LOGIC) for function in functions for node in ast.walk(function))


def elsewhere(module: str) -> str | None:
    return ELSEWHERE.get(module) or next(
        (ELSEWHERE[one] for one in ELSEWHERE if one[-1] == "/" and module.startswith(one)), None
    )


@pytest.mark.parametrize("module", [module for module in modules() if has_logic(module)])
def test_a_module_with_logic_is_tested_where_one_would_look(module):
    assert mirror_of(module).exists() or elsewhere(module), f"write {mirror_of(module).relative_to(ROOT)}"


@pytest.mark.parametrize(("module", "test"), ELSEWHERE.items())
def test_the_list_of_exceptions_is_true(module, test):
    assert (ROOT / test).exists()
    assert (ROOT / module).exists()
    if module[-1] != "/":
        assert has_logic(module), "it needs no exception"
        assert not mirror_of(module).exists(), "it has a test of its own by now"
