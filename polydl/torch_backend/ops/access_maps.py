"""Operators that move elements and compute nothing: views, and what is copied to another place."""

from __future__ import annotations

from polydl.model.types import F64
from polydl.torch_backend.formulas import both, inside, select
from polydl.torch_backend.loop_index import ZERO, Index, delinearized, linear, number
from polydl.torch_backend.loop_program import Const, Expr
from polydl.torch_backend.operator_call import (
    At,
    Call,
    Element,
    Kind,
    Lowered,
    Result,
    axis_of,
    broadcast,
    cast,
    computed,
    lowers,
    same_place,
)

Map = tuple[Index, ...]


def contiguous_strides(sizes: tuple[int, ...]) -> tuple[int, ...]:
    found, step = [], 1
    for size in reversed(sizes):
        found.append(step)
        step *= size
    return tuple(reversed(found))


@lowers("view.default", "reshape.default", "_unsafe_view.default", "flatten.using_ints",
        "squeeze.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default", "_reshape_alias.default")  # fmt: skip
def _view(c: Call) -> Lowered:
    source = c.element("self")
    return c.view(reshaped(source, c.sizes()), source)


def reshaped(source: Element, sizes: tuple[int, ...]) -> At:
    """The elements in the same order in other sizes. Dimensions that both have are kept apart."""
    pieces = _common_pieces(source.sizes, sizes)

    def at(index: Map) -> Expr:
        own: list[Index] = []
        for (first, last), (begin, end) in pieces:
            theirs = sizes[begin:end]
            if source.sizes[first:last] == theirs:
                own += index[begin:end]
            else:
                place = linear(index[begin:end], contiguous_strides(theirs))
                own += delinearized(place, source.sizes[first:last])
        return source.at(tuple(own))

    return at


