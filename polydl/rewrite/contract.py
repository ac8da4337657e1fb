"""Storage of intermediates that fusing made superfluous: an array that only carries a value within an iteration
becomes a scalar (array contraction; Gao, Olsen, Sarkar, Thekkath: "Collective loop fusion for array contraction",
LCPC 1992)."""

from __future__ import annotations

from dataclasses import replace

from polydl.model import isl
from polydl.model.isl import quota
from polydl.model.scop import Array, Assignment, Scop, Storage
from polydl.model.time import common_depth, prefix
from polydl.rewrite.scratch_array import free_name, stored_in

PREFIX = "polydl_"


def contracted(scop: Scop) -> tuple[Scop, tuple[str, ...]]:
    """The scop with every such array replaced by a scalar, and their names. Raises QuotaExceeded."""
    names = []
    for name, array in scop.arrays.items():
        with quota(f"the contraction of {name}"):
            if array.extents and _dead(scop, array) and _within_iterations(scop, name):
                names.append(name)
    for name in names:
        scop = _without(scop, name)
    return scop, tuple(names)


def _dead(scop: Scop, array: Array) -> bool:
    return array.storage is Storage.REGION or array.name not in scop.live_out


def _within_iterations(scop: Scop, name: str) -> bool:
    """Whether every iteration of the innermost loop around all users first writes the one element that it touches."""
    users = [s for s in scop.statements if any(a.array == name for a in s.accesses)]
    if len(users) < 2 or not all(isinstance(s.body, Assignment) for s in users):
        return False
    first = users[0]
    depth = min(common_depth(first, s) for s in users[1:])
    body = first.body
    assert isinstance(body, Assignment)
    if body.op != "=" or first.depth != depth or first.target.array != name:
        return False
    if any(a.array == name and not a.write for a in first.accesses):
        return False
    element = _outer(first.target.relation, depth)
    return all(_outer(a.relation, depth).is_subset(element) for s in users for a in s.accesses if a.array == name)


def _outer(relation: isl.Map, depth: int) -> isl.Map:
    """{ [outer loops] -> A[a…] }."""
    return isl.domain_named(isl.domain_onto(relation, range(depth)), None)


def _without(scop: Scop, name: str) -> Scop:
    old = scop.arrays[name]
    scalar = free_name(scop, PREFIX + name)
    new = Array(scalar, old.element, (), Storage.REGION, f"{old.element.c} {scalar}", restrict=True, span=old.span)
    statements = tuple(stored_in(s, name, scalar, isl.range_named(prefix(s, 0), scalar)) for s in scop.statements)
    arrays = {scalar if n == name else n: new if n == name else a for n, a in scop.arrays.items()}
    if old.storage not in (Storage.REGION, Storage.SCRATCH):
        arrays[name] = old  # a parameter stays declared
    return replace(scop, arrays=arrays, statements=statements, live_out=scop.live_out - {name})
