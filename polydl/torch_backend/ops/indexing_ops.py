"""Operators that take or store elements at places that tensors of indices choose."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

from polydl.model.types import I64
from polydl.torch_backend.element_ranges import known_range
from polydl.torch_backend.formulas import add, compare, mul, select
from polydl.torch_backend.loop_index import Chosen, Index, number
from polydl.torch_backend.loop_program import Const, Expr
from polydl.torch_backend.operator_call import (
    STORED,
    Call,
    Element,
    Lowered,
    Target,
    axis_of,
    broadcast,
    cast,
    computed,
    lowers,
    stored_value,
)

Map = tuple[Index, ...]
_PARTS = ("slice", "select", "diagonal", "split", "split_with_sizes", "unbind", "as_strided")
"""Views that have some elements of what they are of."""


class Indices:
    """A tensor of indices into a dimension."""

    def __init__(self, c: Call, node: fx.Node, size: int, *, negative: bool = False) -> None:
        if node.meta["val"].dtype not in (torch.int64, torch.int32):
            c.refuse("its indices are no integers")
        source = node
        while source.op == "call_function" and source.all_input_nodes and _is_view(source):
            if str(source.target).split(".")[1] in _PARTS:
                c.refuse("its indices are a part of a tensor, all of which would be checked")
            source = source.all_input_nodes[0]
        low, high = known_range(node)
        self.known = (-size if negative else 0) <= low and high < size
        self.c, self.node, self.size, self.negative = c, node, size, negative and (low < 0 or not self.known)
        self.element = c.scope.element(node)
        if self.known:
            c.scope.bound(source, low, high, known=True)
        else:
            c.scope.bound(source, -size if negative else 0, size - 1)

    def at(self, index: Map, sizes: Sequence[int] | None = None) -> Index:
        """The subscript that an element, of the tensor broadcast to sizes, is."""
        at = self.element.at if sizes is None else broadcast(self.element, sizes)
        if self.known:
            free = frozenset(var for one in index for var in one.variables)
            value = self.c.w.once((self.node, "index", index), free, lambda: self._counted(cast(at(index), I64)))
        else:
            with self.c.w.guard():  # it is checked in memory before the function runs, and is not computed here
                value = cast(at(index), I64)
            value = self._counted(value)
        return Index(((Chosen(value, self.size - 1, self.c.w.free(value)), 1),)) if self.size > 1 else number(0)

    def _counted(self, value: Expr) -> Expr:
        """From the front, where it may be counted from the end."""
        if self.negative:
            value = select(compare("<", value, 0), add(value, self.size), value)
        return self.c.w.let(value) if self.negative or self.known else value


def _is_view(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and bool(node.target.is_view)


@lowers("embedding.default")
def _embedding(c: Call) -> Lowered:
    table = c.element("weight")
    rows = Indices(c, c.raw("indices"), table.sizes[0])
    return c.pointwise(lambda index: table.at((rows.at(index[:-1]), index[-1])))


@lowers("index_select.default")
def _index_select(c: Call) -> Lowered:
    source = c.element("self")
    if not source.sizes:
        c.refuse("it takes elements of a number")
    dim = axis_of(c["dim"], len(source.sizes))
    chosen = Indices(c, c.raw("index"), source.sizes[dim])
    scalar = not chosen.element.sizes

    def at(index: Map) -> Expr:
        return source.at((*index[:dim], chosen.at(() if scalar else index[dim : dim + 1]), *index[dim + 1 :]))

    return c.pointwise(at)


@lowers("gather.default")
def _gather(c: Call) -> Lowered:
    source = c.element("self")
    if not source.sizes or not c.sizes():
        c.refuse("it takes elements of a number")
    dim = axis_of(c["dim"], len(source.sizes))
    chosen = Indices(c, c.raw("index"), source.sizes[dim])
    return c.pointwise(lambda index: source.at((*index[:dim], chosen.at(index), *index[dim + 1 :])))


class Places:
    """Where `self[indices]` is, of several tensors of indices: the subscripts of an element by those of the result."""

    def __init__(self, c: Call, source: Element) -> None:
        given: list[fx.Node | None] = list(c.raw("indices"))
        given += [None] * (len(source.sizes) - len(given))
        self.source = source
        self.chosen = {
            d: Indices(c, one, source.sizes[d], negative=True) for d, one in enumerate(given) if one is not None
        }
        dims = sorted(self.chosen)
        shapes = [one.element.sizes for one in self.chosen.values()]
        self.sizes = tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]
        """Of the tensors of indices together."""
        adjacent = bool(dims) and dims[-1] - dims[0] == len(dims) - 1
        self.first = dims[0] if adjacent else 0
        """The dimension of the result at which those of the indices begin."""
        rest = [n for d, n in enumerate(source.sizes) if d not in self.chosen]
        self.shape = (*rest[: self.first], *self.sizes, *rest[self.first :])
        """Of the result."""

    def at(self, index: Map) -> Map:
        end = self.first + len(self.sizes)
        rest = iter((*index[: self.first], *index[end:]))
        place = index[self.first : end]
        every = range(len(self.source.sizes))
        return tuple(self.chosen[d].at(place, self.sizes) if d in self.chosen else next(rest) for d in every)


@lowers("index.Tensor")
def _index(c: Call) -> Lowered:
    source = c.element("self")
    places = Places(c, source)
    return c.pointwise(lambda index: source.at(places.at(index)))


# What stores.


def scattered(c: Call, sizes: Sequence[int], place: object, value: object, *, adds: bool) -> Lowered:
    """A copy of `self`, in which elements are stored or added at places, in order."""
    source, dtype = c.element("self"), c.out().dtype
    if adds and STORED[dtype] is not computed(dtype):
        c.refuse("its sums would be rounded to 16 bits in between")

    def write(targets: Sequence[Target | None]) -> None:
        (target,) = targets
        assert target is not None and callable(place) and callable(value)
        with c.w.nest(source.sizes) as index:
            c.w.store(target(index), stored_value(source.at(index), dtype))
        with c.w.nest(sizes) as index:
            stored = stored_value(cast(value(index), computed(dtype)), dtype)
            c.w.store(target(place(index)), stored, "+=" if adds else "=")

    return c.whole(write)


@lowers("scatter.src", "scatter.value", "scatter_add.default")
def _scatter(c: Call) -> Lowered:
    source = c.element("self")
    if not source.sizes:
        c.refuse("it stores in a number")
    dim = axis_of(c["dim"], len(source.sizes))
    chosen = Indices(c, c.raw("index"), source.sizes[dim])
    sizes = chosen.element.sizes
    if not sizes:
        c.refuse("its index is a number")
    if c.is_tensor("src"):
        value = c.element("src").at
    else:
        given = Const(c["value"], computed(source.dtype))
        value = lambda index: cast(given, computed(source.dtype))  # noqa: E731

    def place(index: Map) -> Map:
        return (*index[:dim], chosen.at(index), *index[dim + 1 :])

    return scattered(c, sizes, place, value, adds=c.name == "scatter_add")


@lowers("index_put.default")
def _index_put(c: Call) -> Lowered:
    source = c.element("self")
    places = Places(c, source)
    value = broadcast(c.element("values"), places.shape)
    return scattered(c, places.shape, places.at, value, adds=bool(c["accumulate"]))


@lowers("index_add.default")
def _index_add(c: Call) -> Lowered:
    source, added = c.element("self"), c.element("source")
    if not source.sizes or not added.sizes:
        c.refuse("it adds to a number")
    dim = axis_of(c["dim"], len(source.sizes))
    chosen = Indices(c, c.raw("index"), source.sizes[dim])
    alpha = c["alpha"]

    def value(index: Map) -> Expr:
        found = added.at(index)
        return found if alpha == 1 else mul(found, cast(Const(alpha, found.type), found.type))

    def place(index: Map) -> Map:
        at = chosen.at(index[dim : dim + 1] if chosen.element.sizes else ())
        return (*index[:dim], at, *index[dim + 1 :])

    return scattered(c, added.sizes, place, value, adds=True)


@lowers("embedding_dense_backward.default")
def _embedding_backward(c: Call) -> Lowered:
    gradient, dtype = c.element("grad_output"), c.out().dtype
    if c["scale_grad_by_freq"]:
        c.refuse("it scales by how often an index is there")
    if STORED[dtype] is not computed(dtype):
        c.refuse("its sums would be rounded to 16 bits in between")
    rows = Indices(c, c.raw("indices"), c["num_weights"])
    padding = c["padding_idx"]

    def write(targets: Sequence[Target | None]) -> None:
        (target,) = targets
        assert target is not None
        with c.w.nest(c.sizes()) as index:
            c.w.store(target(index), Const(0.0, computed(dtype)))
        with c.w.nest(gradient.sizes) as index:
            row = rows.at(index[:-1])
            value = gradient.at(index)
            if padding >= 0:
                with c.w.guard():
                    here = compare("!=", cast(rows.element.at(index[:-1]), I64), padding)
                value = select(here, value, 0)
            c.w.store(target((row, index[-1])), value, "+=")

    return c.whole(write)
