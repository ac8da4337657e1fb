"""Makes a random program fit: its arrays to its subscripts, its values to the C types."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count

from tests.oracle.interpret import Trace, interpret, worst_data
from tests.oracle.language import (
    Assign,
    Binary,
    Data,
    For,
    If,
    Int,
    IntValue,
    Lit,
    Load,
    Negate,
    Node,
    Num,
    Program,
    Sum,
    Temp,
    assignments,
    loads,
)
from tests.oracle.render import render

EXACT = 2**22
"""Bound on every value: exact in float (24 bits of significand), double and int."""

Spell = Callable[[tuple[int, ...]], tuple[str, ...]]
"""Extents as numbers -> in C; () for as numbers."""


def fit_extents(program: Program, trace: Trace, spell: Spell) -> Program:
    """Shift every subscript so that the smallest is 0, and give each dimension the extent it needs, written as
    `spell` says."""
    low = {key: bounds[0] for key, bounds in trace.index_range.items()}
    arrays = {}
    for name, array in program.arrays.items():
        ranges = [trace.index_range.get((name, d), (0, 0)) for d in range(len(array.extents))]
        extents = tuple(high - first + 1 for first, high in ranges)
        arrays[name] = replace(array, extents=extents, spelled=spell(extents))

    def shift(array: str, subscripts: tuple[Int, ...]) -> tuple[Int, ...]:
        return tuple(_shifted(s, -low.get((array, d), 0)) for d, s in enumerate(subscripts))

    def data(value: Data) -> Data:
        match value:
            case Load(array, subscripts):
                return Load(array, shift(array, subscripts))
            case Binary(op, left, right):
                return Binary(op, data(left), data(right))
            case Negate(operand):
                return Negate(data(operand))
            case Num() | IntValue():
                return value

    def assign(node: Assign) -> Assign:
        return Assign(node.array, shift(node.array, node.subscripts), node.op, data(node.value))

    return replace(program, arrays=arrays, body=_rebuilt(program.body, assign))


def without_unused_parameters(program: Program) -> Program:
    """The parameters that stand anywhere but in their own declaration."""
    words = Counter(re.findall(r"\w+", render(program)))
    return replace(program, parameters={n: v for n, v in program.parameters.items() if words[n] > 1})


def _shifted(value: Int, by: int) -> Int:
    """`value + by`, with a trailing constant merged."""
    match value:
        case Lit(number):
            return Lit(number + by)
        case Sum(op, left, Lit(number)):
            total = by + (number if op == "+" else -number)
            return _shifted(left, total) if total == 0 else Sum("+" if total > 0 else "-", left, Lit(abs(total)))
        case _:
            return value if by == 0 else Sum("+" if by > 0 else "-", value, Lit(abs(by)))


def _rebuilt(nodes: tuple[Node, ...], assign: Callable[[Assign], Assign]) -> tuple[Node, ...]:
    """The same nodes with every assignment replaced by assign(it), in textual order."""
    result: list[Node] = []
    for node in nodes:
        match node:
            case Assign():
                result.append(assign(node))
            case For():
                result.append(replace(node, body=_rebuilt(node.body, assign)))
            case If():
                then = _rebuilt(node.then, assign)
                result.append(replace(node, then=then, otherwise=_rebuilt(node.otherwise, assign)))
            case Temp():
                result.append(node)
    return tuple(result)


def tame(program: Program, trace: Trace) -> Program:
    """Keep the accesses, and give up arithmetic until no value can exceed EXACT.

    Statements are damped one after the other, last first, which ends: a program whose statements are all damped
    only copies values around.
    """
    damped = len(list(assignments(program.body)))
    original = program.body
    while trace.magnitude > EXACT and damped:
        damped -= 1
        program = replace(program, body=_rebuilt(original, _damping_from(damped)))
        trace = interpret(program, worst_data(program))
    assert trace.magnitude <= EXACT
    return program


def _damping_from(first: int) -> Callable[[Assign], Assign]:
    """For `_rebuilt`: damps the statements whose textual number is `first` or more."""
    numbers = count()
    return lambda node: _damped(node) if next(numbers) >= first else node


def _damped(node: Assign) -> Assign:
    """The same accesses without growth: `x op= f(loads)` becomes `x = 0 * x + 0 * load + … + last load`."""
    reads = list(loads(node.value))
    if node.op != "=":
        reads.insert(0, Load(node.array, node.subscripts))
    if not reads:
        return replace(node, op="=")
    value: Data = reads[-1]
    for read in reversed(reads[:-1]):
        value = Binary("+", Binary("*", Num(0), read), value)
    return Assign(node.array, node.subscripts, "=", value)
