"""The products that a sum of quantised numbers adds, modulo 2^32, of factors that change while it is added up and of
others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

from polydl.base.records import dataclass
from polydl.dependences.scalars import private_depth
from polydl.model import isl
from polydl.model.accumulation import addition
from polydl.model.combiners import subtracts
from polydl.model.conversions import explicit
from polydl.model.expr import AffineValue, Binary, Const, Convert, Expr, Load, Unary, constant_number
from polydl.model.polynomials import poly_add, poly_mul
from polydl.model.scop import Access, Scop, Statement
from polydl.model.strides import strides_of
from polydl.model.types import I32, U32, ElementType, integer_literal
from polydl.rewrite.scratch_array import box_of, is_box

Products = Mapping[tuple[int, ...], int]
"""A sum of products: by the accesses whose values are multiplied, sorted, the factor before them, not 0. No access: a
number."""
Interval = tuple[int, int]
"""Least and greatest value."""

MOST = 16
"""Products in a sum at most. (A - a) * (B - b) has four."""


@dataclass(frozen=True, slots=True)
class Single:
    """A factor that changes alone in its product."""

    access: int
    kept: tuple[str, ...]
    """Of the iterators that lead to another element, those that lead to others of its sums."""
    element: ElementType


@dataclass(frozen=True, slots=True)
class Split:
    """The products that a statement adds."""

    outer: int
    """How many of its loops are around the whole sum that an element gets, from outside: those that lead to another
    element, up to the first one that adds up."""
    kept: tuple[str, ...]
    """Iterators that lead to another element."""
    main: tuple[int, ...]
    """Accesses of the one product that two factors change in while it is added up."""
    number: int
    """Before it."""
    single: Mapping[Single, Products]
    """What sums of factors that change are multiplied by: products of what stays the same."""
    fixed: Products
    """Products in which nothing changes."""
    times: tuple[isl.PwAff, ...]
    """{ [parameters] -> [n] }: their product is how often each is added to one element."""


def held_type(scop: Scop, statement: Statement, access: int) -> ElementType:
    return scop.arrays[statement.accesses[access].array].element


def split_of(scop: Scop, statement: Statement) -> Split | str | None:
    """The products that a statement adds, or why they are not those of a sum with zero points; None where it adds no
    sum of products of integers of 32 bits."""
    body, name = addition(statement), statement.name
    if body is None or scop.arrays[statement.target.array].element is not I32:
        return None
    found = products(body.value, lambda i: held_type(scop, statement, i))
    if found is None or len(found) < 2:
        return None
    target = statement.target
    if any(
        a.array == target.array for i, a in enumerate(statement.accesses) if i not in (body.target, body.target_read)
    ):
        return f"{name} reads {target.array}, to which it adds"
    if not is_box(statement):
        return f"the loops around {name} are no box, so a zero point counts for some sums more than others"
    kept = _kept_iterators(scop, statement, target)
    if kept is None:
        return f"which element {name} adds to is no affine function of its loops"
    reduced = [i for i in statement.iterators if i not in kept]
    moves: dict[int, set[str]] = {}
    for access in {i for factors in found for i in factors}:
        strides = strides_of(scop, statement, statement.accesses[access])
        if strides is None:
            return f"what {name} reads of {statement.accesses[access].array} is no affine function of its loops"
        moves[access] = {i for i, stride in strides.items() if stride != 0}
    main: list[tuple[int, ...]] = []
    single: dict[Single, dict[tuple[int, ...], int]] = {}
    fixed: dict[tuple[int, ...], int] = {}
    for factors, number in found.items():
        moving = [i for i in factors if moves[i] & {*reduced}]
        if len(moving) > 1:
            main.append(factors)
        elif not moving:
            fixed[factors] = number
        else:
            (access,) = moving
            own = tuple(i for i in kept if i in moves[access])
            if not own:
                return f"{statement.accesses[access].array} is the same for all sums of {name}"
            one = Single(access, own, held_type(scop, statement, access))
            single.setdefault(one, {})[tuple(i for i in factors if i != access)] = number
    if len(main) != 1:
        return f"{name} adds {len(main)} products of two factors that change, not one"
    if not reduced:
        return f"{name} adds to each element once"
    outer = next(d for d, i in enumerate(statement.iterators) if i in reduced)
    box = box_of(isl.project_onto(statement.domain, reduced))
    assert box is not None  # says `is_box`
    signed = -1 if subtracts(body.op) else 1
    return Split(
        outer, tuple(kept), main[0], signed * found[main[0]],
        {key: {f: signed * n for f, n in own.items()} for key, own in single.items()},
        {f: signed * n for f, n in fixed.items()}, box.extents,
    )  # fmt: skip


def _kept_iterators(scop: Scop, statement: Statement, target: Access) -> list[str] | None:
    """The iterators that lead to another element, or value of a private scalar; None where that is not known."""
    if scop.arrays[target.array].is_scalar:
        depth = private_depth(scop, target.array)
        return None if depth is None else list(statement.iterators[:depth])
    strides = strides_of(scop, statement, target)
    if strides is None or not target.exact:
        return None
    kept = [i for i in statement.iterators if strides[i] != 0]
    onto = isl.domain_onto(target.relation.intersect_domain(statement.domain), kept)
    return kept if onto.is_injective() else None


def products(value: Expr, of: Callable[[int], ElementType]) -> Products | None:
    """The sum that an expression of integers is modulo 2^32; None for others, and for long sums.

    C's arithmetic on integers of 32 bits or more gives this, whatever types are in between: for unsigned ones by
    definition, for signed ones wherever it has a meaning. A conversion to less bits must change no value.
    """
    value, made = explicit(value, of)
    found = _sum(value, of) if made.is_int else None
    return None if found is None or len(found[0]) > MOST else found[0]


def _sum(value: Expr, of: Callable[[int], ElementType]) -> tuple[Products, Interval | None] | None:
    """`products`, and between which values the expression is by the types of what it loads; None for these where they
    do not say it, or where its arithmetic may wrap around."""
    match value:
        case Load(access) if of(access).is_int:
            return {(access,): 1}, (of(access).minimum, of(access).maximum)
        case Const() | AffineValue() if (number := _number(value)) is not None:
            return {(): number} if number else {}, (number, number)
        case Unary("+", operand):
            return _sum(operand, of)
        case Unary("-", operand):
            return _sum(Binary("-", Const("0"), operand), of)
        case Binary("+" | "-" | "*" as op, left, right):
            one, two = _sum(left, of), _sum(right, of)
            if one is None or two is None:
                return None
            made = poly_mul(one[0], two[0]) if op == "*" else poly_add(one[0], two[0], -1 if op == "-" else 1)
            return made, _ends(op, one[1], two[1])
        case Convert(source, target, operand) if source.is_int and target.is_int:
            inner = _sum(operand, of)
            ends = None if inner is None else _within(target, inner[1])
            if inner is None or (ends is None and target.bits < I32.bits and not target.holds(source)):
                return None
            return inner[0], ends
        case _:
            return None


def _number(value: Const | AffineValue) -> int | None:
    if isinstance(value, AffineValue):
        return constant_number(value)
    found = integer_literal(value.text)
    return None if found is None else found[0]


def _ends(op: str, one: Interval | None, two: Interval | None) -> Interval | None:
    if one is None or two is None:
        return None
    if op == "-":
        two = (-two[1], -two[0])
    corners = [x * y if op == "*" else x + y for x in one for y in two]
    return _within(I32, (min(corners), max(corners)))


def _within(element: ElementType, ends: Interval | None) -> Interval | None:
    """The values, where they are all of the type."""
    return ends if ends is not None and element.minimum <= ends[0] and ends[1] <= element.maximum else None


def unsigned_sum(terms: Mapping[tuple[Expr, ...], int], start: Expr | None = None) -> Expr:
    """`(int)(start + n * f * g + …)` in the arithmetic of unsigned int: by factors, which are of that type, the number
    before them; at least one."""

    def term(factors: tuple[Expr, ...], number: int) -> Expr:
        parts = [*([] if number == 1 and factors else [Const(f"{number % 2**32}u")]), *factors]
        return reduce(lambda left, right: Binary("*", left, right), parts)

    written = [*([] if start is None else [start]), *(term(factors, number) for factors, number in terms.items())]
    return Convert(U32, I32, reduce(lambda left, right: Binary("+", left, right), written))
