"""Variants with fused nests, beside those of the search: into microkernels, into one another, in vectors."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain, islice

from polydl.base.effort import Effort
from polydl.base.errors import IllegalVariant
from polydl.dependences.nests import Nest
from polydl.lower.nest_plan import obstacle
from polydl.model import isl
from polydl.model.accumulation import accumulates
from polydl.model.combiners import adds
from polydl.model.scop import Assignment, Scop, Statement
from polydl.model.time import common_depth
from polydl.rank.estimate import Estimate
from polydl.rank.estimator import Estimator
from polydl.schedule.fused_scop import FusedScop
from polydl.schedule.fusion_conditions import Group
from polydl.schedule.fusion_groups import groups_of, plan, runs
from polydl.schedule.ordered import Ordered, ordered
from polydl.schedule.program_tree import program_tree, starting_from_zero
from polydl.schedule.recipe import NestRecipe, Recipe
from polydl.schedule.transforms import Fuse, Parallelize, Permute, Tile, Vectorize
from polydl.schedule.transforms.start_from_zero import zeroes_all
from polydl.search.choose_jam import best_jam
from polydl.search.dot_rows import in_dot_rows
from polydl.search.variant import Variant
from polydl.target import Machine
from polydl.target.instructions import arithmetic

SCHEDULES = 6
"""Variants with regions that have schedules of their own, beside those."""
PROMISE = 0.98
"""Part of the time to which rows in regions must bring a program, or they are not tried: what is not better takes turns
from others among the few that are timed."""
CORE_PROMISE = 0.8
"""Part to which rows in regions may bring the seconds of a program's instructions alone, instead: an estimate hides
those behind the time of memory, which may be shorter in truth."""
MOST = 8
"""Variants with something fused that are kept, and half as many with regions: the others of the search have room beside
them among the few that are timed."""

_Jams = dict[object, tuple[Ordered, tuple[int, ...]]]
"""By a part's key the part, and how many iterations of the loops around its rows it had better take together."""


