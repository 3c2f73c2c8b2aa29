import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.errors import BadInput
from gpuq.learn.transfer.importers import read
from gpuq.learn.transfer.timeline import OpSpan
from gpuq.learn.transfer.xplane import op_type, spans


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def event(name: int, offset_us: int, length_us: int, *stats: bytes) -> bytes:
    return field(4, field(1, name) + field(2, offset_us * 10**6) + field(3, length_us * 10**6) + b"".join(stats))


def named(number: int, name: str, inside: int) -> bytes:
    """An entry of a plane's map of events (4) or stats (5)."""
    return field(inside, field(1, number) + field(2, field(1, number) + field(2, name)))


HOST = field(
    1,
    field(2, "/host:CPU")
    + named(1, "model/dense/MatMul:MatMul", 4)
    + named(2, "ExecutorState::Process", 4)
    + field(3, field(2, "python") + field(3, 5_000) + event(1, 1, 20) + event(2, 0, 100)),
)
DEVICE = field(
    1,
    field(2, "/device:GPU:0")
    + named(1, "volta_sgemm", 4)
    + named(9, "tf_op", 5)
    + field(3, field(2, "Stream #13") + event(1, 0, 40, field(4, field(1, 9) + field(5, "model/conv:Conv2D"))))
    + field(3, field(2, "Steps") + event(1, 0, 999)),
)


def test_the_runs_of_ops_are_read_from_host_and_device():
    assert list(spans(HOST + DEVICE)) == [OpSpan("MatMul", False, 0, 6, 20), OpSpan("Conv2D", True, 0, 0, 40)]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("StatefulPartitionedCall/conv2d/Relu:_MklNativeFusedConv2D", "_MklNativeFusedConv2D"),
        ("GatherV2_1:GatherV2", "GatherV2"),
        ("ExecutorState::Process", None),
        ("EagerLocalExecute: MakeIterator", None),
        ("", None),
    ],
)
def test_only_names_of_ops_have_a_type(name, kind):
    assert op_type(name) == kind


@given(st.integers(0, 400), st.integers(0, 400), st.integers(0, 255))
def test_a_damaged_trace_is_refused_or_read_but_never_crashes(tmp_path_factory, cut, place, byte):
    raw = bytearray(HOST + DEVICE)
    raw[place % len(raw)] = byte
    path = tmp_path_factory.mktemp("damage") / "vm.xplane.pb"
    path.write_bytes(bytes(raw[: max(0, len(raw) - cut)]))
    with contextlib.suppress(BadInput):
        read(path)
