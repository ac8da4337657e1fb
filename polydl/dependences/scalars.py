"""Scalars that are only temporaries: private to an iteration of some loops.

    for i: for j: { s = 0; for k: s += A[i][k] * B[k][j]; C[i][j] = s; }

`s` is private to each (i, j): its reuse orders nothing between iterations (array privatisation: Feautrier, "Array
expansion", 1988; here without the memory).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polydl.base.by_identity import once_for_each
from polydl.model import isl
from polydl.model.scop import Assignment, Scop, Statement, Storage
from polydl.model.time import common_depth


def users(scop: Scop, name: str) -> list[Statement]:
    """The statements that access an array, in textual order."""
    return [s for s in scop.statements if any(a.array == name for a in s.accesses)]


def _prefix(statement: Statement, depth: int) -> isl.Set:
    """The iterations of the `depth` outer loops in which a statement runs, as an anonymous set."""
    return isl.project_onto(statement.domain, range(depth)).reset_tuple_id()


def private_depth(scop: Scop, name: str, using: Sequence[Statement] | None = None) -> int | None:
    """Number of loops to one iteration of which a scalar is private: written there before it is read, dead after.

    None for an array, for a scalar that is live after the scop, or one whose value may come from before. `using`: the
    statements that access it, where they are known.
    """
    if not scop.arrays[name].is_scalar or (name in scop.live_out and scop.arrays[name].storage is not Storage.REGION):
        return None
    using = users(scop, name) if using is None else using
    if not using:
        return None
    first = using[0]
    depth = min((common_depth(first, s) for s in using[1:]), default=first.depth)
    depth = min(depth, first.depth)
    writes = isinstance(first.body, Assignment) and first.body.op == "=" and first.depth == depth
    if not writes or any(a.array == name and not a.write for a in first.accesses):
        return None
    assert isinstance(first.body, Assignment)
    if first.accesses[first.body.target].array != name:
        return None
    if not all(_prefix(s, depth).is_subset(_prefix(first, depth)) for s in using[1:]):
        return None
    return depth


@once_for_each
def private_scalars(scop: Scop) -> Mapping[str, int]:
    """Every private scalar with the number of loops it is private to."""
    using: dict[str, list[Statement]] = {name: [] for name in scop.arrays}
    for statement in scop.statements:
        for name in {access.array: None for access in statement.accesses}:
            using[name].append(statement)
    found = {name: private_depth(scop, name, using[name]) for name in scop.arrays}
    return {name: depth for name, depth in found.items() if depth is not None}


def kept_together(scop: Scop, private: Mapping[str, int]) -> Sequence[tuple[str, str]]:
    """(first, last) statement names that loop distribution must not separate: they share a private scalar."""
    return [(users(scop, name)[0].name, users(scop, name)[-1].name) for name in private]
