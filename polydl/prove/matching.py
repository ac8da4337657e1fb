"""Matches printed statements with instances of the original: guesses from names and shapes, of which all is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import permutations
from typing import assert_never

import numpy as np

from polydl.model import expr as e
from polydl.model import isl
from polydl.model.combiners import adds
from polydl.model.conversions import converted, explicit, with_float_arguments
from polydl.model.functions import BITS_NAMES
from polydl.model.scop import Assignment, Scop, Statement
from polydl.model.types import I32, ElementType, common, integer_literal
from polydl.prove.addresses import address, linear
from polydl.prove.integers import Affine, Unreadable, Wrong, integer, not_negative, number
from polydl.prove.printed_program import Hint, Pointer, Printed, dims, map_of
from polydl.prove.symbolic_values import Chosen, Integer, Literal, Load, Operation, Symbol, conversion
from polydl.target.isa import VECTOR_TYPES

Pair = tuple[int | isl.PwAff, Symbol]
"""A read of the original (its index) or an integer value, and what the printed program has there."""


@dataclass(slots=True)
class Match:
    """A printed statement as instances of one of the original's."""

    printed: Printed
    statement: Statement
    instances: isl.Map
    """{ T[i…] -> S[i…] } single-valued, on the whole domain."""
    pairs: list[Pair]


# Shapes


def value_pairs(found: Symbol, wanted: e.Expr) -> list[Pair] | None:
    """What the leaves of an expression correspond to in a printed value; None where they are different expressions."""
    match wanted:
        case e.Load(access):
            return None if isinstance(found, Chosen) else [(access, found)]
        case e.AffineValue(value):
            cast = isinstance(found, Operation) and found.name == conversion(I32.name)
            made = whole(found.operands[0] if isinstance(found, Operation) and cast else found)
            return [(value, Integer(made))] if made is not None else None
        case e.Gather(e.Load(access), subscripts):
            if not isinstance(found, Chosen) or len(found.subscripts) != len(subscripts):
                return None
            inner = [value_pairs(one, other) for one, other in zip(found.subscripts, subscripts, strict=True)]
            return None if None in inner else [(access, found), *(pair for pairs in inner for pair in pairs or ())]
        case e.Const(text):
            return [] if isinstance(found, Literal) and same_literal(found, text) else None
        case e.Unary("+", operand) if not (isinstance(found, Operation) and found.name == "+"):
            return value_pairs(found, operand)
        case e.Unary("-", e.Const(text)) if isinstance(found, Literal):
            return [] if same_literal(found, f"-{text}") else None
        case e.Unary(op, operand):
            return _operands(found, op, (operand,))
        case e.Binary(op, left, right):
            vector = isinstance(found, Operation) and any(isinstance(o, Literal) and o.vector for o in found.operands)
            if vector and op == "/" and _whole_number(left) and _whole_number(right):
                return None  # a division of integers
            return _operands(found, op, (left, right))
        case e.Conditional():
            return _chosen(found, wanted)
        case e.Convert(source, target, operand):
            same = _operands(found, conversion(target.name), (operand,))
            if same is None and isinstance(found, Literal) and found.vector and _literal(operand) is not None:
                return [] if same_literal(found, _literal(operand) or "") else None
            return value_pairs(found, operand) if same is None and source is target else same
        case e.Call(function, arguments):
            return _operands(found, function, arguments, call=True)
        case _:
            assert_never(wanted)


def _chosen(found: Symbol, wanted: e.Conditional) -> list[Pair] | None:
    """The same of a choice, with the sides of its comparison in either order, and of one under two conditions as one in
    another."""
    condition, then, otherwise = wanted.condition, wanted.then, wanted.otherwise
    same = _operands(found, "?:", (condition, then, otherwise))
    if same is None and isinstance(condition, e.Binary) and condition.op in "<>":
        turned = e.Binary("<>".replace(condition.op, ""), condition.right, condition.left)
        same = _operands(found, "?:", (turned, then, otherwise))
    if same is None and isinstance(condition, e.Binary) and condition.op == "&&":
        inner = e.Conditional(condition.right, then, otherwise)
        same = _operands(found, "?:", (condition.left, inner, otherwise))
    return same


def _literal(value: e.Expr) -> str | None:
    """The text of a literal, with its sign."""
    match value:
        case e.Const(text):
            return text
        case e.Unary("-", e.Const(text)):
            return f"-{text}"
        case _:
            return None


def whole(found: Symbol) -> Affine | None:
    """The integer that a printed value is, made of loop variables and literals; None for another."""
    match found:
        case Integer(value):
            return value
        case Literal(text, False) if text.rstrip("uUlL").isdigit():
            return number(integer(text))
        case Operation("-" | "+" as op, (operand,)):
            inner = whole(operand)
            return inner.times(-1 if op == "-" else 1) if inner is not None else None
        case Operation("-" | "+" as op, (left, right)):
            a, b = whole(left), whole(right)
            return a.plus(b, -1 if op == "-" else 1) if a is not None and b is not None else None
    return None


