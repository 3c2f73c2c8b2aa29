import pytest

from gpuq.errors import BadInput
from gpuq.learn.transfer.profile import OpProfile, from_json, read_folder, to_json

PROFILE = OpProfile(framework="tensorflow", device_us={"Conv2D": 60.0, "Relu": 20.0}, device_idle_us=20.0)


def test_shares_add_up_to_one_with_the_idle_time():
    assert PROFILE.shares() == {"Conv2D": 0.6, "Relu": 0.2, "IDLE": 0.2}
    assert OpProfile().shares() == {}


def test_host_profile_is_used_without_a_device_profile():
    on_host = OpProfile(host_us={"MatMul": 3.0}, host_idle_us=1.0, device_idle_us=99.0)
    assert on_host.shares() == {"MatMul": 0.75, "IDLE": 0.25}


def test_profile_survives_json():
    assert from_json(to_json(PROFILE)) == PROFILE


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"device_us": {"Conv2D": -1}}', b'{"format": 2}', b"\xff\xfe"])
def test_invalid_profile_is_refused_with_a_message(text):
    with pytest.raises(BadInput, match="no op profile"):
        from_json(text)


def test_damaged_files_of_a_folder_are_skipped(tmp_path):
    (tmp_path / "b.json").write_bytes(to_json(PROFILE))
    (tmp_path / "a.json").write_bytes(b"{")
    assert read_folder(tmp_path) == [PROFILE]
    assert read_folder(tmp_path / "none") == []
