"""`--prove`: which variants are shown to compute what the file computes, before any is compiled."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.prove import Proof, prove
from polydl.search.variant import Variant


def proof_of(scop: Scop, variant: Variant, o: Options) -> Proof:
    """The proof of one variant, for the output with it alone in place of its region; `scop` as it was read.

    Raises QuotaExceeded.
    """
    marked = generate(variant.program, variant.parts, instances=True)
    texts = [splice(scop.source, [(scop, piece)], "") for piece in (variant.generated, marked)]
    return prove(scop, *texts, rewritten=variant.program, reassociate=o.reassociate, cc=o.cc)


def proved(
    scop: Scop, variants: Sequence[Variant], o: Options
) -> tuple[tuple[Variant, ...], dict[str, Proof], tuple[str, ...]]:
    """The variants that are not shown to be wrong, every proof by the variant's id, and what was wrong.

    `scop` as it was read. Raises QuotaExceeded.
    """
    proofs = {variant.id: proof_of(scop, variant, o) for variant in variants}
    wrong = tuple(f"{name}: {proof.reason}" for name, proof in proofs.items() if proof.verdict == "wrong")
    return tuple(v for v in variants if proofs[v.id].verdict != "wrong"), proofs, wrong
