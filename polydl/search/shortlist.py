"""Chooses which of the ranked variants are compiled and measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from polydl.rank.dnn import worth_timing
from polydl.search.sizes.choose import characters as length_of
from polydl.search.variant import Variant

_ALIKE = 2
"""Variants of one family that are measured before any third: the rankers see hardly any difference inside a family,
and are wrong about a whole family together."""

_LEAST = 2
"""Variants that are measured however long they are."""

_TOO_LONG = 4
"""Times the characters of all that are measured, or of the first one, beyond which another variant is none of them."""

_FAR = 2.0
"""Times the best score beyond which another family is no rival: of 29 programs, the best of the five so chosen has 0.90
of the best variant's speed, 0.85 where families take turns however far they are, the same for 1.2 to 3 (geometric
means)."""


def shortlist(
    variants: Sequence[Variant], most: int, *, varied: bool = True, characters: float = math.inf
) -> tuple[tuple[Variant, ...], tuple[str, ...]]:
    """The first `most` variants that are legal and make C texts of their own; and which were illegal, or too much to
    check or to generate, with the reason.

    The program as it is written is none of them. `varied`: those of one family take turns with others. `characters`: of
    C, from which on no more than two are taken; much longer ones are not, where there is another.
    """
    chosen: list[Variant] = []
    illegal: dict[str, list[str]] = {}
    texts: set[str] = set()
    for variant in _families_in_turn(variants) if varied else variants:
        if len(chosen) == most or (len(chosen) >= _LEAST and compiled(chosen) > characters):
            break
        if variant.as_written:
            continue
        if variant.unusable is not None:
            illegal.setdefault(variant.unusable, []).append(variant.id)
        elif chosen and compiled([variant]) > _TOO_LONG * max(characters, compiled(chosen[:1])):
            continue
        elif variant.generated.region not in texts:
            texts.add(variant.generated.region)
            chosen.append(variant)
    return tuple(chosen), tuple(f"{_some(names)}: {reason}" for reason, names in illegal.items())


def _some(names: Sequence[str]) -> str:
    return names[0] + (f" and {len(names) - 1} others" if len(names) > 1 else "")


def compiled(variants: Sequence[Variant]) -> int:
    """Characters of C that a compiler reads to make each of some variants."""
    return sum(length_of([variant.generated]) for variant in variants)


def _families_in_turn(variants: Sequence[Variant]) -> Iterator[Variant]:
    """The variants in their order, except that those of a family of which `_ALIKE` came already are put behind the
    others, and those that are far worse than the first one last."""
    seen: dict[object, int] = {}
    later: list[Variant] = []
    far: list[Variant] = []
    for variant in variants:
        family = variant.family
        seen[family] = seen.get(family, 0) + 1
        if variant.score > _FAR * variants[0].score:
            far.append(variant)
        elif seen[family] <= _ALIKE:
            yield variant
        else:
            later.append(variant)
    yield from later
    yield from far


def how_many(variants: Sequence[Variant], most: int) -> int:
    """Variants to time: `most`, or fewer where the ranker says how sure it is and only those few may be the best."""
    first = variants[:most]
    if not first or any("uncertainty" not in v.features for v in first):
        return most
    scores, unsure = (np.array(x) for x in zip(*((v.score, v.features["uncertainty"]) for v in first), strict=True))
    return max(min(2, most), worth_timing(scores, unsure, most))
