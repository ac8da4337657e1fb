"""Which sizes of a model's inputs may change, and its inputs at chosen values of them: `export(dynamic_shapes=…)`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from polydl.base.errors import InputError
from polydl.torch_backend.loop_program import SizeName
from polydl.torch_backend.sized_programs import Fit, fit_of

Point = tuple[int, ...]
"""A value of each size."""


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """Sizes that the caller of a model gives."""

    names: tuple[SizeName, ...]
    of: tuple[str, ...]
    """Of each, where it is: for people."""
    example: Point
    """At the arguments of the export."""
    points: tuple[Point, ...]
    """The greatest values, then those where loops are looked at: one more than there are sizes lie in general
    position."""
    _inputs: tuple[tuple[Any, ...], Any]
    """Leaves of the arguments and how they lie: a tensor whose sizes change is a list of expressions and a dtype."""
    _symbols: tuple[Any, ...]

    @property
    def fit(self) -> Fit:
        """The affine functions of sizes by their values at the points."""
        return fit_of(tuple(one.name for one in self.names), self.points)

    def arguments(self, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of these sizes: zeros in place of tensors of which one changes."""
        by = dict(zip(self._symbols, point, strict=True))
        leaves, spec = self._inputs
        made = [one.at(by) if isinstance(one, _Changing) else one for one in leaves]
        found: tuple[tuple[Any, ...], dict[str, Any]] = torch.utils._pytree.tree_unflatten(made, spec)
        return found


@dataclass(frozen=True, slots=True)
class _Changing:
    """A tensor whose sizes change."""

    sizes: tuple[Any, ...]
    """Numbers and SymPy's expressions."""
    dtype: torch.dtype

    def at(self, by: Mapping[Any, int]) -> torch.Tensor:
        return torch.zeros([int(n.subs(by)) if hasattr(n, "subs") else n for n in self.sizes], dtype=self.dtype)


def sizes_of(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any) -> ModelSizes:
    """Raises InputError where torch.export refuses these shapes, or a size has no upper bound."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of torch to itself
            program = torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes)
    except Exception as error:
        first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise InputError(
            f"torch.export cannot take the model with these dynamic_shapes: {first.strip()}",
            hint="a dictionary from arguments to {dimension: torch.export.Dim(name, min=…, max=…)}",
        ) from error
    given, spec = torch.utils._pytree.tree_flatten((args, kwargs))
    names = program.graph_signature.user_inputs
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    leaves: list[Any] = []
    first_at: dict[Any, tuple[str, int]] = {}
    for name, leaf in zip(names, given, strict=True):
        node = nodes.get(name) if isinstance(name, str) else None
        if node is None or not isinstance(leaf, torch.Tensor):
            leaves.append(leaf)
            continue
        sizes = [n.node.expr if isinstance(n, torch.SymInt) else n for n in node.meta["val"].shape]
        for d, size in enumerate(sizes):
            for symbol in sorted(getattr(size, "free_symbols", ()), key=str):
                first_at.setdefault(symbol, (f"dimension {d} of {name}", leaf.shape[d] if size == symbol else 0))
        changes = any(getattr(size, "free_symbols", ()) for size in sizes)
        leaves.append(_Changing(tuple(sizes), leaf.dtype) if changes else leaf)
    symbols = tuple(first_at)
    if not symbols:
        raise InputError("dynamic_shapes names no size that changes")
    found: list[SizeName] = []
    for number, symbol in enumerate(symbols):
        bounds = program.range_constraints[symbol]
        where, _ = first_at[symbol]
        if not bounds.upper.is_Integer or bounds.upper >= 1 << 31:
            raise InputError(f"{where} has no upper bound", hint="torch.export.Dim(name, max=…)")
        found.append(SizeName(number, max(int(bounds.lower), 1), int(bounds.upper)))
    example = tuple(value for _, value in first_at.values())
    if 0 in example:
        raise InputError("a size that changes is in no dimension by itself")
    where_each = tuple(where for where, _ in first_at.values())
    return ModelSizes(tuple(found), where_each, example, _points(found, example), (tuple(leaves), spec), symbols)


def _points(names: list[SizeName], example: Point) -> tuple[Point, ...]:
    """At least two more than there are sizes, where the ranges have as many: a size of 1 is no loop, and not among
    them."""
    most = tuple(one.most for one in names)
    least = tuple(min(max(one.least, 2), one.most) for one in names)
    corners = [(*most[:i], least[i], *most[i + 1 :]) for i in range(len(names))]
    middle = tuple((a + b) // 2 for a, b in zip(least, most, strict=True))
    above = tuple(min(a + 1, b) for a, b in zip(least, most, strict=True))
    below = tuple(max(b - 1, a) for a, b in zip(least, most, strict=True))
    more = [one for one in (above, below, middle, least, example) if 1 not in one]
    return tuple(dict.fromkeys([most, *corners, *more]))
