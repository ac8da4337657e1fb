"""Operators that reduce along dimensions: sums, means, products, extremes and where they are, variances, softmax."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

import torch

from polydl.model.types import BOOL, F32, F64, I32, I64, ElementType
from polydl.torch_backend.formulas import (
    NAN,
    add,
    call,
    compare,
    div,
    highest,
    is_nan,
    lowest,
    mul,
    negated,
    position,
    select,
    sub,
)
from polydl.torch_backend.loop_index import ZERO, Index, linear
from polydl.torch_backend.loop_program import Const, Expr
from polydl.torch_backend.operator_call import (
    Call,
    Element,
    Kind,
    Lowered,
    Place,
    Result,
    Target,
    along,
    axis_of,
    cast,
    computed,
    lowers,
    same_place,
    stored_value,
)
from polydl.torch_backend.ops.access_maps import contiguous_strides

Map = tuple[Index, ...]


class Rows:
    """The dimensions of a tensor along which it is reduced, and the others."""

    def __init__(self, c: Call, source: Element, dims: Sequence[int] | int | None) -> None:
        rank = len(source.sizes)
        given = [dims] if isinstance(dims, int) else list(dims or range(rank))
        self.c = c
        self.sizes = source.sizes
        self.dims = sorted({axis_of(one, rank) for one in given}) if rank else []
        self.count = prod(source.sizes[d] for d in self.dims)

    @property
    def reduced(self) -> frozenset[int]:
        return frozenset(self.dims)

    def place(self, keepdim: bool) -> Place:
        rank = range(len(self.sizes))
        return along([-1 if d in self.dims else d for d in rank if keepdim or d not in self.dims])

    def row(self, index: Map, keepdim: bool) -> Map:
        """Subscripts of a row's first element, by those of a result."""
        if keepdim:
            return tuple(ZERO if d in self.dims else one for d, one in enumerate(index))
        rest = iter(index)
        return tuple(ZERO if d in self.dims else next(rest) for d in range(len(self.sizes)))

    def of(self, index: Map) -> Map:
        """Subscripts of the first element of the row in which an element lies."""
        return self.row(index, keepdim=True)

    @contextmanager
    def each(self, row: Map) -> Iterator[Map]:
        """Loops over a row's elements."""
        with self._loops(row, self.dims) as index:
            yield index

    @contextmanager
    def _loops(self, index: Map, dims: Sequence[int]) -> Iterator[Map]:
        if not dims:
            yield index
            return
        first, *others = dims
        with self.c.w.loop(self.sizes[first], first) as k:
            moved = (*index[:first], k, *index[first + 1 :])
            with self._loops(moved, others) as found:
                yield found

    def total(
        self, name: str, row: Map, element: ElementType, value: Callable[[Map], Expr], kept: ElementType | None = None
    ) -> Expr:
        """The sum of a value over a row, made once; added up in the type `kept`, if there is one."""

        def make() -> Expr:
            found = self.c.w.variable(kept or element, 0, "sum")
            with self.each(row) as index:
                self.c.w.store(found, cast(cast(value(index), element), kept or element), "+=")
            return cast(found, element)

        return self.c.once(name, row, make)

    def sum(self, row: Map, value: Callable[[Map], Expr], kept: ElementType) -> Expr:
        """The sum of a row of `self`, whose elements are converted to a type that holds them, made once for all
        operators that ask for it."""

        def make() -> Expr:
            found = self.c.w.variable(kept, 0, "sum")
            with self.each(row) as index:
                self.c.w.store(found, cast(value(index), kept), "+=")
            return found

        free = frozenset(var for one in row for var in one.variables)
        return self.c.w.once((self.c.raw("self"), "sum", row, tuple(self.dims), kept), free, make)

    def most(self, name: str, row: Map, value: Callable[[Map], Expr], element: ElementType) -> Expr:
        """The greatest value of a row, NaN left out, made once."""

        def make() -> Expr:
            found = self.c.w.variable(element, lowest(element), "most")
            with self.each(row) as index:
                x = self.c.w.let(value(index))
                self.c.w.store(found, select(compare(">", x, found), x, found))
            return found

        return self.c.once(name, row, make)


LONG = 256
"""Elements from which a sum of floats is kept in double: one after the other they would lose as many of a float's 24
bits as their number has, where PyTorch adds up pairs of partial sums (Higham, SIAM J. Sci. Comput. 14(4), 1993)."""


def kept_in(rows: Rows, element: ElementType) -> ElementType:
    """The type in which the sum of a row of `self` is kept."""
    return F64 if element is F32 and rows.c.most("self", rows.dims) > LONG else element


