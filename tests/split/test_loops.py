"""Loops whose counted values pass the end of a type, or whose test compares with something that changes."""

import pytest

from gpuq.split.verdict import Correctness
from tests.split.test_access import verdict

LOOP = """  br label %loop

loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %end = phi i8 [ 3, %entry ], [ %loaded, %loop ]
  %until = zext i8 %end to i32
  %long = zext i32 %i to i64
  %start = mul i64 %id, 256
  %at = add i64 %start, %long
  %target = getelementptr i32, ptr %b, i64 %at
  store i32 1, ptr %target
  %next = add i32 %i, 1
  %from = getelementptr i8, ptr %q, i64 %long
  %loaded = load i8, ptr %from
  %more = icmp ne i32 %i, {until}
  br i1 %more, label %loop, label %done

done:
  ret void"""


def test_a_loop_ends_at_an_unequal_bound_only_if_the_bound_stays():
    given = {"parameters": "ptr %b, ptr %q", "arguments": ("b", "q"), "sizes": {"b": 64 * 1024, "q": 512}}
    assert verdict(LOOP.format(until="200"), **given).answer is Correctness.PROVEN
    assert verdict(LOOP.format(until="%until"), **given).answer is Correctness.CHECK


NARROWED = """  %here = icmp slt i64 %id, {n}
  br i1 %here, label %loop, label %done

loop:
  %wide = phi i64 [ %next, %loop ], [ %id, %entry ]
  %up = shl i64 %wide, {narrow}
  %x = ashr exact i64 %up, {narrow}
  %target = getelementptr i32, ptr %b, i64 %x
  %old = load i32, ptr %target
  store i32 %old, ptr %target
  %step = call i64 @_Z15get_global_sizej(i32 0)
  %next = add i64 %step, %x
  %more = icmp slt i64 %next, {n}
  br i1 %more, label %loop, label %done

done:
  ret void"""


def test_a_stride_in_a_narrow_type_is_followed_as_long_as_the_type_holds_it():
    room = {"b": 4 * 100}
    assert verdict(NARROWED.format(n=100, narrow=32), sizes=room).answer is Correctness.PROVEN
    assert verdict(NARROWED.format(n=101, narrow=32), sizes=room).answer is Correctness.CHECK  # beyond the buffer
    # 57 bits are shifted out: a number of 7 bits passes its end at 64, and begins again at -64.
    assert verdict(NARROWED.format(n=100, narrow=57), sizes=room).answer is not Correctness.PROVEN


PASSING = """  br label %loop

loop:
  %i = phi i32 [ {first}, %entry ], [ %next, %loop ]
  %ahead = add i32 %i, 200
  %byte = trunc i32 %ahead to i8
  %back = sext i8 %byte to i32
  %next = {next}
  %long = sext i32 %i to i64
  %start = mul i64 %id, 64
  %at = add i64 %start, %long
  %target = getelementptr i32, ptr %b, i64 %at
  store i32 1, ptr %target
  %more = icmp slt i32 %next, 60
  br i1 %more, label %loop, label %done

done:
  ret void"""


@pytest.mark.parametrize(
    ("first", "following", "proven"),
    [
        ("0", "add i32 %i, 1", True),
        ("0", "add i32 %back, -199", False),  # as a byte, 200 is -56
        ("-200", "add i32 %back, -199", False),  # begins within the byte, and leaves the buffer
        ("2147483647", "add i32 %i, 1", False),  # goes on at the least number, below the bound
    ],
)
def test_a_value_that_passes_the_end_of_a_type_between_rounds_is_not_followed(first, following, proven):
    found = verdict(PASSING.format(first=first, next=following), sizes={"b": 4 * 64 * 64})
    assert (found.answer is Correctness.PROVEN) is proven
