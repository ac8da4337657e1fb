"""What the elements of tensors of integers lie between, whatever the inputs of a graph are: of indices that are
computed of positions, clamped, or places of extremes. Interval arithmetic (Moore, 1966) over the nodes of a graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from polydl.torch_backend.operator_call import EVERYWHERE, arguments_of, axis_of

Range = tuple[int, int]
"""The least and the greatest value, both included."""

_DEPTH = 32
"""Operators in a row that are looked through."""


def known_range(node: fx.Node) -> Range:
    """What the elements of a tensor of integers lie between; all that its type holds, if nothing else is known.

    In a graph whose sizes change nothing is known: what is true of its sizes at hand need not be of others.
    """
    if EVERYWHERE in node.meta:
        return _every(node)
    return _range(node, {}, _DEPTH)


def _every(node: fx.Node) -> Range:
    dtype = node.meta["val"].dtype
    if dtype is torch.bool:
        return 0, 1
    ends = torch.iinfo(dtype)
    return ends.min, ends.max


def _range(node: fx.Node, known: dict[fx.Node, Range], depth: int) -> Range:
    if node not in known:
        every = _every(node)
        found = _computed(node, known, depth) if depth else None
        # A value that the type does not hold wraps around.
        known[node] = found if found is not None and every[0] <= found[0] <= found[1] <= every[1] else every
    return known[node]


def _computed(node: fx.Node, known: dict[fx.Node, Range], depth: int) -> Range | None:
    """By the rule of the operator; None without one, or where an argument is no integer."""
    of = node
    if node.target is operator.getitem:
        source, number = node.args
        assert isinstance(source, fx.Node)
        if _PLACES.get(str(source.target)) == number:
            return _places_of(arguments_of(source))
        of = source
    if not isinstance(of.target, torch._ops.OpOverload):
        return None

    def ranged(given: Any) -> Range | None:
        """Of a tensor or a number; None if it is no integer."""
        if isinstance(given, fx.Node):
            return _range(given, known, depth - 1) if _is_integer(given) else None
        return (int(given), int(given)) if isinstance(given, int) else None

    name = str(of.target).split(".")[1]
    if name in _SAME or (of.target.is_view and name not in _OTHER_VIEWS):
        source = of.all_input_nodes[0]
        return ranged(source) if name == "_to_copy" or _has_type_of(node, source) else None
    rule = _RULES.get(name)
    if rule is None or of is not node:
        return None
    given = arguments_of(node)
    return rule(given, {one: ranged(value) for one, value in given.items()}, node)


def _is_integer(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and not (value.dtype.is_floating_point or value.dtype.is_complex)


def _has_type_of(node: fx.Node, source: fx.Node) -> bool:
    value = source.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype is node.meta["val"].dtype


_PLACES = {"aten.max.dim": 1, "aten.min.dim": 1, "aten.topk.default": 1, "aten.sort.default": 1, "aten.sort.stable": 1}
"""Operators of several results, and which of these are places along their dimension."""
_SAME = frozenset(
    ("_unsafe_view", "alias", "detach", "clone", "_to_copy", "index_select", "index", "gather", "embedding", "flip",
     "roll", "repeat", "_unsafe_index")
)  # fmt: skip
"""Operators whose elements are those of their first tensor. `_to_copy` wraps values around, as any other."""
_OTHER_VIEWS = frozenset(("as_strided",))
"""Views that may have elements which the tensor that they are of has not."""

Arguments = Mapping[str, Any]
Ranges = Mapping[str, Range | None]
"""Of the arguments that are integers."""
Rule = Callable[[Arguments, Ranges, fx.Node], Range | None]


def _places_of(given: Arguments) -> Range:
    """Of an operator that gives places of elements along a dimension, or in all."""
    value, dim = given["self"].meta["val"], given.get("dim")
    count = value.numel() if dim is None else value.shape[axis_of(dim, value.ndim)] if value.ndim else 1
    return 0, max(int(count) - 1, 0)


def _of(function: Callable[..., Range | None], *names: str) -> Rule:
    """A function of the ranges of arguments; None where one of these has none."""

    def rule(_: Arguments, of: Ranges, __: fx.Node) -> Range | None:
        ranges = [of.get(one) for one in names]
        return None if None in ranges else function(*ranges)

    return rule


def _times(a: Range, b: Range) -> Range:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _sum(a: Range, b: Range, factor: Range) -> Range:
    scaled = _times(b, factor)
    return a[0] + scaled[0], a[1] + scaled[1]


def _difference(a: Range, b: Range, factor: Range) -> Range:
    return _sum(a, b, _negative(factor))


def _negative(a: Range) -> Range:
    return -a[1], -a[0]


def _absolute(a: Range) -> Range:
    return max(a[0], -a[1], 0), max(-a[0], a[1])


def _greater(a: Range, b: Range) -> Range:
    return max(a[0], b[0]), max(a[1], b[1])


def _lesser(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), min(a[1], b[1])


def _either(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])


def _remainder(a: Range, b: Range) -> Range | None:
    """It has the sign of the divisor."""
    if b[0] <= 0:
        return None
    return a if a[0] >= 0 and a[1] < b[0] else (0, b[1] - 1)


def _bits(a: Range, b: Range) -> Range | None:
    """Of `a & b`: a number without a sign limits it."""
    limits = [most for least, most in (a, b) if least >= 0]
    return (0, min(limits)) if limits else None


def _quotient(_: Arguments, of: Ranges, __: fx.Node) -> Range | None:
    """Of numbers without a sign, for which all ways to round are one."""
    a, b = of["self"], of["other"]
    if a is None or b is None or b[0] <= 0 or a[0] < 0:
        return None
    ends = [x // y for x in a for y in b]
    return min(ends), max(ends)


def _clamp(given: Arguments, of: Ranges, _: fx.Node) -> Range | None:
    found = of["self"]
    for name, function in (("min", _greater), ("max", _lesser)):
        if given.get(name) is not None:
            bound = of[name]
            found = None if found is None or bound is None else function(found, bound)
    return found


def _arange(given: Arguments, _: Ranges, node: fx.Node) -> Range | None:
    start, step, count = given.get("start") or 0, given.get("step") or 1, node.meta["val"].numel()
    if not isinstance(start, int) or not isinstance(step, int) or not isinstance(count, int) or count == 0:
        return None
    return _either((start, start), (start + step * (count - 1),) * 2)


_RULES: Mapping[str, Rule] = {
    "argmax": lambda given, of, node: _places_of(given),
    "argmin": lambda given, of, node: _places_of(given),
    "arange": _arange,
    "full": _of(lambda value: value, "fill_value"),
    "full_like": _of(lambda value: value, "fill_value"),
    "scalar_tensor": _of(lambda value: value, "s"),
    "zeros": lambda given, of, node: (0, 0),
    "zeros_like": lambda given, of, node: (0, 0),
    "ones": lambda given, of, node: (1, 1),
    "ones_like": lambda given, of, node: (1, 1),
    "add": _of(_sum, "self", "other", "alpha"),
    "sub": _of(_difference, "self", "other", "alpha"),
    "rsub": _of(_difference, "other", "self", "alpha"),
    "mul": _of(_times, "self", "other"),
    "neg": _of(_negative, "self"),
    "abs": _of(_absolute, "self"),
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": _clamp,
    "maximum": _of(_greater, "self", "other"),
    "minimum": _of(_lesser, "self", "other"),
    "where": _of(_either, "self", "other"),
    "remainder": _of(_remainder, "self", "other"),
    "floor_divide": _quotient,
    "div": _quotient,
    "bitwise_and": _of(_bits, "self", "other"),
}
"""By the names of operators, of any overload."""
