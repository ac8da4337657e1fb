"""Variants with fused nests, beside those of the search: into microkernels, into one another, in vectors."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from polydl.base.errors import IllegalVariant
from polydl.dependences.nests import Nest
from polydl.lower.emit import generate
from polydl.lower.initial import absorbed_zeroing
from polydl.lower.nest_plan import obstacle
from polydl.model.contraction import array_strides
from polydl.model.isl import to_int
from polydl.model.scop import Array, Scop
from polydl.results import RankedVariant, Ranking
from polydl.rewrite.chains import is_zeroing, plan
from polydl.rewrite.conditions import Group
from polydl.rewrite.fuse import FusedScop, fuse
from polydl.schedule.fused import check, groups_of
from polydl.schedule.recipe import NestRecipe, Recipe
from polydl.schedule.structure import Structure, apply
from polydl.schedule.transforms import Fuse, Parallelize, Permute, Tile, Vectorize
from polydl.target import Machine

LOOKED_AT = 40
"""Variants of the search that are tried as the base of a fused one."""


@dataclass(frozen=True, slots=True)
class Fusion:
    """What fusing makes of a ranked scop."""

    fused: FusedScop
    variants: tuple[RankedVariant, ...]
    """Legal ones, best first; each knows its scop."""
    refused: tuple[str, ...]
    """Groups that are fusable but not in the microkernels of the best variants, with the reason."""


def fused_variants(
    ranking: Ranking, rank_again: Callable[[Scop], Ranking], *, most: int, reassociate: bool = True
) -> Fusion:
    """At most `most` variants with something fused or in rows of vectors. Raises QuotaExceeded.

    Nests that a microkernel computes take their element-wise neighbours into its epilogue. The others are fused loop
    by loop, on a scop of its own, which `rank_again` ranks.
    """
    made = fuse(ranking.scop, into=lambda nest: nest.contraction is None)
    base = rank_again(made.scop) if made.changed else ranking
    refused: dict[str, None] = {}
    found = islice(_variants(base, made, reassociate, refused), most)
    return Fusion(made, tuple(found), tuple(refused))


def _variants(
    ranking: Ranking, made: FusedScop, reassociate: bool, refused: dict[str, None]
) -> Iterator[RankedVariant]:
    groups = plan(ranking.nests).groups
    seen: set[str] = set()
    for variant in _bases(ranking):
        runs = _runs(variant)
        near = [g for g in groups if any(_names(g) <= run for run in runs)]
        parts = _into_kernels(ranking.scop, variant.structures, near, refused)
        apart = {s.name for part in variant.scheduled for s in part.statements}
        inside = [d for d in ranking.dependences if d.source not in apart and d.target not in apart]
        absorbed = absorbed_zeroing(ranking.scop, parts)
        vectors = False
        for structures in _in_rows(ranking.scop, parts, absorbed, ranking.machine, reassociate):
            in_rows = any(s.rows for s in structures)
            if (structures == list(variant.structures) and not made.changed) or (vectors and not in_rows):
                continue
            if check(ranking.scop, structures, inside, reassociate=reassociate) is not None:
                continue
            made_of = replace(variant, structures=tuple(structures))
            region = generate(ranking.scop, made_of.parts).region
            if region in seen or (in_rows and "polydl_row_" not in region):
                continue
            seen.add(region)
            vectors = vectors or in_rows
            recipe = Recipe((*_recipes(variant, structures), *_merge_recipes(made)))
            yield replace(made_of, recipe=recipe, scop=ranking.scop)


def _names(group: Group) -> set[str]:
    return {group.heavy.name, *(f.nest.name for f in (*group.before, *group.after))}


def _runs(variant: RankedVariant) -> list[set[str]]:
    """Names of the nests that no region with a schedule of its own stands between."""
    runs: list[set[str]] = [set()]
    for part in variant.parts:
        if isinstance(part, Structure):
            runs[-1].add(part.nest.name)
        else:
            runs.append(set())
    return runs


def _bases(ranking: Ranking) -> Iterator[RankedVariant]:
    """Variants to start from: the best; where no nest has a microkernel, the best in the written order before it. Of
    those with regions that have schedules of their own, the ones with a microkernel, whose neighbours may be fused."""
    first = islice(ranking.variants, 20 * LOOKED_AT)
    plain = [v for v in first if not v.scheduled or any(s.kernel for s in v.structures)]
    written = [v for v in plain if not any(isinstance(t, Permute | Tile) for n in v.recipe.nests for t in n.transforms)]
    if not any(s.kernel for v in plain[:1] for s in v.structures):
        yield from (_cut_for_rows(v, ranking.threads) for v in written[:1])
    yield from (_cut_for_rows(v, ranking.threads) for v in plain[:LOOKED_AT])


def _cut_for_rows(variant: RankedVariant, threads: int) -> RankedVariant:
    """The variant with a loop that is parallel and innermost cut into one tile a thread, which leaves it a row."""
    recipes, structures = list(variant.recipe.nests), list(variant.structures)
    places = {recipe.nest: place for place, recipe in enumerate(recipes)}
    for number, s in enumerate(structures):
        place = places[s.nest.name]
        last, extent = s.loops[-1:], s.nest.counts[s.loops[-1].iterator].extent if s.loops else None
        if s.kernel is not None or s.grid or not last or last[0].name not in s.parallel or s.rows is not None:
            continue
        size = -(-(extent or 0) // threads)
        if last[0].within is not None or last[0].step != 1 or size < 2 or s.omp_schedule:
            continue
        name = last[0].name
        parallel = tuple(f"{name}.0" if loop == name else loop for loop in s.parallel)
        order = tuple(piece for loop in s.loops for piece in _pieces(loop.name, name))
        cut = (Tile(name, (size,)), Permute(order), Parallelize(parallel))
        transforms = (*(t for t in recipes[place].transforms if not isinstance(t, Permute | Parallelize)), *cut)
        recipes[place] = NestRecipe(recipes[place].nest, transforms)
        structures[number] = apply(s.nest, transforms)
    return replace(variant, recipe=Recipe(tuple(recipes)), structures=tuple(structures))


def _pieces(loop: str, cut: str) -> tuple[str, ...]:
    return (f"{loop}.0", f"{loop}.1") if loop == cut else (loop,)


def _into_kernels(
    scop: Scop, structures: Sequence[Structure], groups: Sequence[Group], refused: dict[str, None]
) -> list[Structure]:
    """The structures with everything in the epilogues of microkernels that can be."""
    result = list(structures)
    for group in groups:
        members = [f.nest for f in (*group.before, *group.after)]
        if all(is_zeroing(nest) for nest in members):
            continue  # the microkernel starts from zero by itself
        while members:
            names = {nest.name for nest in members}
            tried = [replace(s, fused=group.heavy.name) if s.nest.name in names else s for s in result]
            reason = _obstacle(scop, tried, group.heavy)
            if reason is None:
                result = tried
                break
            refused.setdefault(f"{', '.join(sorted(names))} into the microkernel of {group.heavy.name}: {reason}")
            after = [f.nest for f in group.after if f.nest in members]
            members = [n for n in members if n is not after[-1]] if after else members[1:]
    return result


def _obstacle(scop: Scop, structures: Sequence[Structure], heavy: Nest) -> str | None:
    try:
        groups = groups_of(structures)
    except IllegalVariant as error:
        return error.reason
    place = next(i for i, s in enumerate(structures) if s.nest.name == heavy.name)
    return obstacle(scop, structures[place], groups[place]) if place in groups else None


def _in_rows(
    scop: Scop, structures: Sequence[Structure], absorbed: Container[int], machine: Machine, reassociate: bool
) -> Iterator[list[Structure]]:
    """The structures with their plain nests in rows of vectors: past the caches where the output is larger than they
    are, the usual way, and as loops. `absorbed`: positions of nests that a microkernel does away with. Contractions
    are left to the microkernels of the search."""
    plain = [
        s
        for i, s in enumerate(structures)
        if s.kernel is None and s.nest.contraction is None and not s.fused and i not in absorbed
    ]
    choices = []
    if plain:
        large = {s.nest.name: _large_outputs(scop, s.nest, machine) for s in plain}
        order = 0 if reassociate else 1
        if any(large.values()):
            choices.append({s.nest.name: Vectorize(large[s.nest.name], order) for s in plain})
        choices.append({s.nest.name: Vectorize((), order) for s in plain})
    for chosen in choices:
        yield [replace(s, rows=chosen.get(s.nest.name)) for s in structures]
    yield list(structures)


def _large_outputs(scop: Scop, nest: Nest, machine: Machine) -> tuple[str, ...]:
    """Arrays that a nest writes and that are larger than the last cache."""
    names = {a.array for s in nest.statements for a in s.accesses if a.write}
    return tuple(sorted(name for name in names if _bytes(scop.arrays[name]) > machine.caches[-1].bytes))


def _bytes(array: Array) -> int:
    """Size of an array; 0 where it is not known."""
    strides = array_strides(array)
    first = array.extents[0] if array.extents else None
    if not strides or first is None or not first.is_cst():
        return 0
    return to_int(first.max_val()) * strides[0] * array.element.bytes


def _recipes(variant: RankedVariant, structures: Sequence[Structure]) -> list[NestRecipe]:
    of = {s.nest.name: s for s in structures}
    recipes = []
    for nest in variant.recipe.nests:
        structure = of.get(nest.nest)
        if structure is None:
            recipes.append(nest)
        elif structure.fused:
            recipes.append(NestRecipe(nest.nest, (Fuse(structure.fused),)))
        else:
            more = (structure.rows,) if structure.rows is not None else ()
            recipes.append(NestRecipe(nest.nest, (*nest.transforms, *more)))
    return recipes


def _merge_recipes(made: FusedScop) -> list[NestRecipe]:
    return [NestRecipe(m.second, (Fuse(m.first, m.loops),)) for m in made.merges]
