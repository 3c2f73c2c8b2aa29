"""How a GPU is shared, by MPS or by time slices, over the stand-in driver."""

from __future__ import annotations

from collections.abc import Callable

from tests.adapters.stand_in import (
    NOT_SUPPORTED,
    Ran,
)

SHARING = "lambda: {d.id: d.sharing for d in backend.devices()}"


def test_without_mps_a_gpu_is_shared_by_time_slices(run: Callable[..., Ran]):
    ran = run(
        f"sharing = {SHARING}; first = sharing(); root, child = tree()\n"
        "state(f'device 0 compute {child} 3000'); look(); result = first, sharing()"
    )
    assert ran.result == [{"GPU-0": "time-slicing", "GPU-1": "time-slicing"}] * 2


def test_a_gpu_is_under_mps_while_an_mps_server_or_a_client_is_on_it(run: Callable[..., Ran]):
    ran = run(
        f"sharing = {SHARING}; root, child = tree(); server = mps_server('/usr/bin/nvidia-cuda-mps-server'); seen = []\n"
        "for line in (f'device 0 compute {server} 30', f'device 1 mps {child} 3000', ''):\n"
        "    state(line); look(); seen.append(sharing())\n"
        "result = seen"
    )
    assert ran.result == [
        {"GPU-0": "mps", "GPU-1": "time-slicing"},
        {"GPU-0": "time-slicing", "GPU-1": "mps"},
        {"GPU-0": "time-slicing", "GPU-1": "time-slicing"},
    ]


def test_an_mps_server_belongs_to_no_attempt_and_may_hide_utilisation(run: Callable[..., Ran]):
    ran = run(
        "one, two = tree(), tree(); server = mps_server()\n"
        "base = 'device 0 used 9000', 'device 0 utilization 90', f'device 0 compute {server} 30'\n"
        "first = f'device 0 mps {one[1]} 3000'; both = first, f'device 0 mps {two[1]} 6000'\n"
        "A_, B_ = ResidentProcess(A, one[0], ('GPU-0',)), ResidentProcess(B, two[0], ('GPU-0',))\n"
        "state(*base, first); alone = look(A_)\n"
        "reported = f'device 0 sample {one[1]} 999500000 60', f'device 0 sample {two[1]} 999500000 30'\n"
        "state(*base, *both, *reported); apart = look(A_, B_)[1]\n"
        "state(*base, *both, f'device 0 sample {server} 999600000 90'); result = alone, apart, look(A_, B_)[1]"
    )
    (readings, usage), apart, hidden = ran.result
    assert (usage["1-1"], readings["GPU-0"][3]) == ([3000, 90], 0), "alone it has all, and nothing is foreign"
    assert (apart["1-1"][1], apart["2-1"][1]) == (60, 30)
    assert (hidden["1-1"][1], hidden["2-1"][1]) == (None, None)


def test_an_mps_server_that_was_there_first_is_seen_before_the_first_look(run: Callable[..., Ran]):
    ran = run(f"result = ({SHARING})()", start="device 0 mps 4242 3000")
    assert ran.result == {"GPU-0": "mps", "GPU-1": "time-slicing"}


def test_sharing_is_unknown_without_a_process_list(run: Callable[..., Ran]):
    start = f"fail 0 nvmlDeviceGetComputeRunningProcesses_v3 {NOT_SUPPORTED}"
    ran = run(f"look(); result = ({SHARING})()", start=start)
    assert ran.result == {"GPU-0": None, "GPU-1": "time-slicing"}


def test_an_old_driver_without_the_list_of_mps_clients_still_shows_the_server(run: Callable[..., Ran]):
    ran = run(
        f"server = mps_server(); lost = 'fail 0 nvmlDeviceGetMPSComputeRunningProcesses_v3 {NOT_SUPPORTED}'\n"
        f"state(lost, f'device 0 compute {{server}} 30'); look(); result = ({SHARING})()['GPU-0']"
    )
    assert ran.result == "mps"
