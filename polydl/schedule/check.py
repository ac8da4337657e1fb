"""The exact check of a whole variant, and recipes that come from outside."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.base.errors import IllegalVariant, InputError
from polydl.dependences.analysis import Dependence
from polydl.dependences.legality import block_violation, violation
from polydl.dependences.nests import nests
from polydl.model.scop import Scop
from polydl.schedule.recipe import Recipe
from polydl.schedule.structure import Structure, apply, registers, schedule


def check(
    scop: Scop, structures: Sequence[Structure], found: Sequence[Dependence], *, reassociate: bool = True
) -> str | None:
    """The exact legality check of a variant: why it is illegal, or None."""
    for structure in structures:
        names = {s.name for s in structure.nest.statements}
        inside = [d for d in found if d.source in names and d.target in names]
        times, parallel, grid = schedule(structure), structure.parallel_positions, bool(structure.grid)
        summed = structure.summed_block
        if summed is not None and any(other.fused == structure.nest.name for other in structures):
            return f"what is fused into {structure.nest.name} would see a part of its sums"
        broken = violation(inside, times, parallel=parallel, reassociate=reassociate, grid=grid, summed=summed)
        broken = broken or block_violation(inside, times, registers(structure))
        if broken is not None:
            return str(broken)
    place = {s.name: i for i, part in enumerate(structures) for s in part.nest.statements}
    for d in found:
        if place[d.source] > place[d.target]:
            return f"{d.kind.value} dependence on {d.array}: {d.target} would run before {d.source}"
    return None


def from_recipe(
    scop: Scop, recipe: Recipe, found: Sequence[Dependence], *, reassociate: bool = True
) -> list[Structure]:
    """The structures of a recipe that was read from text. Raises IllegalVariant, InputError."""
    parts = {nest.name: nest for nest in nests(scop, found)}
    if [n.nest for n in recipe.nests] != list(parts):
        raise InputError(f"the recipe is for nests {[n.nest for n in recipe.nests]}, the scop has {list(parts)}")
    structures = [apply(parts[n.nest], n.transforms) for n in recipe.nests]
    broken = check(scop, structures, found, reassociate=reassociate)
    if broken is not None:
        raise IllegalVariant(broken)
    return structures
