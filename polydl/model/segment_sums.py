"""Sums over segments whose terms are products of neighbours and of what tables of subscripts lead to: a row of a sparse
matrix times a vector (`val[p] * x[idx[p]]`), the values of neighbours in a graph (`x[idx[p]]`), a row of blocks times a
vector (`val[p][r][c] * x[idx[p]][c]`, added up over c, too)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polydl.base.records import dataclass
from polydl.model.combiners import adds, subtracts
from polydl.model.contraction import iterations, product_factors, says_all
from polydl.model.conversions import explicit
from polydl.model.expr import Load
from polydl.model.scop import Access, Assignment, BlackBox, Scop, Segment, Statement
from polydl.model.strides import strides_of
from polydl.model.types import BF16, BF16_BITS, F32, F64, I8, I16, I32, U8, ElementType

LEAST_DEPTH, MOST_DEPTH = 4, 64
"""Products of an entry that fill vectors are a multiple of the one, and as many as the other at most."""
_NARROW: Mapping[ElementType, tuple[ElementType, ...]] = {F32: (BF16, BF16_BITS), F64: (), I32: (I8, U8, I16)}
"""By the type of sums, the narrower ones of factors whose products it holds."""


@dataclass(frozen=True, slots=True)
class Factor:
    """What an entry has of an array."""

    access: int
    """Index into the accesses of the segment's sum."""
    array: str
    moves: bool
    """Whether it is another element for each entry: the next one, or the one that the table says."""
    table: str = ""
    """The array of integers whose element is the subscript; empty: the number of the entry is."""
    step: int = 1
    """Elements from one entry, or element of the table, to the next."""
    along: bool = False
    """Whether it is another element, the next one, for each of the products of an entry."""


@dataclass(frozen=True, slots=True)
class SegmentSum:
    """`target += sum over entries of the product of factors`, all of one type, but for bf16 with sums of float, and two
    of bytes or of 16 bits with sums of int."""

    segment: Segment
    target: Access
    element: ElementType
    factors: tuple[Factor, ...]
    negate: bool
    """`target -= …`."""
    depth: int = 1
    """Products of an entry, those of a row of a block."""


def sum_over_segment(scop: Scop, statement: Statement) -> SegmentSum | None:
    """What a statement adds up over the entries of a segment; None where it does something else."""
    body = statement.body
    if not isinstance(body, BlackBox) or body.segment is None:
        return None
    segment = body.segment
    inner, assignment = segment.sum, segment.sum.body
    targets = [access for access in statement.accesses if access.write]
    within = (segment.entry, *segment.tables)
    known = len(statement.iterators) + len(within)
    deeper = inner.iterators[known:]
    depth = iterations(inner, deeper[0]) if len(deeper) == 1 else None if deeper else 1
    if depth is None or depth > MOST_DEPTH or (depth > 1 and depth % LEAST_DEPTH):
        return None
    if not isinstance(assignment, Assignment) or not adds(assignment.op) or len(targets) != 1:
        return None
    if inner.iterators[:known] != (*statement.iterators, *within):
        return None
    own = (assignment.target, assignment.target_read)
    read = [number for number in range(len(inner.accesses)) if number not in own]
    if not says_all(statement, segment, read):
        return None
    target = targets[0]
    if not target.relation.is_single_valued():
        return None
    element = scop.arrays[target.array].element
    types = {number: scop.arrays[inner.accesses[number].array].element for number in read}
    narrow = frozenset(number for number, of in types.items() if of in _NARROW.get(element, ()))
    if {of for number, of in types.items() if number not in narrow} - {element} or element not in _NARROW:
        return None
    if target.array in {inner.accesses[number].array for number in read}:
        return None
    value, computed = explicit(assignment.value, lambda access: types.get(access, element))
    loaded = [one.access for one in product_factors(value) if isinstance(one, Load)]
    factors = [_factor(scop, segment, access, within, deeper if depth > 1 else ()) for access in loaded]
    if computed is not element or len(loaded) < len(product_factors(value)) or None in factors:
        return None
    found = tuple(one for one in factors if one is not None)
    moves = any(one.moves for one in found) and (depth == 1 or any(one.along for one in found))
    if not moves or any(one.access in narrow and not (one.along and depth > 1) for one in found):
        return None
    if element.is_int and (len(found), len(narrow)) != (2, 2):
        return None
    return SegmentSum(segment, target, element, found, subtracts(assignment.op), depth)


def _factor(scop: Scop, segment: Segment, access: int, within: Sequence[str], deeper: Sequence[str]) -> Factor | None:
    """None where neighbours among the products of an entry are no neighbours in the array, or, of one product each,
    those among the entries, or of what a table holds."""
    inner = segment.sum
    array = inner.accesses[access].array
    strides = strides_of(scop, inner, inner.accesses[access])
    moving = None if strides is None else [name for name in within if strides[name] != 0]
    if strides is None or moving is None or len(moving) > 1:
        return None
    step, along = strides[moving[0]] if moving else 0, strides[deeper[0]] if deeper else 0
    if not isinstance(step, int) or along not in (0, 1) or (not deeper and moving and step != 1):
        return None
    return Factor(access, array, bool(moving), segment.tables.get(moving[0], "") if moving else "", step, along == 1)
