"""The analysis of LLVM text, on programs that the compiler of the corpus would not make, or makes only of OpenCL 2.0."""

from gpuq.split import llvm_text
from gpuq.split.values import IndexSpace
from gpuq.split.verdict import Correctness, judge

ID = """
  %id = call i64 @_Z13get_global_idj(i32 0)
  %own = getelementptr i32, ptr %b, i64 %id
"""
RANGE = IndexSpace((0,), (64,), (4,))


def verdict(body, others="", parameters="ptr %b", arguments=("b",), sizes=None):
    text = f"{others}\ndefine spir_kernel void @k({parameters}) {{\nentry:{ID}{body}\n}}\n"
    return judge([llvm_text.read(text)], "k", list(arguments), sizes or {"b": 256}, RANGE)


def test_a_store_to_the_own_element_is_proven():
    assert verdict("  store i32 1, ptr %own\n  ret void").answer is Correctness.PROVEN


def test_a_linear_id_is_refused_in_a_function_that_the_kernel_calls_as_well():
    helper = "define i64 @lin(i32 %a) {\n  %l = call i64 @_Z20get_global_linear_idv()\n  ret i64 %l\n}\n"
    found = verdict("  %l = call i64 @lin(i32 1)\n  store i64 %l, ptr %own\n  ret void", helper)
    assert (found.answer, found.reason) == (
        Correctness.REFUSED,
        "it uses get_global_linear_id, which a part of a split launch would answer otherwise",
    )


def test_a_variable_that_all_groups_share_is_not_taken_for_local_memory():
    """OpenCL 2.0 has static variables in global memory; only those in local memory begin undefined."""
    body = "  %n = load i32, ptr @k.n\n  store i32 %n, ptr @k.n\n  store i32 %n, ptr %own\n  ret void"
    assert verdict(body, "@k.n = internal global i32 undef, align 4").answer is Correctness.PROVEN
    assert "origin is not known" in verdict(body, "@k.n = internal global i32 0, align 4").reason


def test_code_in_assembler_is_refused_whatever_name_it_contains():
    body = '  call void asm sideeffect "call @llvm.dbg.value(x)", ""()\n  store i32 1, ptr %own\n  ret void'
    assert verdict(body).answer is Correctness.REFUSED


def test_calls_without_an_end_are_refused():
    helper = "define i32 @again(i32 %a) {\n  %l = call i32 @again(i32 %a)\n  ret i32 %l\n}\n"
    assert "nested" in verdict("  %l = call i32 @again(i32 1)\n  store i32 %l, ptr %own\n  ret void", helper).reason
