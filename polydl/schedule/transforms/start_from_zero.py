"""Zeroing of an output that a microkernel does itself, by starting its accumulators from zero (beta = 0)."""

from __future__ import annotations

from dataclasses import replace

from polydl.model import isl
from polydl.model.expr import is_number, is_zero
from polydl.model.scop import Assignment, Statement
from polydl.schedule.kernel_call import kernel_call
from polydl.schedule.tree import Kernel, Node, kernels, with_kernels


def start_from_zero(part: Node, zeroing: Statement) -> Node:
    """The tree whose microkernel sets to zero what it accumulates into.

    before:    Sequence(Band(i j, Leaf Z), Band(i j k, Kernel S))
    after:     Band(i j k, Kernel S with `zeroing` Z): the first call for each block starts from zero
    requires:  `no_start` says nothing; Z writes just the elements that S does; nothing between the two touches the
               array, which `schedule.tree_check` decides
    """
    return with_kernels(part, {kernel: replace(kernel, zeroing=zeroing) for kernel in kernels(part)})


def no_start(kernel: Kernel) -> str | None:
    """Why the calls of a kernel cannot start from zero; None where they can."""
    zeroing, structure = kernel.zeroing, kernel.use
    statement = structure.nest.statements[0]
    if zeroing is None:
        return None
    if not zeroes_all(zeroing, statement, any_number=structure.steps):
        return f"{zeroing.name} does not set to zero what {statement.name} accumulates into"
    if structure.summed:
        return f"{zeroing.name} would be done by each of the parts of sums of {statement.name}"
    call = kernel_call(structure, statement)
    if not structure.nest.box or not call.domain.is_equal(call.blocks):
        return f"not every block of {statement.name} runs in its microkernel, which is to start from zero"
    return None


def zeroes_all(zeroing: Statement, contraction: Statement, *, any_number: bool) -> bool:
    """Whether a statement sets to zero, or to `any_number`, just the elements that another writes."""
    body = zeroing.body
    if not isinstance(body, Assignment) or body.op != "=":
        return False
    if not (is_number(body.value) if any_number else is_zero(body.value, signed=False)):
        return False
    return _written(zeroing) == _written(contraction) and bool(_elements(zeroing).is_equal(_elements(contraction)))


def _written(statement: Statement) -> str:
    return statement.target.array


def _elements(statement: Statement) -> isl.Set:
    return statement.target.relation.intersect_domain(statement.domain).range()
