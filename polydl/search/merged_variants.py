"""Variants whose neighbouring nests share loops (`schedule.transforms.merge`), made of the best ones without.

Which loops may be one is what the dependences say (`search.stretches`). All neighbours that have bound loops share
them, the last of these loops is tiled, and estimates choose among a few tile sizes; or those that save the most by
estimate do. What comes out has passed the exact check.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import field, replace

from msgspec import structs

from polydl.base.errors import IllegalVariant, InputError, QuotaExceeded
from polydl.base.records import dataclass
from polydl.base.units import seconds_text
from polydl.dependences.directions import nest_legality
from polydl.dependences.nests import Nest
from polydl.kernels.pack_ahead import constant_operands, packed_ahead
from polydl.model.isl import quota
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
from polydl.search.candidates import STEP, as_written
from polydl.search.stretches import Apart, Neighbours, Places, Stretch, WhyApart, most_saved
from polydl.search.variant import Variant

BASES = 2
"""Variants of different families that are made of, at most."""
TILES = (14, 16, 24, 28, 32, 48, 56, 64, 96, 112, 128, 192, 224, 256)
"""Iterations of the last shared loop in a tile that are tried: multiples of the usual rows of register blocks."""
KEPT = 4
"""Variants that are kept of each base, the best by estimate."""
CHECKS = 8
"""Variants that are checked of each base, at most."""
STRETCHES = 64
"""Stretches that are tried each by itself, at most; of programs with more, only the longest ones share loops."""
SIZES = 3
"""Tile sizes that these are tried with: those that are best where all of the longest ones have the same."""
PROMISE = 1.1
"""Part of the base's time that a variant may take by estimate: others are not looked at."""
_AHEAD = 8
"""Parallel iterations per thread from which on the load is balanced whatever is left over."""


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


def merged_variants(ranked: Sequence[Variant], estimator: Estimator, o: Options) -> Merging:
    """Variants with shared loops, made of the best ones. Raises QuotaExceeded."""
    found: dict[str, Variant] = {}
    refused: dict[str, None] = {}
    apart: WhyApart = {}
    constant = constant_operands(estimator.scop, estimator.nests)
    within = Within(SPACES[o.space], tuple(dict.fromkeys((*o.prepack, *constant))))
    by_name = {nest.name: nest for nest in estimator.nests}
    for base in _bases(ranked):
        every = list(_Sharing(base, estimator, within, by_name, apart).variants())
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


def _untiled(part: Ordered, base: Variant, threads: int) -> Ordered:
    """A part of a variant; where it is a region whose outermost loops are over tiles, or otherwise such that no
    neighbour can have them in common, its statements with loops as they are written."""
    if part.loops is not None or shareable(part.tree):
        return part
    found, reassociate = base.origin.dependences, base.origin.reassociate
    try:
        with quota(f"{part.name} as it is written", STEP):
            made = as_written(base.program, part.statements, found, reassociate=reassociate, parallel=threads > 1)
    except QuotaExceeded:
        return part  # which says itself why its loops are not shared
    return made if part.rows is None else made.after(Vectorize(part.rows.stream, part.rows.keep_order))


