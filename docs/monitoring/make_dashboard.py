"""Write gpuq-dashboard.json for Grafana. Run by path: `python docs/monitoring/make_dashboard.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SOURCE = {"type": "prometheus", "uid": "${source}"}
FILE = Path(__file__).resolve().with_name("gpuq-dashboard.json")
# title, unit, legend, query; two panels stand in a row
PANELS = (
    ("Jobs waiting and running", "short", "{{state}}", 'gpuq_jobs{state=~"PENDING|HELD|RUNNING"}'),
    ("Jobs ended per hour", "short", "{{outcome}}", "increase(gpuq_jobs_finished_total[1h])"),
    ("Utilisation of devices", "percentunit", "{{host}} {{gpu}}", 'gpuq_gpu_utilization_ratio{host=~"$host"}'),
    ("Jobs on devices", "short", "{{host}} {{gpu}}", 'gpuq_gpu_jobs{host=~"$host"}'),
    (
        "Memory promised to jobs",
        "percentunit",
        "{{host}} {{gpu}}",
        'gpuq_gpu_memory_reserved_bytes{host=~"$host"} / gpuq_gpu_memory_total_bytes',
    ),
    (
        "Memory in use",
        "percentunit",
        "{{host}} {{gpu}}",
        'gpuq_gpu_memory_used_bytes{host=~"$host"} / gpuq_gpu_memory_total_bytes',
    ),
    ("Power", "watt", "{{host}} {{gpu}}", 'gpuq_gpu_power_watts{host=~"$host"}'),
    ("Temperature", "celsius", "{{host}} {{gpu}}", 'gpuq_gpu_temperature_celsius{host=~"$host"}'),
    ("Last report of hosts", "s", "{{host}}", "gpuq_worker_heartbeat_age_seconds"),
    ("Scheduling pass", "s", "pass", "gpuq_schedule_pass_seconds"),
    ("Memory bounds that held", "percentunit", "all kinds", "gpuq_forecast_memory_coverage_ratio"),
    ("Slowdowns within their bound", "percentunit", "all kinds", "gpuq_forecast_slowdown_coverage_ratio"),
)


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    return {
        "title": "gpuq",
        "uid": "gpuq",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
                {
                    "name": "host",
                    "type": "query",
                    "datasource": SOURCE,
                    "query": "label_values(gpuq_gpu_jobs, host)",
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                    "current": {"text": "All", "value": "$__all"},
                    "refresh": 2,
                },
            ]
        },
        "panels": [_panel(number, *panel) for number, panel in enumerate(PANELS)],
    }


def _panel(number: int, title: str, unit: str, legend: str, query: str) -> dict[str, Any]:
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title,
        "datasource": SOURCE,
        "gridPos": {"h": 8, "w": 12, "x": 12 * (number % 2), "y": 8 * (number // 2)},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "datasource": SOURCE, "expr": query, "legendFormat": legend}],
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(dashboard(), indent=2) + "\n")
