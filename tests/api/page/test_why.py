"""The list of rules of a waiting job."""

from __future__ import annotations

from gpuq.api.contract.schema_jobs import VerdictView
from gpuq.api.page.why import (
    OF_A_SHARED_DEVICE,
    OF_AN_IDLE_DEVICE,
    OF_ANY_DEVICE,
    OF_THE_JOB,
    OF_THE_POLICY,
    OF_THE_TIME,
    QUESTIONS,
    why,
)
from gpuq.core.state.verdict import Rule

YES = {Rule.IDLE, Rule.FITS, Rule.KNOWN_PAIR, Rule.TRIAL, Rule.PAUSE}


def answers(rule: str) -> dict[str, str]:
    verdict = VerdictView(admitted=False, rule=rule, numbers={"sum_pct": 131.0}, device=None)
    return {step.rule: step.answer for step in why(verdict, [], {}, {}, 0.0).steps}


def test_every_rule_that_can_say_no_has_a_question_and_a_place() -> None:
    placed = {*OF_THE_JOB, *OF_ANY_DEVICE, *OF_AN_IDLE_DEVICE, *OF_A_SHARED_DEVICE, *OF_THE_TIME, *OF_THE_POLICY}
    assert placed == set(Rule) - YES == set(QUESTIONS)


def test_the_rules_before_the_deciding_one_say_yes_and_those_after_it_are_not_asked() -> None:
    for rule in set(Rule) - YES:
        found = answers(rule)
        assert list(found.values()).count("no") == 1
        assert found[rule] == "no"
        decided = list(found).index(rule)
        assert set(list(found.values())[:decided]) <= {"yes"}
        assert set(list(found.values())[decided + 1 :]) <= {"not asked"}


def test_a_rule_of_a_later_version_stands_alone() -> None:
    assert answers("Tides") == {"Tides": "no"}
