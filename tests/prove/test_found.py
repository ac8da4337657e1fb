"""Mistakes of the code generator that the proof has found."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.dependences.analysis import dependences
from polydl.dependences.nests import nests
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.pipeline import load, rank
from polydl.prove import prove
from polydl.rewrite.canonical import canonical
from polydl.schedule.ordered import ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.transforms import Vectorize
from polydl.search.proofs import proof_of
from tests.programs.corpus import catalogue
from tests.prove.mutations import OPTIONS

HALF = """\
void half(float A[restrict 64][64], float B[restrict 64][64])
{
#pragma scop
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++)
            B[i][j] = A[i][j] + 1 / 2;
#pragma endscop
}
"""


def test_a_row_whose_first_iteration_is_a_sum() -> None:
    """Its length was the last iteration minus the first without parentheses."""
    entry = catalogue()["lu_right"]
    (scop,) = load(entry.path, options=OPTIONS, defines=entry.defines(entry.sizes[0])).scops
    parts = [ordered(nest, (Vectorize(),)) for nest in nests(scop, dependences(scop, reads=False))]
    texts = [
        splice(scop.source, [(scop, generate(scop, program_tree(parts), instances=marks))], "")
        for marks in (False, True)
    ]
    assert "polydl_row_" in texts[0]
    assert prove(canonical(scop), *texts).holds


@pytest.mark.parametrize("place", range(3))
def test_a_division_of_integers_stays_one(tmp_path: Path, place: int) -> None:
    """In vectors it was one of floating-point numbers."""
    path = tmp_path / "half.c"
    path.write_text(HALF)
    (scop,) = load(path, options=OPTIONS).scops
    ranking = rank(scop, options=OPTIONS)
    variant = ranking.variants[place]
    assert variant.illegal is None
    assert "_all(1)" not in "".join(variant.generated.prologue)
    assert proof_of(ranking.program, variant, OPTIONS).holds
