"""What the host adds to the shim's word: the driver's faults, whose memory it was, and devices that are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpuq_workers.attempts import EndFile, OrderFile
from gpuq_workers.exit_classification import DEVICE_FAULTS, HostObservation, asked_bytes, classify_exit, read_xids
from gpuq_workers.measuring.sample import Sample
from hypothesis import given
from hypothesis import strategies as st

from gpuq.adapters.process import Identity
from gpuq.core.state.attempt import Ending, MemoryCause
from gpuq.core.state.device import Device, DeviceId, HostId, Reading
from gpuq.core.state.events import ResidentReport
from tests.workers.twins import GIB, attempt_id

US, PARTNER = attempt_id(1), attempt_id(2)
GPU = Device(DeviceId("GPU-1"), HostId("alpha"), "nvml", "NVIDIA H200", 80 * GIB)


def order(cores: tuple[int, ...] | None = None) -> OrderFile:
    return OrderFile(
        job=1,
        attempt=1,
        command=("train",),
        cwd="/",
        env={},
        devices=("GPU-1",),
        cores=cores,
        time_limit_s=None,
        grace_s=1.0,
        log_limit_bytes=1,
        shim=Identity("boot", 1, 1),
    )


def end(
    ending: Ending = Ending.EXITED, code: int = 1, reason: str = "ended with exit code 1", at: float = 1000.0
) -> EndFile:
    return EndFile(ending, code, reason, at)


# --- the driver's faults -------------------------------------------------------------------------------------------


def with_xids(folder: Path, *lines: str, ended: EndFile) -> tuple[Ending, str]:
    (folder / "xid").write_text("".join(f"{line}\n" for line in lines))
    settled = classify_exit(ended, US, order(), folder, None)
    return settled.ending, settled.reason


@pytest.mark.parametrize("xid", sorted(DEVICE_FAULTS))
def test_a_fatal_xid_makes_the_ending_device_failed(tmp_path: Path, xid: int) -> None:
    ending, reason = with_xids(tmp_path, f"{xid} 999.5", ended=end())
    assert ending is Ending.DEVICE_FAILED
    assert reason == f"the driver reported XID {xid} ({DEVICE_FAULTS[xid]}); ended with exit code 1"


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 63, 68, 92])
def test_other_xids_leave_the_ending(tmp_path: Path, xid: int) -> None:
    assert with_xids(tmp_path, f"{xid} 999.5", ended=end())[0] is Ending.EXITED


@pytest.mark.parametrize(
    "ended",
    [
        end(code=0),
        end(Ending.STOPPED, 143),
        end(Ending.TIMED_OUT, 143),
        end(Ending.OUT_OF_MEMORY),
        end(at=2000.0),
        end(at=900.0),
    ],
)
def test_endings_other_than_failures_are_not_reclassified(tmp_path: Path, ended: EndFile) -> None:
    assert with_xids(tmp_path, "79 999.5", ended=ended)[0] is ended.ending


def test_malformed_lines_of_the_xid_file_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "xid").write_text("79 12.5 more\nx y\n\n13\n94 nan\n")
    assert read_xids(tmp_path)[0] == (79, 12.5)
    assert read_xids(tmp_path / "away") == []


def test_a_failure_on_a_device_without_reading_is_device_failed(tmp_path: Path) -> None:
    other = Device(DeviceId("GPU-2"), GPU.host, "nvml", GPU.type, GPU.total_memory)
    reading = Reading(999.0, None, None, None)
    lost, well = (HostObservation(Sample((GPU, other), ((one.id, reading),), ()), {}) for one in (other, GPU))
    failed = classify_exit(end(), US, order(), tmp_path, lost)
    assert (failed.ending, failed.unwell) == (Ending.DEVICE_FAILED, True)
    assert failed.reason == "the driver did not answer for GPU-1; ended with exit code 1"
    assert classify_exit(end(), US, order(), tmp_path, well).ending is Ending.EXITED
    assert classify_exit(end(code=0), US, order(), tmp_path, lost).ending is Ending.EXITED
    assert classify_exit(end(), US, order(), tmp_path, None).ending is Ending.EXITED


def test_a_failure_in_the_output_makes_no_device_unwell(tmp_path: Path) -> None:
    reading = Reading(999.0, None, None, None)
    failed = end(Ending.DEVICE_FAILED, reason="device failed: CUDA error: uncorrectable ECC error encountered")
    on_cores = Device(DeviceId("GPU-1"), GPU.host, "cpu", "cpu-2", GIB)
    for devices, readings, unwell in (
        ((GPU,), ((GPU.id, reading),), False),
        ((GPU,), (), True),
        ((on_cores,), (), False),
    ):
        seen = HostObservation(Sample(devices, readings, ()), {})
        found = classify_exit(failed, US, order(), tmp_path, seen)
        assert (found.ending, found.reason, found.unwell) == (Ending.DEVICE_FAILED, failed.reason, unwell)
    assert not classify_exit(failed, US, order(), tmp_path, None).unwell


# --- whose memory it was -------------------------------------------------------------------------------------------


def cause(
    own: int | None, partner: int | None, *, foreign: int = 0, asked: str = "", on: Ending = Ending.OUT_OF_MEMORY
) -> str | None:
    """40 GiB were promised to us, 30 to the partner, of 80."""
    rows = tuple(
        ResidentReport(attempt=who, memory_bytes=memory, started_at=None)
        for who, memory in ((US, own), (PARTNER, partner))
    )
    reading = Reading(999.0, None, None, foreign)
    seen = HostObservation(Sample((GPU,), ((GPU.id, reading),), rows), {US: 40 * GIB, PARTNER: 30 * GIB})
    return classify_exit(end(on, reason=f"out of memory: {asked}"), US, order(), Path("/nowhere"), seen).memory_cause


def test_the_attempt_furthest_beyond_its_promise_is_the_memory_cause() -> None:
    assert cause(45 * GIB, 30 * GIB) is MemoryCause.OWN
    assert cause(39 * GIB, 41 * GIB) is MemoryCause.PARTNER
    assert cause(42 * GIB, 38 * GIB) is MemoryCause.PARTNER, "by more"


def test_the_failed_allocation_counts_as_own_memory() -> None:
    said = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"
    assert cause(39 * GIB, 30 * GIB) is None
    assert cause(39 * GIB, 30 * GIB, asked=said) is MemoryCause.OWN


def test_foreign_processes_are_the_cause_if_they_hold_promised_memory() -> None:
    assert cause(30 * GIB, 30 * GIB, foreign=20 * GIB) is MemoryCause.FOREIGN
    assert cause(30 * GIB, 30 * GIB, foreign=9 * GIB) is None, "it was there and counted when the two were admitted"


def test_memory_cause_is_none_without_readings() -> None:
    assert cause(None, None) is None
    assert classify_exit(end(Ending.OUT_OF_MEMORY), US, order(), Path("/nowhere"), None).memory_cause is None
    assert classify_exit(end(Ending.OUT_OF_MEMORY), US, None, Path("/nowhere"), None).memory_cause is None


def test_host_memory_has_a_cause_on_cpu_devices_only() -> None:
    assert cause(45 * GIB, 30 * GIB, on=Ending.HOST_OUT_OF_MEMORY) is None
    rows = (ResidentReport(attempt=US, memory_bytes=45 * GIB, started_at=None),)
    seen = HostObservation(Sample((GPU,), (), rows), {US: 40 * GIB})
    settled = classify_exit(end(Ending.HOST_OUT_OF_MEMORY), US, order(cores=(0,)), Path("/nowhere"), seen)
    assert (settled.memory_cause, settled.reason) == (MemoryCause.OWN, "ended with exit code 1; own growth")


@pytest.mark.parametrize(
    ("message", "asked"),
    [
        ("CUDA out of memory. Tried to allocate 20.00 MiB. GPU", 20 * 2**20),
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770354232 bytes.", 4770354232),
        ("Out of memory allocating 8,000,000,000 bytes (allocated so far", 8_000_000_000),
        ("CUBLAS_STATUS_ALLOC_FAILED", 0),
        ("Tried to allocate 1.2.3 GiB", 0),
    ],
)
def test_asked_bytes_reads_the_messages_of_frameworks(message: str, asked: int) -> None:
    assert asked_bytes(message) == asked


@given(st.text() | st.from_regex(r"[tT]ried to allocate [0-9.,]{1,500} ?[KMGT]iB"))
def test_asked_bytes_never_raises(message: str) -> None:
    assert asked_bytes(message) >= 0
