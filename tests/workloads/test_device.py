"""What frameworks say of a GPU's memory, by stand-ins that answer as their documents say: no GPU was seen here."""

import sys
from types import SimpleNamespace

import pytest

from workloads import device

GIB = 2**30


@pytest.fixture
def framework(monkeypatch):
    return lambda name, **parts: monkeypatch.setitem(sys.modules, name, SimpleNamespace(**parts))


def peaks(used, reserved):
    return {"allocator_peak_bytes": used, "allocator_reserved_bytes": reserved}


def test_pytorch_tells_what_tensors_held_and_what_it_took_for_them(framework):
    cuda = SimpleNamespace(
        is_available=lambda: True,
        max_memory_allocated=lambda number: 3 * GIB,
        max_memory_reserved=lambda number: 4 * GIB,
        get_device_name=lambda number: "NVIDIA A100-SXM4-40GB",
    )
    framework("torch", cuda=cuda)
    assert device.allocator_peaks("torch") == peaks(3 * GIB, 4 * GIB)
    assert device.name("torch") == "NVIDIA A100-SXM4-40GB"


def test_tensorflow_tells_the_first_alone(framework):
    experimental = SimpleNamespace(
        get_memory_info=lambda name: {"current": GIB, "peak": 2 * GIB},
        get_device_details=lambda gpu: {"device_name": "Tesla P100-PCIE-16GB"},
    )
    listed = {"list_logical_devices": lambda kind: [kind], "list_physical_devices": lambda kind: [kind]}
    framework("tensorflow", config=SimpleNamespace(experimental=experimental, **listed))
    assert device.allocator_peaks("tensorflow") == peaks(2 * GIB, None)
    assert device.name("tensorflow") == "Tesla P100-PCIE-16GB"


@pytest.mark.parametrize(
    ("memory_stats", "known"),
    [
        ({"peak_bytes_in_use": GIB, "peak_pool_bytes": 2 * GIB, "bytes_limit": 30 * GIB}, peaks(GIB, 2 * GIB)),
        ({"peak_bytes_in_use": GIB}, peaks(GIB, None)),
        (None, peaks(None, None)),
    ],
)
def test_jax_peaks_are_those_that_its_platform_reports(framework, memory_stats, known):
    framework("jax", devices=lambda: [SimpleNamespace(memory_stats=lambda: memory_stats, device_kind="cpu")])
    assert device.allocator_peaks("jax") == known


def test_on_a_cpu_nothing_is_made_up(framework):
    framework("torch", cuda=SimpleNamespace(is_available=lambda: False))
    framework("tensorflow", config=SimpleNamespace(list_logical_devices=lambda kind: []))
    for backend in ("torch", "tensorflow", "numpy"):
        assert device.allocator_peaks(backend) == peaks(None, None)
    assert device.name("torch") == "cpu"


def test_threads_are_limited_where_the_framework_can(framework):
    limits = []
    framework("torch", set_num_threads=limits.append)
    device.limit_threads("torch", 2)
    assert limits == [2]


def test_pytorch_goes_on_drawing_where_it_was():
    torch = pytest.importorskip("torch", reason="random numbers outside the model are PyTorch's alone")
    kept = device.random_state("torch")
    drawn = torch.rand(4).tolist()
    device.set_random_state("torch", kept)
    assert torch.rand(4).tolist() == drawn
