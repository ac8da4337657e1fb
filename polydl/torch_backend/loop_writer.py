"""Writes the loops of a group. An operator says what one element of its result is, as a function of its subscripts;
what such a function needs first (sums of a row, a contraction) it writes as statements, and they are put in front of
the innermost loop on whose variable they do not depend, once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from polydl.model.types import ElementType
from polydl.torch_backend.loop_index import ZERO, Index, Var, number, of_var
from polydl.torch_backend.loop_program import (
    Array,
    Comment,
    Const,
    Declare,
    Expr,
    Load,
    Loop,
    Statement,
    Store,
    When,
    indices,
    parts,
)

Made = TypeVar("Made")


@dataclass(slots=True)
class _Block:
    """Statements that are being written."""

    statements: list[Statement]
    bound: frozenset[Var]
    """The variables of the loops around."""
    known: dict[Hashable, Any] = field(default_factory=dict)
    """Values that the block computed already."""
    conditional: bool = False
    """Whether nothing of it may be moved to an outer block."""


class Writer:
    """Statements in the order in which operators ask for them."""

    PIECES = 16
    """Numbers of variables for each loop, which may be taken apart into several."""

    def __init__(self, splits: dict[int, tuple[int, ...]] | None = None) -> None:
        self._blocks = [_Block([], frozenset())]
        self._loops = 0
        self._locals = 0
        self._guards = 0
        self._splits = splits or {}
        """By the number of a loop (in the order in which they are made) what the outer ones of several count by."""
        self.scratch: list[Array] = []
        """Arrays that nobody reads behind the loops."""
        self.scalars: dict[Array, frozenset[Var]] = {}
        """The scalars that were declared, and the variables on which each depends."""

    @property
    def body(self) -> list[Statement]:
        """What was written outside of every loop."""
        return self._blocks[0].statements

    @property
    def guarded(self) -> bool:
        """Whether what is asked for now is under a condition of an expression, so that no statement can be written."""
        return self._guards > 0

    @contextmanager
    def guard(self) -> Iterator[None]:
        """What is asked for inside is used under a condition."""
        self._guards += 1
        try:
            yield
        finally:
            self._guards -= 1

    def variables(self, extent: int, axis: int = -1) -> tuple[Index, list[Var]]:
        """A new index from 0 to below `extent`, and the variables of the loops over it, the outer one first."""
        first = self.PIECES * self._loops
        parts = self._splits.get(self._loops, ())
        self._loops += 1
        index, variables = ZERO, []
        for piece, (weight, above) in enumerate(zip((1, *parts), (*parts, extent), strict=True)):
            var = Var(first + piece, above // weight, axis, weight)
            index += of_var(var) * weight
            variables.append(var)
        return index, [one for one in reversed(variables) if one.extent > 1]

    @contextmanager
    def loops(self, variables: Sequence[Var]) -> Iterator[None]:
        """Loops over variables, the outermost first."""
        if not variables:
            yield
            return
        with self.between(variables[0], ZERO, number(variables[0].extent)), self.loops(variables[1:]):
            yield

    @contextmanager
    def between(self, var: Var, begin: Index, end: Index) -> Iterator[None]:
        """A loop over a variable from `begin` to below `end`."""
        loop = Loop(var, begin, end)
        self._blocks.append(_Block(loop.body, self._blocks[-1].bound | {var}))
        try:
            yield
        finally:
            self._blocks.pop()
            if loop.body:
                self._blocks[-1].statements.append(loop)

    @contextmanager
    def loop(self, extent: int, axis: int = -1) -> Iterator[Index]:
        """A loop from 0 to below `extent`."""
        index, variables = self.variables(extent, axis)
        with self.loops(variables):
            yield index

    @contextmanager
    def nest(self, sizes: Sequence[int]) -> Iterator[tuple[Index, ...]]:
        """Loops over all elements of a tensor."""
        made = [self.variables(size) for size in sizes]
        with self.loops([var for _, variables in made for var in variables]):
            yield tuple(index for index, _ in made)

    @contextmanager
    def when(self, condition: Expr) -> Iterator[None]:
        """What runs only where a condition holds."""
        found = When(condition)
        self._blocks.append(_Block(found.body, self._blocks[-1].bound, conditional=True))
        try:
            yield
        finally:
            self._blocks.pop()
            self._blocks[-1].statements.append(found)

    def comment(self, text: str) -> None:
        self._blocks[-1].statements.append(Comment(text))

    def variable(self, element: ElementType, value: Expr | int | float, name: str = "t") -> Load:
        """A new scalar with its first value."""
        first = Const(value, element) if isinstance(value, int | float) else value
        array = self._local(element, (), name)
        self._blocks[-1].statements.append(Declare(array, first))
        self.scalars[array] = self._blocks[-1].bound
        return Load(array, ())

    def array(self, element: ElementType, shape: tuple[int, ...], name: str) -> Array:
        """Memory for results of one nest that another one reads."""
        self.scratch.append(self._local(element, shape, name))
        return self.scratch[-1]

    def _local(self, element: ElementType, shape: tuple[int, ...], name: str) -> Array:
        self._locals += 1
        return Array(f"{name}{self._locals}", element, shape)

    def store(self, target: Load, value: Expr, op: str = "=") -> None:
        self._blocks[-1].statements.append(Store(target.array, target.index, value, op))

    def let(self, value: Expr) -> Expr:
        """The value, through a variable where that can be: for one that is used more than once."""
        if self.guarded or isinstance(value, Const | Load):
            return value
        return self.variable(value.type, value)

    def once(self, key: Hashable, free: frozenset[Var], make: Callable[[], Made]) -> Made:
        """What `make` gives, which may write statements. It depends on the variables `free` alone, and is written in
        front of all loops over others; what the same key gave there before is taken."""
        if self.guarded:
            return make()
        depth = self._depth(free)
        block = self._blocks[depth]
        if key not in block.known:
            inner, self._blocks = self._blocks, self._blocks[: depth + 1]
            try:
                block.known[key] = make()
            finally:
                self._blocks = inner
        found: Made = block.known[key]
        return found

    @contextmanager
    def outside(self, free: frozenset[Var]) -> Iterator[None]:
        """What is written inside stands in front of all loops over other variables than these."""
        inner, self._blocks = self._blocks, self._blocks[: self._depth(free) + 1]
        try:
            yield
        finally:
            self._blocks = inner

    def _depth(self, free: frozenset[Var]) -> int:
        least = max((at for at, block in enumerate(self._blocks) if block.conditional), default=0)
        return next(at for at, block in enumerate(self._blocks) if at >= least and free <= block.bound)

    def free(self, value: Expr) -> frozenset[Var]:
        """The loop variables on which a value depends, through scalars as well."""
        found: frozenset[Var] = frozenset()
        for one in indices(value):
            found |= one.variables
        for scalar in scalars_of(value):
            found |= self.scalars.get(scalar, frozenset())
        return found


def scalars_of(value: Expr) -> Iterator[Array]:
    """The scalars that a value is made of."""
    for one in parts(value):
        if isinstance(one, Load) and not one.array.shape:
            yield one.array
