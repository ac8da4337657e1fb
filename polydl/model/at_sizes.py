"""A program with sizes as parameters, at values of these."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from polydl.base.errors import InputError
from polydl.model import isl
from polydl.model.expr import AffineValue, Binary, Const, Expr, on_operands
from polydl.model.layout import NO_AXES, packed_by
from polydl.model.scop import Array, Assignment, BlackBox, Body, CallArgument, Guard, MicrokernelCall, Scop, Statement
from polydl.model.types import integer_literal

_INT_MAX = 2**31 - 1


def at_sizes(scop: Scop, values: Mapping[str, int]) -> Scop:
    """A program for values of its parameters, or of some of them; those that follow from these have theirs, too."""
    values = {**values, **_derived(scop, values)}
    return replace(
        scop,
        statements=tuple(_statement(s, values) for s in scop.statements),
        arrays={name: _array(array, values) for name, array in scop.arrays.items()},
        parameters=tuple(name for name in scop.parameters if name not in values),
        derived=scop.derived - values.keys(),
        unsigned=scop.unsigned - values.keys(),
        context=isl.at_values(scop.context, values),
        sizes={**scop.sizes, **values},
        region=replace(
            scop.region, begun={name: isl.function_at(of, values) for name, of in scop.region.begun.items()}
        ),
        indices=tuple(replace(one, rest=isl.at_values(one.rest, values)) for one in scop.indices),
        ordered=tuple(replace(one, rows=isl.at_values(one.rows, values)) for one in scop.ordered),
    )


def takes_sizes(scop: Scop, values: Mapping[str, int]) -> bool:
    """Whether values can be put into a program: not where they are data of it, and not where the rows that pointers
    lead to are as long as they say."""
    arrays = scop.arrays.items()
    return not any((name in values and array.is_scalar) or array.rows is not None for name, array in arrays)


def tuned_for(scop: Scop, values: Mapping[str, int]) -> Scop:
    """The program that is optimized for values of its parameters: the output asks for them (`Scop.guards`), and is made
    for other ones of what this one was made of (`Scop.symbolic`).

    Raises InputError for values with which the program does not work: those that its context excludes, and those for
    which a subscript leaves its array.
    """
    asked = {name: value for name, value in values.items() if name in scop.parameters}
    if not asked:
        return scop
    there = at_sizes(scop, asked)
    given = ", ".join(f"{name} = {value}" for name, value in asked.items())
    if there.context.is_empty():
        raise InputError(f"{scop.function} does not work with {given}", scop.span, "give other sizes", topic="sizes")
    if large := [name for name in scop.parameters if abs(there.sizes.get(name, 0)) > _INT_MAX]:
        raise InputError(f"{given} is more than an int holds: '{large[0]}'", scop.span, topic="sizes")
    check_inside(there, f"with {given}, ")
    new = [Guard(name, there.sizes[name], False) for name in scop.parameters if name in there.sizes]
    old = [guard for guard in scop.guards if not guard.macro]
    guards = [guard for guard in scop.guards if guard.macro] + sorted([*old, *new], key=lambda guard: guard.name)
    # Values that no guard asks for are of macros that follow from others.
    sizes = {guard.name: guard.value for guard in guards}
    return replace(there, guards=tuple(guards), sizes=sizes, symbolic=scop.symbolic or scop)


def check_inside(scop: Scop, given: str = "") -> None:
    """Raises InputError for a subscript that leaves its array for every value of the parameters for which it is reached
    at all. `given`: the sizes that the program has, for people."""
    for statement in scop.statements:
        for access in (access for access in statement.accesses if access.exact):
            array = scop.arrays[access.array]
            relation = access.relation.intersect_params(scop.context)
            for place, extent in enumerate(array.extents):
                outside = relation.intersect_range(_outside(relation.range(), place, extent))
                if outside.is_empty() or not relation.params().is_subset(outside.params()):
                    continue
                raise InputError(
                    f"{given}subscript {place + 1} of '{access.array}' leaves its bounds",
                    access.span or statement.span,
                    f"'{access.array}' is declared as '{array.declaration}'",
                    topic="out-of-bounds",
                )


def _outside(of: isl.Set, place: int, extent: isl.PwAff | None) -> isl.Set:
    """Those elements whose subscript at a place is below 0, or past an extent that is known."""
    subscript = isl.PwAff.from_aff(isl.coordinate(of, place))
    if extent is None:
        return isl.Set.empty(of.get_space())
    below = subscript.lt_set(isl.PwAff.from_aff(isl.constant(of, 0)))
    return below.union(subscript.ge_set(isl.lifted(extent, of)))


def _derived(scop: Scop, values: Mapping[str, int]) -> dict[str, int]:
    """The parameters that follow from these values, with theirs."""
    found: dict[str, int] = {}
    there = isl.at_values(scop.context, values)
    for name in scop.parameters:
        if name in scop.derived and name not in values:
            alone = isl.as_dimensions(isl.some_values(there, [n for n in isl.parameters(there) if n != name]), [name])
            low = isl.least(alone, 0)
            if low is not None and low == isl.greatest(alone, 0):
                found[name] = low
    return found


def _statement(statement: Statement, values: Mapping[str, int]) -> Statement:
    domain = isl.named(isl.at_values(statement.domain, values), statement.iterators)
    return replace(
        statement,
        domain=domain,
        accesses=tuple(replace(a, relation=isl.at_values(a.relation, values)) for a in statement.accesses),
        body=_body(statement.body, domain, values),
    )


def _body(body: Body, domain: isl.Set, values: Mapping[str, int]) -> Body:
    match body:
        case Assignment():
            return replace(body, value=_expression(body.value, domain, values))
        case MicrokernelCall(_, arguments, inner):
            there = tuple(_argument(argument, values) for argument in arguments)
            return replace(body, arguments=there, inner=tuple(_statement(s, values) for s in inner))
        case BlackBox():
            own = ((text, None if of is None else isl.function_at(of, values)) for text, of in body.locals)
            segment = body.segment
            if segment is not None:
                segment = replace(segment, sum=_statement(segment.sum, values))
            entries = body.entries
            if entries is not None:
                entries = replace(entries, row=isl.function_at(entries.row, values))
            return replace(body, locals=tuple(own), segment=segment, entries=entries)


def _expression(value: Expr, domain: isl.Set, values: Mapping[str, int]) -> Expr:
    if isinstance(value, AffineValue):
        return AffineValue(isl.function_at(value.value, values))
    there = on_operands(value, lambda operand: _expression(operand, domain, values))
    if isinstance(there, Binary) and AffineValue in (type(there.left), type(there.right)):
        return _affine(there, domain) or there
    return there


def _integer(value: Expr, domain: isl.Set) -> isl.PwAff | None:
    """What is known of a value before data are."""
    if isinstance(value, AffineValue):
        return value.value
    literal = integer_literal(value.text) if isinstance(value, Const) else None
    return None if literal is None else isl.PwAff.from_aff(isl.constant(domain, literal[0]))


def _affine(value: Binary, domain: isl.Set) -> AffineValue | None:
    """An operation on integers as one function, `i * n` where n has a value; None where it is none, or numbers may be
    such as not every type of integer holds."""
    op, left, right = value.op, _integer(value.left, domain), _integer(value.right, domain)
    if left is None or right is None or op not in ("+", "-", "*"):
        return None
    if op == "*" and not (left.is_cst() or right.is_cst()):
        return None
    found = left.mul(right) if op == "*" else left.add(right) if op == "+" else left.sub(right)
    for one in (left, right, found):
        low, high = (extreme(one.intersect_domain(domain)) for extreme in (isl.PwAff.min_val, isl.PwAff.max_val))
        if not (low.is_int() and high.is_int() and isl.to_int(low) >= 0 and isl.to_int(high) <= _INT_MAX):
            return None
    return AffineValue(found.coalesce())


def _argument(argument: CallArgument, values: Mapping[str, int]) -> CallArgument:
    return replace(
        argument,
        subscript=None if argument.subscript is None else isl.functions_at(argument.subscript, values),
        value=None if argument.value is None else isl.function_at(argument.value, values),
    )


def _array(array: Array, values: Mapping[str, int]) -> Array:
    if array.layout.packed is not None:
        return replace(array, layout=packed_by(array.layout.packed.sized(values)))
    if not array.layout.is_row_major:
        return array
    extents = tuple(None if extent is None else isl.function_at(extent, values) for extent in array.extents)
    return replace(array, extents=extents, layout=NO_AXES)


def instances(scop: Scop) -> float:
    """Statement instances of one run, each those of the box around it."""
    return sum(points_of_box(statement.domain) for statement in scop.statements)


def points_of_box(of: isl.Set) -> float:
    """Points of the box around a set."""
    if of.is_empty():
        return 0.0
    bounds = (isl.bounds(of, place) for place in range(isl.arity(of)))
    return math.prod(float(high - low + 1) for low, high in bounds)
