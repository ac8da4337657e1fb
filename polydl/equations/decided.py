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
        return
    surely, perhaps = _holding(condition, there)
    if surely.is_equal(perhaps):
        yield surely


def _decided(condition: Expr, there: isl.Set) -> bool | None:
    """Whether a condition on loop variables and parameters holds for all of these instances (True) or for none (False),
    whatever data say of parts of it; None where it does for some, or depends on data."""
    surely, perhaps = _holding(condition, there)
    return True if there.is_subset(surely) else False if perhaps.is_empty() else None


def _holding(condition: Expr, there: isl.Set) -> tuple[isl.Set, isl.Set]:
    """The instances of these for which a condition surely holds, and for which it does perhaps: where data decide, none
    and all."""
    match condition:
        case Binary("&&" | "||" as op, left, right):
            one, other = _holding(left, there), _holding(right, there)
            joined = isl.Set.intersect if op == "&&" else isl.Set.union
            return joined(one[0], other[0]), joined(one[1], other[1])
        case Unary("!", operand):
            surely, perhaps = _holding(operand, there)
            return there.subtract(perhaps), there.subtract(surely)
        case Binary(op, left, right) if op in _RELATIONS:
            sides = [_integer(side, there) for side in (left, right)]
            if sides[0] is not None and sides[1] is not None:
                holds = there.intersect(getattr(sides[0], _RELATIONS[op])(sides[1]))
                return holds, holds
    return there.subtract(there), there


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
