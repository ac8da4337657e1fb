"""Where operands of a microkernel may be packed: the loops inside which a copy is worth trying."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

from polydl.base.errors import InputError
from polydl.schedule.structure import Structure, extended, trips
from polydl.schedule.transforms import Pack


def packed(structure: Structure, least: int) -> Iterator[Structure]:
    """The structure with A packed, with B packed, and with both, in every place where a copy is reused.

    Only operands whose neighbours in the microkernel are at least `least` elements apart, or that cannot be read
    otherwise.
    """
    needed = needs_packed_columns(structure)
    chosen: list[list[str | None]] = [
        [None, *_pack_places(structure, operand)]
        if _spread(structure, operand) >= least or (needed and operand == "B")
        else [None]
        for operand in ("A", "B")
    ]
    for after_b, after_a in itertools.product(chosen[1], chosen[0]):
        if (after_a is None and after_b is None) or (needed and after_b is None):
            continue
        try:
            made = structure
            for operand, after in (("B", after_b), ("A", after_a)):
                made = made if after is None else extended(made, Pack(operand, after))
        except InputError:  # between collapsed loops, or partial tiles inside: no place for a copy
            continue
        yield made


def needs_packed_columns(structure: Structure) -> bool:
    """Whether the microkernel can read B only from a packed copy."""
    found = structure.nest.contraction
    if structure.inside is None or found is None:
        return False
    return found.transposed(structure.inside.columns.iterator)


def _spread(structure: Structure, operand: str) -> int:
    """Elements between neighbours of an operand inside the microkernel, the larger of width and last reduction."""
    assert structure.inside is not None
    strides = structure.operand(Pack(operand, "")).strides
    near = (*structure.inside.block, *structure.inside.reductions[-1:])
    return max(abs(strides[loop.iterator]) for loop in near)


def _pack_places(structure: Structure, operand: str) -> list[str]:
    """Loops inside which a copy of an operand is made once and used by a loop further in, outermost first.

    A place right inside a loop that does not move the operand is the same copy made again: left out.
    """
    strides = structure.operand(Pack(operand, "")).strides
    loops = structure.loops
    places = []
    for depth in range(len(loops)):
        moved = depth == 0 or strides[loops[depth - 1].iterator] != 0
        reused = any(strides[loop.iterator] == 0 and trips(structure.nest, loop) != 1 for loop in loops[depth:])
        if moved and reused and _copied(structure, strides, depth) <= _MOST_PACKED:
            places.append(loops[depth - 1].name if depth else "")
    return places


_MOST_PACKED = 1 << 24
"""Elements of a packed copy, at most."""


def _copied(structure: Structure, strides: Mapping[str, int], depth: int) -> int:
    """Elements of the copy made inside `depth` loops."""
    extents = {i: c.extent or 1 for i, c in structure.nest.counts.items()}
    covered: dict[str, int] = {}
    for loop in (*structure.inner, *reversed(structure.loops[depth:])):
        if strides[loop.iterator] != 0:
            span = extents[loop.iterator] if loop.within is None else loop.within
            covered[loop.iterator] = max(covered.get(loop.iterator, 1), min(span, extents[loop.iterator]))
    return math.prod(covered.values())
