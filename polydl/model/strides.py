"""By how many elements accesses move: what loops do to subscripts, and what that is in memory."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.scop import Access, Array, Scop, Statement


@dataclass(frozen=True, slots=True)
class ByExtents:
    """A distance between elements of a row-major array that depends on its extents: `moves` in each dimension."""

    array: str
    moves: tuple[int, ...]
    """Elements per dimension of the array, outermost first."""

    def times(self, factor: int) -> ByExtents:
        """The distance of so many steps."""
        return ByExtents(self.array, tuple(factor * move for move in self.moves))


Stride = int | ByExtents
"""Elements between neighbours along a loop."""


def known(stride: Stride) -> int:
    """A stride of a program whose sizes have values."""
    assert isinstance(stride, int), "the sizes are not known"
    return stride


Row = tuple[tuple[int, ...], int]
"""Of a subscript the factor of each loop, and the constant."""


def subscript_rows(relation: isl.Map, domain: isl.Set, *, from_anywhere: bool = False) -> list[Row] | None:
    """Each subscript of { [loops] -> A[a…] }; None when one is not one affine expression (a modulo, a case distinction,
    a parameter) or the relation is not single-valued. `from_anywhere`: parameters may be added, which the constants
    are without."""
    if not relation.is_single_valued():
        return None
    rows: list[Row] = []
    for subscript in isl.components(relation.as_pw_multi_aff()):
        affine = isl.pieces(subscript.gist(domain))
        if len(affine) != 1 or (isl.involved_parameters(affine[0][1]) and not from_anywhere):
            return None
        factors, constant = isl.coefficients(affine[0][1]), isl.offset(affine[0][1])
        if factors is None or constant is None:
            return None
        rows.append((factors, constant))
    return rows


def affine_rows(statement: Statement, access: Access) -> list[tuple[dict[str, int], int]] | None:
    """Per array dimension, the integer coefficient of each iterator and the constant; None where `subscript_rows` has
    none, parameters included."""
    rows = subscript_rows(access.relation, statement.domain)
    if rows is None:
        return None
    return [(dict(zip(statement.iterators, factors, strict=True)), constant) for factors, constant in rows]


def distances(array: Array, factors: Sequence[Sequence[int]], loops: int) -> tuple[Stride | None, ...]:
    """Elements by which each of so many loops moves an address; None where that is not one constant. `factors`: per
    dimension of the array, of each loop."""
    columns = zip(*factors, strict=True) if factors else ((),) * loops
    return tuple(_distance(array, moves) for moves in columns)


def _distance(array: Array, moves: tuple[int, ...]) -> Stride | None:
    distance = array.layout.distance(moves)
    if distance is None and array.members is None and array.layout.is_row_major and array.layout.strides is None:
        return ByExtents(array.name, moves)
    return distance


def strides_of(scop: Scop, statement: Statement, access: Access) -> dict[str, Stride] | None:
    """Elements by which each iterator moves the address of an access; None when that is not one constant."""
    rows = subscript_rows(access.relation, statement.domain, from_anywhere=True)
    if rows is None:
        return None
    found = distances(scop.arrays[access.array], [factors for factors, _ in rows], statement.depth)
    strides = {name: stride for name, stride in zip(statement.iterators, found, strict=True) if stride is not None}
    return strides if len(strides) == len(found) else None


def known_strides(scop: Scop, statement: Statement, access: Access) -> dict[str, int] | None:
    """The same; None where one depends on sizes, too."""
    strides = strides_of(scop, statement, access)
    if strides is None or not all(isinstance(stride, int) for stride in strides.values()):
        return None
    return {name: known(stride) for name, stride in strides.items()}
