"""Exact arithmetic on mixed-radix indices.

An index of a tile is a sum of *digits*: hardware coordinates (part of the thread number, an unrolled loop variable) each times
a weight. A :class:`Form` is such a sum with an offset. Sums, multiples, quotients and remainders by constants of forms are forms
again wherever the digits line up with the constant; where they do not, :class:`NotMixedRadix` says so. Layout inference and
register addressing are both this arithmetic, so neither needs a theorem prover.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


class NotMixedRadix(Exception):
    """An index that is not a sum of digits."""


@dataclass(frozen=True, slots=True)
class Digit:
    """A hardware coordinate in ``range(extent)``.

    Attributes:
        name: unique within one nest.
        extent: how many values it takes.
        coord: which coordinate it is a part of, ``"thread"`` or ``"register"``.
        stride: what one step of it adds to the thread number (unused for registers).
    """

    name: str
    extent: int
    coord: str
    stride: int = 0


@dataclass(frozen=True, slots=True)
class Term:
    """``weight * ((digit // low) % extent)``."""

    digit: Digit
    weight: int
    low: int
    extent: int

    def split(self, extent: int) -> tuple[Term, Term]:
        """The term as a sum of two, the first of which takes ``extent`` values."""
        return (
            Term(self.digit, self.weight, self.low, extent),
            Term(self.digit, self.weight * extent, self.low * extent, self.extent // extent),
        )

    def overlaps(self, other: Term) -> bool:
        """Whether both take a common part of one digit."""
        low, high = max(self.low, other.low), min(self.low * self.extent, other.low * other.extent)
        return self.digit == other.digit and low < high

    @property
    def largest(self) -> int:
        """The largest value."""
        return self.weight * (self.extent - 1)


@dataclass(frozen=True, slots=True)
class Form:
    """A sum of terms with non-negative weights, plus ``offset`` (an int, or a symbolic expression)."""

    terms: tuple[Term, ...] = ()
    offset: Any = 0

    @staticmethod
    def of_digit(digit: Digit, weight: int = 1) -> Form:
        """``weight * digit``."""
        return Form((Term(digit, weight, 1, digit.extent),)) if digit.extent > 1 else Form()

    def __add__(self, other: Form) -> Form:
        terms = _merged([*self.terms, *other.terms])
        return Form(terms, self.offset + other.offset)

    def __sub__(self, other: Form) -> Form:
        # Digits have weights above zero only: i - j of two of them has no form.
        if other.terms:
            raise NotMixedRadix
        return self.shifted(-other.offset)

    def shifted(self, amount: Any) -> Form:
        """The form plus a constant or an expression without digits."""
        return Form(self.terms, self.offset + amount)

    def scaled(self, factor: int) -> Form:
        """``self * factor``."""
        if factor == 0:
            return Form()
        if factor < 0:
            raise NotMixedRadix
        terms = tuple(Term(t.digit, t.weight * factor, t.low, t.extent) for t in self.terms)
        return Form(terms, self.offset * factor)

    def divmod(self, divisor: int) -> tuple[Form, Form]:
        """Quotient and remainder by a positive constant.

        Raises:
            NotMixedRadix: a digit straddles the divisor, or the remainder parts may carry.
        """
        if divisor <= 0 or not isinstance(self.offset, int):
            raise NotMixedRadix
        # Numbers below the divisor are their own remainder, whether or not the divisor is a multiple of their weights.
        if 0 <= self.offset <= divisor - 1 - sum(term.largest for term in self.terms):
            return Form(), self
        high: list[Term] = []
        low: list[Term] = []
        for term in self.terms:
            if term.weight % divisor == 0:
                high.append(Term(term.digit, term.weight // divisor, term.low, term.extent))
            # Multiples of the weight fall on both sides of multiples of the divisor, so that no part of the digit is
            # the quotient.
            elif divisor % term.weight:
                raise NotMixedRadix
            elif term.weight * term.extent <= divisor:
                low.append(term)
            # The digit straddles the divisor and is not a whole number of digits of that size.
            elif term.extent % (divisor // term.weight):
                raise NotMixedRadix
            else:
                # A thread number t in range(32) divided by 8 is the term (t // 8) % 4, and the remainder the term (t // 1) % 8.
                below, above = term.split(divisor // term.weight)
                low.append(below)
                high.append(Term(above.digit, above.weight // divisor, above.low, above.extent))
        quotient, remainder = divmod(self.offset, divisor)
        # With all digits at their largest the remainder would carry into the quotient.
        if sum(term.largest for term in low) + remainder >= divisor:
            raise NotMixedRadix
        return Form(tuple(high), quotient), Form(tuple(low), remainder)

    def between(self, weight: int, extent: int) -> Form:
        """``(self // weight) % extent``."""
        return self.divmod(weight)[0].divmod(extent)[1]

    def radix(self) -> list[Term]:
        """The terms by ascending weight, if they are the digits of one mixed-radix number starting at weight 1.

        Raises:
            NotMixedRadix: two terms overlap, or a weight is missing.
        """
        # i * 16 + j with j in range(16) qualifies: weights 1 and 16. With j in range(8) the weight 8 is missing, and there are
        # numbers that no pair (i, j) gives; with j in range(32) two pairs give one number.
        expected, ordered = 1, sorted(self.terms, key=lambda term: term.weight)
        for term in ordered:
            if term.weight != expected:
                raise NotMixedRadix
            expected *= term.extent
        return ordered

    def __iter__(self) -> Iterator[Term]:
        return iter(self.terms)


def _merged(terms: list[Term]) -> tuple[Term, ...]:
    """Terms over the same part of the same digit, added up."""
    found: dict[tuple[Digit, int, int], Term] = {}
    for term in terms:
        # Only equal parts are added up: (t // 1) % 8 and (t // 1) % 16 stay two terms, which `overlaps` finds.
        key = (term.digit, term.low, term.extent)
        old = found.get(key)
        found[key] = term if old is None else Term(term.digit, old.weight + term.weight, term.low, term.extent)
    return tuple(found.values())


def largest_divisor(number: int, limit: int) -> int:
    """The largest divisor of a number up to a limit."""
    return next(divisor for divisor in range(min(limit, number), 0, -1) if number % divisor == 0)


def is_power_of_two(number: int) -> bool:
    """Whether a positive number is a power of two."""
    return not number & (number - 1)
