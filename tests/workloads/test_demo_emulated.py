"""The demo on emulated GPUs must be able to fail, and to say what it lacks."""

import json

import pytest

from gpuq.core.scheduling.admit import load_limit
from gpuq.core.scheduling.limits import Limits
from tests.workloads.jobs import job, refused
from workloads.demo import emulated
from workloads.demo.gpuq import DemoFailed

DEVICES = [f"vm/GPU-{number}" for number in range(8)]
GANG = job(5, "large", devices=DEVICES[:4])
SHARED = [job(9, "vision", device=DEVICES[7]), job(11, "speech", device=DEVICES[7], started_at_unix=102.0)]


def seen(**changes):
    plain = {"devices": DEVICES, "alone": [job(1)], "gang": GANG, "together": SHARED, "refusal": refused(10)}
    return emulated.Seen(**{**plain, **changes})


def test_all_claims_hold():
    emulated.check(seen())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"alone": []}, "a first run was not measured"),
        ({"gang": None}, "no job got four GPUs"),
        ({"gang": {**GANG, "devices": DEVICES[:3]}}, "no job got four GPUs"),
        ({"together": [SHARED[0], job(11, device=DEVICES[6])]}, "no two jobs shared"),
        (
            {"together": [SHARED[0], {**SHARED[1], "actual": {**SHARED[1]["actual"], "slowdown_high": None}}]},
            "interval",
        ),
        ({"refusal": None}, "no job was refused"),
    ],
)
def test_each_claim_can_fail(changes, said):
    with pytest.raises(DemoFailed, match=said):
        emulated.check(seen(**changes))


def test_two_are_to_share_and_the_third_is_far_beyond_the_limit():
    limit = load_limit(None, Limits(), 2)
    assert emulated.VISION.percent + emulated.SPEECH.percent <= limit - 4
    assert emulated.LANGUAGE.percent + min(emulated.VISION.percent, emulated.LARGE.percent) >= limit + 20


def test_a_missing_mock_is_named_with_the_variable_to_set(tmp_path):
    with pytest.raises(DemoFailed, match=r"has no libnvidia-ml\.so\.1, .*Set GPUQ_NVML_MOCK"):
        emulated.folder({"GPUQ_NVML_MOCK": str(tmp_path)})
    for name in emulated.NEEDED:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert emulated.folder({"GPUQ_NVML_MOCK": str(tmp_path)}) == tmp_path.resolve()


def test_the_slowdown_that_the_emulator_gives_is_the_largest_that_was_seen(tmp_path):
    found = seen()
    for slow in ({"1": 1.0}, {"1": 1.133, "2": 1.133}, {"2": 1.0}):
        (tmp_path / "slow.json").write_text(json.dumps(slow))
        emulated.note_slowdown(tmp_path, found)
    (tmp_path / "slow.json").write_text("{")
    emulated.note_slowdown(tmp_path, found)
    assert found.emulated == 1.133


def test_the_report_names_devices_by_number_and_says_what_was_emulated():
    lines = emulated.report_lines(seen(emulated=1.133))
    text = " ".join(" ".join(lines).split())
    assert "gang 5 large on gpu0, gpu1, gpu2, gpu3: all four at once" in text
    assert "9 vision with 11 speech on gpu7" in text
    assert "emulated the work of each step of both takes 13.3% longer" in text
    assert len(lines) <= 24
