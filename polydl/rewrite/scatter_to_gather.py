"""Sums that scatter, as sums that gather.

    for o: for r: y[2 * o + r] += x[o] * w[r];        (the gradient of a strided convolution; a transposed one)

Several iterations add to one element, and neither loop leads along the result. Terms whose r leave the same remainder
are a sum each, over elements that are as far apart as the stride:

    for u: for t: y[2 * u]     += x[u - t] * w[2 * t];
    for u: for t: y[2 * u + 1] += x[u - t] * w[2 * t + 1];

A sum that gathers where a remainder is zero is the same one: it is read as one that scatters first.

    for y: for r: if ((y - r) % 2 == 0) dx[y] += dy[(y - r) / 2] * w[r];

source:    a change of basis of reductions: Gautam and Rajopadhye, "Simplifying Reductions", POPL 2006; as sub-pixel
           convolution: Shi et al., CVPR 2016
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import product

from polydl.base.records import dataclass
from polydl.equations.step import RegroupingRule, Step, applied
from polydl.model import isl
from polydl.model.combiners import adds
from polydl.model.isl import floor_div, quota
from polydl.model.scop import Assignment, Scop, Statement
from polydl.model.strides import affine_rows
from polydl.model.time import map_from_affs
from polydl.rewrite.cut import in_order, with_room
from polydl.rewrite.materialise import forward
from polydl.rewrite.moved import moved
from polydl.rewrite.scattered_sums import beside
from polydl.target.isa import has_register_blocks

_MOST_PARTS = 16
"""Sums that one becomes, at most: the product of the strides."""


@dataclass(frozen=True, slots=True)
class Gathered(RegroupingRule):
    """What is scattered over an array becomes sums, one for each remainder, that each element gathers.

    before:    for o: for r: y[S * o + D * r] += x[o] * w[r]
    after:     for u: for t: y[S * u + D * q] += x[u - d * t] * w[m * t + q], for q in [0, m); m = S / gcd(S, D),
               d = D / gcd(S, D)
    requires:  leave to reassociate
    """

    parts: tuple[tuple[str, tuple[str, ...]], ...]
    """(statement, those that it became)."""

    def __str__(self) -> str:
        return "; ".join(f"what {name} scatters is gathered: {', '.join(own)}" for name, own in self.parts)


@dataclass(frozen=True, slots=True)
class _Scattered:
    """A subscript S * o + D * r + c."""

    along: str
    """o."""
    over: str
    """r."""
    stride: int
    dilation: int

    @property
    def parts(self) -> int:
        """Remainders of r."""
        return self.stride // math.gcd(self.stride, self.dilation)

    @property
    def shift(self) -> int:
        """By how much o moves for one step of what is left of r."""
        return self.dilation // math.gcd(self.stride, self.dilation)


def gathered(scop: Scop) -> Iterator[Step]:
    """Gather the sums that scatter (`Gathered`), where each becomes contractions that a microkernel keeps in blocks of
    registers. Temporaries beside one (`g = x[o]; … y[2 * o + r] += g * w[r]`) become part of it first. Raises
    QuotaExceeded."""
    for name in [s.name for s in scop.statements]:
        before, ahead = scop, list[Step]()
        statement = next((s for s in scop.statements if s.name == name), None)
        if statement is None or not _adds(statement):
            continue
        with quota(f"the sums of {name}"):
            if not _scattered(_scattering(statement)):
                continue
        if not _stands_alone(scop, statement):
            ahead = list(forward(scop))
            before = applied(scop, ahead)
            statement = next((s for s in before.statements if s.name == name), None)
            if statement is None or not _stands_alone(before, statement):
                continue
        with quota(f"the sums of {name}"):
            scattering = _scattering(statement)
            subscripts = _scattered(scattering)
            if not subscripts:
                continue
            after, parts = _after(before, scattering, subscripts)
        tried = applied(after, beside(after))
        if parts and all(has_register_blocks(tried, tried.statement(part)) for part in parts):
            yield from ahead
            yield Step(Gathered(((name, parts),)), before, after)
            scop = after


def _stands_alone(scop: Scop, statement: Statement) -> bool:
    """Whether no other statement shares its outermost loop."""
    return all(s.position[:1] != statement.position[:1] for s in scop.statements if s.name != statement.name)


def _adds(statement: Statement) -> bool:
    return isinstance(statement.body, Assignment) and adds(statement.body.op) and not statement.descending


def _scattering(statement: Statement) -> Statement:
    """A sum over elements that a quotient leads to, with the quotient as its loop in place of the one along the result:
    y = 2 * o + r where o = (y - r) / 2 without a remainder. The statement itself where there is no such quotient."""
    rows = affine_rows(statement, statement.target)
    along = {name for row, _ in rows or () for name, factor in row.items() if factor}
    for access in statement.accesses:
        touched = access.relation.intersect_domain(statement.domain)
        if access.write or not access.exact or not touched.is_single_valued():
            continue
        for function in isl.components(touched.as_pw_multi_aff()):
            if any(isl.coefficients(aff) is None for _, aff in isl.pieces(function)):
                made = _over_quotient(statement, function, along)
                if made is not None:
                    return _scattering(made)
    return statement


def _over_quotient(statement: Statement, function: isl.PwAff, along: Collection[str]) -> Statement | None:
    """The statement with the values of a quotient as a loop, in place of one of `along` that it follows from, given the
    others; None: there is none."""
    graph = isl.Map.from_pw_aff(function).intersect_domain(statement.domain)
    for aff in isl.equalities(graph.wrap().flatten().affine_hull().remove_divs()):
        factors, constant = isl.coefficients(aff), isl.offset(aff)
        if factors is None or constant is None or isl.involved_parameters(aff) or abs(factors[-1]) < 2:
            continue
        for depth, (name, factor) in enumerate(zip(statement.iterators, factors, strict=False)):
            if name not in along or abs(factor) != 1:
                continue
            values = [isl.PwAff.from_aff(one) for one in isl.coordinates(statement.domain)]
            values[depth] = function
            place = map_from_affs(statement.domain, values)
            return moved(statement, place, statement.iterators, statement.position, frozenset()).statement
    return None


def _scattered(statement: Statement) -> list[_Scattered]:
    """The subscripts of an accumulation that two loops make together; empty where one is another kind of sum."""
    rows = affine_rows(statement, statement.target)
    found: list[_Scattered] = []
    used: set[str] = set()
    for row, _ in rows or ():
        loops = {name: factor for name, factor in row.items() if factor}
        if used & loops.keys() or any(factor < 0 for factor in loops.values()) or len(loops) > 2:
            return []
        used |= loops.keys()
        if len(loops) == 2:
            over, along = sorted(loops, key=lambda name: _extent(statement, name))
            found.append(_Scattered(along, over, loops[along], loops[over]))
    return found if math.prod(one.parts for one in found) <= _MOST_PARTS else []


def _extent(statement: Statement, loop: str) -> float:
    low, high = isl.least(statement.domain, loop), isl.greatest(statement.domain, loop)
    return math.inf if low is None or high is None else high - low


def _after(scop: Scop, statement: Statement, subscripts: Sequence[_Scattered]) -> tuple[Scop, tuple[str, ...]]:
    """The program with a statement gathered, and the names of what it became."""
    own: list[Statement] = []
    choices = list(product(*(range(one.parts) for one in subscripts)))
    spread = with_room(scop, len(choices))
    outermost, *inner = spread.statement(statement.name).position
    for number, remainders in enumerate(choices):
        position = (outermost + number, *inner)
        part = _part(statement, subscripts, remainders, f"{statement.name}g{number}", position)
        if part is not None:
            own.append(part)
    others = [s for s in spread.statements if s.name != statement.name]
    return in_order(scop, [*others, *own]), tuple(s.name for s in own)


def _part(
    statement: Statement,
    subscripts: Sequence[_Scattered],
    remainders: Sequence[int],
    name: str,
    position: tuple[int, ...],
) -> Statement | None:
    """The instances with these remainders, in the loops that gather; None: there are none."""
    iterators = dict(zip(statement.iterators, isl.coordinates(statement.domain), strict=True))
    new, domain = dict(iterators), statement.domain
    for one, remainder in zip(subscripts, remainders, strict=True):
        steps = floor_div(iterators[one.over].add_constant_val(isl.value(-remainder)), one.parts)
        left = iterators[one.over].sub(steps.scale_val(isl.value(one.parts))).add_constant_val(isl.value(-remainder))
        domain = domain.intersect(isl.PwAff.from_aff(left).zero_set())
        new[one.over] = steps
        new[one.along] = iterators[one.along].add(steps.scale_val(isl.value(one.shift)))
    if domain.is_empty():
        return None
    place = map_from_affs(statement.domain, list(new.values())).intersect_domain(domain)
    part = moved(replace(statement, name=name), place, statement.iterators, position, frozenset()).statement
    plain = [a.relation.gist_domain(part.domain).intersect_domain(part.domain) for a in part.accesses]
    return replace(part, accesses=tuple(replace(a, relation=r) for a, r in zip(part.accesses, plain, strict=True)))
