"""Loops that were unrolled by hand, rolled up again: over terms of a sum, over rows and columns, with their remainders.

    for (k = 0; k + 1 < K; k += 2) { C[i][j] += A[i][k] * B[k][j]; C[i][j] += A[i][k + 1] * B[k + 1][j]; }
    for (; k < K; k++) C[i][j] += A[i][k] * B[k][j];

All three statements do the same: the second what the first does for the next k, the third what it does for the others.
How often a loop is unrolled is the search's to decide, and a microkernel needs all of a contraction in one statement.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from polydl.base.records import dataclass
from polydl.equations.equality import Instances
from polydl.equations.step import RegroupingOnLeave, Step, together
from polydl.model import isl
from polydl.model.expr import AffineValue, Const, Expr, on_operands
from polydl.model.isl import quota
from polydl.model.linear_equations import solved
from polydl.model.scop import Assignment, Scop, Statement
from polydl.model.time import inside_of, map_from_affs
from polydl.rewrite.new_statements import forms_of, functions_of, on_instances
from polydl.target.isa import kernel_contraction


@dataclass(frozen=True, slots=True)
class Part:
    """One of the statements that become one."""

    name: str
    scale: tuple[int, ...]
    shift: tuple[int, ...]
    """Its iteration i is that of the whole at scale * i + shift, in each loop, outermost first."""


@dataclass(frozen=True, slots=True)
class Rolled(RegroupingOnLeave):
    """Statements that do the same for different iterations become one, that runs through all of these.

    before:    for k = 0, 2, …: { S0(k): x += a[k];  S1(k): x += a[k + 1]; }
    after:     for k = 0, 1, …: S(k): x += a[k]
    requires:  each iteration of the whole is one of exactly one part, on the same elements; every dependence is kept;
               with leave to reassociate, those between the terms of a sum need not be
    """

    wholes: tuple[tuple[str, tuple[Part, ...]], ...]
    """(statement afterwards, those that it is made of), in textual order."""

    def instances(self, before: Scop) -> Instances:
        """See `Rule.instances`."""
        return {
            name: [(part.name, _place(before.statement(part.name), part, name).reverse()) for part in parts]
            for name, parts in self.wholes
        }

    def __str__(self) -> str:
        return "; ".join(
            f"{', '.join(part.name for part in parts)} do the same for different iterations: {name} is all of them"
            for name, parts in self.wholes
        )


def reroll(scop: Scop, *, reassociate: bool = True) -> Iterator[Step]:
    """Make one statement of those that a loop was unrolled into (`Rolled`), in as many loops together as hold.
    One that holds anything else is rolled up where a contraction comes of it. Raises QuotaExceeded."""
    with quota(f"the unrolled loops of {scop.function}"):
        groups = _groups(scop)

    def made(scop: Scop, some: Sequence[_Group]) -> Step | None:
        step = _step(scop, some, reassociate)
        return step if all(_is_all(scop, one, some) or _contracts(step.after, one) for one in some) else None

    yield from together(scop, groups, lambda one: scop.statement(one.base).position[0], made)


@dataclass(frozen=True, slots=True)
class _Group:
    """Statements that may become one."""

    base: str
    """The one whose loops the whole gets."""
    parts: tuple[Part, ...]
    """In textual order."""
    whole: Statement

    @property
    def along(self) -> tuple[int, ...]:
        """The loops that were unrolled, by depth."""
        depth = len(self.parts[0].shift)
        moves = [{(part.scale[dim], part.shift[dim]) for part in self.parts} for dim in range(depth)]
        return tuple(dim for dim in range(depth) if moves[dim] != {(1, 0)})


def _is_all(scop: Scop, group: _Group, groups: Sequence[_Group]) -> bool:
    """Whether the unrolled loops around a group hold nothing but statements for which they are rolled up as well."""
    base = scop.statement(group.base)
    rolled = {part.name: one.along for one in groups for part in one.parts}
    return all(
        dim in rolled.get(other.name, ()) for dim in group.along for other in inside_of(scop, base.position[: dim + 1])
    )


def _contracts(scop: Scop, group: _Group) -> bool:
    return kernel_contraction(scop, scop.statement(group.whole.name)) is not None


def _step(scop: Scop, groups: Sequence[_Group], reassociate: bool) -> Step:
    made = {group.base: group.whole for group in groups}
    gone = {part.name for group in groups for part in group.parts}
    statements = tuple(made.get(s.name, s) for s in scop.statements if s.name in made or s.name not in gone)
    wholes = tuple((group.whole.name, group.parts) for group in groups)
    return Step(Rolled(wholes, reassociate=reassociate), scop, replace(scop, statements=statements))


def _place(statement: Statement, part: Part, whole: str) -> isl.Map:
    """{ part[i…] -> whole[scale * i… + shift] }."""
    there = [
        one.scale_val(isl.value(scale)).add_constant_val(isl.value(shift))
        for one, scale, shift in zip(isl.coordinates(statement.domain), part.scale, part.shift, strict=True)
    ]
    return isl.range_named(map_from_affs(statement.domain, there), whole, statement.iterators)


def _groups(scop: Scop) -> list[_Group]:
    """Statements of which one leaves out values of a loop, and which together leave out none."""
    alike: dict[object, list[Statement]] = {}
    for statement in scop.statements:
        if isinstance(statement.body, Assignment) and not statement.domain.is_empty():
            arrays = tuple((a.array, a.write) for a in statement.accesses)
            body = replace(statement.body, value=_shape(statement.body.value))
            alike.setdefault((statement.depth, arrays, body), []).append(statement)
    found: list[_Group] = []
    for left in alike.values():
        while len(left) > 1:
            group, left = _grown(left)
            found += [group] if group is not None else []
    return sorted(found, key=lambda group: scop.statement(group.base).position)


def _shape(value: Expr) -> Expr:
    """An expression without the values of iterators in it."""
    return Const("iterators") if isinstance(value, AffineValue) else on_operands(value, _shape)


def _stepped(statement: Statement) -> bool:
    """Whether a loop of the statement leaves out values."""
    return any(isl.stride(statement.domain, dim) > 1 for dim in range(statement.depth))


def _grown(members: Sequence[Statement]) -> tuple[_Group | None, list[Statement]]:
    """One of the statements with all those that do the same for other iterations, where together they leave out none;
    and the others."""
    known = [(s, forms) for s in members if (forms := _forms(s)) is not None]
    known = [one for one in known if _stepped(one[0])] or known
    if not known:
        return None, []
    # A[k] rather than A[k + 1] for k from -1 on.
    base, forms = min(known, key=lambda one: sum(abs(isl.offset(form) or 0) for form in one[1]))
    left = [s for s in members if s is not base]
    shifts = {s.name: shift for s in left if (shift := _shift(base, forms, s)) is not None}
    scale = tuple(math.lcm(*(shift[dim].denominator for shift in shifts.values())) for dim in range(base.depth))
    scaled = _scaled(forms, scale)
    if not (_stepped(base) or max(scale, default=1) > 1) or scaled is None:
        return None, left
    parts = {base.name: Part(base.name, scale, (0,) * base.depth)}
    domain = _place(base, parts[base.name], base.name).range()
    for statement in [s for s in left if s.name in shifts]:
        by = tuple(int(one * factor) for one, factor in zip(shifts[statement.name], scale, strict=True))
        part = Part(statement.name, scale, by)
        place = _place(statement, part, base.name).range()
        if place.is_disjoint(domain):
            parts[statement.name], domain = part, domain.union(place)
            left.remove(statement)
    every = _in_one_piece(domain) if len(parts) > 1 else None
    if every is None:
        return None, left
    whole = on_instances(base, scaled, every, f"{base.name}r")
    group = _Group(base.name, tuple(parts[s.name] for s in members if s.name in parts), whole)
    return (group if all(_without_gaps(every, dim) for dim in group.along) else None), left


def _without_gaps(domain: isl.Set, dim: int) -> bool:
    """Whether a loop leaves out no value between those that it takes, whatever the other loops' values are."""
    every = isl.Map.from_domain_and_range(domain, isl.Set.universe(domain.get_space()))
    beside = isl.agree(every, (other for other in range(isl.arity(domain)) if other != dim))
    between = isl.ascending(beside, dim).range().intersect(isl.descending(beside, dim).range())
    return bool(between.is_subset(domain))