def fused_variants(
    ranked: Sequence[Variant], made: FusedScop, estimator: Estimator, effort: Effort
) -> tuple[tuple[Variant, ...], tuple[str, ...]]:
    """Legal variants with something fused or in rows of vectors, made of the best ones, each with its estimate; and
    groups that could be fused but not in the microkernels of the best variants, with the reason.

    Nests that a microkernel computes take their element-wise neighbours into its epilogue. The others were fused loop
    by loop before: `ranked` are variants of the program that `made` is, and that `estimator` knows. Raises
    QuotaExceeded.
    """
    refused: dict[str, None] = {}
    jams: _Jams = {}
    dots = (variant for best in ranked[:1] for variant in in_dot_rows(best, estimator))
    bases = chain(dots, _nests_alone(ranked, estimator, effort.fused_bases))
    alone = islice(_variants(bases, made, estimator, refused, jams), effort.fused)
    found = {variant.id: variant for variant in _best(alone, MOST)}
    several = _with_schedules(ranked, estimator)
    regions = _variants(several, made, estimator, refused, jams)
    more = islice((v for v in regions if v.id not in found), effort.fused // 2)
    found |= {variant.id: variant for variant in _best(more, MOST // 2)}
    return tuple(found.values()), tuple(refused)


def _variants(
    ranked: Iterable[Variant],
    made: FusedScop,
    estimator: Estimator,
    refused: dict[str, None],
    jams: _Jams,
) -> Iterator[Variant]:
    groups = plan(estimator.nests).groups
    merges = tuple(NestRecipe(m.second, (Fuse(m.first, m.loops),)) for m in made.merges)
    tried: set[Recipe] = set()
    same: dict[object, Ordered] = {}  # parts that bases have in common are estimated once
    for base in ranked:
        scop = base.program
        near = [g for g in groups if any(_names(g) <= {s.name for _, s in run} for run in runs(base.parts))]
        fused = into_kernels(scop, [part for part in base.parts if part.loops is not None], near, refused)
        own = {nest.name: nest for nest in fused}
        joined = [own.get(part.name, part) for part in base.parts]
        gone = set(starting_from_zero(joined).values())
        for rows in _in_rows(base, joined, gone, estimator, jams):
            parts = [same.setdefault(part.key, part) for part in rows]
            if parts == list(base.parts) and not made.changed:
                continue
            recipe = Recipe((*(part.recipe for part in parts), *merges))
            if recipe in tried:
                continue  # bases that differ only in the loops of what is fused make the same variant
            tried.add(recipe)
            variant = replace(base, recipe=recipe, parts=tuple(parts))
            estimate = estimator.whole(variant.tree, base.estimate)
            if any(part.how is not None and part.rows for part in parts):
                without = [part if part.how is None else replace(part, later=()) for part in parts]
                without = [same.setdefault(part.key, part) for part in without]
                if not _promises(estimate, estimator.whole(program_tree(without), base.estimate)):
                    continue
            yield variant.estimated(estimate)


def _best(variants: Iterable[Variant], most: int) -> list[Variant]:
    """The legal ones with the best scores."""
    legal = (variant for variant in sorted(variants, key=lambda variant: variant.score) if variant.refused is None)
    return list(islice(legal, most))


def _promises(rows: Estimate, loops: Estimate) -> bool:
    """Whether a variant with rows in its regions is worth timing beside the same one with loops there."""
    core = "core_alone_seconds"
    return rows.score <= PROMISE * loops.score or rows.counts[core] <= CORE_PROMISE * loops.counts[core]


def _names(group: Group) -> set[str]:
    return {group.heavy.name, *(f.nest.name for f in group.members)}


def _nests_alone(ranked: Sequence[Variant], estimator: Estimator, most: int) -> Iterator[Variant]:
    """Variants to start from: the `most` best; where no nest has a microkernel, the best in the written order before
    it. Of those with regions that have schedules of their own, the ones with a microkernel, whose neighbours may be
    fused."""
    fitting = [v for v in ranked if not v.scheduled or any(s.kernel for s in v.structures)]
    written = (
        v for v in fitting if not any(isinstance(t, Permute | Tile) for n in v.recipe.nests for t in n.transforms)
    )
    if not any(s.kernel for v in fitting[:1] for s in v.structures):
        yield from (_cut_for_rows(v, estimator) for v in islice(written, 1))
    yield from (_cut_for_rows(v, estimator) for v in fitting[:most])


def _with_schedules(ranked: Sequence[Variant], estimator: Estimator) -> Iterator[Variant]:
    """The best variants that have regions with schedules of their own."""
    fitting = (v for v in ranked if v.scheduled)
    return (_cut_for_rows(v, estimator) for v in islice(fitting, SCHEDULES))


def _cut_for_rows(variant: Variant, estimator: Estimator) -> Variant:
    """The variant with loops that are parallel and innermost cut into one tile per thread, which leaves each a row; so
    are those around a sum in each column of a row, where that promises more."""
    parts = list(variant.parts)
    for place, part in enumerate(parts):
        if part.loops is None or part.rows is not None or part.loops.kernel is not None or part.loops.grid:
            continue
        innermost = _cut_for_threads(part, -1, estimator.threads)
        if innermost is not None:
            parts[place] = innermost
            continue
        around = _cut_for_threads(part, -2, estimator.threads) if _sums_of_integers(variant.program, part) else None
        several = [] if around is None else [part, around]
        if several:
            scores = [estimator.alone(one.after(Vectorize())).score for one in several]
            parts[place] = several[scores.index(min(scores))]
    return Variant.of(variant.origin, tuple(parts), variant.estimate)


def _cut_for_threads(part: Ordered, at: int, threads: int) -> Ordered | None:
    """A nest whose loop at this place from the end is cut into one tile per thread; None where it is not parallel."""
    s = part.loops
    if s is None or len(s.loops) < -at:
        return None
    loop = s.loops[at]
    size = -(-(s.nest.counts[loop.iterator].extent or 0) // threads)
    if loop.name not in s.parallel or loop.within is not None or loop.step != 1 or size < 2 or s.omp_schedule:
        return None
    name = loop.name
    parallel = tuple(f"{name}.0" if other == name else other for other in s.parallel)
    order = tuple(piece for other in s.loops for piece in _pieces(other.name, name))
    cut = (Tile(name, (size,)), Permute(order), Parallelize(parallel))
    before = (t for t in part.transforms if not isinstance(t, Permute | Parallelize))
    return ordered(s.nest, (*before, *cut))


def _sums_of_integers(scop: Scop, part: Ordered) -> bool:
    """Whether all statements of a part add to integers: sums of these may be in the columns of a row
    (kernels.window_sums)."""
    return all(
        isinstance(s.body, Assignment)
        and adds(s.body.op)
        and scop.arrays[s.accesses[s.body.target].array].element.is_int
        for s in part.statements
    )


def _pieces(loop: str, cut: str) -> tuple[str, ...]:
    return (f"{loop}.0", f"{loop}.1") if loop == cut else (loop,)


def into_kernels(
    scop: Scop, nests: Sequence[Ordered], groups: Sequence[Group], refused: dict[str, None]
) -> list[Ordered]:
    """The nests with everything in the epilogues of microkernels that can be."""
    result = list(nests)
    for group in groups:
        members = [f.nest for f in group.members]
        sums = group.heavy.statements[0]
        if all(zeroes_all(f.statement, sums, any_number=False) for f in group.members):
            continue  # the microkernel starts from zero by itself
        while members:
            names = {nest.name for nest in members}
            fuse = Fuse(group.heavy.name)
            tried = [nest.after(fuse) if nest.name in names else nest for nest in result]
            reason = _obstacle(scop, tried, group.heavy)
            if reason is None:
                result = tried
                break
            refused.setdefault(f"{', '.join(sorted(names))} into the microkernel of {group.heavy.name}: {reason}")
            after = [f.nest for f in group.after if f.nest in members]
            members = [n for n in members if n is not after[-1]] if after else members[1:]
    return result


def _obstacle(scop: Scop, nests: Sequence[Ordered], heavy: Nest) -> str | None:
    try:
        groups = groups_of(nests)
    except IllegalVariant as error:
        return error.reason
    place = next(i for i, nest in enumerate(nests) if nest.name == heavy.name)
    loops = nests[place].loops
    return obstacle(scop, loops, groups[place]) if place in groups and loops is not None else None


def _in_rows(
    base: Variant, parts: Sequence[Ordered], gone: Container[str], estimator: Estimator, jams: _Jams
) -> Iterator[list[Ordered]]:
    """The parts of a variant with plain nests and regions in rows of vectors: several iterations of the loops around
    them together where that promises more, past the caches where the output is larger than they are, the usual way,
    and as loops; regions with and without. `gone`: names of nests that a microkernel does away with; `jams`: what was
    found of parts of other bases. Contractions in blocks are left to the microkernels of the search; a matrix times a
    vector is a sum."""
    scop, machine, reassociate = base.program, estimator.machine, base.origin.reassociate
    plain = [
        part
        for part in parts
        if part.loops is not None
        and part.loops.kernel is None
        and not (part.loops.nest.contraction is not None and part.loops.nest.contraction.in_blocks)
        and part.into is None
        and part.name not in gone
    ]
    regions = [part for part in parts if part.how is not None and _worth(scop, part, machine)]
    order = 0 if reassociate else 1
    choices = [[*plain, *regions], plain] if regions else [plain]
    for several in choices:
        large = {part.name: _large_outputs(scop, part.statements, machine, anew=_anew(part)) for part in several}
        for part in several:
            if part.key not in jams:
                jams[part.key] = part, best_jam(part, base.origin.dependences, estimator, reassociate=reassociate)
        if any(jams[part.key][1] for part in several):
            yield _each(parts, {part.name: Vectorize((), order, jams[part.key][1]) for part in several})
        if any(large.values()):
            yield _each(parts, {name: Vectorize(outputs, order) for name, outputs in large.items()})
        if several:
            yield _each(parts, {part.name: Vectorize((), order) for part in several})
    yield list(parts)


def _worth(scop: Scop, region: Ordered, machine: Machine) -> bool:
    """Whether rows do more than a compiler's vectors: in functions, sums and extremes, or stores past the caches."""
    more = any(arithmetic(s).calls or accumulates(scop, s) for s in region.statements)
    return more or bool(_large_outputs(scop, region.statements, machine, anew=_anew(region)))


def _each(parts: Sequence[Ordered], chosen: Mapping[str, Vectorize]) -> list[Ordered]:
    return [part.after(chosen[part.name]) if part.name in chosen else part for part in parts]


def _anew(part: Ordered) -> bool:
    """Whether a part has tiles or fused loops of a schedule of its own."""
    return part.how is not None and not part.how.as_written


def least_past_caches(machine: Machine) -> int:
    """Bytes of an output from which on it may be stored past the caches."""
    return machine.caches[-1].bytes // 2


def _large_outputs(
    scop: Scop, statements: Sequence[Statement], machine: Machine, *, anew: bool = False
) -> tuple[str, ...]:
    """Arrays that statements write, of which there is at least half of what the last cache holds (what is read has the
    other half), and that none comes back to before what was written would have left it: a line that is stored past the
    caches has to be brought back. `anew`: in an order of their own, which may come back at any time to what is not met
    just once."""
    most = least_past_caches(machine)
    names = {a.array for s in statements for a in s.accesses if a.write}
    return tuple(
        sorted(
            name
            for name in names
            if _written_bytes(scop, name, statements) >= most
            and (_met_once(name, statements) if anew else _left_alone(scop, name, statements, most))
        )
    )


def _met_once(name: str, statements: Sequence[Statement]) -> bool:
    """Whether each element of an array is stored to once, and nothing else touches it."""
    using = [a for s in statements for a in s.accesses if a.array == name]
    return len(using) == 1 and bool(using[0].relation.is_injective())


def _written_bytes(scop: Scop, name: str, statements: Sequence[Statement]) -> int:
    """Bytes of the box around what is written of an array; 0 where it has no ends."""
    written = [a.relation.range() for s in statements for a in s.accesses if a.write and a.array == name]
    return _elements(reduce(isl.Set.union, written), 0) * scop.arrays[name].element.bytes


def _left_alone(scop: Scop, name: str, statements: Sequence[Statement], most: int) -> bool:
    """Whether no statement that writes an array reads it, and each has written more than so many bytes whenever another
    one has a turn."""
    using = [s for s in statements if any(a.array == name for a in s.accesses)]
    writing = [s for s in using if any(a.write and a.array == name for a in s.accesses)]
    return not any(not a.write and a.array == name for s in writing for a in s.accesses) and all(
        _elements(s.domain, common_depth(s, other)) * scop.arrays[name].element.bytes > most
        for s in writing
        for other in using
        if other is not s
    )


def _elements(box: isl.Set, first: int) -> int:
    """Points of the box around a set in its dimensions from one on; 0 where they have no ends."""
    ends = [(isl.least(box, d), isl.greatest(box, d)) for d in range(first, isl.arity(box))]
    return math.prod(0 if low is None or high is None else high - low + 1 for low, high in ends)
