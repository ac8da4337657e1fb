"""Whether the parts of a region's own memory lie apart: copies of operands, and arrays that rewrites made."""

from __future__ import annotations

from polydl.model import isl
from polydl.model.scop import Scop
from polydl.prove.addresses import address, known_extent
from polydl.prove.integers import Wrong, number, product
from polydl.prove.printed_program import WRITES, Program


def check_apart(scop: Scop, program: Program) -> None:
    """Buffers and scratch arrays do not overlap: each ends before the next one begins, the last before the memory ends.
    Raises Wrong."""
    _sized_apart(scop, program)
    for own in (False, True):
        known = [b for b in (*program.buffers.values(), *program.scratch.values()) if b.name not in program.sizes]
        buffers = sorted((b for b in known if b.own == own), key=lambda b: b.start)
        ends = [*(b.start for b in buffers[1:]), program.memory.get(own, 0)]
        for one, end in zip(buffers, ends, strict=bool(buffers)):
            if one.name in program.scratch and one.start + (scop.arrays[one.name].layout.size or 0) * one.element > end:
                raise Wrong(f"{one.name} does not fit into its memory")
            for copy in program.statements:
                if copy.kind not in WRITES or copy.target is None or copy.target.base != one.name:
                    continue
                last = isl.greatest(address(scop, copy, copy.target).range(), 0)
                group = program.words[one.name].group if one.name in program.words else 1
                if last is None or one.start + -(-(last + 1) // group) * one.element > end:
                    raise Wrong(f"the copies in {one.name} do not fit into its memory")


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
