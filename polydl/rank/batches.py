"""Nests and structures in the form that the vectorised locality analysis takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polydl.dependences.nests import Nest
from polydl.locality.boxes import BoxAccess, BoxNest, LoopBatch
from polydl.model import isl
from polydl.model.contraction import affine_rows
from polydl.model.layout import Layout, row_major
from polydl.model.scop import Scop
from polydl.schedule.structure import Structure


def box_nest(scop: Scop, nest: Nest, *, hull: bool = False) -> BoxNest | None:
    """The nest with its loops counted from 0; None when it is no box, or a subscript is not affine.

    With hull=True a nest that is no box (triangles, statements with loops of their own) is taken for the box around
    its shared loops, which estimates may do and exact analyses may not; None only without constant bounds. Likewise
    an iterator in two subscripts of an access (a diagonal) is then kept in one of them: `A[i][i]` has as many elements
    as `A[i][0]`.
    """
    if not nest.box and not (hull and all(c.extent for c in nest.counts.values())):
        return None
    accesses: list[BoxAccess] = []
    layouts: dict[str, Layout] = {}
    for statement in nest.statements:
        for access in statement.accesses:
            rows = affine_rows(statement, access)
            array = scop.arrays[access.array]
            if rows is None and hull:
                continue
            if rows is None:
                return None
            if None in array.layout.axis_strides and not array.layout.is_row_major:
                return None
            if None in array.layout.axis_strides:
                reached = [isl.greatest(access.relation.range(), dim) for dim in range(len(array.extents))]
                shape = [e if e is not None else (r or 0) + 1 for e, r in zip(array.layout.shape, reached, strict=True)]
                known = layouts.get(access.array, row_major(shape)).shape
                layouts[access.array] = row_major([max(a or 1, b) for a, b in zip(known, shape, strict=True)])
            else:
                layouts[access.array] = array.layout
            coefficients = []
            offsets = []
            for row, constant in rows:
                steps = []
                for iterator in nest.loops:
                    count = nest.counts[iterator]
                    sign = -1 if iterator in statement.descending else 1
                    steps.append(row[iterator] * count.stride * sign)
                    constant += row[iterator] * count.first * sign
                coefficients.append(tuple(steps))
                offsets.append(constant)
            subscripts = _separated(coefficients) if hull else tuple(coefficients)
            accesses.append(BoxAccess(access.array, subscripts, tuple(offsets), access.write, statement.name))
    bytes_of = {name: scop.arrays[name].element.bytes for name in layouts}
    extents = tuple(nest.counts[i].extent or 1 for i in nest.loops)
    return BoxNest(nest.loops, extents, tuple(accesses), bytes_of, layouts)


def _separated(rows: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Coefficients with each iterator in one subscript only: the one that has the fewest other iterators."""
    kept = [list(row) for row in rows]
    for iterator in range(len(rows[0]) if rows else 0):
        used = [number for number, row in enumerate(kept) if row[iterator]]
        used.sort(key=lambda number: sum(c != 0 for c in kept[number]))
        for number in used[1:]:
            kept[number][iterator] = 0
    return tuple(tuple(row) for row in kept)


def loop_batch(nest: BoxNest, structures: Sequence[Structure]) -> LoopBatch:
    """The loops of each structure, those inside the microkernel included as the innermost ones."""
    place = {name: i for i, name in enumerate(nest.iterators)}
    depth = max(len(s.loops) + len(s.inside) for s in structures)
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