def reduced(c: Call, rows: Rows, keepdim: bool, makes: Sequence[Callable[[Map], Expr]]) -> Lowered:
    """Results that are values of rows, by the subscripts of a row's first element."""
    results = []
    for out, make in zip(c.outs(), makes, strict=True):

        def at(index: Map, make: Callable[[Map], Expr] = make) -> Expr:
            return make(rows.row(index, keepdim))

        results.append(Result(Element(tuple(out.shape), out.dtype, at), rows.place(keepdim)))
    return Lowered(Kind.ROW, rows.sizes, tuple(results), rows.reduced)


def rows_of(c: Call, source: Element) -> Rows:
    return Rows(c, source, c.raw("dim"))


def keeps(c: Call) -> bool:
    return bool(c.raw("keepdim"))


@lowers("sum.default", "sum.dim_IntList", "mean.default", "mean.dim")
def _sum(c: Call) -> Lowered:
    source, element = c.element("self"), computed(c.out().dtype)
    rows = rows_of(c, source)
    mean = "mean" in c.node.target._schema.name  # type: ignore[union-attr]

    def make(row: Map) -> Expr:
        if element is source.type:
            total = cast(rows.sum(row, source.at, kept_in(rows, element)), element)
        else:
            total = rows.total("sum", row, element, source.at, kept_in(rows, element))
        return div(total, rows.count) if mean else total

    return reduced(c, rows, keeps(c), [make])


@lowers("linalg_vector_norm.default")
def _vector_norm(c: Call) -> Lowered:
    source, element = c.element("self"), computed(c.out().dtype)
    if not source.type.is_float or c["ord"] not in (1, 2):
        c.refuse("it is neither the sum of what elements are without a sign nor the root of that of their squares")
    squared = c["ord"] == 2
    rows = rows_of(c, source)

    def term(index: Map) -> Expr:
        x = c.w.let(cast(source.at(index), element))
        return mul(x, x) if squared else call("fabs", x)

    def make(row: Map) -> Expr:
        total = rows.total("norm", row, element, term, kept_in(rows, element))
        return c.once("root", row, lambda: c.w.let(call("sqrt", total))) if squared else total

    return reduced(c, rows, keeps(c), [make])


@lowers("prod.default", "prod.dim_int")
def _prod(c: Call) -> Lowered:
    source, element = c.element("self"), computed(c.out().dtype)
    rows = rows_of(c, source)

    def product(row: Map) -> Expr:
        found = c.w.variable(element, 1, "product")
        with rows.each(row) as index:
            c.w.store(found, cast(source.at(index), element), "*=")
        return found

    return reduced(c, rows, keeps(c), [lambda row: c.once("product", row, lambda: product(row))])


@lowers("any.default", "any.dim", "any.dims", "all.default", "all.dim", "all.dims")
def _any(c: Call) -> Lowered:
    source = c.element("self")
    rows = rows_of(c, source)
    every = "all" in c.node.target._schema.name  # type: ignore[union-attr]

    def make(row: Map) -> Expr:
        found = c.w.variable(I32, int(every), "found")
        with rows.each(row) as index:
            holds = cast(source.at(index), BOOL)
            with c.w.when(negated(holds) if every else holds):
                c.w.store(found, Const(int(not every), I32))
        return cast(found, computed(c.out().dtype))

    return reduced(c, rows, keeps(c), [lambda row: c.once("any", row, lambda: make(row))])


@lowers("amax.default", "amin.default", "max.default", "min.default")
def _amax(c: Call) -> Lowered:
    source = c.element("self")
    rows = rows_of(c, source)
    most = "max" in c.node.target._schema.name  # type: ignore[union-attr]
    make = extreme(c, source, rows, most)
    return reduced(c, rows, keeps(c), [lambda row: c.once("most", row, lambda: make(row))])


def extreme(c: Call, source: Element, rows: Rows, most: bool) -> Callable[[Map], Expr]:
    """The greatest or least of a row, NaN if there is one in it: which is a reduction beside it, since a condition that
    asks for both is none that combines."""
    element = source.type

    def make(row: Map) -> Expr:
        found = c.w.variable(element, lowest(element) if most else highest(element), "most" if most else "least")
        unordered = c.w.variable(I32, 0, "unordered") if element.is_float else None
        with rows.each(row) as index:
            x = c.w.let(source.at(index))
            c.w.store(found, select(compare(">" if most else "<", x, found), x, found))
            if unordered is not None:
                with c.w.when(is_nan(x)):
                    c.w.store(unordered, Const(1, I32))
        return found if unordered is None else c.w.let(select(compare("!=", unordered, 0), NAN, found))

    return make


