"""From dimensions by name to isl's kinds and positions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from polydl.model.isl.isl_types import Dim, Map, Set, dim_type

Projected = TypeVar("Projected", Set, Map)


def position_of(of: Any, kind: dim_type, dim: Dim) -> int:
    """Position of a dimension. Raises KeyError when there is none of that name."""
    if isinstance(dim, int):
        return dim
    position: int = of.find_dim_by_name(kind, dim)
    if position < 0:
        raise KeyError(f"no dimension '{dim}' in {of.get_space()}")
    return position


def without(of: Projected, kind: dim_type, places: Iterable[int]) -> Projected:
    """The other dimensions: the values that they take. Neighbouring ones go together, the last first."""
    run: list[int] = []
    for place in (*sorted(places, reverse=True), None):
        if run and place != run[-1] - 1:
            of = of.project_out(kind, run[-1], len(run))
            run = []
        if place is not None:
            run.append(place)
    return of


def onto(of: Projected, kind: dim_type, dims: Iterable[Dim]) -> Projected:
    """These dimensions: the values that they take."""
    kept = {position_of(of, kind, dim) for dim in dims}
    return without(of, kind, (i for i in range(of.dim(kind)) if i not in kept))
