"""What is said of a result holds for the bits that the operation gives."""

import operator
from collections.abc import Iterator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpuq.split.linear import Facts, LinearForm, Symbol
from gpuq.split.results import Quotients, arithmetic, compared, fitted, joined, merged, ranged, unknown
from gpuq.split.values import Condition, Origin, Pointer, Whole

BITS = st.sampled_from([8, 16, 32])
NUMBERS = st.one_of(st.integers(-9, 70), st.sampled_from([-128, 127, 255, 256, 1 << 15, (1 << 31) - 1, -(1 << 31)]))
OPCODES = ["add", "sub", "mul", "shl", "and", "or", "xor", "lshr", "ashr", "udiv", "sdiv", "urem", "srem"]
PREDICATES = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}


def as_signed(value: int, bits: int) -> int:
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def computed(opcode: str, a: int, b: int, bits: int) -> int | None:
    """The signed value of what a machine computes from two signed numbers, or None where LLVM defines none."""
    unsigned_a, unsigned_b = a % (1 << bits), b % (1 << bits)
    if opcode in ("shl", "lshr", "ashr") and not 0 <= b < bits:
        return None
    if opcode[1:] in ("div", "rem") and (b == 0 or (b == -1 and a == -(1 << bits - 1))):
        return None
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0
    results = {
        "add": lambda: a + b,
        "sub": lambda: a - b,
        "mul": lambda: a * b,
        "shl": lambda: a << b,
        "and": lambda: a & b,
        "or": lambda: a | b,
        "xor": lambda: a ^ b,
        "lshr": lambda: unsigned_a >> b,
        "ashr": lambda: a >> b,
        "udiv": lambda: unsigned_a // unsigned_b,
        "sdiv": lambda: quotient,
        "urem": lambda: unsigned_a % unsigned_b,
        "srem": lambda: a - quotient * b,
    }
    return as_signed(results[opcode](), bits)


class Drawn:
    """Numbers of one type that are known to be between bounds, each with the value that it has."""

    def __init__(self, data: st.DataObject, bits: int) -> None:
        self.data, self.bits = data, bits
        self.values: dict[Symbol, int] = {}

    def number(self) -> tuple[Whole, int]:
        ends = sorted(as_signed(self.data.draw(NUMBERS), self.bits) for _ in range(3))
        low, value, high = ends
        if self.data.draw(st.booleans()):
            return Whole(self.bits, LinearForm(value)), value
        symbol = Symbol("x", low, high)
        self.values[symbol] = value
        factor, constant = self.data.draw(st.integers(1, 5)), self.data.draw(st.integers(-3, 9))
        form = LinearForm.of(symbol) * factor + LinearForm(constant)
        assume(all(as_signed(end, self.bits) == end for end in form.bounds()))
        return Whole(self.bits, form), value * factor + constant

    def at(self, form: LinearForm) -> tuple[int, int]:
        """The bounds of a form once each number has its value."""
        return form.bounds(Facts((), {symbol: (value, value) for symbol, value in self.values.items()}))


ENDS = [(-8, 7), (-8, -3), (-5, 4), (-1, 0), (0, 0), (0, 3), (0, 7), (1, 6), (2, 5), (3, 7), (4, 7), (5, 5)]


def forms_of_four_bits() -> Iterator[tuple[LinearForm, Symbol]]:
    for low, high in ENDS:
        x = Symbol("x", low, high)
        for factor, constant in ((1, 0), (2, 0), (2, 1), (3, -2), (4, 0), (1, -1)):
            form = LinearForm.of(x) * factor + LinearForm(constant)
            if form.bounds()[0] >= -8 and form.bounds()[1] <= 7:
                yield form, x


@pytest.mark.parametrize("opcode", OPCODES)
def test_a_result_of_four_bits_is_what_is_said_of_it_for_every_number(opcode):
    numbers = list(forms_of_four_bits())
    constants = [(LinearForm(value), Symbol("unused", 0, 0)) for value in range(-8, 8)]
    pairs = [(left, right) for left in numbers for right in constants + numbers[::4]]
    for (left, x), (right, y) in pairs + [(right, left) for left, right in pairs]:
        quotients = Quotients()
        found = arithmetic(opcode, "i4", Whole(4, left), Whole(4, right), Facts(), quotients)
        for values in ({x: a, y: b} for a in range(x.low, x.high + 1) for b in range(y.low, y.high + 1)):
            known = Facts((), {symbol: (value, value) for symbol, value in values.items()})
            (a, _), (b, _) = left.bounds(known), right.bounds(known)
            truth = computed(opcode, a, b, 4)
            low, high = found.form.bounds(with_quotients(known, quotients))
            assert truth is None or low <= truth <= high, (left, right, values)


