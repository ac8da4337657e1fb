"""A scop with nests fused, as a scop: statements get iterators, domains and positions of other loops.

Two ways. `merged`: two nests that run over the same outer loops become one (loop fusion), their inner loops side by
side. `sunk`: an element-wise nest runs inside the last (first) iteration of a reduction that is not inside a
microkernel; its domain is that iteration, and code generation splits the index set there. Both are checked against the
dependences of the scop they start from.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from polydl.dependences.analysis import Dependence
from polydl.dependences.legality import Violation, violation
from polydl.dependences.nests import Count1D, Nest, counted
from polydl.dependences.scalars import private_storage
from polydl.model import isl
from polydl.model.expr import Expr, on_affine_values
from polydl.model.isl import quota
from polydl.model.scop import Assignment, BlackBox, Scop, Statement
from polydl.model.time import common_depth, map_from_affs, original_affs
from polydl.rewrite.conditions import Fused, Group


@dataclass(frozen=True, slots=True)
class Moved:
    """A statement in other loops."""

    statement: Statement
    """As it is now."""
    place: isl.Map
    """{ S[i…] -> S[h…] } from an instance as it was to the same instance as it is now; one to one."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A scop whose statement instances were moved to other loops, with where each of them went."""

    scop: Scop
    places: Mapping[str, isl.Map]
    """Per statement { S[i…] -> S[h…] }: from the scop that the dependences are of."""

    def times(self) -> dict[str, isl.Map]:
        """Per statement, when the instances of the first scop run now."""
        depth = max(s.depth for s in self.scop.statements)
        return {
            s.name: self.places[s.name].apply_range(map_from_affs(s.domain, original_affs(s, depth)))
            for s in self.scop.statements
        }


def distributed(scop: Scop, parts: Sequence[Nest]) -> Rewritten:
    """The scop with every nest in loops of its own, in the order of `parts`."""
    statements = [
        replace(s, position=(number, *s.position[1:])) for number, part in enumerate(parts) for s in part.statements
    ]
    places = {s.name: isl.Map.identity(s.domain.get_space().map_from_set()) for s in statements}
    places = {s.name: places[s.name].intersect_domain(s.domain) for s in statements}
    return Rewritten(replace(scop, statements=tuple(statements)), places)


def moved(
    statement: Statement,
    place: isl.Map,
    iterators: tuple[str, ...],
    position: tuple[int, ...],
    descending: frozenset[str],
) -> Moved:
    """A statement in the loops `iterators`; `place` says where each of its instances goes."""
    place = isl.range_named(place, statement.name, iterators).coalesce()
    back = place.reverse()
    accesses = tuple(replace(a, relation=back.apply_range(a.relation).coalesce()) for a in statement.accesses)
    at, body = back.as_pw_multi_aff(), statement.body
    if isinstance(body, Assignment):
        body = replace(body, value=in_new_loops(body.value, at))
    elif isinstance(body, BlackBox):
        known = ((text, None if one is None else one.pullback_pw_multi_aff(at)) for text, one in body.locals)
        entries = body.entries and replace(body.entries, row=body.entries.row.pullback_pw_multi_aff(at))
        body = replace(body, locals=tuple(known), entries=entries)
    now = replace(
        statement,
        iterators=iterators,
        domain=place.range().coalesce(),
        position=position,
        descending=descending,
        accesses=accesses,
        body=body,
    )
    return Moved(now, place)


def in_new_loops(value: Expr, back: isl.PwMultiAff) -> Expr:
    """An expression of a statement whose iterations `back` leads to, of those that it starts from."""
    return on_affine_values(value, lambda one: one.pullback_pw_multi_aff(back).coalesce())


def _replaced(state: Rewritten, changed: Mapping[str, Moved], order: Sequence[str]) -> Rewritten:
    """The state with some statements moved, in a new textual order."""
    now = {s.name: s for s in state.scop.statements} | {n: m.statement for n, m in changed.items()}
    places = dict(state.places)
    for name, one in changed.items():
        places[name] = places[name].apply_range(one.place)
    return Rewritten(replace(state.scop, statements=tuple(now[n] for n in order)), places)


def sunk(state: Rewritten, group: Group, found: Sequence[Dependence]) -> Rewritten | Violation:
    """The element-wise nests of a group inside the loops of its heavy nest, which stands alone in its loops.

    Each instance runs right after the last (before the first) of the heavy ones on its element.
    """
    with quota(f"fusion into {group.heavy.name}"):
        heavy = state.scop.statement(group.heavy.statements[0].name)
        writes = heavy.target.relation.intersect_domain(heavy.domain)
        order = map_from_affs(heavy.domain, original_affs(heavy, heavy.depth))
        last, names = heavy.position[-1], [s.name for s in state.scop.statements]
        changed: dict[str, Moved] = {}
        members = [*((-n - 1, f) for n, f in enumerate(reversed(group.before))), *enumerate(group.after, 1)]
        for k, fused in members:
            place = _extreme(fused, writes, order, first=k < 0)
            position = (*heavy.position[:-1], last + k)
            statement = state.scop.statement(fused.statement.name)
            changed[statement.name] = moved(statement, place, heavy.iterators, position, heavy.descending)
            names.remove(statement.name)
        at = names.index(heavy.name)
        before = [f.statement.name for f in group.before]
        after = [f.statement.name for f in group.after]
        rewritten = _replaced(state, changed, [*names[:at], *before, heavy.name, *after, *names[at + 1 :]])
        return violation(found, rewritten.times(), reassociate=False) or rewritten


