"""`--prove`: proves that variants compute what the file computes, before any is compiled."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.options import Options
from polydl.prove import Proof, prove
from polydl.rewrite.canonical import Canonical
from polydl.search.variant import Variant


def proof_of(program: Canonical, variant: Variant, o: Options) -> Proof:
    """The proof of one variant of a program, for the output with it alone in place of its region.

    Raises QuotaExceeded.
    """
    read = program.read
    marked = generate(variant.program, variant.parts, instances=True)
    texts = [splice(read.source, [(read, piece)], "") for piece in (variant.generated, marked)]
    return prove(program, *texts, rewritten=variant.program, reassociate=o.reassociate, cc=o.cc)


def proved(
    program: Canonical, variants: Sequence[Variant], o: Options
) -> tuple[tuple[Variant, ...], dict[str, Proof], tuple[str, ...]]:
    """The variants that are not shown to be wrong, every proof by the variant's id, and what was wrong.

    Raises QuotaExceeded.
    """
    proofs = {variant.id: proof_of(program, variant, o) for variant in variants}
    wrong = tuple(f"{name}: {proof.reason}" for name, proof in proofs.items() if proof.verdict == "wrong")
    return tuple(v for v in variants if proofs[v.id].verdict != "wrong"), proofs, wrong
