import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuq.errors import BadInput, Failure
from gpuq.split.decide import run
from gpuq.split.history import LaunchHistory
from gpuq.split.launch import KernelLaunch, OpenClDevice, compiled, judged, load
from gpuq.split.parts import PreparedLaunch, run_parts
from gpuq.split.values import IndexSpace
from gpuq.split.verdict import Correctness
from tests.split.corpus import CASES, data, launch_arguments
from tests.split.test_launch import written
from tests.split.test_loan import until

pytest.importorskip("pyopencl", reason="the extra `split` is not installed: make test-split")
pytest.importorskip("llvmlite", reason="the extra `split` is not installed: make test-split")
pytestmark = pytest.mark.opencl

DEVICES = (OpenClDevice(cores=(0,)), OpenClDevice(cores=(1,)))
LIMIT_S = 200


def launch_of(name):
    case = next(one for one in CASES if one.name == name)
    return KernelLaunch(case.source, "k", "", case.range, launch_arguments(case), data(case))


def same(one, other):
    return all(np.array_equal(one[name].view(np.uint8), other[name].view(np.uint8)) for name in one)


@pytest.mark.parametrize(
    "name",
    [
        "saxpy_in_place",
        "group_id",
        "global_size_stride",
        "tile_transpose",
        "volume",
        "matmul",
        "group_histogram",
        "triples",
        "grid_stride_in_place",
    ],
)
def test_a_proven_split_is_bit_identical_to_the_whole_run(name):
    launch = launch_of(name)
    verdict = judged(launch)
    assert verdict.answer is Correctness.PROVEN
    whole = run_parts(launch, verdict, DEVICES[:1], limit_s=LIMIT_S)
    split = run_parts(launch, verdict, DEVICES, limit_s=LIMIT_S, static=(0.4, 0.6))
    assert min(split.share) > 0.2
    assert same(whole.buffers, split.buffers)


def test_a_launch_that_is_prepared_once_runs_again_from_its_own_content():
    launch = launch_of("saxpy_in_place")
    with PreparedLaunch(launch, judged(launch), DEVICES, limit_s=LIMIT_S) as prepared:
        first = {name: one.copy() for name, one in prepared.run(static=(0.4, 0.6)).buffers.items()}
        assert same(first, prepared.run().buffers)


def test_a_device_on_lent_cores_takes_nothing_while_none_are_lent(monkeypatch):
    monkeypatch.delenv("GPUQ_LOAN", raising=False)
    launch = launch_of("saxpy_in_place")
    verdict = judged(launch)
    whole = run_parts(launch, verdict, DEVICES[:1], limit_s=LIMIT_S)
    split = run_parts(launch, verdict, (DEVICES[0], OpenClDevice(lent=True)), limit_s=LIMIT_S)
    assert split.share[1] == 0
    assert same(whole.buffers, split.buffers)


def test_a_device_on_lent_cores_works_while_they_are_lent(tmp_path, monkeypatch):
    loan = tmp_path / "loan.json"
    loan.write_text(json.dumps({"cores": [1], "until": time.monotonic() + 600}))
    monkeypatch.setenv("GPUQ_LOAN", str(loan))
    launch = launch_of("saxpy_in_place")
    split = run_parts(launch, judged(launch), (DEVICES[0], OpenClDevice(lent=True)), limit_s=LIMIT_S)
    assert split.chunks[1] > 0


def test_devices_with_copies_of_their_own_are_merged():
    launch = launch_of("saxpy_in_place")
    verdict = judged(launch)
    whole = run_parts(launch, verdict, DEVICES[:1], limit_s=LIMIT_S)
    apart = (DEVICES[0], OpenClDevice(cores=(1,), in_host_memory=False))
    split = run_parts(launch, verdict, apart, limit_s=LIMIT_S, static=(0.5, 0.5))
    assert same(whole.buffers, split.buffers)


