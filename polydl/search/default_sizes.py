"""Sizes to time a program at whose user gave none: parameters may have every value, and a computer has to take some."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.model import isl
from polydl.model.at_sizes import at_sizes, instances, points_of_box
from polydl.model.scop import Scop
from polydl.search.sizes.size_points import nearest_possible

_MOST_INSTANCES = 2e8
"""Statement instances of one run, at most, each those of the box around it: 134 million are a product of 512 x 512."""
_MOST_BYTES = 2.0**25
"""Bytes of all arrays, at most."""
_LARGEST, _LEAST = 20, 3
"""Logarithms of the largest and the smallest size that is tried."""
_ABOVE = 4
"""By how much sizes for which ways are compared are larger than the one that they are timed at."""


def default_sizes(scops: Sequence[Scop]) -> dict[str, range] | None:
    """For each parameter of scops without sizes what stands for every value: from 1 to four times the power of two at
    which a run is quick. None where there are no such sizes."""
    found: dict[str, int] = {}
    for scop in scops:
        sizes = _quick(scop)
        if sizes is None:
            return None
        for name, value in sizes.items():
            found[name] = min(value, found.get(name, value))
    return {name: range(1, _ABOVE * value + 1) for name, value in found.items()}


def _quick(scop: Scop) -> dict[str, int] | None:
    """The largest sizes, as alike as the program allows, at which it is quick. What bounds no loop, as a leading
    dimension, is as small as it may be."""
    domains = [statement.domain for statement in scop.statements]
    possible = _inside(scop)
    bounds = {name for one in domains for name in isl.involved_parameters(one.gist_params(one.params()))}
    for exponent in range(_LARGEST, _LEAST - 1, -1):
        value = 2**exponent
        ranges = dict.fromkeys(scop.parameters, (1, _ABOVE * value))
        wanted = sorted(
            ((n, value if n in bounds else 1) for n in scop.parameters), key=lambda one: one[0] not in bounds
        )
        sizes = nearest_possible(possible, ranges, dict(wanted))
        if sizes is None:
            continue
        there = at_sizes(scop, sizes)
        if instances(there) <= _MOST_INSTANCES and touched_bytes(there) <= _MOST_BYTES:
            return sizes
    return None


def _inside(scop: Scop) -> isl.Set:
    """The values at which no subscript leaves what is declared: with others the program cannot be run."""
    values = scop.context
    for access in (access for statement in scop.statements for access in statement.accesses if access.exact):
        elements = access.relation.range()
        for place, extent in enumerate(scop.arrays[access.array].shape):
            if extent is not None:
                inside = isl.between(elements, place, 0, extent - 1)
                values = values.intersect_params(elements.subtract(inside).params().complement())
    return values


def touched_bytes(scop: Scop) -> float:
    """Bytes of what is touched of all arrays, as far as it is known: of elements that data choose it may not be."""
    touched: dict[str, isl.Set] = {}
    for access in (access for statement in scop.statements for access in statement.accesses):
        elements = access.relation.range()
        if not elements.is_bounded():
            continue
        touched[access.array] = touched[access.array].union(elements) if access.array in touched else elements
    return sum(points_of_box(elements) * scop.arrays[name].element.bytes for name, elements in touched.items())
