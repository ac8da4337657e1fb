"""Accumulators with an array of their own, factors converted beforehand: only where nothing tells the difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from polydl import load, rank
from polydl.equations.step import applied
from polydl.model.scop import Scop, Statement, Storage
from polydl.options import Options
from polydl.rewrite.canonical import canonical
from polydl.rewrite.materialise import expand
from polydl.rewrite.widen import widen
from polydl.search.proofs import proof_of
from polydl.target.isa import has_register_blocks

HEAD = (
    "void f(int P[restrict 9][9], float A[restrict 9][9], float B[restrict 9][9], float C[restrict 9][9], "
    "double D[restrict 9][9], double E[restrict 9][9])"
)
EACH = "for (int i = 0; i < 9; i++) for (int j = 0; j < 9; j++)"
SUM = "for (int k = 0; k < 9; k++)"


def scop_of(folder: Path, body: str) -> Scop:
    path = folder / "s.c"
    path.write_text(f"#include <math.h>\n{HEAD}\n{{\ndouble s; float t;\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    return load(path).scops[0]


CONTRACTIONS = {
    "a double sum of converted factors": f"{EACH} {{ s = 0; {SUM} s += (double)A[i][k] * B[k][j]; C[i][j] = s; }}",
    "a double sum of float products": f"{EACH} {{ s = 0; {SUM} s += A[i][k] * B[k][j]; C[i][j] = (float)s; }}",
    "one factor is a double": f"{EACH} {{ s = 0; {SUM} s += D[i][k] * B[k][j]; E[i][j] = s * s; }}",
    "in place": f"{EACH} {SUM} D[i][j] += (double)A[i][k] * (double)B[k][j];",
    "a float sum of doubles": f"{EACH} {SUM} C[i][j] += (float)D[i][k] * B[k][j];",
    "an integer factor": f"{EACH} {SUM} D[i][j] -= P[i][k] * E[k][j];",
    "the larger of the sum and the element": (
        f"{EACH} {{ t = 0; {SUM} t += A[i][k] * B[k][j]; C[i][j] = t > C[i][j] ? t : C[i][j]; }}"
    ),
    "read twice": f"{EACH} {{ t = 0; {SUM} t += A[i][k] * B[k][j]; C[i][j] = t; C[j][i] = t + 1; }}",
    "mirrored": (
        "for (int i = 0; i < 9; i++) for (int j = 0; j <= i; j++) "
        f"{{ t = 0; {SUM} t += A[i][k] * A[j][k]; C[i][j] = C[j][i] = t; }}"
    ),
    "unrolled": (
        f"{EACH} {{ s = 0; for (int k = 0; k < 8; k += 2) "
        "{ s += A[i][k] * B[k][j]; s += A[i][k + 1] * B[k + 1][j]; } C[i][j] = s; }"
    ),
    "a row that takes the place of what it is made of": (
        "for (int i = 0; i < 9; i++) { float h[9]; for (int j = 0; j < 9; j++) "
        f"{{ h[j] = 0; {SUM} h[j] += A[i][k] * B[k][j]; }} for (int j = 0; j < 9; j++) A[i][j] = h[j]; }}"
    ),
    "triangles that begin at one": (
        "for (int i = 3; i < 9; i++) for (int j = 1; j < i; j++) "
        f"{{ s = 1; {SUM} s += (double)A[i][k] * A[j][k]; C[i][j] = s; }}"
    ),
}


def _uniform(scop: Scop, statement: Statement) -> bool:
    """Whether all elements that a statement touches are of one type."""
    return len({scop.arrays[access.array].element for access in statement.accesses}) == 1


@pytest.mark.parametrize("case", list(CONTRACTIONS))
def test_it_is_a_contraction(tmp_path: Path, case: str) -> None:
    scop = scop_of(tmp_path, CONTRACTIONS[case])
    assert not any(has_register_blocks(scop, s) and _uniform(scop, s) for s in scop.statements)
    found = canonical(scop)
    assert not found.refused
    assert sum(has_register_blocks(found.scop, s) for s in found.scop.statements) == 1
    assert canonical(found.scop).steps == ()
    assert not {n for n, a in found.scop.arrays.items() if a.storage is Storage.SCRATCH} & found.scop.live_out


@pytest.mark.parametrize("case", list(CONTRACTIONS)[:4])
def test_the_code_is_shown_to_compute_the_same(tmp_path: Path, case: str) -> None:
    options = Options(machine="epyc-zen5", threads=2, space="small")
    ranking = rank(scop_of(tmp_path, CONTRACTIONS[case]), options=options)
    plain = next(v for v in ranking.variants if "polydl_mk_" in v.region() and not any(p.into for p in v.parts))
    assert proof_of(ranking.program, plain, options).holds


LEFT_ALONE = {
    "products of integers may be too large for a double": f"{EACH} {SUM} D[i][j] += P[i][k] * P[k][j];",
    "the sum has fewer digits than a product": f"{EACH} {SUM} C[i][j] += D[i][k] * E[k][j];",
    "rounded to float on the way": f"{EACH} {SUM} D[i][j] += (float)E[i][k] * B[k][j];",
    "what is copied changes": f"{EACH} {{ {SUM} D[i][j] += (double)A[i][k] * B[k][j]; A[i][j] = 0; }}",
    "a matrix times a vector": (
        f"for (int i = 0; i < 9; i++) {{ s = 0; {SUM} s += (double)A[i][k] * B[0][k]; C[0][i] = s; }}"
    ),
    "the sum is used on the way": (
        f"{EACH} {{ t = 0; {SUM} {{ t += A[i][k] * B[k][j]; C[i][k] = t; }} C[i][j] = t; C[j][i] = t; }}"
    ),
    "a row goes on to the next iteration": (
        "float h[9]; for (int j = 0; j < 9; j++) h[j] = 0; for (int i = 0; i < 9; i++) { for (int j = 0; j < 9; j++) "
        f"{{ {SUM} h[j] += A[i][k] * B[k][j]; }} for (int j = 0; j < 9; j++) A[i][j] = h[j]; }}"
    ),
    "a value goes on to the next iteration": (
        f"t = 0; {EACH} {{ {SUM} t += A[i][k] * B[k][j]; C[i][j] = t > C[i][j] ? t : C[i][j]; }}"
    ),
}


@pytest.mark.parametrize("case", list(LEFT_ALONE))
def test_nothing_is_copied(tmp_path: Path, case: str) -> None:
    scop = scop_of(tmp_path, LEFT_ALONE[case])
    tried = applied(scop, expand(scop))
    tried = applied(tried, widen(tried))
    assert tried is scop


@pytest.mark.parametrize("case", list(CONTRACTIONS))
def test_the_order_of_a_sum_may_be_kept(tmp_path: Path, case: str) -> None:
    found = canonical(scop_of(tmp_path, CONTRACTIONS[case]), reassociate=False).scop
    assert not any(array.storage is Storage.SCRATCH for array in found.arrays.values())


@pytest.mark.parametrize("case", list(CONTRACTIONS)[:2])
def test_another_program_is_seen(tmp_path: Path, case: str) -> None:
    steps = canonical(scop_of(tmp_path, CONTRACTIONS[case])).steps
    assert [type(step.rewrite).__name__ for step in steps] == ["Expanded", "Widened"]
    for step in steps:
        assert step.broken() is None
        fewer = replace(step.after, statements=step.after.statements[1:])
        assert replace(step, after=fewer).broken() is not None
