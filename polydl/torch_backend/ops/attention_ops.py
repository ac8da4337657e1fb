"""Scaled dot-product attention as three nests: scores, softmax of each row, sums of values.

They are written as people write them, so that the search finds a product, rows and a product, and lets them share the
loops over blocks of rows: what a block needs of the scores stays in a cache then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import inf, sqrt

from polydl.model.types import BOOL, ElementType
from polydl.torch_backend.formulas import add, call, compare, div, mul, select, sub
from polydl.torch_backend.loop_index import ZERO, Index, number, of_var
from polydl.torch_backend.loop_program import Array, Const, Expr, Load
from polydl.torch_backend.operator_call import (
    STORED,
    Call,
    Lowered,
    Target,
    broadcast,
    cast,
    computed,
    loaded,
    lowers,
    stored_value,
)

MOST_BYTES = 1 << 28
"""Of the scores of all heads: memory of the caller, which is touched as a whole where nests do not share loops."""

Map = tuple[Index, ...]


@lowers("_scaled_dot_product_flash_attention_for_cpu.default")
def _attention(c: Call) -> Lowered:
    query, key, value = (c.element(name) for name in ("query", "key", "value"))
    dtype, element = query.dtype, computed(query.dtype)
    batch, heads, rows, width = query.sizes
    columns = key.sizes[2]
    domain = (batch, heads, rows, columns)
    causal = bool(c["is_causal"])
    if c["dropout_p"] != 0:
        c.refuse("it drops elements at random")
    if heads % key.sizes[1]:
        c.refuse("its heads do not share those of keys evenly")
    if batch * heads * rows * columns * element.bytes > MOST_BYTES:
        c.refuse("its scores take more memory than is spent on them")
    if causal and rows > columns:
        c.refuse("rows of it have no columns")
    shared = heads // key.sizes[1]
    scale = 1 / sqrt(width) if c["scale"] is None else float(c["scale"])
    masked = _masked(c, domain, element)

    @contextmanager
    def seen(t: Index) -> Iterator[Index]:
        """A loop over the columns that a row sees."""
        _, inner = c.w.variables(columns)
        with c.w.between(inner[0], ZERO, t + 1 if causal else number(columns)) if inner else c.w.loops([]):
            yield of_var(inner[0]) if inner else ZERO

    def product(one: Expr, other: Expr) -> Expr:
        return mul(cast(one, element), cast(other, element))

    def write(targets: Sequence[Target | None]) -> None:
        output, logarithms = targets
        scores = c.w.array(element, domain, "scores")
        narrow = STORED[dtype] is not element
        weights = c.w.array(STORED[dtype], domain, "weights") if narrow else scores
        with c.w.nest((batch, heads, rows)) as (b, h, t), seen(t) as s:
            found = c.w.variable(element, 0, "sum")
            with c.w.loop(width) as d:
                c.w.store(found, product(query.at((b, h, t, d)), key.at((b, h // shared, s, d))), "+=")
            c.w.store(Load(scores, (b, h, t, s)), found)
        with c.w.nest((batch, heads, rows)) as (b, h, t):
            row = partial(_element, scores, (b, h, t))
            with seen(t) as s:
                c.w.store(row(s), masked(mul(row(s), scale), (b, h, t, s)))
            most = c.w.variable(element, -inf, "most")
            with seen(t) as s:
                c.w.store(most, select(compare(">", row(s), most), row(s), most))
            if c.given("attn_mask"):  # of a row that is masked as a whole nothing is left: all weights are 0
                base = c.w.let(select(compare("==", most, -inf), Const(0.0, element), most))
            else:
                base = most
            total = c.w.variable(element, 0, "sum")
            with seen(t) as s:
                c.w.store(row(s), call("exp", sub(row(s), base)))
                c.w.store(total, row(s), "+=")
            if logarithms is not None:
                logarithm = add(base, call("log", total))
                if c.given("attn_mask"):
                    logarithm = select(compare("==", total, 0), Const(0.0, element), logarithm)
                c.w.store(logarithms((b, h, t)), stored_value(logarithm, c.out(1).dtype))
            if c.given("attn_mask"):
                total_or_one = c.w.let(select(compare("==", total, 0), Const(1.0, element), total))
            else:
                total_or_one = total
            with seen(t) as s:
                weight = div(row(s), total_or_one)
                c.w.store(Load(weights, (b, h, t, s)), stored_value(weight, dtype) if narrow else weight)
        if output is None:
            return
        with c.w.nest((batch, heads, rows, width)) as (b, h, t, d):
            found = c.w.variable(element, 0, "sum")
            with seen(t) as s:
                weight = loaded(weights, (b, h, t, s), dtype)
                c.w.store(found, product(weight, value.at((b, h // shared, s, d))), "+=")
            c.w.store(output((b, h, t, d)), stored_value(found, c.out(0).dtype))

    return c.whole(write)


def _element(array: Array, row: Map, column: Index) -> Load:
    return Load(array, (*row, column))


def _masked(c: Call, domain: tuple[int, ...], element: ElementType) -> Callable[[Expr, Map], Expr]:
    """A score by its subscripts, with what the mask says."""
    mask = c.optional("attn_mask")
    if mask is None:
        return lambda score, _: score
    at = broadcast(mask, domain)
    if mask.type is BOOL:
        return lambda score, index: select(at(index), score, -inf)
    return lambda score, index: add(score, cast(at(index), element))
