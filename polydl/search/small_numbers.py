"""Replaces a program's large numbers by small ones while isl looks for a schedule, and puts them back afterwards.

A schedule has coefficients for iterators and shifts for statements; they come out of integer programs whose numbers are
products of the constants of the program. With extents of thousands these get hundreds of digits, and isl's schedulers
run for minutes on few operations. Which schedule is best does not depend on how large an extent is once it is large:
so every number above `KEPT` gives way to a small one, in the same order and at the same distance from its neighbours
(1999 and 2000 stay one apart), and numbers in the schedule that comes out are translated back. Nothing relies on it:
whether a schedule is legal is decided on the program itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from polydl.base.records import dataclass
from polydl.model import isl

KEPT = 8
"""Numbers up to this one stay as they are, and so do distances between two numbers."""

LEAST = 32
"""The least number that takes the place of a large one: far from what stays, and from its double."""

_Known = TypeVar("_Known", isl.Set, isl.Map)


@dataclass(frozen=True, slots=True)
class SmallNumbers:
    """A mapping from a program's large numbers to small ones."""

    new: Mapping[int, int]
    """By magnitude, from the program's to the small one; empty: all stay as they are."""

    @classmethod
    def of(cls, known: Iterable[isl.Set | isl.Map]) -> SmallNumbers:
        """For the numbers in the constraints of these sets and relations.

        None is replaced where a factor is large as well: the two belong together (64*tile + i < 1024), and replaced
        alone they would say something else.
        """
        found: set[int] = set()
        for one in known:
            numbers, factor = isl.numbers(one)
            if factor > KEPT:
                return cls({})
            found |= numbers
        return cls(_small(number for number in found if number > KEPT))

    def put(self, known: _Known) -> _Known:
        """The set or relation with small numbers; as it is when nothing would be left of it."""
        if not self.new:
            return known
        changed = isl.with_numbers(known, dict(self.new))
        return known if changed.is_empty() else changed

    def taken_back(self, aff: isl.Aff) -> isl.Aff:
        """An expression of the schedule with the program's numbers: what is near a small one, or near the sum or the
        difference of two."""
        shift = isl.to_int(aff.get_constant_val())
        return aff.set_constant_val(isl.value(self.original(shift)))

    def original(self, number: int) -> int:
        """The number that a small one stands for; itself when it stands for none, or for several."""
        if abs(number) <= LEAST // 2:
            return number
        sign, small = (1, number) if number > 0 else (-1, -number)
        ones = [(new, old) for old, new in self.new.items()]
        twos = [(a + s * b, c + s * d) for a, c in ones for b, d in ones for s in (1, -1) if a + s * b > LEAST // 2]
        for combinations in (ones, twos):
            near = {old + small - new for new, old in combinations if abs(small - new) <= KEPT}
            if near:
                return sign * near.pop() if len(near) == 1 else number
        return number


def _small(numbers: Iterable[int]) -> dict[int, int]:
    """Numbers with gaps of at most `KEPT` between them keep these; every group starts at four times where the one
    before ended, so that sums and differences of two do not meet others."""
    new: dict[int, int] = {}
    last = None
    for number in sorted(numbers):
        if last is None:
            new[number] = LEAST
        elif number - last <= KEPT:
            new[number] = new[last] + number - last
        else:
            new[number] = 4 * new[last]
        last = number
    return new