def _whole_number(value: e.Expr) -> bool:
    return isinstance(value, e.Const) and value.text.rstrip("uUlL").isdigit()


def _operands(found: Symbol, name: str, wanted: Sequence[e.Expr], *, call: bool = False) -> list[Pair] | None:
    if not isinstance(found, Operation) or found.name != name or found.call != call:
        return None
    if len(found.operands) != len(wanted):
        return None
    pairs: list[Pair] = []
    for one, other in zip(found.operands, wanted, strict=True):
        inner = value_pairs(one, other)
        if inner is None:
            return None
        pairs += inner
    return pairs


def same_literal(found: Literal, text: str) -> bool:
    """Whether a printed literal is the one written."""
    if found.text == text:
        return True
    if not found.vector:
        return False
    try:
        a, b = float(found.text.rstrip("fFlL")), float(text.rstrip("fFlL"))
    except ValueError:
        return False
    return a == b and (not found.text.endswith("f") or text.endswith(("f", "F")) or float(np.float32(b)) == b)


def differs(found: Symbol, wanted: e.Expr) -> bool:
    """Whether two expressions of one shape have different arithmetic operators or literals somewhere. Others than
    these may be two ways to write the same."""
    if isinstance(wanted, e.Const):
        return isinstance(found, Literal) and not same_literal(found, wanted.text)
    if not isinstance(wanted, e.Binary) or not isinstance(found, Operation) or len(found.operands) != 2:
        return False
    if found.name != wanted.op:
        return {found.name, wanted.op} <= set("+-*/")
    return any(differs(f, w) for f, w in zip(found.operands, (wanted.left, wanted.right), strict=True))


def assignment_pairs(scop: Scop, printed: Printed, statement: Statement) -> list[Pair] | None:
    """What the reads of an assignment correspond to in the printed one, when both have the same shape: as it is
    written, or, in vector code on several types, with all of C's conversions."""
    body = statement.body
    if not isinstance(body, Assignment):
        return None
    types = {scop.arrays[access.array].element for access in statement.accesses}
    bits = any(name in BITS_NAMES for name in e.calls(body.value))
    if printed.lanes and len(types) == 1 and not bits and (element := next(iter(types))).is_int:
        if _in_lanes(body.value, element):
            return _pairs(printed, body)
        # In lanes of 32 bits among floats every conversion is printed; narrower integers have more than is printed.
        return _pairs(printed, _explicit(scop, statement, body)) if element.bytes == I32.bytes else None
    if printed.lanes and (len(types) > 1 or not types <= VECTOR_TYPES.keys() or bits):
        return _pairs(printed, _explicit(scop, statement, body))
    return _pairs(printed, body)


def _in_lanes(value: e.Expr, element: ElementType) -> bool:
    """Whether lanes of an integer type have the lower bits of what C computes, in an int where the type is narrower."""
    match value:
        case e.Load() | e.Const() | e.AffineValue():
            return True
        case e.Unary("-" | "+" | "~", operand):
            return _in_lanes(operand, element)
        case e.Binary("+" | "-" | "*" | "&" | "|" | "^", left, right):
            return _in_lanes(left, element) and _in_lanes(right, element)
        case e.Conditional(condition, then, otherwise):
            return _decides(condition, element) and _in_lanes(then, element) and _in_lanes(otherwise, element)
        case _:
            return False


def _decides(condition: e.Expr, element: ElementType) -> bool:
    """Whether a condition on lanes of an integer type is what it is in C: it compares values, not lower bits."""
    match condition:
        case e.Binary("&&" | "||", left, right):
            return _decides(left, element) and _decides(right, element)
        case e.Unary("!", operand):
            return _decides(operand, element)
        case e.Binary("<" | "<=" | ">" | ">=" | "==" | "!=", left, right):
            return _is_value(left, element) and _is_value(right, element)
        case _:
            return False


def _is_value(value: e.Expr, element: ElementType) -> bool:
    made = explicit(value, lambda access: element)[1]
    match value:
        case e.Load():
            return True
        case e.Const(text):
            found = integer_literal(text)
            return found is not None and element.minimum <= found[0] <= element.maximum
        case e.Unary("-", e.Const(text)):
            found = integer_literal(text)
            return found is not None and element.minimum <= -found[0]
        case _:
            return made is element and _in_lanes(value, element)


def _explicit(scop: Scop, statement: Statement, body: Assignment) -> Assignment:
    """The assignment with all of C's conversions."""

    def of(access: int) -> ElementType:
        return scop.arrays[statement.accesses[access].array].element

    value, made = explicit(body.value, of)
    value, target = with_float_arguments(value, of), of(body.target)
    value = _compared(converted(value, made, target if body.op == "=" else common(made, target)), of)
    return replace(body, value=value)


