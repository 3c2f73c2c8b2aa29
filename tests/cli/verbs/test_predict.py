"""`gpuq predict`: what it asks of the API, and what it tells of the answer."""

from __future__ import annotations

import time

from tests.cli import samples
from tests.cli.conftest import Command, FakeApi

EVIDENCE = {
    "text": "cluster of 3 kinds, nearest ada:~/vision/old.py",
    "own_runs": 2,
    "nearest": [{"kind": "ada:~/vision/old.py", "likeness": 0.62}],
    "model_version": "v0007",
    "bounds_meant_to_hold": 0.95,
    "bounds_held": 0.964,
    "judged_on": 240,
}
PARTNER = {
    "job": 43,
    "name": "bert",
    "kind": "ada:bert.py",
    "expected_slowdown": 1.04,
    "upper_slowdown": 1.1,
    "partner_slowdown": 1.02,
    "partner_upper_slowdown": None,
    "unsafe": False,
}
PREDICTION = {
    "kind": "ada:~/vision/new.py",
    "forecast": samples.FORECAST,
    "evidence": EVIDENCE,
    "never_fits": None,
    "features": {
        "framework": "pytorch",
        "model": "wide_resnet50_2",
        "model_family": "wide_resnet",
        "constructors": ["wide_resnet50_2"],
        "layers": {"Conv2d": 53, "Linear": 1},
        "parameters": 68_900_000,
        "batch_size": 64.0,
        "optimizer": "sgd",
        "precision": None,
        "origins": {"batch": "default", "optimizer": "script", "model": "argument"},
    },
    "device_types": [
        {"device_type": "NVIDIA H200", "forecast": samples.FORECAST, "evidence": EVIDENCE},
        {"device_type": "NVIDIA T4", "forecast": {"evidence": "none"}, "evidence": {**EVIDENCE, "text": "none"}},
    ],
    "beside": [
        {
            "device": "box/cpu0",
            "device_name": "cpu0",
            "device_type": "NVIDIA H200",
            "partners": [PARTNER],
            "verdict": samples.FITS,
        },
        {
            "device": None,
            "device_type": "NVIDIA T4",
            "partners": [{**PARTNER, "job": None}],
            "verdict": samples.OVERLOAD,
        },
    ],
}


def test_one_attempt_is_no_several(gpuq: Command, api: FakeApi) -> None:
    types = [{**PREDICTION["device_types"][0], "evidence": {**EVIDENCE, "judged_on": 1, "bounds_held": 1.0}}]  # type: ignore[index]
    api.on("POST", "/api/v1/predict", {**PREDICTION, "device_types": types})
    assert "100% of the one attempt that" in " ".join(gpuq("predict", "--", "true").out.split())


def test_a_job_that_ran_without_showing_its_needs_is_not_called_never_seen(gpuq: Command, api: FakeApi) -> None:
    forecast = {"evidence": "own history, 7 runs"}
    evidence = {**EVIDENCE, "text": "own history, 7 runs", "own_runs": 7, "nearest": []}
    device_types = [{"device_type": "NVIDIA H200", "forecast": forecast, "evidence": evidence}]
    answer = {**PREDICTION, "forecast": forecast, "evidence": evidence, "device_types": device_types}
    api.on("POST", "/api/v1/predict", answer)
    out = gpuq("predict", "--", "true").out
    assert "unknown: what ran so far did not show them" in out
    assert "never seen" not in out


