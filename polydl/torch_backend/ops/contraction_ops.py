"""Matrix products: a sum per element, over all of a dimension that the result does not have."""

from __future__ import annotations

from collections.abc import Callable

from polydl.model.types import I32, I64, ElementType
from polydl.torch_backend.formulas import add, mul
from polydl.torch_backend.loop_index import Index
from polydl.torch_backend.loop_program import Const, Expr, Load
from polydl.torch_backend.operator_call import (
    Call,
    Element,
    Kind,
    Lowered,
    Result,
    broadcast,
    cast,
    computed,
    lowers,
    same_place,
)

Map = tuple[Index, ...]


def accumulator(element: ElementType) -> ElementType:
    """The type in which sums of products are kept; integers wrap around as those of the result do."""
    if element.is_int:
        return I64 if element.bits > I32.bits else I32
    return element


def contraction(c: Call, extent: int, factors: Callable[[Map, Index], tuple[Expr, Expr]],
                finish: Callable[[Map, Expr], Expr] = lambda _, total: total) -> Lowered:  # fmt: skip
    """A result whose element is a sum of `extent` products; `finish` is applied to the sum."""
    sizes, element = c.sizes(), computed(c.out().dtype)
    kept = accumulator(element)

    def total(index: Map) -> Expr:
        found = c.w.variable(kept, 0, "sum")
        assert isinstance(found, Load)
        with c.w.loop(extent) as k:
            one, other = factors(index, k)
            c.w.store(found, mul(cast(one, kept), cast(other, kept)), "+=")
        return cast(found, element)

    def at(index: Map) -> Expr:
        return finish(index, c.once("sum", index, lambda: total(index)))

    return Lowered(Kind.CONTRACTION, sizes, (Result(Element(sizes, c.out().dtype, at), same_place),))


@lowers("mm.default", "bmm.default")
def _mm(c: Call) -> Lowered:
    one, other = c.element("self"), c.element("mat2")
    return contraction(c, one.sizes[-1], lambda index, k: _factors(one, other, index, k))


def _factors(one: Element, other: Element, index: Map, k: Index) -> tuple[Expr, Expr]:
    *batch, row, column = index
    return one.at((*batch, row, k)), other.at((*batch, k, column))


@lowers("addmm.default", "baddbmm.default")
def _addmm(c: Call) -> Lowered:
    batched = "baddbmm" in c.node.target._schema.name  # type: ignore[union-attr]
    one, other = (c.element(name) for name in (("batch1", "batch2") if batched else ("mat1", "mat2")))
    element = computed(c.out().dtype)
    bias = broadcast(c.element("self"), c.sizes())

    def finish(index: Map, total: Expr) -> Expr:
        total = _times(c["alpha"], total, element)
        if c["beta"] == 0:
            return total
        return add(total, _times(c["beta"], cast(bias(index), element), element))

    return contraction(c, one.sizes[-1], lambda index, k: _factors(one, other, index, k), finish)


def _times(number: float | int, value: Expr, element: ElementType) -> Expr:
    if number == 1:
        return value
    return mul(value, Const(int(number) if element.is_int else float(number), element))


@lowers("linear.default")
def _linear(c: Call) -> Lowered:
    source, weight, bias = c.element("input"), c.element("weight"), c.optional("bias")
    if len(weight.sizes) != 2:
        c.refuse("its weight is a vector")
    element = computed(c.out().dtype)

    def factors(index: Map, k: Index) -> tuple[Expr, Expr]:
        *outer, column = index
        return source.at((*outer, k)), weight.at((column, k))

    def finish(index: Map, total: Expr) -> Expr:
        return total if bias is None else add(total, cast(bias.at(index[-1:]), element))

    return contraction(c, source.sizes[-1], factors, finish)


@lowers("mv.default")
def _mv(c: Call) -> Lowered:
    one, other = c.element("self"), c.element("vec")
    return contraction(c, one.sizes[-1], lambda index, k: (one.at((*index, k)), other.at((k,))))


@lowers("dot.default", "vdot.default")
def _dot(c: Call) -> Lowered:
    one, other = c.element("self"), c.element("tensor" if c.given("tensor") else "other")
    return contraction(c, one.sizes[0], lambda index, k: (one.at((k,)), other.at((k,))))
