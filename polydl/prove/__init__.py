"""Translation validation: the generated C, read back, against the scop as it was read.

Necula, "Translation validation for an optimizing compiler", PLDI 2000; the pairs as in Feautrier, "Dataflow analysis of
array and scalar references", 1991. Nothing of how the variant was made is used but a guess for each printed statement
(polydl.lower.instance_marks), which is checked.
"""

from polydl.prove.proof import prove
from polydl.prove.proof_at_every_size import prove_every_size
from polydl.prove.result import Proof

__all__ = ["Proof", "prove", "prove_every_size"]
