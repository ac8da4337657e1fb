"""Pooling and resizing of images of one to three dimensions, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise, product
from math import inf, prod

import numpy as np

from polydl.model.types import I32, I64, ElementType
from polydl.torch_backend.formulas import add, compare, div, either, inside, is_nan, mul, position, select, sub
from polydl.torch_backend.loop_index import Index, linear, number
from polydl.torch_backend.loop_program import Const, Expr, Load
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
)
from polydl.torch_backend.ops.access_maps import contiguous_strides, within

Map = tuple[Index, ...]


def every(value: int | Sequence[int], rank: int) -> list[int]:
    """A number for each dimension, of one or as many."""
    given = [value] if isinstance(value, int) else list(value)
    return given * rank if len(given) == 1 else given


def _rank(c: Call) -> int:
    """The dimensions of the operator's images, by its name."""
    return next(int(before) for before, letter in pairwise(c.name) if letter == "d" and before.isdigit())


class Window:
    """A window that moves over the last dimensions of an image."""

    def __init__(self, c: Call, source: Element, rank: int) -> None:
        self.c = c
        self.space = source.sizes[-rank:]
        self.size = every(c["kernel_size"], rank)
        self.stride = every(c["stride"], rank) if c["stride"] else self.size
        self.padding = every(c["padding"], rank)
        self.dilation = every(c.raw("dilation") or 1, rank)
        self.rank = rank

    def at(self, place: Sequence[Index], k: Sequence[Index]) -> Map:
        steps = zip(place, k, self.stride, self.dilation, self.padding, strict=True)
        return tuple(y * s + tap * d - p for y, tap, s, d, p in steps)

    def first(self, place: Sequence[Index]) -> Map:
        """Where the window begins, in front of the image as well."""
        return self.at(place, [number(0)] * self.rank)


def once_each(c: Call, ats: Sequence[Callable[[Map], Expr]]) -> Lowered:
    """Results that are computed once for each element, with statements."""
    results = []
    for out, at in zip(c.outs(), ats, strict=True):
        results.append(Result(Element(tuple(out.shape), out.dtype, at), same_place))
    return Lowered(Kind.CONTRACTION, c.sizes(), tuple(results))


