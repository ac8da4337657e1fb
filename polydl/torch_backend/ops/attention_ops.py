"""Scaled dot-product attention as loops: scores of one head, softmax of each row, and the sum of values."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from math import inf, sqrt

from polydl.model.types import BOOL
from polydl.torch_backend.formulas import add, call, compare, div, mul, select, sub
from polydl.torch_backend.loop_index import ZERO, Index, Var, number, of_var
from polydl.torch_backend.loop_program import Const, Expr, Load
from polydl.torch_backend.operator_call import Call, Lowered, Target, broadcast, cast, computed, lowers, stored_value

MOST_BYTES = 1 << 20
"""Of the scores of one head: they lie on the stack. PyTorch's kernel, which never has all of them, is better above."""


@lowers("_scaled_dot_product_flash_attention_for_cpu.default")
def _attention(c: Call) -> Lowered:
    query, key, value = (c.element(name) for name in ("query", "key", "value"))
    element = computed(query.dtype)
    batch, heads, rows, width = query.sizes
    columns = key.sizes[2]
    if c["dropout_p"] != 0:
        c.refuse("it drops elements at random")
    if heads % key.sizes[1]:
        c.refuse("its heads do not share those of keys evenly")
    if rows * columns * element.bytes > MOST_BYTES:
        c.refuse("the scores of a head take more than a cache has for them")
    causal = bool(c["is_causal"])
    if causal and rows > columns:
        c.refuse("rows of it have no columns")
    shared = heads // key.sizes[1]
    scale = 1 / sqrt(width) if c["scale"] is None else float(c["scale"])
    mask = c.optional("attn_mask")
    masks = None if mask is None else broadcast(mask, (batch, heads, rows, columns))

    def masked(score: Expr, index: tuple[Index, ...]) -> Expr:
        if mask is None or masks is None:
            return score
        if mask.type is BOOL:
            return select(masks(index), score, -inf)
        return add(score, cast(masks(index), element))

    def write(targets: Sequence[Target | None]) -> None:
        output, logarithms = targets
        scores = c.w.array(element, (rows, columns), "scores")
        with c.w.nest((batch, heads)) as (b, h):
            group = h // shared
            with c.w.loop(rows) as t:
                _, inner = c.w.variables(columns)
                end = t + 1 if causal else number(columns)

                def each(inner: list[Var] = inner, end: Index = end) -> AbstractContextManager[None]:
                    return c.w.between(inner[0], ZERO, end) if inner else c.w.loops([])

                s = of_var(inner[0]) if inner else ZERO
                most = c.w.variable(element, -inf, "most")
                with each():
                    product = c.w.variable(element, 0, "sum")
                    with c.w.loop(width) as d:
                        one, other = query.at((b, h, t, d)), key.at((b, group, s, d))
                        c.w.store(product, mul(cast(one, element), cast(other, element)), "+=")
                    score = Load(scores, (t, s))
                    c.w.store(score, masked(mul(product, scale), (b, h, t, s)))
                    c.w.store(most, select(compare(">", score, most), score, most))
                total = c.w.variable(element, 0, "sum")
                # Of a row that is masked as a whole nothing is left: all weights are 0.
                base = c.w.let(select(compare("==", most, -inf), Const(0.0, element), most))
                with each():
                    score = Load(scores, (t, s))
                    c.w.store(score, call("exp", sub(score, base)))
                    c.w.store(total, score, "+=")
                if logarithms is not None:
                    logarithm = select(compare("==", most, -inf), Const(0.0, element), add(base, call("log", total)))
                    c.w.store(logarithms((b, h, t)), stored_value(logarithm, c.out(1).dtype))
                if output is not None:
                    factor = c.w.let(select(compare("==", total, 0), Const(0.0, element), div(1, total)))
                    with c.w.loop(width) as d:
                        found = c.w.variable(element, 0, "sum")
                        with each():
                            weight = Load(scores, (t, s))
                            c.w.store(found, mul(weight, cast(value.at((b, group, s, d)), element)), "+=")
                        c.w.store(output((b, h, t, d)), stored_value(mul(found, factor), c.out(0).dtype))

    return c.whole(write)
