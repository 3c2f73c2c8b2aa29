from dataclasses import replace

import pytest

from gpuq.split import llvm_text
from gpuq.split.verdict import Correctness, judge
from tests.split.corpus import CASES, plain_arguments, sizes
from tests.split.store_llvm import STORED


@pytest.fixture(scope="module")
def module():
    return llvm_text.read(STORED.read_text())


def verdict(module, case, **changed):
    case = replace(case, **changed)
    return judge([module], f"k_{case.name}", plain_arguments(case), sizes(case), case.range)


def named(name):
    return next(case for case in CASES if case.name == name)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_kernel_of_the_corpus_gets_its_verdict(module, case):
    assert verdict(module, case).answer == case.verdict


def test_no_kernel_that_is_not_safe_is_proven(module):
    assert [case.name for case in CASES if not case.safe and verdict(module, case).answer is Correctness.PROVEN] == []


def test_the_corpus_is_as_large_and_as_mixed_as_promised():
    kinds = [case.kind for case in CASES]
    assert len(CASES) >= 40
    assert sum(case.trap for case in CASES) >= 12
    assert kinds.count("own") / len(kinds) <= 0.26
    assert kinds.count("unknown") / len(kinds) >= 0.33


def test_most_safe_kernels_are_split(module):
    safe = [case for case in CASES if case.safe]
    split = [case for case in safe if verdict(module, case).answer is not Correctness.REFUSED]
    proven = [case for case in safe if verdict(module, case).answer is Correctness.PROVEN]
    assert len(split) >= 0.7 * len(safe)
    assert len(proven) >= 0.7 * len(safe)


def test_the_verdict_depends_on_the_scalars_of_the_launch(module):
    strided = named("strided")
    assert verdict(module, strided).answer is Correctness.PROVEN
    at_zero = verdict(module, strided, arguments=(*strided.arguments[:2], strided.arguments[2] * 0))
    assert (at_zero.answer, at_zero.reason) == (
        Correctness.REFUSED,
        "different groups store to the same elements of `b`",
    )


def test_a_buffer_that_is_too_small_is_not_proven(module):
    copy = named("copy")
    b = copy.arguments[1]
    small = verdict(module, copy, arguments=(copy.arguments[0], (b[0], b[1], b[2] - 1, b[3])))
    assert small.answer is Correctness.CHECK
    assert "within its bounds" in small.reason


def test_one_buffer_passed_twice_is_one_buffer(module):
    apart = named("aliased").arguments
    two = verdict(module, named("aliased"), arguments=(apart[0], ("b", *apart[0][1:]), apart[2]))
    assert two.answer is Correctness.PROVEN
    assert verdict(module, named("aliased")).answer is Correctness.REFUSED


def test_one_group_cannot_be_cut(module):
    assert "one work-group" in verdict(module, named("copy"), size=(64,), local=(64,)).reason
