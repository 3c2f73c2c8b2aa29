import numpy as np
import pytest

from gpuq.errors import BadInput
from gpuq.split.launch import KernelLaunch, from_arrays, index_space, load

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
        ({"buffer": 'file = "none.npy"'}, "cannot be read"),
        ({"device": "speed = 3"}, "a device has no `speed`"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path, change, sentence):
    with pytest.raises(BadInput, match=sentence):
        load(written(tmp_path, **change))


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
