"""Variants whose neighbouring nests share loops (`schedule.transforms.merge`), made of the best ones without.

Which loops may be one is what the dependences say: a loop of a nest and one of a neighbour are bound where every
dependence between the two has the same value of both ("axis binding" in Li et al., "oneDNN Graph Compiler", CGO 2024,
section V, there from the kinds of operators). All neighbours that have bound loops share them; the last of these loops
is tiled, and estimates choose among a few tile sizes. What comes out has passed the exact check.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from polydl.base.errors import IllegalVariant, InputError, QuotaExceeded
from polydl.base.units import seconds_text
from polydl.dependences.analysis import Dependence, Kind
from polydl.dependences.directions import nest_legality
from polydl.dependences.nests import Nest
from polydl.kernels.pack_ahead import constant_operands, packed_ahead
from polydl.lower.packed_ahead import derived
from polydl.model import isl
from polydl.model.isl import quota
from polydl.model.time import common_depth
from polydl.options import Options
from polydl.rank.block_shapes import register_blocks_for
from polydl.rank.estimator import Estimator
from polydl.schedule.limits import SPACES, Limits, Space
from polydl.schedule.loops import LoopTransform, NestLoops, apply
from polydl.schedule.ordered import Ordered, ordered
from polydl.schedule.program_tree import starting_from_zero
from polydl.schedule.quick_legality import is_legal
from polydl.schedule.recipe import Recipe
from polydl.schedule.transforms import Merge, Parallelize, Permute, Tile, Vectorize, pack
from polydl.schedule.transforms.merge import shareable
from polydl.schedule.transforms.register_block import inside_tiles, microkernels
from polydl.schedule.tree import own_statements
from polydl.search.candidates import STEP, as_written
from polydl.search.variant import Variant

BASES = 2
"""Variants of different families that are made of, at most."""
TILES = (14, 16, 24, 28, 32, 48, 56, 64, 96, 112, 128, 192, 224, 256)
"""Iterations of the last shared loop in a tile that are tried: multiples of the usual rows of register blocks."""
KEPT = 4
"""Variants that are kept of each base, the best by estimate."""
CHECKS = 8
"""Variants that are checked of each base, at most."""
PROMISE = 1.1
"""Part of the base's time that a variant may take by estimate: others are not looked at."""
_ONCE = "what depends on constants alone is computed once for all runs"
_ONE_SCHEDULE = "they are scheduled together, as one region"
_AHEAD = 8
"""Parallel iterations per thread from which on the load is balanced whatever is left over."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring parts of a variant with bound loops."""

    places: tuple[int, ...]
    """Among the variant's parts."""
    axes: tuple[tuple[int, ...], ...]
    """Of each loop that they may share its position in each part's nest."""


@dataclass(frozen=True, slots=True)
class Within:
    """What loops of nests are looked at."""

    space: Space
    ahead: tuple[str, ...]
    """Arrays that are packed ahead of time."""


@dataclass(frozen=True, slots=True)
class Merging:
    """What came of sharing loops."""

    variants: tuple[Variant, ...] = ()
    """Legal ones with shared loops, each with its estimate."""
    refused: tuple[str, ...] = ()
    """What was refused, with the reason, for people."""
    apart: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """By the names of two nests, of which the second reads what the first writes, why they share no loops in any of
    the variants."""


class _Apart(Exception):
    """Nests that share no loops; the message says why."""


def merged_variants(ranked: Sequence[Variant], estimator: Estimator, o: Options) -> Merging:
    """Variants with shared loops, made of the best ones. Raises QuotaExceeded."""
    found: dict[str, Variant] = {}
    refused: dict[str, None] = {}
    apart: dict[tuple[str, str], str] = {}
    constant = constant_operands(estimator.scop, estimator.nests)
    within = Within(SPACES[o.space], tuple(dict.fromkeys((*o.prepack, *constant))))
    for base in _bases(ranked):
        every = list(_variants(base, estimator, within, apart))
        worth = [v for v in every if v.score <= PROMISE * base.score]
        if every and not worth:
            best = min(variant.score for variant in every)
            told = f"by estimate {seconds_text(best)} with shared loops, {seconds_text(base.score)} without"
            apart |= {pair: told for variant in every for pair in sharing(variant)}
        legal = 0
        for variant in sorted(worth, key=lambda variant: variant.score)[:CHECKS]:
            if legal == KEPT:
                break
            if variant.refused is None:
                legal += 1
                found.setdefault(variant.id, variant)
            else:
                refused[f"loops not shared: {variant.refused}"] = None
                apart |= dict.fromkeys(sharing(variant), variant.refused)
    together = {pair for variant in found.values() for pair in sharing(variant)}
    left = {pair: why for pair, why in apart.items() if pair not in together}
    return Merging(tuple(found.values()), tuple(refused), left)


