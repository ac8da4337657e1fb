"""Products and sums that go through scalars are contractions again, and only where nothing tells the difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from polydl import load
from polydl.model.scop import Scop
from polydl.rewrite.canonical import canonical
from polydl.rewrite.detiling import Upwards
from polydl.rewrite.linear import linear_sums
from polydl.rewrite.materialise import forward
from polydl.target.isa import kernel_contraction

HEAD = (
    "void f(float alpha, float beta, float A[restrict 8][8], float B[restrict 8][8], float C[restrict 8][8], "
    "float D[restrict 8][8])"
)
EACH = "for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++)"
SUM = "for (int k = 0; k < 8; k++)"


def scop_of(folder: Path, body: str) -> Scop:
    path = folder / "s.c"
    path.write_text(f"#include <math.h>\n{HEAD}\n{{\nfloat s, t, u, p;\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    return load(path).scops[0]


CONTRACTIONS = {
    "alpha and beta": f"{EACH} {{ s = 0; {SUM} s += A[i][k] * B[k][j]; C[i][j] = alpha * s + beta * C[i][j]; }}",
    "subtracted": f"{EACH} {{ s = 0; {SUM} s += A[i][k] * B[k][j]; C[i][j] = C[i][j] - s; }}",
    "negative": f"{EACH} {{ s = 0; {SUM} s -= A[i][k] * B[k][j]; C[i][j] = beta * C[i][j] - 2.0f * s; }}",
    "added with another": f"{EACH} {{ s = 0; {SUM} s += A[i][k] * B[k][j]; C[i][j] += alpha * s + D[i][j]; }}",
    "two sums": (
        f"{EACH} {{ s = 0; t = 0; for (int k = 0; k < 8; k += 2) {{ s += A[i][k] * B[k][j]; "
        "t += A[i][k + 1] * B[k + 1][j]; } C[i][j] = s + t; }"
    ),
    "a hoisted factor": (
        "for (int i = 0; i < 8; i++) for (int k = 0; k < 8; k++) "
        "{ t = alpha * A[i][k]; for (int j = 0; j < 8; j++) C[i][j] += t * B[k][j]; }"
    ),
    "operands in scalars": (
        f"{EACH} {{ s = C[i][j]; {SUM} {{ t = A[i][k]; u = B[k][j]; p = t * u; s += p; }} C[i][j] = s; }}"
    ),
    "fma": f"{EACH} {{ s = 0; {SUM} s = fmaf(A[i][k], B[k][j], s); C[i][j] = s; }}",
    "a scaled sum of sums": (
        f"{EACH} {{ s = 0; t = 0; for (int k = 0; k < 8; k += 2) {{ s += A[i][k] * B[k][j]; "
        "t -= A[i][k + 1] * B[k + 1][j]; } C[i][j] = alpha * (s - t) + beta * C[i][j]; }"
    ),
    "a sum of sums in a scalar": (
        f"{EACH} {{ s = 0; t = 0; for (int k = 0; k < 8; k += 2) {{ s += A[i][k] * B[k][j]; "
        "t += A[i][k + 1] * B[k + 1][j]; } u = s + t + D[0][j]; C[i][j] = u > 0 ? u : 0; }"
    ),
    "a sum added to another": (
        f"{EACH} {{ s = 0; t = 0; for (int k = 0; k < 8; k += 2) {{ s += A[i][k] * B[k][j]; "
        "t += A[i][k + 1] * B[k + 1][j]; } s += t; C[i][j] = fmaxf(s, 0.0f); }"
    ),
    "both": f"{EACH} {{ s = 0; {SUM} {{ t = A[i][k]; s += t * B[k][j]; }} C[i][j] = alpha * s + beta * C[i][j]; }}",
}


@pytest.mark.parametrize("case", list(CONTRACTIONS))
def test_it_is_a_contraction(tmp_path: Path, case: str) -> None:
    scop = scop_of(tmp_path, CONTRACTIONS[case])
    assert all(kernel_contraction(scop, s) is None for s in scop.statements)
    found = canonical(scop)
    assert not found.refused
    assert sum(kernel_contraction(found.scop, s) is not None for s in found.scop.statements) == 1
    assert not [name for name, array in found.scop.arrays.items() if array.is_scalar and name in ("s", "t", "u", "p")]


def test_the_order_of_a_sum_may_be_kept(tmp_path: Path) -> None:
    scop = scop_of(tmp_path, CONTRACTIONS["alpha and beta"])
    assert canonical(scop, reassociate=False).scop.statements == scop.statements


LEFT_ALONE = {
    "a function of it": f"{EACH} {{ s = 0; {SUM} s += A[i][k] * B[k][j]; C[i][j] = s * s + C[i][j]; }}",
    "times another value": f"{EACH} {{ s = 0; {SUM} s += A[i][k] * B[k][j]; C[i][j] = D[i][j] * s + C[i][j]; }}",
    "read twice": f"{EACH} {{ s = 0; {SUM} s += A[i][k] * B[k][j]; C[i][j] = s + C[i][j]; D[i][j] = s; }}",
    "not from zero": f"{EACH} {{ s = 1; {SUM} s += A[i][k] * B[k][j]; C[i][j] = alpha * s + C[i][j]; }}",
    "a matrix times a vector": (
        f"for (int i = 0; i < 8; i++) {{ s = 0; {SUM} s += A[i][k] * B[k][0]; D[i][0] = alpha * s + beta * D[i][0]; }}"
    ),
    "an element of it is read": (
        f"{EACH} {{ s = 0; {SUM} s += C[i][k] * B[k][j]; C[i][j] = alpha * s + beta * C[i][j]; }}"
    ),
    "the element is added to, and then replaced": (
        f"{EACH} {{ s = 0; {SUM} {{ s += A[i][k] * B[k][j]; C[i][j] += D[i][k]; }} C[i][j] = alpha * s + D[i][j]; }}"
    ),
    "the element is added to, and then scaled": (
        f"{EACH} {{ s = 0; {SUM} {{ s += A[i][k] * B[k][j]; C[i][j] += D[i][k]; }} C[i][j] = s + beta * C[i][j]; }}"
    ),
    "the element is added to, and then read": (
        f"{EACH} {{ s = 0; {SUM} {{ s += A[i][k] * B[k][j]; C[i][j] += D[i][k]; }} C[i][j] += s + C[i][j] * 2; }}"
    ),
    "what is added changes": (
        f"{EACH} {{ s = 0; {SUM} {{ s += A[i][k] * B[k][j]; D[i][j] = k; }} C[i][j] += alpha * s + D[i][j]; }}"
    ),
}


@pytest.mark.parametrize("case", list(LEFT_ALONE))
def test_no_sum_is_made_in_place(tmp_path: Path, case: str) -> None:
    assert not list(linear_sums(scop_of(tmp_path, LEFT_ALONE[case])))


NOT_FORWARD = {
    "changed in between": (
        "for (int i = 0; i < 8; i++) for (int k = 0; k < 8; k++) "
        "{ t = A[i][k]; A[i][k] = 0; for (int j = 0; j < 8; j++) C[i][j] += t * B[k][j]; }"
    ),
    "changed by what uses it": (
        "for (int i = 0; i < 8; i++) for (int k = 0; k < 8; k++) "
        "{ t = C[i][k]; for (int j = 0; j < 8; j++) C[i][j] += t * B[k][j]; }"
    ),
    "used elsewhere": (
        "for (int i = 0; i < 8; i++) for (int k = 0; k < 8; k++) "
        "{ t = A[i][k]; for (int j = 0; j < 8; j++) C[i][j] += t * B[k][j]; D[i][k] = t; }"
    ),
    "no contraction": (
        "for (int i = 0; i < 8; i++) { t = A[i][0]; for (int j = 0; j < 8; j++) C[i][j] = t + B[i][j]; }"
    ),
    "of the last iteration": (
        "for (int i = 0; i < 8; i++) for (int k = 0; k < 8; k++) "
        "{ for (int j = 0; j < 8; j++) C[i][j] += t * B[k][j]; t = A[i][k]; }"
    ),
}


@pytest.mark.parametrize("case", list(NOT_FORWARD))
def test_nothing_is_substituted(tmp_path: Path, case: str) -> None:
    assert not list(forward(scop_of(tmp_path, NOT_FORWARD[case])))


DOWN = "for (int i = 7; i >= 0; i--) for (int j = 7; j >= 0; j--)"


@pytest.mark.parametrize(
    ("body", "turned"),
    [
        (f"{DOWN} C[i][j] = A[i][j];", {"i", "j"}),
        (f"{DOWN} for (int k = 7; k >= 0; k--) C[i][j] += A[i][k] * B[k][j];", {"i", "j", "k"}),
        ("for (int i = 6; i >= 0; i--) for (int j = 7; j >= 0; j--) C[i][j] += C[i + 1][j];", {"j"}),
        ("for (int i = 6; i >= 0; i--) for (int j = 6; j >= 0; j--) C[i][j] = C[i + 1][j] - C[i][j + 1];", set()),
        (f"{DOWN} D[0][0] = A[i][j];", set()),
    ],
)
def test_loops_are_turned_round_where_nothing_depends_on_it(tmp_path: Path, body: str, turned: set[str]) -> None:
    scop = scop_of(tmp_path, body)
    found = canonical(scop)
    assert not found.refused
    assert scop.statements[0].descending - found.scop.statements[0].descending == turned
    loops = tuple(((0,) * (d + 1), name) for d, name in enumerate(scop.statements[0].iterators))
    wrong = Upwards(tuple(one for one in loops if one[1] not in turned), reassociate=True)
    statements = tuple(replace(s, descending=frozenset(turned)) for s in scop.statements)
    assert (wrong.broken(scop, replace(scop, statements=statements)) is None) == (len(turned) == len(loops))


def test_the_order_of_a_sum_is_kept_unless_it_may_change(tmp_path: Path) -> None:
    scop = scop_of(tmp_path, f"{DOWN} for (int k = 7; k >= 0; k--) C[i][j] += A[i][k] * B[k][j];")
    assert canonical(scop, reassociate=False).scop.statements[0].descending == {"k"}


@pytest.mark.parametrize("case", ["alpha and beta", "a hoisted factor"])
def test_a_step_to_another_program_is_seen(tmp_path: Path, case: str) -> None:
    scop = scop_of(tmp_path, CONTRACTIONS[case])
    steps = list(linear_sums(scop)) or list(forward(scop))
    assert len(steps) == 1
    step = steps[0]
    assert step.broken() is None
    fewer = replace(step.after, statements=step.after.statements[1:])
    assert replace(step, after=fewer).broken() is not None


def test_a_sum_may_have_no_terms(tmp_path: Path) -> None:
    """With sizes as parameters nobody knows whether there is anything to multiply by alpha."""
    path = tmp_path / "s.c"
    path.write_text(
        "void f(int n, int m, double alpha, double beta, double A[restrict n][m], double B[restrict m][n],\n"
        "       double C[restrict n][n])\n{\nfor (int i = 0; i < n; i++) for (int j = 0; j < n; j++)\n"
        "{ double s = 0; for (int k = 0; k < m; k++) s += A[i][k] * B[k][j];\n"
        "  C[i][j] = alpha * s + beta * C[i][j]; }\n}\n"
    )
    (scop,) = load(path, require_sizes=False).scops
    (step,) = canonical(scop).steps
    assert str(step) == "s: S2 is done to the terms of the sum instead"
