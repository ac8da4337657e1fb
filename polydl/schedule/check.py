"""The exact check of a whole variant, and recipes that come from outside."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.base.errors import IllegalVariant, InputError
from polydl.dependences.analysis import Dependence
from polydl.dependences.nests import nests
from polydl.model.scop import Scop
from polydl.schedule.as_tree import program_tree
from polydl.schedule.fused import groups_by_place
from polydl.schedule.plan import Scheduled
from polydl.schedule.recipe import Recipe
from polydl.schedule.structure import Structure, apply
from polydl.schedule.tree_check import broken


def check(
    scop: Scop, parts: Sequence[Structure | Scheduled], found: Sequence[Dependence], *, reassociate: bool = True
) -> str | None:
    """The exact legality check of a variant, the order of its parts and what is fused into nests included: why it is
    illegal, or None. Raises QuotaExceeded."""
    try:
        tree = program_tree(parts, groups_by_place(parts))
    except IllegalVariant as error:
        return error.reason
    statements = [s for part in parts for s in part.statements]
    return broken(scop, statements, tree, found, reassociate=reassociate)


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
