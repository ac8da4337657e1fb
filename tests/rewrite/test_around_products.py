"""Scalars on both sides of a product: parted where it is alone in its loops then, and nothing tells the difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from polydl import load
from polydl.dependences.analysis import dependences
from polydl.dependences.nests import nests
from polydl.equations.step import applied
from polydl.model.scop import Scop
from polydl.rewrite.around_products import around_products
from polydl.rewrite.canonical import canonical

HEAD = "void f(float A[restrict 9][9], float B[restrict 9][9], float C[restrict 9][9], float D[restrict 9])"
PRODUCT = "for (int j = 0; j < 9; j++) for (int k = 0; k < 9; k++) C[i][j] += A[i][k] * B[k][j];"
ROW = "for (int j = 0; j < 9; j++)"


def scop_of(folder: Path, body: str) -> Scop:
    path = folder / "s.c"
    path.write_text(f"{HEAD}\n{{\nfloat s, t;\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    return load(path).scops[0]


PARTED = {
    "a divisor": (f"for (int i = 0; i < 9; i++) {{ t = A[i][i]; {PRODUCT} {ROW} C[i][j] /= t; }}", ["Saved"]),
    "two scalars": (
        f"for (int i = 0; i < 9; i++) {{ t = A[i][i]; s = t * 2; {PRODUCT} {ROW} C[i][j] = C[i][j] * t + s; }}",
        ["Saved", "Saved"],
    ),
    "a sum that is needed behind the product": (
        f"for (int i = 0; i < 9; i++) {{ s = 0; {ROW} s += A[i][j]; {PRODUCT} {ROW} C[i][j] /= s; }}",
        ["Saved"],
    ),
    "a number in front of the product": (
        f"for (int i = 0; i < 9; i++) {{ s = 0; {PRODUCT} {ROW} s += C[i][j]; D[i] = s; }}",
        ["Sinking"],
    ),
    "a sum that goes on behind the product": (
        f"for (int i = 0; i < 9; i++) {{ s = A[i][0]; {PRODUCT} {ROW} s += C[i][j]; D[i] = s; }}",
        ["Expanded"],
    ),
}
STAY = {
    "nothing behind the product reads it": f"for (int i = 0; i < 9; i++) {{ t = A[i][i]; D[i] = t; {PRODUCT} }}",
    "the product reads it": (
        "for (int i = 0; i < 9; i++) { t = A[i][i]; for (int j = 0; j < 9; j++) for (int k = 0; k < 9; k++) "
        "C[i][j] += t * A[i][k] * B[k][j]; D[i] /= t; }"
    ),
    "the product depends on what is behind it": (
        f"for (int i = 0; i < 8; i++) {{ t = A[i][i]; {PRODUCT} {ROW} A[i + 1][j] = C[i][j] / t; }}"
    ),
    "a sum in one loop": (
        "for (int i = 0; i < 9; i++) { t = A[i][i]; for (int k = 0; k < 9; k++) D[i] += A[i][k] * B[0][k]; D[i] /= t; }"
    ),
}


@pytest.mark.parametrize("case", list(PARTED))
def test_the_product_is_alone(tmp_path: Path, case: str) -> None:
    body, names = PARTED[case]
    scop = scop_of(tmp_path, body)
    assert not any(nest.contraction for nest in nests(scop, dependences(scop, reads=False)))
    steps = list(around_products(scop))
    assert [type(step.rewrite).__name__ for step in steps] == names
    assert all(step.broken() is None for step in steps)
    made = applied(scop, steps)
    parts = nests(made, dependences(made, reads=False))
    assert sum(nest.contraction is not None for nest in parts) == 1
    found = canonical(scop)
    assert not found.refused
    assert canonical(found.scop).steps == ()


@pytest.mark.parametrize("case", list(STAY))
def test_others_stay(tmp_path: Path, case: str) -> None:
    assert not list(around_products(scop_of(tmp_path, STAY[case])))


@pytest.mark.parametrize("case", list(PARTED))
def test_another_program_is_seen(tmp_path: Path, case: str) -> None:
    """The check looks at both programs, whatever made the second one."""
    step = list(around_products(scop_of(tmp_path, PARTED[case][0])))[-1]
    wrong = replace(step.after, statements=step.after.statements[:-1])
    assert replace(step, after=wrong).broken() is not None


def test_attention_with_a_running_maximum(tmp_path: Path) -> None:
    """Two products alone in their loops, and between them the rest of a softmax's row in one nest."""
    text = (Path(__file__).parents[2] / "experiments" / "kernels" / "attention_online.c").read_text(encoding="utf-8")
    path = tmp_path / "s.c"
    path.write_text(f"#define SCALE 0.25f\n{text}", encoding="utf-8")
    found = canonical(load(path, defines={"HEADS": "4", "S": "77", "D": "32"}).scops[0])
    assert not found.refused
    parts = nests(found.scop, found.dependences)
    assert sum(nest.contraction is not None for nest in parts) == 2
    (row,) = [nest for nest in parts if any("expf" in str(s.body) for s in nest.statements)]
    assert row.loops == ("h", "i")
    assert {"most", "sum"} <= {a.array for s in row.statements for a in s.accesses if a.write}
    assert canonical(found.scop).steps == ()
