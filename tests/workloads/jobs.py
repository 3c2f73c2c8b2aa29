"""Jobs and devices as `gpuq show --json` and `gpuq gpus --json` print them, with made-up numbers."""

from typing import Any

GIB = 2**30


def job(number: int, name: str = "images", **changes: Any) -> dict[str, Any]:
    plain = {
        "id": number,
        "name": name,
        "state": "COMPLETED",
        "exit_code": 0,
        "device": "vm/cpu0",
        "partners": [],
        "started_at_unix": 100.0,
        "ended_at_unix": 130.0,
        "live": None,
        "forecast": {
            "peak_utilization_pct": 54.6,
            "peak_memory_bytes": GIB,
            "upper_memory_bytes": GIB * 5 // 4,
            "expected_slowdown": None,
            "duration_p50_s": 30.0,
            "evidence": "own history, 1 run",
            "model_version": None,
        },
        "verdict": {"admitted": True, "rule": "Idle", "numbers": {}},
        "actual": {
            "peak_utilization_pct": 53.2,
            "peak_memory_bytes": GIB,
            "alone_rate": 6.25,
            "shared_rate": 6.0,
            "slowdown": 1.0417,
            "slowdown_low": 0.99,
            "slowdown_high": 1.1,
            "partners": [7],
        },
    }
    return {**plain, **changes}


def refused(number: int, committed: float = 56.0) -> dict[str, Any]:
    numbers = {
        "newcomer_pct": 50.0,
        "committed_pct": committed,
        "sum_pct": 50.0 + committed,
        "limit_pct": 100.0,
        "residents": "4",
    }
    verdict = {"admitted": False, "rule": "PredictedLoad", "numbers": numbers}
    return job(number, "words", state="PENDING", device=None, verdict=verdict)


DEVICE = {"id": "vm/cpu0", "used_memory_bytes": GIB, "total_memory_bytes": 20 * GIB, "utilization_pct": 81.0}
