"""Alert rules, the dashboard and /metrics: Prometheus' own tool finds them sound, and they name metrics that exist."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from gpuq.messages.live import DriftStatus, KindDrift, decode, encode
from tests.api.conftest import Endpoint, endpoint, settings  # noqa: F401  fixtures
from tests.api.support import afternoon

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "monitoring"
ALERTS, DASHBOARD = FOLDER / "gpuq-alerts.yml", FOLDER / "gpuq-dashboard.json"
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="needs promtool, of the Debian package prometheus")

STORY = """
rule_files: [gpuq-alerts.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'up{job="gpuq"}', values: '0x10'}
      - {series: 'gpuq_dispatcher_view_age_seconds{job="gpuq"}', values: '1x10'}
      - {series: 'gpuq_worker_heartbeat_age_seconds{host="node2"}', values: '90x10'}
      - {series: 'gpuq_worker_heartbeat_age_seconds{host="node1"}', values: '1x10'}
      - {series: 'gpuq_gpu_jobs{gpu="g0",host="node1"}', values: '0x10'}
      - {series: 'gpuq_gpu_jobs{gpu="g1",host="node3"}', values: '0x10'}
    alert_rule_test:
      - {eval_time: 1m, alertname: GpuqDown, exp_alerts: []}
      - eval_time: 5m
        alertname: GpuqDown
        exp_alerts:
          - exp_labels: {severity: critical, job: gpuq}
            exp_annotations:
              summary: The HTTP endpoint of gpuq does not answer
              fix: Running jobs go on. Look at `gpuq doctor` and the log of the API.
      - {eval_time: 5m, alertname: GpuqDispatcherStale, exp_alerts: []}
      - eval_time: 5m
        alertname: GpuqHostSilent
        exp_alerts:
          - exp_labels: {severity: warning, host: node2}
            exp_annotations:
              summary: Host node2 does not report
              fix: '`gpuq host list` says since when; if it does not come back, `gpuq host lost node2`.'
          - exp_labels: {severity: warning, host: node3}
            exp_annotations:
              summary: Host node3 does not report
              fix: '`gpuq host list` says since when; if it does not come back, `gpuq host lost node3`.'
  - interval: 1m
    input_series:
      - {series: 'gpuq_gpu_jobs{gpu="g0",host="a"}', values: '1x60'}
      - {series: 'gpuq_gpu_jobs{gpu="g1",host="a"}', values: '1x60'}
      - {series: 'gpuq_gpu_utilization_ratio{gpu="g0",host="a"}', values: '0x60'}
      - {series: 'gpuq_gpu_utilization_ratio{gpu="g1",host="a"}', values: '0x20 0.5 0x39'}
      - {series: 'gpuq_jobs_finished_total{outcome="failed",instance="main"}', values: '0+1x60'}
      - {series: 'gpuq_jobs_finished_total{outcome="completed",instance="main"}', values: '0x60'}
      - {series: 'gpuq_jobs_finished_total{outcome="failed",instance="standby"}', values: '0x60'}
      - {series: 'gpuq_jobs_finished_total{outcome="completed",instance="standby"}', values: '0x60'}
    alert_rule_test:
      - eval_time: 45m
        alertname: GpuqIdleDeviceHeld
        exp_alerts:
          - exp_labels: {severity: info, gpu: g0, host: a}
            exp_annotations:
              summary: A job holds g0 of a and has not used it for half an hour
              fix: '`gpuq gpus` names the job; ask its owner.'
      - eval_time: 60m
        alertname: GpuqManyFailures
        exp_alerts:
          - exp_labels: {severity: info, outcome: failed, instance: main}
            exp_annotations: {summary: Most jobs of the last hour failed, fix: '`gpuq report waste --by user --days 1`.'}
"""


def promtool(*words: str | Path, stdin: str | None = None, cwd: Path = FOLDER) -> str:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *words], input=stdin, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@needs_promtool
def test_promtool_accepts_the_rules_and_they_fire_when_they_should(tmp_path: Path) -> None:
    assert "SUCCESS" in promtool("check", "rules", ALERTS)
    shutil.copy(ALERTS, tmp_path)
    (tmp_path / "story.yml").write_text(STORY)
    assert "SUCCESS" in promtool("test", "rules", "story.yml", cwd=tmp_path)


async def metrics_of(endpoint: Endpoint) -> str:  # noqa: F811  the fixture
    """With all that there can be: devices, and how forecasts hold."""
    afternoon(endpoint.store, endpoint.stream)
    assert endpoint.stream.picture is not None
    held = KindDrift(attempts=20, memory_coverage=0.9, slowdown_coverage=0.9)
    view = msgspec.structs.replace(decode(endpoint.stream.picture), drift=DriftStatus(promised=0.95, overall=held))
    endpoint.stream.picture = encode(view)
    async with endpoint.socket.get("/metrics") as answer:
        return await answer.text()


@needs_promtool
async def test_promtool_has_nothing_to_say_about_the_metrics(endpoint: Endpoint) -> None:  # noqa: F811
    assert promtool("check", "metrics", stdin=await metrics_of(endpoint)) == ""


async def test_alerts_and_dashboard_name_metrics_that_exist(endpoint: Endpoint) -> None:  # noqa: F811
    named = set(re.findall(r"\bgpuq_[a-z_]+\b", ALERTS.read_text() + DASHBOARD.read_text()))
    served = await metrics_of(endpoint)
    assert len(named) > 15
    assert {name for name in named if f"# TYPE {name} " not in served} == set()


def test_the_dashboard_is_what_its_script_makes() -> None:
    spec = importlib.util.spec_from_file_location("make_dashboard", FOLDER / "make_dashboard.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert json.loads(DASHBOARD.read_text()) == module.dashboard()