def with_quotients(known: Facts, quotients: Quotients) -> Facts:
    """The facts, with the value of each quotient of numbers that are known."""
    taken = {
        symbol: LinearForm(constant, dict(terms)).bounds(known)[0] // by
        for (terms, constant, by), symbol in quotients.taken.items()
    }
    return Facts((), {**known.closer, **{symbol: (value, value) for symbol, value in taken.items()}})


@given(st.data(), st.sampled_from(["eq", "ne", *(sign + name for sign in "su" for name in ("lt", "le", "gt", "ge"))]))
def test_what_a_comparison_says_holds_where_it_is_true_and_where_it_is_false(data, predicate):
    drawn = Drawn(data, data.draw(BITS))
    (left, a), (right, b) = drawn.number(), drawn.number()
    if predicate[0] == "u":
        a, b = (value % (1 << drawn.bits) for value in (a, b))
    is_true = PREDICATES[predicate if predicate in PREDICATES else predicate[1:]](a, b)
    says = compared(predicate, left, right, Facts())
    assert all(drawn.at(form)[0] >= 0 for form in (says.true if is_true else says.false))


@given(st.data())
def test_conditions_are_joined_as_their_truth_is(data):
    x, a, b = (data.draw(st.integers(0, 9)) for _ in range(3))
    number = Whole(32, LinearForm.of(symbol := Symbol("x", 0, 9)))
    one, other = (compared("slt", number, Whole(32, LinearForm(end)), Facts()) for end in (a, b))
    for opcode, is_true in (("and", x < a and x < b), ("or", x < a or x < b)):
        says = joined(opcode, one, other)
        forms = says.true if is_true else says.false
        assert all(form.bounds(Facts((), {symbol: (x, x)}))[0] >= 0 for form in forms)
    negated = joined("xor", one, Whole(1, LinearForm(-1)))
    assert (negated.true, negated.false) == (one.false, one.true)
    assert joined("and", None, one) == Condition(one.true, ())


@given(st.data(), st.sampled_from(["smin", "smax", "umin", "umax", "abs"]))
def test_the_least_the_greatest_and_the_absolute_value_are_within_the_bounds(data, name):
    bits = data.draw(BITS)
    drawn = Drawn(data, bits)
    (left, a), (right, b) = drawn.number(), drawn.number()
    assume(name != "abs" or a != -(1 << bits - 1))
    values = [left, unknown("i1")] if name == "abs" else [left, right]
    found = ranged(f"llvm.{name}.i{bits}", f"i{bits}", values, Facts())
    best = min if name.endswith("min") else max
    key = (lambda value: value % (1 << bits)) if name[0] == "u" else None
    truth = abs(a) if name == "abs" else best(a, b, key=key)
    low, high = found.form.bounds()
    assert low <= truth <= high


@given(st.data())
def test_one_of_several_numbers_is_within_the_bounds_of_all(data):
    drawn = Drawn(data, 16)
    numbers = [drawn.number() for _ in range(3)]
    found = merged("i16", [number for number, _ in numbers])
    for _, value in numbers if found not in [number for number, _ in numbers] else ():
        low, high = found.form.bounds()
        assert low <= value <= high


def test_one_of_several_pointers_is_in_their_buffer_or_anywhere():
    a, b = Pointer("a", LinearForm(4)), Pointer("b", LinearForm(4))
    assert merged("ptr", [a, Pointer("a", LinearForm(8))]) == Pointer("a", None)
    assert merged("ptr", [a, b]) == Pointer(Origin.UNKNOWN, None)


def test_a_number_that_may_not_fit_its_type_is_unknown():
    form = LinearForm.of(Symbol("x", 0, 200))
    assert fitted(16, form, Facts()).form == form
    assert fitted(8, form, Facts()).form.bounds() == (-128, 127)


def test_bounds_beyond_those_of_the_type_say_nothing():
    assert unknown("i8", 0, 300).form.bounds() == (-128, 127)
    assert unknown("i8", 3, 3).form == LinearForm(3)
    assert unknown("float") is None
