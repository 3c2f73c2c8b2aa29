"""Tickets for the terminal of a page: for whom, for what and how long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.api import tickets

NOW = 1_795_220_000.0


def test_a_ticket_is_valid_for_half_a_minute() -> None:
    ticket = tickets.make("secret", "ann", 42, NOW)
    assert tickets.is_valid(ticket, "secret", "ann", 42, NOW + 29)
    assert not tickets.is_valid(ticket, "secret", "ann", 42, NOW + 31)
    assert not tickets.is_valid(ticket, "secret", "ann", 42, NOW - 60), (
        "nor does a clock that was set back make it last"
    )


@pytest.mark.parametrize(("secret", "user", "job"), [("other", "ann", 42), ("secret", "bob", 42), ("secret", "ann", 4)])
def test_a_ticket_is_for_one_gpuq_one_user_and_one_job(secret: str, user: str, job: int) -> None:
    assert not tickets.is_valid(tickets.make("secret", "ann", 42, NOW), secret, user, job, NOW)


@given(st.text())
def test_nothing_else_is_a_ticket(text: str) -> None:
    assert not tickets.is_valid(text, "secret", "ann", 42, NOW)
