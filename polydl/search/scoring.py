"""Scores variants that the user names by loop strings."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.base.errors import IllegalVariant, InputError, InputErrors
from polydl.dependences.nests import Nest
from polydl.rank.block_shapes import register_blocks_for
from polydl.rank.estimator import Estimator
from polydl.schedule.check import check
from polydl.schedule.loopstring import forced
from polydl.schedule.notation import Written
from polydl.schedule.ordered import Ordered
from polydl.schedule.program_tree import program_tree
from polydl.search.combine import NestChoice, whole
from polydl.search.variant import Origin, Variant


def scored(
    origin: Origin,
    nests: Sequence[Nest],
    lines: Sequence[tuple[Written, Written]],
    estimator: Estimator,
) -> tuple[Variant, ...]:
    """The variants that loop strings with their blocks name, scored, in the order of the lines.

    `nests`: the program's. Raises InputError with the place in the text, IllegalVariant (naming the dependence),
    several of them as InputErrors; QuotaExceeded.
    """
    blocks = register_blocks_for(estimator.machine)
    made: list[tuple[Ordered, ...]] = []
    wrong: list[InputError] = []
    for loops, sizes in lines:
        try:
            one = forced(nests, loops, sizes, blocks)
        except InputError as error:
            wrong.append(error)
            continue
        try:
            broken = check(origin.scop, program_tree(one), origin.dependences, reassociate=origin.reassociate)
        except IllegalVariant as error:
            broken = error.reason
        if broken is not None:
            wrong.append(IllegalVariant(broken, loops.error("").span))
        made.append(one)
    if wrong:
        raise wrong[0] if len(wrong) == 1 else InputErrors(wrong)
    found = [estimator.structures(nest, [own for one in made if (own := one[n].loops)]) for n, nest in enumerate(nests)]
    variants = (whole(origin, NestChoice(one, tuple(f[i] for f in found))) for i, one in enumerate(made))
    return tuple(_shared(variant, estimator) for variant in variants)


def _shared(variant: Variant, estimator: Estimator) -> Variant:
    """The variant with the estimate of its tree, where nests share loops."""
    if all(part.merge is None for part in variant.parts):
        return variant
    return variant.estimated(estimator.whole(variant.tree, variant.estimate))
