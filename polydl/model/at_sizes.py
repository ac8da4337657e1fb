"""A program with sizes as parameters, at values of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from polydl.model import isl
from polydl.model.layout import NO_AXES
from polydl.model.scop import Array, Scop


def at_sizes(scop: Scop, values: Mapping[str, int]) -> Scop:
    """Domains, accesses and extents of a program for values of its parameters, or of some of them: what is asked of it
    where it is counted, estimated and scheduled. Conditions inside of expressions stay in terms of the parameters."""
    statements = tuple(
        replace(
            s,
            domain=isl.named(isl.at_values(s.domain, values), s.iterators),
            accesses=tuple(replace(a, relation=isl.at_values(a.relation, values)) for a in s.accesses),
        )
        for s in scop.statements
    )
    point = isl.parameter_values(values)
    arrays = {name: _array(array, point) for name, array in scop.arrays.items()}
    return replace(
        scop,
        statements=statements,
        arrays=arrays,
        parameters=tuple(name for name in scop.parameters if name not in values),
        context=isl.at_values(scop.context, values),
        sizes={**scop.sizes, **values},
    )


def _array(array: Array, point: isl.Set) -> Array:
    if not array.layout.is_row_major:
        return array
    extents = tuple(None if e is None else _constant(e, point) for e in array.extents)
    return replace(array, extents=extents, layout=NO_AXES)


def _constant(extent: isl.PwAff, point: isl.Set) -> isl.PwAff:
    """An extent that has one value at a point, as a constant; any other one as it is."""
    there = extent.intersect_params(point)
    low, high = there.min_val(), there.max_val()
    if not (low.is_int() and low.eq(high)):
        return extent
    return isl.PwAff.from_aff(isl.constant(isl.unnamed_space(0), isl.to_int(high)))
