"""Compares two programs: are their statements the same operations, in an order that keeps all dependences?

The checks of rewrites are made of these functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from polydl.dependences.analysis import dependences
from polydl.dependences.legality import violation
from polydl.model import isl
from polydl.model.expr import AffineValue, Binary, Call, Conditional, Const, Convert, Expr, Gather, Load, Unary
from polydl.model.isl import quota
from polydl.model.scop import Access, Assignment, Scop, Statement, Storage
from polydl.model.time import original_schedule
from polydl.model.types import I32, integer_literal


def order_broken(
    before: Scop, after: Scop, parts: Mapping[str, Sequence[str]], *, reassociate: bool = False
) -> str | None:
    """The first dependence of `before` that `after` does not keep, scalars that are private to an iteration included;
    None: all are kept.

    `parts`: per statement of `before` the statements of `after` that run its instances, under the same iterators. With
    `reassociate` additions into one element may change their order.
    """
    times = original_schedule(after)
    domains = {s.name: s.domain for s in after.statements}
    moved = []
    for d in dependences(_all_alive(before), reads=False):
        for source in parts.get(d.source, ()):
            for target in parts.get(d.target, ()):
                pairs = isl.range_named(isl.domain_named(d.relation, source), target)
                pairs = pairs.intersect_domain(domains[source]).intersect_range(domains[target])
                if not pairs.is_empty():
                    moved.append(replace(d, source=source, target=target, relation=pairs))
    found = violation(moved, times, reassociate=reassociate)
    return None if found is None else str(found)


def moved_broken(
    before: Scop, after: Scop, back: Mapping[str, Sequence[tuple[str, isl.Map]]], *, reassociate: bool = False
) -> str | None:
    """The first dependence that the two programs order differently, scalars that are private to an iteration included;
    None: there is none.

    `back`: per statement of `after` the statements of `before` that its instances are of, each with the relation
    { S[i…] -> T[j…] } from an instance to itself as it was; together one to one. With `reassociate` additions of one
    statement of `after` into one element may change their order.
    """
    was = []
    for d in dependences(_all_alive(after), reads=False):
        for source, to_source in back[d.source]:
            for target, to_target in back[d.target]:
                pairs = d.relation.apply_domain(to_source).apply_range(to_target)
                if not pairs.is_empty():
                    was.append(replace(d, source=source, target=target, relation=pairs))
    # Both programs run the same instances one after the other: what depends on what is ordered in each of them, and so
    # it is enough to compare in one direction.
    found = violation(was, original_schedule(before), reassociate=reassociate)
    return None if found is None else str(found)


def cut_broken(before: Scop, after: Scop, cut: Sequence[tuple[str, Sequence[str]]]) -> str | None:
    """Why `after` is not `before` with statements cut in parts, (statement, its parts), that cover its instances, have
    none in common and keep their order; None: it is. Raises QuotaExceeded."""
    parts = {s.name: (s.name,) for s in before.statements} | dict(cut)
    if sorted(s.name for s in after.statements) != sorted(name for names in parts.values() for name in names):
        return f"other statements than {', '.join(name for name, _ in cut)} were cut"
    with quota(f"the parts of {', '.join(name for name, _ in cut)}"):
        for old in before.statements:
            left = old.domain
            for new in (after.statement(name) for name in parts[old.name]):
                why = part_broken(old, new)
                domain = new.domain.set_tuple_name(old.name)
                if why is not None or not domain.is_subset(left):
                    return why or f"an instance of {old.name} is in two parts"
                left = left.subtract(domain)
            if not left.is_empty():
                return f"an instance of {old.name} is in no part"
    return order_broken(before, after, parts)


def _all_alive(scop: Scop) -> Scop:
    """The program with no scalar private to anything."""
    arrays = {name: replace(array, storage=Storage.LOCAL) for name, array in scop.arrays.items()}
    return replace(scop, arrays=arrays, live_out=frozenset(arrays))


def part_broken(old: Statement, new: Statement) -> str | None:
    """Why `new` is not the same operation on the same elements for some of the instances of `old`; None: it is."""
    if (old.iterators, old.descending) != (new.iterators, new.descending):
        return f"{new.name} has other loops than {old.name}"
    if not new.domain.is_subset(old.domain.set_tuple_name(new.name)):
        return f"{new.name} has instances that {old.name} has not"
    if old.body is new.body and old.accesses is new.accesses and old.name == new.name:
        return None
    one, two = old.body, new.body
    if not isinstance(one, Assignment) or not isinstance(two, Assignment):
        return f"{new.name} is no assignment, or {old.name} is none"
    same = (
        one.op == two.op
        and same_access(old, one.target, new, two.target)
        and same_value(old, one.value, new, two.value)
    )
    return None if same else f"{new.name} does not compute what {old.name} computes"


def same_access(old: Statement, one: int, new: Statement, two: int) -> bool:
    """Whether two accesses touch the same elements for the instances of `new`."""
    a, b = old.accesses[one], new.accesses[two]
    if (a.array, a.write) != (b.array, b.write):
        return False
    return bool(relation_of(a, new).is_equal(b.relation.intersect_domain(new.domain)))


def relation_of(access: Access, statement: Statement) -> isl.Map:
    """What an access of a statement with the same iterators touches, for the instances of this one."""
    return isl.domain_named(access.relation, statement.name).intersect_domain(statement.domain)


def same_value(old: Statement, one: Expr, new: Statement, two: Expr) -> bool:
    """Whether two expressions compute the same from the same elements for the instances of `new`."""

    def same(a: Expr, b: Expr) -> bool:
        return same_value(old, a, new, b)

    match one, two:
        case Load(a), Load(b):
            return same_access(old, a, new, b)
        case Gather(a, left), Gather(b, right):
            return same(a, b) and len(left) == len(right) and all(map(same, left, right))
        case AffineValue(a), AffineValue(b):
            first, second = (isl.domain_named(isl.Map.from_pw_aff(value), new.name) for value in (a, b))
            return bool(first.intersect_domain(new.domain).is_equal(second.intersect_domain(new.domain)))
        case Unary(op, a), Unary(other, b):
            return op == other and same(a, b)
        case Binary(op, a, c), Binary(other, b, d):
            return op == other and same(a, b) and same(c, d)
        case Convert(source, target, a), Convert(other_source, other_target, b):
            return source is other_source and target is other_target and same(a, b)
        case Conditional(p, a, c), Conditional(q, b, d) if same(p, q):
            return same(a, b) and same(c, d)
        case Conditional(), _ if (arm := taken(one, new.domain.set_tuple_name(old.name))) is not None:
            return same(arm, two)
        case Call(function, left), Call(other, right):
            return function == other and len(left) == len(right) and all(map(same, left, right))
        case _:
            return one == two


def taken(value: Conditional, there: isl.Set) -> Expr | None:
    """The arm that is the value for all of these instances; None where it is one or the other, or not of its type."""
    holds = _decided(value.condition, there)
    if holds is None or not value.typed[0 if holds else 1]:
        return None
    return value.then if holds else value.otherwise


def _decided(condition: Expr, there: isl.Set) -> bool | None:
    """Whether a condition on loop variables and parameters holds for all of these instances (True) or for none (False);
    None where it does for some, or depends on data."""
    holds = _holding(condition, there)
    if holds is None:
        return None
    return True if there.is_subset(holds) else False if there.is_disjoint(holds) else None


def _holding(condition: Expr, there: isl.Set) -> isl.Set | None:
    """The instances of these for which a condition holds; None where data decide."""
    match condition:
        case Binary("&&" | "||" as op, left, right):
            one, other = _holding(left, there), _holding(right, there)
            if one is None or other is None:
                return None
            return one.intersect(other) if op == "&&" else one.union(other)
        case Unary("!", operand):
            held = _holding(operand, there)
            return None if held is None else there.subtract(held)
        case Binary(op, left, right) if op in _RELATIONS:
            sides = [_integer(side, there) for side in (left, right)]
            if sides[0] is None or sides[1] is None:
                return None
            holds: isl.Set = getattr(sides[0], _RELATIONS[op])(sides[1])
            return there.intersect(holds)
        case _:
            return None


_RELATIONS = {"<": "lt_set", "<=": "le_set", ">": "gt_set", ">=": "ge_set", "==": "eq_set", "!=": "ne_set"}


def _integer(value: Expr, there: isl.Set) -> isl.PwAff | None:
    """An `int` as a function of the instances; None where it is something else."""
    match value:
        case AffineValue(function):
            return isl.PwAff.from_aff(isl.constant(there.get_space(), 0)).add(function)
        case Const(text) if (literal := integer_literal(text)) is not None and literal[1] is I32:
            return isl.PwAff.from_aff(isl.constant(there.get_space(), literal[0]))
        case Unary("-", operand) if (inner := _integer(operand, there)) is not None:
            return inner.neg()
        case Binary("+" | "-" | "*" as op, left, right):
            one, other = _integer(left, there), _integer(right, there)
            if one is None or other is None or (op == "*" and not (one.is_cst() or other.is_cst())):
                return None
            return one.add(other) if op == "+" else one.sub(other) if op == "-" else one.mul(other)
        case _:
            return None
