"""Nests: the parts of a scop that are transformed independently, one after the other in time.

Statements that share loops are taken apart (loop distribution) when the dependences allow it and one of them is a
contraction or a microkernel call, so that the heavy statement stands in a perfect nest of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from polydl.dependences.analysis import Dependence
from polydl.dependences.legality import conflicts
from polydl.dependences.scalars import kept_together, private_storage
from polydl.model import isl
from polydl.model.accumulation import Accumulation, accumulation
from polydl.model.contraction import Contraction
from polydl.model.isl import quota
from polydl.model.scop import MicrokernelCall, Scop, Statement
from polydl.model.time import common_depth, shared_depth
from polydl.target.isa import kernel_contraction


@dataclass(frozen=True, slots=True)
class Count1D:
    """Iterations of one loop, counted from 0: y = (±x - first) / stride for the loop variable x."""

    first: int
    """Smallest value of ±x over the whole domain; 0 where there is no constant bound."""
    stride: int
    """Step of the loop."""
    extent: int | None
    """Number of values of y over the whole domain; None where there is no constant bound."""

    def counted(self, time: isl.Aff) -> isl.Aff:
        """y, of ±x."""
        y = time.add_constant_val(isl.value(-self.first))
        return isl.floor_div(y, self.stride) if self.stride > 1 else y


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Nest:
    """Statements that stay together, and the loops around all of them."""

    statements: tuple[Statement, ...]
    """In textual order."""
    loops: tuple[str, ...]
    """Iterators of the loops that all statements share, outermost first."""
    contraction: Contraction | None
    """What the statement computes, when the nest is one perfectly nested contraction."""
    counts: Mapping[str, Count1D]
    """How each of the loops counts."""
    box: bool
    """The nest is perfect and its iterations are the whole product of its loops' ranges."""
    accumulation: Accumulation | None = None
    """How the statement accumulates, when the nest is a single one."""
    symbolic: Nest | None = field(default=None, compare=False, repr=False)
    """The same with the sizes of its program as parameters, where it was made of that."""

    @property
    def name(self) -> str:
        return self.statements[0].name

    @property
    def perfect(self) -> bool:
        """No statement has loops of its own."""
        return all(s.depth == len(self.loops) for s in self.statements)


def counted(statements: Sequence[Statement], iterator: str) -> Count1D:
    """The count of one shared loop over the domains of all the statements: first value, stride and extent."""
    firsts: list[int] = []
    lasts: list[int] = []
    strides: list[int] = []
    for statement in statements:
        values = isl.project_onto(statement.domain, [iterator])
        if values.is_empty():
            continue
        low, high = isl.least(values, iterator), isl.greatest(values, iterator)
        if low is None or high is None:
            return Count1D(0, 1, None)
        down = iterator in statement.descending
        firsts.append(-high if down else low)
        lasts.append(-low if down else high)
        strides.append(isl.stride(values, iterator))
    if not firsts:
        return Count1D(0, 1, 0)
    first, stride = min(firsts), math.gcd(*strides)
    if any((other - first) % max(stride, 1) for other in firsts):
        stride = 1
    return Count1D(first, max(stride, 1), (max(lasts) - first) // max(stride, 1) + 1)


def _split(
    statements: Sequence[Statement], kept: Sequence[Dependence], inseparable: Sequence[tuple[str, str]]
) -> list[list[Statement]]:
    """The finest cut of textually ordered statements into consecutive groups that no dependence runs backwards over."""
    place = {s.name: i for i, s in enumerate(statements)}
    together = list(range(len(statements)))  # together[i]: the last statement that i must stay with
    for d in kept:
        if d.source in place and d.target in place and place[d.source] > place[d.target]:
            together[place[d.target]] = max(together[place[d.target]], place[d.source])
    for first, last in inseparable:
        if first in place and last in place:
            together[place[first]] = max(together[place[first]], place[last])
    groups: list[list[Statement]] = []
    end = -1
    for i, statement in enumerate(statements):
        if i > end:
            groups.append([])
        groups[-1].append(statement)
        end = max(end, together[i])
    return groups


def _progression(space: isl.Space, name: str, count: Count1D, descending: bool) -> isl.Set:
    """Every value that a loop counted so could take; without counting, which isl does point by point."""
    steps = isl.PwAff.from_aff(isl.linear(space, {name: -1 if descending else 1}, -count.first))
    last = (count.extent or 0) * count.stride - count.stride
    whole = steps.mod_val(isl.value(count.stride)).zero_set()
    ends = steps.neg().add_constant_val(isl.value(last)).nonneg_set()
    return steps.nonneg_set().intersect(ends).intersect(whole)


def _is_product(domain: isl.Set) -> bool:
    """Whether a set has every combination of its coordinates' values, for all values of the parameters."""
    product = isl.project_onto(domain, [0])
    for d in range(1, isl.arity(domain)):
        product = product.flat_product(isl.project_onto(domain, [d]))
    # A loop without iterations leaves none of the others'.
    some = domain.params()
    return bool(product.intersect_params(some).reset_tuple_id().is_equal(domain.reset_tuple_id()))


def _is_box(statements: Sequence[Statement], loops: tuple[str, ...], counts: Mapping[str, Count1D]) -> bool:
    for statement in statements:
        domain = statement.domain
        if statement.iterators != loops or domain.is_empty():
            return False
        if any(c.extent is None for c in counts.values()):
            # With parameters the ranges are those of the loops by themselves.
            if isl.involved_parameters(domain) and _is_product(domain):
                continue
            return False
        hull = isl.Set.universe(domain.get_space())
        for name in loops:
            hull = hull.intersect(_progression(hull.get_space(), name, counts[name], name in statement.descending))
        if not domain.is_equal(hull):
            return False
    return True


def nests(
    scop: Scop,
    dependences: Sequence[Dependence],
    together: Sequence[tuple[str, str]] = (),
    *,
    contractions: bool = True,
) -> tuple[Nest, ...]:
    """The nests of a scop in the order in which they run.

    `together`: first and last statements to be kept together; `contractions`: whether nests are to know theirs, for
    which their own statement alone is looked at.
    """
    with quota(f"the nests of {scop.function}"):
        return _nests(scop, dependences, together, contractions=contractions)


def _nests(
    scop: Scop, dependences: Sequence[Dependence], together: Sequence[tuple[str, str]], *, contractions: bool
) -> tuple[Nest, ...]:
    kept = conflicts(dependences)
    inseparable = (*kept_together(scop, private_storage(scop)), *together)
    top: list[list[Statement]] = []
    for statement in scop.statements:
        if top and common_depth(top[-1][0], statement) > 0:
            top[-1].append(statement)
        else:
            top.append([statement])
    result: list[Nest] = []
    for group in top:
        asked = group if contractions or len(group) > 1 else []
        found = {s.name: kernel_contraction(scop, s) for s in asked}
        heavy = any(isinstance(s.body, MicrokernelCall) or found.get(s.name) is not None for s in group)
        for part in _split(group, kept, inseparable) if heavy and len(group) > 1 else [group]:
            shared = shared_depth(part)
            alone = found.get(part[0].name) if len(part) == 1 else None
            loops = part[0].iterators[:shared]
            counts = {i: counted(part, i) for i in loops}
            adding = accumulation(scop, part[0]) if len(part) == 1 else None
            result.append(Nest(tuple(part), loops, alone, counts, _is_box(part, loops, counts), adding))
    return tuple(result)
