"""Sums that scatter become sums that gather: gradients of convolutions, transposed ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

import polydl
from polydl.equations.step import Step
from polydl.measure import Status
from polydl.model import isl
from polydl.model.scop import Assignment, Scop
from polydl.model.strides import strides_of
from polydl.rewrite.canonical import canonical
from polydl.rewrite.reduction_fission import part_of
from polydl.rewrite.scatter_to_gather import Gathered, gathered
from polydl.target.isa import has_register_blocks

HEAD = "void f(const float x[restrict 40][40], const float w[restrict 9][40], float y[restrict 200][40], int n)"


def scop_of(body: str) -> Scop:
    (scop,) = polydl.load(f"{HEAD}\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n", sizes={"n": 33}).scops
    return scop


def scattering(subscript: str, condition: str = "") -> str:
    return (
        "for (int o = 0; o < 32; o++) for (int k = 0; k < 24; k++) for (int r = 0; r < 5; r++) "
        f"for (int j = 0; j < 36; j++) {condition} y[{subscript}][j] += x[o][k] * w[r][j];"
    )


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        (scattering("o + r"), 1),
        (scattering("2 * o + r"), 2),
        (scattering("3 * o + 2 * r + 1"), 3),
        (scattering("2 * o + 4 * r"), 1),
        (scattering("4 * o + 2 * r"), 2),
        (scattering("2 * o + r - 2", "if (2 * o + r >= 2 && 2 * o + r < 60)"), 2),
    ],
)
def test_each_remainder_is_a_sum(body: str, parts: int) -> None:
    scop = scop_of(body)
    (step,) = gathered(scop)
    assert isinstance(step.rewrite, Gathered)
    assert step.broken() is None
    ((_, own),) = step.rewrite.parts
    assert len(own) == parts
    found = canonical(scop)
    assert not found.refused
    assert sum(has_register_blocks(found.scop, s) for s in found.scop.statements) >= parts


@pytest.mark.parametrize("body", [scattering("o - r + 4"), scattering("o + r + k")])
def test_other_sums_stay(body: str) -> None:
    assert not list(gathered(scop_of(body)))


GRADIENT = "void g(float dx[4][16][28][28], const float dy[4][16][14][14], const float w[16][16][3][3])"
OUTPUTS = (
    "for (int n = 0; n < 4; n++) for (int k = 0; k < 16; k++) for (int y = 0; y < 14; y++) for (int x = 0; x < 14; x++)"
)
WINDOW = "for (int r = 0; r < 3; r++) for (int s = 0; s < 3; s++)"
INSIDE = "if (2 * y - 1 + r >= 0 && 2 * y - 1 + r < 28 && 2 * x - 1 + s >= 0 && 2 * x - 1 + s < 28)"
LEFT_OUT = (
    "{ int i = 2 * y - 1 + r, j = 2 * x - 1 + s; if (i < 0 || i >= 28) continue; if (j < 0 || j >= 28) continue; "
    "dx[n][c][i][j] += w[k][c][r][s] * dy[n][k][y][x]; }"
)
ADDS = "dx[n][c][2 * y - 1 + r][2 * x - 1 + s] += w[k][c][r][s] * dy[n][k][y][x];"
HELD = "dx[n][c][2 * y - 1 + r][2 * x - 1 + s] += w[k][c][r][s] * g;"


@pytest.mark.parametrize(
    "body",
    [
        f"for (int c = 0; c < 16; c++) {OUTPUTS} {WINDOW} {INSIDE} {ADDS}",
        f"{OUTPUTS} {WINDOW} {INSIDE} for (int c = 0; c < 16; c++) {ADDS}",
        f"{OUTPUTS} for (int c = 0; c < 16; c++) {WINDOW} {LEFT_OUT}",
        f"{OUTPUTS} {{ float g = dy[n][k][y][x]; for (int c = 0; c < 16; c++) {WINDOW} {INSIDE} {HELD} }}",
    ],
)
def test_gradients_under_conditions_in_any_order_of_loops(body: str) -> None:
    (scop,) = polydl.load(f"{GRADIENT}\n{{\n{body}\n}}\n").scops
    found = canonical(scop)
    assert not found.refused and any(isinstance(step.rewrite, Gathered) for step in found.steps)
    assert sum(has_register_blocks(found.scop, s) for s in found.scop.statements) >= 4


GATHERS = (
    "for (int n = 0; n < 4; n++) for (int c = 0; c < 16; c++) for (int i = 0; i < 28; i++) for (int j = 0; j < 28; j++)"
)
REMAINDERS = (
    "{ if ((i + 1 - r) % 2 || (j + 1 - s) % 2) continue; int y = (i + 1 - r) / 2, x = (j + 1 - s) / 2; "
    "if (y < 0 || y >= 14 || x < 0 || x >= 14) continue; "
)
WHOLE = (
    "if (i + 1 - r >= 0 && (i + 1 - r) % 2 == 0 && (i + 1 - r) / 2 < 14 && "
    "j + 1 - s >= 0 && (j + 1 - s) % 2 == 0 && (j + 1 - s) / 2 < 14) "
)
TAKEN = "dx[n][c][i][j] += w[k][c][r][s] * dy[n][k]"


@pytest.mark.parametrize(
    "body",
    [
        f"{GATHERS} for (int k = 0; k < 16; k++) {WINDOW} {REMAINDERS} {TAKEN}[y][x]; }}",
        f"{GATHERS} for (int k = 0; k < 16; k++) {WINDOW} {WHOLE} {TAKEN}[(i + 1 - r) / 2][(j + 1 - s) / 2];",
        f"for (int k = 0; k < 16; k++) {WINDOW} {GATHERS} {WHOLE} {TAKEN}[(i + 1 - r) >> 1][(j + 1 - s) >> 1];",
    ],
)
def test_sums_where_a_remainder_is_zero(body: str) -> None:
    """The loop leads along the result, and the quotient to what is added."""
    (scop,) = polydl.load(f"{GRADIENT}\n{{\n{body}\n}}\n").scops
    found = canonical(scop)
    assert not found.refused and any(isinstance(step.rewrite, Gathered) for step in found.steps)
    assert sum(has_register_blocks(found.scop, s) for s in found.scop.statements) >= 4


def test_a_flat_array_that_a_flat_loop_clears() -> None:
    """The loop that clears it is one over its rows, so that the sum has the shape of the array."""
    (scop,) = polydl.load(
        "void g(float *restrict dx, const float *restrict dy, const float *restrict w)\n{\n"
        "for (int l = 0; l < 4 * 16 * 28 * 28; l++) dx[l] = 0.0f;\n"
        f"{OUTPUTS} for (int c = 0; c < 16; c++) {WINDOW} {{ int i = 2 * y - 1 + r, j = 2 * x - 1 + s; "
        "if (i >= 0 && i < 28 && j >= 0 && j < 28) dx[((n * 16 + c) * 28 + i) * 28 + j] += "
        "w[((k * 16 + c) * 3 + r) * 3 + s] * dy[((n * 16 + k) * 14 + y) * 14 + x]; }\n}\n"
    ).scops
    found = canonical(scop)
    assert not found.refused and any(isinstance(step.rewrite, Gathered) for step in found.steps)
    assert sum(has_register_blocks(found.scop, s) for s in found.scop.statements) >= 4
    clearing = next(s for s in found.scop.statements if isinstance(s.body, Assignment) and s.body.op == "=")
    assert strides_of(found.scop, clearing, clearing.accesses[-1]) is not None


@pytest.mark.parametrize("wrong", ["shifted", "another remainder", "one is missing", "twice"])
def test_mistakes_are_found(wrong: str) -> None:
    (step,) = gathered(scop_of(scattering("2 * o + r")))
    first, *others = step.after.statements
    if wrong == "shifted":
        # Reads x of the next o.
        read = next(n for n, a in enumerate(first.accesses) if a.array == "x")
        moved = isl.Map("{ x[a, b] -> x[a + 1, b] }")
        relation = first.accesses[read].relation.apply_range(moved)
        accesses = [replace(a, relation=relation) if n == read else a for n, a in enumerate(first.accesses)]
        statements = (replace(first, accesses=tuple(accesses)), *others)
    elif wrong == "another remainder":
        filters = [next(n for n, a in enumerate(s.accesses) if a.array == "w") for s in (first, *others)]
        relation = isl.domain_named(others[0].accesses[filters[1]].relation, first.name)
        accesses = [replace(a, relation=relation) if n == filters[0] else a for n, a in enumerate(first.accesses)]
        statements = (replace(first, accesses=tuple(accesses)), *others)
    elif wrong == "one is missing":
        statements = (first,)
    else:
        again = part_of(others[0], others[0].domain, "again", (99, *others[0].position[1:]))
        statements = (first, *others, again)
    mutated = replace(step.after, statements=tuple(statements))
    assert Step(step.rewrite, step.before, mutated).broken() is not None


def test_it_computes_the_same() -> None:
    text = f"{HEAD}\n{{\n{scattering('3 * o + 2 * r + 1')}\n}}\n"
    done = polydl.optimize(text, sizes={"n": 33}, space="small", top_k=3, budget=None)
    report = done.scops[0].report
    assert report is not None
    assert {m.status for m in report.measurements} == {Status.VERIFIED}
