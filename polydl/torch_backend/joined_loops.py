"""Loops over rows that lie behind each other in memory become one loop.

before:    for j in [0, 7): for k in [0, 7): o[i][j][k] = f(a[i][j][k])
after:     for j in [0, 49): o[i][j] = f(a[i][j])
requires:  all that uses j or k are subscripts [j][k] of dimensions of which the second is as long as its loop, and
           whatever else reads or writes these dimensions has two loops there that become one as well

A convolution with a window of one pixel is a product of matrices then, whose vectors and blocks do not end with each
row of the image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from polydl.torch_backend.loop_index import ZERO, Chosen, Index, Quotient, Remainder, Var, number, of_var
from polydl.torch_backend.loop_program import (
    Array,
    Declare,
    Expr,
    Load,
    Loop,
    Op,
    Program,
    Statement,
    Store,
    When,
    indices,
    parts,
    statements,
    values,
)

Pair = tuple[Var, Var]
"""Variables of two loops, of which the second is all that the first contains."""
Rows = tuple[Array, int]
"""Dimension of an array, which is joined with the one behind it."""


def joined(program: Program) -> Program:
    """The program with as few loops as that makes of it."""
    while True:
        pairs, rows = _joinable(program)
        if pairs:
            program = _rewritten(program, pairs, rows)
            continue
        parted = (_parted(program, pair) for pair in _nested(program.body))
        another = next((one for one, pair in zip(parted, _nested(program.body), strict=True)
                        if one is not None and pair in _joinable(one)[0]), None)  # fmt: skip
        if another is None:
            return program
        program = another


def _parted(program: Program, pair: Pair) -> Program | None:
    """The program with two dimensions [j][k] in place of one that is always [k + extent * j]; None without such."""
    outer, inner = pair
    both = of_var(outer) * inner.extent + of_var(inner)
    found: dict[Rows, bool] = {}
    for array, index in _uses(program).accesses:
        for d, subscript in enumerate(index):
            fits = subscript == both and array.shape[d] % inner.extent == 0
            found[array, d] = found.get((array, d), True) and fits
    places = {one for one, fits in found.items() if fits}
    if not places:
        return None
    arrays: dict[Array, Array] = {}
    for array in {array for array, _ in places}:
        shape = list(array.shape)
        for d in sorted((d for other, d in places if other is array), reverse=True):
            shape[d : d + 1] = [shape[d] // inner.extent, inner.extent]
        arrays[array] = replace(array, shape=tuple(shape))

    def subscripts(array: Array, index: tuple[Index, ...]) -> tuple[Index, ...]:
        made = list(index)
        for d in sorted((d for other, d in places if other is array), reverse=True):
            made[d : d + 1] = [of_var(outer), of_var(inner)]
        return tuple(made)

    return _with(program, arrays, subscripts, {})


@dataclass(frozen=True, slots=True)
class _Uses:
    """What a program does with arrays and variables."""

    accesses: Sequence[tuple[Array, tuple[Index, ...]]]
    elsewhere: frozenset[Var]
    """Variables that something else than a plain subscript depends on."""
    fixed: frozenset[Array]
    """Arrays that subscripts of others read."""


def _uses(program: Program) -> _Uses:
    accesses: list[tuple[Array, tuple[Index, ...]]] = []
    elsewhere: set[Var] = set()
    fixed: set[Array] = set()
    for one in statements(program.body):
        if isinstance(one, Loop):
            for bound in (one.begin, one.end):
                elsewhere |= bound.variables
                fixed |= set(_chosen(bound))
        if isinstance(one, Store):
            accesses.append((one.array, one.index))
        for value in values(one):
            for part in parts(value):
                if isinstance(part, Load):
                    accesses.append((part.array, part.index))
                elif not isinstance(part, Op):
                    for index in indices(part):
                        elsewhere |= index.variables
                        fixed |= set(_chosen(index))
    for _, subscripts in accesses:
        for index in subscripts:
            if index.terms and not _is_plain(index):
                elsewhere |= index.variables
                fixed |= set(_chosen(index))
    return _Uses(accesses, frozenset(elsewhere), frozenset(fixed))


def _is_plain(index: Index) -> bool:
    """Whether it is a variable alone."""
    return index.constant == 0 and len(index.terms) == 1 and isinstance(index.terms[0][0], Var) and (
        index.terms[0][1] == 1
    )  # fmt: skip


def _chosen(index: Index) -> Iterator[Array]:
    """The arrays whose elements an index depends on."""
    for atom, _ in index.terms:
        if isinstance(atom, Quotient | Remainder):
            yield from _chosen(atom.of)
        elif isinstance(atom, Chosen):
            for part in parts(atom.value):
                if isinstance(part, Load):
                    yield part.array
                for inner in indices(part):
                    yield from _chosen(inner)


def _nested(body: Sequence[Statement]) -> Iterator[Pair]:
    """Pairs of loops, inner ones first."""
    for one in body:
        if isinstance(one, Loop | When):
            yield from _nested(one.body)
        if isinstance(one, Loop) and _is_whole(one):
            match one.body:
                case [Loop() as inner] if _is_whole(inner):
                    yield one.var, inner.var


def _is_whole(loop: Loop) -> bool:
    return loop.begin == ZERO and loop.end == number(loop.var.extent)


def _joinable(program: Program) -> tuple[set[Pair], set[Rows]]:
    """Pairs of loops that can become one, no loop in two of them, and the dimensions that become one with them."""
    uses = _uses(program)
    pairs: set[Pair] = set()
    taken: set[Var] = set()
    allowed = set(_nested(program.body))
    found = _consistent(uses, allowed)
    for pair in _nested(program.body):
        if pair in found[0] and taken.isdisjoint(pair):
            pairs.add(pair)
            taken.update(pair)
    return _consistent(uses, pairs)


def _consistent(uses: _Uses, allowed: set[Pair]) -> tuple[set[Pair], set[Rows]]:
    """Those of the pairs all of whose uses are dimensions that can be joined, and these dimensions."""
    pairs = {pair for pair in allowed if uses.elsewhere.isdisjoint(pair)}
    while True:
        known = {(of_var(one), of_var(other)): (one, other) for one, other in pairs}
        at: dict[Rows, set[Pair] | None] = {}
        for array, index in uses.accesses:
            for d, subscripts in enumerate(pairwise(index)):
                pair = known.get(subscripts)
                before = at.setdefault((array, d), set())
                if pair is None or pair[1].extent != array.shape[d + 1] or array in uses.fixed:
                    at[array, d] = None
                elif before is not None:
                    before.add(pair)
        rows = {one for one, its in at.items() if its}
        wrong: set[Pair] = set()
        for array, index in uses.accesses:
            for d, subscript in enumerate(index):
                if not _is_plain(subscript):
                    continue
                (variable,) = subscript.variables
                for pair in pairs:
                    if variable in pair and (array, d - pair.index(variable)) not in rows:
                        wrong.add(pair)
        if not wrong:
            return pairs, rows
        pairs -= wrong


def _rewritten(program: Program, pairs: set[Pair], rows: set[Rows]) -> Program:
    one_for = {outer: Var(inner.number, outer.extent * inner.extent) for outer, inner in pairs}
    arrays: dict[Array, Array] = {}
    for array in {array for array, _ in rows}:
        shape = list(array.shape)
        for d in sorted((d for other, d in rows if other is array), reverse=True):
            shape[d : d + 2] = [shape[d] * shape[d + 1]]
        arrays[array] = replace(array, shape=tuple(shape))

    def subscripts(array: Array, index: tuple[Index, ...]) -> tuple[Index, ...]:
        found = list(index)
        for d in sorted((d for other, d in rows if other is array), reverse=True):
            (outer,) = found[d].variables
            found[d : d + 2] = [of_var(one_for[outer])]
        return tuple(found)

    return _with(program, arrays, subscripts, one_for)


def _with(
    program: Program,
    arrays: Mapping[Array, Array],
    subscripts: Callable[[Array, tuple[Index, ...]], tuple[Index, ...]],
    one_for: Mapping[Var, Var],
) -> Program:
    """The program with other arrays and subscripts, and other loops, each in place of one and the one inside of it."""

    def value(one: Expr) -> Expr:
        match one:
            case Load(array, index):
                return Load(arrays.get(array, array), subscripts(array, index))
            case Op(op, args, type_):
                return Op(op, tuple(map(value, args)), type_)
        return one

    def body(many: Sequence[Statement]) -> list[Statement]:
        return [statement(one) for one in many]

    def statement(one: Statement) -> Statement:
        match one:
            case Loop(var, _, _, [Loop() as inner]) if var in one_for:
                made = one_for[var]
                return Loop(made, ZERO, number(made.extent), body(inner.body))
            case Loop(var, begin, end, inside):
                return Loop(var, begin, end, body(inside))
            case When(condition, inside):
                return When(value(condition), body(inside))
            case Store(array, index, stored, op):
                return Store(arrays.get(array, array), subscripts(array, index), value(stored), op)
            case Declare(array, first):
                return Declare(arrays.get(array, array), None if first is None else value(first))
        return one

    every = (program.inputs, program.outputs, program.scratch)
    inputs, outputs, scratch = (tuple(arrays.get(one, one) for one in given) for given in every)
    return Program(inputs, outputs, tuple(body(program.body)), scratch)
