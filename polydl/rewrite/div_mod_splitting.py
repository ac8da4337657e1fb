"""Loops whose quotients are subscripts, as a loop over quotients around one over remainders.

    for (h = 0; h < 32; h++) … Q[h][i] * K[h / 4][j] …

    for (l = 0; l < 784; l++) A[l] = 0;                     where A has rows of 28

Four heads of queries share one of keys (grouped heads); channels of a grouped convolution share those of the input.
Along `h` addresses are no fixed distance apart, and no microkernel reads them; along the two loops of `h = 4 * q + r`
they are. A loop that walks over rows as one line becomes one over rows, as others have that use the array.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.equations.equality import Instances
from polydl.equations.step import Rule, Step
from polydl.model import isl
from polydl.model.accumulation import accumulation
from polydl.model.isl import quota
from polydl.model.scop import Access, Assignment, Scop, Statement
from polydl.model.time import inside_of
from polydl.rewrite.moved import moved
from polydl.rewrite.new_statements import in_two, iterators_in_two

Loop = tuple[int, ...]
"""A loop by where it stands: all statements in it have these positions up to its depth."""


@dataclass(frozen=True, slots=True)
class DivModSplitting(Rule):
    """Loops become two, over quotients and over remainders.

    before:    for h = 0 … 31: S(h)
    after:     for q = 0 … 7: for r = 0 … 3: Sd(q, r)                                            h = 4 q + r
    requires:  the loop begins and ends at multiples of the number; the order stays as it is
    """

    loops: tuple[tuple[str, int], ...]
    """(iterator, number)."""
    places: tuple[tuple[str, int, int], ...]
    """(statement, depth of the loop, number)."""

    def instances(self, before: Scop) -> Instances:
        """See `Rule.instances`."""
        found: Instances = {
            f"{name}d": [(name, _place(before.statement(name), depth, number).reverse())]
            for name, depth, number in self.places
        }
        return found

    def __str__(self) -> str:
        names = ", ".join(f"{name} by {number}" for name, number in dict.fromkeys(self.loops))
        return f"{names}: a loop over quotients, which are subscripts, around one over remainders"


def digits(scop: Scop) -> Iterator[Step]:
    """Take loops apart whose quotients are subscripts of sums, or that walk over rows (`DivModSplitting`), and those
    that run through the same elements of arrays, so that nests can still share them. A step for each number. Raises
    QuotaExceeded."""
    while True:
        with quota(f"the quotients of {scop.function}"):
            found = _quotients(scop)
            if not found:
                return
            number = min(found.values())
            loops = _alike(scop, {loop for loop, by in found.items() if by == number})
            inside = [s.name for loop in loops for s in inside_of(scop, loop)]
            if len(inside) > len(set(inside)) or not all(_divides(scop, loop, number) for loop in loops):
                return
            step = _taken_apart(scop, loops, number)
        if step.broken() is not None:
            return
        yield step
        scop = step.after


def _quotients(scop: Scop) -> dict[Loop, int]:
    """By loop the number by which it is divided in subscripts of a sum, or of an array that it walks over."""
    found: dict[Loop, int] = {}
    for s in scop.statements:
        sums = accumulation(scop, s) is not None
        for access in s.accesses:
            if not access.exact or not access.relation.is_single_valued():
                continue
            walked = _walked(scop, s, access)
            if walked is not None:
                found[s.position[: walked[0] + 1]] = walked[1]
            if walked is not None or not sums:
                continue
            for function in isl.components(access.relation.as_pw_multi_aff()):
                for _, aff in isl.pieces(function):
                    for one in isl.divisors(aff):
                        if (known := isl.quotient(one)) is not None:
                            found[s.position[: known[0] + 1]] = known[1]
    return found


def _walked(scop: Scop, statement: Statement, access: Access) -> tuple[int, int] | None:
    """(depth, number) of a loop that walks over rows of an array from one element to the next, and the elements of the
    longest of its rows that the loop leaves; None: the loops are those of the rows."""
    array = scop.arrays[access.array]
    if not array.linear or None in array.shape[1:]:
        return None
    functions = isl.components(access.relation.as_pw_multi_aff())
    if not any(isl.divisors(aff) for function in functions for _, aff in isl.pieces(function)):
        return None
    address, rows = functions[0], [1]
    for function, extent in zip(functions[1:], array.shape[1:], strict=True):
        address = address.scale_val(isl.value(extent or 0)).add(function)
    for extent in reversed(array.shape[1:]):
        rows.append(rows[-1] * (extent or 0))
    pieces = isl.pieces(address.coalesce())
    factors = isl.coefficients(pieces[0][1]) if len(pieces) == 1 else None
    if factors is None or list(factors).count(1) != 1:
        return None
    last = isl.greatest(statement.domain, factors.index(1))
    left = [] if last is None else [number for number in rows if 1 < number <= last]
    return (factors.index(1), max(left)) if left else None


def _divides(scop: Scop, loop: Loop, number: int) -> bool:
    """Whether a loop begins and ends at multiples of a number, for all statements in it, and runs upwards."""
    for s in inside_of(scop, loop):
        name = s.iterators[len(loop) - 1]
        first, last = isl.least(s.domain, name), isl.greatest(s.domain, name)
        if first is None or last is None or first % number or (last + 1) % number or name in s.descending:
            return False
        if not isinstance(s.body, Assignment):
            return False
    return True


def _alike(scop: Scop, loops: Collection[Loop]) -> list[Loop]:
    """`loops` and every loop that runs through the same dimension of an array, transitively.

    With `for (h …) Q[h]` in `loops`, a loop `for (g …) Q[g]` of another nest joins, and then the loops that share a
    dimension of some array with that one: nests that are to be fused need loops of one form. Only subscripts that are a
    loop variable alone connect loops, `Q[h + 1]` does not.
    """
    subscripts: dict[tuple[str, int], set[Loop]] = {}
    for s in scop.statements:
        for access in s.accesses:
            if not access.exact or not access.relation.is_single_valued():
                continue  # a statement that is kept as it is written touches many elements at once
            for dim, function in enumerate(isl.components(access.relation.as_pw_multi_aff())):
                for depth, name in enumerate(s.iterators):
                    here = isl.PwAff.from_aff(isl.coordinate(s.domain, name)).intersect_domain(function.domain())
                    if isl.uses(function, depth) and function.is_equal(here):
                        subscripts.setdefault((access.array, dim), set()).add(s.position[: depth + 1])
    found, size = set(loops), 0
    while len(found) > size:
        size = len(found)
        for several in subscripts.values():
            if several & found:
                found |= several
    return sorted(found)


def _taken_apart(scop: Scop, loops: Collection[Loop], number: int) -> Step:
    depths: Mapping[str, int] = {s.name: len(loop) - 1 for loop in loops for s in inside_of(scop, loop)}
    made, names = [], []
    for s in scop.statements:
        if s.name not in depths:
            made.append(s)
            continue
        depth = depths[s.name]
        names.append((s.iterators[depth], number))
        position = (*s.position[: depth + 1], 0, *s.position[depth + 1 :])
        place, iterators = _place(s, depth, number), iterators_in_two(s, depth)
        made.append(moved(replace(s, name=f"{s.name}d"), place, iterators, position, s.descending).statement)
    places = tuple((name, depth, number) for name, depth in depths.items())
    return Step(DivModSplitting(tuple(names), places), scop, replace(scop, statements=tuple(made)))


def _place(statement: Statement, depth: int, number: int) -> isl.Map:
    """{ S[…, h, …] -> Sd[…, q, r, …] : h = number q + r }"""
    return isl.range_named(in_two(statement, depth, number), f"{statement.name}d", iterators_in_two(statement, depth))
