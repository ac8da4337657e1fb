"""Columns that each go down lines of memory, side by side: the loop over neighbours innermost, their scalars in a row.

    for j: { s = 0;  for k: s += expf(A[k][j]);  for k: B[k][j] = expf(A[k][j]) / s; }

Along `k` elements lie a line of memory apart, along `j` side by side. With an element of a short array for each `j` in
place of `s`, every statement runs along `j` (loop interchange after scalar expansion: Padua and Wolfe, "Advanced
compiler optimizations for supercomputers", CACM 1986), in strips such that each thread has such an array of its own.
Softmax and norms over other dimensions than the last one are such loops.

    for j: { c[0] = A[0][j];  for k: c[k] = f(c[k - 1], A[k][j]);  for k: B[k][j] = c[k]; }

An array that is private to an iteration of `j` gets a row for each of its elements, in strips short enough for all of
these to stay in a cache: the columns of an atmosphere, or the lines of an implicit step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.dependences.nests import counted
from polydl.dependences.scalars import HELD_BYTES, private_storage, users
from polydl.equations.equality import Instances
from polydl.equations.step import Rule, Step
from polydl.model import isl
from polydl.model.isl import quota
from polydl.model.scop import Access, Array, Assignment, Scop, Statement, Storage, without_scalar
from polydl.model.strides import strides_of
from polydl.model.time import inside_of, map_from_affs
from polydl.rewrite.contract import PREFIX
from polydl.rewrite.moved import moved
from polydl.rewrite.new_statements import in_two, iterators_in_two
from polydl.rewrite.scratch_array import array_of_extents, free_name, is_box

STRIP = 512
"""Neighbours that share a row of each scalar, at most: some of these rows stay in the first cache together."""
ROW_BYTES = 1 << 19
"""Bytes of the rows of private arrays, all together, up to which a strip is as long as it would be without: a part of a
second-level cache."""
_LANES = 16
"""Neighbours from which on it is worth it: a vector of them."""

Loop = tuple[int, ...]
"""A loop by where it stands: all statements in it have these positions up to its depth."""


@dataclass(frozen=True, slots=True)
class Columns(Rule):
    """A loop goes into the loops inside of it, what is private to it gets an element for each iteration of a strip.

    before:    for j: { s = …;  for k: … s … c[k] …; }
    after:     for q: { for r: S[r] = …;  for k: for r: … S[r] … C[k][r] …; }                  j = strip * q + r
    requires:  the scalars and arrays are private to the loop; no dependence between its iterations
    """

    loop: str
    names: tuple[str, ...]
    """What is private to it."""
    strip: int
    """Iterations of a strip."""
    places: tuple[tuple[str, int], ...]
    """(statement, depth of the loop)."""

    def instances(self, before: Scop) -> Instances:
        """See `Rule.instances`."""
        return {f"{n}n": [(n, _place(before.statement(n), depth, self.strip).reverse())] for n, depth in self.places}

    def __str__(self) -> str:
        return f"{self.loop} runs innermost, in strips of {self.strip}, each with a row of {', '.join(self.names)}"


def columns(scop: Scop) -> Iterator[Step]:
    """Let columns run side by side (`Columns`). Raises QuotaExceeded."""
    while (step := next((one for one in _steps(scop) if one.broken() is None), None)) is not None:
        yield step
        scop = step.after


def _steps(scop: Scop) -> Iterator[Step]:
    """What may be done with each loop whose iterations are columns, one of them at a time."""
    private: dict[Loop, list[str]] = {}
    for name, depth in private_storage(scop).items():
        if depth:
            private.setdefault(users(scop, name)[0].position[:depth], []).append(name)
    for loop, names in private.items():
        inside = inside_of(scop, loop)
        strip = _strip(scop, inside, len(loop), names)
        if strip is None:
            continue
        with quota(f"the columns of {scop.function}"):
            are = _are_columns(scop, inside, len(loop), names)
            step = _side_by_side(scop, loop, inside, names, strip) if are else None
        if step is not None:
            yield step


def _strip(scop: Scop, inside: Sequence[Statement], depth: int, names: Sequence[str]) -> int | None:
    """Iterations of a strip of a loop for which what is private to it has rows; None where there is no room for them.
    With arrays among it, strips are equally long, or about so, and as short as they may be where parameters say how
    large the arrays are: stacks have room for them then (`lower.region_storage`)."""
    arrays = [scop.arrays[name] for name in names if not scop.arrays[name].is_scalar]
    sizes = [array.layout.size for array in arrays]
    if None in sizes:
        return _LANES
    each = sum((size or 0) * array.element.bytes for size, array in zip(sizes, arrays, strict=True))
    strip = STRIP
    while strip > _LANES and strip * each > ROW_BYTES:
        strip //= 2
    extent = counted(inside, inside[0].iterators[depth - 1]).extent
    if arrays and extent:
        whole = (size for size in range(strip, strip // 2, -1) if extent % size == 0 and size % _LANES == 0)
        strip = next(whole, -(-extent // (-(-extent // strip) * _LANES)) * _LANES)
    return strip if strip * each <= HELD_BYTES else None


def _are_columns(scop: Scop, inside: Sequence[Statement], depth: int, names: Collection[str]) -> bool:
    """Whether the statements in a loop, whose number of loops this is, touch neighbours along it and go down lines of
    memory in the loops inside. `names`: what is private to the loop, of which neighbours have elements side by side."""
    own = inside[0].iterators[depth - 1]
    deeper = [s for s in inside if s.depth > depth]
    ends = isl.least(inside[0].domain, own), isl.greatest(inside[0].domain, own)
    if not deeper or (None not in ends and ends[1] - ends[0] + 1 < _LANES):  # type: ignore[operator]
        return False
    if any(own in s.descending or not isinstance(s.body, Assignment) or not is_box(s) for s in inside):
        return False
    # What runs in one of its iterations may touch what it wants.
    several = [s for s in deeper if not isl.is_determined(s.domain, depth - 1)]
    accesses = [
        (s, a) for s in several for a in s.accesses if not scop.arrays[a.array].is_scalar and a.array not in names
    ]
    return bool(accesses) and all(_goes_down(scop, s, a, depth) for s, a in accesses)


def _goes_down(scop: Scop, statement: Statement, access: Access, depth: int) -> bool:
    """Whether an access touches neighbours along a loop, or one element, and no neighbours in the loops inside."""
    strides = strides_of(scop, statement, access)
    if strides is None:
        return False
    own, *inside = (strides[name] for name in statement.iterators[depth - 1 :])
    return own in (0, 1) and not any(by in (1, -1) for by in inside)


def _side_by_side(scop: Scop, loop: Loop, inside: Sequence[Statement], names: Sequence[str], strip: int) -> Step:
    depth = len(loop)
    stems = {name: name if scop.arrays[name].is_scalar else name.removeprefix(PREFIX) for name in names}
    rows = {name: free_name(scop, f"{PREFIX}{stem}_row") for name, stem in stems.items()}
    made = {s.name: _in_strips(s, inside, depth, rows, strip) for s in inside}
    held = {row: _row(scop.arrays[name], row, strip) for name, row in rows.items()}
    after = replace(
        scop, arrays={**scop.arrays, **held}, statements=tuple(made.get(s.name, s) for s in scop.statements)
    )
    for name in names:
        if scop.arrays[name].storage is Storage.REGION or scop.arrays[name].is_scalar:
            # The original loops still use any array that is declared in front of them.
            after = without_scalar(after, name)
    places = tuple((s.name, depth) for s in inside)
    return Step(Columns(inside[0].iterators[depth - 1], tuple(names), strip, places), scop, after)


def _row(array: Array, name: str, strip: int) -> Array:
    """An array with a row for each element of another one, or for a scalar."""
    nowhere = isl.unnamed_space(0)
    extents = [isl.lifted(extent, nowhere) for extent in array.extents if extent is not None]
    return array_of_extents(name, array.element, [*extents, isl.PwAff.from_aff(isl.constant(nowhere, strip))])


def _in_strips(
    old: Statement, inside: Sequence[Statement], depth: int, rows: Mapping[str, str], strip: int
) -> Statement:
    """A statement of a loop with elements of rows in place of what is private, and with that loop innermost."""
    place, iterators = _place(old, depth, strip), iterators_in_two(old, depth - 1, innermost=True)
    named, position = replace(old, name=f"{old.name}n"), _position(old, inside, depth)
    like = moved(named, place, iterators, position, old.descending).statement
    last = map_from_affs(like.domain, isl.coordinates(like.domain)[-1:])
    accesses = tuple(
        replace(a, array=rows[a.array], relation=_beside(a.relation, last, rows[a.array])) if a.array in rows else a
        for a in like.accesses
    )
    return replace(like, accesses=accesses)


def _beside(relation: isl.Map, last: isl.Map, row: str) -> isl.Map:
    """{ S[…, r] -> row[a…, r] } the element in the row that an element has."""
    whole = isl.range_named(relation, None).flat_range_product(last)
    return isl.range_named(whole, row, [f"a{d}" for d in range(isl.range_arity(whole))])


def _position(statement: Statement, inside: Sequence[Statement], depth: int) -> tuple[int, ...]:
    """Where a statement stands when the loop runs innermost: with those beside it in one loop, if they are all there is
    in the loop around them."""
    position = statement.position
    beside = [s for s in inside if s.position[: statement.depth] == position[:-1]]
    if statement.depth > depth and all(s.depth == statement.depth for s in beside):
        return (*position[:-1], 0, position[-1])
    return (*position, 0)


def _place(statement: Statement, depth: int, strip: int) -> isl.Map:
    """{ S[…, j, k…] -> Sn[…, q, k…, r] : j = strip * q + r }"""
    iterators = iterators_in_two(statement, depth - 1, innermost=True)
    return isl.range_named(in_two(statement, depth - 1, strip, innermost=True), f"{statement.name}n", iterators)
