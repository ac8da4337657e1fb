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
from polydl.dependences.nests import Nest, counted
from polydl.dependences.scalars import private_storage
from polydl.equations.step import itself
from polydl.model import isl
from polydl.model.expr import Expr, on_affine_values
from polydl.model.isl import quota
from polydl.model.scop import Assignment, BlackBox, Scop, Statement
from polydl.model.time import map_from_affs, original_schedule, shared_depth, time_affs
from polydl.rewrite.conditions import Group, beside
from polydl.rewrite.cut import in_order


@dataclass(frozen=True, slots=True)
class Moved:
    """A statement in other loops."""

    statement: Statement
    """As it is now."""
    place: isl.Map
    """{ S[i…] -> S[h…] } from an instance as it was to the same instance as it is now; one to one."""


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


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A scop whose statement instances were moved to other loops, with where each of them went."""

    scop: Scop
    places: Mapping[str, isl.Map]
    """Per statement { S[i…] -> S[h…] }: from the scop that the dependences are of."""

    def broken(self, found: Sequence[Dependence]) -> Violation | None:
        """Which dependence of the first scop is not kept."""
        when = original_schedule(self.scop)
        times = {name: place.apply_range(when[name]) for name, place in self.places.items()}
        return violation(found, times, reassociate=False)

    def after(self, changed: Mapping[str, Moved]) -> Rewritten:
        """With some statements moved on."""
        statements = [changed[s.name].statement if s.name in changed else s for s in self.scop.statements]
        places = {name: self.places[name].apply_range(one.place) for name, one in changed.items()}
        return Rewritten(in_order(self.scop, statements), {**self.places, **places})


def distributed(scop: Scop, parts: Sequence[Nest]) -> Rewritten:
    """The scop with every nest in loops of its own, in the order of `parts`."""
    own = [replace(s, position=(number, *s.position[1:])) for number, part in enumerate(parts) for s in part.statements]
    return Rewritten(replace(scop, statements=tuple(own)), {s.name: itself(s) for s in own})


def sunk(state: Rewritten, group: Group, found: Sequence[Dependence]) -> Rewritten | Violation:
    """The element-wise nests of a group inside the loops of its heavy nest, which stands alone in its loops.

    Each instance runs right after the last (before the first) of the heavy ones on its element.
    """
    with quota(f"fusion into {group.heavy.name}"):
        heavy = state.scop.statement(group.heavy.name)
        writes = heavy.target.relation.intersect_domain(heavy.domain)
        order = map_from_affs(heavy.domain, time_affs(heavy))
        before, after = ([(f.statement, f.element.reverse()) for f in side] for side in (group.before, group.after))
        changed: dict[str, Moved] = {}
        for one, number, when in beside(before, after, writes.reverse().apply_range(order)):
            position = (*heavy.position[:-1], heavy.position[-1] + number)
            place = when.apply_range(order.reverse())
            changed[one.name] = moved(
                state.scop.statement(one.name), place, heavy.iterators, position, heavy.descending
            )
        result = state.after(changed)
        return result.broken(found) or result


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
    for depth in range(min(shared_depth(one), shared_depth(two)), 0, -1):
        perfect = all(s.depth == depth for s in two)
        orders = itertools.permutations(range(depth)) if perfect else [tuple(range(depth))]
        # Loops that run in opposite directions: turned round where that is legal, else as they run.
        opposite = any(s.descending for s in (*one, *two))
        for order, turned in itertools.product(orders, (True, False) if opposite else (False,)):
            with quota("the fusion of two nests"):
                changed = _in_loops_of(one, two, order, turned=turned)
                if not changed or not _same_iterations(one, [m.statement for m in changed.values()], depth):
                    continue
                result = state.after(changed)
                if result.broken(found) is None:
                    yield depth, result


def _arrays(statements: Sequence[Statement]) -> set[str]:
    return {a.array for s in statements for a in s.accesses}


def _in_loops_of(
    one: Sequence[Statement], two: Sequence[Statement], order: tuple[int, ...], *, turned: bool
) -> dict[str, Moved]:
    """The statements of the second nest in the first's outer loops, behind what stands there, their loop order[d]
    running as loop d; none where the two count differently.

    turned=True: a loop that runs against the first nest's is turned round.
    """
    base, depth = one[0], len(order)
    outer = base.iterators[:depth]
    counts = [counted(one, name) for name in outer]
    theirs = [counted(two, two[0].iterators[d]) for d in order]
    if [count.extent for count in counts] != [count.extent for count in theirs]:
        return {}
    offset = max(s.position[depth] for s in one) + 1
    changed: dict[str, Moved] = {}
    for s in two:
        rest = [d for d in range(s.depth) if d not in order]
        names = list(outer)
        for d in rest:
            name = s.iterators[d]
            while name in names:
                name += "_"
            names.append(name)
        times, affs = time_affs(s), list[isl.Aff]()
        for d, name, count, own in zip(order, outer, counts, theirs, strict=True):
            y = own.counted(times[d])
            if turned and (s.iterators[d] in s.descending) != (name in base.descending):
                y = y.neg().add_constant_val(isl.value((own.extent or 1) - 1))
            time = y.scale_val(isl.value(count.stride)).add_constant_val(isl.value(count.first))
            affs.append(time.neg() if name in base.descending else time)
        place = map_from_affs(s.domain, [*affs, *(isl.coordinate(s.domain, d) for d in rest)])
        position = (*base.position[:depth], offset + s.position[depth], *s.position[depth + 1 :])
        down = {name for name in outer if name in base.descending}
        down |= {name for name, d in zip(names[depth:], rest, strict=True) if s.iterators[d] in s.descending}
        changed[s.name] = moved(s, place, tuple(names), position, frozenset(down))
    return changed


def _same_iterations(one: Sequence[Statement], two: Sequence[Statement], depth: int) -> bool:
    """Whether both run over the same values of the common loops."""

    def outer(statements: Sequence[Statement]) -> isl.Set:
        result = isl.united(isl.project_onto(s.domain, range(depth)).reset_tuple_id() for s in statements)
        assert result is not None
        return result

    return bool(outer(one).is_equal(outer(two)))
