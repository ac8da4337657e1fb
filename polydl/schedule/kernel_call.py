"""A generated microkernel's calls as the instances of a statement: where each block begins, how large it is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from polydl.model import isl
from polydl.model.scop import Statement
from polydl.model.time import map_from_affs
from polydl.schedule.loops import Loop, NestLoops, loop_aff, normalised, outer_affs


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A generated microkernel's call as a statement of its own: one instance per block."""

    name: str
    """isl tuple name, `S0_mk`."""
    statement: Statement
    domain: isl.Set
    """{ S0_mk[t…] }: the blocks that are full boxes; the others run as plain loops."""
    blocks: isl.Set
    """{ S0_mk[t…] }: all blocks."""
    loops: tuple[Loop, ...]
    """Those inside of the microkernel."""
    low: tuple[isl.PwAff, ...]
    """{ S0_mk[t…] -> [u] } first iteration inside the block, of each of `loops`."""
    extents: tuple[isl.PwAff, ...]
    """{ S0_mk[t…] -> [n] } iterations inside the block, of each of `loops`."""
    corner: isl.PwMultiAff
    """{ S0_mk[t…] -> S0[i…] } the first instance of a block."""

    def extent(self, loop: Loop) -> isl.PwAff:
        """{ S0_mk[t…] -> [n] } iterations of a loop inside the block."""
        return self.extents[self.loops.index(loop)]


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of a statement's instances."""

    outer: isl.Map
    """{ S0[i…] -> [t…] } the block of each instance."""
    inside: isl.Map
    """{ S0[i…] -> [u…] } its place in the block."""
    every: isl.Set
    """{ S0_mk[t…] }: all blocks."""
    boxes: isl.Set
    """{ S0_mk[t…] }: those that are full boxes."""
    low: tuple[isl.PwAff, ...]
    """{ S0_mk[t…] -> [u] } the first place in the block along each loop, …"""
    high: tuple[isl.PwAff, ...]
    """… and the last one."""


def blocks_of(structure: NestLoops, statement: Statement, loops: tuple[Loop, ...], suffix: str = "mk") -> Blocks:
    """Split the instances into blocks, and say which of them are boxes. `loops`: those of a block; `suffix`: what the
    name of a block ends in."""
    y = normalised(structure.nest, statement)
    name = f"{statement.name}_{suffix}"
    outer = map_from_affs(statement.domain, outer_affs(structure, statement))
    inside = map_from_affs(statement.domain, [loop_aff(loop, y[loop.iterator]) for loop in loops])
    block = outer.reverse().apply_range(inside)
    block = isl.domain_named(block, name)
    box = isl.Map.from_domain(block.domain())
    low: list[isl.PwAff] = []
    high: list[isl.PwAff] = []
    for d in range(len(loops)):
        one = isl.range_onto(block, [d])
        low += isl.components(one.lexmin_pw_multi_aff())
        high += isl.components(one.lexmax_pw_multi_aff())
        span = (
            isl.Map.from_pw_aff(low[-1])
            .apply_range(isl.Map.lex_le(isl.unnamed_space(1)))
            .intersect(isl.Map.from_pw_aff(high[-1]).apply_range(isl.Map.lex_ge(isl.unnamed_space(1))))
        )
        box = box.flat_range_product(span)
    boxes = block.domain().subtract(box.subtract(block).domain())
    return Blocks(outer, inside, block.domain(), boxes, tuple(low), tuple(high))


def kernel_call(
    structure: NestLoops, statement: Statement, inner: tuple[Loop, ...] | None = None, suffix: str = "mk"
) -> KernelCall:
    """Split the instances into blocks that are boxes, and say where each block begins and how large it is.

    `inner`: the loops of a block; those that run inside of the structure's microkernel unless given. `suffix`: what
    the call's name ends in.

    A block whose instances are not a box (at a slanted edge of the domain) is left out of `domain`.
    """
    loops = structure.inner if inner is None else inner
    made = blocks_of(structure, statement, loops, suffix)
    name = f"{statement.name}_{suffix}"
    first = isl.Map.from_domain(made.every)
    for low in made.low:
        first = first.flat_range_product(isl.Map.from_pw_aff(low))
    corner = isl.domain_named(made.outer.reverse(), name).intersect(first.apply_range(made.inside.reverse()))
    return KernelCall(
        name,
        statement,
        made.boxes.coalesce(),
        made.every,
        loops,
        made.low,
        tuple(last.sub(start).add_constant_val(isl.value(1)) for start, last in zip(made.low, made.high, strict=True)),
        corner.intersect_domain(made.boxes).as_pw_multi_aff(),
    )


@dataclass(frozen=True, slots=True)
class Edge:
    """The rows of the blocks that are no boxes, each in a call of its own."""

    structure: NestLoops
    """With the rows of a block as its innermost loop, around a microkernel for a single one."""
    call: KernelCall


def edge_rows(structure: NestLoops, call: KernelCall) -> Edge | None:
    """Calls for what a structure's microkernel leaves out at slanted edges: a row of a block that is cut may be a box
    where the block is none. None where nothing is left, or the rows are none either."""
    kernel, statement = structure.kernel, call.statement
    if kernel is None or kernel.rows is None or structure.nest.box or structure.packs or structure.summed:
        return None
    outer = map_from_affs(statement.domain, outer_affs(structure, statement))
    slanted = call.blocks.subtract(call.domain).coalesce()
    if slanted.is_empty():
        return None
    left = outer.intersect_range(slanted.reset_tuple_id()).domain()
    single = replace(structure, loops=(*structure.loops, kernel.rows), kernel=replace(kernel, rows=None))
    rows = kernel_call(single, replace(statement, domain=left.coalesce()), suffix="mk1")
    return None if rows.domain.is_empty() else Edge(single, rows)
