"""Loops are cut where a choice between elements of tensors, or an element and a constant, changes.

before:    for j in [0, 7): o[i][j] = j < 4 ? a[i][j] : b[i][j - 4]
after:     for j in [0, 4): o[i][j] = a[i][j];  for j in [0, 3): o[i][j + 4] = b[i][j]
requires:  the condition depends on one loop's variable alone

Rows of concatenated tensors are copied as they lie then, and so are those of an image with zeros around it: a load
under a condition is one that compilers do not make vectors of.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, pairwise

from polydl.torch_backend.formulas import inside
from polydl.torch_backend.loop_index import ZERO, Index, Quotient, Var, number, of_var
from polydl.torch_backend.loop_program import (
    Array,
    At,
    Const,
    Declare,
    Expr,
    Inside,
    Load,
    Loop,
    Op,
    Program,
    Statement,
    Store,
    When,
    parts,
    statements,
    values,
)

MOST_CUTS = 8
"""Of all loops of a program: there is a nest for each piece, and a search for each nest."""


def cut(program: Program) -> Program:
    """The program in as many pieces as its choices ask for, in the order in which they ran."""
    used = [one.var.number for one in statements(program.body) if isinstance(one, Loop)]
    return replace(program, body=tuple(_Cutter(1 + max(used, default=0)).body(program.body)))


class _Cutter:
    """Cuts loops, outer ones first, until there are enough pieces."""

    def __init__(self, first: int) -> None:
        self._numbers = count(first)
        self._copies = count()
        self._left = MOST_CUTS

    def body(self, many: Sequence[Statement]) -> list[Statement]:
        return [piece for one in many for piece in self._pieces(one)]

    def _pieces(self, one: Statement) -> Iterator[Statement]:
        if isinstance(one, When):
            yield When(one.condition, self.body(one.body))
        elif not isinstance(one, Loop):
            yield one
        elif not (places := _places(one)) or len(places) > self._left:
            yield Loop(one.var, one.begin, one.end, self.body(one.body))
        else:
            self._left -= len(places)
            for first, end in pairwise((0, *places, one.var.extent)):
                var = replace(one.var, number=next(self._numbers), extent=end - first)
                copy = _Copy({one.var: of_var(var) + first}, self._numbers, f"p{next(self._copies)}")
                yield Loop(var, ZERO, number(var.extent), self.body(copy.body(one.body)))


def _places(loop: Loop) -> list[int]:
    """Values of a loop's variable from which on a choice that reads a tensor is another one."""
    if loop.begin != ZERO or loop.end != number(loop.var.extent):
        return []
    found: set[int] = set()
    for value in (value for one in statements(loop.body) for value in values(one)):
        for part in parts(value):
            match part:
                case Op("?:", (condition, *arms), _) if any(map(_reads_tensor, arms)):
                    found.update(place for test in _tests(condition) for place in _change(test, loop.var))
    return sorted(place for place in found if 0 < place < loop.var.extent)


def _reads_tensor(value: Expr) -> bool:
    return any(isinstance(one, Load) and one.array.shape for one in parts(value))


def _tests(condition: Expr) -> Iterator[Index]:
    for one in parts(condition):
        if isinstance(one, Inside):
            yield from one.tests


def _change(test: Index, var: Var) -> Iterator[int]:
    """The value of a variable from which on an index that rises or falls with it alone is at least 0, or is not."""
    if _is_monotone(test, var):
        first = _at(test, var, 0) >= 0
        yield bisect_left(range(var.extent), True, key=lambda value: (_at(test, var, value) >= 0) != first)


def _is_monotone(index: Index, var: Var) -> bool:
    match index.terms:
        case ((Var() as one, _),):
            return one == var
        case ((Quotient(of, _), _),):
            return _is_monotone(of, var)
    return False


def _at(index: Index, var: Var, value: int) -> int:
    return index.replaced({var: number(value)}).constant


class _Copy:
    """Statements with indices in place of variables, with loops of their own, and without conditions that are known."""

    def __init__(self, by: Mapping[Var, Index], numbers: Iterator[int], suffix: str) -> None:
        self._by, self._numbers, self._suffix = dict(by), numbers, suffix
        self._arrays: dict[Array, Array] = {}

    def body(self, many: Sequence[Statement]) -> list[Statement]:
        return [copy for one in many for copy in self._statement(one)]

    def _statement(self, one: Statement) -> Sequence[Statement]:
        match one:
            case Loop(var, begin, end, inner):
                made = replace(var, number=next(self._numbers))
                self._by[var] = of_var(made)
                return [Loop(made, self._index(begin), self._index(end), self.body(inner))]
            case When(condition, inner):
                known = self._value(condition)
                if not isinstance(known, Const):
                    return [When(known, self.body(inner))]
                return self.body(inner) if known.value else []
            case Store(array, index, value, op):
                return [Store(self._array(array), tuple(map(self._index, index)), self._value(value), op)]
            case Declare(array, first):
                self._arrays[array] = replace(array, name=f"{array.name}_{self._suffix}")
                return [Declare(self._arrays[array], None if first is None else self._value(first))]
        return [one]

    def _array(self, array: Array) -> Array:
        return self._arrays.get(array, array)

    def _index(self, index: Index) -> Index:
        return index.replaced(self._by, self._value)

    def _value(self, value: Expr) -> Expr:
        match value:
            case Load(array, index):
                return Load(self._array(array), tuple(map(self._index, index)))
            case At(index, element):
                return At(self._index(index), element)
            case Inside(tests, element):
                moved = tuple(map(self._index, tests))
                if any(one.range[1] < 0 for one in moved):
                    return Const(0, element)
                return inside(*moved) or Const(1, element)
            case Op("?:", (condition, one, other), element):
                known = self._value(condition)
                if isinstance(known, Const):
                    return self._value(one if known.value else other)
                return Op("?:", (known, self._value(one), self._value(other)), element)
            case Op(op, args, element):
                return Op(op, tuple(map(self._value, args)), element)
        return value
