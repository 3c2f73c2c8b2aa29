from gpuq.split import llvm_text


def test_sizes_follow_the_rules_of_x86_64():
    module = llvm_text.Module({}, {"%struct.P": "{ i8, double, [3 x i16] }"}, {})
    assert module.size_of("<3 x float>") == (16, 16)
    assert module.size_of("%struct.P") == (24, 8)
    assert module.size_of("[5 x %struct.P]") == (120, 8)
    assert module.size_of('target("opencl.image")') is None


def test_a_list_is_split_outside_of_brackets():
    assert llvm_text.split_list("<2 x i32> <i32 1, i32 2>, { i32, i8 } %x, i32 7") == [
        "<2 x i32> <i32 1, i32 2>",
        "{ i32, i8 } %x",
        "i32 7",
    ]


def test_an_operand_has_a_type_and_a_value():
    assert llvm_text.typed("ptr noundef writeonly captures(none) %b") == ("ptr", "%b")
    assert llvm_text.typed("i32 noundef 5") == ("i32", "5")
    assert llvm_text.typed("<4 x float> %v") == ("<4 x float>", "%v")
    assert llvm_text.typed("ptr getelementptr inbounds (i8, ptr @t, i64 4)")[0] == "ptr"


def test_a_switch_over_several_lines_has_all_its_successors():
    text = "define void @f(i32 %x) {\n"
    text += "  switch i32 %x, label %a [\n    i32 1, label %b\n  ]\n\na:\n  ret void\n\nb:\n  ret void\n}\n"
    function = llvm_text.read(text).functions["f"]
    assert function.blocks["entry"].successors == ["a", "b"]
    assert list(function.blocks) == ["entry", "a", "b"]