def sharing(variant: Variant) -> Iterator[tuple[str, str]]:
    """The names of parts that share loops, in pairs, in their order."""
    gone = set(starting_from_zero(variant.parts).values())
    running = (part for part in variant.parts if part.into is None and part.name not in gone)
    for shared, group in itertools.groupby(running, key=lambda part: part.merge and part.merge.first):
        if shared:
            yield from itertools.combinations([part.name for part in group], 2)


def _bases(ranked: Sequence[Variant]) -> Iterator[Variant]:
    """The best variants that differ in what is fused or in rows."""
    seen: set[object] = set()
    for variant in ranked:
        kind = tuple((part.into and part.into.into, part.rows is not None, part.how is None) for part in variant.parts)
        if kind in seen:
            continue
        seen.add(kind)
        yield variant
        if len(seen) == BASES:
            return


def _untiled(part: Ordered, base: Variant) -> Ordered:
    """A part of a variant; where it is a region whose outermost loops are over tiles, or otherwise such that no
    neighbour can have them in common, its statements with loops as they are written."""
    if part.loops is not None or shareable(part.tree):
        return part
    found, reassociate = base.origin.dependences, base.origin.reassociate
    try:
        with quota(f"{part.name} as it is written", STEP):
            made = as_written(base.program, part.statements, found, reassociate=reassociate)
    except QuotaExceeded:
        return part  # which says itself why its loops are not shared
    return made if part.rows is None else made.after(Vectorize(part.rows.stream, part.rows.keep_order))


def _variants(
    base: Variant, estimator: Estimator, within: Within, apart: dict[tuple[str, str], str]
) -> Iterator[Variant]:
    """Variants of all stretches that share loops, with each of the tile sizes. To `apart` goes why others don't."""
    gone = set(starting_from_zero(base.parts).values())
    nests = {nest.name: nest for nest in estimator.nests}
    stretches = list(_stretches(base, nests, gone, estimator.threads, apart))
    shared = [[_untiled(base.parts[place], base) for place in stretch.places] for stretch in stretches]
    for size in (0, *TILES):
        parts = list(base.parts)
        changed = False
        for stretch, own in zip(stretches, shared, strict=True):
            try:
                made = _made(base, own, stretch, nests, size, estimator, within)
            except _Apart as why:
                for pair in itertools.combinations([base.parts[place].name for place in stretch.places], 2):
                    apart.setdefault(pair, str(why))
                continue
            changed = True
            for place, part in zip(stretch.places, made, strict=True):
                parts[place] = part
        if not changed:
            continue
        beyond = base.recipe.nests[len(base.parts) :]
        recipe = Recipe((*(part.recipe for part in parts), *beyond))
        variant = replace(base, recipe=recipe, parts=tuple(parts))
        try:
            estimate = estimator.whole(variant.tree, base.estimate)
        except (IllegalVariant, QuotaExceeded) as error:
            for pair in sharing(variant):
                apart.setdefault(pair, error.reason)
            continue
        yield variant.estimated(estimate)


def _stretches(
    base: Variant,
    nests: Mapping[str, Nest],
    gone: Container[str],
    threads: int,
    apart: dict[tuple[str, str], str],
) -> Iterator[Stretch]:
    """The longest runs of parts with bound loops, from the first part on. What runs inside of a microkernel, or is done
    away with by one, is in nobody's way; what is computed of constants alone, once for all runs, shares nothing."""
    tree = base.tree
    once = {name for place in derived(base.program, tree).parts for name in own_statements(tree.children[place])}
    own = [p for p, part in enumerate(base.parts) if part.into is None and part.name not in gone]
    inside: dict[str, set[str]] = {}
    for part in base.parts:
        into = part.into.into if part.into is not None else part.name
        inside.setdefault(into, set()).update(s.name for s in part.statements)
    places: list[int] = []
    axes: list[tuple[int, ...]] = []
    for place in own:
        part = base.parts[place]
        if once.intersection(s.name for s in part.statements):
            apart |= {(part.name, other.name): _ONCE for other in base.parts if other is not part}
        if part.loops is None:
            covered = [nest.name for nest in nests.values() if nest.statements[0] in part.statements]
            for pair in itertools.combinations(covered, 2):
                apart.setdefault(pair, _ONE_SCHEDULE)
        if (
            once.intersection(s.name for s in part.statements)
            or part.name not in nests
            or (part.loops is None and part.statements != nests[part.name].statements)
        ):
            if len(places) > 1:
                yield Stretch(tuple(places), tuple(axes))
            places, axes = [], []
            continue
        free = _free(base, nests[part.name], threads)
        try:
            further = _further(base, places, axes, place, free, inside) if places else []
        except _Apart as why:
            apart |= {(base.parts[at].name, part.name): str(why) for at in places}
            further = []
        if further:
            places.append(place)
            axes = further
            continue
        if len(places) > 1:
            yield Stretch(tuple(places), tuple(axes))
        places, axes = [place], [(p,) for p in free]
    if len(places) > 1:
        yield Stretch(tuple(places), tuple(axes))


