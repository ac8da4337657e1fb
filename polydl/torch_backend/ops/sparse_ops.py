"""Products with matrices in rows of blocks: loops from one element of a tensor to the next one."""

from __future__ import annotations

import torch

from polydl.torch_backend.formulas import add, mul
from polydl.torch_backend.loop_index import Chosen, Index
from polydl.torch_backend.loop_program import Expr, Load
from polydl.torch_backend.operator_call import (
    STORED,
    Call,
    Element,
    Kind,
    Lowered,
    Result,
    cast,
    computed,
    lowers,
    same_place,
)
from polydl.torch_backend.ops.contraction_ops import accumulator

Map = tuple[Index, ...]


@lowers("linear_blocks.default", library="polydl")
def _linear_blocks(c: Call) -> Lowered:
    """`torch_backend.block_sparse`: entry p of a row of blocks stands in column `columns[p]` of blocks."""
    source, values, bias = c.element("input"), c.element("values"), c.optional("bias")
    entries, width, height = values.sizes
    element = computed(c.out().dtype)
    kept = accumulator(element)
    ends, columns = (_integers(c, name) for name in ("ends", "columns"))
    c.scope.bound(c.raw("ends"), 0, entries)
    c.scope.bound(c.raw("columns"), 0, source.sizes[-1] // width - 1)

    def chosen(of: Element, at: Index, most: int) -> Index:
        value = of.at((at,))
        return Index(((Chosen(value, most, c.w.free(value)), 1),))

    def total(index: Map) -> Expr:
        *outer, row = index
        found = c.w.variable(kept, 0, "sum")
        assert isinstance(found, Load)
        # A loop of one iteration would be none, and this one may have no iteration.
        at, (entry,) = c.w.variables(max(entries, 2))
        begin, end = (chosen(ends, row // height + next_, entries) for next_ in (0, 1))
        with c.w.between(entry, begin, end):
            first = chosen(columns, at, source.sizes[-1] // width - 1) * width
            with c.w.loop(width) as k:
                one, other = source.at((*outer, first + k)), values.at((at, k, row % height))
                c.w.store(found, mul(cast(one, kept), cast(other, kept)), "+=")
        return cast(found, element)

    def at(index: Map) -> Expr:
        found = c.once("sum", index, lambda: total(index))
        return found if bias is None else add(found, cast(bias.at(index[-1:]), element))

    sizes = c.sizes()
    return Lowered(Kind.CONTRACTION, sizes, (Result(Element(sizes, c.out().dtype, at), same_place),))


def _integers(c: Call, name: str) -> Element:
    if not STORED[c.meta(name).dtype].is_int or c.meta(name).dtype is torch.bool:
        c.refuse(f"its {name} are no integers")
    return c.element(name)
