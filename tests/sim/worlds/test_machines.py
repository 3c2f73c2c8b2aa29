"""Devices on hosts of equal size."""

from gpuq.sim.worlds.machines import machines


def test_last_host_has_the_remaining_devices() -> None:
    found = machines(10, "A", 1, None, per_host=4)
    assert [sum(device.host == f"host{n}" for device in found) for n in (1, 2, 3)] == [4, 4, 2]
    assert len({device.id for device in found}) == 10
