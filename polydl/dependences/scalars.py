"""Scalars and short arrays that are only temporaries: private to an iteration of some loops.

    for i: for j: { s = 0; for k: s += A[i][k] * B[k][j]; C[i][j] = s; }

`s` is private to each (i, j): its reuse orders nothing between iterations (array privatisation: Feautrier, "Array
expansion", 1988; here without the memory). So is a row buffer that each iteration fills before it reads it: each thread
has one of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polydl.base.by_identity import once_for_each
from polydl.model import isl
from polydl.model.dataflow import last_writes
from polydl.model.scop import Array, Assignment, Scop, Statement, Storage
from polydl.model.time import common_depth, shared_depth

PRIVATE_BYTES = 1 << 16
"""Bytes of an array of which each thread may have one, at most: it lies on the thread's stack, of which musl gives 128
KiB, and that is a part of a second-level cache."""
HELD_BYTES = 1 << 22
"""The same of one that is not on the stack, but in memory that the output reserves for each thread."""


@once_for_each
def _users(scop: Scop) -> Mapping[str, list[Statement]]:
    found: dict[str, list[Statement]] = {}
    for statement in scop.statements:
        for name in dict.fromkeys(access.array for access in statement.accesses):
            found.setdefault(name, []).append(statement)
    return found


def users(scop: Scop, name: str) -> Sequence[Statement]:
    """The statements that access an array, in textual order."""
    return _users(scop).get(name, ())


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
    depth = shared_depth(using)
    writes = isinstance(first.body, Assignment) and first.body.op == "=" and first.depth == depth
    if not writes or any(a.array == name and not a.write for a in first.accesses):
        return None
    assert isinstance(first.body, Assignment)
    if first.target.array != name:
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


@once_for_each
def private_storage(scop: Scop) -> Mapping[str, int]:
    """Every private scalar and array with the number of loops it is private to."""
    found = {
        name: array_depth(scop, name, users(scop, name))
        for name, array in scop.arrays.items()
        if _may_be_private(scop, array)
    }
    return {**private_scalars(scop)} | {name: depth for name, depth in found.items() if depth is not None}


def by_iteration(scop: Scop, name: str, depth: int, loop: isl.Aff) -> bool:
    """Whether iterations of a loop, a function { S[i…] -> [t] }, may each have a private scalar or array
    of their own. Those of a loop inside of the `depth` loops that an array is private to share it."""
    return scop.arrays[name].is_scalar or any(isl.uses(isl.PwAff.from_aff(loop), d) for d in range(depth))


def _may_be_private(scop: Scop, array: Array) -> bool:
    """Whether each thread may have such an array: one of the function's own, of which nobody knows anything outside."""
    size = array.layout.size
    return (
        array.storage in (Storage.REGION, Storage.LOCAL)
        and (array.storage is Storage.REGION or array.name not in scop.live_out)
        and not array.is_scalar
        and not array.static
        and array.members is None
        and array.rows is None
        and all(extent is not None for extent in array.extents)
        and (size is None or size * array.element.bytes <= HELD_BYTES)
    )


def on_stack(array: Array) -> bool:
    """Whether a private array lies on the stack of the thread that it belongs to; others are in memory of their own. Of
    one whose size shows at run time alone the output asks how large it is."""
    size = array.layout.size
    return size is None or size * array.element.bytes <= PRIVATE_BYTES


def array_depth(scop: Scop, name: str, using: Sequence[Statement]) -> int | None:
    """Number of loops to one iteration of which the values are private that some statements, `using`, store in an
    array: what each of them reads of it was written in the same iteration. None where they share no such loop; what the
    array holds behind these loops is not asked. Whoever asks has set a quota for isl."""
    shared = min((common_depth(using[0], s) for s in using[1:]), default=0)
    if shared == 0 or not all(isinstance(s.body, Assignment) for s in using):
        return None
    accesses = [a for s in using for a in s.accesses if a.array == name]
    if not all(a.exact for a in accesses) or len({a.write for a in accesses}) < 2:
        return None
    flow = last_writes(using, name, scop.context)
    if not flow.before.is_empty():
        return None
    depth = next((d for d in range(shared) if not all(isl.agrees(one, d) for one in flow.relations)), shared)
    return depth or None


def kept_together(scop: Scop, private: Mapping[str, int]) -> Sequence[tuple[str, str]]:
    """(first, last) statement names that loop distribution must not separate: they share a private scalar."""
    return [(users(scop, name)[0].name, users(scop, name)[-1].name) for name in private]
