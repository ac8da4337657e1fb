"""Loops cut where what their statements touch stops being one affine function, so that nothing is decided inside.

    for i: for k: s += u[min(max(i + k, 0), n - 1)];   clamped; or reflected (i < 0 ? -i : i), wrapped ((i + 1) % n)

In the interior the subscript is i + k: plain C, vectors, microkernels. What is left is a few iterations at either end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

from polydl.base.errors import QuotaExceeded
from polydl.dependences.analysis import dependences
from polydl.equations.step import Step, applied
from polydl.model import isl
from polydl.model.counting import count
from polydl.model.isl import quota
from polydl.model.scop import Assignment, Scop, Statement
from polydl.model.time import inside_of
from polydl.rewrite.cut import Piece, cut, plain_part, subscripts_in_pieces
from polydl.rewrite.ranges import Range, edges, whole_of
from polydl.rewrite.scratch_array import box_of
from polydl.rewrite.storage import split_live_ranges
from polydl.target.isa import kernel_contraction

_MOST_EDGE = 8
"""Iterations that are cut off at either end of a loop, at most."""
_SHARE = 8
"""What is cut off a loop is at most this part of what stays, and a statement that is cut at least this part of all
instances: less is not worth a nest of its own, and so no piece is cut again."""
_MOST_STATEMENTS = 40
"""Of a program whose loops are cut: there is a nest for each piece."""

WHERE = "where its subscripts change"
_Loop = tuple[int, ...]
"""The positions that the statements inside a loop have in common."""
_Cuts = Mapping[int, Range]
"""Per depth of a loop around a statement, what of the loop stays together."""


def interiors(scop: Scop) -> Iterator[Step]:
    """Cut the loops in which subscripts are clamped, reflected or wrapped round at the ends (`Cut`), each piece in
    loops of its own as far as dependences allow (`Lives`). Raises QuotaExceeded."""
    with quota(f"the subscripts of {scop.function}"):
        wanted = _wanted(scop)
        alone = [name for name in wanted if _has_kernel(scop, scop.statement(name), wanted[name])]
        groups = _groups(scop, {name: cut for name, cut in wanted.items() if name not in alone})
    for name in alone:
        step = _cut(scop, {name: wanted[name]}, -1)
        if step is not None:
            yield step
            scop = step.after
    for found in groups:
        group = _rows(scop, found) if _in_time(scop, found) else found
        steps = _steps(scop, group) or _steps(scop, _rows(scop, group))
        yield from steps
        scop = applied(scop, steps)


def _steps(scop: Scop, group: Mapping[str, _Cuts]) -> list[Step]:
    """A group cut, its pieces in loops of their own as far outside as dependences allow; none where they cannot be,
    unless that is one loop in several after each other."""
    depths = _depths(group)
    for level in range(min(depths, default=-1) + 1):
        step = _cut(scop, group, level)
        if step is None:
            return []
        try:
            if depths == [level] or step.broken() is None:
                return [step, *split_live_ranges(step.after)]
        except QuotaExceeded:
            return [step]  # whoever checks it says so
    return []


def _depths(group: Mapping[str, _Cuts]) -> list[int]:
    return sorted({depth for cuts in group.values() for depth in cuts})


def _wanted(scop: Scop) -> dict[str, _Cuts]:
    """How statements would be cut if each stood alone, by their names."""
    if any(s.domain.is_empty() for s in scop.statements):
        return {}
    values = scop.context.params()
    found = {s.name: cuts for s in scop.statements if (cuts := _ranges(s, values))}
    if not found:
        return {}
    if any(isl.involved_parameters(s.domain) for s in scop.statements):
        # Nobody knows how many instances: those in most loops of unknown length are most of them.
        loops = {s.name: _long_loops(s) for s in scop.statements}
        return {name: cuts for name, cuts in found.items() if loops[name] == max(loops.values())}
    counts = {s.name: count(s.domain).upper for s in scop.statements}
    least = sum(counts.values()) / _SHARE
    return {name: cuts for name, cuts in found.items() if counts[name] >= least}


def _long_loops(statement: Statement) -> int:
    """How many loops of a statement have an end that parameters say."""
    box = box_of(statement.domain)
    return statement.depth if box is None else sum(bool(isl.involved_parameters(extent)) for extent in box.extents)


def wide_enough(scop: Scop) -> isl.Set:
    """{ [parameters] } for which loops are long enough to be cut where subscripts change at their ends, of those that
    some parameters make so long."""
    values = scop.context.params()
    for statement in scop.statements:
        if isl.involved_parameters(statement.domain) and not statement.domain.is_empty():
            for dim, one in _ranges(statement, None).items():
                whole = whole_of(statement.domain, dim)
                if whole is not None and isl.involved_parameters(whole.last.sub(whole.first)):
                    enough = _worth(one, whole)
                    values = values if enough.is_empty() else values.intersect(enough)
    return values


def _ranges(statement: Statement, values: isl.Set | None) -> dict[int, Range]:
    """The loops in which what a statement touches changes at the ends. `values`: { [parameters] } for all of which they
    are worth to be cut; None: they are for some."""
    if not isinstance(statement.body, Assignment):
        return {}
    domain = statement.domain
    # Where parameters say how long loops are, conditions around a whole statement are left to `borders`.
    box = None if isl.involved_parameters(domain) else box_of(domain)
    changing = [] if box is None else [(box.points(domain), [domain])]
    for access in statement.accesses:
        where = access.relation.domain()
        changing.append((domain, [where]))
        changing += [(where, [piece.most for piece in pieces]) for pieces in subscripts_in_pieces(statement, access)]
    target = statement.target.relation
    order = sorted(range(statement.depth), key=lambda dim: not _moves(target, dim))
    found: dict[int, Range] = {}
    for around, parts in changing:
        if len(parts) == 1 and parts[0].is_equal(around):
            continue
        for dim in order:
            ranges = [one for part in parts if (one := _inside(around, part, dim, values)) is not None]
            if ranges:
                best = min(ranges, key=lambda one: one[0])[1]
                found[dim] = found.get(dim, best).common(best)
                break
    wholes = {dim: whole for dim in found if (whole := whole_of(domain, dim)) is not None}
    return {dim: found[dim] for dim, whole in sorted(wholes.items()) if _is_worth(_worth(found[dim], whole), values)}


def _moves(relation: isl.Map, dim: int) -> bool:
    """Whether a loop changes the element."""
    others = [i for i in range(isl.domain_arity(relation)) if i != dim]
    return not isl.domain_onto(relation, others).is_single_valued()


def _inside(around: isl.Set, part: isl.Set, dim: int, values: isl.Set | None) -> tuple[int, Range] | None:
    """The values of a loop for which all instances are in the part, behind how many they are not; None where these are
    none, or too many are cut off for it to be the ends of the loop."""
    whole = whole_of(around, dim)
    value = isl.project_onto(around, [dim]).reset_tuple_id()
    ends = edges(value, isl.project_onto(around.subtract(part), [dim]).reset_tuple_id())
    if whole is None or ends is None:
        return None
    found, *_ = whole.cut(ends[:1], ends[1:])
    return (sum(ends), found) if _is_worth(_worth(found, whole), values) else None


def _worth(one: Range, whole: Range) -> isl.Set:
    """{ [parameters] } for which a loop is cut so: nearly all of it stays."""
    nothing = isl.PwAff.from_aff(isl.constant(isl.unnamed_space(0), 0))
    below, above = one.first.sub(whole.first).max(nothing), whole.last.sub(one.last).max(nothing)
    cut, kept = below.add(above), one.common(whole).extent
    most = nothing.add_constant_val(isl.value(_MOST_EDGE))
    few = below.max(above).le_set(most).intersect(cut.gt_set(nothing))
    return few.intersect(cut.scale_val(isl.value(_SHARE)).le_set(kept)).params()


def _is_worth(enough: isl.Set, values: isl.Set | None) -> bool:
    """Whether a loop is cut for all values of the parameters; None: for some."""
    return not enough.is_empty() if values is None else values.is_subset(enough)


def _has_kernel(scop: Scop, statement: Statement, cuts: _Cuts) -> bool:
    """Whether what stays together of a statement is a contraction that a microkernel is made for."""
    domain = statement.domain
    for dim, one in cuts.items():
        domain = one.of(domain, dim)
    return kernel_contraction(scop, plain_part(statement, domain)) is not None


def _groups(scop: Scop, wanted: Mapping[str, _Cuts]) -> list[dict[str, _Cuts]]:
    """How statements are cut so that those in one loop are cut in the same places, a group for each outermost loop."""
    loops: dict[_Loop, Range] = {}
    for statement in scop.statements:
        for dim, one in wanted.get(statement.name, {}).items():
            loop = statement.position[: dim + 1]
            loops[loop] = loops.get(loop, one).common(one)
    values = scop.context.params()
    for loop, one in list(loops.items()):
        inside = inside_of(scop, loop)
        ends = [end for s in inside if (end := whole_of(s.domain, len(loop) - 1)) is not None]
        enough = _worth(one, reduce(Range.around, ends))
        if not values.is_subset(enough) or not all(isinstance(s.body, Assignment) for s in inside):
            del loops[loop]
    groups: dict[_Loop, dict[str, _Cuts]] = {}
    for statement in scop.statements:
        around = [statement.position[: dim + 1] for dim in range(statement.depth)]
        cuts = {dim: loops[loop] for dim, loop in enumerate(around) if loop in loops}
        if cuts:
            groups.setdefault(around[min(cuts)], {})[statement.name] = cuts
    return list(groups.values())


def _in_time(scop: Scop, group: Mapping[str, _Cuts]) -> bool:
    """Whether a loop outside of a group carries dependences. All its pieces have to be scheduled together there, and
    schedulers take many times as long for twice the statements."""
    outermost = _depths(group)[0]
    return any(
        d.depth is not None and d.depth < outermost and {d.source, d.target} & set(group)
        for d in dependences(scop, reads=False)
    )


def _rows(scop: Scop, group: Mapping[str, _Cuts]) -> Mapping[str, _Cuts]:
    """A group that is cut in its innermost loop from element to element alone; empty where that is not cut."""
    targets = [(s, a.relation) for s in scop.statements if s.name in group for a in s.accesses if a.write]
    row = max((dim for s, target in targets for dim in range(s.depth) if _moves(target, dim)), default=-1)
    return {name: {row: cuts[row]} for name, cuts in group.items() if row in cuts}


def _cut(scop: Scop, group: Mapping[str, _Cuts], level: int) -> Step | None:
    """The statements of a group cut in the iterations where every subscript is one affine function, those before and
    those behind, all pieces one after the other in the loop at `level`: from there inward each has loops of its own.
    -1: in the innermost one, each of whose iterations runs one of them. None where the program would have too many
    statements.

    before:    for i: v[i] = u[i] + u[(i + 1) % n]
    after:     for i < n - 1: v[i] = u[i] + u[i + 1];  for i = n - 1: v[i] = u[i] + u[0]
    """
    depths = _depths(group)
    pieces = {name: _pieces(scop.statement(name), cuts, depths, level) for name, cuts in group.items()}
    step = cut(scop, pieces, WHERE, room=2 * len(depths) + 1)
    return step if len(step.after.statements) <= _MOST_STATEMENTS else None


def _pieces(statement: Statement, cuts: _Cuts, depths: Sequence[int], level: int) -> list[Piece]:
    """The pieces of a statement in textual order: what is cut off an outer loop is around what is cut off inner ones,
    and the same number is the same piece of the loops for every statement."""
    rest, found = statement.domain, list[tuple[int, isl.Set]]()
    for place, depth in enumerate(depths):
        if depth in cuts:
            one, numbers = cuts[depth], [place, 2 * len(depths) - place]
            at = isl.PwAff.from_aff(isl.coordinate(rest, depth))
            below, above = at.lt_set(isl.lifted(one.first, rest)), at.gt_set(isl.lifted(one.last, rest))
            if statement.iterators[depth] in statement.descending:
                numbers.reverse()
            found += zip(numbers, (rest.intersect(end).coalesce() for end in (below, above)), strict=True)
            rest = one.of(rest, depth)
    found.append((len(depths), rest))
    return [Piece(f"p{which}", part, {level: which}) for which, part in sorted(found, key=lambda one: one[0])]
