"""What operations of LLVM give: as linear forms where these hold, as bounds where they do not, else as anything of the type."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpuq.split.linear import Facts, LinearForm, Symbol
from gpuq.split.loops import fits, signed
from gpuq.split.values import Condition, Origin, Pointer, Value, Whole


@dataclass(slots=True)
class Quotients:
    """One symbol for the same quotient wherever it is taken, so that q * n + rest is the number again."""

    taken: dict[tuple[frozenset[tuple[Symbol, int]], int, int], Symbol] = field(default_factory=dict)

    def of(self, form: LinearForm, by: int, low: int, high: int) -> LinearForm:
        """`form` // `by`; `low` and `high`: the bounds of `form` where it is taken."""
        always_low, always_high = form.bounds()
        if always_low < 0:
            return LinearForm.of(Symbol("quotient", low // by, high // by))
        key = (frozenset(form.terms.items()), form.constant, by)
        if key not in self.taken:
            self.taken[key] = Symbol("quotient", always_low // by, always_high // by)
        return LinearForm.of(self.taken[key])


def unknown(kind: str, low: int | None = None, high: int | None = None) -> Value:
    """Anything of this type between the bounds, if these are the type's: a value beyond its ends is another one."""
    if re.fullmatch(r"i\d+", kind):
        bits = int(kind[1:])
        least, most = signed(bits)
        if low is not None and high is not None and least <= low <= high <= most:
            least, most = low, high
        return Whole(bits, LinearForm(least) if least == most else LinearForm.of(Symbol("unknown", least, most)))
    return Pointer(Origin.UNKNOWN, None) if kind == "ptr" else None


def fitted(bits: int, form: LinearForm, facts: Facts) -> Whole:
    """The form as a number of so many bits, or an unknown one if it may not fit."""
    if not fits(form, signed(bits), facts):
        value = unknown(f"i{bits}")
        assert isinstance(value, Whole)
        return value
    return Whole(bits, form)


def merged(kind: str, values: list[Value], facts: list[Facts] | None = None) -> Value:
    """One of the values; `facts`: what is known where each is taken."""
    wholes = [one for one in values if isinstance(one, Whole)]
    if len(wholes) == len(values) and wholes:
        if all(
            not (one.form - wholes[0].form).terms and one.form.constant == wholes[0].form.constant for one in wholes
        ):
            return wholes[0]
        bounds = [one.form.bounds(known) for one, known in zip(wholes, facts or [Facts()] * len(wholes), strict=True)]
        return unknown(kind, min(low for low, _ in bounds), max(high for _, high in bounds))
    pointers = [one for one in values if isinstance(one, Pointer)]
    if len(pointers) == len(values) and pointers and len({one.base for one in pointers}) == 1:
        return Pointer(pointers[0].base, None)
    return unknown(kind)


def arithmetic(opcode: str, kind: str, left: Value, right: Value, facts: Facts, quotients: Quotients) -> Value:
    """The result of an operation on two values of the type `kind`."""
    if isinstance(left, Condition) or isinstance(right, Condition):
        return joined(opcode, left, right)
    if not (isinstance(left, Whole) and isinstance(right, Whole)):
        return unknown(kind)
    form = _combined(opcode, left.form, right.form, facts, quotients)
    if isinstance(form, tuple):
        return unknown(kind, *form)
    return unknown(kind) if form is None else fitted(int(kind[1:]), form, facts)


def _combined(  # noqa: C901, PLR0912  the table of operations
    opcode: str, left: LinearForm, right: LinearForm, facts: Facts, quotients: Quotients
) -> LinearForm | tuple[int, int] | None:
    """The form of an operation's result, its bounds where it is not linear, or None where nothing is known of it."""
    low, high = left.bounds(facts)
    if opcode == "xor" and not right.terms and right.constant == -1:
        return LinearForm(-1) - left
    if opcode in ("add", "sub"):
        return left + right if opcode == "add" else left - right
    if opcode == "or" and (_fills_gap(left, right, facts) or _fills_gap(right, left, facts)):
        return left + right
    if opcode in ("mul", "and") and not left.terms:
        left, right, (low, high) = right, left, right.bounds(facts)
    if right.terms:
        if opcode == "mul" and low >= 0 and right.bounds(facts)[0] >= 0:
            return 0, high * right.bounds(facts)[1]
        if opcode in ("urem", "srem", "udiv", "sdiv") and low >= 0 and right.bounds(facts)[0] >= 1:
            return 0, high
        return None
    number = right.constant
    if opcode == "mul":
        return left * number
    if opcode == "shl":
        return left * (1 << number) if 0 <= number < 64 else None
    if opcode == "and":
        if number >= 0:
            gap = number & -number
            if low >= 0 and high < number + gap and number & (number + gap) == 0 and (gap == 1 or left.divided(gap)):
                return left  # nothing is cleared
            return 0, min(number, high) if low >= 0 else number
        if low >= 0 and -number & (-number - 1) == 0:  # clears low bits
            quotient = quotients.of(left, -number, low, high)
            return quotient * -number
        return None
    if opcode in ("lshr", "udiv", "ashr", "sdiv", "urem", "srem"):
        by = 1 << number if opcode in ("lshr", "ashr") and 0 <= number < 64 else number
        if by <= 0:
            return None
        exact = left.divided(by)
        if exact is not None and (low >= 0 or opcode in ("ashr", "sdiv")):
            return LinearForm() if opcode in ("urem", "srem") else exact
        if low < 0:
            return (low // by, high // by) if opcode == "ashr" else (-by + 1, by - 1) if opcode == "srem" else None
        if opcode in ("urem", "srem"):
            return (
                left
                if high < by
                else left - quotients.of(left, by, low, high) * by
                if left.terms
                else LinearForm(left.constant % by)
            )
        return quotients.of(left, by, low, high)
    return None


def compared(predicate: str, left: Value, right: Value, facts: Facts) -> Condition:
    """What a comparison of two whole numbers says."""
    if not (isinstance(left, Whole) and isinstance(right, Whole)):
        return Condition((), ())
    a, b = left.form, right.form
    one = LinearForm(1)
    if predicate[0] == "u" and (a.bounds(facts)[0] < 0 or b.bounds(facts)[0] < 0):
        # x < n as unsigned numbers, with n >= 0, also says that x >= 0.
        if predicate == "ult" and b.bounds(facts)[0] >= 0:
            return Condition((b - a - one, a), ())
        return Condition((), ())
    match predicate:
        case "slt" | "ult":
            return Condition((b - a - one,), (a - b,))
        case "sle" | "ule":
            return Condition((b - a,), (a - b - one,))
        case "sgt" | "ugt":
            return Condition((a - b - one,), (b - a,))
        case "sge" | "uge":
            return Condition((a - b,), (b - a - one,))
        case "eq":
            return Condition((a - b, b - a), ())
    return Condition((), (a - b, b - a))


def joined(opcode: str, left: Value, right: Value) -> Condition:
    """`and`, `or` and `xor` of truth values."""
    a = left if isinstance(left, Condition) else Condition((), ())
    b = right if isinstance(right, Condition) else Condition((), ())
    if opcode == "and":
        return Condition((*a.true, *b.true), ())
    if opcode == "or":
        return Condition((), (*a.false, *b.false))
    if opcode == "xor" and isinstance(right, Whole) and right.form.constant in (1, -1) and not right.form.terms:
        return Condition(a.false, a.true)
    return Condition((), ())


def ranged(name: str, kind: str, values: list[Value], facts: Facts) -> Value:
    """The bounds of `min`, `max` and `abs` of whole numbers; otherwise anything."""
    plain = re.match(r"llvm\.(?:([su])(min|max)|abs)\.i\d+$", name)
    whole = [one.form.bounds(facts) for one in values if isinstance(one, Whole)]
    if not plain or len(whole) != 2 or not re.fullmatch(r"i\d+", kind):
        return unknown(kind)
    (low, high), (other_low, other_high) = whole
    if plain[2] is None:
        return unknown(kind, 0 if low <= 0 <= high else min(abs(low), abs(high)), max(-low, high))
    if plain[1] == "u" and (low < 0 or other_low < 0):
        return unknown(kind)
    best = min if plain[2] == "min" else max
    return unknown(kind, best(low, other_low), best(high, other_high))


def _fills_gap(upper: LinearForm, lower: LinearForm, facts: Facts) -> bool:
    """Whether `upper` has zero bits wherever `lower` may have ones, so that `or` adds them."""
    low, high = lower.bounds(facts)
    return low >= 0 and upper.divided(1 << high.bit_length()) is not None
