"""Runs a Scop instance by instance, in Python: what the check of equations is held against.

Numbers are integers modulo a prime, so that sums and products are exact in any order; every other operation mixes its
operands. Two programs that compute the same for all numbers do so for these, and others hardly ever do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polydl.model import isl
from polydl.model.expr import AffineValue, Binary, Call, Conditional, Const, Convert, Expr, Load, Unary, constant_number
from polydl.model.functions import FMA
from polydl.model.scop import Assignment, Scop, Statement, Storage
from polydl.model.time import original_schedule
from polydl.model.types import literal_value

PRIME = (1 << 61) - 1
Element = tuple[str, tuple[int, ...] | None]
"""An element of an array; None where an access touches none."""
Memory = dict[Element, int]


def given(element: Element) -> int:
    """What is in an element before the program."""
    array, subscripts = element
    assert subscripts is not None, "what is read is an element"
    return hash((*subscripts, sum(map(ord, array)))) % PRIME


def same(one: Memory, two: Memory) -> bool:
    """Whether two programs leave the same."""
    return all(one.get(e, given(e)) == two.get(e, given(e)) for e in {*one, *two})


def left_by(scop: Scop) -> Memory:
    """What a program leaves in the elements that are read after it, of those that it wrote."""
    memory: Memory = {}
    instances = []
    times = original_schedule(scop)
    for s in scop.statements:
        points = _pairs(times[s.name])
        found = [_pairs(a.relation.intersect_domain(s.domain)) for a in s.accesses]
        for point, time in points.items():
            touched = [(a.array, pairs.get(point)) for a, pairs in zip(s.accesses, found, strict=True)]
            instances.append((time, s, point, touched))
    for _, s, point, touched in sorted(instances, key=lambda one: one[0]):
        _run(scop, s, point, touched, memory)
    hidden = (Storage.REGION, Storage.SCRATCH)
    return {e: v for e, v in memory.items() if e[0] in scop.live_out and scop.arrays[e[0]].storage not in hidden}


def _pairs(relation: isl.Map) -> dict[tuple[int, ...], tuple[int, ...]]:
    """A function as a table."""
    split = isl.domain_arity(relation)
    found: dict[tuple[int, ...], tuple[int, ...]] = {}

    def visit(point: Any) -> None:
        numbers, _ = isl.sample(isl.Set.from_point(point))
        found[tuple(numbers[:split])] = tuple(numbers[split:])

    relation.flatten_domain().flatten_range().wrap().flatten().foreach_point(visit)
    return found


def _run(scop: Scop, s: Statement, point: tuple[int, ...], touched: Sequence[Element], memory: Memory) -> None:
    body = s.body
    assert isinstance(body, Assignment)

    def read(access: int) -> int:
        element = touched[access]
        return memory.get(element, given(element))

    value = _value(scop, body.value, point, read)
    if body.op != "=":
        assert body.target_read is not None
        value = _combined(body.op[:-1], read(body.target_read), value)
    memory[touched[body.target]] = value


def _value(scop: Scop, value: Expr, point: tuple[int, ...], read: Callable[[int], int]) -> int:
    def of(one: Expr) -> int:
        return _value(scop, one, point, read)

    match value:
        case Load(access):
            return read(access)
        case Const(text):
            number = literal_value(text)
            assert number is not None and number.is_integer(), "programs of the tests have whole numbers"
            return int(number) % PRIME
        case AffineValue(function):
            number = constant_number(value)
            if number is None:
                at = isl.Set.universe(function.domain().get_space())
                for dim, coordinate in enumerate(point):
                    at = isl.fix(at, dim, coordinate)
                number = isl.to_int(function.intersect_domain(at).max_val())
            return number % PRIME
        case Unary("-", operand):
            return -of(operand) % PRIME
        case Binary(op, left, right):
            return _combined(op, of(left), of(right))
        case Conditional(condition, then, otherwise):
            return of(then) if of(condition) else of(otherwise)
        case Convert(source, target, operand):
            return of(operand) if target.holds(source) or source.is_int else hash((target.bytes, of(operand))) % PRIME
        case Call(function, arguments) if function in FMA.spellings:
            one, two, three = map(of, arguments)
            return (one * two + three) % PRIME
        case Call(function, arguments) if function in scop.functions:
            return of(scop.functions[function].of(arguments))
        case Call(function, arguments):
            return hash((sum(map(ord, function)), *map(of, arguments))) % PRIME
        case _:
            raise AssertionError(f"{value} is in no program of the tests")


def _combined(op: str, one: int, two: int) -> int:
    match op:
        case "+":
            return (one + two) % PRIME
        case "-":
            return (one - two) % PRIME
        case "*":
            return one * two % PRIME
        case "<":
            return int(one < two)
        case ">":
            return int(one > two)
        case _:
            return hash((sum(map(ord, op)), one, two)) % PRIME
