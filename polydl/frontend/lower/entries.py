"""Arrays that loops over segments write: counted in whole segments, which have no entry in common.

before:    for (p = ptr[i]; p < ptr[i + 1]; p++) out[p] = f(i, p);
after:     an instance of the statement writes `out` in segment i: { S[i] -> out[i] }
requires:  every access to `out` is of an entry of a segment of `ptr`, which the region does not write, and `ptr` never
           decreases, as the output asks (`model.scop.Ordered`)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pycparser import c_ast

from polydl.frontend.core.counters import Counter
from polydl.frontend.core.loop_forms import Loop
from polydl.frontend.core.tree_parts import indexed
from polydl.frontend.lower.index_values import taken
from polydl.frontend.lower.raw import RawAccess, RawBlackBox, RawEntries, RawStatement, every_access
from polydl.frontend.lower.state import State
from polydl.frontend.lower.upward_loops import bounds_of
from polydl.frontend.meaning.affine import NotAffine
from polydl.frontend.meaning.affine_terms import constant_aff
from polydl.frontend.meaning.liveness import assigned_names
from polydl.model import isl
from polydl.model.scop import Ordered
from polydl.model.types import ElementType


def entries_of(loop: Loop, counter: Counter, state: State) -> RawEntries | None:
    """What a loop runs through that goes from an element of an array to the next one, which the region does not write;
    None for others."""
    bounds = bounds_of(loop.node)
    if bounds is None or bounds.counter != counter.name or counter.name in assigned_names(loop.body):
        return None
    found = []
    for end in (bounds.first, bounds.past):
        if not (isinstance(end, c_ast.ArrayRef) and isinstance(end.name, c_ast.ID)):
            return None
        try:
            found.append((end.name.name, state.evaluator.affine(end.subscript, state.domain)))
        except NotAffine:
            return None
    (array, first), (other, last) = found
    symbol = state.scope.find(array)
    if (
        array != other
        or symbol is None
        or symbol.name != array
        or array in state.pointers
        or not isinstance(symbol.ctype, ElementType)
        or not symbol.ctype.is_int
        or len(symbol.levels) != 1
        or state.is_stored(array)
        or not last.sub(first).is_equal(constant_aff(1))
    ):
        return None
    return RawEntries(array, first, counter.name)


def in_segments(statements: Sequence[RawStatement]) -> Mapping[int, RawEntries]:
    """By the id of an access its segment: of arrays that are written, and touched nowhere but in entries of segments
    between elements of one array."""
    found: dict[str, list[tuple[RawAccess, RawEntries | None]]] = {}
    for statement in statements:
        for access, entries in _accesses(statement):
            found.setdefault(access.symbol.name, []).append((access, entries))
    written = {name for name, several in found.items() if any(access.write for access, _ in several)}
    made: dict[int, RawEntries] = {}
    for name in written:
        known = [(access, entries) for access, entries in found[name] if entries is not None]
        several = [(access, entries) for access, entries in known if _of_entry(access, entries)]
        bounds = {entries.bounds for _, entries in several}
        if len(several) == len(found[name]) and len(bounds) == 1 and not bounds & written:
            made |= {id(access): entries for access, entries in several}
    return made


def _accesses(statement: RawStatement) -> list[tuple[RawAccess, RawEntries | None]]:
    """The accesses of a statement, each with the segment that the statement runs through."""
    entries = statement.body.entries if isinstance(statement.body, RawBlackBox) else None
    return [(access, entries) for access in every_access([statement])]


def _of_entry(access: RawAccess, entries: RawEntries) -> bool:
    """Whether it is `array[counter]…`."""
    name, subscripts = indexed(access.node)
    first = subscripts[0] if subscripts else None
    counted = isinstance(first, c_ast.ID) and first.name == entries.counter and access.subscripts[0] is None
    return counted and name == access.symbol.name


def ordered(
    statements: Sequence[RawStatement], segments: Mapping[int, RawEntries], parameters: Sequence[str]
) -> tuple[Ordered, ...]:
    """What has to be so for the segments of these accesses to have nothing in common."""
    rows: dict[str, isl.Set] = {}
    for statement in statements:
        for access, entries in _accesses(statement):
            if entries is None or id(access) not in segments:
                continue
            some = taken(entries.row, statement.domain, parameters)
            rows[entries.bounds] = some.union(rows[entries.bounds]) if entries.bounds in rows else some
    return tuple(Ordered(array, some.coalesce()) for array, some in rows.items())