def _common_pieces(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Ranges of dimensions of both that hold the same number of elements, as short as they can be."""
    pieces = []
    i = j = 0
    while i < len(old) or j < len(new):
        first, begin = i, j
        one, other = 1, 1
        if i < len(old):
            one, i = old[i], i + 1
        if j < len(new):
            other, j = new[j], j + 1
        while one != other:
            if one < other:
                one, i = one * old[i], i + 1
            else:
                other, j = other * new[j], j + 1
        pieces.append(((first, i), (begin, j)))
    return pieces


@lowers("permute.default")
def _permute(c: Call) -> Lowered:
    source = c.element("self")
    rank = len(source.sizes)
    dims = [axis_of(one, rank) for one in c["dims"]]
    return c.view(lambda index: source.at(tuple(index[dims.index(d)] for d in range(rank))), source)


@lowers("transpose.int", "t.default", "numpy_T.default")
def _transpose(c: Call) -> Lowered:
    source = c.element("self")
    rank = len(source.sizes)
    one, other = (axis_of(c[d], rank) for d in ("dim0", "dim1")) if c.given("dim0") else (0, rank - 1)

    def at(index: Map) -> Expr:
        own = list(index)
        if rank:
            own[one], own[other] = own[other], own[one]
        return source.at(tuple(own))

    return c.view(at, source)


@lowers("expand.default")
def _expand(c: Call) -> Lowered:
    source = c.element("self")
    return c.view(broadcast(source, c.sizes()), source)


@lowers("select.int")
def _select(c: Call) -> Lowered:
    source = c.element("self")
    dim = axis_of(c["dim"], len(source.sizes))
    at_index = axis_of(c["index"], source.sizes[dim])
    return c.view(lambda index: source.at((*index[:dim], number(at_index), *index[dim:])), source)


def _start(c: Call, size: int) -> int:
    start = 0 if c.raw("start") is None else c["start"]
    return min(max(start + size if start < 0 else start, 0), size)


@lowers("slice.Tensor")
def _slice(c: Call) -> Lowered:
    source = c.element("self")
    dim = axis_of(c["dim"], len(source.sizes))
    first, step = _start(c, source.sizes[dim]), c["step"]

    def at(index: Map) -> Expr:
        return source.at((*index[:dim], index[dim] * step + first, *index[dim + 1 :]))

    return c.view(at, source)


@lowers("diagonal.default")
def _diagonal(c: Call) -> Lowered:
    source = c.element("self")
    rank = len(source.sizes)
    one, other, offset = axis_of(c["dim1"], rank), axis_of(c["dim2"], rank), c["offset"]
    first, second = max(-offset, 0), max(offset, 0)

    def at(index: Map) -> Expr:
        rest = iter(index[:-1])
        along = index[-1]
        own = [along + first if d == one else along + second if d == other else next(rest) for d in range(rank)]
        return source.at(tuple(own))

    return c.view(at, source)


def _pieces(c: Call, starts: list[int], dim: int) -> Lowered:
    source = c.element("self")
    results = []
    for start, out in zip(starts, c.outs(), strict=True):
        sizes = tuple(out.shape)

        def at(index: Map, start: int = start) -> Expr:
            return source.at((*index[:dim], index[dim] + start, *index[dim + 1 :]))

        results.append(Result(Element(sizes, source.dtype, at), same_place))
    return Lowered(Kind.VIEW, source.sizes, tuple(results))


@lowers("split.Tensor", "split_with_sizes.default", "chunk.default")
def _split(c: Call) -> Lowered:
    dim = axis_of(c["dim"], len(c.element("self").sizes))
    starts = [0]
    for out in c.outs():
        starts.append(starts[-1] + out.shape[dim])
    return _pieces(c, starts[:-1], dim)


@lowers("unbind.int")
def _unbind(c: Call) -> Lowered:
    source = c.element("self")
    dim = axis_of(c["dim"], len(source.sizes))
    sizes = c.sizes()

    def result(place: int) -> Result:
        def at(index: Map) -> Expr:
            return source.at((*index[:dim], number(place), *index[dim:]))

        return Result(Element(sizes, source.dtype, at), same_place)

    return Lowered(Kind.VIEW, source.sizes, tuple(result(place) for place in range(source.sizes[dim])))


# Copies.


def guarded(c: Call, condition: Expr | None, one: At, index: Map, other: Expr) -> Expr:
    """An element where a condition says that it is there, else another value."""
    if condition is None:
        return one(index)
    with c.w.guard():
        return select(condition, one(index), other)


@lowers("cat.default")
def _cat(c: Call) -> Lowered:
    element = computed(c.out().dtype)
    sources = [one for one in c.elements("tensors") if one.sizes != (0,)]
    dim = axis_of(c["dim"], len(c.sizes()))
    starts = [sum(one.sizes[dim] for one in sources[:n]) for n in range(len(sources))]

    def at(index: Map) -> Expr:
        found: Expr | None = None
        for source, start in reversed(list(zip(sources, starts, strict=True))):
            place = index[dim] - start
            own = (*index[:dim], place, *index[dim + 1 :])
            if found is None:
                with c.w.guard():
                    found = cast(source.at(own), element)
            else:
                with c.w.guard():
                    here = cast(source.at(own), element)
                before = inside(number(source.sizes[dim] - 1) - place)
                found = here if before is None else select(before, here, found)
        assert found is not None
        return found

    return c.pointwise(at)


@lowers("constant_pad_nd.default")
def _pad(c: Call) -> Lowered:
    element = computed(c.out().dtype)
    source = c.element("self")
    pads = c["pad"]
    rank = len(source.sizes)
    before = [0] * rank
    for n in range(len(pads) // 2):
        before[rank - 1 - n] = pads[2 * n]
    value = c["value"]
    other = cast(Const(value, F64), element)

    def at(index: Map) -> Expr:
        own = tuple(one - pad for one, pad in zip(index, before, strict=True))
        return guarded(c, within(own, source.sizes), source.at, own, other)

    return c.pointwise(at)


def within(index: Map, sizes: tuple[int, ...]) -> Expr | None:
    """Whether an element is inside of a tensor; None where it always is."""
    tests = list(index)
    tests += [number(size - 1) - one for one, size in zip(index, sizes, strict=True)]
    return inside(*tests)


@lowers("flip.default")
def _flip(c: Call) -> Lowered:
    source = c.element("self")
    dims = {axis_of(one, len(source.sizes)) for one in c["dims"]}

    def at(index: Map) -> Expr:
        pairs = enumerate(zip(source.sizes, index, strict=True))
        return source.at(tuple(number(n - 1) - one if d in dims else one for d, (n, one) in pairs))

    return c.pointwise(at)


@lowers("roll.default")
def _roll(c: Call) -> Lowered:
    source = c.element("self")
    shifts, dims = c["shifts"], c["dims"]
    if not dims:
        flat = Element((_count(source.sizes),), source.dtype, reshaped(source, (_count(source.sizes),)))

        def at_flat(index: Map) -> Expr:
            place = linear(index, contiguous_strides(source.sizes))
            return flat.at(((place - shifts[0]) % flat.sizes[0],))

        return c.pointwise(at_flat)
    by = {axis_of(dim, len(source.sizes)): shift for shift, dim in zip(shifts, dims, strict=True)}
    if len(by) != len(dims):
        c.refuse("it rolls one dimension twice")

    def at(index: Map) -> Expr:
        pairs = enumerate(zip(source.sizes, index, strict=True))
        return source.at(tuple((one - by[d]) % n if d in by else one for d, (n, one) in pairs))

    return c.pointwise(at)


def _count(sizes: tuple[int, ...]) -> int:
    found = 1
    for one in sizes:
        found *= one
    return found


@lowers("repeat.default")
def _repeat(c: Call) -> Lowered:
    source = c.element("self")
    skipped = len(c.sizes()) - len(source.sizes)

    def at(index: Map) -> Expr:
        own = [one % n if n > 1 else ZERO for n, one in zip(source.sizes, index[skipped:], strict=True)]
        return source.at(tuple(own))

    return c.pointwise(at)


@lowers("tril.default", "triu.default")
def _triangle(c: Call) -> Lowered:
    source = c.element("self")
    diagonal = c["diagonal"]
    lower = "tril" in c.node.target._schema.name  # type: ignore[union-attr]

    def at(index: Map) -> Expr:
        above = index[-1] - index[-2] - diagonal
        condition = inside(above * -1 if lower else above)
        if condition is None:
            return source.at(index)
        return select(condition, source.at(index), Const(0, computed(source.dtype)))

    return c.pointwise(at)


@lowers("slice_scatter.default")
def _slice_scatter(c: Call) -> Lowered:
    source, part = c.element("self"), c.element("src")
    dim = axis_of(c["dim"], len(source.sizes))
    first, step = _start(c, source.sizes[dim]), c["step"]
    element = computed(source.dtype)

    def at(index: Map) -> Expr:
        along = index[dim] - first
        conditions = [along, number((part.sizes[dim] - 1) * step) - along]
        condition = inside(*conditions)
        if step > 1:
            c.refuse("it has a step")
        return guarded(
            c, condition, lambda own: cast(part.at(own), element), (*index[:dim], along, *index[dim + 1 :]),
            source.at(index),
        )  # fmt: skip

    return c.pointwise(at)


@lowers("select_scatter.default")
def _select_scatter(c: Call) -> Lowered:
    source, part = c.element("self"), c.element("src")
    dim = axis_of(c["dim"], len(source.sizes))
    place = axis_of(c["index"], source.sizes[dim])
    element = computed(source.dtype)

    def at(index: Map) -> Expr:
        here = [inside(index[dim] - place), inside(number(place) - index[dim])]
        known = [one for one in here if one is not None]
        inner = cast(part.at((*index[:dim], *index[dim + 1 :])), element)
        if not known:
            return inner
        condition = known[0] if len(known) == 1 else both(*known)
        return select(condition, inner, source.at(index))

    return c.pointwise(at)


@lowers("pixel_shuffle.default")
def _pixel_shuffle(c: Call) -> Lowered:
    source, r = c.element("self"), c["upscale_factor"]

    def at(index: Map) -> Expr:
        *outer, channel, y, x = index
        return source.at((*outer, channel * (r * r) + y % r * r + x % r, y // r, x // r))

    return c.pointwise(at)


@lowers("pixel_unshuffle.default")
def _pixel_unshuffle(c: Call) -> Lowered:
    source, r = c.element("self"), c["downscale_factor"]

    def at(index: Map) -> Expr:
        *outer, channel, y, x = index
        return source.at((*outer, channel // (r * r), y * r + channel // r % r, x * r + channel % r))

    return c.pointwise(at)