@lowers("argmax.default", "argmin.default", "max.dim", "min.dim")
def _argmax(c: Call) -> Lowered:
    source = c.element("self")
    rows = rows_of(c, source)
    name = c.node.target._schema.name  # type: ignore[union-attr]
    most, element = "max" in name, source.type
    steps = contiguous_strides(tuple(source.sizes[d] for d in rows.dims))
    counted = I32 if rows.count <= I32.maximum else I64

    def place_of(index: Map) -> Expr:
        return position(linear((index[d] for d in rows.dims), steps), counted)

    def make(row: Map) -> tuple[Expr, Expr]:
        best = c.w.variable(element, source.at(row), "best")
        place = c.w.variable(counted, 0, "at")
        with rows.each(row) as index:
            x = c.w.let(source.at(index))
            with c.w.when(compare(">" if most else "<", x, best)):
                c.w.store(best, x)
                c.w.store(place, place_of(index))
        if not element.is_float:
            return best, place
        first = c.w.variable(counted, rows.count, "first")  # NaN of the row: it is the extreme
        with rows.each(row) as index:
            here = c.w.let(select(is_nan(source.at(index)), place_of(index), rows.count))
            c.w.store(first, select(compare("<", here, first), here, first))
        there = compare("<", first, rows.count)
        return c.w.let(select(there, NAN, best)), c.w.let(select(there, first, place))

    def value(row: Map) -> Expr:
        return c.once("best", row, lambda: make(row))[0]

    def place(row: Map) -> Expr:
        return cast(c.once("best", row, lambda: make(row))[1], I64)

    return reduced(c, rows, keeps(c), [place] if "arg" in name else [value, place])


def moments(c: Call, rows: Rows, row: Map, value: Callable[[Map], Expr], element: ElementType) -> Moments:
    """The mean of a row and the sum of squared distances from it, in two passes, with what the mean is off by taken
    out of both (Chan, Golub and LeVeque, The American Statistician 37(3), 1983, equation 1.7)."""
    n = float(rows.count)
    first = c.once("mean", row, lambda: c.w.let(div(rows.total("sum", row, element, value), n)))

    def off(index: Map) -> Expr:
        return sub(value(index), first)

    def make() -> Moments:
        left = c.w.variable(element, 0, "left")
        squares = c.w.variable(element, 0, "squares")
        with rows.each(row) as index:
            d = c.w.let(off(index))
            c.w.store(left, d, "+=")
            c.w.store(squares, mul(d, d), "+=")
        left_mean = c.w.let(div(left, n))
        return Moments(first, left_mean, c.w.let(sub(squares, mul(left, left_mean))))

    return c.once("moments", row, make)


@dataclass(frozen=True, slots=True)
class Moments:
    """Of a row."""

    near: Expr
    """Near its mean."""
    left: Expr
    """What its mean is more than that."""
    squares: Expr
    """The sum of squared distances from the mean."""

    @property
    def mean(self) -> Expr:
        return add(self.near, self.left)

    def centred(self, value: Expr) -> Expr:
        """A value less the mean: exact where both are near each other, whatever the mean is."""
        return sub(sub(value, self.near), self.left)


_EXACT_MEAN = 1 << 16
"""Elements up to which the mean of floats, added up in double, leaves nothing in a variance that a float holds: it is
off by less than 2^-37 of the greatest element, and the sum of squares by less than 2^-10 of what one element adds that
is the next float. Sums of equal floats are exact."""


@lowers("var.correction", "var_mean.correction", "var.dim", "std.correction")
def _var(c: Call) -> Lowered:
    source = c.element("self")
    rows = rows_of(c, source)
    name = c.node.target._schema.name  # type: ignore[union-attr]
    correction = c.raw("correction")
    unbiased = c.raw("unbiased")
    less = (1 if unbiased in (None, True) else 0) if correction is None else correction
    n = max(rows.count - less, 0)

    # As eager kernels do: the squares of floats near 1e-30 or 1e30 are none.
    element, kept = source.type, F64 if source.type is F32 else source.type

    def value(index: Map) -> Expr:
        return cast(source.at(index), kept)

    exact = kept is not element and rows.count <= _EXACT_MEAN

    def mean_of(row: Map) -> Expr:
        total = rows.sum(row, value, kept)
        return c.once("mean", row, lambda: c.w.let(div(total, float(rows.count))))

    def squares_of(row: Map) -> Expr:
        if not exact:
            return moments(c, rows, row, value, kept).squares

        def square(index: Map) -> Expr:
            off = sub(value(index), mean_of(row))
            return mul(off, off)

        return rows.total("squares", row, kept, square)

    def variance(row: Map) -> Expr:
        squares = squares_of(row)
        if not exact:
            squares = c.w.let(squares)
            squares = select(compare("<", squares, 0.0), 0.0, squares)  # of equal elements, rounded
        found = div(squares, float(n))
        return cast(call("sqrt", found) if "std" in name else found, element)

    def mean(row: Map) -> Expr:
        return cast(mean_of(row) if exact else moments(c, rows, row, value, kept).mean, element)

    return reduced(c, rows, keeps(c), [variance, mean] if "mean" in name else [variance])


