"""A scop with its nests fused as far as it goes, without a search: what `polydl fuse` writes, and a candidate of
`optimize`. Statements get iterators, domains and positions of other loops.

Two ways. Loop fusion: two nests that run over the same outer loops become one, their inner loops side by side. Into a
reduction: an element-wise nest runs inside the last (first) iteration of one that is not inside a microkernel; its
domain is that iteration, and code generation splits the index set there. Both are checked against the dependences of
the scop they start from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby, permutations, product

from polydl.base.records import dataclass
from polydl.dependences.analysis import Dependence, dependences
from polydl.dependences.directions import nest_legality
from polydl.dependences.legality import Violation, violation
from polydl.dependences.nests import Nest, counted, nests
from polydl.dependences.scalars import private_storage
from polydl.equations.step import itself
from polydl.model import isl
from polydl.model.isl import quota
from polydl.model.scop import Assignment, MicrokernelCall, Scop, Statement
from polydl.model.time import map_from_affs, original_schedule, shared_depth, time_affs
from polydl.rewrite.contract import contracted
from polydl.rewrite.cut import in_order
from polydl.rewrite.moved import Moved, moved
from polydl.schedule.fusion_conditions import Condition, Decision, Failure, Group, beside
from polydl.schedule.fusion_groups import plan
from polydl.target.isa import kernel_contraction


@dataclass(frozen=True, slots=True)
class LoopFusion:
    """Two nests that became one."""

    first: str
    second: str
    loops: tuple[str, ...]
    """The common ones."""
    lines: tuple[int, int]

    def __str__(self) -> str:
        return (
            f"fused: {self.second} (line {self.lines[1]}) with {self.first} (line {self.lines[0]}) "
            f"in the loops {', '.join(self.loops)}"
        )


@dataclass(frozen=True, slots=True)
class FusedScop:
    """A scop after all fusion that is legal and useful."""

    scop: Scop
    changed: bool
    """Whether anything was fused."""
    merges: tuple[LoopFusion, ...]
    decisions: tuple[Decision, ...]
    """Algorithm 3's, of every pair that was looked at."""
    contracted: tuple[str, ...]
    """Arrays whose storage is gone."""

    @property
    def together(self) -> tuple[tuple[str, str], ...]:
        """First and last statement of each fused nest, which loop distribution must not take apart again."""
        return tuple((names[0], names[-1]) for names in _bodies(self.scop) if len(names) > 1)

    def lines(self) -> list[str]:
        """What was decided, for people."""
        texts = [*map(str, self.decisions), *map(str, self.merges)]
        return [*texts, *(f"contracted: {name} needs no storage any more" for name in self.contracted)]


def fuse(scop: Scop, *, contractions: bool = True) -> FusedScop:
    """Fuse by algorithm 3 into heavy nests, then neighbouring nests loop by loop.

    Without `contractions` these stay as they are, with what could move into them: a microkernel takes it.
    Raises QuotaExceeded.
    """
    found = dependences(scop, reads=False)
    parts = nests(scop, found)
    chosen = plan(parts)
    state = _distributed(scop, parts)
    kept = {s.name for part in parts if _is_for_a_microkernel(scop, part) for s in part.statements}
    changed = False
    decisions = list(chosen.decisions)
    for group in chosen.groups:
        if not contractions and group.heavy.contraction is not None:
            kept |= {f.nest.name for f in group.members}
            continue
        result = _sunk(state, group, found)
        if isinstance(result, Violation):
            decisions = _broken(decisions, group.heavy.name, result)
            continue
        state, changed = result, True
        kept |= {s.name for s in group.heavy.statements}
    state, merges = _merge_all(state, kept, found)
    made, gone = contracted(state.scop)
    return FusedScop(made, changed or bool(merges), tuple(merges), tuple(decisions), gone)


def _bodies(scop: Scop) -> list[list[str]]:
    """The statements of each of the outermost loops."""
    return [[s.name for s in own] for _, own in groupby(scop.statements, key=lambda s: s.position[0])]


