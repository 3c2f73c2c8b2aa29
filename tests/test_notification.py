"""Rules for notifications."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.errors import BadInput
from gpuq.notification import EVENTS, PATTERN, TARGET, parse


def test_a_rule_has_events_and_targets() -> None:
    assert parse("end,fail:slack") == ({"end", "fail"}, ("slack",))
    assert parse("all:slack,mail") == (set(EVENTS), ("slack", "mail"))
    assert parse("begin") == ({"begin"}, ())


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("done:slack", "there is no event `done`"),
        ("", "there is no event ``"),
        ("end:", "a target is a name"),
        ("end:a b", "a target is a name"),
        ("end:" + ",".join("a" * 11), "there may be ten"),
    ],
)
def test_what_is_no_rule_is_refused_with_the_reason(rule: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=re.escape(sentence)):
        parse(rule)


def test_an_address_is_refused_and_not_repeated_because_it_may_hold_a_password() -> None:
    with pytest.raises(BadInput, match="takes the name of a target and no address") as refused:
        parse("end:slack://SECRET/B/C")
    assert "SECRET" not in refused.value.message + refused.value.fix


_NAMES = st.from_regex(f"^{TARGET}$", fullmatch=True)


@given(st.lists(st.sampled_from([*EVENTS, "all"]), min_size=1, max_size=10), st.lists(_NAMES, max_size=10))
def test_the_api_takes_what_the_command_sends(events: list[str], targets: list[str]) -> None:
    rule = ",".join(events) + (":" + ",".join(targets) if targets else "")
    assert parse(rule)[1] == tuple(targets)
    assert re.search(PATTERN, rule)


@given(st.text(alphabet="endfailbg:,/-_ 1é\n", max_size=30))
def test_the_command_takes_nothing_that_the_api_refuses(rule: str) -> None:
    try:
        parse(rule)
    except BadInput:
        return
    assert re.search(PATTERN, rule)
