"""Rows that a large array holds for a while: kept in a buffer of one row until they have their last value.

    for i: { for j: y[i][j] = expf(x[i][j] - m);  …  for j: y[i][j] /= sum; }

What the first loop stores is read in the same row and never again. In a buffer it stays in the first cache; the array
is written once, past the caches where it is larger than they are, and not brought in before. Each thread has a buffer
of its own (dependences.scalars). Only done for arrays that no second-level cache holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.dependences.scalars import on_stack, private_storage, users
from polydl.equations.step import Rule, Step, one_by_one
from polydl.model import isl
from polydl.model.expr import Binary, Load
from polydl.model.isl import quota
from polydl.model.scop import Array, Assignment, Scop, Statement, Storage
from polydl.model.time import common_depth, prefix
from polydl.rewrite.scratch_array import box_of, free_name, region_array

BUFFER = "polydl_row_of_"
"""Begins the names of buffers."""
LARGE = 1 << 22
"""Bytes that are written to an array, at least: more than the second-level caches of today hold."""


@dataclass(frozen=True, slots=True)
class RowBuffer(Rule):
    """What an array holds until the last statement that writes it is stored in a buffer that each row uses anew.

    before:    for i: { for j: y[i][j] = f(j);  …  for j: y[i][j] /= s; }
    after:     for i: { for j: e[j] = f(j);  …  for j: y[i][j] = e[j] / s; }
    requires:  the last statement stores every element that the first one did, behind all other uses of it
    """

    array: str
    buffer: str
    last: str
    """The statement that still writes the array."""

    def __str__(self) -> str:
        return f"{self.array} is stored by {self.last} alone; until then a row of it is in {self.buffer}"


def row_buffers(scop: Scop) -> Iterator[Step]:
    """Give buffers to large arrays that are written twice in a row (`RowBuffer`). Raises QuotaExceeded."""

    def made(scop: Scop, name: str) -> Step | None:
        with quota(f"a buffer for rows of {name}"):
            return _buffered(scop, name)

    yield from one_by_one(scop, [*scop.arrays], made)


def _buffered(scop: Scop, name: str) -> Step | None:
    array, using = scop.arrays[name], users(scop, name)
    if len(using) < 2 or array.is_scalar or array.members is not None or array.rows is not None:
        return None
    first, last = using[0], using[-1]
    if array.storage is Storage.REGION or not all(isinstance(s.body, Assignment) for s in using):
        return None
    if {first.target.array, last.target.array} != {name}:
        return None
    depth = min(common_depth(first, s) for s in using[1:])
    written = first.target.relation.intersect_domain(first.domain)
    box = box_of(written.range())
    if depth == 0 or box is None or any(isl.involved_parameters(extent) for extent in box.extents):
        return None
    sizes = [isl.to_int(extent.max_val()) for extent in box.extents]
    in_row = written.apply_domain(prefix(first, depth))
    inner = [d for d in range(len(sizes)) if not isl.range_onto(in_row, [d]).is_single_valued()]
    if math.prod(sizes) * array.element.bytes < LARGE or not inner or any(array.shape[d] is None for d in inner):
        return None
    buffer = free_name(scop, f"{BUFFER}{name}")
    made = _with_buffer(scop, array, buffer, using, inner)
    if buffer not in private_storage(made) or not on_stack(made.arrays[buffer]):
        return None
    return Step(RowBuffer(name, buffer, last.name), scop, made)


def _with_buffer(scop: Scop, array: Array, buffer: str, using: Sequence[Statement], dims: Sequence[int]) -> Scop:
    """The program with a buffer for what statements, but for the last one's write, touch of an array: it has some of
    its dimensions."""
    own = region_array(buffer, array.element, [extent for d in dims if (extent := array.shape[d]) is not None])

    def there(relation: isl.Map) -> isl.Map:
        return isl.range_named(isl.range_onto(relation, dims), buffer)

    changed = {}
    for statement in using:
        body = statement.body
        assert isinstance(body, Assignment)
        kept = {body.target} if statement is using[-1] else set[int]()
        if kept and body.op != "=":
            assert body.target_read is not None, "a compound assignment reads"
            value = Binary(body.op[:-1], Load(body.target_read), body.value)
            body = replace(body, op="=", value=value, target_read=None)
        accesses = tuple(
            replace(a, array=buffer, relation=there(a.relation)) if a.array == array.name and at not in kept else a
            for at, a in enumerate(statement.accesses)
        )
        changed[statement.name] = replace(statement, body=body, accesses=accesses)
    return replace(
        scop,
        arrays={**scop.arrays, buffer: own},
        statements=tuple(changed.get(s.name, s) for s in scop.statements),
    )
