"""`polydl.build`: programs that are made in Python, without a file.

    b = polydl.build("linear")
    M, N, K = b.sizes("M N K")
    X, W, bias, Y = b.arrays("float", X=(M, K), W=(K, N), bias=(N,), Y=(M, N))
    with b.loops(i=M, j=N) as (i, j):
        Y[i, j] = bias[j]
        with b.loop("k", K) as k:
            Y[i, j] += X[i, k] * W[k, j]
        Y[i, j] = b.call("fmax", Y[i, j], 0.0)
    scop = b.scop()

Such a scop is what the front end makes of the C that it stands for, which is its `source`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from polydl.base.errors import InputError
from polydl.model.at_sizes import check_inside
from polydl.model.build_scop import Block, BuiltArray, Loop, Made, Stored
from polydl.model.build_terms import (
    Comparison,
    Index,
    Number,
    Read,
    Term,
    Update,
    call,
    cast,
    index,
    indices,
    reads,
    select,
    symbol,
    term,
)
from polydl.model.scop import Scop
from polydl.model.types import I32, SPECIFIERS, element_type

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")
_RESERVED = "polydl_"
"""Begins names in the output."""
_KEYWORDS = SPECIFIERS | {
    "auto", "break", "case", "const", "continue", "default", "do", "else", "enum", "extern", "for", "goto", "if",
    "inline", "register", "restrict", "return", "sizeof", "static", "struct", "switch", "typedef", "union", "void",
    "volatile", "while",
}  # fmt: skip
Bound = Index | int | tuple[Index | int, Index | int]
"""Where a loop ends, or where it begins and ends: the end is no iteration."""


class Builder:
    """A program that is being built: one function."""

    def __init__(self, function: str) -> None:
        self._function = function
        self._named: dict[str, Index | BuiltArray | Read] = {}
        """What the function declares, in the order of its parameters."""
        self._check_name(function)
        self._statements: list[Stored] = []
        self._assumed: list[Comparison] = []
        self._blocks = [Block("")]
        """Where statements are put, the outermost first."""
        self._loops: list[Loop] = []
        self._conditions: list[Comparison] = []
        self._counts = [0]
        """How many statements and loops there are so far, by the number of loops around."""

    def size(self, name: str) -> Index:
        """An integer parameter of the function, of which bounds and extents are made."""
        self._declare(name, found := symbol(name))
        return found

    def sizes(self, names: str) -> tuple[Index, ...]:
        """Several, their names between spaces."""
        return tuple(self.size(name) for name in names.split())

    def scalar(self, name: str, element: str) -> Read:
        """A number that the function is given; `element`: its type in C."""
        self._declare(name, found := Read(self, name, element_type(element), ()))
        return found

    def array(self, name: str, element: str, *shape: Index | int) -> BuiltArray:
        """An array that the function is given; `element`: the type of its elements in C."""
        return self._array(name, element, shape, own=False)

    def arrays(self, element: str, **shapes: tuple[Index | int, ...]) -> tuple[BuiltArray, ...]:
        """Several by name, with their extents."""
        return tuple(self.array(name, element, *shape) for name, shape in shapes.items())

    def temporary(self, name: str, element: str, *shape: Index | int) -> BuiltArray:
        """An array of the function's own, or a variable (`t[()]`) without extents."""
        return self._array(name, element, shape, own=True)

    @contextmanager
    def loop(self, name: str, bound: Bound) -> Iterator[Index]:
        """A loop up to a bound, which is no iteration, or over a pair of bounds."""
        self._check_name(name)
        begin, end = bound if isinstance(bound, tuple) else (0, bound)
        loop = Loop(name, index(begin, "a bound"), index(end, "a bound"))
        self._in_scope((loop.begin, loop.end), f"a bound of the loop '{name}'")
        if name in self._named or any(outer.name == name for outer in self._loops):
            raise InputError(f"'{name}' is there already", hint="give the loop another name")
        block = Block(loop.head())
        self._blocks[-1].items.append(block)
        self._loops.append(loop)
        self._blocks.append(block)
        self._counts.append(0)
        try:
            yield symbol(name)
        finally:
            self._counts.pop()
            self._counts[-1] += 1
            self._blocks.pop()
            self._loops.pop()

    @contextmanager
    def loops(self, **bounds: Bound) -> Iterator[tuple[Index, ...]]:
        """Loops inside each other by name, the outermost first."""
        if not bounds:
            raise InputError("loops without bounds", hint="name them, as in loops(i=M, j=N)")
        (name, bound), *rest = bounds.items()
        with self.loop(name, bound) as outer:
            if not rest:
                yield (outer,)
                return
            with self.loops(**dict(rest)) as inner:
                yield (outer, *inner)

    @contextmanager
    def when(self, condition: Comparison) -> Iterator[None]:
        """What runs only where a condition on indices holds."""
        condition.holds()
        self._in_scope(indices(condition), "the condition")
        block = Block(f"if {condition.c(I32)}")
        self._blocks[-1].items.append(block)
        self._blocks.append(block)
        self._conditions.append(condition)
        try:
            yield
        finally:
            self._conditions.pop()
            self._blocks.pop()

    def assume(self, condition: Comparison) -> None:
        """What holds for the sizes whenever the function is called."""
        condition.holds()
        wrong = [name for one in indices(condition) for name in one.names if name not in self._named]
        if wrong:
            raise InputError(f"'{wrong[0]}' is no size", hint="assume(…) is about sizes alone")
        self._assumed.append(condition)

    def call(self, function: str, *arguments: Term | Number) -> Term:
        """A function of <math.h> by its name for doubles; of floats the one for floats is called: `expf`."""
        return call(function, *arguments)

    def select(self, condition: Comparison, then: Term | Number, otherwise: Term | Number) -> Term:
        """`then` where a condition holds, which may be one on data, and else `otherwise`."""
        return select(condition, then, otherwise)

    def cast(self, element: str, value: Term | Number) -> Term:
        """A value in another type of C."""
        return cast(element_type(element), value)

    def store(self, target: Read, value: Term | Number | Update) -> None:
        """What `A[i, j] = value` and `A[i, j] += value` do. Raises InputError."""
        op, stored = (value.op, value.value) if isinstance(value, Update) else ("=", term(value))
        if isinstance(value, Update) and not value.target.same(target):
            raise InputError(f"'{value.target.array}' is updated, and stored in '{target.array}'")
        for one in (target, *reads(stored)):
            if one.program is not self:
                raise InputError(f"'{one.array}' is an array of another program", hint="make one here, by array(…)")
            self._in_scope(one.subscripts, f"a subscript of '{one.array}'")
        self._in_scope(indices(stored), f"what '{target.array}' is given")
        position = (*self._counts[:-1], self._counts[-1])
        made = Stored(target, op, stored, tuple(self._loops), tuple(self._conditions), position)
        self._counts[-1] += 1
        self._blocks[-1].items.append(made)
        self._statements.append(made)

    def scop(self) -> Scop:
        """The program. Raises InputError where it computes nothing, and for subscripts that leave their arrays at all
        sizes."""
        if not self._statements:
            raise InputError(f"'{self._function}' computes nothing", hint="store to an element: Y[i] = …")
        made = Made(self._function, self._named, self._statements, self._blocks[0], self._assumed).scop()
        check_inside(made)
        return made

    def _array(self, name: str, element: str, shape: Sequence[Index | int], *, own: bool) -> BuiltArray:
        extents = tuple(index(one, f"an extent of '{name}'") for one in shape)
        wrong = [one for extent in extents for one in extent.names if not isinstance(self._named.get(one), Index)]
        if wrong:
            raise InputError(f"'{wrong[0]}' is no size of '{self._function}'", hint="extents are made of sizes")
        self._declare(name, made := BuiltArray(self, name, element_type(element), extents, own))
        return made

    def _declare(self, name: str, value: Index | BuiltArray | Read) -> None:
        self._check_name(name)
        if name in self._named:
            raise InputError(f"'{name}' is there already", hint="give it another name")
        self._named[name] = value

    def _check_name(self, name: str) -> None:
        if not _NAME.match(name) or name in _KEYWORDS:
            raise InputError(f"'{name}' is no name in C")
        if name.startswith(_RESERVED):
            raise InputError(f"'{name}' begins with '{_RESERVED}', as names in the output do")

    def _in_scope(self, several: Sequence[Index], what: str) -> None:
        """Raises InputError for loop variables outside of their loops, and for sizes of other programs."""
        loops = [loop.name for loop in self._loops]
        for name in (name for one in several for name in one.names):
            if name not in loops and not isinstance(self._named.get(name), Index):
                around = f"the loops here are {', '.join(loops)}" if loops else "there is no loop here"
                raise InputError(f"{what} uses '{name}', which is no loop variable or size here", hint=around)


def build(function: str) -> Builder:
    """A program to be built in Python: a function of this name, to which arrays, loops and statements are added.

    >>> import numpy as np, polydl
    >>> b = polydl.build("scale")
    >>> n = b.size("n")
    >>> a = b.scalar("a", "float")
    >>> x, y = b.arrays("float", x=(n,), y=(n,))
    >>> with b.loop("i", n) as i:
    ...     y[i] = a * x[i]
    >>> scale = polydl.compile(b.scop(), {"n": 4}, tune=False, threads=1)
    >>> scale(2, np.arange(4, dtype=np.float32))
    array([0., 2., 4., 6.], dtype=float32)
    """
    return Builder(function)
