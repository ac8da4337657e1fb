"""Zeroing of an output that a microkernel can do itself, by starting its accumulators from zero (beta = 0)."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.dependences.nests import Nest
from polydl.model import isl
from polydl.model.scop import Assignment, Scop, Statement
from polydl.rewrite.chains import is_zeroing
from polydl.schedule.kernel_call import kernel_call
from polydl.schedule.structure import Structure


def absorbed_zeroing(scop: Scop, structures: Sequence[Structure]) -> dict[int, int]:
    """Positions of nests that only zero what a later microkernel accumulates into, with that nest's position.

    requires: the zeroing writes exactly the elements that the contraction writes, all its blocks run in the
    microkernel, and nothing between the two touches the array.
    """
    found: dict[int, int] = {}
    for later, structure in enumerate(structures):
        if structure.kernel is None or not structure.nest.box or structure.summed:
            continue
        statement = structure.nest.statements[0]
        array = _written(statement)
        for earlier in range(later - 1, -1, -1):
            nest = structures[earlier].nest
            if _zeroes(nest, array) and _covers(nest.statements[0], statement) and _all_in_calls(structure):
                found[earlier] = later
            if any(a.array == array for s in nest.statements for a in s.accesses):
                break
    return found


def _written(statement: Statement) -> str:
    assert isinstance(statement.body, Assignment)
    return statement.accesses[statement.body.target].array


def _zeroes(nest: Nest, array: str) -> bool:
    return is_zeroing(nest) and _written(nest.statements[0]) == array


def _elements(statement: Statement) -> isl.Set:
    assert isinstance(statement.body, Assignment)
    return statement.accesses[statement.body.target].relation.intersect_domain(statement.domain).range()


def _covers(zeroing: Statement, contraction: Statement) -> bool:
    return bool(_elements(zeroing).is_equal(_elements(contraction)))


def _all_in_calls(structure: Structure) -> bool:
    """No block is left to plain loops, which would not start from zero."""
    call = kernel_call(structure, structure.nest.statements[0])
    blocks = call.blocks
    return bool(call.domain.is_equal(blocks))
