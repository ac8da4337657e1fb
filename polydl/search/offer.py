"""Which ranked variants are compiled and measured: legal ones, of different families, with texts of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import islpy as isl
import numpy as np

from polydl.lower.emit import Generated, generate, protected
from polydl.measure import Candidate
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.rank.dnn import worth_timing
from polydl.results import RankedVariant, Ranking, why_illegal

_ALIKE = 2
"""Variants of one family that are measured before any third: the rankers see hardly any difference inside a family,
and are wrong about a whole family together."""


def diverse(variants: Sequence[RankedVariant]) -> Iterator[RankedVariant]:
    """The variants in their order, but those of a family that has had its share after all the others. A family has
    the same microkernel, parallel loops and packed operands, and differs in the order and tiles of the other loops."""
    seen: dict[object, int] = {}
    later: list[RankedVariant] = []
    for variant in variants:
        family = (
            tuple((s.fused, s.rows) for s in variant.structures),
            tuple((s.kernel, s.parallel, frozenset(p.operand for p in s.packs)) for s in variant.structures),
            tuple(s.how.base for s in variant.scheduled),
        )
        seen[family] = seen.get(family, 0) + 1
        if seen[family] <= _ALIKE:
            yield variant
        else:
            later.append(variant)
    yield from later


def offer(
    ranking: Ranking, o: Options, *, most: int, varied: bool = True
) -> tuple[tuple[tuple[RankedVariant, Generated], ...], tuple[str, ...]]:
    """The first `most` variants that are legal and make C texts of their own, with these; and what was illegal.

    The original is none of them. `varied`: those of one family take turns with others (`diverse`).
    """
    offered: list[tuple[RankedVariant, Generated]] = []
    illegal: list[str] = []
    texts: set[str] = set()
    for variant in diverse(ranking.variants) if varied else ranking.variants:
        if len(offered) == most:
            break
        if not any(nest.transforms for nest in variant.recipe.nests):
            continue  # the loops as they are written: that is the original
        broken = why_illegal(variant, ranking.scop, ranking.dependences, reassociate=o.reassociate)
        if broken is not None:
            illegal.append(f"{variant.id}: {broken}")
            continue
        code = generate(variant.scop or ranking.scop, variant.parts)
        if code.region not in texts:
            texts.add(code.region)
            offered.append((variant, code))
    return tuple(offered), tuple(illegal)


def how_many(ranking: Ranking, most: int) -> int:
    """Variants to time: `most`, or fewer where the ranker says how sure it is and only those few may be the best."""
    first = ranking.variants[:most]
    if not first or any("uncertainty" not in v.features for v in first):
        return most
    scores, unsure = (np.array(x) for x in zip(*((v.score, v.features["uncertainty"]) for v in first), strict=True))
    return max(min(2, most), worth_timing(scores, unsure, most))


def candidate(name: str, scop: Scop, code: Generated) -> Candidate:
    """Generated code as something to measure."""
    return Candidate(name, protected(scop.source, code.prologue), code.region, terms(scop), "\n".join(code.prepare))


def terms(scop: Scop) -> int:
    """Additions into one element, at most: the product of the iterations of the loops that do not move a target."""
    most = 1
    for statement in scop.statements:
        product = 1
        for d in range(statement.depth):
            low, high = statement.domain.dim_min_val(d), statement.domain.dim_max_val(d)
            if low.is_int() and high.is_int():
                product *= max(1, int(high.sub(low).to_python()) + 1)
        written = 1
        for access in statement.accesses:
            if access.write and not access.relation.is_empty():
                hull = access.relation.range()
                extent = 1
                for d in range(hull.dim(isl.dim_type.set)):
                    extent *= max(1, int(hull.dim_max_val(d).sub(hull.dim_min_val(d)).to_python()) + 1)
                written = max(written, extent)
        most = max(most, -(-product // written))
    return most
