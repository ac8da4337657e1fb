"""Conditions on loop variables and parameters that are decided for all of some instances."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from polydl.model import isl
from polydl.model.expr import AffineValue, Binary, Conditional, Const, Expr, Unary
from polydl.model.types import I32, integer_literal


def taken(value: Conditional, there: isl.Set) -> Expr | None:
    """The arm that is the value for all of these instances; None where it is one or the other."""
    holds = _decided(value.condition, there)
    return None if holds is None else value.then if holds else value.otherwise


def simplified(condition: Expr, there: isl.Set) -> Expr:
    """A condition without those of the conditions that `&&` and `||` join that do not count for these instances."""
    if not isinstance(condition, Binary) or condition.op not in ("&&", "||"):
        return condition
    left, right = simplified(condition.left, there), simplified(condition.right, there)
    idle = condition.op == "&&"
    if _decided(left, there) is idle:
        return right
    return left if _decided(right, there) is idle else replace(condition, left=left, right=right)


def decided_parts(condition: Expr, there: isl.Set) -> Iterator[isl.Set]:
    """Where the conditions that `&&` and `||` join hold, of those that depend on no data."""
    if isinstance(condition, Binary) and condition.op in ("&&", "||"):
        yield from decided_parts(condition.left, there)
        yield from decided_parts(condition.right, there)
    elif (holds := _holding(condition, there)) is not None:
        yield holds


def _decided(condition: Expr, there: isl.Set) -> bool | None:
    """Whether a condition on loop variables and parameters holds for all of these instances (True) or for none (False);
    None where it does for some, or depends on data."""
    if isinstance(condition, Binary) and condition.op in ("&&", "||"):
        # One side may settle it, whatever data say of the other.
        sides = _decided(condition.left, there), _decided(condition.right, there)
        settled = condition.op == "||"
        if settled in sides or None not in sides:
            return settled if settled in sides else not settled
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