def test_a_permutation_is_split_after_a_check(tmp_path):
    launch = compiled(launch_of("scatter"), DEVICES)
    outcome = run(launch, DEVICES, LaunchHistory(tmp_path), limit_s=LIMIT_S)
    assert outcome.how == "split, checked"
    assert np.array_equal(outcome.result.buffers["b"][launch.buffers["p"]], launch.buffers["a"])
    assert LaunchHistory(tmp_path).find(launch, DEVICES).checked_at == 0


def test_bytes_are_split_after_a_check_whatever_values_they_get(tmp_path):
    source = (
        "__kernel void k(__global const uchar* a, __global uchar* b) { int x = get_global_id(0); b[x ^ 1] = a[x]; }"
    )
    a = np.arange(4096).astype(np.uint8)
    launch = KernelLaunch(source, "k", "", launch_of("copy").range, ("a", "b"), {"a": a, "b": a[::-1].copy()})
    outcome = run(launch, DEVICES, LaunchHistory(tmp_path), limit_s=LIMIT_S)
    assert outcome.how == "split, checked"
    assert np.array_equal(outcome.result.buffers["b"], a.reshape(-1, 2)[:, ::-1].reshape(-1))


def test_other_data_whose_stores_meet_are_run_whole_and_never_split_again(tmp_path):
    history = LaunchHistory(tmp_path)
    launch = compiled(launch_of("scatter"), DEVICES)
    run(launch, DEVICES, history, limit_s=LIMIT_S)
    history.keep(launch, DEVICES, whole_on=None)  # so short a launch is faster on one device
    launch.buffers["p"][:] = 0
    outcome = run(launch, DEVICES, history, limit_s=LIMIT_S)
    assert outcome.how == "whole"
    assert "stored to the same elements" in outcome.why
    assert "an earlier split" in run(launch, DEVICES, history, limit_s=LIMIT_S).why


@pytest.mark.parametrize("name", ["colliding_scatter", "halved", "overlapping_windows"])
def test_a_trap_that_is_not_proven_fails_its_check(tmp_path, name):
    outcome = run(launch_of(name), DEVICES, LaunchHistory(tmp_path), limit_s=LIMIT_S)
    assert outcome.how == "whole"


def small(body, **changed):
    source = f"__kernel void k(__global int* b, int n) {{ int x = get_global_id(0); {body} }}"
    launch = launch_of("copy")
    return KernelLaunch(
        source, "k", "", launch.range, ("b", np.int32(4096)), {"b": np.zeros(4096, np.int32)}, **changed
    )


def test_a_kernel_that_crashes_its_driver_ends_only_its_process(tmp_path):
    with pytest.raises(Failure, match=r"ended its process \(signal") as caught:
        run(small("b[x * 100000000L] = 1;"), DEVICES, LaunchHistory(tmp_path), limit_s=LIMIT_S)
    assert "indices" in caught.value.fix


def test_a_kernel_that_never_ends_is_stopped():
    launch = small("volatile int y = n; while (y) ; b[x] = y;")
    with pytest.raises(Failure, match="did not end within its time limit"):
        run_parts(launch, judged(launch), DEVICES[:1], limit_s=10)


