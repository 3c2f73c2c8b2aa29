from dataclasses import replace

import numpy as np
import pytest

from gpuq.errors import BadInput
from gpuq.split import pocl
from gpuq.split.launch import (
    KernelLaunch,
    OpenClDevice,
    _analysed_options,
    _asks_compiler,
    compiled,
    from_arrays,
    index_space,
    judged,
    load,
)
from gpuq.split.verdict import Correctness
from tests.split.corpus import data
from tests.split.store_llvm import STORED
from tests.split.test_verdict import named

TABLE = """
source = "__kernel void k(__global float* b, float s) {{ b[get_global_id(0)] *= s; }}"
name = "k"
global = [256]
local = [16]
[[arguments]]
buffer = "b"
{buffer}
[[arguments]]
scalar = 1.5
type = "float32"
[[devices]]
cores = [0]
{device}
"""


def written(tmp_path, buffer="size = 256\nfill = 2", device="", table=TABLE):
    path = tmp_path / "launch.toml"
    path.write_text(table.format(buffer=buffer, device=device))
    return path


def test_a_launch_is_read_with_its_buffers_and_scalars(tmp_path):
    np.save(tmp_path / "b.npy", np.arange(256, dtype=np.float32))
    launch = load(written(tmp_path, 'file = "b.npy"\noutput = "out.npy"', "duty = 0.5"))
    assert launch.arguments == ("b", np.float32(1.5))
    assert launch.buffers["b"][255] == 255
    assert launch.outputs == {"b": tmp_path / "out.npy"}
    assert launch.devices[0].cores == (0,)
    assert launch.devices[0].duty == 0.5


def test_the_signature_depends_on_scalars_and_sizes_but_not_on_contents(tmp_path):
    first = load(written(tmp_path))
    assert load(written(tmp_path, "size = 256\nfill = 3")).signature() == first.signature()
    assert load(written(tmp_path, "size = 257\nfill = 2")).signature() != first.signature()
    other = KernelLaunch(first.source, "k", "", first.range, ("b", np.float32(1.25)), first.buffers)
    assert other.signature() != first.signature()


@pytest.mark.parametrize(
    ("size", "local", "sentence"),
    [
        ([100], [64], r"not a multiple"),
        ([64, 64], [64], r"same number of dimensions"),
        ([0], [1], r"whole numbers from 1"),
        ([64.5], [1], r"whole numbers from 1"),
    ],
)
def test_an_index_space_that_cannot_be_is_one_sentence(size, local, sentence):
    with pytest.raises(BadInput, match=sentence):
        index_space(size, local)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"table": "name = 3 ["}, "is not TOML"),
        ({"table": 'source = ""'}, "lacks 'arguments'"),
        ({"buffer": "size = -1"}, "negative"),
        ({"buffer": "size = 100000000000000"}, "Unable to allocate"),
        ({"buffer": 'file = "none.npy"'}, "cannot be read"),
        ({"device": "speed = 3"}, "a device has no `speed`"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path, change, sentence):
    with pytest.raises(BadInput, match=sentence):
        load(written(tmp_path, **change))


@pytest.mark.parametrize(
    ("source", "options", "asks"),
    [
        ("#ifndef TILE\n#define TILE 16\n#endif", "", False),
        ("#if WIDTH > 4\n#endif", "-DWIDTH=8", False),
        ("#if WIDTH > 4\n#endif", "", True),
        ("#ifdef cl_khr_fp64\n#endif", "", True),
        ("int v = __OPENCL_VERSION__;", "", True),
        ('#include "more.h"', "", True),
    ],
)
def test_a_source_that_asks_its_compiler_may_become_another_program(source, options, asks):
    assert _asks_compiler(source, options) is asks


def test_the_analysis_compiles_with_the_options_that_change_the_program():
    given = ["-D", "N=4", "-cl-nv-maxrregcount", "32", "-I", "include", "-DM", "-cl-opt-disable", "-cl-std=CL1.2"]
    assert " ".join(_analysed_options(given)) == "-D N=4 -I include -DM -cl-std=CL1.2"


def test_a_proof_is_not_trusted_where_another_compiler_may_make_another_program(monkeypatch):
    source = f"#ifdef __GPU\n#endif\n{named('copy').source}"
    text = STORED.read_text().replace("@k_copy(", "@k(")
    monkeypatch.setattr(
        pocl, "programs", lambda *_, **__: pocl.Programs((text,), ("Portable Computing Language", "Another"))
    )
    devices = (OpenClDevice(), OpenClDevice(platform="Another"))
    launch = KernelLaunch(source, "k", "", named("copy").range, ("a", "b"), data(named("copy")))
    assert judged(compiled(replace(launch, source=named("copy").source), devices)).answer is Correctness.PROVEN
    verdict = judged(compiled(launch, devices))
    assert verdict.answer is Correctness.CHECK
    assert "compiler" in verdict.reason


def test_a_kernel_that_replaces_what_its_parts_replace_is_refused(monkeypatch):
    launch = KernelLaunch("#undef get_group_id", "k", "", index_space(64, 4), (), {}, code=("",))
    assert "a macro in place of" in judged(launch).reason


def test_arrays_of_a_program_become_buffers_and_one_array_twice_is_one_buffer():
    a, b = np.zeros(16, np.float32), np.ones(16, np.float32)
    launch = from_arrays(("source", "k"), (16,), (4,), (a, b, a, np.int32(3)), [{"cores": [0]}], "")
    assert launch.arguments == ("argument 1", "argument 2", "argument 1", np.int32(3))
    assert launch.buffers["argument 2"] is b


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda a: (a[::2],), "argument 1 is not contiguous"),
        (lambda a: (a, a[:8]), "argument 2 overlaps"),
        (lambda a: (a, 3), "argument 2 is a int"),
    ],
)
def test_arguments_that_no_kernel_takes_are_one_sentence(change, sentence):
    with pytest.raises(BadInput, match=sentence):
        from_arrays(("source", "k"), (16,), (4,), change(np.zeros(16, np.float32)), [], "")
