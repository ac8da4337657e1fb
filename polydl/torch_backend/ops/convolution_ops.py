"""Convolutions of one to three dimensions and their gradients.

All are one relation between elements of two images and of the weight: for image n, group g, channel s of the `small`
image at y, and channel l of the `large` image, the weight at (s, l, k) joins small[n, s, y] and
large[n, l, y * stride + k * dilation - padding]. A convolution sums over what gives an element of the small image, a
transposed one and the gradient of the input over what gives one of the large image, the gradient of the weight over the
rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from polydl.model.types import ElementType
from polydl.torch_backend.formulas import add, mul
from polydl.torch_backend.loop_index import Index
from polydl.torch_backend.loop_program import Expr
from polydl.torch_backend.operator_call import (
    STORED,
    Call,
    Element,
    Kind,
    Lowered,
    Result,
    Target,
    cast,
    computed,
    lowers,
    same_place,
    stored_value,
)
from polydl.torch_backend.ops.access_maps import within

Map = tuple[Index, ...]


class Relation:
    """Sizes of the two images and the weight, and which elements meet."""

    def __init__(self, c: Call, small: tuple[int, ...], large: tuple[int, ...], weight: tuple[int, ...]) -> None:
        rank = len(small) - 2
        self.c = c
        self.small, self.large, self.weight = small, large, weight
        self.stride, self.padding, self.dilation = (
            [*c[name], *[c[name][-1]] * (rank - len(c[name]))] for name in ("stride", "padding", "dilation")
        )
        self.groups: int = c["groups"]
        self.of_small = small[1] // self.groups
        """Channels of a group of the small image."""
        self.of_large = large[1] // self.groups
        self.window = weight[2:]

    def at(self, place: Sequence[Index], k: Sequence[Index]) -> Map:
        """Where in the large image a place of the small one and one of the window meet."""
        steps = zip(place, k, self.stride, self.dilation, self.padding, strict=True)
        return tuple(y * stride + tap * dilation - padding for y, tap, stride, dilation, padding in steps)

    @contextmanager
    def where_inside(self, place: Map) -> Iterator[None]:
        """What runs only where a place is inside of the large image."""
        condition = within(place, self.large[2:])
        if condition is None:
            yield
            return
        with self.c.w.when(condition):
            yield


def plain(c: Call, *elements: Element) -> None:
    rank = len(elements[0].sizes)
    if rank < 3 or rank > 5 or any(len(one.sizes) != rank for one in elements):
        c.refuse("its image has no batch, or more than three dimensions")


@lowers("convolution.default")
def _convolution(c: Call) -> Lowered:
    source, weight, bias = c.element("input"), c.element("weight"), c.optional("bias")
    plain(c, source, weight)
    element = computed(c.out().dtype)
    if element.is_int:
        c.refuse("it is of integers")
    if c["transposed"]:
        relation = Relation(c, source.sizes, c.sizes(), weight.sizes)
        return c.whole(lambda targets: to_large(relation, source, weight, bias, targets[0], c.out().dtype))
    relation = Relation(c, c.sizes(), source.sizes, weight.sizes)
    strides = c.meta("input").stride()
    order = sorted(range(1, len(strides)), key=lambda d: -strides[d])
    """Dimensions that are summed over, as they lie in memory in the image."""

    def total(index: Map) -> Expr:
        image, channel, *place = index
        group = channel // relation.of_small
        found = c.w.variable(element, 0, "sum")
        with c.w.nest([weight.sizes[d] for d in order]) as loops:
            inner, *k = (loops[order.index(d)] for d in range(1, len(weight.sizes)))
            there = relation.at(place, k)
            with relation.where_inside(there):
                one = source.at((image, group * relation.of_large + inner, *there))
                other = weight.at((channel, inner, *k))
                c.w.store(found, mul(cast(one, element), cast(other, element)), "+=")
        return found

    def at(index: Map) -> Expr:
        value = c.once("sum", index, lambda: total(index))
        return value if bias is None else add(value, cast(bias.at(index[1:2]), element))

    return Lowered(Kind.CONTRACTION, c.sizes(), (Result(Element(c.sizes(), c.out().dtype, at), same_place),))


def to_large(
    relation: Relation, small: Element, weight: Element, bias: Element | None, target: Target | None, dtype: torch.dtype
) -> None:
    """Writes the large image: each element of the small one adds to a window."""
    if target is None:
        return
    c = relation.c
    element = computed(dtype)
    if STORED[dtype] is not element:
        c.refuse("its sums would be rounded to 16 bits in between")
    with c.w.nest(relation.large) as index:
        start = c.w.variable(element, 0, "start") if bias is None else cast(bias.at(index[1:2]), element)
        c.w.store(target(index), start)
    sizes = (relation.small[0], relation.groups, relation.of_large, relation.of_small, *relation.small[2:])
    with c.w.nest((*sizes, *relation.window)) as index:
        image, group, inner, own = index[:4]
        place, k = index[4 : 4 + len(relation.window)], index[4 + len(relation.window) :]
        there = relation.at(place, k)
        channel = group * relation.of_small + own
        with relation.where_inside(there):
            value = mul(
                cast(small.at((image, channel, *place)), element), cast(weight.at((channel, inner, *k)), element)
            )
            c.w.store(target((image, group * relation.of_large + inner, *there)), value, "+=")


def to_small(relation: Relation, large: Element, weight: Element, target: Target | None, dtype: torch.dtype) -> None:
    """Writes the small image: each element is a sum over a window."""
    if target is None:
        return
    c, element = relation.c, computed(dtype)
    with c.w.nest(relation.small) as index:
        image, channel, *place = index
        found = c.w.variable(element, 0, "sum")
        with c.w.nest((relation.of_large, *relation.window)) as (inner, *k):
            there = relation.at(place, k)
            with relation.where_inside(there):
                one = large.at((image, channel // relation.of_small * relation.of_large + inner, *there))
                c.w.store(found, mul(cast(one, element), cast(weight.at((channel, inner, *k)), element)), "+=")
        c.w.store(target(index), stored_value(found, dtype))


def to_weight(relation: Relation, small: Element, large: Element, target: Target | None, dtype: torch.dtype) -> None:
    """Writes the weight's gradient: a sum over all images and places for each element."""
    if target is None:
        return
    c, element = relation.c, computed(dtype)
    with c.w.nest(relation.weight) as index:
        channel, inner, *k = index
        found = c.w.variable(element, 0, "sum")
        with c.w.nest((relation.small[0], *relation.small[2:])) as (image, *place):
            there = relation.at(place, k)
            with relation.where_inside(there):
                one = large.at((image, channel // relation.of_small * relation.of_large + inner, *there))
                c.w.store(found, mul(cast(small.at((image, channel, *place)), element), cast(one, element)), "+=")
        c.w.store(target(index), stored_value(found, dtype))


@lowers("convolution_backward.default")
def _convolution_backward(c: Call) -> Lowered:
    gradient, source, weight = c.element("grad_output"), c.element("input"), c.element("weight")
    plain(c, gradient, source, weight)
    dtype = source.dtype
    transposed = bool(c["transposed"])
    small, large = (source, gradient) if transposed else (gradient, source)
    relation = Relation(c, small.sizes, large.sizes, weight.sizes)

    def write(targets: Sequence[Target | None]) -> None:
        of_input, of_weight, of_bias = targets
        if transposed:
            to_small(relation, gradient, weight, of_input, dtype)
        else:
            to_large(relation, gradient, weight, None, of_input, dtype)
        to_weight(relation, small, large, of_weight, dtype)
        if of_bias is not None:
            sums(c, gradient, of_bias, computed(dtype), dtype)

    return c.whole(write)


def sums(c: Call, gradient: Element, target: Target, element: ElementType, dtype: torch.dtype) -> None:
    """Writes the sum of each channel."""
    images, channels, *space = gradient.sizes
    with c.w.loop(channels) as channel:
        total = c.w.variable(element, 0, "sum")
        with c.w.nest((images, *space)) as (image, *place):
            c.w.store(total, cast(gradient.at((image, channel, *place)), element), "+=")
        c.w.store(target((channel,)), stored_value(total, dtype))
