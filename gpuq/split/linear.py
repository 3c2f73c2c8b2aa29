"""Whole-number linear forms over bounded symbols, and whether two of them can meet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

_SEARCH_STEPS = 20_000
"""More steps of the search for a common element are not worth it: the answer is then that one may exist."""

Bounds = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """A whole number that is not known, between two bounds. Two symbols are the same only if they are one object.

    `exact`: it takes every value between its bounds, as a global id does; other symbols may take only some of them.
    """

    name: str
    low: int
    high: int
    exact: bool = False


@dataclass(frozen=True, slots=True)
class LinearForm:
    """constant + sum of coefficient * symbol. No coefficient is 0."""

    constant: int = 0
    terms: Mapping[Symbol, int] = field(default_factory=dict)

    @staticmethod
    def of(symbol: Symbol) -> LinearForm:
        """The symbol itself."""
        return LinearForm(0, {symbol: 1})

    def __add__(self, other: LinearForm) -> LinearForm:
        terms = dict(self.terms)
        for symbol, factor in other.terms.items():
            terms[symbol] = terms.get(symbol, 0) + factor
        return LinearForm(
            self.constant + other.constant, {symbol: factor for symbol, factor in terms.items() if factor}
        )

    def __sub__(self, other: LinearForm) -> LinearForm:
        return self + other * -1

    def __mul__(self, factor: int) -> LinearForm:
        if factor == 0:
            return LinearForm()
        return LinearForm(self.constant * factor, {symbol: one * factor for symbol, one in self.terms.items()})

    def divided(self, by: int) -> LinearForm | None:
        """The form divided by a number, or None if that leaves a rest anywhere."""
        if self.constant % by or any(factor % by for factor in self.terms.values()):
            return None
        return LinearForm(self.constant // by, {symbol: factor // by for symbol, factor in self.terms.items()})

    def bounds(self, known: Facts | None = None) -> Bounds:
        """The least and the greatest value, given the facts."""
        low = high = self.constant
        for symbol, factor in self.terms.items():
            least, most = known.of(symbol) if known else (symbol.low, symbol.high)
            low += factor * (least if factor > 0 else most)
            high += factor * (most if factor > 0 else least)
        if known and len(self.terms) > 1:
            low = max(low, known.least(self))
            high = min(high, -known.least(self * -1))
        return low, high


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known where an instruction runs: each form of `positive` is at least 0, and symbols have closer bounds."""

    positive: tuple[LinearForm, ...] = ()
    closer: Mapping[Symbol, Bounds] = field(default_factory=dict)

    def of(self, symbol: Symbol) -> Bounds:
        """The bounds of a symbol. A place that is never reached has none, so bounds never cross."""
        return self.closer.get(symbol, (symbol.low, symbol.high))

    def adding(self, form: LinearForm) -> Facts:
        """The facts with `form >= 0` added. A form of one symbol becomes bounds of it."""
        if len(form.terms) != 1:
            return Facts((*self.positive, form), self.closer) if form.terms else self
        ((symbol, factor),) = form.terms.items()
        low, high = self.of(symbol)
        if factor > 0:
            low = max(low, -(form.constant // factor))
        else:
            high = min(high, form.constant // -factor)
        return Facts(self.positive, {**self.closer, symbol: (low, high)}) if low <= high else self

    def least(self, form: LinearForm) -> int:
        """A lower bound of a form by those facts that have it, or a multiple of it, on their left side."""
        best = -(1 << 200)
        for fact in self.positive:
            if fact.terms.keys() != form.terms.keys():
                continue
            symbol = next(iter(form.terms))
            factor, rest = divmod(form.terms[symbol], fact.terms[symbol])
            if rest == 0 and factor > 0 and all(fact.terms[one] * factor == form.terms[one] for one in form.terms):
                best = max(best, form.constant - fact.constant * factor)
        return best


def can_meet(terms: Iterable[tuple[int, int, int]], low: int, high: int) -> bool:
    """Whether a sum of factor * variable can lie in [low, high], for whole variables within their own bounds.

    `terms`: (factor, least, most). Each variable is free of the others. True also where the search is given up.
    """
    lengths: dict[int, int] = {}
    for factor, least, most in terms:
        if most < least:
            return False
        start = factor * (least if factor > 0 else most)
        low, high = low - start, high - start
        if factor:
            lengths[abs(factor)] = lengths.get(abs(factor), 0) + most - least
    # Now a sum of factor * u with u from 0 to its length, in [low, high]. The largest factor first leaves few choices.
    factors = sorted(lengths, reverse=True)
    rest = [sum(factor * lengths[factor] for factor in factors[index:]) for index in range(len(factors) + 1)]
    steps = count()

    def search(index: int, low: int, high: int) -> bool:
        if high < 0 or low > rest[index]:
            return False
        if low <= 0:
            return True  # all the rest may be 0
        if next(steps) > _SEARCH_STEPS:
            return True
        if index == len(factors):
            return False
        factor = factors[index]
        first = max(0, -(-(low - rest[index + 1]) // factor))
        last = min(lengths[factor], high // factor)
        return any(search(index + 1, low - factor * u, high - factor * u) for u in range(first, last + 1))

    return search(0, low, high)
