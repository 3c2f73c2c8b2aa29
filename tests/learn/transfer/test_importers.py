import contextlib
import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.errors import BadInput
from gpuq.learn.transfer import importers
from gpuq.learn.transfer.importers import read
from gpuq.learn.transfer.profile import OpProfile, to_json

TORCH = {
    "traceEvents": [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "aten::conv2d",
            "pid": 1,
            "tid": 1,
            "ts": 0,
            "dur": 100,
            "args": {"External id": 1},
        },
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "aten::cudnn",
            "pid": 1,
            "tid": 1,
            "ts": 10,
            "dur": 50,
            "args": {"External id": 2},
        },
        {
            "ph": "X",
            "cat": "kernel",
            "name": "sm80_xmma",
            "pid": 0,
            "tid": 7,
            "ts": 40,
            "dur": 300,
            "args": {"External id": 2},
        },
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 7, "ts": 440, "dur": 60, "args": {}},
        {"ph": "i", "name": "marker", "ts": 3},
    ]
}
TENSORFLOW = {
    "traceEvents": [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
        {"ph": "M", "pid": 2, "name": "process_name", "args": {"name": "/host:CPU"}},
        {
            "ph": "X",
            "pid": 1,
            "tid": 1,
            "name": "volta",
            "ts": 0,
            "dur": 30,
            "args": {"tf_op": "model/conv/Conv2D:Conv2D"},
        },
        {"ph": "X", "pid": 1, "tid": 1, "name": "relu", "ts": 40, "dur": 10, "args": {"tf_op": "model/relu:Relu"}},
        {
            "ph": "X",
            "pid": 2,
            "tid": 1,
            "name": "x",
            "ts": 0,
            "dur": 5,
            "args": {"long_name": "Iterator/GetNext:IteratorGetNext"},
        },
        {"ph": "X", "pid": 2, "tid": 1, "name": "FunctionRun", "ts": 6, "dur": 5},
    ]
}
STATISTICS = """rank,Host/device,Type,Operation,#Occurrences,Total time (us),Avg. time (us),Total self-time (us)
1,Device,Conv2D,model/conv/Conv2D,20,900,45,900
2,Device,Conv2D,model/conv_1/Conv2D,20,100,5,100
3,Device,IDLE,IDLE,0,500,0,500
4,Host,Dataset,Dataset,1,40,40,40
"""
DATA_TABLE = {
    "cols": [{"id": "host_or_device"}, {"id": "type"}, {"id": "total_self_time"}],
    "rows": [{"c": [{"v": "Device"}, {"v": "MatMul"}, {"v": 12.5}]}, {"c": [{"v": "Host"}, {"v": "IDLE"}, {"v": 7}]}],
}
PRINTED = """\
-----------------  ------------  ------------  ------------  ------------
             Name    Self CPU %      Self CPU     Self CUDA    # of Calls
-----------------  ------------  ------------  ------------  ------------
     aten::conv2d        60.00%       1.500ms     2.000ms              3
        aten::relu        40.00%     500.000us       0.000us              3
-----------------  ------------  ------------  ------------  ------------
Self CPU time total: 2.000ms
"""


def imported(tmp_path, content, name="trace.json"):
    path = tmp_path / name
    raw = (
        content
        if isinstance(content, bytes)
        else content.encode()
        if isinstance(content, str)
        else json.dumps(content).encode()
    )
    path.write_bytes(raw)
    return read(path)


def test_kernels_count_under_the_op_that_launched_them(tmp_path):
    found = imported(tmp_path, TORCH)
    assert found.framework == "pytorch"
    assert found.device_us == {"aten::cudnn": 300, "Memcpy HtoD": 60}
    assert found.device_idle_us == 100
    assert found.host_us == {"aten::conv2d": 50, "aten::cudnn": 50}


def test_a_trace_of_tensorflow_is_read_by_the_types_of_its_ops(tmp_path):
    found = imported(tmp_path, gzip.compress(json.dumps(TENSORFLOW).encode()), "vm.trace.json.gz")
    assert found.framework == "tensorflow"
    assert (found.device_us, found.device_idle_us) == ({"Conv2D": 30, "Relu": 10}, 10)
    assert found.host_us == {"IteratorGetNext": 5}


def test_statistics_are_added_up_by_type_as_csv_and_as_json(tmp_path):
    found = imported(tmp_path, STATISTICS, "framework_op_stats.csv")
    assert (found.device_us, found.device_idle_us, found.host_us) == ({"Conv2D": 1000}, 500, {"Dataset": 40})
    found = imported(tmp_path, [DATA_TABLE])
    assert (found.device_us, found.host_idle_us) == ({"MatMul": 12.5}, 7)


def test_averages_of_pytorch_are_read_as_printed_and_as_rows(tmp_path):
    found = imported(tmp_path, PRINTED, "averages.txt")
    assert found.host_us == {"aten::conv2d": 1500, "aten::relu": 500}
    assert found.device_us == {"aten::conv2d": 2000}
    rows = [{"key": "aten::mm", "self_cpu_time_total": 3, "self_device_time_total": 9.5}]
    assert imported(tmp_path, rows).device_us == {"aten::mm": 9.5}


def test_own_profile_format_is_read(tmp_path):
    profile = OpProfile(device_us={"Relu": 1.0}, step_s=0.1)
    assert imported(tmp_path, to_json(profile)) == profile


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"[1]",
        b"{}",
        b"\x1f\x8bnot gzip at all",
        b"\xff\xfe\x00",
        b"a,b\n1,2\n",
        b"Self CPU and nothing else",
        b'{"traceEvents": 7}',
        b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a"}]}',
        b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 0, "dur": -5}]}',
        b'[{"key": "a", "self_cpu_time_total": "soon"}]',
        b"[" * 100_000,
        STATISTICS.replace("900,45,900", "900,45,nan").encode(),
    ],
)
def test_damaged_file_is_refused_with_a_message(tmp_path, content):
    with pytest.raises(BadInput) as caught:
        imported(tmp_path, content)
    assert "trace.json" in caught.value.message


def test_a_gzip_cut_off_in_the_middle_is_refused(tmp_path):
    whole = gzip.compress(json.dumps(TORCH).encode())
    with pytest.raises(BadInput, match="damaged gzip"):
        imported(tmp_path, whole[:-20])


def test_gzip_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(importers, "MOST_BYTES", 1000)
    with pytest.raises(BadInput, match="more than"):
        imported(tmp_path, gzip.compress(b" " * 100_000))


@given(cut=st.integers(0, 2000), place=st.integers(0, 2000), byte=st.integers(0, 255))
def test_any_damage_raises_bad_input(tmp_path_factory, cut, place, byte):
    raw = bytearray(json.dumps(TENSORFLOW).encode())
    raw[place % len(raw)] = byte
    path = tmp_path_factory.mktemp("damage") / "trace.json"
    path.write_bytes(bytes(raw[: len(raw) - cut % 3]))
    with contextlib.suppress(BadInput):
        read(path)
