"""Storage of intermediates that fusing made superfluous: an array that only carries a value within an iteration
becomes a scalar (array contraction; Gao, Olsen, Sarkar, Thekkath: "Collective loop fusion for array contraction",
LCPC 1992)."""

from __future__ import annotations

from dataclasses import replace

from polydl.dependences.scalars import private_depth, users
from polydl.model import isl
from polydl.model.isl import quota
from polydl.model.scop import Array, Assignment, Scop, Storage
from polydl.model.time import prefix
from polydl.rewrite.scratch_array import free_name, stored_in

PREFIX = "polydl_"


def contracted(scop: Scop) -> tuple[Scop, tuple[str, ...]]:
    """The scop with every such array replaced by a scalar, and their names. Raises QuotaExceeded."""
    names = []
    for name, array in scop.arrays.items():
        if array.extents and (array.storage is Storage.REGION or name not in scop.live_out):
            with quota(f"the contraction of {name}"):
                made = _in_scalar(scop, array)
            if made is not None:
                scop = made
                names.append(name)
    return scop, tuple(names)


def _in_scalar(scop: Scop, array: Array) -> Scop | None:
    """The scop with a scalar in place of an array; None unless it is private to the innermost loop around all users,
    and these touch one element in each iteration."""
    name, using = array.name, users(scop, array.name)
    if len(using) < 2 or not all(isinstance(s.body, Assignment) for s in using):
        return None
    own = free_name(scop, PREFIX + name)
    scalar = Array(own, array.element, (), Storage.REGION, f"{array.element.c} {own}", restrict=True, span=array.span)
    arrays = {own if n == name else n: scalar if n == name else a for n, a in scop.arrays.items()}
    if array.storage not in (Storage.REGION, Storage.SCRATCH):
        arrays[name] = array  # a parameter stays declared
    statements = tuple(stored_in(s, name, own, isl.range_named(prefix(s, 0), own)) for s in scop.statements)
    made = replace(scop, arrays=arrays, statements=statements, live_out=scop.live_out - {name})
    depth = private_depth(made, own)
    if depth is None:
        return None
    touched = [_by_iteration(a.relation, depth) for s in using for a in s.accesses if a.array == name]
    element = _by_iteration(using[0].target.relation, depth)
    return made if all(one.is_subset(element) for one in touched) else None


def _by_iteration(relation: isl.Map, depth: int) -> isl.Map:
    """{ [outer loops] -> A[a…] }."""
    return isl.domain_named(isl.domain_onto(relation, range(depth)), None)
