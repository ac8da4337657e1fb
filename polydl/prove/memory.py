"""Whether the parts of a region's own memory lie apart: copies of operands, and arrays that rewrites made."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.model import isl
from polydl.model.scop import Scop
from polydl.prove.addresses import address, known_extent
from polydl.prove.dependence_order import Order, touched_by
from polydl.prove.integers import Unreadable, Wrong, number, product
from polydl.prove.printed_program import WRITES, Buffer, Printed, Program, value_map


def check_apart(order: Order, statements: Sequence[Printed]) -> None:
    """Buffers, scratch arrays and the memory of parts of arrays lie apart: each ends before the next one begins, the
    last before the memory ends. Two parts may have bytes in common (`polydl.prove.parts_in_memory`). Raises Wrong."""
    scop, program = order.scop, order.program
    _sized_apart(scop, program)
    for own in (False, True):
        known = [b for b in (*program.buffers.values(), *program.scratch.values()) if b.name not in program.sizes]
        taken = [(b.name, b.start, _end(scop, program, b)) for b in known if b.own == own]
        parts = [_bytes_of_part(statements, b) for b in program.parts.values() if b.own == own]
        if parts:
            low, high = min(start for start, _ in parts), max(end for _, end in parts)
            taken.append((", ".join(sorted(program.parts)), low, high))
        taken.sort(key=lambda one: one[1])
        begins = [*(start for _, start, _ in taken[1:]), program.memory.get(own, 0)]
        for (name, start, end), following in zip(taken, begins, strict=bool(taken)):
            if start < 0 or end > following:
                kind = "the copies in " if name in program.buffers else ""
                raise Wrong(f"{kind}{name} {'do' if kind else 'does'} not fit into its memory")


def _end(scop: Scop, program: Program, one: Buffer) -> int:
    """The first byte behind what a buffer or a scratch array has. Raises Wrong."""
    if one.name in program.scratch:
        return one.start + (scop.arrays[one.name].layout.size or 0) * one.element
    end = one.start
    for copy in program.statements:
        if copy.kind not in WRITES or copy.target is None or copy.target.base != one.name:
            continue
        last = isl.greatest(address(scop, copy, copy.target).range(), 0)
        group = program.words[one.name].group if one.name in program.words else 1
        if last is None:
            raise Wrong(f"the copies in {one.name} do not fit into its memory")
        end = max(end, one.start + -(-(last + 1) // group) * one.element)
    return end


def _bytes_of_part(statements: Sequence[Printed], buffer: Buffer) -> tuple[int, int]:
    """The first byte that a part of an array touches, from the memory's beginning, and the one behind the last. Raises
    Unreadable."""
    array, low, high = buffer.name, 0, -1
    for one in (touch for printed in statements for touch in touched_by(printed) if touch.at.base == array):
        within = value_map(one.printed, (one.at.offset.plus(one.printed.parts[array], -1),)).range()
        if within.is_empty():
            continue
        least, greatest = isl.least(within, 0), isl.greatest(within, 0)
        if least is None or greatest is None:
            raise Unreadable(f"how much memory {array} takes")
        low, high = min(low, least), max(high, greatest)
    return buffer.start + low * buffer.element, buffer.start + (high + 1) * buffer.element


def _sized_apart(scop: Scop, program: Program) -> None:
    """Arrays whose sizes are known at run time alone lie behind all others that threads share, one after the other, and
    each has as many bytes as its elements take. Raises Wrong, Unreadable."""
    before: tuple[str, ...] = ()
    for name, size in program.sizes.items():
        place = program.scratch.get(name)
        if place is None or place.start < program.memory.get(False, 0) or place.behind != before:
            raise Wrong(f"{name} is not where its memory is")
        before = (*before, name)
        wanted = number(place.element)
        for extent in scop.arrays[name].extents:
            wanted = product(wanted, known_extent(scop.arrays[name], extent))
        if size != wanted:
            raise Wrong(f"{name} does not fit into its memory")
    for one in (*program.buffers.values(), *program.scratch.values()):
        if one.behind and one.name not in program.sizes:
            raise Wrong(f"{one.name} is not where its memory is")