def _is_for_a_microkernel(scop: Scop, part: Nest) -> bool:
    return any(isinstance(s.body, MicrokernelCall) or kernel_contraction(scop, s) is not None for s in part.statements)


def _broken(decisions: Sequence[Decision], heavy: str, why: Violation) -> list[Decision]:
    failure = Failure(Condition.BETWEEN, str(why))
    return [replace(d, failure=failure) if d.heavy == heavy and d.failure is None else d for d in decisions]


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


def _distributed(scop: Scop, parts: Sequence[Nest]) -> Rewritten:
    """The scop with every nest in loops of its own, in the order of `parts`."""
    own = [replace(s, position=(number, *s.position[1:])) for number, part in enumerate(parts) for s in part.statements]
    return Rewritten(replace(scop, statements=tuple(own)), {s.name: itself(s) for s in own})


def _sunk(state: Rewritten, group: Group, found: Sequence[Dependence]) -> Rewritten | Violation:
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


def _merge_all(state: Rewritten, kept: set[str], found: Sequence[Dependence]) -> tuple[Rewritten, list[LoopFusion]]:
    """Neighbours fused from the first on, each into what was fused before it; those of `kept` stay alone."""
    merges: list[LoopFusion] = []
    current: list[str] = []
    for names in _bodies(state.scop):
        alone = not kept.isdisjoint(names)
        result = None if alone or not current else _merged(state, current, names, found)
        if result is None:
            current = [] if alone else names
            continue
        depth, state = result
        first, second = state.scop.statement(current[0]), state.scop.statement(names[0])
        lines = (first.span.line, second.span.line)
        merges.append(LoopFusion(first.name, second.name, first.iterators[:depth], lines))
        current = [*current, *names]
    return state, merges


def _merged(
    state: Rewritten, first: Sequence[str], second: Sequence[str], found: Sequence[Dependence]
) -> tuple[int, Rewritten] | None:
    """Two neighbouring nests (statement names) as one, with as many common loops as can be, how many these are, and
    loops that are parallel in both still are; None where no way keeps each dependence in order, or they touch nothing
    in common. The loops in the order in which they stand are tried first, then, for a perfect second nest, others."""
    one, two = ([state.scop.statement(n) for n in names] for names in (first, second))
    common = _arrays(one) & _arrays(two)
    if not any(state.scop.arrays[name].extents for name in common) or common & private_storage(state.scop).keys():
        return None
    if not all(isinstance(s.body, Assignment) for s in (*one, *two)):
        return None
    needed = min(_parallel(state.scop, first), _parallel(state.scop, second))
    # Loops that run in opposite directions: turned round where that is legal, else as they run.
    turns = (True, False) if any(s.descending for s in (*one, *two)) else (False,)
    for depth in range(min(shared_depth(one), shared_depth(two)), 0, -1):
        perfect = all(s.depth == depth for s in two)
        orders = permutations(range(depth)) if perfect else [tuple(range(depth))]
        for order, turned in product(orders, turns):
            with quota("the fusion of two nests"):
                changed = _in_loops_of(one, two, order, turned=turned)
                if not changed or not _same_iterations(one, [m.statement for m in changed.values()], depth):
                    continue
                result = state.after(changed)
                if result.broken(found) is None and _parallel(result.scop, first) >= min(needed, depth):
                    return depth, result
    return None


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


def _parallel(scop: Scop, names: Sequence[str]) -> int:
    """Outermost loops of a nest that run in parallel, one after the other from the outside."""
    position = scop.statement(names[0]).position[0]
    found = dependences(scop, reads=False, among={s.name for s in scop.statements if s.position[0] == position})
    nest = next(n for n in nests(scop, found, contractions=False) if names[0] in {s.name for s in n.statements})
    parallel = nest_legality(nest, found).parallel_loops(nest)
    return next((d for d, i in enumerate(nest.loops) if i not in parallel), len(nest.loops))
