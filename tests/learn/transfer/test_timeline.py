from hypothesis import given
from hypothesis import strategies as st

from gpuq.learn.transfer.timeline import OpSpan, summed

SPANS = st.lists(
    st.builds(
        OpSpan,
        op=st.sampled_from("abc"),
        on_device=st.booleans(),
        line=st.integers(0, 2),
        start_us=st.integers(0, 100).map(float),
        length_us=st.integers(1, 50).map(float),
    )
)


def test_an_op_inside_another_is_not_counted_twice():
    found = summed(
        [OpSpan("outer", False, 1, 0, 100), OpSpan("inner", False, 1, 20, 30), OpSpan("inner", False, 1, 60, 10)]
    )
    assert found == {"host_us": {"outer": 60, "inner": 40}, "host_idle_us": 0}


def test_idle_is_when_no_stream_runs_anything():
    found = summed([OpSpan("a", True, 1, 0, 10), OpSpan("b", True, 2, 5, 10), OpSpan("a", True, 1, 40, 10)])
    assert found == {"device_us": {"a": 20, "b": 10}, "device_idle_us": 25}


@given(SPANS)
def test_no_time_is_negative_and_idle_time_fits_into_the_window(spans):
    for name, value in summed(spans).items():
        if name.endswith("idle_us"):
            assert 0 <= value <= 150
        else:
            assert all(us > 0 for us in value.values())
