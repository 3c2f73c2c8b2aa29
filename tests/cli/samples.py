"""Answers as the API gives them: two jobs that share a device, one that waits, one that failed."""

from __future__ import annotations

from typing import Any

NOW = 1_795_220_000.0
GIB = 2**30

FORECAST = {
    "peak_utilization_pct": 54.0,
    "peak_memory_bytes": 9 * GIB,
    "upper_memory_bytes": int(9.8 * GIB),
    "expected_slowdown": 1.04,
    "upper_slowdown": 1.12,
    "duration_p50_s": 7200.0,
    "duration_p90_s": 9000.0,
    "power_w": 412.4,
    "evidence": "12 attempts of this kind on NVIDIA H200",
    "model_version": "2026-11-19T02-00-00",
}
NO_ACTUAL: dict[str, Any] = {
    "peak_utilization_pct": None,
    "peak_memory_bytes": None,
    "alone_rate": None,
    "shared_rate": None,
    "slowdown": None,
    "partners": [],
}
FITS = {
    "admitted": True,
    "rule": "Fits",
    "device": "box/cpu0",
    "device_name": "cpu0",
    "numbers": {
        "newcomer_pct": 54.0,
        "committed_pct": 33.0,
        "limit_pct": 100.0,
        "needed_bytes": int(9.8 * GIB),
        "committed_bytes": 6 * GIB,
        "headroom_bytes": int(8 * GIB),
        "total_bytes": 80 * GIB,
        "expected_slowdown": 1.04,
        "budget": 1.15,
        "beside": "43",
    },
    "sentence": "It fits beside the jobs on the device.",
}
OVERLOAD = {
    "admitted": False,
    "rule": "PredictedLoad",
    "device": "box/cpu0",
    "device_name": "cpu0",
    "numbers": {"newcomer_pct": 54.0, "committed_pct": 53.0, "sum_pct": 107.0, "limit_pct": 100.0, "residents": "41"},
    "sentence": "Together, the predicted peak utilisations exceed the limit.",
}


def job(job_id: int, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "id": job_id,
        "name": "train.py",
        "state": "PENDING",
        "reason": None,
        "owner": "ana",
        "project": None,
        "kind": "ana:/home/ana/train.py --lr *",
        "command": ["/home/ana/.venv/bin/python", "/home/ana/train.py", "--lr", "0.1"],
        "priority": 0,
        "share": "auto",
        "max_slowdown": None,
        "submitted_at": "2026-11-20T22:00:00.000Z",
        "submitted_at_unix": NOW - 9000,
        "state_since": "2026-11-20T22:00:00.000Z",
        "state_since_unix": NOW - 9000,
        "started_at": None,
        "started_at_unix": None,
        "ended_at": None,
        "ended_at_unix": None,
        "cancel_requested": False,
        "attempt": 0,
        "host": None,
        "device": None,
        "device_name": None,
        "devices": [],
        "device_names": [],
        "partners": [],
        "exit_code": None,
        "log_path": None,
        "live": None,
        "forecast": None,
        "verdict": None,
        "actual": dict(NO_ACTUAL),
        "cwd": "/home/ana",
        "script": "/home/ana/train.py",
        "git_sha": "0123456789abcdef0123456789abcdef01234567",
        "git_dirty": True,
        "environment": ["PATH"],
        "umask": 0o022,
        "declared_memory_bytes": None,
        "time_limit_s": None,
        "position": None,
        "attempts": [],
    }
    return {**base, **changes}


def running(job_id: int, **changes: Any) -> dict[str, Any]:
    return job(
        job_id,
        **{
            "name": "resnet",
            "state": "RUNNING",
            "attempt": 1,
            "started_at": "2026-11-20T22:30:00.000Z",
            "started_at_unix": NOW - 4320,
            "host": "box",
            "device": "box/cpu0",
            "device_name": "cpu0",
            "devices": ["box/cpu0"],
            "device_names": ["cpu0"],
            "partners": [43],
            "live": {
                "memory_bytes": int(9.1 * GIB),
                "utilization_pct": 61.0,
                "steps": 1200,
                "rate": 12.5,
                "slowdown": None,
                "expected_slowdown": 1.04,
            },
            "forecast": FORECAST,
            "verdict": FITS,
            "log_path": "/home/ana/.local/state/gpuq/attempts/42-1/output.log",
            **changes,
        },
    )


def ended(job_id: int, state: str, exit_code: int | None, **changes: Any) -> dict[str, Any]:
    given = {"state": state, "exit_code": exit_code, "attempt": 1, "ended_at_unix": NOW, **changes}
    return running(job_id, **{"live": None, "partners": [], **given})


def queue() -> list[dict[str, Any]]:
    waiting = {"reason": "FirstRunExclusive", "share": "never"}
    return [
        running(42),
        running(43, name="bert-ft", partners=[42], started_at_unix=NOW - 1200),
        job(44, name="llama-70b-finetune-lora", **waiting),
        job(45, name="gan", reason="PredictedLoad", forecast=FORECAST, verdict=OVERLOAD),
    ]


DEVICES: list[dict[str, Any]] = [
    {
        "id": "box/cpu0",
        "name": "cpu0",
        "index": "0",
        "host": "box",
        "backend": "cpu",
        "kind": "cpu-2",
        "total_memory_bytes": 80 * GIB,
        "used_memory_bytes": 15 * GIB,
        "promised_memory_bytes": 16 * GIB,
        "foreign_memory_bytes": 0,
        "utilization_pct": 94.0,
        "read_at": "2026-11-20T23:00:00.000Z",
        "residents": [
            {"job": 42, "attempt": 1, "name": "resnet", "memory_bytes": int(9.1 * GIB), "partners": [43]},
            {"job": 43, "attempt": 1, "name": "bert-ft", "memory_bytes": int(5.2 * GIB), "partners": [42]},
        ],
    },
    {
        "id": "GPU-3f2a9c1e-0000-0000-0000-000000000000",
        "name": "gpu0",
        "index": "0",
        "host": "box",
        "backend": "nvml",
        "kind": "NVIDIA H200",
        "total_memory_bytes": 141 * GIB,
        "used_memory_bytes": None,
        "promised_memory_bytes": None,
        "foreign_memory_bytes": None,
        "utilization_pct": None,
        "read_at": None,
        "residents": [],
    },
]


def _policy(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "source": f"gpuq.policies.{name}:SPEC of gpuq-daemon 0.1.0",
        "summary": f"what {name} does",
        "work_conserving": True,
        "starvation_free": True,
        "extra": None,
        "problem": None,
        "settings": {},
        **changes,
    }


POLICIES = {
    "chosen": "packed",
    "serving": "packed",
    "fault": None,
    "policies": [
        _policy("fair", settings={"half_life_s": 604800.0}),
        _policy("integer", extra="train", problem="`integer` needs scipy.", starvation_free=False),
        _policy("packed"),
        _policy("torn", summary=None, problem="it cannot be loaded", settings=None, work_conserving=None),
    ],
}
REPLACED = {
    **POLICIES,
    "chosen": "fair",
    "fault": {"reason": "it failed: KeyError: 'ada'", "at": "2026-01-02T03:04:05Z"},
}
