"""Scores of variants that somebody names, as loop strings."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Unpack

from polydl.base.errors import IllegalVariant, InputError, InputErrors
from polydl.dependences.analysis import dependences
from polydl.dependences.nests import nests
from polydl.model.scop import Scop
from polydl.options import Options, RankChanges
from polydl.rank import rankers
from polydl.rank.blocks import register_blocks_for
from polydl.rank.ranker import Ranker
from polydl.results import Origin, RankedVariant, Ranking
from polydl.rewrite.dead import without_dead
from polydl.rewrite.scalars import in_place
from polydl.schedule.check import check
from polydl.schedule.loopstring import forced
from polydl.schedule.notation import Written
from polydl.schedule.recipe import Recipe
from polydl.schedule.structure import Structure, apply
from polydl.target import Machine


def score(
    source: Scop,
    given: Sequence[tuple[Written, Written]],
    options: Options | None = None,
    *,
    machine: Machine | str | None = None,
    ranker: Ranker | None = None,
    **changes: Unpack[RankChanges],
) -> Ranking:
    """Score the variants that loop strings with their blocks name; nothing is compiled or run.

    `machine`: a preset, a TOML file or a `Machine`. The result's variants are in the order given, not in that of their
    scores. Raises InputError with the place in the text, IllegalVariant (naming the dependence), several of them as
    InputErrors; QuotaExceeded.
    """
    o = (options or Options()).changed(**changes)
    scop = in_place(without_dead(source), reassociate=o.reassociate)
    start = time.perf_counter()
    if isinstance(machine, str):
        o = o.changed(machine=machine)
    machine = machine if isinstance(machine, Machine) else o.target()
    threads = o.thread_count(machine)
    found = dependences(scop, reads=False)
    parts = nests(scop, found)
    blocks = register_blocks_for(machine)
    recipes: list[Recipe] = []
    structures: list[list[Structure]] = []
    wrong: list[InputError] = []
    for loops, sizes in given:
        try:
            recipe = forced(parts, loops, sizes, blocks)
            made = [apply(part, one.transforms) for part, one in zip(parts, recipe.nests, strict=True)]
        except InputError as error:
            wrong.append(error)
            continue
        broken = check(scop, made, found, reassociate=o.reassociate)
        if broken is not None:
            wrong.append(IllegalVariant(broken, loops.error("").span))
        recipes.append(recipe)
        structures.append(made)
    if wrong:
        raise wrong[0] if len(wrong) == 1 else InputErrors(wrong)
    ranker = ranker or rankers.usable(o.ranker)
    scored = [ranker.rank(scop, part, [s[n] for s in structures], machine, threads) for n, part in enumerate(parts)]
    origin = Origin(scop, found, o.reassociate)
    variants = []
    for i, (recipe, made) in enumerate(zip(recipes, structures, strict=True)):
        features: dict[str, float] = {}
        for one in scored:
            for name, value in one.features(i).items():
                features[name] = features.get(name, 0.0) + value
        total = sum(float(one.scores[i]) for one in scored)
        variants.append(RankedVariant(recipe, tuple(made), total, features, origin=origin))
    seconds = time.perf_counter() - start
    return Ranking(scop, found, parts, tuple(variants), len(variants), {}, machine, ranker.name, threads, seconds)