def _in_one_piece(domain: isl.Set) -> isl.Set | None:
    """A set described by one list of constraints, simple ones first; None where that is not found."""
    hull = isl.Set.from_basic_set(domain.remove_divs().simple_hull())
    for dim in range(isl.arity(domain)):
        low, high = isl.least(domain, dim), isl.greatest(domain, dim)
        if low is not None and high is not None:
            hull = isl.between(hull, dim, low, high)
    for tried in (hull.coalesce(), domain.coalesce(), isl.Set.from_basic_set(domain.simple_hull())):
        if isl.piece_count(tried) == 1 and tried.is_equal(domain):
            return tried
    return None


def _forms(statement: Statement) -> list[isl.Aff] | None:
    """`forms_of` a statement; None where one has divisions."""
    forms = forms_of(statement)
    return None if forms is None or None in map(isl.coefficients, forms) else forms


def _shift(base: Statement, forms: Sequence[isl.Aff], other: Statement) -> tuple[Fraction, ...] | None:
    """What to add to the iterators of a statement to find the iteration of `base` that does the same, where that is
    the same number for all of its iterations."""
    functions = functions_of(other)
    if functions is None or len(functions) != len(forms):
        return None
    rows: list[list[Fraction]] = []
    for form, function in zip(forms, functions, strict=True):
        same = isl.function_named(isl.PwAff.from_aff(form), other.name)
        # In the domain, for a loop over what is left has numbers for what is k elsewhere.
        distance = function.sub(same).gist(other.domain).coalesce()
        value = distance.max_val() if distance.is_cst() else None
        factors = isl.coefficients(form)
        if value is None or not value.is_int() or factors is None:
            return None
        rows.append([*map(Fraction, factors), Fraction(isl.to_int(value))])
    found = solved(rows, base.depth)
    return None if found is None else tuple(found.get(dim, Fraction(0)) for dim in range(base.depth))


def _scaled(functions: Sequence[isl.Aff], scale: Sequence[int]) -> list[isl.Aff] | None:
    """Functions of iterators that are `scale` times as large; None where these are not all whole numbers."""
    found = []
    for function in functions:
        factors = isl.coefficients(function)
        if factors is None or any(factor % by for factor, by in zip(factors, scale, strict=True)):
            return None
        change = {dim: factor // by - factor for dim, (factor, by) in enumerate(zip(factors, scale, strict=True))}
        found.append(function.add(isl.linear(function.get_domain_space(), change)))
    return found