@lowers("cumsum.default", "cumprod.default")
def _cumulative(c: Call) -> Lowered:
    """What a row comes to up to each of its elements."""
    source, element = c.element("self"), computed(c.out().dtype)
    kept = F64 if source.type is F32 and source.dtype is torch.float32 else element  # as eager kernels do
    sizes = c.sizes()
    dim = axis_of(c["dim"], len(sizes)) if sizes else 0
    first, op = (1, "*=") if "prod" in c.name else (0, "+=")

    def write(targets: Sequence[Target | None]) -> None:
        (target,) = targets
        assert target is not None
        outer = [n for d, n in enumerate(sizes) if d != dim]
        with c.w.nest(outer) as rest:
            total = c.w.variable(kept, first, "total")
            with c.w.loop(sizes[dim] if sizes else 1) as k:
                index = (*rest[:dim], k, *rest[dim:]) if sizes else ()
                c.w.store(total, cast(cast(source.at(index), element), kept), op)
                c.w.store(target(index), stored_value(cast(total, element), c.out().dtype))

    return c.whole(write)


# Softmax.


def row_result(c: Call, rows: Rows, at: Callable[[Map], Expr]) -> Lowered:
    """A result as large as the domain, elements of which use values of their rows."""
    result = Result(Element(c.sizes(), c.out().dtype, at), same_place)
    return Lowered(Kind.ROW, rows.sizes, (result,), rows.reduced)


def _softmax_rows(c: Call, source: Element) -> tuple[Rows, Callable[[Map], Expr], Callable[[Map], Expr]]:
    """Rows, what is in front of the exponential function by an element's subscripts, and the sum of a row's."""
    rows = Rows(c, source, c["dim"])
    element = computed(c.out().dtype)

    def value(index: Map) -> Expr:
        return cast(source.at(index), element)

    def shifted(index: Map) -> Expr:
        return sub(value(index), rows.most("most", rows.of(index), value, element))

    def total(row: Map) -> Expr:
        rows.most("most", row, value, element)
        return rows.total("total", row, element, lambda index: call("exp", shifted(index)))

    return rows, shifted, total


@lowers("_softmax.default")
def _softmax(c: Call) -> Lowered:
    rows, shifted, total = _softmax_rows(c, c.element("self"))

    def at(index: Map) -> Expr:
        t = total(rows.of(index))
        return div(call("exp", shifted(index)), t)

    return row_result(c, rows, at)


@lowers("_log_softmax.default")
def _log_softmax(c: Call) -> Lowered:
    rows, shifted, total = _softmax_rows(c, c.element("self"))

    def at(index: Map) -> Expr:
        row = rows.of(index)
        t = total(row)
        logarithm = c.once("log", row, lambda: c.w.let(call("log", t)))
        return sub(shifted(index), logarithm)

    return row_result(c, rows, at)


@lowers("_softmax_backward_data.default")
def _softmax_backward(c: Call) -> Lowered:
    gradient, output = c.element("grad_output"), c.element("output")
    element = computed(c.out().dtype)
    rows = Rows(c, output, c["dim"])

    def product(index: Map) -> Expr:
        return mul(cast(gradient.at(index), element), cast(output.at(index), element))

    def at(index: Map) -> Expr:
        total = rows.total("sum", rows.of(index), element, product)
        return mul(cast(output.at(index), element), sub(cast(gradient.at(index), element), total))

    return row_result(c, rows, at)


@lowers("_log_softmax_backward_data.default")
def _log_softmax_backward(c: Call) -> Lowered:
    gradient, output = c.element("grad_output"), c.element("output")
    element = computed(c.out().dtype)
    rows = Rows(c, output, c["dim"])

    def at(index: Map) -> Expr:
        total = rows.total("sum", rows.of(index), element, gradient.at)
        weight = call("exp", cast(output.at(index), element))
        return sub(cast(gradient.at(index), element), mul(weight, total))

    return row_result(c, rows, at)
