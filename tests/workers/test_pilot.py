"""What a pilot refuses before it joins: an order that its node cannot carry out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from gpuq_workers.pilot import check_clock, read_order, settings_of
from msgspec.structs import replace

from gpuq import __version__
from gpuq.errors import BadSettings
from gpuq.messages.pilot import PilotOrder

ORDER = PilotOrder(
    main="login:1", fingerprint="f", host="slurm-1", secret="s", idle_s=60.0, gpus=1, version=__version__
)  # fmt: skip


def written(folder: Path, order: PilotOrder) -> Path:
    (folder / "order.json").write_bytes(msgspec.json.encode(order))
    return folder


def test_an_order_is_read_from_the_folder(tmp_path: Path) -> None:
    assert read_order(written(tmp_path, ORDER)) == ORDER


def test_a_home_that_the_node_does_not_see_is_named_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="cannot be read on this node") as refused:
        read_order(tmp_path / "none")
    assert "set GPUQ_HOME" in refused.value.fix


def test_a_node_with_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=f"This node has gpuq {__version__}, and the login node 9.9"):
        read_order(written(tmp_path, replace(ORDER, version="9.9")))


def test_a_node_with_another_version_is_refused_also_where_orders_were_different(tmp_path: Path) -> None:
    (tmp_path / "order.json").write_text('{"version": "9.9", "other": 1}')
    with pytest.raises(BadSettings, match=r"the login node 9\.9"):
        read_order(tmp_path)


@pytest.mark.parametrize(("ahead_s", "said"), [(3600.0, "3600 s ahead of"), (-90.0, "90 s behind")])
def test_a_node_with_another_time_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, ahead_s: float, said: str
) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "n7")
    with pytest.raises(BadSettings, match=f"The clock of node n7 is {said} the login node's") as refused:
        check_clock(ahead_s)
    assert "--exclude=n7" in refused.value.fix
    check_clock(30.0)
    check_clock(None)


def test_a_pilot_that_cannot_write_says_so_in_a_sentence(tmp_path: Path) -> None:
    """As where a quota is used up."""
    folder = written(tmp_path, replace(ORDER, gpus=0, lasts_s=600.0))
    command = [sys.executable, "-P", "-m", "gpuq_workers.pilot", str(folder)]
    done = subprocess.run(["sh", "-c", 'ulimit -f 0 && exec "$@"', "sh", *command], capture_output=True, check=False)
    assert done.returncode == 4
    assert done.stderr.startswith(b"gpuq: The pilot cannot use its folder: [Errno ")
    assert b"quota" in done.stderr.splitlines()[-1]


def test_a_pilot_offers_the_gpus_that_slurm_gave_it_until_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    said = settings_of(ORDER, 1000.5)
    assert 'only = ["2", "3"]' in said
    assert "until_at = 1000.5" in said
    assert "until_at" not in settings_of(ORDER, None)
    assert 'backend = "cpu"' in settings_of(replace(ORDER, gpus=0), None)


def test_a_pilot_that_slurm_gave_no_gpu_takes_none_of_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(BadSettings, match="no GPU"):
        settings_of(ORDER, None)
    assert "only" not in settings_of(replace(ORDER, whole_node=True), None)
    assert "only" not in settings_of(replace(ORDER, lasts_s=600.0), None), "a container shows a pod its own GPUs only"


def test_a_pilot_with_gpus_never_offers_cores_in_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert 'backend = "nvml"' in settings_of(ORDER, None)


def test_a_pilot_does_not_load_what_only_the_main_host_needs() -> None:
    code = (
        "import sys; import gpuq_workers.pilot, gpuq_workers.poll_orders, gpuq_workers.serve, gpuq.adapters.main_host; "
        "print({'sqlalchemy', 'redis', 'aiohttp'} & sys.modules.keys())"
    )
    said = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "set()\n"
