"""Which sizes of a graph's inputs change, and values of them at which the graph is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from math import prod
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from polydl.torch_backend.loop_program import SizeName
from polydl.torch_backend.sized_programs import DiffersError, Fit, fit_of

Point = tuple[int, ...]
_MOST = (1 << 31) - 1
"""Of a size: it is an int in C."""
_MOST_BYTES = (1 << 63) - 1
"""Of a tensor that has no memory: torch logs an error before it raises one where there would be more."""
_ROOM = 1 << 11
"""Bytes for each element of a tensor that has all sizes that change, one of them twice, as the scores of attention
have: heads and widths that stay, and the bytes of a number."""
_STEPS = (1, 2, 4, 8, 16, 32, 64)
"""Between the points: where a size must be even, others are no values of it."""
_CHECKS = 2
"""Points more than it takes to know what is affine."""
FAR = (1 << 20, 1 << 14, 1 << 10, 1 << 6, 0)
"""How far the farthest point may be, the first that does: some operators have loops only up to a size (attention, whose
scores must have place). What a loop's range decides at both ends of a range it decides between them."""


@dataclass(frozen=True, slots=True)
class GraphSizes:
    """Sizes that change, and terms that are not affine in them (`s0 * s1`), which are sizes of their own."""

    names: tuple[SizeName, ...]
    points: tuple[Point, ...]
    """Values of the names; the first is that of the call for which code is made, and the first ones, one more than
    there are names, are in general position."""
    inputs: tuple[tuple[Any, ...], ...]
    """Inputs of the graph at each point: functions that make tensors in place of those whose sizes change."""
    _ends: tuple[tuple[int, int], ...]
    """The least and the greatest value of each symbol at which the graph is this one, or was looked at."""
    _places: tuple[tuple[int, int | None], ...]
    """Of each symbol, the input and dimension that it is; None: the input is a number."""
    _terms: tuple[Any, ...]
    """Of each name, SymPy's expression."""
    _factors: tuple[tuple[int, ...] | None, ...]
    """Of each name that is a product of symbols, the numbers of these."""
    _symbols: tuple[Any, ...]

    @property
    def most(self) -> Point:
        """What the values of the names are at most."""
        ends = [b for _, b in self._ends]
        return tuple(
            name.most if each is None else prod(ends[n] for n in each)
            for name, each in zip(self.names, self._factors, strict=True)
        )

    def fit(self, prefix: str = "") -> Fit:
        """The affine functions of the names by their values at the points."""
        return fit_of(tuple(f"{prefix}{one.name}" for one in self.names), self.points)

    def key(self, inputs: Sequence[Any]) -> Point:
        """The values of the symbols in a call."""
        return tuple(inputs[i] if d is None else inputs[i].shape[d] for i, d in self._places)

    def values(self, key: Point) -> Point | None:
        """The values of the names; None if one is less or more than its range."""
        found = tuple(
            int(term.subs(dict(zip(self._symbols, key, strict=True)))) if each is None else prod(key[n] for n in each)
            for term, each in zip(self._terms, self._factors, strict=True)
        )
        ends = [*self._ends, *((name.least, name.most) for name in self.names[len(self._ends) :])]
        return found if all(a <= value <= b for value, (a, b) in zip(found, ends, strict=True)) else None

    def __str__(self) -> str:
        return ", ".join(f"{a} to {b}" for a, b in self._ends)


def sizes_of(gm: fx.GraphModule, inputs: Sequence[Any], far: int) -> GraphSizes:
    """The sizes of a graph with symbols up to those of the farthest point (`far` is of `FAR`); `inputs` are those of a
    call. Raises DiffersError where they are not known by the shapes of inputs, or there are too few values of them at
    which the graph is one."""
    nodes = gm.graph.find_nodes(op="placeholder")
    if any(isinstance(node.meta.get("val"), torch.SymFloat | torch.SymBool) for node in nodes):
        raise DiffersError("a number among the inputs changes")
    numbers = [one.node for node in gm.graph.nodes for one in _changing(node.meta.get("val"))]
    if not numbers:
        raise DiffersError("no size of a tensor changes")
    expressions = dict.fromkeys(one.expr for one in numbers)
    symbols = tuple(sorted({symbol for one in expressions for symbol in one.free_symbols}, key=str))
    places = tuple(_place(symbol, nodes) for symbol in symbols)
    terms = tuple(dict.fromkeys([*symbols, *(term for one in expressions for term in _terms(one))]))
    shapes = numbers[0].shape_env
    bounds = [shapes.var_to_range[symbol] for symbol in symbols]
    least = [max(2, int(one.lower)) if one.lower.is_Integer else 2 for one in bounds]
    most = [min(_MOST, int(one.upper)) if one.upper.is_Integer else _MOST for one in bounds]
    guards = [one.expr for one in shapes.guards]
    first = tuple(int(inputs[i] if d is None else inputs[i].shape[d]) for i, d in places)

    def by(point: Point) -> dict[Any, int]:
        return dict(zip(symbols, point, strict=True))

    def allowed(point: Point) -> bool:
        within = all(a <= value <= b for value, a, b in zip(point, least, most, strict=True))
        return within and all(one.subs(by(point)) != False for one in guards)  # noqa: E712  # SymPy's, or unknown

    for step in _STEPS:
        found = [point for point in _candidates(first, step, far, most) if allowed(point)]
        chosen = _general(found, [_values(terms, by(point)) for point in found], len(terms) + 1)
        if len(chosen) == len(terms) + 1 + _CHECKS and chosen[0] == first:
            break
    else:
        raise DiffersError("there are too few sizes at which it can be looked at")
    if far and any(prod(point) * max(point) * _ROOM > _MOST_BYTES for point in chosen):
        raise DiffersError("tensors that the graph's operators make may have too many elements at sizes near these")
    tensors = [node.meta["val"] for node in gm.graph.nodes if isinstance(node.meta.get("val"), torch.Tensor)]
    for point in chosen:
        numbers_there = {one: int(one.subs(by(point))) for one in expressions}
        if any(_bytes(one, numbers_there) > _MOST_BYTES for one in tensors):
            raise DiffersError("tensors have too many elements at sizes near these")
    points = tuple(_values(terms, by(point)) for point in chosen)
    ends = tuple(zip(least, map(max, zip(*chosen, strict=True)), strict=True))
    # Whatever the range of the graph, equal groups have equal C.
    names = tuple(SizeName(n, 2 if n < len(symbols) else 0, _MOST, usual=value) for n, value in enumerate(points[0]))
    given = tuple(
        tuple(_at(node.meta.get("val"), one, by(point)) for node, one in zip(nodes, inputs, strict=True))
        for point in chosen
    )
    factors = tuple(_factors(term, symbols) for term in terms)
    return GraphSizes(names, points, given, ends, places, terms, factors, symbols)