def test_a_kernel_that_never_ends_ends_with_the_program_that_asked_for_it(tmp_path):
    path = tmp_path / "asks.py"
    path.write_text(
        "from tests.split.test_parts import *\n"
        'launch = small("volatile int y = n; while (y) ; b[x] = y;")\n'
        "prepared = PreparedLaunch(launch, judged(launch), DEVICES[:1], limit_s=500)\n"
        "print(prepared.processes[0].pid, flush=True)\n"
        "prepared.run()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    with subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, text=True, env=environment) as asking:
        pid = asking.stdout.readline().strip()
        asking.kill()
    until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_launch_that_is_refused_runs_whole_in_one_launch():
    """Its linear ids count from the launch's first work-item, and its offset is its own."""
    body = "b[get_global_id(0)] = get_global_linear_id() + 1000 * get_group_id(0) + 100000 * get_global_offset(0);"
    launch = replace(small(""), source=f"__kernel void k(__global int* b, int n) {{ {body} }}", options="-cl-std=CL2.0")
    verdict = judged(launch)
    assert "get_global_linear_id" in verdict.reason
    whole = run_parts(launch, verdict, DEVICES[:1], limit_s=LIMIT_S)
    ids = np.arange(launch.range.size[0])
    assert np.array_equal(whole.buffers["b"][ids], ids + 1000 * (ids // launch.range.local[0]))
    assert (whole.share, whole.chunks) == ((1.0,), (1,))


def test_what_a_kernel_prints_is_seen(tmp_path, capfd):
    launch = small('if (x == 5) printf("id %d of the launch\\n", x); b[x] = x;')
    assert run(launch, DEVICES, LaunchHistory(tmp_path), limit_s=LIMIT_S).how == "whole"
    assert capfd.readouterr().err.count("id 5 of the launch") == 1


def test_cores_that_do_not_exist_are_the_devices_fault_and_not_the_kernels(tmp_path):
    history = LaunchHistory(tmp_path)
    launch = small("b[x] = x;")
    devices = (DEVICES[0], OpenClDevice(cores=(4095,)))
    with pytest.raises(BadInput, match=r"may not use the cores \[4095\]") as caught:
        run(launch, devices, history, limit_s=LIMIT_S)
    assert "cores 0 to" in caught.value.fix
    assert history.find(launch, devices).quarantined is None


def test_groups_that_the_device_cannot_take_are_one_sentence():
    launch = replace(
        small("b[x] = x;"), range=IndexSpace((0,), (65536,), (65536,)), buffers={"b": np.zeros(65536, np.int32)}
    )
    with pytest.raises(BadInput, match=r"refuses the launch: .*INVALID_WORK_GROUP_SIZE") as caught:
        run_parts(launch, judged(launch), DEVICES[:1], limit_s=LIMIT_S)
    assert "at most" in caught.value.fix


def test_a_kernel_that_one_device_cannot_compile_is_one_sentence(tmp_path):
    devices = (DEVICES[0], OpenClDevice(cores=(1,), options="-no-such-option"))
    with pytest.raises(BadInput, match="does not compile on"):
        run(small("b[x] = x;"), devices, LaunchHistory(tmp_path), limit_s=LIMIT_S)


def test_a_store_outside_of_a_buffer_is_noticed():
    launch = small("b[x + 1] = x;")
    with pytest.raises(Failure, match="stored outside of a buffer"):
        run_parts(launch, judged(launch), DEVICES[:1], limit_s=LIMIT_S)


def test_a_device_that_is_not_there_is_one_sentence():
    launch = small("b[x] = x;")
    with pytest.raises(BadInput, match="there is no OpenCL device 7") as caught:
        run_parts(launch, judged(launch), (OpenClDevice(index=7),), limit_s=LIMIT_S)
    assert "pip install" in caught.value.fix


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("b",), "takes 2 arguments, the launch has 1"),
        (("b", "b"), "argument 2 of `k` is a scalar of type int, the launch gives a buffer"),
        (("b", np.float64(1)), "argument 2 of `k` is a int, the launch gives float64"),
    ],
)
def test_wrong_arguments_are_one_sentence(arguments, sentence):
    launch = small("b[x] = x;")
    with pytest.raises(BadInput, match=sentence):
        judged(KernelLaunch(launch.source, "k", "", launch.range, arguments, launch.buffers))


def scalar_file(tmp_path, scalar, kind):
    path = tmp_path / "launch.toml"
    path.write_text(
        f'source = "__kernel void k(__global float* b, {kind} s) {{ b[get_global_id(0)] = s; }}"\nname = "k"\n'
        f'global = [64]\nlocal = [4]\n[[arguments]]\nbuffer = "b"\nsize = 64\n[[arguments]]\n{scalar}\n'
    )
    return load(path)


