"""Executes a program of the oracle's language by brute force, recording everything it touches in order.

Data are Python integers, so nothing is ever rounded; `Trace.magnitude` bounds every value that any order of the
program's additions and multiplications can produce, which tells whether a C type computes the same exactly.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import assert_never

from tests.oracle.language import (
    Assign,
    Binary,
    Compare,
    Cond,
    Data,
    DivMod,
    For,
    If,
    Int,
    IntValue,
    Lit,
    Load,
    Logic,
    MinMax,
    Negate,
    Node,
    Not,
    Num,
    Program,
    Scale,
    Sum,
    Temp,
    Var,
)

Element = tuple[str, tuple[int, ...]]
"""An array's name and an index."""

Memory = dict[Element, int]

LARGEST_DATUM = 3
"""No initial value exceeds this in absolute value."""

SATURATED = 2**60
"""Values stop growing here: a `Trace.magnitude` of this size says that the contents of memory mean nothing."""

MAX_INSTANCES = 4000
"""Executed statements after which a program is given up."""


class TooLong(Exception):
    """The program executes more than MAX_INSTANCES statements or loops without end."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One execution of a statement."""

    statement: int
    """Textual number, from 0."""
    iterators: tuple[int, ...]
    """Values of the surrounding loop variables, outermost first."""
    loops: tuple[int, ...]
    """Which loops surround it, outermost first: textual numbers of the loops. Shared loops are a common prefix."""
    reads: tuple[Element, ...]
    """In evaluation order; a compound assignment reads its target first."""
    write: Element

    @property
    def touched(self) -> tuple[Element, ...]:
        """Reads, then the write."""
        return (*self.reads, self.write)


@dataclass(frozen=True, slots=True)
class Trace:
    """A recorded execution."""

    instances: tuple[Instance, ...]
    """In execution order."""
    memory: Mapping[Element, int]
    """Contents afterwards of every element that was given or touched."""
    magnitude: int
    """No value in any reassociated execution exceeds this in absolute value."""
    index_range: Mapping[tuple[str, int], tuple[int, int]]
    """(array, dimension) -> smallest and largest subscript used."""


def initial_data(program: Program, seed: int = 0) -> Memory:
    """Reproducible small integers (-2 to 3, mostly non-zero) for every element of every array."""
    generator = random.Random(f"{seed}")
    choice = (-2, -1, 1, 2, LARGEST_DATUM, 0)
    memory: Memory = {}
    for name, array in program.arrays.items():
        for index in product(*(range(e) for e in array.extents)):
            memory[name, index] = generator.choice(choice)
    return memory


def worst_data(program: Program) -> Memory:
    """The largest absolute value of `initial_data`, everywhere."""
    return dict.fromkeys(initial_data(program), LARGEST_DATUM)


def interpret(program: Program, data: Mapping[Element, int] | None = None) -> Trace:
    """Execute `program` on `data` (by default `initial_data(program)`), which is not changed.

    Elements outside the extents start as 1 and are allowed: check `Trace.index_range` where that matters.
    Raises TooLong.
    """
    run = _Run(program, dict(initial_data(program) if data is None else data))
    run.block(program.body, (), ())
    return Trace(tuple(run.instances), run.memory, run.magnitude, run.index_range)


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "|": operator.or_,
    "&": operator.and_,
    "^": operator.xor,
}


