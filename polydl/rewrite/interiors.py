"""Loops cut where what their statements touch stops being one affine function, so that nothing is decided inside.

    for i: for k: s += u[min(max(i + k, 0), n - 1)];   clamped; or reflected (i < 0 ? -i : i), wrapped ((i + 1) % n)

In the interior the subscript is i + k: plain C, vectors, microkernels. What is left is a few iterations at either end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import product

from polydl.dependences.analysis import dependences
from polydl.equations.decided import taken
from polydl.equations.step import Rule, Step, applied
from polydl.equations.substitution import Rebuilt
from polydl.model import isl
from polydl.model.counting import count
from polydl.model.expr import Conditional, Expr, on_operands
from polydl.model.isl import quota
from polydl.model.scop import Access, Assignment, Scop, Statement
from polydl.model.strides import affine_rows
from polydl.model.time import inside_of
from polydl.rewrite.cut import Piece, cut, in_order, part_of
from polydl.rewrite.ranges import Range, edges, whole_of
from polydl.rewrite.scratch_array import box_of
from polydl.rewrite.storage import lives_apart
from polydl.target.isa import kernel_contraction

_MOST_EDGE = 8
"""Iterations that are cut off at either end of a loop, at most."""
_SHARE = 8
"""What is cut off a loop is at most this part of what stays, and a statement that is cut at least this part of all
instances: less is not worth a nest of its own, and so no piece is cut again."""
_MOST_STATEMENTS = 40
"""Of a program whose loops are cut: there is a nest for each piece."""
_MOST_WRAPS = 3
"""Values of a division in a subscript up to which these are pieces of a function, and no pattern."""

WHERE = "where its subscripts change"
_Loop = tuple[int, ...]
"""The positions that the statements inside a loop have in common."""


@dataclass(frozen=True, slots=True)
class Apart(Rule):
    """Pieces of a loop that stand in the same outer loops get outer loops of their own.

    before:    for i: { for j = 0: S;  for 0 < j: T }
    after:     for i: for j = 0: S;   for i: for 0 < j: T
    requires:  no dependence runs from a later iteration's first piece to an earlier one's second
    """

    statements: tuple[str, ...]
    """Those that have other loops, in textual order."""

    def __str__(self) -> str:
        return f"{', '.join(self.statements)} stand in loops of their own"


def interiors(scop: Scop) -> Iterator[Step]:
    """Cut the loops in which subscripts are clamped, reflected or wrapped round at the ends (`Cut`), and take
    the pieces apart as far as dependences allow (`Lives`, `Apart`). Raises QuotaExceeded."""
    with quota(f"the subscripts of {scop.function}"):
        wanted = _wanted(scop)
        alone = [name for name in wanted if _has_kernel(scop, scop.statement(name), wanted[name])]
        groups = _groups(scop, {name: cut for name, cut in wanted.items() if name not in alone})
    for name in alone:
        step = _cut(scop, {name: wanted[name]}, alone=True)
        if step is not None:
            yield step
            scop = step.after
    for found in groups:
        group = _rows(scop, found) if _in_time(scop, found) else found
        steps = _steps(scop, group) or _steps(scop, _rows(scop, group))
        yield from steps
        scop = applied(scop, steps)


def _steps(scop: Scop, group: Mapping[str, _Cuts]) -> list[Step]:
    """A group cut, and its pieces taken apart; none where the pieces of several loops have to stay together."""
    cut = _cut(scop, group, alone=False) if group else None
    if cut is None:
        return []
    own = {s.name for s in cut.after.statements} - {s.name for s in scop.statements}
    steps = [cut, *lives_apart(cut.after)]
    apart = _apart(applied(scop, steps), own, _depths(group))
    return [*steps, apart] if apart is not None else steps if len(_depths(group)) == 1 else []


_Cuts = Mapping[int, Range]
"""Per depth of a loop around a statement, what of the loop stays together."""


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
        changing += [(where, [piece.most for piece in pieces]) for pieces in _functions(statement, access)]
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


@dataclass(frozen=True, slots=True)
class _Piece:
    """One of the affine expressions that a function is."""

    expression: isl.Aff
    there: isl.Set
    """Instances for which the function is this expression; the pieces of a function have none in common."""
    most: isl.Set
    """All instances for which it is, those of other pieces included where both have the same value."""


def _functions(statement: Statement, access: Access) -> list[list[_Piece]]:
    """The subscripts of an access in pieces; none where each of them is one affine expression."""
    relation = access.relation
    simple = relation.n_basic_map() == 1 and affine_rows(statement, access) is not None
    if simple or relation.is_empty() or not relation.is_single_valued():
        return []
    return [_expressions(one, relation.domain()) for one in isl.components(relation.as_pw_multi_aff())]


def _expressions(function: isl.PwAff, where: isl.Set) -> list[_Piece]:
    """The affine expressions that a function is; none where it is a pattern, such as i % 4."""
    found: list[_Piece] = []
    for domain, expression in isl.pieces(function.intersect_domain(where)):
        parts = [domain]
        for division in isl.divisors(expression):
            floor = isl.PwAff.from_aff(division).floor()
            values = floor.intersect_domain(domain)
            ends = values.min_val(), values.max_val()
            if not all(end.is_int() for end in ends) or isl.to_int(ends[1]) - isl.to_int(ends[0]) >= _MOST_WRAPS:
                return []
            low, high = map(isl.to_int, ends)
            wraps = [floor.add_constant_val(isl.value(-wrap)).zero_set() for wrap in range(low, high + 1)]
            parts = [some for part in parts for wrap in wraps if not (some := part.intersect(wrap)).is_empty()]
        for part in parts:
            same = next((place for place, known in enumerate(found) if part.is_subset(known.most)), None)
            if same is not None:
                found[same] = replace(found[same], there=found[same].there.union(part).coalesce())
                continue
            # A division that has one value in the part is none: the hull of the graph is one expression.
            graph = isl.Map.from_basic_map(isl.Map.from_pw_aff(function).intersect_domain(part).affine_hull())
            if not graph.is_single_valued():
                return []
            ((_, expressed),) = isl.pieces(isl.components(graph.as_pw_multi_aff())[0])
            most = where.intersect(function.sub(isl.PwAff.from_aff(expressed)).zero_set())
            found.append(_Piece(expressed, part, most.coalesce()))
    return found


def _inside(around: isl.Set, part: isl.Set, dim: int, values: isl.Set | None) -> tuple[int, Range] | None:
    """The values of a loop for which all instances are in the part, behind how many they are not; None where these are
    none, or too many are cut off for it to be the ends of the loop."""
    whole = whole_of(around, dim)
    value = isl.project_onto(around, [dim]).reset_tuple_id()
    ends = edges(value, isl.project_onto(around.subtract(part), [dim]).reset_tuple_id())
    if whole is None or ends is None:
        return None
    first = whole.first.add_constant_val(isl.value(ends[0]))
    found = Range(first, whole.last.add_constant_val(isl.value(-ends[1])))
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
    part = _straight(statement, part_of(statement, domain, statement.name, statement.position))
    return kernel_contraction(scop, part) is not None


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


def _cut(scop: Scop, group: Mapping[str, _Cuts], *, alone: bool) -> Step | None:
    """The statements of a group cut in the iterations where every subscript is one affine function, those before and
    those behind, each loop in two or three one after the other, or (`alone`) all pieces in the same loops, each of
    whose iterations runs one of them; None where the program would have too many statements.

    before:    for i: v[i] = u[i] + u[(i + 1) % n]
    after:     for i < n - 1: v[i] = u[i] + u[i + 1];  for i = n - 1: v[i] = u[i] + u[0]
    """
    depths = _depths(group)
    pieces: dict[str, list[Piece]] = {}
    for name, cuts in group.items():
        statement = scop.statement(name)
        for which, domain in sorted(_parts(statement, cuts, depths), key=lambda one: one[0]):
            thirds = dict(zip(depths, _thirds(which, len(depths)), strict=True))
            behind = {-1: which} if alone else {d: third for d, third in thirds.items() if d < statement.depth}
            pieces.setdefault(name, []).append(Piece(f"p{which}", domain, behind))
    step = cut(scop, pieces, WHERE, room=2 * len(depths) + 1)
    if len(step.after.statements) > _MOST_STATEMENTS:
        return None
    wholes = {f"{name}{piece.suffix}": scop.statement(name) for name, own in pieces.items() for piece in own}
    straight = (_straight(wholes[s.name], s) if s.name in wholes else s for s in step.after.statements)
    return replace(step, after=replace(scop, statements=tuple(straight)))


def _thirds(which: int, loops: int) -> list[int]:
    """Of a piece the part of each loop that it is of, outermost first: below (0), inside (1), above (2). The pieces are
    numbered so that those of outer loops are around those of inner ones."""
    inside = min(which, 2 * loops - which)
    return [1] * inside + ([0 if which < loops else 2] + [1] * (loops - inside - 1) if inside < loops else [])


def _parts(statement: Statement, cuts: _Cuts, depths: Sequence[int]) -> Iterator[tuple[int, isl.Set]]:
    """The pieces of a statement that are not empty, each with its number (see `_thirds`)."""
    rest = statement.domain
    for place, depth in enumerate(depths):
        if depth not in cuts:
            continue
        one, behind = cuts[depth], 2 * len(depths) - place
        at = isl.PwAff.from_aff(isl.coordinate(rest, depth))
        below = rest.intersect(at.lt_set(isl.lifted(one.first, rest))).coalesce()
        above = rest.intersect(at.gt_set(isl.lifted(one.last, rest))).coalesce()
        down = statement.iterators[depth] in statement.descending
        for which, part in ((behind if down else place, below), (place if down else behind, above)):
            if not part.is_empty():
                yield which, part
        rest = one.of(rest, depth)
    if not rest.is_empty():
        yield len(depths), rest


def _straight(statement: Statement, part: Statement) -> Statement:
    """A part of a statement with its subscripts as the expressions that they are in it, and without the conditions that
    always hold there or never."""
    accesses = tuple(map(partial(_straightened, statement, part), part.accesses, statement.accesses))
    return _unconditional(replace(part, accesses=accesses))


def _unconditional(part: Statement) -> Statement:
    """A statement without the conditions that always hold or never, and without what is read behind them alone."""
    assert isinstance(part.body, Assignment)
    value = _taken(part.body.value, part.domain)
    if value == part.body.value:
        return part
    made = Rebuilt()
    return made.statement(part, part.target, part.body.op, made.taken(value, part.accesses))


def _taken(value: Expr, there: isl.Set) -> Expr:
    """A value for these instances, with the arms of conditions that are taken in all of them for the conditions."""
    arm = taken(value, there) if isinstance(value, Conditional) else None
    if isinstance(value, Conditional) and arm is not None and value.typed[0 if arm is value.then else 1]:
        return _taken(arm, there)
    return on_operands(value, lambda one: _taken(one, there))


def _straightened(statement: Statement, part: Statement, access: Access, whole: Access) -> Access:
    functions = _functions(statement, whole)
    if not all(functions):
        return access
    space = statement.domain.get_space()
    made: isl.Map | None = None
    for choice in product(*functions):
        there = access.relation.domain().set_tuple_name(statement.name)
        for piece in choice:
            there = there.intersect(piece.there)
        if functions and not there.is_empty():
            subscripts = [isl.PwAff.from_aff(piece.expression) for piece in choice]
            names = [f"a{number}" for number in range(len(subscripts))]
            one = isl.Map.from_multi_pw_aff(isl.multi(space, access.array, names, subscripts)).intersect_domain(there)
            made = one if made is None else made.union(one)
    return access if made is None else replace(access, relation=isl.domain_named(made, part.name))


def _apart(scop: Scop, own: Collection[str], depths: Sequence[int]) -> Step | None:
    """The pieces in loops of their own, as far outside as dependences allow; None where they are as far outside as
    that already."""
    room = 2 * len(depths) + 1
    for level in range(depths[0] + (len(depths) > 1)):
        statements = []
        for statement in scop.statements:
            position = list(statement.position)
            if statement.name in own:
                thirds = [position[depth] % room for depth in depths if depth < statement.depth]
                position[level] += _number(thirds, len(depths)) - position[level] % room
            statements.append(replace(statement, position=tuple(position)))
        made = in_order(scop, statements)
        step = Step(Apart(tuple(s.name for s in made.statements if s.name in own)), scop, made)
        if step.broken() is None:
            return step
    return None


def _number(thirds: Sequence[int], loops: int) -> int:
    """The number of a piece, of which part of each loop it is (the inverse of `_thirds`)."""
    inside = next((place for place, third in enumerate(thirds) if third != 1), loops)
    return inside if inside == loops or thirds[inside] == 0 else 2 * loops - inside
