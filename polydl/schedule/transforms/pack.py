"""Operands of a microkernel copied into the order in which it reads them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

from polydl.base.errors import InputError
from polydl.model.strides import Stride, known
from polydl.schedule.grouping import grouping
from polydl.schedule.limits import Limits
from polydl.schedule.loops import LoopTransform, NestLoops, Packed, trips


class Pack(LoopTransform, frozen=True):
    """Copy what the loops further inside use of one operand into a contiguous, aligned buffer.

    before:    for i: for j: … microkernel(&A[…], …)
    after:     for i: copy of A's part; for j: … microkernel(&buffer[…], …)
    invariant: the buffer is laid out in the order of the inner loops that move the operand, then the microkernel's
               reductions, then its rows (or columns): unit stride where the microkernel reads
    requires:  a microkernel and a rectangular nest (the operand, unlike the output, is never written in it); an A that
               the columns don't move; not between collapsed parallel loops
    source:    the paper's data packing; BLIS; TPP-MLIR's pack
    """

    operand: str
    """`A` (moved by rows, broadcast along columns) or `B` (read in vectors) of the microkernel."""
    after: str
    """The loop inside which the copy is made, once per iteration; empty: once, before all loops."""
    function: str = ""
    """The generated function that makes the copy ahead of time, once for many runs; empty: each run makes its own."""

    def applied(self, structure: NestLoops) -> NestLoops:
        found = structure.nest.contraction
        if structure.kernel is None or found is None:
            raise InputError("Pack needs a microkernel to read what it packs")
        if self.operand not in ("A", "B"):
            raise InputError(f"no operand '{self.operand}' to self", hint="A is moved by the rows, B by the columns")
        if found.within:
            raise InputError(f"nest {structure.nest.name} adds up over segments: its operands cannot be packed")
        columns = structure.kernel.columns
        if self.operand == "A" and found.windows(columns.iterator):
            hint = "an image under a window: what one vector reads, its neighbours read again"
            raise InputError(f"A moves along the columns ('{columns.name}'): it cannot be packed", hint=hint)
        if not structure.nest.box:
            raise InputError(f"nest {structure.nest.name} is not rectangular: its operands cannot be packed")
        if any(other.operand == self.operand for other in structure.packs):
            raise InputError(f"'{self.operand}' is packed already")
        for loop in structure.kernel.reductions[1:]:
            extent = structure.nest.counts[loop.iterator].extent
            if loop.within is not None and extent is not None and extent % loop.within:
                raise InputError(f"partial tiles of '{loop.name}' inside another reduction cannot be packed")
        depth = structure.pack_depth(Packed(self.operand, self.after))
        if self.function and depth:
            raise InputError(f"'{self.operand}' can only be packed whole ahead of time, not inside of a loop")
        if structure.parallel and structure.parallel_positions[0] < depth <= structure.parallel_positions[-1]:
            raise InputError("no copy can be made between collapsed loops")
        if structure.nowait and 0 < depth <= structure.parallel_positions[0]:
            raise InputError(
                f"{self.operand} is copied between loops whose threads do not wait for each other",
                hint="copies before all loops, or inside of the parallel ones, go with nowait",
            )
        return structure.after(self, packs=(*structure.packs, Packed(self.operand, self.after, self.function)))


def choices(structure: NestLoops, limits: Limits) -> Iterator[NestLoops]:
    """The structure as it is, with A packed, with B packed, and with both, in every place where a copy is reused.

    Only operands whose neighbours in the microkernel are at least `least_packed` elements apart, or that cannot be read
    otherwise.
    """
    needed = _copied(structure)
    if not needed:
        yield structure
    found = limits.nest.contraction
    if not limits.nest.box or structure.kernel is None or (found is not None and found.within):
        return
    # Elsewhere there are loops that read the operand where it is.
    converts = found is not None and found.in_blocks and not found.uniform
    chosen: list[list[str | None]] = [
        [None, *_pack_places(structure, operand, needed=operand in needed and converts)]
        if _spread(structure, operand) >= limits.space.least_packed or operand in needed
        else [None]
        for operand in ("A", "B")
    ]
    for after_b, after_a in itertools.product(chosen[1], chosen[0]):
        if (after_a is None and after_b is None) or (after_a is None and "A" in needed):
            continue
        if after_b is None and "B" in needed:
            continue
        try:
            made = structure
            for operand, after in (("B", after_b), ("A", after_a)):
                made = made if after is None else Pack(operand, after).applied(made)
        except InputError:  # between collapsed loops, or partial tiles inside: no place for a copy
            continue
        yield made


def _copied(structure: NestLoops) -> tuple[str, ...]:
    """The operands that the microkernel can read only from packed copies."""
    found = structure.nest.contraction
    if structure.kernel is None or found is None:
        return ()
    in_place = grouping(structure).in_place
    needed = found.copied(structure.kernel.columns.iterator)
    return tuple(operand for operand in needed if not (operand == "A" and in_place))


def _spread(structure: NestLoops, operand: str) -> int:
    """Elements between neighbours of an operand inside the microkernel, the larger of width and last reduction."""
    assert structure.kernel is not None
    strides = structure.operand(operand).strides
    near = (*structure.kernel.block, *structure.kernel.reductions[-1:])
    return max(abs(known(strides[loop.iterator])) for loop in near)


def _pack_places(structure: NestLoops, operand: str, *, needed: bool) -> list[str]:
    """Loops inside which a copy of an operand is made once and used by a loop further in, outermost first. Where there
    is none, the outermost and the innermost place for a copy that is `needed` all the same.

    A place right inside a loop that does not move the operand is the same copy made again: left out.
    """
    strides = structure.operand(operand).strides
    loops = structure.loops
    places: list[str] = []
    once: list[str] = []
    for depth in range(len(loops) + 1):
        moved = depth == 0 or strides[loops[depth - 1].iterator] != 0
        reused = any(strides[loop.iterator] == 0 and trips(structure.nest, loop) != 1 for loop in loops[depth:])
        if moved and _elements(structure, strides, depth) <= _MOST_PACKED:
            (places if reused else once).append(loops[depth - 1].name if depth else "")
    return places or (list(dict.fromkeys((once[0], once[-1]))) if needed and once else [])


_MOST_PACKED = 1 << 24
"""Elements of a packed copy, at most."""


def _elements(structure: NestLoops, strides: Mapping[str, Stride], depth: int) -> int:
    """Elements of the copy made inside `depth` loops."""
    extents = {i: c.extent or 1 for i, c in structure.nest.counts.items()}
    covered: dict[str, int] = {}
    for loop in (*structure.inner, *reversed(structure.loops[depth:])):
        if strides[loop.iterator] != 0:
            span = extents[loop.iterator] if loop.within is None else loop.within
            covered[loop.iterator] = max(covered.get(loop.iterator, 1), min(span, extents[loop.iterator]))
    return math.prod(covered.values())