def _extreme(fused: Fused, writes: isl.Map, order: isl.Map, *, first: bool) -> isl.Map:
    """{ S[i…] -> S[h…] } the first or last heavy instance on the element of each instance."""
    times = fused.element.reverse().apply_range(writes.reverse()).apply_range(order)
    extreme = times.lexmin() if first else times.lexmax()
    return isl.range_named(extreme.apply_range(order.reverse()), fused.statement.name)


def merged(
    state: Rewritten, first: Sequence[str], second: Sequence[str], found: Sequence[Dependence]
) -> Iterator[tuple[int, Rewritten]]:
    """Two neighbouring nests (statement names) as one, with as many common loops as can be: deepest first.

    Yields (common loops, result) for every way that keeps each dependence in order: the loops in the order in which
    they stand first, then, for a perfect second nest, in other orders.
    """
    one, two = ([state.scop.statement(n) for n in names] for names in (first, second))
    private = private_storage(state.scop)
    if _arrays(one) & _arrays(two) & private.keys() or not all(isinstance(s.body, Assignment) for s in (*one, *two)):
        return
    outer, inner = _shared(one), _shared(two)
    for depth in range(min(outer, inner), 0, -1):
        perfect = all(s.depth == depth for s in two)
        orders = itertools.permutations(range(depth)) if perfect else [tuple(range(depth))]
        # Loops that run in opposite directions: turned round where that is legal, else as they run.
        opposite = any(s.descending for s in (*one, *two))
        for order, turned in itertools.product(orders, (True, False) if opposite else (False,)):
            with quota("the fusion of two nests"):
                result = _merged(state, one, two, depth, order, turned=turned)
                if result is not None and violation(found, result.times(), reassociate=False) is None:
                    yield depth, result


def _arrays(statements: Sequence[Statement]) -> set[str]:
    return {a.array for s in statements for a in s.accesses}


def _shared(statements: Sequence[Statement]) -> int:
    first = statements[0]
    return min((common_depth(first, s) for s in statements[1:]), default=first.depth)


def _merged(
    state: Rewritten,
    one: Sequence[Statement],
    two: Sequence[Statement],
    depth: int,
    order: tuple[int, ...],
    *,
    turned: bool,
) -> Rewritten | None:
    """The second nest in the first's outer loops, its loop order[d] running as loop d; None when they differ.

    turned=True: a loop that runs against the first nest's is turned round.
    """
    base = one[0]
    counts = [counted(one, base.iterators[d]) for d in range(depth)]
    theirs = [counted(two, two[0].iterators[d]) for d in order]
    if any(
        (a.extent is None) != (b.extent is None) or a.extent != b.extent for a, b in zip(counts, theirs, strict=True)
    ):
        return None
    offset = max(s.position[depth] for s in one) + 1
    changed: dict[str, Moved] = {}
    for s in two:
        own = [name for d, name in enumerate(s.iterators) if d not in order]
        names = [*base.iterators[:depth]]
        for name in own:
            while name in names:
                name += "_"
            names.append(name)
        affs = []
        for d in range(depth):
            mine = isl.coordinate(s.domain, order[d])
            backwards = s.iterators[order[d]] in s.descending
            against = turned and backwards != (base.iterators[d] in base.descending)
            value = _value(mine, theirs[d], backwards, counts[d], base.iterators[d] in base.descending, against)
            affs.append(value)
        rest = [d for d in range(s.depth) if d not in order]
        affs += [isl.coordinate(s.domain, d) for d in rest]
        place = map_from_affs(s.domain, affs)
        position = (*base.position[:depth], offset + s.position[depth], *s.position[depth + 1 :])
        down = {n for n in base.iterators[:depth] if n in base.descending}
        down |= {names[depth + k] for k, d in enumerate(rest) if s.iterators[d] in s.descending}
        changed[s.name] = moved(s, place, tuple(names), position, frozenset(down))
    if not _same_iterations(one, [m.statement for m in changed.values()], depth):
        return None
    names_now = [s.name for s in state.scop.statements]
    return _replaced(state, changed, names_now)


def _value(mine: isl.Aff, count: Count1D, down: bool, target: Count1D, target_down: bool, turned: bool) -> isl.Aff:
    """The value of the other nest's loop variable in the same iteration, counted from 0; from the end if `turned`."""
    y = (mine.neg() if down else mine).add_constant_val(isl.value(-count.first))
    if count.stride > 1:
        y = isl.floor_div(y, count.stride)
    if turned:
        y = y.neg().add_constant_val(isl.value((count.extent or 1) - 1))
    value = y.scale_val(isl.value(target.stride)).add_constant_val(isl.value(target.first))
    return value.neg() if target_down else value


def _same_iterations(one: Sequence[Statement], two: Sequence[Statement], depth: int) -> bool:
    """Whether both run over the same values of the common loops."""

    def outer(statements: Sequence[Statement]) -> isl.Set:
        result = isl.united(isl.project_onto(s.domain, range(depth)).reset_tuple_id() for s in statements)
        assert result is not None
        return result

    return bool(outer(one).is_equal(outer(two)))