def _apply(op: str, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """`a op b` on (value, bound of its absolute value) pairs, both kept within SATURATED: repeated squaring makes
    integers too long to compute with."""
    value = _ARITHMETIC[op](a[0], b[0])
    return max(-SATURATED, min(SATURATED, value)), min(SATURATED, _bound(op, a[1], b[1]))


def _bound(op: str, a: int, b: int) -> int:
    """Largest absolute value of `x op y` for |x| <= a, |y| <= b."""
    if op == "*":
        return a * b
    if op in "+-":
        return a + b
    return 2 * max(a, b) + 1  # two's complement: a bit operation stays below the next power of two


class _Run:
    def __init__(self, program: Program, memory: Memory) -> None:
        self.memory = memory
        self.bounds: Memory = {element: abs(value) for element, value in memory.items()}
        self.magnitude = max(self.bounds.values(), default=0)
        self.environment = dict(program.parameters)
        self.instances: list[Instance] = []
        self.index_range: dict[tuple[str, int], tuple[int, int]] = {}
        self.statement_number: dict[int, int] = {}
        self.loop_number: dict[int, int] = {}
        self.reads: list[Element] = []
        self.steps = 0
        # Equal nodes can stand in two places, so they are numbered by identity, in textual order.
        self._number(program.body)

    def _number(self, nodes: tuple[Node, ...], path: tuple[int, ...] = ()) -> None:
        for node in nodes:
            match node:
                case Assign():
                    assert id(node) not in self.statement_number, "one node object in two places"
                    self.statement_number[id(node)] = len(self.statement_number)
                case For():
                    assert id(node) not in self.loop_number, "one node object in two places"
                    self.loop_number[id(node)] = len(self.loop_number)
                    self._number(node.body)
                case If():
                    self._number(node.then)
                    self._number(node.otherwise)
                case Temp():
                    pass

    def block(self, nodes: tuple[Node, ...], iterators: tuple[int, ...], loops: tuple[int, ...]) -> None:
        for node in nodes:
            match node:
                case Assign():
                    self.assign(node, iterators, loops)
                case Temp(name, value):
                    self.environment[name] = self.integer(value)
                case If(condition, then, otherwise):
                    self.block(then if self.cond(condition) else otherwise, iterators, loops)
                case For():
                    self.loop(node, iterators, loops)
                case _:
                    assert_never(node)

    def loop(self, node: For, iterators: tuple[int, ...], loops: tuple[int, ...]) -> None:
        value = self.integer(node.start)
        inside = (*loops, self.loop_number[id(node)])
        outer = self.environment.get(node.var)
        # As in C: the bound is evaluated before each iteration.
        while True:
            self.environment[node.var] = value
            if not _COMPARE[node.op](value, self.integer(node.bound)):
                break
            self.tick()
            self.block(node.body, (*iterators, value), inside)
            value += node.step
        if outer is None:
            del self.environment[node.var]
        else:
            self.environment[node.var] = outer

    def tick(self) -> None:
        self.steps += 1
        if self.steps > 4 * MAX_INSTANCES or len(self.instances) > MAX_INSTANCES:
            raise TooLong

    def assign(self, node: Assign, iterators: tuple[int, ...], loops: tuple[int, ...]) -> None:
        self.tick()
        self.reads = []
        target = self.element(node.array, node.subscripts)
        if node.op == "=":
            value, bound = self.data(node.value)
        else:
            old = self.load(target)
            value, bound = _apply(node.op[:-1], old, self.data(node.value))
        self.memory[target] = value
        self.bounds[target] = bound
        self.magnitude = max(self.magnitude, bound)
        number = self.statement_number[id(node)]
        self.instances.append(Instance(number, iterators, loops, tuple(self.reads), target))

    def element(self, array: str, subscripts: tuple[Int, ...]) -> Element:
        index = tuple(self.integer(s) for s in subscripts)
        for dimension, value in enumerate(index):
            low, high = self.index_range.get((array, dimension), (value, value))
            self.index_range[array, dimension] = (min(low, value), max(high, value))
        return array, index

    def load(self, element: Element) -> tuple[int, int]:
        self.reads.append(element)
        return self.memory.setdefault(element, 1), self.bounds.setdefault(element, 1)

    def integer(self, value: Int) -> int:
        match value:
            case Lit(number):
                return number
            case Var(name):
                return self.environment[name]
            case Sum(op, left, right):
                return _ARITHMETIC[op](self.integer(left), self.integer(right))
            case Scale(factor, operand):
                return factor * self.integer(operand)
            case DivMod(op, operand, divisor):
                dividend = self.integer(operand)
                quotient = abs(dividend) // divisor * (1 if dividend >= 0 else -1)  # C truncates towards zero
                return quotient if op == "/" else dividend - quotient * divisor
            case MinMax(op, left, right):
                return (min if op == "min" else max)(self.integer(left), self.integer(right))
            case _:
                assert_never(value)

    def cond(self, condition: Cond) -> bool:
        match condition:
            case Compare(op, left, right):
                return _COMPARE[op](self.integer(left), self.integer(right))
            case Logic("&&", left, right):
                return self.cond(left) and self.cond(right)
            case Logic("||", left, right):
                return self.cond(left) or self.cond(right)
            case Not(operand):
                return not self.cond(operand)
            case _:
                raise ValueError(f"no such condition: {condition}")

    def data(self, value: Data) -> tuple[int, int]:
        """(value, bound of its absolute value in any reassociated execution)"""
        match value:
            case Num(number):
                result, bound = number, abs(number)
            case IntValue(inner):
                result = self.integer(inner)
                bound = abs(result)
            case Load(array, subscripts):
                return self.load(self.element(array, subscripts))
            case Negate(operand):
                result, bound = self.data(operand)
                result = -result
            case Binary(op, left, right):
                result, bound = _apply(op, self.data(left), self.data(right))
            case _:
                assert_never(value)
        self.magnitude = max(self.magnitude, bound)
        return result, bound
