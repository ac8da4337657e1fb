"""The exact check of a whole variant, and recipes that come from outside."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.base.errors import IllegalVariant, InputError
from polydl.dependences.analysis import Dependence
from polydl.dependences.nests import nests
from polydl.model.scop import Scop
from polydl.schedule.ordered import Ordered, ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.recipe import Recipe
from polydl.schedule.tree import Node
from polydl.schedule.tree_check import Checked, broken


def check(
    scop: Scop,
    tree: Node,
    found: Sequence[Dependence],
    *,
    reassociate: bool = True,
    checked: Checked | None = None,
) -> str | None:
    """The exact legality check of a program's tree: why it is illegal, or None. `checked`: see `tree_check.broken`.
    Raises QuotaExceeded."""
    return broken(scop, scop.statements, tree, found, reassociate=reassociate, checked=checked)


def from_recipe(scop: Scop, recipe: Recipe, found: Sequence[Dependence], *, reassociate: bool = True) -> list[Ordered]:
    """The nests in the order of a recipe that was read from text. Raises IllegalVariant, InputError."""
    parts = {nest.name: nest for nest in nests(scop, found)}
    if [n.nest for n in recipe.nests] != list(parts):
        raise InputError(f"the recipe is for nests {[n.nest for n in recipe.nests]}, the scop has {list(parts)}")
    made = [ordered(parts[n.nest], n.transforms) for n in recipe.nests]
    wrong = check(scop, program_tree(made), found, reassociate=reassociate)
    if wrong is not None:
        raise IllegalVariant(wrong)
    return made
