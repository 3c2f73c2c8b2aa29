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
    "gpuq/adapters/nvml/calls.py": "tests/adapters/nvml/test_backend.py",
    "gpuq/adapters/nvml/gpm.py": "tests/adapters/nvml/test_backend.py",
    "gpuq/adapters/nvml/processes.py": "tests/adapters/nvml/test_backend.py",
    # The contract's tests run on it and on the databases.
    "gpuq/adapters/store/row_types.py": "tests/adapters/store/test_sql.py",
    "gpuq/adapters/store/lists.py": "tests/adapters/store/test_sql.py",
    "gpuq/adapters/store/revision.py": "tests/adapters/store/test_migrate.py",
    "gpuq/adapters/store/rows.py": "tests/adapters/store/test_sql.py",
    "gpuq/adapters/store/to_core.py": "tests/adapters/store/test_sql.py",
    # From end to end, with both sides of the wire.
    "gpuq/adapters/main_host.py": "tests/workers/test_join.py",
    "gpuq/adapters/redis/host_mail.py": "tests/api/hosts/test_listener.py",
    "workers/gpuq_workers/uplink.py": "tests/end_to_end/test_joined_host.py",
    "workers/gpuq_workers/serve_requests.py": "tests/adapters/redis/test_host_logs.py",
    # From this terminal to the job's.
    "gpuq/adapters/redis/host_channels.py": "tests/end_to_end/test_interactive.py",
    "gpuq/adapters/relay.py": "tests/end_to_end/test_interactive.py",
    # Through HTTP, as callers meet them.
    "gpuq/api/": "tests/api/test_requests.py",
    # What only a run, or a start of the command, shows.
    "gpuq/lab/campaign/campaign.py": "tests/lab/campaign/test_command.py",
    "gpuq/lab/campaign/progress.py": "tests/lab/campaign/test_command.py",
    "gpuq/lab/campaign/monitor.py": "tests/lab/campaign/test_run.py",
    "gpuq/lab/campaign/session.py": "tests/lab/campaign/test_files.py",
    # Through the command, as people meet them.
    "gpuq/cli/": "tests/cli/test_verbs.py",
    "gpuq/messages/environment.py": "tests/cli/verbs/test_rerun.py",
    "gpuq/services_environment.py": "tests/cli/verbs/test_doctor.py",
    "gpuq/messages/submit_options.py": "tests/cli/test_device_options.py",
    "gpuq/messages/codec.py": "tests/daemon/test_loop.py",
    "gpuq/messages/reported.py": "tests/daemon/test_hostile_hosts.py",
    # With a real Slurm.
    "gpuq/pools/change.py": "tests/slurm/test_pools.py",
    "gpuq/pools/pool.py": "tests/pools/test_serve.py",
    "gpuq/pools/demands.py": "tests/pools/test_serve.py",
    "gpuq/pools/slurm_reasons.py": "tests/pools/test_problems.py",
    # Parts of what watches the attempts of a host.
    "workers/gpuq_workers/live_attempt.py": "tests/workers/test_residents.py",
    "workers/gpuq_workers/failed_starts.py": "tests/workers/test_residents.py",
    # With targets that take its message, and one that does not.
    "gpuq/notifier/trial.py": "tests/notifier/test_serve.py",
    # With the shim's side of it.
    "workers/gpuq_workers/job_lease.py": "tests/workers/shim/test_lease.py",
    # Through the dispatcher's loop.
    "gpuq/daemon/acknowledge.py": "tests/daemon/test_loop.py",
    "gpuq/daemon/listen.py": "tests/daemon/test_loop.py",
    "gpuq/daemon/main.py": "tests/daemon/test_loop.py",
    "gpuq/daemon/record.py": "tests/daemon/test_loop.py",
    "gpuq/daemon/tasks.py": "tests/daemon/test_loop.py",
    "gpuq/learn/features/arguments.py": "tests/learn/features/test_kind.py",
    "gpuq/learn/serving/record.py": "tests/daemon/test_learner.py",
    "gpuq/lab/evaluate/answers.py": "tests/lab/evaluate/test_baselines.py",
    # Parts of the report, which is only read whole.
    "gpuq/lab/characterize/plots.py": "tests/lab/characterize/test_report.py",
    "gpuq/lab/characterize/table.py": "tests/lab/characterize/test_relevance.py",
    "gpuq/lab/characterize/text.py": "tests/lab/characterize/test_report.py",
    "gpuq/learn/memory/clusters.py": "tests/learn/serving/test_predictor.py",
    "gpuq/learn/features/setting_effects.py": "tests/learn/features/test_growth.py",
    "gpuq/learn/features/families.py": "tests/learn/features/test_kind.py",
    "gpuq/learn/history/history.py": "tests/learn/serving/test_predictor.py",
    "gpuq/learn/history/job_features.py": "tests/learn/serving/test_predictor.py",
    "gpuq/learn/interference/profile.py": "tests/learn/interference/test_learned.py",
    "gpuq/learn/interference/law.py": "tests/learn/interference/test_learned.py",
    # Parts of the regression, which is only worth what they give together.
    "gpuq/learn/memory/fit.py": "tests/learn/memory/test_regression.py",
    "gpuq/learn/memory/predict.py": "tests/learn/memory/test_regression.py",
    "gpuq/learn/memory/kernel.py": "tests/learn/memory/test_regression.py",
    "gpuq/learn/memory/evidence_tiers.py": "tests/learn/memory/test_regression.py",
    "gpuq/learn/features/inputs.py": "tests/learn/memory/test_regression.py",
    "gpuq/lab/public/": "tests/lab/public/test_public.py",
    "gpuq/learn/transfer/hook/": "tests/programs/test_profile.py",
    "gpuq/learn/serving/model.py": "tests/learn/serving/test_shelf.py",
    "gpuq/learn/training/nightly.py": "tests/programs/test_retrain.py",
    "gpuq/learn/training/plots.py": "tests/learn/training/test_card.py",
    "gpuq/learn/history/rows.py": "tests/lab/test_measured.py",
    "gpuq/learn/training/score.py": "tests/learn/training/test_train.py",
    # Through the scripts that they read.
    "gpuq/script/": "tests/script/test_hints.py",
    # Parts of drawing up a batch.
    "gpuq/policies/planners/batch.py": "tests/policies/planners/test_batch_builder.py",
    "gpuq/policies/planners/columns.py": "tests/policies/planners/test_batch_builder.py",
    "gpuq/lab/sim/conformance.py": "tests/policies/test_conformance.py",
    "gpuq/lab/sim/exercises.py": "tests/policies/test_conformance.py",
    "gpuq/lab/rivals/": "tests/lab/rivals/test_rivals.py",
    "gpuq/messages/submission.py": "tests/api/test_submit.py",
    "gpuq/messages/job_record.py": "tests/api/test_submit.py",
    # Parts of the report, which is only read whole.
    "gpuq/sim/report/headline.py": "tests/sim/report/test_report.py",
    "gpuq/sim/report/page.py": "tests/sim/report/test_report.py",
    "gpuq/sim/report/plots.py": "tests/sim/report/test_report.py",
    "gpuq/sim/report/plot_data.py": "tests/sim/report/test_report.py",
    "gpuq/sim/report/table.py": "tests/sim/report/test_report.py",
    # Through the simulator that they are parts of.
    "gpuq/sim/forecaster.py": "tests/sim/test_run.py",
    "gpuq/sim/energy.py": "tests/sim/test_world_in_motion.py",
    "gpuq/sim/cluster.py": "tests/sim/test_world_in_motion.py",
    "gpuq/sim/hosts.py": "tests/sim/test_world_in_motion.py",
    "gpuq/sim/memory.py": "tests/sim/test_world_in_motion.py",
    "gpuq/sim/record.py": "tests/sim/test_run.py",
    "gpuq/sim/audit.py": "tests/sim/test_world_in_motion.py",
    "gpuq/sim/world.py": "tests/sim/test_run.py",
    "gpuq/lab/traces/philly.py": "tests/lab/traces/test_public.py",
    "gpuq/lab/traces/alibaba.py": "tests/lab/traces/test_public.py",
    "gpuq/lab/traces/muri.py": "tests/lab/traces/test_public.py",
    "gpuq/sim/worlds/workload_set.py": "tests/sim/test_scenario.py",
    "gpuq/sim/extensions.py": "tests/sim/test_scenario.py",
    "gpuq/lab/worlds/memory.py": "tests/lab/worlds/test_named.py",
    "gpuq/lab/sim/record_forecaster.py": "tests/lab/sim/test_replay.py",
    "workers/gpuq_workers/hook/": "tests/workers/hook/test_counting.py",
    "gpuq/split/values.py": "tests/split/test_verdict.py",
    "gpuq/split/device.py": "tests/split/test_parts.py",
    "gpuq/split/process.py": "tests/split/test_parts.py",
    # Parts of the shim, which is only run as a process.
    "workers/gpuq_workers/shim/child.py": "tests/workers/shim/test_main.py",
    "workers/gpuq_workers/shim/output_tail.py": "tests/workers/shim/test_classify.py",
    "workers/gpuq_workers/shim/record.py": "tests/workers/shim/test_main.py",
    "workers/gpuq_workers/shim/tree.py": "tests/workers/shim/test_main.py",
    "workers/gpuq_workers/shim/mps.py": "tests/workers/test_mps.py",
    "workers/gpuq_workers/shim/serve_unit.py": "tests/workers/shim/test_unit.py",
    "workers/gpuq_workers/rendezvous.py": "tests/broker/test_checks.py",
    "workers/gpuq_broker/unit.py": "tests/broker/test_serve.py",
    "workers/gpuq_workers/units.py": "tests/workers/test_residents.py",
    "workers/gpuq_workers/order_file.py": "tests/workers/test_run_job.py",
    "workers/gpuq_workers/shim_pool.py": "tests/workers/test_serve_orders.py",
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
    parts = Path(
        module.removeprefix("gpuq/")
        .replace("workers/gpuq_workers/", "workers/")
        .replace("workers/gpuq_broker/", "broker/")
    ).parts
    return ROOT.joinpath("tests", *parts[:-1], f"test_{parts[-1]}")


def has_logic(module: str) -> bool:
    tree = ast.parse((ROOT / module).read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return any(isinstance(node, _LOGIC) for function in functions for node in ast.walk(function))


def elsewhere(module: str) -> str | None:
    return ELSEWHERE.get(module) or next(
        (ELSEWHERE[one] for one in ELSEWHERE if one[-1] == "/" and module.startswith(one)), None
    )


def test_modules_with_logic_are_tested_where_one_would_look():
    untested = [module for module in modules() if not mirror_of(module).exists() and not elsewhere(module)]
    missing = [str(mirror_of(module).relative_to(ROOT)) for module in untested if has_logic(module)]
    assert missing == [], "write these"


@pytest.mark.parametrize(("module", "test"), ELSEWHERE.items())
def test_the_list_of_exceptions_is_true(module, test):
    assert (ROOT / test).exists()
    assert (ROOT / module).exists()
    if module[-1] != "/":
        assert has_logic(module), "it needs no exception"
        assert not mirror_of(module).exists(), "it has a test of its own by now"