@lowers("max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def _max_pool(c: Call) -> Lowered:
    rank = _rank(c)
    source = c.element("self")
    window = Window(c, source, rank)
    element = source.type
    steps = contiguous_strides(window.space)
    indices = c.used(1)

    def start(place: Sequence[Index]) -> Expr:
        """The place in memory of the first element of the image in the window."""
        found: Expr | None = None
        for first, d, step in zip(window.first(place), window.dilation, steps, strict=True):
            at = position(first, I32)
            if first.range[0] < 0:
                in_image = first + (number(d - 1) - first) // d * d
                at = select(compare("<", at, 0), position(in_image, I32), at)
            at = mul(at, step) if step > 1 else at
            found = at if found is None else add(found, at)
        assert found is not None
        return found

    def made(index: Map) -> tuple[Expr, Expr]:
        outer, place = index[:-rank], index[-rank:]
        lowest = -inf if element.is_float else element.minimum
        most = c.w.variable(element, lowest, "most")
        where = c.w.variable(I32, start(place), "at") if indices else None
        with c.w.nest(window.size) as k:
            there = window.at(place, k)
            condition = within(there, window.space)
            if condition is None:
                _better(c, source.at((*outer, *there)), most, where, linear(there, steps))
            else:
                with c.w.when(condition):
                    _better(c, source.at((*outer, *there)), most, where, linear(there, steps))
        return most, most if where is None else where

    def value(index: Map) -> Expr:
        return c.once("most", index, lambda: made(index))[0]

    def where(index: Map) -> Expr:
        return cast(c.once("most", index, lambda: made(index))[1], I64)

    return once_each(c, [value, where])


def _better(c: Call, value: Expr, most: Expr, where: Expr | None, place: Index) -> None:

    x = c.w.let(value)
    better = compare(">", x, most)
    if x.type.is_float:
        better = either(better, is_nan(x))
    assert isinstance(most, Load)
    if where is None:
        c.w.store(most, select(better, x, most))
        return
    assert isinstance(where, Load)
    with c.w.when(better):
        c.w.store(most, x)
        c.w.store(where, position(place, I32))


@lowers("max_pool2d_with_indices_backward.default", "max_pool3d_with_indices_backward.default")
def _max_pool_backward(c: Call) -> Lowered:
    rank = _rank(c)
    gradient, source, indices = c.element("grad_output"), c.element("self"), c.element("indices")
    element = computed(c.out().dtype)
    if STORED[c.out().dtype] is not element:
        c.refuse("its sums would be rounded to 16 bits in between")
    window = Window(c, source, rank)
    steps = contiguous_strides(window.space)

    def write(targets: Sequence[Target | None]) -> None:
        (target,) = targets
        assert target is not None
        with c.w.nest(source.sizes) as index:
            outer, there = index[:-rank], index[-rank:]
            total = c.w.variable(element, 0, "sum")
            # Windows that hold the element: at most this many along each dimension, from the last one that begins in
            # front of it.
            most = [((k - 1) * d) // s + 1 for k, d, s in zip(window.size, window.dilation, window.stride, strict=True)]
            with c.w.nest(most) as back:
                place = tuple(
                    (y + p) // s - b for y, p, s, b in zip(there, window.padding, window.stride, back, strict=True)
                )
                condition = within(place, gradient.sizes[-rank:])
                with c.w.guard():
                    here = compare("==", indices.at((*outer, *place)), position(linear(there, steps), I64))
                    value = cast(gradient.at((*outer, *place)), element)
                with c.w.when(condition or Const(1, I32)), c.w.when(here):
                    c.w.store(total, value, "+=")
            c.w.store(target(index), total)

    return c.whole(write)


@lowers("avg_pool1d.default", "avg_pool2d.default", "avg_pool3d.default")
def _avg_pool(c: Call) -> Lowered:
    rank = _rank(c)
    source = c.element("self")
    window = Window(c, source, rank)
    element = computed(c.out().dtype)
    if element.is_int:
        c.refuse("it is of integers")
    divide = divisor(c, window, element)

    def made(index: Map) -> Expr:
        outer, place = index[:-rank], index[-rank:]
        total = c.w.variable(element, 0, "sum")
        with c.w.nest(window.size) as k:
            there = window.at(place, k)
            condition = within(there, window.space)
            if condition is None:
                c.w.store(total, source.at((*outer, *there)), "+=")
            else:
                with c.w.when(condition):
                    c.w.store(total, source.at((*outer, *there)), "+=")
        return total

    def at(index: Map) -> Expr:
        return divide(c.once("sum", index, lambda: made(index)), index[-rank:])

    return once_each(c, [at])


def divisor(c: Call, window: Window, element: ElementType) -> Callable[[Expr, Sequence[Index]], Expr]:
    """Divides a window's sum by what counts as its size at a place of the result."""
    fixed = c.raw("divisor_override")
    padded = bool(c["count_include_pad"])

    def divide(total: Expr, place: Sequence[Index]) -> Expr:
        if fixed:
            return div(total, float(fixed))
        counts: Expr | None = None
        known = 1
        for first, k, p, n in zip(window.first(place), window.size, window.padding, window.space, strict=True):
            begin, end = (first, n + p) if padded else (first, n)
            low, high = begin.range
            if (padded or low >= 0) and high + k <= end:
                known *= k
                continue
            last = position(first + k, I32)
            last = select(compare(">", last, end), end, last)
            from_start = position(first, I32)
            if not padded and low < 0:
                from_start = select(compare("<", from_start, 0), 0, from_start)
            count = cast(sub(last, from_start), element)
            counts = count if counts is None else mul(counts, count)
        if counts is None:
            return div(total, float(known))
        return div(total, counts if known == 1 else mul(counts, float(known)))

    return divide


@lowers("avg_pool2d_backward.default", "avg_pool3d_backward.default")
def _avg_pool_backward(c: Call) -> Lowered:
    rank = _rank(c)
    gradient, source = c.element("grad_output"), c.element("self")
    element = computed(c.out().dtype)
    if element.is_int or STORED[c.out().dtype] is not element:
        c.refuse("its sums would be rounded in between")
    window = Window(c, source, rank)
    divide = divisor(c, window, element)

    def write(targets: Sequence[Target | None]) -> None:
        (target,) = targets
        assert target is not None
        with c.w.nest(source.sizes) as index:
            c.w.store(target(index), Const(0.0, element))
        with c.w.nest((*gradient.sizes, *window.size)) as index:
            own, k = index[: len(gradient.sizes)], index[len(gradient.sizes) :]
            there = window.at(own[-rank:], k)
            value = divide(cast(gradient.at(own), element), own[-rank:])
            condition = within(there, window.space)
            with c.w.when(condition or Const(1, I32)):
                c.w.store(target((*own[:-rank], *there)), value, "+=")

    return c.whole(write)


@lowers("_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default")
def _adaptive(c: Call) -> Lowered:
    rank = _rank(c)
    source = c.element("self")
    element = computed(c.out().dtype)
    old, new = source.sizes[-rank:], c.sizes()[-rank:]
    most = [max(-(-(i + 1) * n // m) - i * n // m for i in range(m)) for n, m in zip(old, new, strict=True)]
    even = all(n % m == 0 for n, m in zip(old, new, strict=True))

    def made(index: Map) -> Expr:
        outer, place = index[:-rank], index[-rank:]
        total = c.w.variable(element, 0, "sum")
        starts = [one * n // m for one, n, m in zip(place, old, new, strict=True)]
        ends = [((one + 1) * n + (m - 1)) // m for one, n, m in zip(place, old, new, strict=True)]
        with c.w.nest(most) as k:
            there = tuple(start + tap for start, tap in zip(starts, k, strict=True))
            condition = None if even else inside(*(end - one - 1 for end, one in zip(ends, there, strict=True)))
            if condition is None:
                c.w.store(total, source.at((*outer, *there)), "+=")
            else:
                with c.w.when(condition):
                    c.w.store(total, source.at((*outer, *there)), "+=")
        if even:
            return c.w.let(div(total, float(prod(most))))
        for start, end in zip(starts, ends, strict=True):
            count = position(end - start, I32)
            total = div(total, cast(count, element))  # type: ignore[assignment]
        return c.w.let(total)

    return once_each(c, [lambda index: c.once("mean", index, lambda: made(index))])


@lowers("_adaptive_avg_pool2d_backward.default", "_adaptive_avg_pool3d_backward.default")
def _adaptive_backward(c: Call) -> Lowered:
    rank = _rank(c)
    gradient, source = c.element("grad_output"), c.element("self")
    old, new = source.sizes[-rank:], gradient.sizes[-rank:]
    if any(n % m for n, m in zip(old, new, strict=True)):
        c.refuse("its windows have several sizes")
    size = [n // m for n, m in zip(old, new, strict=True)]

    def at(index: Map) -> Expr:
        place = tuple(one // k for one, k in zip(index[-rank:], size, strict=True))
        return div(gradient.at((*index[:-rank], *place)), float(prod(size)))

    return c.pointwise(at)


@lowers(*(f"{name}{rank}d.{overload}" for name in ("upsample_nearest", "_upsample_nearest_exact")
          for rank in (1, 2, 3) for overload in ("default", "vec")))  # fmt: skip
def _upsample(c: Call) -> Lowered:
    source = c.element("self" if c.given("self") else "input")
    rank = len(source.sizes) - 2
    old, new = source.sizes[2:], c.sizes()[2:]
    names = [[f"scales_{axis}" for axis in "dhw"][-rank:], ["scales"]][rank == 1]
    given = c.raw("scale_factors") or [c.raw(one) for one in names]
    half = int("exact" in c.name)  # the element at a pixel's middle, in halves of a pixel
    for n, m, scale in zip(old, new, given, strict=True):
        step = np.float32(1 / scale) if scale is not None and scale > 0 else np.float32(n) / np.float32(m)
        places = np.arange(m, dtype=np.float32) + np.float32(half / 2)
        taken = np.minimum((places * step).astype(np.int64), n - 1)
        if not np.array_equal(taken, (2 * np.arange(m) + half) * n // (2 * m)):
            c.refuse("it takes elements in steps that are no ratio of its sizes")

    def at(index: Map) -> Expr:
        place = [(one * 2 + half) * n // (2 * m) for one, n, m in zip(index[2:], old, new, strict=True)]
        return source.at((*index[:2], *place))

    return c.pointwise(at)


@lowers("upsample_linear1d.default", "upsample_bilinear2d.default", "upsample_trilinear3d.default",
        "upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec")  # fmt: skip
def _upsample_linear(c: Call) -> Lowered:
    source = c.element("self" if c.given("self") else "input")
    if not source.type.is_float:
        c.refuse("it rounds")
    rank = len(source.sizes) - 2
    old, new = source.sizes[2:], c.sizes()[2:]
    names = [[f"scales_{axis}" for axis in "dhw"][-rank:], ["scales"]][rank == 1]
    given = c.raw("scale_factors") or [c.raw(one) for one in names]
    steps = [_steps(c, *each) for each in zip(old, new, given, strict=True)]

    def at(index: Map) -> Expr:
        places = [(one * a + b, by) for one, (a, b, by) in zip(index[2:], steps, strict=True)]
        found: list[Expr] = []
        for upper in product((0, 1), repeat=rank):
            corner = [place // by + up for (place, by), up in zip(places, upper, strict=True)]
            found.append(_nearest_inside(c, source, (*index[:2], *corner), 2))
        for place, by in reversed(places):
            part = place % by
            share = mul(position(part, source.type), 1 / by)
            pairs = zip(found[::2], found[1::2], strict=True)
            found = [one if part == number(0) else add(one, mul(sub(other, one), share)) for one, other in pairs]
        return found[0]

    return c.pointwise(at)


def _steps(c: Call, old: int, new: int, scale: float | None) -> tuple[int, int, int]:
    """(a, b, by): an element i of a resized dimension lies at (a i + b) / by of the old one, as ATen has it
    (`area_pixel_compute_source_index`); in front of 0 and behind the last one, its value is theirs."""
    if c["align_corners"]:
        return (old - 1, 0, new - 1) if new > 1 else (0, 0, 1)
    step = Fraction(1 / scale).limit_denominator(4 * new) if scale else Fraction(old, new)
    by = 2 * step.denominator
    a, b = 2 * step.numerator, step.numerator - step.denominator
    exact = step if scale is None else Fraction(1 / scale)
    if abs(float(step - exact)) * new > 1e-6 * max(old, 1) or (a * (new - 1) + b) // by >= old:
        c.refuse("it takes elements in steps that are no ratio of its sizes")
    return a, b, by


def _nearest_inside(c: Call, source: Element, place: Map, d: int) -> Expr:
    """An element of an image; for a place outside of it, from dimension d on, that at the border next to it."""
    return around(c, source, place, d, lambda place, border: border)


def around(c: Call, source: Element, place: Map, d: int, outside: Callable[[Index, Index], Index]) -> Expr:
    """An element of an image; for a place outside of it, from dimension d on, that at `outside(place, border)`, where
    `border` is the last place inside on that side."""
    if d == len(place):
        return source.at(place)

    def at(one: Index) -> Expr:
        return around(c, source, (*place[:d], one, *place[d + 1 :]), d + 1, outside)

    last = number(source.sizes[d] - 1)
    with c.w.guard():
        found = at(place[d])
        for test, border in ((place[d], number(0)), (last - place[d], last)):
            condition = inside(test)
            found = found if condition is None else select(condition, found, at(outside(place[d], border)))
    return found


def _padded(c: Call, outside: Callable[[Index, Index], Index]) -> Lowered:
    """An image with elements of its own around it."""
    source, pads = c.element("self"), c["padding"]
    rank = len(pads) // 2
    first = len(source.sizes) - rank

    def at(index: Map) -> Expr:
        inner = (one - before for one, before in zip(index[first:], reversed(pads[::2]), strict=True))
        return around(c, source, (*index[:first], *inner), first, outside)

    return c.pointwise(at)


@lowers("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default")
def _reflected(c: Call) -> Lowered:
    return _padded(c, lambda place, border: border * 2 - place)


@lowers("replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default")
def _replicated(c: Call) -> Lowered:
    return _padded(c, lambda place, border: border)
