"""`--prove`: proves that variants compute what the file computes, before any is compiled."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.options import Options
from polydl.rewrite.canonical import Canonical
from polydl.search.sizes.code import EverySize, Symbolic
from polydl.search.variant import Variant

if TYPE_CHECKING:
    from polydl.prove import Proof


def proof_of(program: Canonical, variant: Variant, o: Options) -> Proof:
    """The proof of one variant of a program, for the output with it alone in place of its region.

    Raises QuotaExceeded.
    """
    from polydl.prove import prove

    read = program.read
    marked = generate(variant.program, variant.tree, instances=True)
    texts = [splice(read.source, [(read, piece)], "") for piece in (variant.generated, marked)]
    return prove(program, *texts, rewritten=variant.program, reassociate=o.reassociate, cc=o.cc)


def proved_for_all_sizes(symbolic: Symbolic, made: EverySize | str, o: Options) -> EverySize | str:
    """The code for all values of a program's parameters with its proof, where the options ask for one; what is shown to
    be wrong is a reason in place of it."""
    if isinstance(made, str) or not o.prove:
        return made
    from polydl.prove import Proof, prove_every_size

    if made.marked is None:
        return replace(made, proof=Proof("open", (), reason="code of its kind is not read back"))
    proof = prove_every_size(
        symbolic.read, made.generated, made.marked, program=symbolic.program, rewritten=made.rewritten,
        reassociate=o.reassociate, cc=o.cc,
    )  # fmt: skip
    if proof.verdict == "wrong":
        return f"other code for them is shown to be wrong: {proof.reason}"
    return replace(made, marked=None, rewritten=(), proof=proof)