def _candidates(first: Point, step: int, far: int, most: Sequence[int]) -> list[Point]:
    """Points at which a graph may be looked at: the first one, the farthest, and others near the first."""
    near = [tuple(a + step * n for a, n in zip(first, by, strict=True)) for by in product((0, 1, 3), repeat=len(first))]
    away = [
        min((4 if far else 1) * a + -(-max(far, 4) // step) * step, b - (b - a) % step)
        for a, b in zip(first, most, strict=True)
    ]
    return list(dict.fromkeys([first, tuple(away), *near]))


def _changing(value: Any) -> Iterator[torch.SymInt]:
    """The numbers of a value of a graph that are expressions of symbols."""
    for leaf in pytree.tree_leaves(value):
        of_tensor = isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided
        numbers = (*leaf.shape, *leaf.stride()) if of_tensor else (leaf,)
        yield from (one for one in numbers if isinstance(one, torch.SymInt) and one.node.expr.free_symbols)


def _bytes(tensor: torch.Tensor, numbers: Mapping[Any, int]) -> int:
    """Of all elements of a tensor where expressions have these values."""
    elements, sizes = 1, tuple[Any, ...](tensor.shape)
    for size in sizes:
        elements *= numbers[size.node.expr] if any(True for _ in _changing(size)) else int(size)
    return elements * tensor.element_size()


def _place(symbol: Any, nodes: Sequence[fx.Node]) -> tuple[int, int | None]:
    for i, node in enumerate(nodes):
        value: Any = node.meta.get("val")
        if isinstance(value, torch.SymInt) and value.node.expr == symbol:
            return i, None
        sizes: Sequence[Any] = value.shape if isinstance(value, torch.Tensor) else ()
        for d, size in enumerate(sizes):
            if isinstance(size, torch.SymInt) and size.node.expr == symbol:
                return i, d
    raise DiffersError("a size that changes is no size of an input by itself")


def _terms(expression: Any) -> list[Any]:
    """What an expression is a sum of, without factors and numbers."""
    return [term for term in expression.expand().as_coefficients_dict() if not term.is_number]


def _factors(term: Any, symbols: Sequence[Any]) -> tuple[int, ...] | None:
    """The numbers of the symbols that a term is the product of; None for another term."""
    powers = term.as_powers_dict()
    if any(one not in symbols or not n.is_Integer or n < 1 for one, n in powers.items()):
        return None
    return tuple(symbols.index(one) for one, n in powers.items() for _ in range(int(n)))


def _values(terms: Sequence[Any], by: Mapping[Any, int]) -> Point:
    return tuple(by[term] if term in by else int(term.subs(by)) for term in terms)


def _general(points: Sequence[Point], values: Sequence[Point], wanted: int) -> list[Point]:
    """As many points whose values are in general position, the first of them, and some more behind them."""
    rows: list[list[Fraction]] = []
    chosen: list[Point] = []
    for point, value in zip(points, values, strict=True):
        row = [Fraction(one) for one in (1, *value)]
        for known in rows:
            lead = next(k for k, one in enumerate(known) if one)
            row = [a - row[lead] / known[lead] * b for a, b in zip(row, known, strict=True)]
        if any(row):
            rows.append(row)
            chosen.append(point)
    others = [point for point in points if point not in chosen]
    return [*chosen, *others[:_CHECKS]] if len(chosen) == wanted else []


def _at(value: Any, given: Any, by: Mapping[Any, int]) -> Any:
    """An input where symbols have these values."""

    def number(one: Any) -> int:
        return int(one.node.expr.subs(by)) if isinstance(one, torch.SymInt) else one

    if isinstance(value, torch.SymInt):
        return number(value)
    if not any(True for _ in _changing(value)):
        return given
    sizes, strides = ([number(one) for one in some] for some in (value.shape, value.stride()))
    return partial(torch.empty_strided, sizes, strides, dtype=value.dtype, device=value.device)
