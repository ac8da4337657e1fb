"""Normalisations, forward and backward: of rows, of groups of channels, of channels over a batch.

Means and variances are those of two passes over the elements, with what rounding left out of the mean put back
(`reduction_ops.moments`), so that large means and small variances keep their digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod

import torch

from polydl.model.types import ElementType
from polydl.torch_backend.formulas import add, call, div, mul, sub
from polydl.torch_backend.loop_index import ZERO, Index
from polydl.torch_backend.loop_program import Expr
from polydl.torch_backend.operator_call import (
    ABSENT,
    Call,
    Element,
    Kind,
    Lowered,
    Place,
    Result,
    Target,
    cast,
    computed,
    lowers,
    same_place,
    stored_value,
)
from polydl.torch_backend.ops.reduction_ops import Moments, Rows, moments

Map = tuple[Index, ...]
At = Callable[[Map], Expr]


def in_type(source: Element, element: ElementType) -> At:
    return lambda index: cast(source.at(index), element)


def reciprocal_deviation(c: Call, found: Moments, count: int) -> Expr:
    variance = div(found.squares, float(count))
    return div(1, call("sqrt", add(variance, float(c["eps"]))))


def scaled(value: Expr, weight: At | None, bias: At | None, index: Map) -> Expr:
    value = value if weight is None else mul(value, weight(index))
    return value if bias is None else add(value, bias(index))


def results(c: Call, kind_rows: Rows, *parts: tuple[At, Place]) -> Lowered:
    made = [
        ABSENT if out is None else Result(Element(tuple(out.shape), out.dtype, typed(at, out.dtype)), place)
        for out, (at, place) in zip(c.asked(), parts, strict=True)
    ]
    return Lowered(Kind.ROW, kind_rows.sizes, tuple(made), kind_rows.reduced)


def typed(at: At, dtype: torch.dtype) -> At:
    return lambda index: cast(at(index), computed(dtype))


def optional(c: Call, name: str, element: ElementType) -> At | None:
    source = c.optional(name)
    return None if source is None else in_type(source, element)


def affine(c: Call, element: ElementType, pick: Callable[[Map], Map], *names: str) -> list[At | None]:
    """Weight and bias by the subscripts of an element that they scale."""
    found: list[At | None] = []
    for name in names:
        source = optional(c, name, element)
        found.append(None if source is None else picked(source, pick))
    return found


def picked(source: At, pick: Callable[[Map], Map]) -> At:
    return lambda index: source(pick(index))


@lowers("native_layer_norm.default")
def _layer_norm(c: Call) -> Lowered:
    source = c.element("input")
    element = source.type
    rank, own = len(source.sizes), len(c["normalized_shape"])
    rows = Rows(c, source, list(range(rank - own, rank)))
    weight, bias = affine(c, element, lambda index: index[rank - own :], "weight", "bias")

    def of(row: Map) -> tuple[Moments, Expr]:
        def make() -> tuple[Moments, Expr]:
            found = moments(c, rows, row, source.at, element)
            return found, c.w.let(reciprocal_deviation(c, found, rows.count))

        return c.once("norm", row, make)

    def at(index: Map) -> Expr:
        found, scale = of(rows.of(index))
        return scaled(mul(found.centred(source.at(index)), scale), weight, bias, index)

    place = rows.place(keepdim=True)
    return results(c, rows, (at, same_place), (lambda row: of(row)[0].mean, place), (lambda row: of(row)[1], place))


@lowers("_fused_rms_norm.default")
def _rms_norm(c: Call) -> Lowered:
    source = c.element("input")
    element = source.type
    rank, own = len(source.sizes), len(c["normalized_shape"])
    rows = Rows(c, source, list(range(rank - own, rank)))
    (weight,) = affine(c, element, lambda index: index[rank - own :], "weight")
    eps = torch.finfo(source.dtype).eps if c["eps"] is None else float(c["eps"])

    def scale(row: Map) -> Expr:
        def make() -> Expr:
            squares = rows.total("squares", row, element, lambda index: _square(c, source.at(index)))
            return c.w.let(div(1, call("sqrt", add(div(squares, float(rows.count)), eps))))

        return c.once("scale", row, make)

    def at(index: Map) -> Expr:
        return scaled(mul(source.at(index), scale(rows.of(index))), weight, None, index)

    return results(c, rows, (at, same_place), (scale, rows.place(keepdim=True)))


def _square(c: Call, value: Expr) -> Expr:
    value = c.w.let(value)
    return mul(value, value)


class Grouped:
    """The channels of a tensor N x C x … in groups."""

    def __init__(self, c: Call, source: Element) -> None:
        self.c = c
        self.sizes = source.sizes
        self.each = source.sizes[1] // c["group"]
        """Channels of a group."""
        self.groups: int = c["group"]
        self.space = source.sizes[2:]
        self.count = self.each * prod(self.space)

    def of(self, index: Map) -> Map:
        """The image and the group of an element."""
        return index[0], index[1] // self.each

    @contextmanager
    def elements(self, row: Map) -> Iterator[Map]:
        """Loops over the elements of a group."""
        image, group = row
        with self.c.w.nest((self.each, *self.space)) as (channel, *place):
            yield (image, group * self.each + channel, *place)


class GroupRows(Rows):
    """The elements of each group as rows, so that what is known of rows holds of them."""

    def __init__(self, c: Call, source: Element) -> None:
        super().__init__(c, source, list(range(1, len(source.sizes))))
        self.grouped = Grouped(c, source)
        self.count = self.grouped.count

    @contextmanager
    def each(self, row: Map) -> Iterator[Map]:
        with self.grouped.elements(row) as index:
            yield index

    def of(self, index: Map) -> Map:
        return self.grouped.of(index)

    def place(self, keepdim: bool) -> Place:
        return self.grouped.of


@lowers("native_group_norm.default")
def _group_norm(c: Call) -> Lowered:
    source = c.element("input")
    element = source.type
    rows = GroupRows(c, source)
    weight, bias = affine(c, element, lambda index: index[1:2], "weight", "bias")

    def of(row: Map) -> tuple[Moments, Expr]:
        def make() -> tuple[Moments, Expr]:
            found = moments(c, rows, row, source.at, element)
            return found, c.w.let(reciprocal_deviation(c, found, rows.count))

        return c.once("norm", row, make)

    def at(index: Map) -> Expr:
        found, scale = of(rows.of(index))
        return scaled(mul(found.centred(source.at(index)), scale), weight, bias, index)

    place = rows.place(keepdim=True)
    return results(c, rows, (at, same_place), (lambda row: of(row)[0].mean, place), (lambda row: of(row)[1], place))


def channels(c: Call, source: Element) -> Rows:
    """The elements of each channel as rows."""
    return Rows(c, source, [d for d in range(len(source.sizes)) if d != 1])


def channel(index: Map) -> Map:
    return index[1:2]


@lowers("_native_batch_norm_legit_no_training.default")
def _batch_norm_inference(c: Call) -> Lowered:
    return _batch_norm_known(c)


@lowers("native_batch_norm.default")
def _batch_norm(c: Call) -> Lowered:
    if not c["training"]:
        return _batch_norm_known(c)
    if c.given("running_mean"):
        c.refuse("it changes running statistics in place")
    return _batch_norm_training(c)


def _batch_norm_known(c: Call) -> Lowered:
    """With the mean and variance of earlier batches."""
    source = c.element("input")
    element = computed(c.out().dtype)
    mean, variance = (in_type(c.element(name), element) for name in ("running_mean", "running_var"))
    weight, bias = affine(c, element, channel, "weight", "bias")

    def at(index: Map) -> Expr:
        own = channel(index)

        def make() -> Expr:
            return c.w.let(div(1, call("sqrt", add(variance(own), float(c["eps"])))))

        scale = make() if c.w.guarded else c.once("scale", own, make)
        value = sub(cast(source.at(index), element), mean(own))
        return scaled(mul(value, scale), weight, bias, index)

    first = Result(Element(c.sizes(), c.out().dtype, at), same_place)
    others = [ABSENT if 0 in out.shape else None for out in c.outs()[1:]]
    if any(one is None for one in others):
        c.refuse("it gives statistics that it does not compute")
    return Lowered(Kind.POINTWISE, source.sizes, (first, *(ABSENT for _ in others)))


@lowers("_native_batch_norm_legit.no_stats", "_native_batch_norm_legit_functional.default",
        "_batch_norm_with_update_functional.default")  # fmt: skip
def _batch_norm_training(c: Call) -> Lowered:
    if c.raw("training") is False:
        c.refuse("it has running statistics and does not train")
    source = c.element("input")
    element = source.type
    rows = channels(c, source)
    weight, bias = affine(c, element, channel, "weight", "bias")
    n = rows.count

    def row_of(own: Map) -> Map:
        return rows.row(own, keepdim=False)

    def of(row: Map) -> tuple[Moments, Expr]:
        def make() -> tuple[Moments, Expr]:
            found = moments(c, rows, row, source.at, element)
            return found, c.w.let(reciprocal_deviation(c, found, n))

        return c.once("norm", row, make)

    def at(index: Map) -> Expr:
        found, scale = of(rows.of(index))
        return scaled(mul(found.centred(source.at(index)), scale), weight, bias, index)

    def updated(name: str, new: Callable[[Map], Expr]) -> At:
        old = in_type(c.element(name), element)
        m = float(c["momentum"])
        return lambda own: add(mul(old(own), 1 - m), mul(new(row_of(own)), m))

    def mean(row: Map) -> Expr:
        return of(row)[0].mean

    def variance(row: Map) -> Expr:
        return div(of(row)[0].squares, float(max(n - 1, 0)))

    place = rows.place(keepdim=False)
    statistics: list[tuple[At, Place]] = [
        (lambda own: mean(row_of(own)), place),
        (lambda own: of(row_of(own))[1], place),
    ]
    if c.given("running_mean"):
        if n < 2:
            c.refuse("a channel has one element, of which there is no variance")
        new = [(updated("running_mean", mean), place), (updated("running_var", variance), place)]
        reserved: list[tuple[At, Place]] = [(at, place)] * (len(c.asked()) - 5)
        statistics += [*reserved, *new]
    return results(c, rows, (at, same_place), *statistics)


# Gradients.


def gradient_of_rows(c: Call, rows: Rows, g: At, normal: At, scale: Callable[[Map], Expr], element: ElementType) -> At:
    """The gradient of what was normalised: `(g - mean(g) - normal * mean(g * normal)) * scale`, where g is the gradient
    of the normal values, and means are those of rows."""

    def at(index: Map) -> Expr:
        row = rows.of(index)
        n = float(rows.count)
        total = rows.total("sum", row, element, g)
        product = rows.total("product", row, element, lambda own: mul(g(own), normal(own)))
        means = c.once("means", row, lambda: (c.w.let(div(total, n)), c.w.let(div(product, n))))
        return mul(sub(sub(g(index), means[0]), mul(normal(index), means[1])), scale(row))

    return at


@lowers("native_layer_norm_backward.default")
def _layer_norm_backward(c: Call) -> Lowered:
    source, gradient = c.element("input"), c.element("grad_out")
    element = source.type
    rank, own = len(source.sizes), len(c["normalized_shape"])
    rows = Rows(c, source, list(range(rank - own, rank)))
    mean, rstd = (in_type(c.element(name), element) for name in ("mean", "rstd"))
    (weight,) = affine(c, element, lambda index: index[rank - own :], "weight")

    def normal(index: Map) -> Expr:
        return mul(sub(source.at(index), mean(rows.of(index))), rstd(rows.of(index)))

    def g(index: Map) -> Expr:
        return scaled(cast(gradient.at(index), element), weight, None, index)

    at = gradient_of_rows(c, rows, g, normal, rstd, element)
    return rows_and_columns(c, rows, at, normal, in_type(gradient, element), element)


@lowers("_fused_rms_norm_backward.default")
def _rms_norm_backward(c: Call) -> Lowered:
    source, gradient = c.element("input"), c.element("grad_out")
    element = source.type
    rank, own = len(source.sizes), len(c["normalized_shape"])
    rows = Rows(c, source, list(range(rank - own, rank)))
    rstd = in_type(c.element("rstd"), element)
    (weight,) = affine(c, element, lambda index: index[rank - own :], "weight")

    def normal(index: Map) -> Expr:
        return mul(source.at(index), rstd(rows.of(index)))

    def g(index: Map) -> Expr:
        return scaled(cast(gradient.at(index), element), weight, None, index)

    def at(index: Map) -> Expr:
        row = rows.of(index)
        product = rows.total("product", row, element, lambda own: mul(g(own), normal(own)))
        part = c.once("mean", row, lambda: c.w.let(div(product, float(rows.count))))
        return mul(sub(g(index), mul(normal(index), part)), rstd(row))

    return rows_and_columns(c, rows, at, normal, in_type(gradient, element), element)


def rows_and_columns(c: Call, rows: Rows, at: At, normal: At, gradient: At, element: ElementType) -> Lowered:
    """Gradients of the elements, and of weight and bias, which are sums over rows."""
    outer = [n for d, n in enumerate(rows.sizes) if d not in rows.dims]
    inner = [rows.sizes[d] for d in rows.dims]

    def write(targets: Sequence[Target | None]) -> None:
        if targets[0] is not None:
            with c.w.nest(rows.sizes) as index:
                c.w.store(targets[0](index), stored_value(at(index), c.out(0).dtype))
        for number, target in enumerate(targets[1:], 1):
            if target is None:
                continue
            with c.w.nest(inner) as column:
                total = c.w.variable(element, 0, "sum")
                with c.w.nest(outer) as row:
                    index = (*row, *column)
                    value = gradient(index) if number == 2 else mul(gradient(index), normal(index))
                    c.w.store(total, value, "+=")
                c.w.store(target(column), stored_value(total, c.out(number).dtype))

    return c.whole(write)


@lowers("native_batch_norm_backward.default")
def _batch_norm_backward(c: Call) -> Lowered:
    source, gradient = c.element("input"), c.element("grad_out")
    element = source.type
    rows = channels(c, source)
    weight = affine(c, element, channel, "weight")[0]
    if c["train"]:
        mean, scale = (in_type(c.element(name), element) for name in ("save_mean", "save_invstd"))
    else:
        mean, variance = (in_type(c.element(name), element) for name in ("running_mean", "running_var"))

        def scale(own: Map) -> Expr:
            return div(1, call("sqrt", add(variance(own), float(c["eps"]))))

    def known(row: Map) -> tuple[Expr, Expr]:
        own = channel(row)
        return c.once("known", row, lambda: (c.w.let(mean(own)), c.w.let(scale(own))))

    def normal(index: Map) -> Expr:
        centre, factor = known(rows.of(index))
        return mul(sub(source.at(index), centre), factor)

    g = in_type(gradient, element)

    def total(row: Map) -> Expr:
        return rows.total("sum", row, element, g)

    def product(row: Map) -> Expr:
        return rows.total("product", row, element, lambda index: mul(g(index), normal(index)))

    def at(index: Map) -> Expr:
        row = rows.of(index)
        factor = known(row)[1]
        value = g(index)
        if c["train"]:
            n = float(rows.count)
            sums = total(row), product(row)
            means = c.once("means", row, lambda: (c.w.let(div(sums[0], n)), c.w.let(div(sums[1], n))))
            value = sub(sub(value, means[0]), mul(normal(index), means[1]))
        return scaled(mul(value, factor), weight, None, index)

    place = rows.place(keepdim=False)
    parts: list[tuple[At, Place]] = [
        (at, same_place),
        (lambda own: product(rows.row(own, keepdim=False)), place),
        (lambda own: total(rows.row(own, keepdim=False)), place),
    ]
    return results(c, rows, *parts)


@lowers("native_group_norm_backward.default")
def _group_norm_backward(c: Call) -> Lowered:
    source, gradient = c.element("input"), c.element("grad_out")
    element = source.type
    rows = GroupRows(c, source)
    mean, rstd = (in_type(c.element(name), element) for name in ("mean", "rstd"))
    (weight,) = affine(c, element, channel, "weight")

    def normal(index: Map) -> Expr:
        row = rows.of(index)
        return mul(sub(source.at(index), mean(row)), rstd(row))

    def g(index: Map) -> Expr:
        return scaled(cast(gradient.at(index), element), weight, None, index)

    at = gradient_of_rows(c, rows, g, normal, rstd, element)
    by_channel = Rows(c, source, [d for d in range(len(source.sizes)) if d != 1])
    own_gradient = in_type(gradient, element)

    def write(targets: Sequence[Target | None]) -> None:
        if targets[0] is not None:
            with c.w.nest((rows.sizes[0], rows.grouped.groups)) as row, rows.each(row) as index:
                c.w.store(targets[0](index), stored_value(at(index), c.out(0).dtype))
        for number, target in enumerate(targets[1:], 1):
            if target is None:
                continue
            with c.w.loop(rows.sizes[1]) as own:
                total = c.w.variable(element, 0, "sum")
                with by_channel.each((ZERO, own, *(ZERO for _ in rows.sizes[2:]))) as index:
                    value = own_gradient(index) if number == 2 else mul(own_gradient(index), normal(index))
                    c.w.store(total, value, "+=")
                c.w.store(target((own,)), stored_value(total, c.out(number).dtype))

    return c.whole(write)
