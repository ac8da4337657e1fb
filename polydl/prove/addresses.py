"""Which element of an array an address is, where the array's extents are parameters.

An address is a polynomial: `&A[7*c0][c1]` of `A[M][K]` is `7*c0·K + c1`. Divided by the strides of the array it is
coordinates again, `(7*c0, c1)`, which isl can compare. Whatever they are, their elements are at the address; and two
addresses with coordinates inside of the extents are the same only where their coordinates are, so each is shown to be
inside. Dimensions of a known extent are one coordinate with the dimension around them, so that an array whose extents
are all known has one: elements from its beginning, as in memory.

source:    delinearization as in Grosser et al., "Optimistic delinearization of parametrically sized arrays", ICS 2015
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.scop import Array, Scop, Statement
from polydl.prove.integers import Affine, Unreadable, divided, number, product
from polydl.prove.printed_program import Pointer, Printed, map_of, value_map


@dataclass(frozen=True, slots=True)
class _Level:
    """A coordinate."""

    stride: Affine
    """Elements between neighbours along it."""
    extent: Affine | None
    """Of the outermost one, whose end is no matter, None."""
    dimensions: tuple[tuple[int, int], ...]
    """Which dimensions of the array it is made of, with their factors."""


def strides_of(array: Array) -> tuple[Affine, ...]:
    """Elements between neighbours of each dimension as it is subscripted. Raises Unreadable."""
    if array.is_scalar:
        return ()
    known = array.layout.strides
    if known is not None and not array.linear:
        return tuple(map(number, known))
    found = [number(1)]
    for extent in reversed(array.extents[len(array.extents) - array.behind if array.linear else 1 :]):
        found.insert(0, product(found[0], known_extent(array, extent)))
    return tuple(found)


def linear(scop: Scop, statement: Statement, access: int) -> isl.Map:
    """{ S[i…] -> [coordinates] } of the elements that an access of the original touches. Raises Unreadable."""
    one = statement.accesses[access]
    array = scop.arrays[one.array]
    relation = one.relation.intersect_domain(statement.domain)
    levels = _levels(array)
    if len(levels) < 2:
        return array.layout.accessed(relation)
    subscripts = [Affine(((f"o{d}", 1),)) for d in range(len(array.extents))]
    values = [_sum([subscripts[d].times(n) for d, n in level.dimensions]) for level in levels]
    source = ", ".join(map(str, (f"o{d}" for d in range(len(subscripts)))))
    outputs = [f"c{k}" for k in range(len(levels))]
    formula = " and ".join(f"{c} = {value}" for c, value in zip(outputs, values, strict=True))
    whole = map_of(f"[{source}] -> [{', '.join(outputs)}]", f"{formula} and {_inside(outputs, levels)}")
    found = isl.range_named(relation, None).apply_range(whole)
    if not relation.domain().is_subset(found.domain()):
        raise Unreadable(f"{statement.name} may touch {one.array} beyond the end of a row")
    return found


def address(scop: Scop, printed: Printed, at: Pointer) -> isl.Map:
    """{ T[i…] -> [coordinates] } of what is at an address. Raises Unreadable."""
    array = scop.arrays.get(at.base)
    levels = _levels(array) if array is not None else ()
    if len(levels) < 2:
        return value_map(printed, (at.offset,))
    outputs = [f"o{k}" for k in range(len(levels))]
    inside = map_of(f"[{', '.join(outputs)}] -> []", _inside(outputs, levels)).domain()
    for coordinates in _coordinates(at.offset, levels):
        found = value_map(printed, coordinates)
        if found.range().is_subset(inside):
            return found
    raise Unreadable(f"line {printed.line}: an address beyond the end of a row of {at.base}")


def _coordinates(offset: Affine, levels: Sequence[_Level]) -> Iterator[tuple[Affine, ...]]:
    """Coordinates that make an address: `n*n - 1` of an array with rows of n elements is in row n at -1, or in row
    n - 1 at n - 1. Raises Unreadable."""
    if len(levels) == 1:
        yield (offset,)
        return
    quotient, rest = divided(offset, levels[0].stride)
    for over in (0, -1, 1):
        for further in _coordinates(rest.plus(levels[0].stride, -over), levels[1:]):
            yield (quotient.plus(number(over)), *further)


def _inside(names: list[str], levels: tuple[_Level, ...]) -> str:
    return " and ".join(
        f"0 <= {name} < {level.extent}" for name, level in zip(names, levels, strict=True) if level.extent is not None
    )


def _levels(array: Array) -> tuple[_Level, ...]:
    """The coordinates of an array's elements, outermost first; at most one where addresses are numbers. Raises
    Unreadable."""
    if array.layout.size is not None or len(array.extents) < 2 or array.layout.strides is not None:
        if None in array.layout.axis_strides:
            raise Unreadable(f"the extents of {array.name} are not known")
        return ()
    if not array.layout.is_row_major:
        raise Unreadable(f"the extents of {array.name} are not known")
    levels: list[_Level] = []
    dimensions: list[tuple[int, int]] = []
    inner, stride, factor = number(1), number(1), 1
    for d in reversed(range(len(array.extents))):
        dimensions.insert(0, (d, factor))
        extent = None if d == 0 else known_extent(array, array.extents[d])
        if extent is not None and not extent.terms:
            factor *= extent.constant
            inner = inner.times(extent.constant)
            continue
        bound = None if extent is None else extent.times(factor)
        levels.insert(0, _Level(stride, bound, tuple(dimensions)))
        if extent is not None:
            inner = product(inner, extent)
            stride, dimensions, factor = inner, [], 1
    return tuple(levels)


def known_extent(array: Array, extent: isl.PwAff | None) -> Affine:
    """An extent. Raises Unreadable for one that is no linear form of parameters."""
    if extent is not None:
        names = isl.involved_parameters(extent)
        pieces = isl.pieces(isl.as_arguments(extent, names))
        factors, constant = isl.coefficients(pieces[0][1]), isl.offset(pieces[0][1])
        if len(pieces) == 1 and factors is not None and constant is not None:
            return Affine.of({f"p_{name}": n for name, n in zip(names, factors, strict=True)}, constant)
    raise Unreadable(f"the extents of {array.name} are not known")


def _sum(parts: list[Affine]) -> Affine:
    total = Affine()
    for part in parts:
        total = total.plus(part)
    return total
