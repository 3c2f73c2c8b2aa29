"""Waiting on the whole: the textbook's values, its exact cases, and its laws."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.policies.estimates.mgk import erlang_c, mean_wait_s, observed


@pytest.mark.parametrize(
    ("servers", "offered", "waits"),
    # One server: the load itself. Two at half load: 1/3. Ten at 80%: 0.4092 (tables of Erlang C).
    [(1, 0.5, 0.5), (2, 1.0, 1 / 3), (10, 8.0, 0.4092), (5, 0.0, 0.0), (3, 3.0, 1.0)],
)
def test_erlang_c_gives_the_tables_values(servers: int, offered: float, waits: float) -> None:
    assert erlang_c(servers, offered) == pytest.approx(waits, abs=5e-5)


@given(st.floats(0.01, 0.99), st.floats(1, 1e5))
def test_one_server_is_m_m_1(load: float, service_s: float) -> None:
    assert mean_wait_s(1, load / service_s, service_s) == pytest.approx(load * service_s / (1 - load))


@given(st.floats(0.01, 0.99), st.floats(1, 1e5), st.floats(0, 20))
def test_one_server_is_pollaczek_and_khinchine(load: float, service_s: float, scv: float) -> None:
    second_moment = (1 + scv) * service_s**2
    exact = load / service_s * second_moment / (2 * (1 - load))
    assert mean_wait_s(1, load / service_s, service_s, service_scv=scv) == pytest.approx(exact)


@given(st.integers(1, 200), st.floats(0.01, 0.9), st.floats(0.01, 0.09))
def test_more_load_is_more_waiting_and_more_servers_are_less(servers: int, load: float, more: float) -> None:
    wait = mean_wait_s(servers, load * servers, 1.0)
    assert mean_wait_s(servers, (load + more) * servers, 1.0) >= wait
    assert mean_wait_s(servers + 1, load * servers, 1.0) <= wait


def test_what_cannot_be_kept_up_with_waits_for_ever() -> None:
    assert mean_wait_s(4, 4.0, 1.0) == inf


def test_traffic_is_what_was_seen() -> None:
    traffic = observed([(0.0, 100.0, 1), (10.0, 100.0, 1), (20.0, 100.0, 2), (30.0, 100.0, 2)])
    assert traffic is not None
    assert (traffic.arrivals_per_s, traffic.service_s, traffic.devices) == (0.1, 100.0, 1.5)
    assert (traffic.arrival_scv, traffic.service_scv) == (0.0, 0.0)
    assert traffic.mean_wait_s(12) == inf  # eight servers for ten jobs at a time


def test_too_little_says_nothing() -> None:
    assert observed([(0.0, 1.0, 1), (1.0, 1.0, 1)]) is None
    assert observed([(0.0, 1.0, 1)] * 5) is None
