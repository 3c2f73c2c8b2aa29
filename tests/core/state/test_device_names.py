"""Names of devices as users and `nvidia-smi` give them, and what a word on the command line may stand for."""

from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.device_names import DeviceNames, label, natural_order, short_id

H100S = [f"GPU-01000100-0000-0000-0000-00000000000{n}" for n in range(8)]


def a_gpu(uuid: str, index: str | None, host: str = "node1", backend: str = "nvml") -> Device:
    return Device(DeviceId(uuid), HostId(host), backend, "NVIDIA H100 80GB HBM3", 2**36, index=index)


def found(names: DeviceNames, text: str) -> list[str]:
    return [device.id for device in names.find(text)]


def test_eight_gpus_whose_uuids_begin_alike_have_eight_names() -> None:
    names = DeviceNames(a_gpu(uuid, str(n)) for n, uuid in enumerate(H100S))
    assert [names.of(uuid) for uuid in H100S] == [f"gpu{n}" for n in range(8)]
    for text in ("3", "gpu3", "node1:gpu3", "node1:3", H100S[3], H100S[3].removeprefix("GPU-")):
        assert found(names, text) == [H100S[3]], text
    assert found(names, "GPU-01000100") == H100S, "a prefix that all begin with is ambiguous, and the caller says so"
    for text in ("", "8", "gpu8", "cpu3", "node2:gpu3", ":3"):
        assert found(names, text) == [], text


def test_slices_and_sets_of_cores() -> None:
    devices = [a_gpu("MIG-5", "3:1"), a_gpu("MIG-6", "3:0"), a_gpu("node1/cpu0", "0", backend="cpu")]
    names = DeviceNames(devices)
    assert [names.of(device.id) for device in devices] == ["gpu3:1", "gpu3:0", "cpu0"]
    assert [found(names, text) for text in ("3:1", "gpu3:1", "node1:gpu3:1", "cpu0", "0", "5")] == [
        *[["MIG-5"]] * 3,
        *[["node1/cpu0"]] * 2,
        ["MIG-5"],
    ]


def test_several_hosts_are_named_and_an_index_alone_may_be_ambiguous() -> None:
    names = DeviceNames([a_gpu("GPU-a", "3"), a_gpu("GPU-b", "3", "node2"), a_gpu("GPU-c", "4", "node2")])
    assert [names.of(uuid) for uuid in ("GPU-a", "GPU-b", "GPU-c")] == ["node1:gpu3", "node2:gpu3", "node2:gpu4"]
    assert [found(names, text) for text in ("node2:gpu3", "node2:3", "gpu4", "3")] == [
        ["GPU-b"],
        ["GPU-b"],
        ["GPU-c"],
        ["GPU-a", "GPU-b"],
    ]


def test_a_replaced_gpu_gives_its_name_to_the_one_that_is_reported() -> None:
    old, new = "GPU-00000000-aaaa-bbbb-cccc-0123456789ab", "GPU-11111111-aaaa-bbbb-cccc-0123456789ab"
    names = DeviceNames([a_gpu(old, "3"), a_gpu(new, "3")], reported=[new])
    assert (names.of(new), names.of(old)) == ("gpu3", "00000000…89ab")
    assert found(names, "gpu3") == [new]
    unreported = DeviceNames([a_gpu(old, "3"), a_gpu(new, "3")])
    assert unreported.of(new) == "11111111…89ab"
    assert found(unreported, "3") == [old, new]


def test_a_device_of_an_older_record_is_shown_by_its_id() -> None:
    names = DeviceNames([a_gpu(H100S[0], None), a_gpu("node1/cpu0", None, backend="cpu")])
    assert [names.of(device) for device in (H100S[0], "node1/cpu0", H100S[7])] == [
        "01000100…0000",
        "cpu0",
        "01000100…0007",
    ]
    assert short_id("cpu-0") == "cpu-0"


def test_logs_have_the_name_and_the_id() -> None:
    assert label(a_gpu("GPU-a", "3")) == "gpu3 (GPU-a)"
    assert label(a_gpu("node1/cpu0", "0", backend="cpu")) == "node1/cpu0"
    assert label(a_gpu("GPU-a", None)) == "GPU-a"


def test_indices_sort_as_numbers() -> None:
    assert sorted(["10", "2", None, "3:10", "3:2"], key=natural_order) == ["2", "3:2", "3:10", "10", None]