def _free(base: Variant, nest: Nest, threads: int) -> list[int]:
    """The loops of a nest that may be shared: with several threads, those that may run in parallel."""
    if threads == 1:
        return list(range(len(nest.loops)))
    legality = nest_legality(nest, base.origin.dependences, reassociate=base.origin.reassociate)
    parallel = legality.parallel_loops(nest)
    return [place for place, loop in enumerate(nest.loops) if loop in parallel]


def _further(
    base: Variant,
    places: Sequence[int],
    axes: Sequence[tuple[int, ...]],
    place: int,
    free: Sequence[int],
    inside: Mapping[str, set[str]],
) -> list[tuple[int, ...]]:
    """The axes that a stretch has in common with one more part; none where it reads nothing of the stretch. `free`:
    places of the loops of the part that may be shared. Raises _Apart where nothing binds it."""
    name = base.parts[place].name
    between = [
        (at, d)
        for at, other in enumerate(places)
        for d in base.origin.dependences
        if d.kind is not Kind.RAR and d.source in inside[base.parts[other].name] and d.target in inside[name]
    ]
    beside = -1
    if not any(d.kind is Kind.RAW for _, d in between):
        # Nests that stood in the same loops (bands of one triangle) share these, whatever uses their values.
        beside = _in_common(base.parts[places[-1]], base.parts[place])
    found: list[tuple[int, ...]] = []
    for axis in axes:
        for loop in free if beside < 0 else (p for p in free if p == axis[-1] < beside):
            if all(one[-1] != loop for one in found) and all(_bound(d, axis[at], loop) for at, d in between):
                found.append((*axis, loop))
                break
    if not found and beside < 0:
        raise _Apart(_unbound(base, places, axes, place, free, between))
    return found


def _in_common(one: Ordered, other: Ordered) -> int:
    """How many loops two parts stood in together."""
    return min(common_depth(a, b) for a in one.statements for b in other.statements)


def _unbound(
    base: Variant,
    places: Sequence[int],
    axes: Sequence[tuple[int, ...]],
    place: int,
    free: Sequence[int],
    between: Sequence[tuple[int, Dependence]],
) -> str:
    """Why no loop of a part is one with a loop of a stretch before it."""
    first, second = base.parts[places[-1]].name, base.parts[place].name
    if not axes or not free:
        return f"no loop of {second if axes else first} runs in parallel"
    for loop in free:
        for at, d in between:
            source = axes[0][at]
            if _bound(d, source, loop):
                continue
            if source < isl.domain_arity(d.relation) and loop < isl.range_arity(d.relation):
                ends = isl.coordinates(d.relation.domain())[source], isl.coordinates(d.relation.range())[loop]
                (a, b) = isl.least_pair(d.relation.subtract(isl.meet(d.relation, *ends)))
                pair = f"{d.target}{list(b)} needs {d.array} of {d.source}{list(a)}"
                return f"no loop has the same value in both: {pair} ({d.kind.value})"
    return f"no loop of {second} is that of {first} in every dependence"


def _bound(d: Dependence, source: int, target: int) -> bool:
    """Whether two loops have the same value in all pairs of a dependence."""
    if source >= isl.domain_arity(d.relation) or target >= isl.range_arity(d.relation):
        return False
    return isl.distance(d.relation, source, target) == 0


