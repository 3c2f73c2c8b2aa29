"""The outcome of an attempt as the record gives it back, damaged rows among them."""

from __future__ import annotations

import msgspec
import pytest

from gpuq.core.measuring.slowdown import Basis, Slowdown
from gpuq.messages.outcome import AttemptOutcome, PairSlowdown, outcome_from_json


def test_outcome_survives_the_record() -> None:
    outcome = AttemptOutcome(
        slowdown=1.2,
        slowdown_basis=Basis.BLINK,
        slowdown_otherwise=(Slowdown(1.1, None, None, Basis.KIND),),
        slowdowns=(PairSlowdown(kind="a", value=1.2, basis=Basis.BLINK),),
    )
    assert outcome_from_json(msgspec.json.encode(outcome)) == outcome


def test_keys_of_a_newer_gpuq_are_passed_over() -> None:
    assert outcome_from_json('{"steps": 3, "of_tomorrow": 1}') == AttemptOutcome(steps=3)


def test_damaged_values_are_kept_beside_the_sound_ones() -> None:
    text = '{"steps": 3, "peak_memory_bytes": "many", "slowdowns": ["rubbish", {"kind": "a", "value": 1.5}]}'
    outcome = outcome_from_json(text)
    assert outcome is not None
    assert (outcome.steps, outcome.peak_memory_bytes) == (3, "many")
    assert outcome.slowdowns == (PairSlowdown(kind="a", value=1.5),)
    assert msgspec.to_builtins(outcome)["peak_memory_bytes"] == "many"


@pytest.mark.parametrize("text", ["[]", "3", "null"])
def test_json_that_is_no_object_is_no_outcome(text: str) -> None:
    assert outcome_from_json(text) is None


def test_text_that_is_not_json_raises() -> None:
    with pytest.raises(msgspec.DecodeError):
        outcome_from_json("{")
