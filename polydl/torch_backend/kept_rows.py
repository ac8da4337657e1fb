"""Values that take long and that several loops over a row compute are kept in a row of their own.

before:    for j: s += erf(x[i][j]);  for j: y[i][j] = erf(x[i][j]) - s
after:     for j: { kept[j] = erf(x[i][j]); s += kept[j]; }  for j: y[i][j] = kept[j] - s
requires:  loops side by side over the same range, in which the value is computed whatever the data are, of elements and
           variables that nothing writes from the first to the last of them

Operators say what an element is, and each loop that reads one computes it: a norm behind GELU would compute erf in each
of its three loops. PyTorch's own kernels have the row in memory between.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import prod

from polydl.model.functions import function_of
from polydl.torch_backend.loop_index import ZERO, Chosen, Index, Var, number, of_var
from polydl.torch_backend.loop_program import (
    Array,
    At,
    Comment,
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

WORTH = 40.0
"""Vector instructions that a row must save for each of its vectors: storing and loading it takes a few, and the row
takes room in the caches."""
MOST_BYTES = 256 << 10
"""Of a row: within a core's own caches, and on each thread's stack."""


def kept(program: Program) -> Program:
    """The program in which no loop computes again what took long in one beside it."""
    return replace(program, body=tuple(_block(program.body, count(1))))


@dataclass(frozen=True, slots=True)
class _Nest:
    """Loops around one block of assignments, in a block of statements."""

    place: int
    """In the block."""
    variables: tuple[Var, ...]
    body: list[Statement]
    """Of the innermost loop."""

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(var.extent for var in self.variables)


@dataclass(frozen=True, slots=True)
class _Value:
    """What an expression computes, whatever loop it stands in."""

    number: int
    slow: float
    """Vector instructions of the functions in it."""
    within: frozenset[int]
    """The numbers of all values that it is made of, its own among them."""
    reads: frozenset[Array]


def _block(body: Sequence[Statement], names: Iterator[int]) -> list[Statement]:
    found = [
        replace(one, body=_block(one.body, names)) if isinstance(one, Loop | When) else one for one in body
    ]  # inner blocks first
    by_extents: dict[tuple[int, ...], list[_Nest]] = {}
    for place, one in enumerate(found):
        nest = _nest(place, one)
        if nest is not None:
            by_extents.setdefault(nest.extents, []).append(nest)
    declared: list[tuple[int, Statement]] = []
    for nests in by_extents.values():
        while len(nests) > 1 and (row := _Values(nests, _written(found)).row(names)) is not None:
            declared.append(row)
    for place, one in sorted(declared, key=lambda pair: -pair[0]):
        found.insert(place, one)
    return found


def _nest(place: int, one: Statement) -> _Nest | None:
    """None for what is no nest of loops from 0 to a number, of assignments alone."""
    variables: list[Var] = []
    while isinstance(one, Loop):
        if one.begin != ZERO or one.end != number(one.var.extent) or type(one.var.extent) is not int:
            return None
        variables.append(one.var)
        if all(isinstance(inner, Declare | Store | Comment) for inner in one.body):
            return _Nest(place, tuple(variables), one.body)
        if len(one.body) != 1:
            return None
        one = one.body[0]
    return None


def _written(body: Sequence[Statement]) -> Mapping[Array, list[int]]:
    """By array the places of the statements of a block that write it."""
    found: dict[Array, list[int]] = {}
    for place, outer in enumerate(body):
        for one in statements([outer]):
            if isinstance(one, Store | Declare):
                found.setdefault(one.array, []).append(place)
    return found


@dataclass(slots=True)
class _Values:
    """The values of several nests with the same extents, equal ones under one number."""

    nests: Sequence[_Nest]
    written: Mapping[Array, list[int]]
    known: dict[Hashable, _Value] = field(default_factory=dict)
    always: dict[int, set[int]] = field(default_factory=dict)
    """By value the nests, by their places among them, that compute it whatever the data are."""
    every: dict[int, _Value] = field(default_factory=dict)

    def row(self, names: Iterator[int]) -> tuple[int, Statement] | None:
        """Keeps the value that saves the most in a row: (place in the block, declaration of the row). The bodies of the
        nests are changed. None where none is worth it."""
        local = [self._noted(at, nest) for at, nest in enumerate(self.nests)]
        best = max(filter(self._possible, self.every.values()), key=self._rank, default=None)
        if best is None or self._saved(best) < WORTH:
            return None
        users = sorted(self.always[best.number])
        first = self.nests[users[0]]
        element = next(
            value.type
            for one in first.body
            for whole in values(one)
            for value in parts(whole)
            if self._of(value, local[users[0]], first).number == best.number
        )
        if prod(first.extents) * element.bytes > MOST_BYTES:
            return None
        array = Array(f"kept{next(names)}", element, first.extents)
        for at in range(len(self.nests)):
            self._replaced(at, local[at], best.number, array, begins=at == users[0])
        return first.place, Declare(array)

    def _possible(self, one: _Value) -> bool:
        """Whether a value is the same in all nests that compute it: nothing that it reads is written in between."""
        places = [self.nests[at].place for at in self.always.get(one.number, ())]
        return len(places) > 1 and not any(
            min(places) <= place <= max(places) for array in one.reads for place in self.written.get(array, ())
        )

    def _saved(self, one: _Value) -> float:
        return one.slow * (len(self.always[one.number]) - 1)

    def _rank(self, one: _Value) -> tuple[float, int]:
        """Of values that save as much, the one that the most is part of."""
        return self._saved(one), len(one.within)

    def _noted(self, at: int, nest: _Nest) -> dict[Array, _Value]:
        """Looks at a nest's values; those of its own variables."""
        local: dict[Array, _Value] = {}
        for one in nest.body:
            for value in values(one):
                made = self._of(value, local, nest)
                for inner in _unconditional(value):
                    self.always.setdefault(self._of(inner, local, nest).number, set()).add(at)
                if isinstance(one, Declare):
                    local[one.array] = made
        return local

    def _of(self, value: Expr, local: Mapping[Array, _Value], nest: _Nest) -> _Value:
        slow, reads = 0.0, frozenset[Array]()
        inside: list[_Value] = []
        match value:
            case Const(constant, element):
                key: Hashable = ("number", repr(constant), element.name)
            case Load(array, _) if array in local:
                return local[array]
            case Load(array, index):
                key, reads = (array, self._canonical(index, nest)), frozenset([array])
            case At(index, element):
                key = (self._canonical((index,), nest), element.name)
            case Inside(tests):
                key = ("inside", self._canonical(tests, nest))
            case Op(op, args, element):
                inside = [self._of(one, local, nest) for one in args]
                key = (op, element.name, *(one.number for one in inside))
                function = function_of(op) if op.isidentifier() else None
                if function is not None and not function.cheap:
                    slow = function.vector.instructions if function.vector is not None else WORTH
        if key not in self.known:
            fresh = len(self.known)
            # A part that is there several times is computed once.
            apart = {one.number: one for one in inside}.values()
            within = frozenset([fresh]).union(*(one.within for one in apart))
            self.known[key] = _Value(
                fresh, slow + sum(one.slow for one in apart), within, reads.union(*(one.reads for one in apart))
            )
            self.every[fresh] = self.known[key]
        return self.known[key]

    def _canonical(self, index: Sequence[Index], nest: _Nest) -> Hashable:
        """Subscripts with the variables of the first nest in place of a nest's own. What data choose is equal to
        nothing else."""
        if any(isinstance(atom, Chosen) for one in index for atom, _ in one.terms):
            return object()
        own = {var: of_var(other) for var, other in zip(nest.variables, self.nests[0].variables, strict=True)}
        return tuple(one.replaced(own, lambda value: value) for one in index)

    def _replaced(self, at: int, local: Mapping[Array, _Value], wanted: int, array: Array, *, begins: bool) -> None:
        """A nest in which a value is an element of the row, which the first statement that has it stores before."""
        nest = self.nests[at]
        element = Load(array, tuple(of_var(var) for var in nest.variables))
        made: list[Statement] = []
        missing = begins

        def changed(value: Expr) -> Expr:
            if not isinstance(value, Const | Load) and self._of(value, local, nest).number == wanted:
                return element
            if isinstance(value, Op):
                return replace(value, args=tuple(map(changed, value.args)))
            return value

        for one in nest.body:
            if missing:
                begin = next((v for whole in values(one) for v in parts(whole) if changed(v) is element), None)
                if begin is not None:
                    made.append(Store(array, element.index, begin))
                    missing = False
            match one:
                case Store(target, index, value, op):
                    made.append(Store(target, index, changed(value), op))
                case Declare(target, value) if value is not None:
                    made.append(Declare(target, changed(value)))
                case _:
                    made.append(one)
        nest.body[:] = _used(made)


def _unconditional(value: Expr) -> Iterator[Expr]:
    """A value and those that it is made of which are computed whatever the data are."""
    yield value
    match value:
        case Op("?:", (condition, *_), _):
            yield from _unconditional(condition)
        case Op("&&" | "||", (first, *_), _):
            yield from _unconditional(first)
        case Op(_, args, _):
            for one in args:
                yield from _unconditional(one)


def _used(body: Sequence[Statement]) -> list[Statement]:
    """Without variables that nothing reads."""
    read: set[Array] = set()
    found: list[Statement] = []
    for one in reversed(body):
        if isinstance(one, Declare) and not one.array.shape and one.array not in read:
            continue
        read |= {part.array for whole in values(one) for part in parts(whole) if isinstance(part, Load)}
        found.append(one)
    return found[::-1]