def _made(
    base: Variant,
    parts: Sequence[Ordered],
    stretch: Stretch,
    nests: Mapping[str, Nest],
    size: int,
    estimator: Estimator,
    within: Within,
) -> list[Ordered]:
    """`parts`, those of a stretch, with shared loops, the last of which is tiled by `size` (0: the loops around it are
    shared alone). Raises _Apart where that makes no sense or does not fit."""
    axes = stretch.axes if size else stretch.axes[:-1]
    first = nests[parts[0].name]
    trips = [first.counts[first.loops[axis[0]]].extent for axis in axes]
    last = first.loops[stretch.axes[-1][0]]
    if not axes or any(trip is None for trip in trips):
        raise _Apart(f"{last} is the only loop that they may share" if not axes else f"how often {last} runs")
    if size and (trips[-1] or 0) <= size:
        raise _Apart(f"{last} runs {trips[-1]} times, which is less than two tiles")
    known = [trip or 1 for trip in trips]
    known[-1] = -(-known[-1] // size) if size else known[-1]
    parallel = _shared_out(known, estimator.threads)
    if not parallel and estimator.threads > 1:
        raise _Apart(f"{estimator.threads} threads would share {math.prod(known)} iterations")
    written = {a.array for p in base.parts for s in p.statements for a in s.accesses if a.write}
    made: list[Ordered] = []
    for number, part in enumerate(parts):
        nest = nests[part.name]
        loops = [nest.loops[axis[number]] for axis in axes]
        if nest.contraction is not None and part.loops is not None and part.loops.kernel is not None:
            best = _with_kernel(base, nest, loops, size, parallel, written, estimator, within)
            if best is None:
                raise _Apart(f"no microkernel of {part.name} fits inside of the loops {', '.join(loops)}")
            made.append(Ordered.nest(best).after(Merge(parts[0].name, len(axes))))
            continue
        sizes = (*(1 for _ in axes[:-1]), size) if size else ()
        one = part
        if part.loops is not None:
            rest = [loop for loop in nest.loops if loop not in loops]
            order = (*loops, *rest)
            how: list[LoopTransform] = [] if order == nest.loops else [Permute(order)]
            how += [Parallelize(tuple(loops[:parallel]))] if parallel else []
            try:
                one = ordered(nest, [*how, *part.later])
            except InputError as error:
                raise _Apart(error.reason) from error
        made.append(one.after(Merge(parts[0].name, len(axes), sizes)))
    return made


def _shared_out(trips: Sequence[int], threads: int) -> int:
    """How many of the shared loops are parallel, from the outermost one on: as many as keep all threads at work."""
    work = 1
    for count, trip in enumerate(trips, start=1):
        work *= trip
        if threads > 1 and (work % threads == 0 or work >= threads * _AHEAD):
            return count
    return len(trips) if 1 < threads <= work else 0


def _with_kernel(
    base: Variant,
    nest: Nest,
    shared: Sequence[str],
    size: int,
    parallel: int,
    written: Container[str],
    estimator: Estimator,
    within: Within,
) -> NestLoops | None:
    """The best loops of a nest with a microkernel inside of the shared ones; None where no block fits."""
    legality = nest_legality(nest, base.origin.dependences, reassociate=base.origin.reassociate)
    limits = Limits(nest, legality, within.space, register_blocks_for(estimator.machine), estimator.threads)
    tiles = (Tile(shared[-1], (size,)),) if size else ()
    outer = (*shared[:-1], f"{shared[-1]}.0") if size else tuple(shared)
    found: list[NestLoops] = []
    for kernel in microkernels(limits):
        if kernel is None or set(kernel.reduce) & set(shared):
            continue
        if size and kernel.rows == shared[-1]:
            # Rows of a block divide those of a tile: the next smaller number that does.
            kernel = structs.replace(kernel, m=next(m for m in range(kernel.m, 0, -1) if size % m == 0))
        try:
            start = apply(nest, (*tiles, inside_tiles(kernel, tiles)))
        except InputError:
            continue
        inner = [loop.name for loop in start.loops if loop.name not in outer]
        if len(inner) + len(outer) != len(start.loops):
            continue
        for rest in itertools.permutations(inner):
            try:
                made = Permute((*outer, *rest)).applied(start)
                made = Parallelize(outer[:parallel]).applied(made) if parallel else made
            except InputError:
                continue
            if is_legal(made, limits.legality):
                found += [one for one in pack.choices(made, limits) if _packs_fit(one, len(outer), written)]
    found = packed_ahead(base.program, nest, found, within.ahead) if within.ahead else found
    return estimator.best_first(nest, found)[0][0] if found else None


def _packs_fit(made: NestLoops, shared: int, written: Container[str]) -> bool:
    """Whether what the program itself makes is copied inside of the shared loops."""
    return all(made.pack_depth(p) >= shared or made.operand(p.operand).array not in written for p in made.packs)
