"""A generated microkernel's calls as the instances of a statement: where each block begins, how large it is."""

from __future__ import annotations

from dataclasses import dataclass

import islpy as isl

from polydl.model.schedule import map_from_affs
from polydl.model.scop import Statement
from polydl.schedule.structure import Structure, loop_aff, normalised, outer_affs


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
    low: tuple[isl.PwAff, ...]
    """{ S0_mk[t…] -> [u] } first iteration inside the block, per inside loop."""
    extents: tuple[isl.PwAff, ...]
    """{ S0_mk[t…] -> [n] } iterations inside the block, per inside loop."""
    corner: isl.PwMultiAff
    """{ S0_mk[t…] -> S0[i…] } the first instance of a block."""


def kernel_call(structure: Structure, statement: Statement) -> KernelCall:
    """Split the instances into blocks that are boxes, and say where each block begins and how large it is.

    A block whose instances are not a box (at a slanted edge of the domain) is left out of `domain`.
    """
    y = normalised(structure.nest, statement)
    name = f"{statement.name}_mk"
    outer = map_from_affs(statement.domain, outer_affs(structure, statement))
    inside = map_from_affs(statement.domain, [loop_aff(loop, y[loop.iterator]) for loop in structure.inside])
    block = outer.reverse().apply_range(inside).set_tuple_name(isl.dim_type.in_, name)
    box = isl.Map.from_domain(block.domain())
    low: list[isl.PwAff] = []
    high: list[isl.PwAff] = []
    for d in range(len(structure.inside)):
        one = block.project_out(isl.dim_type.out, d + 1, len(structure.inside) - d - 1).project_out(
            isl.dim_type.out, 0, d
        )
        low.append(one.lexmin_pw_multi_aff().get_pw_aff(0))
        high.append(one.lexmax_pw_multi_aff().get_pw_aff(0))
        span = (
            isl.Map.from_pw_aff(low[-1])
            .apply_range(_at_least())
            .intersect(isl.Map.from_pw_aff(high[-1]).apply_range(_at_most()))
        )
        box = box.flat_range_product(span)
    full = block.domain().subtract(box.subtract(block).domain())
    first = isl.Map.from_domain(block.domain())
    for d in range(len(structure.inside)):
        first = first.flat_range_product(isl.Map.from_pw_aff(low[d]))
    corner = outer.reverse().set_tuple_name(isl.dim_type.in_, name).intersect(first.apply_range(inside.reverse()))
    one_val = isl.Val.one(statement.domain.get_ctx())
    return KernelCall(
        name,
        statement,
        full.coalesce(),
        block.domain(),
        tuple(low),
        tuple(last.sub(start).add_constant_val(one_val) for start, last in zip(low, high, strict=True)),
        corner.intersect_domain(full).as_pw_multi_aff(),
    )


def _at_least() -> isl.Map:
    return isl.Map.lex_le(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, 1))


def _at_most() -> isl.Map:
    return isl.Map.lex_ge(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, 1))
