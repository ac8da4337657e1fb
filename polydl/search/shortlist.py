"""Chooses which of the ranked variants are compiled and measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from polydl.rank.dnn import worth_timing
from polydl.search.variant import Variant

_ALIKE = 2
"""Variants of one family that are measured before any third: the rankers see hardly any difference inside a family,
and are wrong about a whole family together."""


def shortlist(
    variants: Sequence[Variant], most: int, *, varied: bool = True
) -> tuple[tuple[Variant, ...], tuple[str, ...]]:
    """The first `most` variants that are legal and make C texts of their own; and which were illegal, with the reason.

    The program as it is written is none of them. `varied`: those of one family take turns with others.
    Raises QuotaExceeded.
    """
    chosen: list[Variant] = []
    illegal: list[str] = []
    texts: set[str] = set()
    for variant in _families_in_turn(variants) if varied else variants:
        if len(chosen) == most:
            break
        if not any(nest.transforms for nest in variant.recipe.nests):
            continue
        if variant.illegal is not None:
            illegal.append(f"{variant.id}: {variant.illegal}")
        elif variant.generated.region not in texts:
            texts.add(variant.generated.region)
            chosen.append(variant)
    return tuple(chosen), tuple(illegal)


def _families_in_turn(variants: Sequence[Variant]) -> Iterator[Variant]:
    """The variants in their order, except that those of a family of which `_ALIKE` came already are put last."""
    seen: dict[object, int] = {}
    later: list[Variant] = []
    for variant in variants:
        family = variant.family
        seen[family] = seen.get(family, 0) + 1
        if seen[family] <= _ALIKE:
            yield variant
        else:
            later.append(variant)
    yield from later


def how_many(variants: Sequence[Variant], most: int) -> int:
    """Variants to time: `most`, or fewer where the ranker says how sure it is and only those few may be the best."""
    first = variants[:most]
    if not first or any("uncertainty" not in v.features for v in first):
        return most
    scores, unsure = (np.array(x) for x in zip(*((v.score, v.features["uncertainty"]) for v in first), strict=True))
    return max(min(2, most), worth_timing(scores, unsure, most))
