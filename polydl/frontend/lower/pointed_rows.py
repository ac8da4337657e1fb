"""Arrays of pointers to rows (`float **A`, `float *A[M]`): arrays of two dimensions, of what the region reaches.

That the rows lie as those of such an array do, or can be copied into one, is for the output to check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

from polydl.base.errors import InputError
from polydl.frontend.lower.raw import RawAssignment, Walked
from polydl.model import isl
from polydl.model.layout import row_major
from polydl.model.scop import Access, Array, PointedRows, Statement, Storage

ROW = "row"
"""The parameter of `PointedRows.lengths`."""


def shaped(
    arrays: Mapping[str, Array], walked: Walked, statements: Sequence[Statement], context: isl.Set
) -> tuple[dict[str, Array], list[InputError]]:
    """The arrays, those of pointers to rows with the extents that the region reaches."""
    made, errors = dict(arrays), []
    for name, array in arrays.items():
        if walked.symbols[name].of_rows:
            own = [access for s in statements for access in s.accesses if access.array == name]
            sure = [access for access in _sure(walked, statements) if access.array == name]
            try:
                made[name] = _shaped(array, own, sure, context)
            except InputError as error:
                errors.append(error)
    return made, errors


def _sure(walked: Walked, statements: Sequence[Statement]) -> list[Access]:
    """The accesses that surely happen wherever they are said to."""
    return [
        access
        for raw, statement in zip(walked.statements, statements, strict=True)
        if isinstance(raw.body, RawAssignment)
        for before, access in zip(raw.accesses, statement.accesses, strict=True)
        if before.exact
    ]


def _shaped(array: Array, own: Sequence[Access], sure: Sequence[Access], context: isl.Set) -> Array:
    """Raises InputError where it is not known in front of the region which rows there are, and how long."""
    name = array.name

    def refused(reason: str, access: Access) -> InputError:
        hint = f"use one block of memory, such as '{array.element.c} (*{name})[N]'"
        return InputError(f"{reason} '{name}', an array of pointers to rows", access.span, hint, "pointers")

    for access in own:
        if not access.exact:
            raise refused("data choose an element of", access)
    reached = reduce(isl.Set.union, (access.relation.range() for access in own)).intersect_params(context)
    surely = reduce(isl.Set.union, (access.relation.range() for access in sure), isl.Set.empty(reached.get_space()))
    if reached.is_empty():
        raise refused("no element is reached of", own[0])
    extents = []
    for at in range(2):
        least, greatest = isl.symbolic_bounds(reached, at)
        if not least.domain().is_subset(least.nonneg_set()):
            raise refused("a subscript may be below 0 of", own[0])
        # Interiors have borders: as many columns behind them as there are in front.
        border = least if at == 1 else least.sub(least)
        extents.append(greatest.add(border).add_constant_val(isl.value(1)).coalesce())
    if not isl.project_onto(reached, [0]).lexmax().is_subset(isl.project_onto(surely, [0])):
        raise refused("data decide which rows are used of", own[0])
    known = [extent.max_val() if extent.is_cst() else None for extent in extents]
    numbers = [None if number is None else isl.to_int(number) for number in known]
    const = "const " if array.const else ""
    return replace(
        array,
        extents=tuple(extents),
        # Globals are handed on like parameters: as arrays of two dimensions.
        storage=Storage.PARAMETER if array.storage is Storage.GLOBAL else array.storage,
        declaration=array.declaration
        if None in numbers
        else "{}{} {}[{}][{}]".format(const, array.element.c, name, *numbers),
        layout=row_major(numbers),
        rows=_rows(reached, surely),
    )


def _rows(reached: isl.Set, surely: isl.Set) -> PointedRows:
    """What is known of rows. A row that is reached at some place is there from its first element on."""
    first, last = isl.least(reached, 0), isl.greatest(reached, 0)
    if first is None or last is None:
        return PointedRows(first or 0, None)
    rows, sure = isl.project_onto(reached, [0]), isl.at_parameter(surely, 0, ROW)
    every = isl.between(isl.Set.universe(rows.get_space()), 0, first, last)
    if not every.is_subset(isl.project_onto(surely, [0])):
        return PointedRows(first, None)
    end = isl.symbolic_bounds(sure, 1)[1]
    beyond = isl.symbolic_bounds(isl.at_parameter(reached, 0, ROW), 1)[1]
    same = beyond.le_set(end).is_equal(beyond.domain())
    return PointedRows(first, end.add_constant_val(isl.value(1)).coalesce() if same else None)
