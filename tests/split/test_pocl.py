import numpy as np
import pytest

from gpuq.errors import BadInput, Failure
from gpuq.split import llvm_text, pocl
from gpuq.split.verdict import Correctness, judge
from tests.split.corpus import CASES
from tests.split.random_kernels import draw
from tests.split.store_llvm import STORED, program, shortened

pytest.importorskip("pyopencl", reason="the extra `split` is not installed: make test-split")
pytest.importorskip("llvmlite", reason="the extra `split` is not installed: make test-split")
pytestmark = pytest.mark.opencl


def judge_random(chance, count):
    kernels = [draw(chance, f"r{number}") for number in range(count)]
    module = llvm_text.read(pocl.llvm_text("\n".join(one.source for one in kernels)))
    verdicts = [
        judge([module], f"r{number}", list(one.arguments), one.sizes, one.range) for number, one in enumerate(kernels)
    ]
    return list(zip(kernels, verdicts, strict=True))


def test_the_stored_text_is_what_the_compiler_makes():
    made = llvm_text.read(shortened(pocl.llvm_text(program())))
    stored = llvm_text.read(STORED.read_text())
    for case in CASES:
        assert list(made.functions[f"k_{case.name}"].blocks) == list(stored.functions[f"k_{case.name}"].blocks)


def test_no_random_kernel_is_proven_that_counting_finds_unsafe():
    judged = judge_random(np.random.default_rng(17), 200)
    proven = [(kernel, verdict) for kernel, verdict in judged if verdict.answer is Correctness.PROVEN]
    assert len(proven) > 20
    assert [kernel.source for kernel, verdict in proven if not kernel.safe_along(verdict.dimension)] == []


@pytest.mark.soak
def test_no_kernel_of_ten_thousand_is_proven_that_counting_finds_unsafe():
    chance = np.random.default_rng()
    for _ in range(100):
        for kernel, verdict in judge_random(chance, 100):
            assert verdict.answer is not Correctness.PROVEN or kernel.safe_along(verdict.dimension), kernel.source


def test_a_kernel_that_does_not_compile_is_one_sentence():
    with pytest.raises(BadInput, match=r"does not compile: .*error: .*undeclared identifier") as caught:
        pocl.llvm_text("__kernel void k(__global int* b) { b[0] = x; }")
    assert "\n" not in caught.value.message
    assert caught.value.fix


def test_a_compiler_that_does_not_end_is_stopped():
    with pytest.raises(Failure, match="took more than"):
        pocl.llvm_text("__kernel void k() {}", limit_s=0.01)