def test_predict_prints_forecast_and_evidence(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/predict", PREDICTION)
    done = gpuq("predict", "--beside", "ada:bert.py", "--device-type", "NVIDIA T4", "--", "true", COLUMNS="200")
    assert done.code == 0
    assert api.requests[0].query == {"beside": "ada:bert.py", "device_type": "NVIDIA T4"}
    for part in (
        "model             wide_resnet50_2 (from the command)\n",
        "built of          53 Conv2d, 1 Linear",
        "parameters        68.9 million",
        "batch size        64 (the script's default)",
        "optimiser         sgd (in the script)",
        "expected on NVIDIA H200\n",
        "peak memory       9.0 GiB (at most 9.8 GiB)",
        "duration          2:00:00 (9 of 10 within 2:30:00)",
        "power             412 W",
        "own runs          2",
        "like it           ada:~/vision/old.py (62% alike)",
        "made to hold for 95% of jobs; it held for 96% of the 240 attempts that this model was judged on",
        "needs             unknown: never seen, and nothing like it has been seen",
        "yes, on cpu0 beside job 43 (bert): peak utilisation 54% + 33% = 87%",
        "slowdown: this job 4% (at most 10%); that one 2%\n",
        "no, on an empty NVIDIA T4 beside kind ada:bert.py: PredictedLoad",
        "It may share a device, and could now.",
    ):
        assert part in done.out, part
    assert "precision" not in done.out, "an unknown value is left out"
    assert gpuq("predict", "--json", "--", "true").json == PREDICTION
    assert all(len(line) <= 80 for line in gpuq("predict", "--", "true").out.splitlines())


def test_predict_says_plainly_that_it_does_not_know(gpuq: Command, api: FakeApi) -> None:
    unknown = {
        "device_type": "NVIDIA T4",
        "forecast": {"evidence": "none"},
        "evidence": {**EVIDENCE, "text": "none", "nearest": []},
    }
    api.on("POST", "/api/v1/predict", {**PREDICTION, "forecast": None, "device_types": [unknown], "beside": []})
    out = " ".join(gpuq("predict", "--", "true").out.split())
    assert "unknown: never seen" in out
    assert "how sure" not in out
    assert " W " not in out
    assert "It would run alone first, and be measured" in out


def test_predict_sends_what_the_script_says(gpuq: Command, api: FakeApi) -> None:
    (gpuq.cwd / "train.py").write_text("import torch\nfrom torch import nn\nnet = nn.Linear(2, 3)\ng(batch_size=8)\n")
    (gpuq.cwd / "c.toml").write_text("epochs = 3\n")
    api.on("POST", "/api/v1/predict", PREDICTION)
    for words in (
        ("python3", "train.py", "c.toml"),
        ("python3", "-m", "train", "c.toml"),
        ("env", "train.py", "c.toml"),
    ):
        assert gpuq("predict", "--", *words).code == 0
        assert api.requests[-1].body["hints"] == {
            "framework": "pytorch",
            "layers": {"Linear": 1},
            "settings": {
                "batch": {"value": "8", "origin": "script"},
                "epochs": {"value": "3", "origin": "config file"},
            },
            "values": {"batch-size": 8.0, "epochs": 3.0, "program-code": "file-ce1db90b"},
            "given": ["epochs"],
        }
    assert gpuq("predict", "--", "true").code == 0
    assert "hints" not in api.requests[-1].body


def test_predict_says_whether_the_job_would_share(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/predict", {"kind": "k", "forecast": samples.FORECAST, "never_fits": None})
    assert "may share" in gpuq("predict", "--", "true").out
    assert "alone, as asked" in gpuq("predict", "--exclusive", "--", "true").out
    api.on("POST", "/api/v1/predict", {"kind": "k", "forecast": None, "never_fits": None})
    assert "too little is known" in gpuq("predict", "--", "true").out


def test_predict_exits_with_7_for_what_can_never_run(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/predict", {"kind": "k", "forecast": None, "never_fits": "900 GiB are missing."})
    done = gpuq("predict", "--gpu-mem", "980G", "--", "true")
    assert done.code == 7
    assert "900 GiB are missing" in done.out
    assert api.requests[0].body["gpu_memory"] == 980 * 2**30


def test_predict_says_now_only_where_a_device_would_take_it(gpuq: Command, api: FakeApi) -> None:
    def starts(**output: object) -> str:
        api.on("POST", "/api/v1/predict", {**PREDICTION, **output})
        out = gpuq("predict", "--", "true", COLUMNS="200").out
        return next((line.partition("starts")[2].strip() for line in out.splitlines() if "  starts " in line), "")

    now = {"p50_unix": time.time(), "p90_unix": time.time()}
    free = [f"gpu{n}" for n in range(1, 8)]
    assert starts(expected_start=now, free_devices=free) == "now: gpu1, gpu2, gpu3 and 4 more would take it"
    assert starts(expected_start=None, free_devices=[]).startswith("unknown: no device is seen that would take it now")
    later = {**now, "p90_unix": time.time() + 119}
    assert starts(expected_start=later, free_devices=[]) == "soon, nine times in ten within 2m"
    assert starts(never_fits="It needs 5 devices.", free_devices=[]) == ""


def test_a_first_run_has_no_message_that_no_device_is_idle(gpuq: Command, api: FakeApi) -> None:
    """Beside the one busy device of eight it said: no device is idle."""
    numbers = {"newcomer": "0", "evidence": "none"}
    verdict = {**samples.OVERLOAD, "rule": "FirstRunExclusive", "device_name": "gpu0", "numbers": numbers}
    place = {"device": "GPU-0", "device_name": "gpu0", "device_type": "H100", "partners": [PARTNER], "verdict": verdict}
    api.on("POST", "/api/v1/predict", {**PREDICTION, "beside": [place]})
    out = " ".join(gpuq("predict", "--", "true").out.split())
    assert "FirstRunExclusive: too little is known of its kind to share a device (evidence: none)." in out
    assert "idle" not in out


def test_devices_with_equal_answers_are_merged(gpuq: Command, api: FakeApi) -> None:
    numbers = {"residents": 2, "limit": 2}
    partners = [{**PARTNER, "job": 43, "expected_slowdown": None, "partner_slowdown": None}]
    places = [
        {
            "device": f"GPU-{n}",
            "device_name": f"gpu{n}",
            "device_type": "H100",
            "partners": [{**partners[0], "job": 40 + n}],
            "verdict": {**samples.OVERLOAD, "rule": "Resources", "numbers": numbers},
        }
        for n in range(8)
    ]
    api.on("POST", "/api/v1/predict", {**PREDICTION, "beside": places})
    out = " ".join(gpuq("predict", "--", "true").out.split())
    names = ", ".join(f"gpu{n}" for n in range(8))
    assert f"no, on {names}: Resources: 2 jobs are there, and 2 are the limit." in out
    assert out.count("Resources") == 1