def test_a_number_without_a_type_gets_the_kernels(tmp_path):
    launch = compiled(scalar_file(tmp_path, "scalar = 1.5", "float"), DEVICES)
    assert (launch.arguments[1].dtype, launch.arguments[1]) == (np.float32, 1.5)
    assert compiled(scalar_file(tmp_path, "scalar = 3", "ulong"), DEVICES).arguments[1].dtype == np.uint64


@pytest.mark.parametrize(
    ("scalar", "kind", "sentence"),
    [
        ("scalar = 1.5", "int", "is a int, the launch gives 1.5"),
        ("scalar = -1", "uint", "is a uint, the launch gives -1"),
        ("scalar = 300", "uchar", "is a uchar, the launch gives 300"),
        ('scalar = 1\ntype = "int32"', "float", "is a float, the launch gives int32"),
        ("scalar = 1", "float4", "is a float.*, the launch gives 1"),
    ],
)
def test_a_number_that_the_kernels_type_does_not_have_is_one_sentence(tmp_path, scalar, kind, sentence):
    source = scalar_file(tmp_path, scalar.replace("\\n", "\n"), kind)
    with pytest.raises(BadInput, match=f"argument 2 of `k` {sentence}"):
        compiled(replace(source, source=source.source.replace("= s;", "= 1;")), DEVICES)


def test_the_verdict_is_on_the_program_that_each_device_compiles():
    """One device's options make its groups store to what another device's groups store to."""
    launch = replace(small("b[x + SHIFT] = x;"), buffers={"b": np.zeros(8192, np.int32)})
    plain, shifted, slow = (
        OpenClDevice(options=one) for one in ("-DSHIFT=0", "-DSHIFT=1", "-DSHIFT=0 -cl-opt-disable")
    )
    assert judged(compiled(launch, (plain, plain))).answer is Correctness.PROVEN
    assert judged(compiled(launch, (plain, shifted))).answer is not Correctness.PROVEN
    assert judged(compiled(launch, (plain, slow))).answer is Correctness.PROVEN


def test_a_header_that_changes_makes_another_launch(tmp_path):
    header = tmp_path / "index.h"
    launch = replace(small(""), source='#include "index.h"\n' + small("b[AT] = x;").source, options=f"-I{tmp_path}")
    header.write_text("#define AT x")
    before = compiled(launch, DEVICES)
    assert compiled(launch, DEVICES).signature() == before.signature()
    header.write_text("#define AT x + 1")
    assert compiled(launch, DEVICES).signature() != before.signature()


def test_a_program_runs_its_kernel_by_its_arrays(tmp_path, monkeypatch):
    import gpuq.split

    monkeypatch.setenv("GPUQ_HOME", str(tmp_path))
    source = (
        "__kernel void k(__global const int* a, __global int* b, int n) { int x = get_global_id(0); b[x] = a[x] * n; }"
    )
    a, b = np.arange(1024, dtype=np.int32), np.zeros(1024, np.int32)
    devices = [{"cores": [0]}, {"cores": [1]}]
    outcome = gpuq.split.run((source, "k"), (1024,), (16,), a, b, np.int32(3), devices=devices)
    assert outcome.how == "split, proven"
    assert np.array_equal(b, a * 3)


def test_the_command_checks_and_runs_a_launch(tmp_path):
    path = written(tmp_path, 'size = 256\nfill = 2\noutput = "out.npy"', "[[devices]]\ncores = [1]")
    environment = {**os.environ, "GPUQ_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "gpuq.split"]
    done = subprocess.run(
        [*command, "check", "--json", path], capture_output=True, text=True, env=environment, check=True
    )
    assert json.loads(done.stdout)["verdict"] == "proven"
    done = subprocess.run([*command, "run", path], capture_output=True, text=True, env=environment, check=True)
    assert "split, proven" in done.stdout
    assert (np.load(tmp_path / "out.npy") == 3).all()
