"""How sums over segments are printed that vector functions add up (`kernels.segment_sum`)."""

from __future__ import annotations

from polydl.kernels.segment_sum import SegmentFunction, SumFactor, segment_function
from polydl.lower.ctree import (
    Assign,
    Binary,
    Block,
    Declare,
    Expr,
    If,
    Int,
    Invoke,
    Name,
    Node,
    Paren,
    Scope,
    Text,
    Through,
    plus,
    times,
)
from polydl.lower.instance import Place
from polydl.lower.segment_arguments import bound_names
from polydl.model import isl
from polydl.model.contraction import first_element
from polydl.model.scop import BlackBox, Scop, Statement
from polydl.model.segment_sums import SegmentSum, sum_over_segment
from polydl.model.strides import strides_of


def regrouped(scop: Scop, statement: Statement) -> SegmentSum | None:
    """What a statement adds up over a segment in vectors; None where it is printed as it is written."""
    body = statement.body
    return sum_over_segment(scop, statement) if isinstance(body, BlackBox) and body.regroups else None


def function_of(scop: Scop, found: SegmentSum) -> SegmentFunction:
    """The function that adds it up."""
    inner = found.segment.sum
    factors: list[SumFactor] = []
    for one in found.factors:
        table = scop.arrays[one.table].element if one.table else None
        own = scop.arrays[inner.accesses[one.access].array].element
        narrow = own if own is not found.element else None
        factors.append(SumFactor("", one.moves, table, one.step, one.along, narrow=narrow))
    return segment_function(found.element, factors, found.depth)


def summed_segment(scop: Scop, statement: Statement, found: SegmentSum, function: SegmentFunction, at: Place) -> Node:
    """The statement as a call; no array is touched for a segment without entries."""
    body, segment = statement.body, found.segment
    assert isinstance(body, BlackBox)
    first, entries = f"polydl_first_{segment.entry}", f"polydl_entries_{segment.entry}"
    arguments: list[Expr] = []
    for one in found.factors:
        place = first_element(statement, one.access).as_pw_multi_aff()
        if not one.moves:
            arguments.append(at.address(one.array, place) if one.along else at.element(one.array, place))
            continue
        pointer = at.address(one.array, place)
        arguments.append(pointer if one.table else plus(pointer, times(Name(first), Int(one.step))))
        arguments += [plus(Name(one.table), Name(first))] if one.table else []
    call = Invoke(function.name, (Name(entries), *arguments))
    target = at.element(found.target.array, found.target.relation.as_pw_multi_aff())
    adding = Assign(target, "-=" if found.negate else "+=", call)
    number = Binary("-", Paren(Text(segment.last)), Name(first))
    bounds = Declare("const ptrdiff_t", ((first, Text(segment.first)), (entries, number)))
    # The function of one row asks by itself whether there are entries, and returns what changes no sum: -0.0, which to
    # take away changes one that is itself -0.0.
    scalar = scop.arrays[found.target.array].is_scalar
    by_itself = found.depth == 1 and all(one.moves for one in found.factors) and scalar and not found.negate
    code = adding if by_itself else If(Binary(">", Name(entries), Int(0)), Block((adding,)))
    return Scope((*bound_names(body, segment, at.affine), bounds, code))


def through(
    scop: Scop, statement: Statement, found: SegmentSum | None, function: SegmentFunction | None, at: Place
) -> Through | None:
    """The segment that a statement runs through; None where it does not. `function` adds up what was `found`."""
    body = statement.body
    if not isinstance(body, BlackBox) or body.entries is None:
        return None
    array, row = scop.arrays[body.entries.array], at.affine(body.entries.row)
    if found is None or function is None:
        return Through(array.name, array.element, row)
    integers = [at.c(at.build.expr_from_pw_aff(one)) for one in isl.components(at.back)]
    moves: list[tuple[tuple[Expr, int | None], ...]] = []
    for one in found.factors:
        strides = strides_of(scop, found.segment.sum, found.segment.sum.accesses[one.access])
        assert strides is not None, "says `sum_over_segment`"
        known = [s if isinstance(s := strides[name], int) else None for name in statement.iterators]
        moves.append(tuple(zip(integers, known, strict=True)))
    return Through(array.name, array.element, row, function, tuple(moves))