def _compared(value: e.Expr, of: Callable[[int], ElementType]) -> e.Expr:
    """An expression with `(int)x != 0` in place of each integer that is loaded as a condition, as vectors have it."""
    value = e.on_operands(value, lambda part: _compared(part, of))
    match value:
        case e.Conditional(e.Load(access) as condition) if of(access).is_int and of(access).bytes <= I32.bytes:
            return replace(value, condition=e.Binary("!=", converted(condition, of(access), I32), e.Const("0")))
    return value


def _pairs(printed: Printed, body: Assignment) -> list[Pair] | None:
    if printed.op == body.op:
        pairs = value_pairs(printed.value, body.value)
        if pairs is None or body.target_read is None or printed.target is None:
            return pairs
        return [*pairs, (body.target_read, Load(printed.target))]
    if body.op != "=" and printed.op == "=" and body.target_read is not None:
        return value_pairs(printed.value, e.Binary(body.op[:-1], e.Load(body.target_read), body.value))
    return None


# Instances


def hinted(printed: Printed, statement: Statement, hint: Hint) -> isl.Map:
    """{ T[i…] -> S[…] } as the text says. Raises Wrong where it is no function into the domain."""
    if len(hint.iterators) != statement.depth:
        raise Wrong(f"line {printed.line}: {hint.statement} has {statement.depth} loops")
    outputs = [f"o{k}" for k in range(statement.depth)]
    formulas = [f"{o} = {v}" for o, v in zip(outputs, hint.iterators, strict=True)]
    inner = [f"x{k}" for k in range(sum(len(row.loops) for row in hint.rows))]
    place = 0
    for row, wanted in zip(hint.rows, hint.columns, strict=True):
        column = Affine()
        for k, (_, first, extent) in enumerate(row.loops):
            moved = Affine(((inner[place], 1),)).plus(first, -1).times(-1 if row.back else 1)
            place += 1
            length = 1
            for _, _, e_ in row.loops[k + 1 :]:
                if e_ is not None and e_.terms:
                    raise Unreadable(f"line {printed.line}: a row over loops of unknown length")
                length *= e_.constant if e_ is not None else 1
            column = column.plus(moved, length)
            formulas.append(not_negative(moved))
            formulas += [f"{moved} < {extent}"] if extent is not None else []
        formulas.append(f"{wanted.plus(column, -1)} = 0")
    formula = " and ".join(formulas) or "true"
    if inner:
        formula = f"exists {', '.join(inner)} : {formula}"
    head = f"{printed.name}[{dims(printed.depth)}] -> {statement.name}[{', '.join(outputs)}]"
    return map_of(head, formula).intersect_domain(printed.domain)


def by_address(
    scop: Scop,
    printed: Printed,
    statement: Statement,
    pairs: Sequence[Pair],
    sources: Mapping[Pointer, tuple[str, isl.Map]],
) -> isl.Map | None:
    """{ T[i…] -> S[…] } the instances that touch the same elements; None when it touches other arrays, or has something
    else than an element where the statement reads one."""
    assert isinstance(statement.body, Assignment) and printed.target is not None
    target = statement.body.target
    if statement.accesses[target].array != printed.target.base:
        return None
    found = [address(scop, printed, printed.target).apply_range(linear(scop, statement, target).reverse())]
    for access, symbol in pairs:
        if isinstance(access, int):
            if not isinstance(symbol, Load):
                return None
            array, where = sources.get(symbol.at) or (symbol.at.base, address(scop, printed, symbol.at))
            if statement.accesses[access].array != array:
                return None
            found.append(where.apply_range(linear(scop, statement, access).reverse()))
    return reduce(isl.Map.intersect, found).coalesce()


def factors(value: e.Expr) -> list[e.Expr]:
    """The factors of a product."""
    if isinstance(value, e.Binary) and value.op == "*":
        return [*factors(value.left), *factors(value.right)]
    return [value]


def symbol_factors(value: Symbol) -> list[Symbol]:
    """The factors of a printed product."""
    if isinstance(value, Operation) and value.name == "*":
        return [f for o in value.operands for f in symbol_factors(o)]
    return [value]


def product_pairs(found: Sequence[Symbol], statement: Statement) -> Iterator[list[Pair]]:
    """Ways in which the factors of a printed product may be those of an accumulating statement."""
    body = statement.body
    if not isinstance(body, Assignment) or not adds(body.op):
        return
    wanted = factors(body.value)
    if len(wanted) != len(found) or len(wanted) > 5:
        return
    for order in permutations(found):
        pairs: list[Pair] = []
        for one, other in zip(order, wanted, strict=True):
            inner = value_pairs(one, other)
            if inner is None:
                break
            pairs += inner
        else:
            yield pairs
