"""Parameters of a program that are the extent of a loop or the length of rows by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polydl.dependences.nests import Nest
from polydl.model import isl
from polydl.model.scop import Scop
from polydl.schedule.loops import NestLoops
from polydl.search.sizes.size_points import Lengths, Ranges
from polydl.target import Machine


def row_lengths(scop: Scop, parts: Sequence[Nest], sizes: Ranges, machine: Machine) -> Lengths:
    """Parameters that are the length of rows of an operand, and the elements after which rows start in the same set of
    the first cache, and those of its line."""
    cache = machine.caches[0]
    found = {}
    for nest in parts:
        for operand in () if nest.contraction is None else (nest.contraction.left, nest.contraction.right):
            extents = scop.arrays[operand.array].extents
            last = extents[-1] if len(extents) > 1 else None
            if last is None:
                continue
            period, width = (n // operand.element.bytes for n in (cache.sets * cache.line_bytes, cache.line_bytes))
            for name in isl.involved_parameters(last):
                if _is(last, name) and name in sizes and sizes[name][1] >= period:
                    found[name] = (period, width)
    return found


def column_extents(structures: Sequence[NestLoops], ranges: Mapping[str, isl.PwAff]) -> dict[str, isl.PwAff]:
    """Parameters that are the extent of the loop over columns of a microkernel, and { [parameters] -> [n] } it.
    `ranges`: the extent of each loop."""
    loops = sorted({one.kernel.columns.iterator for one in structures if one.kernel is not None})
    return {n: ranges[c] for c in loops for n in isl.involved_parameters(ranges[c]) if _is(ranges[c], n)}


def _is(extent: isl.PwAff, name: str) -> bool:
    """Whether an extent { [parameters] -> [n] } is one parameter by itself."""
    functions = [function for _, function in isl.pieces(extent)]
    if len(functions) != 1 or isl.involved_parameters(functions[0]) != (name,):
        return False
    # A line is known by two of its points.
    there = (extent.intersect_params(isl.parameter_values({name: value})).max_val() for value in (1, 2))
    return [isl.to_int(value) if value.is_int() else None for value in there] == [1, 2]
