"""Sets and relations with other numbers in their place: what isl does with a description depends on its shape, and how
long it takes also on how large the numbers are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, TypeVar

from polydl.model.isl.isl_types import DIV, IN, OUT, PARAM, SET, BasicMap, BasicSet, Map, Set, to_int, value

_Known = TypeVar("_Known", Set, Map)


def _pieces(of: Set | Map) -> Sequence[BasicSet | BasicMap]:
    found: Any = of.get_basic_sets() if isinstance(of, Set) else of.get_basic_maps()
    return list(found)


def piece_count(of: Set | Map) -> int:
    """How many convex pieces a set or relation is described by."""
    return len(_pieces(of))


def _greatest_factor(of: BasicSet | BasicMap) -> int:
    kinds = (PARAM, SET, DIV) if isinstance(of, BasicSet) else (PARAM, IN, OUT, DIV)
    return max(
        (
            abs(to_int(constraint.get_coefficient_val(kind, at)))
            for constraint in of.get_constraints()
            for kind in kinds
            for at in range(constraint.dim(kind))
        ),
        default=0,
    )


def numbers(of: Set | Map) -> tuple[set[int], int]:
    """The magnitudes of the constants in the constraints of a set or relation, and the greatest of the factors."""
    found = {abs(to_int(c.get_constant_val())) for piece in _pieces(of) for c in piece.get_constraints()}
    return found, max((_greatest_factor(piece) for piece in _pieces(of)), default=0)


def with_numbers(of: _Known, new: dict[int, int]) -> _Known:
    """With constants of other magnitudes; those that `new` leaves out stay."""
    pieces = _pieces(of)
    if not pieces:
        return of
    changed: _Known = reduce(type(of).union, (_with_numbers(piece, new) for piece in pieces))
    return changed


def _with_numbers(piece: BasicSet | BasicMap, new: dict[int, int]) -> Any:
    changed = type(piece).universe(piece.get_space())
    for constraint in piece.get_constraints():
        number = to_int(constraint.get_constant_val())
        other = new.get(abs(number), abs(number))
        changed = changed.add_constraint(constraint.set_constant_val(value(other if number > 0 else -other)))
    return Set.from_basic_set(changed) if isinstance(changed, BasicSet) else Map.from_basic_map(changed)
