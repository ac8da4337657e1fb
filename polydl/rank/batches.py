"""Nests and structures in the form that the vectorised locality analysis takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from polydl.dependences.nests import Count1D, Nest
from polydl.locality.boxes import BoxAccess, BoxNest, LoopBatch
from polydl.model import isl
from polydl.model.layout import Layout, row_major
from polydl.model.scop import Array, Scop, Statement
from polydl.model.strides import affine_rows
from polydl.schedule.loops import NestLoops


def box_nest(scop: Scop, nest: Nest, *, hull: bool = False) -> BoxNest | None:
    """The nest with its loops counted from 0; None when it is no box, or a subscript is not affine.

    With hull=True a nest that is no box (triangles, statements with loops of their own) is taken for the box around
    its shared loops, which estimates may do and exact analyses may not; None only without constant bounds. Likewise
    an iterator in two subscripts of an access (a diagonal) is then kept in one of them: `A[i][i]` has as many elements
    as `A[i][0]`.
    """
    if not nest.box and not (hull and all(c.extent for c in nest.counts.values())):
        return None
    columns = {iterator: place for place, iterator in enumerate(nest.loops)}
    accesses: list[BoxAccess] = []
    for statement in nest.statements:
        found = box_accesses(statement, nest.counts, columns, len(columns), hull=hull)
        if found is None:
            return None
        accesses += found
    names = dict.fromkeys(a.array for a in accesses)
    stored = [scop.arrays[name].layout for name in names]
    if any(None in layout.axis_strides and not (layout.is_row_major or layout.packed) for layout in stored):
        return None
    bytes_of = {name: scop.arrays[name].element.bytes for name in names}
    extents = tuple(nest.counts[i].extent or 1 for i in nest.loops)
    return BoxNest(nest.loops, extents, tuple(accesses), bytes_of, layouts(scop, nest.statements, names))


def box_accesses(
    statement: Statement,
    counts: Mapping[str, Count1D],
    columns: Mapping[str, int],
    width: int,
    *,
    hull: bool,
    steps: Sequence[Sequence[int]] = (),
) -> list[BoxAccess] | None:
    """A statement's accesses as functions of counted iterators, each in its column of `width`; others are left out.

    None when a subscript is not affine; with hull=True, such an access is left out (see `box_nest`). With `steps`, they
    are functions of loops in place of the iterators: of each the step of the counted iterators that it makes.
    """
    result: list[BoxAccess] = []
    for access in statement.accesses:
        rows = affine_rows(statement, access)
        if rows is None and hull:
            continue
        if rows is None:
            return None
        coefficients = []
        offsets = []
        for row, constant in rows:
            moves = [0] * width
            for iterator, column in columns.items():
                count = counts[iterator]
                sign = -1 if iterator in statement.descending else 1
                moves[column] = row[iterator] * count.stride * sign
                constant += row[iterator] * count.first * sign
            if steps:
                own = [moves[column] for column in columns.values()]
                along = [sum(m * s for m, s in zip(own, step, strict=True)) for step in steps]
                for column, move in zip(columns.values(), along, strict=True):
                    moves[column] = move
            coefficients.append(tuple(moves))
            offsets.append(constant)
        subscripts = _pinned(coefficients) if steps else _separated(coefficients) if hull else tuple(coefficients)
        result.append(BoxAccess(access.array, subscripts, tuple(offsets), access.write, statement.name))
    return result


def layouts(scop: Scop, statements: Sequence[Statement], names: Iterable[str]) -> dict[str, Layout]:
    """Where the elements of arrays lie. A dimension without a known extent reaches as far as the statements do; a
    layout that cuts one is taken as row-major."""
    return {name: _layout(scop.arrays[name], statements) for name in names}


def _layout(array: Array, statements: Sequence[Statement]) -> Layout:
    if None not in array.layout.axis_strides:
        return array.layout
    known = array.layout.shape if array.layout.is_row_major else (None,) * array.layout.rank
    touched = [a.relation.range() for s in statements for a in s.accesses if a.array == array.name]
    shape = []
    for dim, extent in enumerate(known):
        reached = max(((isl.greatest(one, dim) or 0) + 1 for one in touched), default=1)
        shape.append(max(1, reached if extent is None else extent))
    return row_major(shape)


def _separated(rows: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Coefficients with each iterator in one subscript only: the one that has the fewest other iterators."""
    kept = [list(row) for row in rows]
    for iterator in sorted({place for row in rows for place, factor in enumerate(row) if factor}):
        used = [number for number, row in enumerate(kept) if row[iterator]]
        used.sort(key=lambda number: sum(c != 0 for c in kept[number]))
        for number in used[1:]:
            kept[number][iterator] = 0
    return tuple(tuple(row) for row in kept)


def _pinned(rows: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Coefficients without the loops that another subscript, which has no other loop, tells: with the value of that one
    given, they move nothing."""
    left = [list(row) for row in rows]
    told: set[int] = set()
    while True:
        alone = {
            number: place
            for number, row in enumerate(left)
            for place in [p for p, c in enumerate(row) if c][:1]
            if sum(c != 0 for c in row) == 1 and place not in told
        }
        if not alone:
            return tuple(tuple(row) for row in left)
        number, place = next(iter(alone.items()))
        told.add(place)
        for other, row in enumerate(left):
            if other != number:
                row[place] = 0


def loop_batch(nest: BoxNest, structures: Sequence[NestLoops]) -> LoopBatch:
    """The loops of each structure, those inside the microkernel included as the innermost ones."""
    place = {name: i for i, name in enumerate(nest.iterators)}
    depth = max(len(s.loops) + len(s.inner) for s in structures)
    iterator = np.full((len(structures), depth), -1, dtype=np.int64)
    span = np.ones((len(structures), depth), dtype=np.int64)
    parallel = np.zeros((len(structures), depth), dtype=np.bool_)
    for v, structure in enumerate(structures):
        for d, loop in enumerate(structure.executed):
            iterator[v, d] = place[loop.iterator]
            span[v, d] = loop.step
        for d in structure.parallel_positions:
            parallel[v, d] = True
    return LoopBatch(nest.extents, iterator, span, parallel)
