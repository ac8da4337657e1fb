"""`--prove`: which of the offered variants are shown to compute what the file computes, before any is compiled."""

from __future__ import annotations

from polydl.lower.emit import Generated, generate
from polydl.lower.splice import splice
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.prove import Proof, prove
from polydl.results import RankedVariant, Ranking

Offered = tuple[tuple[RankedVariant, Generated], ...]


def proof_of(scop: Scop, ranking: Ranking, variant: RankedVariant, code: Generated, o: Options) -> Proof:
    """The proof of one variant, for the output with it alone in place of its region. Raises QuotaExceeded."""
    own = variant.scop or ranking.scop
    named = generate(own, variant.parts, instances=True)
    texts = [splice(scop.source, [(scop, piece)], "") for piece in (code, named)]
    return prove(scop, *texts, rewritten=own, reassociate=o.reassociate, cc=o.cc)


def proved(
    scop: Scop, ranking: Ranking, offered: Offered, o: Options
) -> tuple[Offered, dict[str, Proof], tuple[str, ...]]:
    """The variants that are not shown to be wrong, every proof by the variant's id, and what was wrong.

    `scop` as it was read. Raises QuotaExceeded.
    """
    proofs = {variant.id: proof_of(scop, ranking, variant, code, o) for variant, code in offered}
    wrong = tuple(f"{name}: {proof.reason}" for name, proof in proofs.items() if proof.verdict == "wrong")
    return tuple(one for one in offered if proofs[one[0].id].verdict != "wrong"), proofs, wrong