@dataclass(frozen=True, slots=True)
class _Sharing:
    """Makes variants with shared loops of one without."""

    base: Variant
    estimator: Estimator
    within: Within
    nests: Mapping[str, Nest]
    apart: WhyApart
    """To this goes why nests share no loops."""
    own: dict[int, Ordered] = field(default_factory=dict)
    """By place the parts with loops that may be shared."""
    kernels: dict[tuple[str, tuple[str, ...], int, int], NestLoops | None] = field(default_factory=dict)
    """What `_with_kernel` found."""

    def variants(self) -> Iterator[Variant]:
        """All of the longest stretches with shared loops, with each of the tile sizes; and the stretches that save the
        most by estimate, each with a size of its own."""
        neighbours = Neighbours.of(self.base, self.nests, self.estimator.threads, self.apart)
        longest = list(neighbours.longest(self.apart))
        scores: dict[int, float] = {}
        for size in (0, *TILES):
            together: dict[int, Ordered] = {}
            for stretch in longest:
                together |= self.shared(stretch, size, self.apart)
            if together and (made := self.variant(together, self.apart)) is not None:
                scores[size] = made.score
                yield made
        every = [one for one in neighbours.every() if one not in longest]
        if (every or len(longest) > 1) and len(every) + len(longest) <= STRETCHES:
            best = self.chained([*longest, *every], sorted(scores, key=lambda size: scores[size])[:SIZES] or TILES)
            if best is not None:
                yield best

    def chained(self, stretches: Sequence[Stretch], sizes: Sequence[int]) -> Variant | None:
        """The stretches that save the most seconds together, each with the best of the sizes, what each saves alone
        being added up; None where it is best to share nothing."""
        saved: dict[Places, float] = {}
        parts: dict[Places, Mapping[int, Ordered]] = {}
        for stretch in stretches:
            for size in sizes:
                made = self.shared(stretch, size, {})
                variant = self.variant(made, {}) if made else None
                seconds = 0.0 if variant is None else self.base.score - variant.score
                if seconds > saved.get(stretch.places, 0.0):
                    saved[stretch.places], parts[stretch.places] = seconds, made
        together: dict[int, Ordered] = {}
        for places in most_saved(saved):
            together |= parts[places]
        return self.variant(together, {}) if together else None

    def shared(self, stretch: Stretch, size: int, apart: WhyApart) -> Mapping[int, Ordered]:
        """By place the parts of a stretch with shared loops (`made`); none where that can't be."""
        for place in stretch.places:
            self.own.setdefault(place, _untiled(self.base.parts[place], self.base, self.estimator.threads))
        try:
            made = self.made(stretch, size)
        except Apart as why:
            for pair in itertools.combinations([self.base.parts[place].name for place in stretch.places], 2):
                apart.setdefault(pair, str(why))
            return {}
        return dict(zip(stretch.places, made, strict=True))

    def variant(self, changed: Mapping[int, Ordered], apart: WhyApart) -> Variant | None:
        """The variant with some parts changed, with its estimate; None where its tree can't be."""
        base = self.base
        parts = tuple(changed.get(place, part) for place, part in enumerate(base.parts))
        recipe = Recipe((*(part.recipe for part in parts), *base.recipe.nests[len(parts) :]))
        variant = replace(base, recipe=recipe, parts=parts)
        try:
            return variant.estimated(self.estimator.whole(variant.tree, base.estimate))
        except (IllegalVariant, QuotaExceeded) as error:
            for pair in sharing(variant):
                apart.setdefault(pair, error.reason)
            return None

    def made(self, stretch: Stretch, size: int) -> list[Ordered]:
        """The parts of a stretch with shared loops, the last of which is tiled by `size` (0: the loops around it are
        shared alone). Raises Apart where that makes no sense or does not fit."""
        parts = [self.own[place] for place in stretch.places]
        axes = stretch.axes if size else stretch.axes[:-1]
        first = self.nests[parts[0].name]
        trips = [first.counts[first.loops[axis[0]]].extent for axis in axes]
        last = first.loops[stretch.axes[-1][0]]
        if not axes or any(trip is None for trip in trips):
            raise Apart(f"{last} is the only loop that they may share" if not axes else f"how often {last} runs")
        if size and (trips[-1] or 0) <= size:
            raise Apart(f"{last} runs {trips[-1]} times, which is less than two tiles")
        threads = self.estimator.threads
        known = [trip or 1 for trip in trips]
        known[-1] = -(-known[-1] // size) if size else known[-1]
        parallel = _shared_out(known, threads)
        if not parallel and threads > 1:
            raise Apart(f"{threads} threads would share {math.prod(known)} iterations")
        made: list[Ordered] = []
        for number, part in enumerate(parts):
            nest = self.nests[part.name]
            loops = [nest.loops[axis[number]] for axis in axes]
            if nest.contraction is not None and part.loops is not None and part.loops.kernel is not None:
                best = self.with_kernel(nest, loops, size, parallel)
                if best is None:
                    raise Apart(f"no microkernel of {part.name} fits inside of the loops {', '.join(loops)}")
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
                    raise Apart(error.reason) from error
            made.append(one.after(Merge(parts[0].name, len(axes), sizes)))
        return made

    def with_kernel(self, nest: Nest, loops: Sequence[str], size: int, parallel: int) -> NestLoops | None:
        """`_with_kernel`, once for each question."""
        key = nest.name, tuple(loops), size, parallel
        if key not in self.kernels:
            written = {a.array for p in self.base.parts for s in p.statements for a in s.accesses if a.write}
            found = _with_kernel(self.base, nest, loops, size, parallel, written, self.estimator, self.within)
            self.kernels[key] = found
        return self.kernels[key]


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
